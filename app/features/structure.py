"""Structure: MIME shape, character sets and attached files, one value for each field.

The values do not depend on the words, but on the structure of the message, the sending
program, and the authentication of the sender.  Fields that a message lacks are left
out.  Features of files are tagged ``file:``.

Contract of this file: a field keeps its number for ever, because ids in databases
contain it.  A dropped field leaves a gap.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from app.features.headers import read_date
from app.kernels.text import NAME, WHOLE

if TYPE_CHECKING:
    from app.features.tokens import Span
    from app.mail.message import Message, Part

FIELDS: Final = {
    "mime": 1,
    "charset": 2,
    "encoding": 3,
    "mailer": 4,
    "list": 5,
    "spf": 6,
    "dkim": 7,
    "dmarc": 8,
    "tld": 9,
    "hour": 10,
    "reply-to": 11,
    "message-id": 12,
    "attachment": 13,
    "hops": 14,
    "subject": 15,
    "recipients": 16,
    "priority": 17,
    "html": 18,
}
"""The fields, with their numbers in ids."""
MAX_VALUE_CHARS: Final = 60
"""Most characters of a value; nearly all have fewer than 30."""
_MOST_PARTS: Final = 4
_MOST_HOPS: Final = 9
_MANY_RECIPIENTS: Final = 5
_DOMAIN: Final = re.compile(r"@([a-z0-9.-]{1,255})", re.ASCII)
_PROOF: Final = re.compile(r"\b(spf|dkim|dmarc)=([a-z]{1,10})", re.ASCII)
_WORD: Final = re.compile(r"[a-z]{2,20}", re.ASCII)
_REPLY: Final = re.compile(r"(re|aw|sv|fwd?|wg)\b ?:", re.ASCII)


def structure(message: Message) -> list[tuple[str, str]]:
    r"""Return the fields of a message with their values.

    Returns
    -------
    list of (str, str)
        A field of `FIELDS` and its value, each field at most once.

    Examples
    --------
    >>> from app.mail.parse import parse
    >>> facts = dict(structure(parse(b"From: a@b.example\nSubject: Re: x\n\ny")))
    >>> facts["tld"], facts["subject"], facts["mime"]
    ('example', 're', 'text/plain')
    """
    headers = {header.name for header in message.headers}
    sender = _domain(message.header("from"))
    moment = read_date(message.header("date"))
    found = {
        "mime": _shape(message),
        "mailer": _program(message),
        "list": "+".join(sorted(headers & _LIST)),
        "tld": sender.rpartition(".")[2],
        "hour": f"{moment.hour:02}" if moment else "",
        "reply-to": _against(sender, message.header("reply-to")),
        "message-id": _against(sender, message.header("message-id")),
        "priority": message.header("x-priority")[:1],
        **_proofs(message),
    }
    for part in message.parts:
        if part.media_type.startswith("text/"):
            found["charset"] = part.charset or "undeclared"
            found["encoding"] = part.encoding or "undeclared"
            break
    for part in message.parts:
        if part.is_attachment:
            extension = part.filename.rpartition(".")[2].lower()
            found["attachment"] = extension or part.media_type
            break
    if headers:
        hops = len(message.header_values("received"))
        found["hops"] = str(min(hops, _MOST_HOPS))
        found["subject"] = _subject(message.header("subject"))
        found["recipients"] = _recipients(message)
    kinds = {text.place for text in message.texts}
    if "html" in kinds:
        found["html"] = "with text" if kinds & {"plain", "alternative"} else "alone"
    return [(field, value[:MAX_VALUE_CHARS]) for field, value in found.items() if value]


_LIST: Final = frozenset(
    {"list-id", "list-unsubscribe", "list-unsubscribe-post", "list-post", "precedence"}
)


def _shape(message: Message) -> str:
    """Return the containers and the first leaves of the MIME tree."""
    outer = message.containers[0] + ":" if message.containers else ""
    leaves = [part.media_type for part in message.parts[:_MOST_PARTS]]
    more = "…" if len(message.parts) > _MOST_PARTS else ""
    return outer + "+".join(leaves) + more


def _program(message: Message) -> str:
    """Return the first word of the sending program's name."""
    named = message.header("x-mailer") or message.header("user-agent")
    word = _WORD.search(named.lower())
    return word.group() if word else ""


def _proofs(message: Message) -> dict[str, str]:
    """Return the results of SPF, DKIM and DMARC by the receiving server."""
    # The topmost header is from the site's own server; the sender may have written the
    # others (RFC 8601 section 1.6).
    results = message.header("authentication-results")
    found = dict(reversed(_PROOF.findall(results.lower())))
    received_spf = _WORD.search(message.header("received-spf").lower())
    if received_spf:
        found.setdefault("spf", received_spf.group())
    return found


def _domain(value: str) -> str:
    """Return the domain of the last address in a header."""
    domains = _DOMAIN.findall(value.lower())
    return domains[-1].rstrip(".") if domains else ""


def _against(sender: str, value: str) -> str:
    """Compare the domain in a header with that of the sender."""
    other = _domain(value)
    if not other:
        return "none"
    if sender == other:
        return "same"
    return "related" if _organisation(sender) == _organisation(other) else "other"


def _organisation(domain: str) -> str:
    """Return the last two labels of a domain."""
    return ".".join(domain.split(".")[-2:])


def _subject(value: str) -> str:
    """Return the shape of a subject."""
    if not value:
        return "none"
    reply = _REPLY.match(value.lower())
    if reply:
        return reply.group(1)
    if value.isupper():
        return "capitals"
    return "other"


def _recipients(message: Message) -> str:
    """Return the number of recipients in the headers."""
    named = message.header("to") + "," + message.header("cc")
    number = named.count("@")
    if number > 1:
        return "few" if number <= _MANY_RECIPIENTS else "many"
    return "one" if number else "none"


# Declared types for the kinds of `app.mail.parse`. Modern office files are zip.
_CALLED: Final = {
    "zip": {"zip", "jar", "docx", "xlsx", "pptx", "odt", "ods", "odp", "epub", "apk"},
    "exe": {"exe", "dll", "scr", "com", "pif", "cpl", "sys", "x-msdownload"},
    "ole": {"doc", "xls", "ppt", "msi", "msg", "dot", "pps", "msword"},
    "pdf": {"pdf"},
    "png": {"png"},
    "jpeg": {"jpg", "jpeg", "jpe", "pjpeg", "jfif"},
    "gif": {"gif"},
    "rtf": {"rtf", "doc"},
    "rar": {"rar"},
    "gzip": {"gz", "tgz"},
    "7z": {"7z"},
}
_KNOWN_NAMES: Final = frozenset(name for names in _CALLED.values() for name in names)
_MAX_EXTENSION: Final = 5
_MAX_MEMBERS: Final = 50


def file_words(message: Message) -> list[Span]:
    """Return the features of the files of a message."""
    found: list[Span] = []
    for part in message.parts:
        if part.filename or part.kind or part.members:
            found += of_part(part)
    return found


def of_part(part: Part) -> list[Span]:
    """Return the features of one file."""
    marks = []
    extensions = _extensions(part.filename)
    if part.filename:
        marks += ["." + extension for extension in extensions[-1:]]
    # "invoice.pdf.exe": some programs hide the last extension.
    if len(extensions) > 1 and extensions[-2] in _KNOWN_NAMES:
        marks.append("(double-extension)")
    if part.kind:
        marks.append(f"({part.kind})")
        called = extensions[-1] if extensions else part.media_type.partition("/")[2]
        if called in _KNOWN_NAMES and called not in _CALLED[part.kind]:
            marks.append(f"({part.kind} as {called})")
    for member in part.members[:_MAX_MEMBERS]:
        marks += ["in:." + extension for extension in _extensions(member)[-1:]]
    return [
        ("file:", part.filename, NAME),
        *[("file:", mark, WHOLE) for mark in marks],
    ]


def _extensions(name: str) -> list[str]:
    """Return the extensions of a file's name, in lower case."""
    pieces = name.lower().rpartition("/")[2].split(".")[1:]
    return [piece.strip() for piece in pieces if 0 < len(piece) <= _MAX_EXTENSION]
