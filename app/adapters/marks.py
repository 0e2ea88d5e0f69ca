"""What does a mail server write into a message? The headers of a verdict.

Contract of this file: a value is printable ASCII in lines of a bounded length,
whatever words the message is made of.
"""

from __future__ import annotations

import re
from email.header import Header
from typing import TYPE_CHECKING, Final

from app.errors import InvalidSetting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.classifier.action import Action
    from app.classifier.explain import Entry
    from app.services.classify import Classified

# Of each side: what fits into three lines; the whole list is at /classify.
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

_FLAG: Final = re.compile(
    r"(?P<name>[!-9;-~]{1,60}):[ \t]*(?P<value>[!-~][ -~]{0,200})"
)


def ours(flag: tuple[str, str] | None) -> frozenset[str]:
    """Return the names, in lower case, that nobody else may write."""
    names = {name.lower() for name in _NAMES}
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
    """Return the headers that tell of a verdict, names and folded values.

    Parameters
    ----------
    classified : Classified
        The answer about the message.
    action : Action
        What is done with it.
    flag : tuple of (str, str) or None
        The header that marks what is not let through as it is.
    """
    verdict = classified.verdict
    values = (
        verdict.decision,
        f"{verdict.probability:.4f}",
        f"{verdict.log_odds:+.2f}",
        classified.observation.id,
        classified.profile,
        "; ".join(_entries(classified.explanation)),
    )
    found = [
        (name, _folded(name, value)) for name, value in zip(_NAMES, values, strict=True)
    ]
    return found if flag is None or action == "none" else [*found, flag]


def _entries(explanation: tuple[Entry, ...]) -> Iterator[str]:
    for entry in explanation:
        name = entry.feature[:MAX_FEATURE_CHARS]
        if entry.kind == "rest":
            name = f"({entry.features} others)"
        yield f"{name} {entry.log_odds:+.2f}"


def _folded(name: str, value: str) -> str:
    """Return a value in lines, and in encoded words (RFC 2047) where it must be."""
    printable = "".join(c if c.isprintable() else "?" for c in value)
    charset = "us-ascii" if printable.isascii() else "utf-8"
    header = Header(printable, charset, header_name=name, maxlinelen=_LINE_CHARS)
    return header.encode(linesep="\n", splitchars="; ")
