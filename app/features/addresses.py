"""Who says to have sent a message, and do the headers agree on it?

Every feature is tagged by its header.

Contract of this file: every expression is linear in its input.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from app.features.links import parents

if TYPE_CHECKING:
    from app.mail.message import Message

# Not RFC 5322's grammar: what stands around the sign, in any quoting. A local
# part may have 64 characters and a domain 255 (RFC 5321, 4.5.3.1).
_ADDRESS: Final = re.compile(
    r"(?<![\w.+=~-])([\w.+=~-]{1,64})@([a-z0-9_.-]{1,255})", re.ASCII
)
_LETTERS: Final = re.compile(r"[a-z]+")
_DIGITS: Final = re.compile(r"[0-9]+")
_MAX_ADDRESSES: Final = 10
_MAX_SHAPE: Final = 12
_SPLIT: Final = (
    "from", "reply-to", "return-path", "sender", "to", "cc", "message-id",
)  # fmt: skip
# The addresses whose local part is a name that somebody chose or a machine made.
_SHAPED: Final = frozenset({"from", "reply-to", "return-path", "message-id"})


def address_words(message: Message) -> list[str]:
    r"""Return the domains, shapes and contradictions of the addresses.

    Examples
    --------
    >>> from app.mail.parse import parse
    >>> raw = b'From: "help@bank.example" <x17@a.shop.example>\n\nhi'
    >>> for name in address_words(parse(raw)):
    ...     print(name)
    from:shape:a
    from:shape:a9
    from:.shop.example
    from:(other-address-shown)
    """
    of_header = _addresses(message)
    found: list[str] = []
    for name, addresses in of_header.items():
        for local, domain in addresses:
            if name in _SHAPED:
                found.append(f"{name}:shape:{_shape(local)}")
            found += [f"{name}:.{parent}" for parent in parents(domain)]
    senders = of_header.get("from")
    return found + _contradictions(senders, of_header) if senders else found


def _addresses(message: Message) -> dict[str, list[tuple[str, str]]]:
    """Return local part and domain of the addresses, by header."""
    found: dict[str, list[tuple[str, str]]] = {}
    for header in message.headers:
        if header.name in _SPLIT and "@" in header.value:
            here = found.setdefault(header.name, [])
            if len(here) < _MAX_ADDRESSES:
                here += _ADDRESS.findall(header.value.lower())[:_MAX_ADDRESSES]
    return found


def _contradictions(
    senders: list[tuple[str, str]], of_header: dict[str, list[tuple[str, str]]]
) -> list[str]:
    """Return what else than From gives another sender."""
    found = []
    # The first is the one that mail programs show as the name.
    if senders[0][1] != senders[-1][1]:
        found.append("from:(other-address-shown)")
    for name in ("reply-to", "return-path"):
        others = of_header.get(name)
        if others and others[0][1] != senders[-1][1]:
            found.append(f"{name}:(other-domain)")
    return found


def _shape(local: str) -> str:
    """Return a local part with its runs of letters and digits as one each.

    Examples
    --------
    >>> _shape("bob.smith1984")
    'a.a9'
    """
    return _LETTERS.sub("a", _DIGITS.sub("9", local))[:_MAX_SHAPE]
