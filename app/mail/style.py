"""Style: what style sheets and the elements of a page declare, as browsers read it.

Rules are read whose selectors are elements, classes and ids, also those inside one
another (``.a > p .b``).  Others, and those for some screens only, hide nothing, and
count for what they show.

Contract of this file: the work is linear in the style sheets, and every expression in
its input.
"""

from __future__ import annotations

import re
from colorsys import hls_to_rgb
from dataclasses import dataclass
from functools import lru_cache, partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from app.kernels import markup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

Colour = tuple[int, int, int]
"""Red, green and blue, 0 to 255."""
Declared = dict[str, Any]
"""Values by property, those of important declarations also with "!" before it."""
Rules = dict[str, Declared]
"""Declarations by selectors such as ``.a > p.note``, in the order of the cascade."""
# Longer styles do not recur, and would take memory.
_LONG: Final = 1_000
_MAX_VALUE: Final = 200
# Comments, and the content of strings and addresses.
_OPAQUE: Final = re.compile(
    r"/\*.*?(?:\*/|\Z)|<!--|-->|(url\()[^)]*+"
    r"|\"(?>(?:[^\"\\\n]|\\.)*)\"?|'(?>(?:[^'\\\n]|\\.)*)'?",
    re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\([0-9a-f]{1,6})\s?")
_BRACES: Final = re.compile(r"([{}])")
_COMPOUND: Final = r"(?:[a-z][a-z0-9]{0,20}|\*|(?=[.#]))(?>(?:[.#][\w-]{1,80})*)"
# Of at most ten elements, because each beginning is remembered.
_SELECTOR: Final = re.compile(
    rf"\A{_COMPOUND}(?: (?:> )?{_COMPOUND}){{0,9}}\Z", re.ASCII
)
_MARK: Final = re.compile(r"[.#]?[\w-]+|\*")
_ELEMENT: Final = re.compile(r"(?<![.#\w-])[a-z]")
# The last part of a selector, and what of it is neither element, class nor id.
_LAST: Final = re.compile(r"[^ +~]*\Z")
_BESIDES: Final = re.compile(r"\[[^\]]*+\]|:[\w-]++")
# Rules for parts of elements, and for those under a pointer.
_STATE: Final = re.compile(r"^@|:(?:hover|active|focus|:|before|after)")
_AROUND_RULES: Final = re.compile(r"@(?:media|supports|layer|container|scope)\b")
# Media of paper, of telephones and of the night.
_SMALL: Final = re.compile(
    r"\A\s*(?:only\s+)?print\b|max-(?:device-)?width\s*:\s*\d{1,3}(?:\.\d*)?px"
    r"|prefers-color-scheme\s*:\s*dark"
)
# No telephone is narrower than 300 pixels.
_EVERY_SCREEN: Final = re.compile(
    r"@media\s{1,9}(?:(?:only\s{1,9})?(?:all|screen)(?:\s{1,9}and\s{1,9}(?=\()|\Z))?"
    r"(?:\(\s*+min-(?:device-)?width\s*+:\s*+[0-2]?\d{1,2}(?:px)?\s*+\))?\Z"
)
_SCREENS: Final = frozenset({"", "all", "screen", "only screen"})
# Of rules inside others, the inner ones.
_INNER: Final = re.compile(r"(?<![^{}])[^{}]*+\{[^{}]*+\}")
# A short form declares the same as the property that matters here.
_WHOLE: Final = {
    "font": "font-size",
    "-webkit-background-clip": "background-clip",
    "-webkit-text-stroke": "text-shadow",
}
_LENGTH: Final = re.compile(
    r"(?<![^\s,])(-?(?:\d++\.?\d*+|\.\d++)(?:e[+-]?\d{1,2})?)([a-z%]*+)(?![^\s,!/])"
)
# Values that are lengths by something else.
_DEPENDS: Final = re.compile(
    r"auto|none|normal|inherit|initial|unset|revert|calc|var|min|max|clamp|fit|medium"
    r"|(?:x{1,3}-)?(?:small|large)"
)
# Pixels, in a window of 800 by 600.
_UNITS: Final = {
    "": 1.0, "px": 1.0, "pt": 1.33, "pc": 16.0, "in": 96.0, "cm": 37.8, "mm": 3.78,
    "q": 0.94, "em": 16.0, "rem": 16.0, "ex": 8.0, "ch": 8.0, "%": 8.0, "vw": 8.0,
    "vh": 6.0, "vmin": 6.0, "vmax": 8.0,
}  # fmt: skip
_SHARES: Final = {"%": 0.01, "em": 1.0, "ex": 0.5, "ch": 0.5}
TEXT_SIZE: Final = 16.0
"""Of text that declares none.  Unit: pixels."""
FAINT: Final = 0.1
"""Opacity up to which text is too pale to be read."""
SHIFTED: Final = -800.0
"""Shift up to which a box is on no screen; by less, pictures overlap.  Unit: pixels."""
# Up to here a box has no room for text.
_FLAT: Final = 3.0
_BOXES: Final = ("height", "max-height", "width", "max-width")
_OVERFLOWS: Final = ("overflow", "overflow-x", "overflow-y")
_SIDES: Final = ("right", "bottom", "inset")
# Up to here a shadow or an outline shows a text.
_NEAR: Final = 50.0
_FOUR: Final = ("top", "right", "bottom", "left")
# What gives a box room that its own size does not.
_ROOMS: Final = (*[f"padding-{side}" for side in _FOUR], "min-height", "min-width")
# Of a length that is not known: the text may be on the screen.
_FAR: Final = 1e6
# Values, those that show an element from their beginning.
_DISPLAYED: Final = re.compile(
    r"none\Z|block|inline-(?:block|flex|grid)|inline|flex|grid|table|list-item|contents"
    r"|flow|ruby|math|-webkit-|-moz-|inherit|initial|unset|revert|var\("
)
_GONE: Final = {
    "clip": re.compile(r"rect\((?:[ ,]*[01](?:px)?){4} ?\)"),
    "clip-path": re.compile(
        r"inset\((?:[5-9]\d|100)%[^()]*\)|(?:circle|ellipse)\(0[^()]*\)"
    ),
    "content-visibility": re.compile("hidden"),
    "filter": re.compile(r"opacity\(0(?:\.0\d*)?%?\)"),
    "scale": re.compile(r"0(?:\.0\d*)?%?(?: [\d.]+%?)?"),
    "translate": re.compile(r"-\d{4}[^ ]*+(?: [^ ]++)?"),
    "transform": re.compile(
        r"scale[xy]?\((?:0|0?\.0\d*)\)|translate[xy]?\(-\d{4}[^()]*\)"
        r"|rotate[xy]\(-?90deg\)"
    ),
}
_CLIPPED: Final = re.compile("hidden|clip|auto|scroll")
_MOVED: Final = re.compile("absolute|fixed|relative")
_FLOATED: Final = re.compile("left|right")
# Kinds of elements: in a line, in a table, a block, and one that is placed by itself.
_LINE, _CELL, _BLOCK, _PLACED = "lcbp"
# What hides the elements of some kinds alone (CSS 2.2, 10.2, 11.1.2, 16.1; CSS
# Transforms 1, 2).
_AWAY: Final = {
    "clip": _PLACED, "clip-path": "lcbp", "content-visibility": "bp", "filter": "lcbp",
    "scale": "cbp", "transform": "cbp", "translate": "cbp",
}  # fmt: skip
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
# What may stand before the size of a font.
_STYLED: Final = re.compile(
    r"\A(?:(?:normal|italic|oblique|small-caps|bold(?:er)?|lighter|[1-9]\d{0,3}) )*"
)
_FUNCTION: Final = re.compile(r"(rgb|hsl)a?\(([^()]{1,60})\)")
_NUMBER: Final = re.compile(r"([+-]?(?:\d{1,6}(?:\.\d{0,9})?|\.\d{1,9}))(%?)")
_HEX: Final = re.compile(r"#?(?:([0-9a-f]{3,4})|([0-9a-f]{6}|[0-9a-f]{8}))\Z")
_LEGACY: Final = re.compile(r"#?[0-9a-f]{6}\Z|#[0-9a-f]{3}\Z")
_WORD: Final = re.compile(r"[a-z-]++\(.*|#?[\w-]++", re.DOTALL)
_NO_COLOUR: Final = re.compile(
    r"none|inherit|initial|unset|revert|no-repeat|repeat(?:-[xy])?|scroll|fixed"
    r"|center|top|left|right|bottom|auto|cover|contain|-?\d+(?:px|pt|r?em|v[hw])?"
)
WHITE: Final = (255, 255, 255)
IMAGE: Final = (-255, -255, -255)
"""The ground of an image, on which text of any colour may be readable."""
CLEAR: Final = (-999, -999, -999)
"""No colour: what is behind can be seen."""
UNKNOWN: Final = (999, 999, 999)
"""Of text that may be readable on anything."""
INHERITED: Final = (-1, -1, -1)
"""Of text that has the colour of what is around it."""
_SAME_COLOUR: Final = frozenset({"inherit", "unset", "currentcolor"})
# The sixteen of HTML 4.01, and those that are nearly white (CSS Color 4, 6.1).
_NAMED: Final[dict[str, Colour]] = {
    "white": WHITE, "snow": (255, 250, 250), "ghostwhite": (248, 248, 255),
    "mintcream": (245, 255, 250), "whitesmoke": (245, 245, 245),
    "ivory": (255, 255, 240), "lavenderblush": (255, 240, 245),
    "azure": (240, 255, 255), "aliceblue": (240, 248, 255), "honeydew": (240, 255, 240),
    "floralwhite": (255, 250, 240), "seashell": (255, 245, 238), "black": (0, 0, 0),
    "red": (255, 0, 0), "maroon": (128, 0, 0), "yellow": (255, 255, 0),
    "olive": (128, 128, 0), "lime": (0, 255, 0), "green": (0, 128, 0),
    "aqua": (0, 255, 255), "teal": (0, 128, 128), "blue": (0, 0, 255),
    "navy": (0, 0, 128), "fuchsia": (255, 0, 255), "purple": (128, 0, 128),
    "silver": (192, 192, 192), "gray": (128, 128, 128), "grey": (128, 128, 128),
    "transparent": CLEAR,
}  # fmt: skip


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
    steps: int = 0


@dataclass(slots=True)
class _Step:
    """A part of a selector, such as the ``b`` of ``.a b > .c``, below those before.

    Parameters
    ----------
    marks : frozenset of str
        Element, classes and id, all of which it takes.
    before : int
        Bit of the step before, or 0.
    child : bool
        Whether that is a step to the parent, and not to any element above.
    bit : int
        Its own, if steps follow.
    rule : (int, dict)
        Rank and declarations, if none needs to follow.
    """

    marks: frozenset[str]
    before: int
    child: bool
    bit: int = 0
    rule: tuple[int, Declared] = (0, {})


_NOTHING: Final = Style()


def for_screens(sheet: str, media: str | None) -> str:
    """Return a style sheet for some media as one for all screens.

    Examples
    --------
    >>> for_screens(".a {top:0}} .b {", "(min-width:1px)")
    '@media (min-width:1px){.a {top:0}}'
    """
    media = (media or "").strip().lower()
    if media in _SCREENS:
        return sheet
    if not {*"{};"}.isdisjoint(media):
        return ""
    inner = _INNER.findall(_OPAQUE.sub(r"\1", sheet.lower()))
    return f"@media {media}{{{''.join(inner)}}}"


def read_rules(sheet: str) -> tuple[Rules, Rules]:
    """Return the rules of style sheets by their selectors, and what others may show.

    Returns
    -------
    rules : dict of str to dict
        The rules that are understood, those that prevail last.
    shown : dict of str to dict
        By elements, classes and ids, or ``*`` for all, what rules declare that show a
        text, and may hold for it.

    Examples
    --------
    >>> read_rules("/* a */ .b, p#c { display: none } @media print {.d {top:0}}")
    ({'.b': {'display': 'none'}, 'p#c': {'display': 'none'}}, {})
    >>> read_rules("td[class] {opacity: 1} @supports (top: 0) {.b:not(p) {top: 0}}")
    ({}, {'td': {'opacity': 1.0}, '*': {'top': 0.0}})
    """
    found: dict[str, Declared] = {}
    shown: dict[str, Declared] = {}
    depth, doubtful, elsewhere = 0, False, False
    selectors: list[str] = []
    read: list[str] = []
    pieces = _BRACES.split(_OPAQUE.sub(r"\1", sheet.lower()))
    for text, brace in zip(pieces[:-1:2], pieces[1::2], strict=True):
        if brace == "{":
            # After a rule without braces, such as @import.
            head = text.rpartition(";")[2].strip()
            depth += not _EVERY_SCREEN.match(head)
            forms = head.replace(">", " > ").split(",")
            selectors = [" ".join(form.split()) for form in forms]
            if depth == 1:
                read = [*filter(_SELECTOR.match, selectors)]
                elsewhere = _is_elsewhere(head)
            continue
        if not elsewhere and (depth != 1 or len(read) < len(selectors)):
            doubtful = doubtful or "background" in text
        declared = _declared(text) if depth else {}
        if depth > 1:
            read = []
        for name in read if declared else ():
            found[name] = found.pop(name, {}) | declared
        shows = {} if elsewhere else _showing(declared)
        for name in set(selectors).difference(read) if shows else ():
            if not _STATE.search(name):
                known = _known(name)
                shown[known] = shown.get(known, {}) | shows
        depth = max(0, depth - 1)
    if doubtful:
        # Another rule, which is not read, may give them another ground.
        found = {
            name: {key: _DOUBT.get(key.lstrip("!"), x) for key, x in declared.items()}
            for name, declared in found.items()
        }
    # The last one prevails, an id over a class, and a class over an element (Selectors
    # 4, section 17).
    order = sorted(
        found, key=lambda x: (x.count("#"), x.count("."), len(_ELEMENT.findall(x)))
    )
    return {name: found[name] for name in order}, shown


def _known(selector: str) -> str:
    """Return elements, classes and ids of which a rule needs all, or ``*``.

    Examples
    --------
    >>> [_known(x) for x in ("u + .a .b", "td[x]:empty", "[x] i.c", "p:not(.a .b)")]
    ['.b', 'td', 'i.c', '*']
    """
    last = _BESIDES.sub("", _LAST.findall(selector)[0])
    return last if _SELECTOR.match(last) else "*"


def _is_elsewhere(head: str) -> bool:
    """Return whether rules that are inside another show nothing on a large screen."""
    if not _AROUND_RULES.match(head):
        return head[:1] == "@"
    return head.startswith("@media") and all(
        _SMALL.search(media) and "not" not in media for media in head[6:].split(",")
    )


def _showing(declared: Declared) -> Declared:
    """Return the declarations that may show what others hide, but for grounds."""
    found: Declared = {}
    for key, value in declared.items():
        name = key.lstrip("!")
        if name == "display" and value != "none":
            # In a line, an element without height hides nothing.
            found[key] = "inline"
        elif name == "font-size":
            size = value[0] * (TEXT_SIZE if value[1] else 1.0)
            found |= {key: value} if size > _FLAT else {}
        elif name == "opacity":
            found |= {key: value} if value > FAINT else {}
        elif name in {"color", "-webkit-text-fill-color", "text-shadow"}:
            found[key] = UNKNOWN
        elif isinstance(value, float) and value >= 0 and name not in _ROOMS:
            found[key] = 0.0
        elif (value is False or value == "") and name != "background-clip":
            found[key] = value
    return found


_DOUBT: Final = {"color": UNKNOWN, "background-color": IMAGE}


# The elements of a page share few styles: without this, and without the cache below,
# reading a newsletter takes twice as long (experiment 0102).
class Styles(dict[tuple[str, str, str, str, int, int], Style]):
    """The styles of elements, by tag, classes, id, own style, and steps above."""

    def __init__(self, rules: Rules, shown: Rules) -> None:
        super().__init__()
        # By the mark that fewest elements have.
        self.steps: dict[str, list[_Step]] = {}
        known: dict[str, _Step] = {}
        for rank, (selector, declared) in enumerate(rules.items(), 1):
            step, path = None, ""
            for part in selector.replace("> ", ">").split(" "):
                path += " " + part
                if path not in known:
                    marks = frozenset(_MARK.findall(part))
                    before = 0
                    if step is not None:
                        before = step.bit = step.bit or 1 << len(known)
                    known[path] = _Step(marks, before, part[0] == ">")
                    rarest = min(marks - {"*"}, default="*")
                    self.steps.setdefault(rarest, []).append(known[path])
                step = known[path]
            if step is not None:
                step.rule = rank, declared
        for rank, (selector, declared) in enumerate(shown.items(), len(rules) + 1):
            marks = frozenset(_MARK.findall(selector))
            step = _Step(marks, 0, child=False, rule=(rank, declared))
            self.steps.setdefault(min(marks - {"*"}, default="*"), []).append(step)

    def __missing__(self, key: tuple[str, str, str, str, int, int]) -> Style:
        """Return what rules and the element itself declare."""
        tag, classes, identity, own, parent, above = key
        marks = [f".{name}" for name in classes.lower().split()]
        names = {tag, "*", *marks, f"#{identity.lower()}"}
        steps = [
            step
            for name in names
            for step in self.steps.get(name, ())
            if step.marks <= names
            and (not step.before or step.before & (parent if step.child else above))
        ]
        found = sorted([step.rule for step in steps], key=itemgetter(0))
        declared = [*[declared for _, declared in found], _declared(own)]
        style = _outcome(tag, declared)
        bits = sum({step.bit for step in steps})
        if bits:
            style = style._replace(steps=bits)
        self[key] = style
        return style


def _declared(text: str) -> Declared:
    """Return the values of declarations as browsers understand them.

    Examples
    --------
    >>> _declared("display:none; display:nothing; color: red !important")
    {'display': 'none', 'color': (255, 0, 0), '!color': (255, 0, 0)}
    """
    return _parsed(text) if len(text) < _LONG else _parsed.__wrapped__(text)


@lru_cache(maxsize=1024)
def _parsed(text: str) -> Declared:
    found: Declared = {}
    text = _OPAQUE.sub(r"\1", text.lower())
    if "\\" in text:
        text = _ESCAPE.sub(lambda x: chr(int(x[1], 16) % 128), text)
    for declaration in text.split(";"):
        name, _, value = declaration.partition(":")
        name = name.strip()
        read = _PROPERTIES.get(name)
        value, mark, important = value.partition("!")
        if read is None or mark + important.strip() not in {"", "!important"}:
            continue
        value = " ".join(value[:_MAX_VALUE].split())
        x = read(value) if value else None
        if x is not None:
            each = x if isinstance(x, dict) else {_WHOLE.get(name, name): x}
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


def _outcome(tag: str, declared: Iterable[Declared]) -> Style:
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
        right, down = right + get("left", 0.0), down + get("top", 0.0)
        aside = any(map(get, _SIDES))
    # Without room, and it may not overflow.
    flat = boxed and any(map(get, _OVERFLOWS)) and any(map(get, _BOXES))
    flat = flat and not any(get(name, 0.0) > _FLAT for name in _ROOMS)
    away = any(get(name) and kind in kinds for name, kinds in _AWAY.items())
    display = get("display")
    apart = display in _ON_LINES or any(get(x, 0.0) >= _GAP for x in _BESIDE)
    image, ground = get("background-image"), get("background-color")
    ground = ground if image in {None, CLEAR} else image
    colour = get("-webkit-text-fill-color") or get("color")
    if get("background-clip"):
        # The ground is seen in the letters alone.
        if colour == CLEAR:
            colour = UNKNOWN if ground == IMAGE else ground
        ground = None
    return Style(
        # What is placed inside it does not leave it if it is placed as well.
        (flat and bool(get("position")))
        or away
        or aside
        or (None if display is None else display == "none"),
        get("visibility"),
        get("font-size"),
        # It may begin with nothing.
        1.0 if get("animation") or get("animation-name") else get("opacity", 1.0),
        colour,
        get("text-shadow"),
        ground,
        right,
        down,
        get("text-indent") if kind != _LINE else None,
        flat,
        kind == _PLACED,
        apart and tag not in markup.BREAK_ELEMENTS,
    )


def _is(pattern: re.Pattern[str], value: str) -> bool:
    """Return whether a value is of a pattern."""
    return pattern.fullmatch(value) is not None


def _word(pattern: re.Pattern[str], value: str) -> str:
    """Return a value if it is known."""
    return value if pattern.fullmatch(value) else ""


def _display(value: str) -> str | None:
    """Return what an element is shown as; of several words, what hides least."""
    found = _DISPLAYED.match(value)
    return found and ("inline" if " " in value else found[0])


def _visibility(value: str) -> bool | None:
    """Return whether text is not visible; None if the value is invalid."""
    return _VISIBLE.get(value, False if _DEPENDS.match(value) else None)


_VISIBLE: Final = {"hidden": True, "collapse": True, "visible": False}


def _between(least: float, most: float, value: str) -> bool | None:
    """Return whether the least length in a value is so; None if it is invalid."""
    found = _pixels(value) or _pixels(value.replace("auto", "0"))
    if not found:
        return None
    return not _DEPENDS.match(value) and least <= min(found) <= most


def _pixels(value: str) -> list[float] | None:
    """Return the lengths that a value is; None if it is invalid."""
    if "(" in value:
        return [_FAR]
    found = _LENGTH.findall(value)
    known = [float(number) * _UNITS[unit] for number, unit in found if unit in _UNITS]
    if known and len(known) == len(value.split()) <= len(_FOUR):
        return known
    return [0.0] if _DEPENDS.match(value) else None


def _one(value: str) -> float | None:
    """Return the one length that a value is."""
    found = _pixels(value)
    return found[0] if found and not found[1:] else None


def _around(name: str, value: str) -> dict[str, float] | None:
    """Return the lengths of four sides, of which some may be missing."""
    found = _pixels(value.replace("auto", "0"))
    if not found:
        return None
    # If missing, right and bottom are as top, and left as right.
    for other in (0, 0, 1)[len(found) - 1 :]:
        found.append(found[other])
    return {f"{name}-{side}": x for side, x in zip(_FOUR, found, strict=False)}


def _height(value: str) -> bool | None:
    """Return whether a height leaves no room; a share of an unknown one may."""
    return False if "%" in value else _between(0.0, _FLAT, value)


def _size(value: str) -> tuple[float, bool] | None:
    """Return the size of a font, and whether it is a share of the size above.

    Examples
    --------
    >>> [_size(value) for value in ("0", "14px", "2em", "small", "?", "-1px")]
    [(0.0, False), (14.0, False), (2.0, True), (16.0, False), None, None]
    """
    found = _LENGTH.fullmatch(value)
    if found is None:
        return (TEXT_SIZE, False) if _DEPENDS.match(value) else None
    number, unit = float(found[1]), found[2]
    share = unit in _SHARES
    factor = (_SHARES if share else _UNITS).get(unit)
    # Without a unit, it depends on the doctype.
    if factor is None or number < 0 or (not unit and 0 < number <= _FLAT):
        return None
    return number * factor, share


def _font(value: str) -> tuple[float, bool]:
    """Return the size in the short form of a font.

    Examples
    --------
    >>> _font("bold 14px/2 Arial"), _font("400 0 a"), _font("caption")
    ((14.0, False), (0.0, False), (16.0, False))
    """
    size = re.split("[ /]", _STYLED.sub("", value, 1), maxsplit=1)[0]
    return _size(size) or (TEXT_SIZE, False)


def _opacity(value: str) -> float | None:
    """Return an opacity, 0 to 1."""
    found = _LENGTH.fullmatch(value)
    if found is None or found[2] not in {"", "%"}:
        return 1.0 if _DEPENDS.match(value) else None
    return min(1.0, float(found[1]) * (0.01 if found[2] else 1.0))


def _colour(value: str) -> Colour | None:
    """Return the colour that a value is; one that is not known may be any."""
    if value in _SAME_COLOUR:
        return INHERITED
    return colour_of(value) or (None if value[0] == "#" else UNKNOWN)


def _shade(least: float, value: str) -> Colour:
    """Return the colour of a shadow or an outline; of several, any."""
    lengths = [
        abs(float(number)) * _UNITS.get(unit, _FAR)
        for number, unit in _LENGTH.findall(value)
    ]
    words = [x for x in _WORD.findall(value) if not _NO_COLOUR.fullmatch(x)]
    if not (words and lengths and least <= max(lengths) <= _NEAR):
        return CLEAR
    return UNKNOWN if len(words) > 1 else colour_of(words[0]) or UNKNOWN


def _background(value: str) -> Declared:
    """Return the colour of a ground, and whether it is seen in letters alone."""
    return {
        "background-color": _ground(value),
        "background-clip": "text" in value.split(),
    }


def _ground(value: str) -> Colour:
    """Return the colour of a ground, or that of an image if it may have another."""
    words = [x for x in _WORD.findall(value) if not _NO_COLOUR.fullmatch(x)]
    if len(words) > 1:
        return IMAGE
    return colour_of(words[0]) or IMAGE if words else CLEAR


_PROPERTIES: Final[Mapping[str, Callable[[str], Any]]] = {
    **{name: partial(_is, pattern) for name, pattern in _GONE.items()},
    **dict.fromkeys(_OVERFLOWS, partial(_is, _CLIPPED)),
    **dict.fromkeys(_BOXES, partial(_between, 0.0, _FLAT)),
    **dict.fromkeys(("height", "max-height"), _height),
    **dict.fromkeys(("left", "top", "margin-top", *_ROOMS, *_BESIDE), _one),
    **{name: partial(_around, name) for name in ("margin", "padding")},
    **dict.fromkeys(_SIDES, partial(_between, -_FAR, SHIFTED)),
    "text-indent": _one,
    "position": partial(_word, _MOVED),
    "float": partial(_word, _FLOATED),
    "display": _display,
    "visibility": _visibility,
    "opacity": _opacity,
    "font": _font,
    "font-size": _size,
    **dict.fromkeys(("color", "-webkit-text-fill-color"), _colour),
    **dict.fromkeys(("background-color", "background-image"), _ground),
    "background": _background,
    **dict.fromkeys(("background-clip", "-webkit-background-clip"), "text".__eq__),
    "text-shadow": partial(_shade, 0.0),
    "-webkit-text-stroke": partial(_shade, 0.1),
    **dict.fromkeys(("animation", "animation-name"), "none".__ne__),
}


def colour_of(colour: str | None) -> Colour | None:
    """Return the red, green and blue of a colour, 0 to 255, or None.

    Examples
    --------
    >>> [colour_of(text) for text in ("#fff", "rgb(255, 0, 10)", "colour")]
    [(255, 255, 255), (255, 0, 10), None]
    >>> colour_of("rgba(0, 0, 0, 0)") == CLEAR
    True
    """
    if not colour:
        return None
    colour = colour.strip().lower()
    if colour in _NAMED:
        return _NAMED[colour]
    found = _HEX.match(colour)
    if found is not None:
        digits = found[2] or "".join(c + c for c in found[1])
        red, green, blue, alpha = bytes.fromhex(digits.ljust(8, "f"))
        return CLEAR if alpha < 255 * FAINT else (red, green, blue)
    function = _FUNCTION.match(colour)
    return _calculated(function[1], function[2]) if function else None


def legacy_colour(colour: str | None) -> Colour | None:
    """Return the colour of an attribute (HTML standard, 2.3.6), or None.

    Examples
    --------
    >>> [legacy_colour(text) for text in ("white", "#FFF", "fefefe", "", "transparent")]
    [(255, 255, 255), (255, 255, 255), (254, 254, 254), None, None]
    >>> {legacy_colour("fff"), legacy_colour("gold")} == {UNKNOWN}
    True
    """
    colour = (colour or "").strip().lower()
    if colour in {"", "transparent"}:
        return None
    known = colour in _NAMED or _LEGACY.match(colour)
    return colour_of(colour) if known else UNKNOWN


def _calculated(function: str, arguments: str) -> Colour | None:
    """Return the colour of the function ``rgb`` or ``hsl``; None if it is invalid."""
    parts = _NUMBER.findall(arguments)
    # Numbers up to 255, degrees, and shares of 255.
    values = [float(number) * (2.55 if share else 1.0) for number, share in parts]
    if not values[2:]:
        return None
    hue, *_ = values
    if values[3:] and values[3] < FAINT * (255 if parts[3][1] else 1):
        return CLEAR
    red, green, blue = (max(0.0, min(255.0, x)) for x in values[:3])
    if function == "hsl":
        shares = hls_to_rgb(hue / 360, blue / 255, green / 255)
        red, green, blue = (255 * share for share in shares)
    return round(red), round(green), round(blue)
