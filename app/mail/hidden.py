"""Hidden text: what no reader of an HTML part sees.

It is found by the attributes of the elements themselves: ``hidden``, ``style``,
``color`` and ``bgcolor``.  Style sheets are not read, because mail programs drop many
of them; small or pale text counts as visible.

An element hides all of its content (``display:none``), or only that which declares
nothing else (``font-size:0``, a colour): many newsletters set the size of each cell to
0, and that of the text inside to 14 pixels.

Contract of this file: the work is linear in the elements, and every expression in its
input.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from app.mail.limits import MAX_HIDDEN, MAX_HTML_TAGS

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

Colour = tuple[int, int, int]
"""Red, green and blue, 0 to 255."""
# What hides, shows or colours text, and what colours the ground behind it.
_CANDIDATES: Final = "[hidden],[style],font[color],font[size],[bgcolor],[background]"
_MAX_STYLE: Final = 1_000
_IS: Final = r"\s{0,9}:\s{0,9}"
_BEGIN: Final = r"(?:^|[;\s])"
# Not mso-hide: only Outlook hides that, and many buttons have it for all others.
_GONE: Final = re.compile(
    rf"{_BEGIN}(?:display{_IS}none"
    rf"|opacity{_IS}(?:0|(?=\.))(?:\.0\d{{0,9}})?(?![\d.])"
    rf"|text-indent{_IS}-\d{{3,5}})"
)
# Without room; then the content is hidden if it may not overflow.
_FLAT: Final = re.compile(
    rf"{_BEGIN}(?:max-)?(?:height|width){_IS}[01](?:px|pt|%)?(?![\d.a-z%])"
)
_CUT: Final = re.compile(rf"{_BEGIN}overflow{_IS}hidden")
_VISIBILITY: Final = re.compile(rf"{_BEGIN}visibility{_IS}(hidden|collapse|visible)")
_FONT: Final = re.compile(rf"{_BEGIN}font(?:-size)?{_IS}([^;]{{1,100}})")
_SIZE: Final = re.compile(
    r"(?<![\w.#(-])(?:(\d{0,5}\.?\d{1,5})(px|pt|pc|cm|mm|in|rem|vw|em|ex|ch|%)?"
    r"|(?:x{1,3}-)?(?:small|large)|medium)(?![\w.-])"
)
# Up to here text is too small.  A share of nothing is nothing: such a size shows no
# text that is hidden.
_TINY: Final = {None: 1.0, "px": 1.0, "pt": 1.0, "%": 10.0, "em": 0.1, "ex": 0.1}
_RELATIVE: Final = frozenset({"%", "em", "ex", "ch"})
_COLOUR: Final = re.compile(rf"{_BEGIN}color{_IS}(#?\w{{1,20}}(?:\([^)]{{1,40}}\))?)")
_BACKGROUND: Final = re.compile(
    rf"{_BEGIN}background(?:-color)?{_IS}(#?\w{{1,20}}(?:\([^)]{{1,40}}\))?)"
)
_HEX: Final = re.compile(r"#?([0-9a-f]{6}|[0-9a-f]{3})\Z")
_RGB: Final = re.compile(
    r"rgba?\(\s*(\d{1,3})\s*[\s,]\s*(\d{1,3})\s*[\s,]\s*(\d{1,3})\s*"
    r"(?:[,/]\s*([\d.]{1,9})%?\s*)?\)\Z"
)
_WHITE: Final = (255, 255, 255)
# Text of any colour may be readable on an image.
_IMAGE: Final = (-255, -255, -255)
_CLEAR: Final = (-999, -999, -999)
# The sixteen of HTML 4.01, and those that are nearly white (CSS Color 4, 6.1).
_NAMED: Final[dict[str, Colour]] = {
    "white": _WHITE, "snow": (255, 250, 250), "ghostwhite": (248, 248, 255),
    "mintcream": (245, 255, 250), "whitesmoke": (245, 245, 245), "black": (0, 0, 0),
    "red": (255, 0, 0), "maroon": (128, 0, 0), "yellow": (255, 255, 0),
    "olive": (128, 128, 0), "lime": (0, 255, 0), "green": (0, 128, 0),
    "aqua": (0, 255, 255), "teal": (0, 128, 128), "blue": (0, 0, 255),
    "navy": (0, 0, 128), "fuchsia": (255, 0, 255), "purple": (128, 0, 128),
    "silver": (192, 192, 192), "gray": (128, 128, 128), "grey": (128, 128, 128),
    "transparent": _CLEAR,
}  # fmt: skip
# "#fffffe on white" is a trick, light grey on white a footer.
_SAME: Final = 12


class _Style(NamedTuple):
    """What a style declares; None where it says nothing.

    Parameters
    ----------
    gone : bool
        Whether all of the content is hidden.
    tiny, unseen : bool or None
        Whether text is too small to be read, or not visible.
    colour, ground : (int, int, int) or None
        Colour of text, and of the ground behind it.
    """

    gone: bool
    tiny: bool | None
    unseen: bool | None
    colour: Colour | None
    ground: Colour | None


class _State(NamedTuple):
    """How the text of an element is shown, by what it declares or inherits.

    Parameters
    ----------
    gone, tiny, unseen, colour, ground
        As in `_Style`; without a colour, it is that of the mail program.
    hider : int
        Identity of the outermost element that hides the text; 0 if it is shown.
    """

    gone: bool = False
    tiny: bool = False
    unseen: bool = False
    colour: Colour | None = None
    ground: Colour = _WHITE
    hider: int = 0


_SHOWN: Final = _State()


def take_hidden(root: LexborNode) -> str:
    """Remove hidden text from a tree, and return it.

    Parameters
    ----------
    root : LexborNode
        The document; changed in place.

    Returns
    -------
    str
        The text taken out, piece by piece, with blanks between the pieces.
    """
    states: dict[int, _State] = {}
    hidden: dict[int, tuple[LexborNode, set[int]]] = {}
    # More elements than tags are copies, caused by open formatting elements.  One
    # match for each selector that fits, and what is above an element comes before it.
    matches = islice(root.css(_CANDIDATES), MAX_HTML_TAGS)
    for at, node in {node.mem_id: node for node in matches}.items():
        above = _inherited(node.parent, states)
        state = _state(node, at, above)
        if state.hider == at:
            if len(hidden) < MAX_HIDDEN:
                hidden[at] = node, set()
            else:
                state = state._replace(hider=0)
        elif above.hider and not state.hider:
            hidden[above.hider][1].add(at)
        states[at] = state
    return " ".join(_take(node, shown) for node, shown in hidden.values())


def _inherited(node: LexborNode | None, states: dict[int, _State]) -> _State:
    """Return the state of an element that declares nothing.

    It is added for the elements on the way, so each is climbed once.
    """
    path = []
    while node is not None and node.mem_id not in states:
        path.append(node.mem_id)
        node = node.parent
    state = _SHOWN if node is None else states[node.mem_id]
    states.update(dict.fromkeys(path, state))
    return state


def _state(node: LexborNode, at: int, above: _State) -> _State:
    """Return the state of an element below another."""
    attributes = node.attributes
    style = _declared((attributes.get("style") or "")[:_MAX_STYLE])
    ground = style.ground or _rgb(attributes.get("bgcolor")) or above.ground
    if attributes.get("background"):
        ground = _IMAGE
    if node.tag in {"html", "body"}:
        return above._replace(ground=ground)
    gone = above.gone or style.gone or "hidden" in attributes
    tiny = above.tiny and not (node.tag == "font" and "size" in attributes)
    if style.tiny is not None:
        tiny = style.tiny
    unseen = above.unseen if style.unseen is None else style.unseen
    colour = style.colour or _rgb(attributes.get("color")) or above.colour
    hides = gone or tiny or unseen or _is_like(colour, ground)
    hider = (above.hider or at) if hides else 0
    return _State(gone, tiny, unseen, colour, ground, hider)


def _take(node: LexborNode, shown: set[int]) -> str:
    """Remove the text of an element, except in some elements inside; return it."""
    if not shown:
        text: str = node.text(separator="")
        node.decompose()
        return text
    texts = []
    waiting = [node]
    while waiting:
        at = waiting.pop()
        if at.is_text_node:
            texts.append(at)
        elif at.mem_id not in shown:
            waiting += reversed([*at.iter(include_text=True)])
    pieces = [each.text(separator="") for each in texts]
    for each in texts:
        each.decompose()
    return "".join(pieces)


# The elements of a page share few styles: without this, reading a newsletter takes
# twice as long (experiment 0102).
@lru_cache(maxsize=1024)
def _declared(style: str) -> _Style:
    """Return what a style declares."""
    style = style.lower()
    flat = _FLAT.search(style) is not None and _CUT.search(style) is not None
    visibility = _last(_VISIBILITY, style)
    return _Style(
        gone=flat or _GONE.search(style) is not None,
        tiny=_is_tiny(_last(_FONT, style) or ""),
        unseen=None if visibility is None else visibility != "visible",
        colour=_rgb(_last(_COLOUR, style)),
        ground=_IMAGE if "url(" in style else _ground(_last(_BACKGROUND, style)),
    )


def _last(expression: re.Pattern[str], style: str) -> str | None:
    """Return what a style declares last."""
    found = expression.findall(style)
    return found[-1] if found else None


def _is_tiny(size: str) -> bool | None:
    """Return whether text of a size is too small to be read; None if it depends.

    Examples
    --------
    >>> [_is_tiny(size) for size in ("0", "1px", "bold 14px Arial", "small", "1em")]
    [True, True, False, False, None]
    """
    found = _SIZE.search(size)
    if found is None:
        return None
    number, unit = found.groups()
    if number is None:
        return False
    if float(number) <= _TINY.get(unit, 0.0):
        return True
    return None if unit in _RELATIVE else False


@lru_cache(maxsize=256)
def _is_like(colour: Colour | None, ground: Colour) -> bool:
    """Return whether text of a colour cannot be told from the ground."""
    if colour is None:
        return False
    differences = [abs(a - b) for a, b in zip(colour, ground, strict=True)]
    return colour == _CLEAR or max(differences) <= _SAME


def _ground(colour: str | None) -> Colour | None:
    """Return the colour of a ground, unless what is behind it can be seen."""
    found = _rgb(colour)
    return None if found == _CLEAR else found


def _rgb(colour: str | None) -> Colour | None:
    """Return the red, green and blue of a colour, 0 to 255, or None.

    Examples
    --------
    >>> _rgb("#fff"), _rgb("rgb(255, 0, 10)"), _rgb("rgba(0,0,0,0)") == _CLEAR
    ((255, 255, 255), (255, 0, 10), True)
    """
    if not colour:
        return None
    colour = colour.strip().lower()
    if colour in _NAMED:
        return _NAMED[colour]
    found = _HEX.match(colour)
    if found is not None:
        digits = found[1] if len(found[1]) > 3 else "".join(c + c for c in found[1])  # noqa: PLR2004
        red, green, blue = bytes.fromhex(digits)
        return red, green, blue
    found = _RGB.match(colour)
    if found is None:
        return None
    if found[4] and not found[4].strip("0."):
        return _CLEAR
    red, green, blue = (min(255, int(part)) for part in found.group(1, 2, 3))
    return red, green, blue
