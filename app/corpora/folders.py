"""Folders: their uses by name, in the languages and spellings of mail programs.

RFC 6154 has attributes for these uses, which an IMAP server keeps in its own files; in
the mail itself there is only the name.  Names are compared whole, decoded from modified
UTF-7 (RFC 3501 section 5.1.3), and without regard to case.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from typing import Final, Literal
from unicodedata import normalize

Use = Literal["junk", "sent", "drafts", "trash", "outbox"]

# What Dovecot, Exchange and Outlook, Gmail, Yahoo, Apple Mail, Thunderbird, Roundcube
# and GMX call them by themselves.
_NAMES: Final[dict[Use, str]] = {
    "junk": """
        junk, junk e-mail, junk email, junk mail, junk-e-mail, junk-email, junk-mail,
        spam, spambox, spam mail, bulk mail, bulk,
        unerwünscht, unerwünschte werbung, unerwünschte e-mail, unerwünschte e-mails,
        spamverdacht, spam-verdacht, werbung,
        courrier indésirable, indésirable, indésirables, pourriel, pourriels,
        correo no deseado, correo basura, no deseado, posta indesiderata, indesiderata,
        lixo eletrônico, lixo eletrónico, lixo electrónico, correio publicitário,
        ongewenste e-mail, ongewenste mail, ongewenst, reclame,
        wiadomości-śmieci, niechciane, niechciana poczta, skräppost, roskaposti,
        uønsket mail, uønsket post, uønsket e-mail, uønsket e-post, søppelpost,
        søppel-e-post, nevyžádaná pošta, nevyžádané, nevyžiadaná pošta, levélszemét,
        mesaje nedorite, önemsiz e-posta, önemsiz, istenmeyen, gereksiz,
        ανεπιθύμητη αλληλογραφία, ανεπιθύμητα, нежелательная почта, спам,
        небажана пошта, нежелана поща, דואר זבל, البريد العشوائي,
        迷惑メール, 垃圾邮件, 垃圾郵件, 정크 메일, 스팸, 스팸메일함
    """,
    "sent": """
        sent, sent items, sent mail, sent messages, sent-mail, sent-items,
        gesendet, gesendete objekte, gesendete elemente, gesendete nachrichten,
        envoyés, éléments envoyés, messages envoyés, courrier envoyé,
        enviados, elementos enviados, mensajes enviados, itens enviados,
        inviati, inviata, posta inviata, messaggi inviati,
        verzonden, verzonden items, verzonden berichten, wysłane, elementy wysłane,
        skickat, skickade, skickade objekt, sendt, sendt post, sendt e-post,
        sendte elementer, lähetetyt, odeslané, odeslaná pošta, odoslané,
        odoslaná pošta, elküldött, elküldött elemek, trimise, elemente trimise,
        gönderilmiş, gönderilmiş öğeler, gönderilenler, απεσταλμένα, отправленные,
        надіслані, изпратени, 送信済み, 送信済みアイテム, 送信済みトレイ, 已发送,
        已发送邮件, 寄件備份, 보낸 편지함, 보낸편지함, 보낸메일함
    """,
    "drafts": """
        drafts, draft, entwürfe, brouillons, borradores, bozze, rascunhos, concepten,
        kopie robocze, wersje robocze, szkice, utkast, kladder, luonnokset, koncepty,
        piszkozatok, ciorne, taslaklar, πρόχειρα, черновики, чернетки, чернови,
        下書き, 草稿, 草稿箱, 임시 보관함, 임시보관함, templates, vorlagen, modèles
    """,
    "trash": """
        trash, bin, deleted, deleted items, deleted messages, deleted-items,
        papierkorb, gelöscht, gelöschte objekte, gelöschte elemente, corbeille,
        éléments supprimés, messages supprimés, papelera, elementos eliminados,
        eliminados, cestino, posta eliminata, lixeira, lixo, itens excluídos,
        itens eliminados, prullenbak, verwijderde items, kosz, elementy usunięte,
        papperskorgen, borttaget, borttagna objekt, papirkurv, slettet post,
        slettede elementer, søppel, roskakori, poistetut, koš, odstraněná pošta,
        kôš, odstránená pošta, kuka, törölt elemek, coș de gunoi, elemente șterse,
        çöp, çöp kutusu, silinmiş öğeler, κάδος απορριμμάτων, διαγραμμένα, корзина,
        удаленные, удалённые, кошик, видалені, кошче, ゴミ箱, 削除済みアイテム,
        已删除, 已删除邮件, 垃圾箱, 刪除的郵件, 垃圾桶, 휴지통, 지운 편지함
    """,
    "outbox": """
        outbox, postausgang, boîte d'envoi, bandeja de salida, posta in uscita,
        caixa de saída, postvak uit, skrzynka nadawcza, utkorgen, udbakke, utboks,
        lähtevät, pošta k odeslání, giden kutusu, исходящие, 送信トレイ, 发件箱
    """,
}


def _key(name: str) -> str:
    return normalize("NFC", name).casefold().strip()


_USES: Final = {
    _key(name): use
    for use, names in _NAMES.items()
    for name in names.replace("\n", " ").split(",")
}
_ENCODED: Final = re.compile(r"&([A-Za-z0-9+,]*)-")


def use_of(name: str) -> Use | None:
    """Return the use of the folder of a name, or of one that it lies in.

    Examples
    --------
    >>> use_of(".INBOX.Unerw&APw-nscht"), use_of("Sent Items.2024"), use_of(".Junkyard")
    ('junk', 'sent', None)
    """
    keys = (_key(decoded(part)) for part in name.split("."))
    uses = [_USES[key] for key in keys if key in _USES]
    # Junk in the trash is thrown away, whatever it was.
    return min(uses, key=lambda use: use == "junk", default=None)


def decoded(name: str) -> str:
    """Return the name of a folder as a person reads it, from modified UTF-7.

    Examples
    --------
    >>> decoded("Entw&APw-rfe"), decoded("R&-D"), decoded("Müll"), decoded("&x-")
    ('Entwürfe', 'R&D', 'Müll', '&x-')
    """
    return _ENCODED.sub(_decoded, name)


def _decoded(found: re.Match[str]) -> str:
    letters = found[1].replace(",", "/")
    if not letters:
        return "&"
    try:
        return b64decode(letters + "=" * (-len(letters) % 4)).decode("utf-16-be")
    except (binascii.Error, UnicodeDecodeError):
        return found[0]
