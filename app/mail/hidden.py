"""Which text of an HTML part does no reader see?

Only what stands on the elements themselves is read: ``hidden``, ``style``,
``color`` and ``bgcolor``.  Style sheets are not, as mail programs drop many of
them; nor is what is merely small or pale.

Contract of this file: every expression is linear in its input.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from app.mail.limits import MAX_ANCESTORS, MAX_HIDDEN

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

Colour = tuple[int, int, int]
"""Red, green and blue, 0 to 255."""

_CANDIDATES: Final = "[hidden],[style],font[color]"
_MAX_STYLE: Final = 1_000
_INVISIBLE: Final = re.compile(
    r"(?:^|[;\s])(?:display\s{0,9}:\s{0,9}none|visibility\s{0,9}:\s{0,9}hidden"
    r"|mso-hide\s{0,9}:\s{0,9}all"
    r"|opacity\s{0,9}:\s{0,9}0(?:\.0{1,9})?(?![\d.])"
    r"|font-size\s{0,9}:\s{0,9}[01](?:\.0{1,9})?(?:px|pt|em|%)?(?![\d.a-z%]))"
)
_COLOUR: Final = re.compile(r"(?:^|[;\s])color\s{0,9}:\s{0,9}([#\w]{1,20})")
_BACKGROUND: Final = re.compile(
    r"(?:^|[;\s])background(?:-color)?\s{0,9}:\s{0,9}([#\w]{1,20})"
)
_HEX: Final = re.compile(r"#?([0-9a-f]{6}|[0-9a-f]{3})\Z")
_NAMED: Final = {"white": (255, 255, 255), "black": (0, 0, 0), "red": (255, 0, 0)}
_WHITE: Final = _NAMED["white"]

# "#fffffe on white" is a trick, light grey on white a footer.
_SAME: Final = 12


def take(root: LexborNode) -> str:
    """Take what no reader sees out of a tree, and return its text.

    Parameters
    ----------
    root : LexborNode
        The document; changed in place.

    Returns
    -------
    str
        The text taken out, piece by piece, with blanks between the pieces.
    """
    found: dict[int, LexborNode] = {}
    grounds: dict[int, Colour | None] = {}
    for node in root.css(_CANDIDATES):
        if len(found) == MAX_HIDDEN:
            break
        if node.mem_id not in found and _is_hidden(node, grounds):
            found[node.mem_id] = node
    # The outermost ones alone: those within them are freed with them, and to
    # ask a freed one anything reads memory that is not there any more.
    outermost = [node for node in found.values() if not _is_within(node, found)]
    pieces = []
    for node in outermost:
        pieces.append(node.text(separator=""))
        node.decompose()
    return " ".join(pieces)


def _is_within(node: LexborNode, others: dict[int, LexborNode]) -> bool:
    """Return whether an element has one of the others above it."""
    above = node.parent
    while above is not None:
        if above.mem_id in others:
            return True
        above = above.parent
    return False


def _is_hidden(node: LexborNode, grounds: dict[int, Colour | None]) -> bool:
    """Return whether an element says that what is in it is not to be seen.

    Parameters
    ----------
    node : LexborNode
        The element.
    grounds : dict of int to (int, int, int) or None
        What `_ground` said of elements, which most stand below again and again.
    """
    if node.tag in {"html", "body"}:
        return False
    attributes = node.attributes
    style = (attributes.get("style") or "")[:_MAX_STYLE].lower()
    if "hidden" in attributes or (style and _INVISIBLE.search(style)):
        return True
    colour = _colour_of(attributes, style)
    if colour is None:
        return False
    behind = _behind(node, grounds)
    return max(abs(a - b) for a, b in zip(colour, behind, strict=True)) <= _SAME


def _colour_of(attributes: dict[str, str | None], style: str) -> Colour | None:
    """Return the colour of text that an element declares."""
    declared = _COLOUR.search(style)
    return _rgb(declared[1] if declared else attributes.get("color") or "")


def _behind(node: LexborNode, grounds: dict[int, Colour | None]) -> Colour:
    """Return the colour behind an element: the nearest that is declared."""
    at: LexborNode | None = node
    for _ in range(MAX_ANCESTORS):
        if at is None:
            break
        if at.mem_id not in grounds:
            grounds[at.mem_id] = _ground(at)
        colour = grounds[at.mem_id]
        if colour is not None:
            return colour
        at = at.parent
    return _WHITE


def _ground(node: LexborNode) -> Colour | None:
    """Return the colour that an element puts behind what is in it, if any."""
    attributes = node.attributes
    style = (attributes.get("style") or "")[:_MAX_STYLE].lower()
    if attributes.get("background") or "url(" in style:
        # An image: whatever the colour, it may be read on it.
        return (-255, -255, -255)
    declared = _BACKGROUND.search(style)
    return _rgb(declared[1] if declared else attributes.get("bgcolor") or "")


def _rgb(colour: str) -> Colour | None:
    """Return the red, green and blue of a colour, 0 to 255, or None."""
    colour = colour.strip().lower()
    if colour in _NAMED:
        return _NAMED[colour]
    found = _HEX.match(colour)
    if found is None:
        return None
    digits = found[1] if len(found[1]) > 3 else "".join(c + c for c in found[1])  # noqa: PLR2004
    return int(digits[:2], 16), int(digits[2:4], 16), int(digits[4:], 16)
