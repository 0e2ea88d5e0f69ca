"""Hidden text: what no reader of an HTML part sees.

It is found by the attributes of the elements, ``hidden``, ``style``, ``color`` and
``bgcolor``, and by the rules of style sheets whose selectors are an element, a class or
an id.  Other rules, and those for some screens only, are not read; small or pale text
counts as visible.

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
    from collections.abc import Iterable, Mapping

    from selectolax.lexbor import LexborNode

Colour = tuple[int, int, int]
"""Red, green and blue, 0 to 255."""
# What hides, shows or colours text, and what colours the ground behind it.
_CANDIDATES: Final = "[hidden],[style],font[color],font[size],[bgcolor],[background]"
_MAX_STYLE: Final = 1_000
_MAX_SHEET: Final = 65_536
_COMMENT: Final = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
_BRACES: Final = re.compile(r"([{}])")
# Elements without a class are few, because each is a selector for the whole tree.
_SELECTOR: Final = re.compile(
    r"[a-z0-9]{0,20}[.#][\w-]{1,80}\Z"
    r"|(?:a|b|body|div|font|h[1-6]|i|li|p|span|strong|table|td|th|tr|u|ul)\Z",
    re.ASCII,
)
_MAX_RULES: Final = 300
# A short form declares the same as the property that matters here.
_LONG: Final = {"font": "font-size", "background": "background-color"}
_BOXES: Final = ("height", "max-height", "width", "max-width")
_FLAT: Final = re.compile(r"[01](?:px|pt|%)?(?![\d.a-z%])")
_CLEARED: Final = re.compile(r"(?:0|(?=\.))(?:\.0\d{0,9})?(?![\d.])")
# So far to the side that it is on no screen; by less, pictures overlap.
_INDENTED: Final = re.compile(r"-(?:\d{3}|\d{2}(?:\.\d{0,9})?r?em)")
_SHIFTED: Final = re.compile(r"-(?:\d{4}|\d{3}(?:\.\d{0,9})?r?em)")
_SHIFTS: Final = ("left", "right", "top", "bottom", "margin-left", "margin-top")
_SIZE: Final = re.compile(
    r"(?<![\w.#(-])(?:(\d{0,5}\.?\d{1,5})(px|pt|pc|cm|mm|in|rem|vw|em|ex|ch|%)?"
    r"|(?:x{1,3}-)?(?:small|large)|medium)(?![\w.-])"
)
_VISIBLE: Final = {"hidden": True, "collapse": True, "visible": False}
# Up to here text is too small.  A share of nothing is nothing: such a size shows no
# text that is hidden.
_TINY: Final = {None: 1.0, "px": 1.0, "pt": 1.0, "%": 10.0, "em": 0.1, "ex": 0.1}
_RELATIVE: Final = frozenset({"%", "em", "ex", "ch"})
_COLOUR: Final = re.compile(r"#?\w{1,20}(?:\([^)]{1,40}\))?")
_HEX: Final = re.compile(r"#?([0-9a-f]{6}|[0-9a-f]{3})\Z")
_RGB: Final = re.compile(
    r"rgba?\(\s*(\d{1,3})\s*[\s,]\s*(\d{1,3})\s*[\s,]\s*(\d{1,3})\s*"
    r"(?:[,/]\s*([\d.]{1,9})%?\s*)?\)\Z"
)
_WHITE: Final = (255, 255, 255)
# Text of any colour may be readable on an image.
_IMAGE: Final = (-255, -255, -255)
_CLEAR: Final = (-999, -999, -999)
# Of text that may be readable on anything.
_UNKNOWN: Final = (999, 999, 999)
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
    gone : bool or None
        Whether all of the content is hidden.
    tiny, unseen : bool or None
        Whether text is too small to be read, or not visible.
    colour, ground : (int, int, int) or None
        Colour of text, and of the ground behind it.
    """

    gone: bool | None = None
    tiny: bool | None = None
    unseen: bool | None = None
    colour: Colour | None = None
    ground: Colour | None = None


_NOTHING: Final = _Style()


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


_OUTERMOST: Final = _State()


def take_hidden(root: LexborNode, sheet: str = "") -> str:
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
    rules = _rules(sheet)
    states: dict[int, _State] = {}
    hidden: dict[int, tuple[LexborNode, set[int]]] = {}
    # One match for each selector that fits, and what is above an element comes before
    # it.  More elements than tags are copies, caused by open formatting elements.
    matches = {node.mem_id: node for node in root.css(_candidates(rules))}
    for at, node in islice(matches.items(), MAX_HTML_TAGS):
        above = _inherited(node.parent, states)
        state = _state(node, at, above, rules)
        if state.hider == at:
            if len(hidden) < MAX_HIDDEN:
                hidden[at] = node, set()
            else:
                state = state._replace(hider=0)
        elif above.hider and not state.hider:
            hidden[above.hider][1].add(at)
        states[at] = state
    return " ".join(_take(node, shown) for node, shown in hidden.values())


def _rules(sheet: str) -> dict[str, _Style]:
    """Return the rules of style sheets by their selectors, such as ``p.note``.

    Examples
    --------
    >>> rules = _rules("/* a */ .b, p#c { display: none } @media print {.d {top:0}}")
    >>> list(rules), rules[".b"].gone
    (['.b', 'p#c'], True)
    """
    rules: dict[str, _Style] = {}
    depth, left, doubtful = 0, _MAX_RULES, False
    selectors: list[str] = []
    read: list[str] = []
    pieces = _BRACES.split(_COMMENT.sub("", sheet[:_MAX_SHEET]))
    for text, brace in zip(pieces[:-1:2], pieces[1::2], strict=True):
        if brace == "{":
            depth += 1
            if depth == 1:
                # After a rule without braces, such as @import.
                selectors = text.rpartition(";")[2].split(",")[:_MAX_RULES]
                read = [*filter(_SELECTOR.match, map(str.strip, selectors))]
            continue
        if depth != 1 or len(read) < len(selectors):
            doubtful = doubtful or "background" in text.lower()
        if depth == 1 and read and left:
            left -= 1
            style = _declared(text[:_MAX_STYLE])
            for name in read if style != _NOTHING else ():
                rules[name] = _both(rules.get(name, _NOTHING), style)
        depth = max(0, depth - 1)
    return {name: _unsure(x) for name, x in rules.items()} if doubtful else rules


def _unsure(style: _Style) -> _Style:
    """Return a style without its colours: another rule may give them another ground."""
    return style._replace(
        colour=style.colour and _UNKNOWN, ground=style.ground and _IMAGE
    )


def _candidates(rules: Iterable[str]) -> str:
    """Return the selector of the elements that may hide, show or colour text."""
    of_rules = {
        f"[{'class' if '.' in name else 'id'}]" if "." in name or "#" in name else name
        for name in rules
    }
    return ",".join([_CANDIDATES, *sorted(of_rules)])


def _inherited(node: LexborNode | None, states: dict[int, _State]) -> _State:
    """Return the state of an element that declares nothing.

    It is added for the elements on the way, so each is climbed once.
    """
    path = []
    while node is not None and node.mem_id not in states:
        path.append(node.mem_id)
        node = node.parent
    state = _OUTERMOST if node is None else states[node.mem_id]
    states.update(dict.fromkeys(path, state))
    return state


def _state(
    node: LexborNode, at: int, above: _State, rules: Mapping[str, _Style]
) -> _State:
    """Return the state of an element below another."""
    attributes = node.attributes
    style = _declared((attributes.get("style") or "")[:_MAX_STYLE])
    if rules:
        style = _ruled(node.tag or "", attributes, rules, style)
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


def _ruled(
    tag: str,
    attributes: Mapping[str, str | None],
    rules: Mapping[str, _Style],
    own: _Style,
) -> _Style:
    """Return what rules and an element's own style declare; the latter prevails."""
    style = rules.get(tag, _NOTHING)
    names = [f".{name}" for name in (attributes.get("class") or "").split()[:9]]
    if attributes.get("id"):
        names.append(f"#{attributes['id']}")
    for name in names:
        for selector in (name, tag + name):
            if selector in rules:
                style = _both(style, rules[selector])
    return own if style is _NOTHING else _both(style, own)


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
    properties: dict[str, str] = {}
    for declaration in style.lower().split(";"):
        name, _, value = declaration.partition(":")
        name = name.strip()
        properties[_LONG.get(name, name)] = value.strip()
    gone = None
    # Not mso-hide: only Outlook hides that, and many buttons have it for all others.
    if "display" in properties or "opacity" in properties:
        opacity = _CLEARED.match(properties.get("opacity", "1"))
        gone = properties.get("display", "").startswith("none") or opacity is not None
    if properties.get("overflow", "").startswith("hidden"):
        # Without room, and it may not overflow.
        gone = (
            gone or any(_FLAT.match(properties.get(box, "")) for box in _BOXES) or None
        )
    if _INDENTED.match(properties.get("text-indent", "")):
        gone = True
    if any(_SHIFTED.match(properties.get(side, "")) for side in _SHIFTS):
        gone = True
    visibility = properties.get("visibility", "")
    ground = properties.get("background-color", "")
    found = _Style(
        gone=gone,
        tiny=_is_tiny(properties.get("font-size", "")),
        unseen=_VISIBLE.get(visibility.partition("!")[0].strip()),
        colour=_colour(properties.get("color", "")),
        ground=_IMAGE if "url(" in ground else _opaque(_colour(ground)),
    )
    return _NOTHING if found == _NOTHING else found


def _colour(value: str) -> Colour | None:
    """Return the colour that a value begins with, if any."""
    found = _COLOUR.match(value)
    return None if found is None else _rgb(found[0])


def _opaque(colour: Colour | None) -> Colour | None:
    """Return the colour of a ground, unless what is behind it can be seen."""
    return None if colour == _CLEAR else colour


@lru_cache(maxsize=1024)
def _both(style: _Style, other: _Style) -> _Style:
    """Return what two styles declare; the second one prevails."""
    changes = {name: x for name, x in other._asdict().items() if x is not None}
    return style._replace(**changes)


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
