"""Headers that a mail server writes into a message.

Contract of this file: a value is printable ASCII in lines of bounded length, whatever
the words of the message.
"""

from __future__ import annotations

import re
from email.header import Header
from typing import TYPE_CHECKING, Final

from app.doors.documents.verdict import explained_pct
from app.errors import InvalidSetting

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from app.classifier.verdict import Action
    from app.services.classify import Classified

# A sender who writes such headers would decide how rules treat the mail.
FORGED: Final = ("x-postbayes", "x-spam")
"""Beginnings, in lower case, of the header names that only filters write."""
_MBOX_LINE: Final = re.compile(rb"\A>?From [^\r\n]*\r?\n")
_LINE: Final = re.compile(rb"[^\n]*\n|[^\n]+\Z")
_EMPTY_LINE: Final = re.compile(rb"(?:\A|\n)\r?\n")


def end_of_head(raw: bytes) -> int:
    r"""Return where the body begins: behind the first empty line.

    Examples
    --------
    >>> end_of_head(b"A: 1\r\n\r\nbody"), end_of_head(b"A: 1\nB: 2\n")
    (8, 10)
    """
    end = _EMPTY_LINE.search(raw)
    return len(raw) if end is None else end.end()


def with_headers(
    raw: bytes, headers: Iterable[tuple[str, str]], ours: Iterable[str] = ()
) -> bytes:
    r"""Return a message, or its head alone, with headers on top, forged ones gone.

    Parameters
    ----------
    raw : bytes
        The message as it came.
    headers : iterable of (str, str)
        Name and value; ASCII, folded with LF.
    ours : iterable of str
        Names in lower case that only this filter may write, beside those that begin
        like one of `FORGED`.

    Examples
    --------
    >>> with_headers(b"X-Spam: no\r\n folded\r\nA: 1\r\n\r\nX-Spam: b", [("X", "c")])
    b'X: c\r\nA: 1\r\n\r\nX-Spam: b'
    """
    end = end_of_head(raw)
    # An mbox line stays the first one.
    mbox = _MBOX_LINE.match(raw[:end])
    start = mbox.end() if mbox else 0
    first = raw.find(b"\n")
    newline = "\r\n" if raw[max(0, first - 1) : first] == b"\r" else "\n"
    names = frozenset(ours)
    kept = [raw[:start]]
    for name, value in headers:
        lines = f"{name}: {value}\n".replace("\n", newline)
        kept.append(lines.encode("ascii", "replace"))
    drops = False
    for line in _LINE.findall(raw[start:end]):
        if not line.startswith((b" ", b"\t")):
            name = line.partition(b":")[0].strip().decode("latin-1").lower()
            drops = name in names or name.startswith(FORGED)
        if not drops:
            kept.append(line)
    return b"".join([*kept, raw[end:]])


# Of each side: what fits into five lines; the whole list is at /classify.
EXPLAINED: Final = 3
MAX_FEATURE_CHARS: Final = 40
# RFC 5322 section 2.1.1: lines should have no more than 78 characters.
_LINE_CHARS: Final = 76
_NAMES: Final = (
    "X-Postbayes",
    "X-Postbayes-Probability",
    "X-Postbayes-Log-Odds",
    "X-Postbayes-Id",
    "X-Postbayes-Profile",
    "X-Postbayes-Explanation",
)
LABEL: Final = "X-Postbayes-Label"
_FLAG: Final = re.compile(
    r"(?P<name>[!-9;-~]{1,60}):[ \t]*(?P<value>[!-~][ -~]{0,200})"
)


def ours(flag: tuple[str, str] | None) -> frozenset[str]:
    """Return the names, in lower case, that only this filter may write."""
    names = {name.lower() for name in (*_NAMES, LABEL)}
    return frozenset(names if flag is None else names | {flag[0].lower()})


def parse_flag(text: str) -> tuple[str, str] | None:
    """Return name and value of the header that marks spam; None for no text.

    Raises
    ------
    InvalidSetting
        If it is not a header field.

    Examples
    --------
    >>> parse_flag("X-Spam-Flag: YES")
    ('X-Spam-Flag', 'YES')
    """
    if not text.strip():
        return None
    found = _FLAG.fullmatch(text.strip())
    if found is None:
        msg = (
            f"POSTBAYES_SPAM_HEADER is {text!r}; it is one header field, name and "
            "value in ASCII, such as X-Spam-Flag: YES"
        )
        raise InvalidSetting(msg)
    return found["name"], found["value"]


def marks(
    classified: Classified, action: Action, flag: tuple[str, str] | None
) -> list[tuple[str, str]]:
    """Return the headers of a verdict, names and folded values.

    Without the explanation where none was asked for, unless something is stated of the
    message: a list never decides in silence.

    Parameters
    ----------
    classified : Classified
        The answer about the message.
    action : Action
        The action for the message.
    flag : tuple of (str, str) or None
        The header that marks mail with any action.
    """
    verdict = classified.verdict
    values = [
        verdict.decision,
        f"{verdict.probability:.4f}",
        f"{verdict.log_odds:+.2f}",
        classified.observation.id,
        classified.profile,
    ]
    if classified.explanation.strongest or classified.statements:
        values.append("; ".join(_entries(classified)))
    named = [*zip(_NAMES, values, strict=False)]
    if len(classified.labels) > 2:  # noqa: PLR2004  of two, the decision says as much
        named.insert(1, (LABEL, classified.labels[verdict.label]))
    found = [(name, _folded(name, value)) for name, value in named]
    return found if flag is None or action == "none" else [*found, flag]


def _entries(classified: Classified) -> Iterator[str]:
    """Yield the subtotals, the reasons and the rest, and which share is listed."""
    explanation = classified.explanation
    families = explanation.families.items()
    subtotals = [f"{kin} {nats:+.2f}" for kin, nats in families if round(nats, 2)]
    if subtotals:
        yield ", ".join(subtotals)
    for entry in explanation.summands:
        # What is stated is said whole: by whom, and when.
        name = entry.title[:MAX_FEATURE_CHARS] if entry.features else entry.title
        if entry.kind == "rest":
            name = f"({entry.features} others)"
        # The prior is one of the subtotals.
        if entry.kind != "prior":
            yield f"{name} {entry.log_odds:+.2f}"
    share = explained_pct(classified)
    if share is not None:
        yield f"reasons shown {share:.0f} %"


def _folded(name: str, value: str) -> str:
    """Return a value in lines, and in encoded words (RFC 2047) where it must be."""
    printable = "".join(c if c.isprintable() else "?" for c in value)
    charset = "us-ascii" if printable.isascii() else "utf-8"
    header = Header(printable, charset, header_name=name, maxlinelen=_LINE_CHARS)
    return header.encode(linesep="\n", splitchars="; ")
