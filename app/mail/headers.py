"""Header fields: decoded words, addresses, domains and parameters."""

from __future__ import annotations

import re
import unicodedata
from binascii import Error, a2b_base64, a2b_qp
from typing import Final
from urllib.parse import unquote_to_bytes

from app.mail.encoding import ESCAPE, decode_text
from app.mail.limits import MAX_HEADER_CHARS, MAX_PARAMETERS_CHARS, Budget

# Verdicts of other filters leak labels: a filter that learns from them agrees with
# its predecessor instead of reading the mail, and scores on a corpus that was
# collected through such a filter are meaningless.
VERDICT_PREFIXES: Final = (
    "x-spam", "x-bogosity", "x-rspam", "x-dspam", "x-crm114", "x-popfile",
    "x-text-classification", "x-virus", "x-amavis", "x-mailscanner", "x-barracuda",
    "x-ironport", "x-forefront", "x-microsoft-antispam",
    "x-ms-exchange-organization-scl", "x-ms-exchange-organization-pcl", "x-proofpoint",
    "x-postbayes", "x-pmx", "x-asg", "x-habeas", "x-hashcash", "x-razor", "x-pyzor",
    "x-dcc", "x-cmae", "x-vr-spam", "x-junk", "x-sa-", "x-ham", "x-gmail-spam",
    "x-yahoofilteredbulk", "x-mozilla-status", "x-folder", "x-keywords", "x-ifspam",
    "x-ovh-spam", "x-haraka-spam", "x-cloudmark", "x-symantec", "x-brightmail",
    "x-sophos", "x-antiabuse", "x-osbf", "x-assp", "x-bayes", "x-greylist",
)  # fmt: skip
OUR_METHOD: Final = "x-postbayes"
"""The method name of our verdict in Authentication-Results (RFC 8601 section 2.2)."""
# A block counts as headers only if it contains a header of mail, because the text of
# a contact form may begin "Hello: ...".
_KNOWN: Final = re.compile(
    r"(?:from|to|cc|bcc|subject|date|received|message-id|mime-version|reply-to"
    r"|return-path|sender|in-reply-to|references|delivered-to|content-[a-z-]{1,40}"
    r"|list-[a-z-]{1,40}|resent-[a-z-]{1,40}|x-[!-9;-~]{1,70}|status|lines"
    r"|organization|user-agent|precedence|authentication-results|dkim-signature"
    r"|arc-[a-z-]{1,40}|errors-to|importance|comments|keywords)\Z"
)
_ENCODED_WORD: Final = re.compile(
    # Faulty encoders leave blanks inside a word, or cut off its end.
    r"=\?([\w.:+-]{1,40})(?:\*[\w-]{0,20})?\?([bBqQ])\?([^?]*+)(?:\?=|\?\Z|\Z)"
)
_PARAMETER: Final = re.compile(
    r";\s*+([^\s=;\"]++)\s*+=\s*+(?:\"((?>(?:[^\"\\]|\\.)*))\"?|([^;]*+))", re.DOTALL
)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_COMMENT: Final = re.compile(r"\([^()]*+\)?")
_TOKEN: Final = re.compile(r"[^\s,()\"]+")
# Values that are text for people. To decode a boundary, or the name of an encoding, is
# to read another one than mail programs do.
_NAMES: Final = frozenset({"name", "filename"})
_CONTROLS: Final = bytes([*range(9), *range(14, 32), 127])
_NO_DEFECTS: Final[frozenset[str]] = frozenset()
_CONTINUED: Final = re.compile(r"\*(\d{1,3})\Z")
ACE: Final = "xn--"
"""Prefix of an encoded non-ASCII label (RFC 5890, 2.3.2.1)."""
# RFC 1035, 2.3.4; to decode more takes quadratic time.
_MAX_LABEL: Final = 63
# Characters that count as a dot in a domain (RFC 3490, 3.1).
_DOTS: Final = re.compile("[\u3002\uff0e\uff61]")
# Not shown, but letters of domains in Persian and in scripts of India (RFC 5892, A.1).
_JOINERS: Final = re.compile("[\u200c\u200d]")


def is_verdict(name: str) -> bool:
    """Return whether a header (lower case) is another filter's verdict.

    Examples
    --------
    >>> is_verdict("x-spam-status"), is_verdict("x-mailer")
    (True, False)
    """
    # One comparison instead of fifty for most headers.
    return name.startswith("x-") and name.startswith(VERDICT_PREFIXES)


def is_our_result(name: str, value: str) -> bool:
    """Return whether a header is an Authentication-Results with our verdict.

    It is added after a message is scored, so messages in a mailbox have it; like our
    other headers, it is not read.

    Examples
    --------
    >>> is_our_result("authentication-results", "mx.example.org; x-postbayes=spam")
    True
    """
    return name == "authentication-results" and OUR_METHOD in value.lower()


def is_known(name: str) -> bool:
    """Return whether a header (lower case) occurs in mail."""
    return _KNOWN.match(name) is not None


def normal_local(local: str) -> str:
    """Return the local part of an address in the form in which it is compared.

    NFC, because RFC 6532 section 3.1 has it: NFKC would make one of two mailboxes.
    """
    return unicodedata.normalize("NFC", local.lower())


def normal_domain(domain: str) -> str:
    r"""Return a domain in the one form in which domains are compared.

    Labels are in lower case, as people write them.  One whose encoded form (A-label)
    is not that of its text, and one with letters that are not shown, are encoded.

    Notes
    -----
    The mapping is that of Unicode Technical Standard 46 without its transitional part:
    two domains that a registry keeps apart stay apart.  The library's codec ``idna``
    has RFC 3490, by which ``stra\u00dfe`` is ``strasse``.

    Examples
    --------
    >>> normal_domain("xn--Bcher-Kva.example."), normal_domain("BU\u0308CHER。example")
    ('bücher.example', 'bücher.example')
    >>> normal_domain("stra\u00dfe.example") == normal_domain("strasse.example")
    False
    """
    labels = _DOTS.sub(".", domain).removesuffix(".").split(".")
    return ".".join(map(_normal_label, labels))


def ascii_domain(domain: str) -> str:
    """Return a domain in ASCII, as protocols and names of profiles have it (RFC 5891).

    Examples
    --------
    >>> ascii_domain("Bücher.example"), ascii_domain("xn--bcher-kva.example")
    ('xn--bcher-kva.example', 'xn--bcher-kva.example')
    """
    if domain.isascii():
        return domain.removesuffix(".").lower()
    return ".".join(map(_encoded_label, normal_domain(domain).split(".")))


def _normal_label(label: str) -> str:
    if len(label) > _MAX_LABEL:
        return label.lower()
    plain = _mapped(label)
    if not plain.startswith(ACE):
        return _encoded_label(plain) if _JOINERS.search(plain) else plain
    encoded = plain.removeprefix(ACE)
    try:
        name = encoded.encode("ascii").decode("punycode")
    # UnicodeError: not ASCII, or not punycode.
    except UnicodeError:
        return plain
    # Only the encoded form of a label is this label: others may look like it.  A text
    # has one form in punycode, but the library takes a hyphen before it as well.  With
    # the text encoded again, 64 kB of links take 180 ms instead of 100.
    same = not name.isascii() and encoded.rfind("-") != 0 and name == _mapped(name)
    return name if same and name.isprintable() else plain


def _mapped(label: str) -> str:
    """Return a label in small letters and the compatibility form NFKC."""
    if label.isascii():
        return label.lower()
    # Letter by letter: the library gives a sigma at the end its other form, which is
    # another letter of a domain.
    small = "".join(map(str.lower, unicodedata.normalize("NFKC", label)))
    found = unicodedata.normalize("NFKC", small)
    # A dot would begin another label: "⒈" is "1.", and U+FE12 an ideographic one.
    return label if "." in found or _DOTS.search(found) else found


def _encoded_label(label: str) -> str:
    """Return a label in ASCII."""
    if label.isascii() or len(label) > _MAX_LABEL:
        return label
    return f"{ACE}{label.encode('punycode').decode('ascii')}"


def decode_value(
    raw: str, fallback: str = "", budget: Budget | None = None
) -> tuple[str, frozenset[str]]:
    r"""Decode the value of a header.

    Parameters
    ----------
    raw : str
        The value, with bytes above 127 as surrogate escapes.
    fallback : str
        Charset to try first for such bytes, if they are not in an encoded
        word: usually that of the body.

    Returns
    -------
    value : str
        Decoded to Unicode; runs of blanks, and folding with them, are one
        space each.
    defects : frozenset of str
        Defects of the value.

    Notes
    -----
    Encoded words are decoded wherever they stand, in quoted strings too, where
    RFC 2047 section 5 forbids them: every mail program shows them decoded.

    Examples
    --------
    >>> decode_value("=?utf-8?q?Gr=C3=BC?=\n =?utf-8?b?w59l?=")[0]
    'Grüße'
    """
    # Nearly all values are; the rest takes three times as long.
    plain = raw.isascii() and ESCAPE not in raw
    if plain and len(raw) <= MAX_HEADER_CHARS and "=?" not in raw:
        return _on_one_line(raw), _NO_DEFECTS
    budget = budget or Budget()
    defects: set[str] = set()
    if len(raw) > MAX_HEADER_CHARS:
        raw = raw[:MAX_HEADER_CHARS]
        defects.add("header-too-long")
    if not plain:
        defects.add("header-8bit")
        content = raw.encode("utf-8", "surrogateescape")
        raw, _ = decode_text(content, fallback, budget)
    if "=?" in raw:
        raw, broken = _decode_words(raw, budget)
        if broken:
            defects.add("header-encoded-word")
    return _on_one_line(raw), frozenset(defects)


def _on_one_line(raw: str) -> str:
    """Return a value with each run of blanks as one space."""
    # Splitting takes four times as long, and most values do not need it.
    line = raw.replace("\n\t", " ")
    if "  " not in line and line.isprintable():
        return line.strip()
    return " ".join(without_controls(raw).split())


def without_controls(text: str) -> str:
    r"""Return a text without control characters.

    Most mail programs show nothing of them, even inside words.

    Examples
    --------
    >>> without_controls("gr\x01ü\x7fn\n")
    'grün\n'
    """
    # In bytes: an expression takes ten times as long, for every text.
    content = text.encode("utf-8", "surrogatepass").translate(None, _CONTROLS)
    return content.decode("utf-8", "surrogatepass")


def _decode_words(raw: str, budget: Budget) -> tuple[str, bool]:
    """Decode the encoded words of RFC 2047; return whether one was broken."""
    pieces: list[str] = []
    waiting: list[bytes] = []
    waiting_charset = ""
    broken = False
    end = 0
    for word in _ENCODED_WORD.finditer(raw):
        if not budget.allows("encoded words", 1):
            break
        between = raw[end : word.start()]
        name = word[1].lower()
        # Against RFC 2047 section 5, encoders split characters between words: join
        # the bytes first if the charset is the same.
        if waiting and (between.strip() or name != waiting_charset):
            pieces.append(decode_text(b"".join(waiting), waiting_charset, budget)[0])
            waiting = []
        if between.strip() or not end:
            pieces.append(between)
        content, bad = _encoded_bytes(word[2], word[3])
        broken = broken or bad or not word[0].endswith("?=")
        waiting.append(content)
        waiting_charset = name
        end = word.end()
    if waiting:
        pieces.append(decode_text(b"".join(waiting), waiting_charset, budget)[0])
    else:
        broken = True
    pieces.append(raw[end:])
    return "".join(pieces), broken


def _encoded_bytes(encoding: str, text: str) -> tuple[bytes, bool]:
    """Decode the text of one encoded word; return whether it was broken."""
    content = text.encode("utf-8", "surrogatepass")
    if encoding in "qQ":
        return a2b_qp(content, header=True), " " in text
    try:
        return a2b_base64(content + b"=" * (-len(content) % 4)), len(content) % 4 != 0
    except Error:
        return content, True


def parameters(value: str, budget: Budget | None = None) -> tuple[str, dict[str, str]]:
    r"""Split a Content-Type or Content-Disposition.

    Parameters
    ----------
    value : str
        The value, with bytes above 127 as surrogate escapes.

    Returns
    -------
    word : str
        The first word, lower case: mail programs drop a comment or a list after it.
    parameters : dict of str to str
        By lower-case name, decoded by RFC 2231 (continuations, charsets) and, those
        that name files, like in mail programs but against its rules, by RFC 2047.

    Examples
    --------
    >>> parameters('text/PLAIN; charset="utf-8"; name*0*=utf-8\'\'a%C3; name*1*=%BC')
    ('text/plain', {'charset': 'utf-8', 'name': 'aü'})
    """
    budget = budget or Budget()
    found: dict[str, str] = {}
    if not value:
        return "", found
    # Without the line breaks of folding (RFC 5322 section 2.2.3).
    value = value[:MAX_PARAMETERS_CHARS].replace("\n", "")
    word, _, rest = value.partition(";")
    token = _TOKEN.search(_COMMENT.sub(" ", word).lower())
    word = "" if token is None else token[0].encode("ascii", "replace").decode()
    if not rest:
        return word, found
    extended: dict[str, list[tuple[int, bool, str]]] = {}
    for match in _PARAMETER.finditer(";" + rest):
        name = match[1].lower()
        text = match[3].strip() if match[2] is None else _ESCAPED.sub(r"\1", match[2])
        if "*" not in name:
            if name in _NAMES:
                text = decode_value(text, budget=budget)[0]
            elif match[2] is None:
                # Mail programs drop what stands behind it.
                text = "".join(text.split(maxsplit=1)[:1])
            found.setdefault(name, text)
            continue
        encoded = name.endswith("*")
        name = name.rstrip("*")
        if not budget.allows("encoded words", 1):
            break
        part = _CONTINUED.search(name)
        number = int(part[1]) if part else 0
        name = name[: part.start()] if part else name
        extended.setdefault(name, []).append((number, encoded, text))
    for name, pieces in extended.items():
        found[name] = _join_extended(sorted(pieces), budget)
    return word, found


def _join_extended(pieces: list[tuple[int, bool, str]], budget: Budget) -> str:
    """Decode the pieces of one parameter of RFC 2231, in order."""
    name = ""
    content = b""
    for index, (_, encoded, text) in enumerate(pieces):
        piece = text
        if encoded and not index and piece.count("'") >= 2:  # noqa: PLR2004
            name, _, piece = piece.split("'", 2)
        raw = piece.encode("utf-8", "surrogateescape")
        content += unquote_to_bytes(raw) if encoded else raw
    return decode_text(content, name, budget)[0]
