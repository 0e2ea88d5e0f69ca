"""Style: what the declarations of an element mean for its text, as in browsers.

Contract of this file: the work is linear in the declarations, and every expression in
its input.
"""

from __future__ import annotations

import re
from functools import lru_cache, partial
from math import inf
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from app.kernels import markup
from app.mail.colours import (
    CLEAR,
    FAINT,
    GRADIENT,
    IMAGE,
    INHERITED,
    UNKNOWN,
    WHITE,
    colour_of,
    is_like,
)
from app.mail.values import (
    FLAT,
    MAX_VALUE,
    SHIFTED,
    UNTIL,
    around,
    computed,
    extent,
    font,
    lengths_in,
    one,
    opacity,
    pixels,
    size,
    transforms,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from app.mail.colours import Colour

Declared = dict[str, Any]
"""Values by property, those of important declarations also with "!" before it."""
# Longer styles do not recur, and would take memory.
LONG: Final = 1_000
# Comments, and the content of strings and addresses.
_OPAQUE: Final = re.compile(
    r"/\*.*?(?:\*/|\Z)|<!--|-->|(url\()[^)]*+"
    r"|\"(?>(?:[^\"\\\n]|\\.)*)\"?|'(?>(?:[^'\\\n]|\\.)*)'?",
    re.DOTALL,
)
ESCAPE: Final = re.compile(r"\\([0-9a-f]{1,6})\s?")
_PREFIX: Final = re.compile(r"\A-(?:webkit|moz|ms|o)-")
# A short form declares the same as the property that matters here.
_SAME: Final = {
    "mask-image": "mask",
    "overflow-block": "overflow-y",
    "overflow-inline": "overflow-x",
} | {
    of.format(flow): of.format(side).removeprefix("inset-")
    for flow, side in (
        ("block-start", "top"),
        ("inline-end", "right"),
        ("block-end", "bottom"),
        ("inline-start", "left"),
        ("block-size", "height"),
        ("inline-size", "width"),
    )
    for of in ("{}", "min-{}", "max-{}", "inset-{}", "margin-{}", "padding-{}")
}
BOXES: Final = ("height", "max-height", "width", "max-width")
_WINDOW: Final = 800.0
_OVERFLOWS: Final = ("overflow", "overflow-x", "overflow-y")
# Up to here a shadow or an outline shows a text.
_NEAR: Final = 50.0
_FOUR: Final = ("top", "right", "bottom", "left")
# What gives a box room that its own size does not.
ROOMS: Final = (*[f"padding-{side}" for side in _FOUR], "min-height", "min-width")
# Values, those that show an element from their beginning.
_DISPLAYED: Final = re.compile(
    r"none\Z|block|inline-(?:block|flex|grid)|inline|flex|grid|table|list-item|contents"
    r"|flow|ruby|math|-webkit-|-moz-|inherit|initial|unset|revert"
)
_CLIPPED: Final = re.compile("(?:(?:hidden|clip|auto|scroll) ?){1,2}")
# Shapes that leave nothing: without a number that is large enough for a text.
_NO_SHAPE: Final = re.compile(
    r"inset\((?=[^()]*?(?:[5-9]\d%|\d{3}))[^()]*+\)"
    r"|(?:circle|ellipse)\(\d?(?:\.\d+)?(?:px|%)?(?: [^()]*+)?\)"
    r"|(?:polygon|path|rect|xywh)\((?>(?:(?!\d\d%|\d{3})[^()])*)\)"
)
_FILTERED: Final = re.compile(
    r"opacity\((?:0?\.0|0\)|\d%)|blur\(\d\dpx|(?:contrast|invert)\(|brightness\(\d\d"
)
_MASKED: Final = re.compile(r"(?!none\Z|initial|inherit|unset|revert).+")
# Of letters, which are some ten pixels wide.
_OVERLAPPING: Final = -8.0
_APART: Final = 100.0
_MOVED: Final = re.compile("absolute|fixed|relative")
_FLOATED: Final = re.compile("left|right")
# Kinds of elements: in a line, in a table, a block, and one that is placed by itself.
_LINE, _CELL, _BLOCK, _PLACED = "lcbp"
# Without a gap, what is side by side is one word, also in blocks within a line.
_ON_LINES: Final = frozenset({"block", "flex", "grid", "list-item"})
_BESIDE: Final = ("margin-left", "margin-right", "padding-left", "padding-right")
# A fifth of the size of a text, as wide as its blanks.
_GAP: Final = 3.0
_AS_BLOCK: Final = frozenset(
    {"block", "inline-block", "inline-flex", "inline-grid", "flex", "grid", "list-item"}
    | {"flow", "-webkit-", "-moz-"}
)
# HTML standard, 15.3.3 and following.
_BLOCKS: Final = frozenset(
    {"address", "article", "aside", "blockquote", "body", "center", "dd", "details"}
    | {"dialog", "dir", "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer"}
    | {"form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "html", "legend", "li"}
    | {"main", "menu", "nav", "ol", "p", "pre", "section", "summary", "ul"}
)
_TABLES: Final = frozenset({"table", "tbody", "td", "tfoot", "th", "thead", "tr"})
_WORD: Final = re.compile(r"[a-z-]++\(.*|#?[\w-]++", re.DOTALL)
_OF_GRADIENT: Final = re.compile(r"[a-z]++\([^()]*+\)|#?[\w-]++")
_PICTURE: Final = re.compile(
    r"(?:url|[a-z-]{0,30}gradient)\((?>[^()]*(?:\([^()]*+\)[^()]*)*)\)"
)
_NO_COLOUR: Final = re.compile(
    r"none|inherit|initial|unset|revert|no-repeat|repeat(?:-[xy])?|scroll|fixed"
    r"|center|top|left|right|bottom|auto|cover|contain|-?\d+(?:px|pt|r?em|v[hw])?"
)
_SAME_COLOUR: Final = UNTIL | {"currentcolor"}


class Style(NamedTuple):
    """What an element declares; None where it says nothing.

    Parameters
    ----------
    gone : bool or None
        Whether all of the content is hidden.
    unseen : bool or None
        Whether text is hidden that declares nothing else.
    size : (float, bool) or None
        Of the text, and whether it is a share of the size above.
    opacity : float
        Of all of the content.
    colour, shade, ground : (int, int, int) or None
        Of the text, of its shadow or outline, and of what is behind it.
    right, down : float
        By how much it is moved.  Unit: pixels.
    indent : float or None
        Of the first line.  Unit: pixels.
    flat, placed : bool
        Whether it has no room for its text; and whether one above, which has none,
        does not matter, because this one is placed by itself.
    apart : bool
        Whether it stands in a line of its own, or away from what is beside it, although
        elements of its name do not.
    room : float
        For its text, if more is cut off.  Unit: square pixels.
    steps : int
        Bits of the steps of selectors that the element matches (see `_Step`).
    """

    gone: bool | None = None
    unseen: bool | None = None
    size: tuple[float, bool] | None = None
    opacity: float = 1.0
    colour: Colour | None = None
    shade: Colour | None = None
    ground: Colour | None = None
    right: float = 0.0
    down: float = 0.0
    indent: float | None = None
    flat: bool = False
    placed: bool = False
    apart: bool = False
    room: float = inf
    steps: int = 0


_NOTHING: Final = Style()


def without_comments(text: str) -> str:
    """Return a style, in small letters, without its comments and strings."""
    return _OPAQUE.sub(r"\1", text.lower())


def declared_in(text: str, variables: Mapping[str, str] | None = None) -> Declared:
    """Return the values of declarations as browsers understand them.

    Examples
    --------
    >>> declared_in("display:none; display:nothing; color: red !important")
    {'display': 'none', 'color': (255, 0, 0), '!color': (255, 0, 0)}
    """
    if "(" in text and variables:
        return _read(text, variables)
    return _parsed(text) if len(text) < LONG else _read(text, {})


@lru_cache(maxsize=1024)
def _parsed(text: str) -> Declared:
    return _read(text, {})


def _read(text: str, variables: Mapping[str, str]) -> Declared:
    found: Declared = {}
    text = without_comments(text)
    if "\\" in text:
        text = ESCAPE.sub(lambda x: chr(int(x[1], 16) % 128), text)
    for declaration in text.split(";"):
        name, _, value = declaration.partition(":")
        name = _PREFIX.sub("", name.strip())
        name = _SAME.get(name, name)
        read = _PROPERTIES.get(name)
        value, mark, important = value.partition("!")
        if read is None or mark + important.strip() not in {"", "!important"}:
            continue
        value = " ".join(value.split())[:MAX_VALUE]
        if "(" in value:
            value = computed(value, variables)
        x = read(value) if value else None
        if x is not None:
            each = x if isinstance(x, dict) else {name: x}
            found |= each
            if mark:
                found |= {f"!{name}": x for name, x in each.items()}
    return found


def _kind(tag: str, get: Callable[[str], Any]) -> str:
    """Return what an element is to the layout, by its name and its declarations."""
    if get("position") in {"absolute", "fixed"}:
        return _PLACED
    display = get("display")
    if get("float") or (display in _AS_BLOCK if display else tag in _BLOCKS):
        return _BLOCK
    in_table = display == "table" if display else tag in _TABLES
    return _CELL if in_table else _LINE


def outcome(tag: str, declared: Iterable[Declared], *, strict: bool) -> Style:
    """Return the outcome of declarations, of which the last ones prevail."""
    found: Declared = {}
    for each in declared:
        found |= each
    if not found:
        return _NOTHING
    get = (found | {key[1:]: x for key, x in found.items() if key[0] == "!"}).get
    kind = _kind(tag, get)
    boxed = kind in {_BLOCK, _PLACED}
    right, down = get("padding-left", 0.0), 0.0
    if kind != _LINE:
        down = get("padding-top", 0.0) + (boxed and get("margin-top", 0.0))
    if kind != _CELL:
        right += get("margin-left", 0.0)
    aside = False
    if get("position"):
        right += get("left") or -get("right", 0.0)
        down += get("top") or -get("bottom", 0.0)
        aside = min(get("right", 0.0), get("bottom", 0.0)) <= SHIFTED
    # Without room, and it may not overflow.
    overflow = "".join(get(name, "") for name in _OVERFLOWS) if boxed else ""
    high, wide = (min(get(x, inf), get(f"max-{x}", inf)) for x in ("height", "width"))
    flat = bool(overflow) and min(high, wide, get("line-height", inf)) <= FLAT
    flat = flat and not any(get(name, 0.0) > FLAT for name in ROOMS)
    # Readers scroll what is to be scrolled.
    room = (
        high * min(wide, _WINDOW) if "hidden" in overflow or "clip" in overflow else inf
    )
    gone = any(get(x) and kind in _HIDING[x][1] for x in _HIDING.keys() & found)
    display = get("display")
    apart = display in _ON_LINES or any(get(x, 0.0) >= _GAP for x in _BESIDE)
    image, ground = get("background-image"), get("background-color")
    ground = ground if image in {None, CLEAR, strict and IMAGE} else image
    shade = get("text-shadow")
    colour = get("text-fill-color") or get("color")
    if get("background-clip"):
        # The ground is seen in the letters alone.
        if colour == CLEAR:
            colour = UNKNOWN if ground in {IMAGE, GRADIENT} else ground
        ground = None
    return Style(
        # What is placed inside it does not leave it if it is placed as well.
        (flat and bool(get("position")))
        or gone
        or aside
        or (None if display is None else display == "none"),
        VISIBLE.get(get("visibility", "")),
        get("font-size"),
        get("opacity", 1.0),
        colour,
        CLEAR if strict and shade == UNKNOWN else shade,
        None if strict and ground == IMAGE else ground,
        right,
        down,
        get("text-indent") if kind != _LINE else None,
        flat,
        kind == _PLACED,
        apart and tag not in markup.BREAK_ELEMENTS,
        room + 1e6 * any(get(name, 0.0) > FLAT for name in ROOMS),
    )


def _is(pattern: re.Pattern[str], value: str) -> bool:
    """Return whether a value is of a pattern."""
    return pattern.fullmatch(value) is not None


def _word(pattern: re.Pattern[str], value: str) -> str:
    """Return a value if it is known."""
    return value if pattern.fullmatch(value) else ""


def _display(value: str) -> str | None:
    """Return what an element is shown as; of several words, what hides least."""
    if value.startswith("table-column"):
        return "none"
    found = _DISPLAYED.match(value)
    return found and ("inline" if " " in value else found[0])


def _visibility(value: str) -> str | None:
    """Return a visibility, or that it is that of what is above."""
    return value if value in VISIBLE else "" if value in UNTIL else None


VISIBLE: Final = {
    "hidden": True, "collapse": True, "visible": False, "initial": False
}  # fmt: skip


def _line_height(value: str) -> float | None:
    """Return the height of lines, of which a number alone is a share of the text."""
    return extent(f"{value}em" if value[-1:].isdigit() else value)


def _has_clip(value: str) -> bool:
    """Return whether a rectangle has no room."""
    sides = pixels(value.removeprefix("rect(").removesuffix(")").replace(",", " "))
    if not value.startswith("rect(") or sides is None or not sides[3:]:
        return False
    top, right, bottom, left = sides
    return min(bottom - top, right - left) <= FLAT


def _has_transform(call: str, value: str) -> bool:
    """Return whether a transform leaves nothing, by the property of one or of any."""
    return transforms(call.format(value))


def _is_crushed(value: str) -> bool:
    """Return whether letters are one above the other, or far from each other."""
    return not _OVERLAPPING < (one(value) or 0.0) < _APART


def _is_small(value: str) -> bool:
    """Return whether what is shown at a scale is tiny; by 0, browsers scale nothing."""
    return 0.0 < (opacity(value) or 0.0) <= FAINT


# What hides the elements of some kinds alone (CSS 2.2, 10.2, 11.1.2, 16.1; CSS
# Transforms 1, 2).
_HIDING: Final[Mapping[str, tuple[Callable[[str], bool], str]]] = {
    "clip": (_has_clip, _PLACED),
    "clip-path": (partial(_is, _NO_SHAPE), "lcbp"),
    "contain": ("strict".__eq__, "bp"),
    "content-visibility": ("hidden".__eq__, "bp"),
    "filter": (lambda value: _FILTERED.search(value) is not None, "lcbp"),
    "font-size-adjust": (_is_small, "lcbp"),
    "letter-spacing": (_is_crushed, "lcbp"),
    "mask": (partial(_is, _MASKED), "lcbp"),
    "rotate": (partial(_has_transform, "rotate3d({})"), "cbp"),
    "scale": (partial(_has_transform, "scale({})"), "cbp"),
    "transform": (transforms, "cbp"),
    "translate": (partial(_has_transform, "translate({})"), "cbp"),
    "zoom": (_is_small, "lcbp"),
}


def _colour(value: str) -> Colour | None:
    """Return the colour that a value is; one that is not known may be any."""
    if value in _SAME_COLOUR:
        return INHERITED
    return colour_of(value) or (None if value[0] == "#" else UNKNOWN)


def _shade(least: float, value: str) -> Colour:
    """Return the colour of a shadow or an outline; of several, any."""
    lengths = lengths_in(value)
    words = [x for x in _WORD.findall(value) if not _NO_COLOUR.fullmatch(x)]
    if not (words and lengths and least <= max(map(abs, lengths)) <= _NEAR):
        return CLEAR
    return UNKNOWN if len(words) > 1 else colour_of(words[0]) or UNKNOWN


def _background(value: str) -> Declared:
    """Return the colours of a ground, and whether it is seen in letters alone."""
    plain = _PICTURE.sub(" ", value)
    return {
        "background-color": _ground(plain),
        "background-image": CLEAR if plain == value else _ground(value),
        "background-clip": "text" in value.split(),
    }


def _ground(value: str) -> Colour:
    """Return the colour of a ground, or that of an image if it may have another."""
    if "gradient(" in value and "url(" not in value:
        found = [*filter(None, map(colour_of, _OF_GRADIENT.findall(value)))]
        if found and all(is_like(x, found[0]) for x in found):
            return found[0]
        return IMAGE if any(is_like(x, WHITE) for x in found) else GRADIENT
    words = [x for x in _WORD.findall(value) if not _NO_COLOUR.fullmatch(x)]
    if len(words) > 1:
        return IMAGE
    return colour_of(words[0]) or IMAGE if words else CLEAR


_FLOWS: Final = {"": _FOUR, "-block": _FOUR[::2], "-inline": _FOUR[:0:-2]}
_PROPERTIES: Final[Mapping[str, Callable[[str], Any]]] = {
    **{name: read for name, (read, _) in _HIDING.items()},
    **dict.fromkeys(_OVERFLOWS, partial(_word, _CLIPPED)),
    **dict.fromkeys(BOXES, extent),
    **dict.fromkeys(BOXES[:2], lambda value: inf if "%" in value else extent(value)),
    "line-height": _line_height,
    **dict.fromkeys((*_FOUR, "margin-top", *ROOMS, *_BESIDE), one),
    "text-indent": lambda value: None if value in UNTIL else one(value),
    "inset": partial(around, _FOUR),
    **{
        f"{of}{flow}": partial(around, tuple(f"{of}-{side}" for side in sides))
        for of in ("margin", "padding")
        for flow, sides in _FLOWS.items()
    },
    "position": partial(_word, _MOVED),
    "float": partial(_word, _FLOATED),
    "display": _display,
    "visibility": _visibility,
    "opacity": opacity,
    "font": lambda value: {"font-size": font(value)},
    "font-size": size,
    **dict.fromkeys(("color", "text-fill-color"), _colour),
    **dict.fromkeys(("background-color", "background-image"), _ground),
    "background": _background,
    "background-clip": "text".__eq__,
    "text-shadow": partial(_shade, 0.0),
    "text-stroke": lambda value: {"text-shadow": _shade(0.1, value)},
}
