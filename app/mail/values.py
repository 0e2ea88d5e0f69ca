"""Values of style sheets: lengths, calculations, fonts, transforms.

Contract of this file: every expression is linear in its input.
"""

from __future__ import annotations

import re
from math import cos, inf, radians
from typing import TYPE_CHECKING, Final

from app.mail.colours import FAINT

if TYPE_CHECKING:
    from collections.abc import Mapping

TEXT_SIZE: Final = 16.0
"""Of text that declares none.  Unit: pixels."""
SHIFTED: Final = -800.0
"""Shift up to which a box is on no screen; by less, pictures overlap.  Unit: pixels."""
FAR: Final = 2000.0
"""Shift to the right from which on nobody scrolls to a box.  Unit: pixels."""
FLAT: Final = 3.0
"""Up to here a box has no room for text, and a text is too small.  Unit: pixels."""
UNTIL: Final = frozenset({"inherit", "unset", "revert", "revert-layer"})
"""Values that stand for that of what is above, of a property that is inherited."""
MAX_VALUE: Final = 200
"""Characters of a value that are read."""
_AMOUNT: Final = r"(?:\d++\.?\d*+|\.\d++)(?:e[+-]?\d{1,2})?"
_LENGTH: Final = re.compile(rf"(?<![^\s,])(-?{_AMOUNT})([a-z%]*+)(?![^\s,!/])")
_NUMBER: Final = re.compile(rf"([+-]?{_AMOUNT})([a-z%]*+)")
_TERM: Final = re.compile(rf"([-+*/]?)\s{{0,9}}([+-]?{_AMOUNT})([a-z%]*+)")
# Values that are lengths by something else.
_DEPENDS: Final = re.compile(
    r"auto|none|normal|inherit|initial|unset|revert|fit|medium"
    r"|(?:x{1,3}-)?(?:small|large)"
)
# Pixels, in a window of 800 by 600.
_UNITS: Final = {
    "": 1.0, "px": 1.0, "pt": 1.33, "pc": 16.0, "in": 96.0, "cm": 37.8, "mm": 3.78,
    "q": 0.94, "em": 16.0, "rem": 16.0, "ex": 8.0, "ch": 8.0, "%": 8.0, "cap": 11.0,
    "ic": 16.0, "lh": 18.0, "rlh": 18.0,
} | {
    of + unit: size
    for of in ("", "s", "l", "d", "cq")
    for units, size in (("vw vi vmax w i max", 8.0), ("vh vb vmin h b min", 6.0))
    for unit in units.split()
    if ("v" in unit) != (of == "cq")
}  # fmt: skip
_SHARES: Final = {"%": 0.01, "em": 1.0, "ex": 0.5, "ch": 0.5, "cap": 0.7, "ic": 1.0}
_NAMED_SIZES: Final = {"smaller": (0.83, True), "larger": (1.2, True)} | dict.fromkeys(
    UNTIL, (1.0, True)
)
# Functions without others in them, and brackets of a sum.
_FUNCTIONS: Final = (
    "calc|min|max|clamp|var|env|light-dark|abs|sign|round|mod|rem|sqrt|pow|hypot|exp"
    "|log|sin|cos|tan"
)
_CALCULATED: Final = re.compile(rf"(?<![\w-])({_FUNCTIONS}|)\(([^()]*+)\)")
_UNFINISHED: Final = re.compile(rf"(?<![\w-])(?:{_FUNCTIONS})\(.*")
_COMPUTED: Final = frozenset({"calc", "min", "max", "clamp", ""})
_MAX_NESTED: Final = 10
_MOST_SIDES: Final = 4
# The size in the short form of a font; numbers before it are weights.
_FONT: Final = re.compile(
    r"\A(?>(?:(?:normal|italic|oblique|small-caps|bold(?:er)?|lighter|[1-9]\d{0,3}"
    r"|(?:(?:ultra|extra|semi)-)?(?:condensed|expanded)|-?\d{1,3}deg) )*)"
    rf"(0|{_AMOUNT}[a-z%]++)(?=[ /]|\Z)"
)
_CALL: Final = re.compile(r"([a-z0-9]{1,20})\(([^()]*+)\)")
_ANGLES: Final = {"deg": 1.0, "grad": 0.9, "rad": 57.3, "turn": 360.0}
# Where in its arguments the edges of a picture of the axes are, and its shift.
_MATRICES: Final = {"matrix": (0, 1, 2, 3, 4, 5), "matrix3d": (0, 1, 4, 5, 12, 13)}


def computed(value: str, variables: Mapping[str, str]) -> str:
    """Return a value with the results of its calculations.

    What is not computed, such as a sine or what is too long, is 0, so that it does not
    show a text.

    Examples
    --------
    >>> [computed(x, {"--a": "none"}) for x in ("calc(2 * (1em - 1em))", "var(--a, b)")]
    ['0em', 'none']
    >>> computed("max(0px, var(--b, 1rem))", {}), computed("rgb(calc(255) 0 0)", {})
    ('16px', 'rgb(255 0 0)')
    """
    for _ in range(_MAX_NESTED):
        value, count = _CALCULATED.subn(
            lambda found: _result(found[1], found[2], variables), value[:MAX_VALUE]
        )
        # A variable may be made of others, and those of it.
        if not count or len(value) > MAX_VALUE:
            break
    return _UNFINISHED.sub("0", value[:MAX_VALUE])


def _result(name: str, arguments: str, variables: Mapping[str, str]) -> str:
    """Return the result of a function."""
    first, _, rest = arguments.partition(",")
    if name in {"var", "env"}:
        return variables.get(first.strip(), rest.strip() or "unset")
    if name == "light-dark":
        return first.strip()
    units = [*{unit for _, _, unit in _TERM.findall(arguments)} - {""}]
    sums = []
    for argument in arguments.split(","):
        terms = [0.0]
        for sign, number, unit in _TERM.findall(argument):
            x = float(number) * (_UNITS.get(unit, 0.0) if units[1:] else 1.0)
            if sign == "*":
                terms[-1] *= x
            elif sign == "/":
                terms[-1] = terms[-1] / x if x else 0.0
            else:
                terms.append(-x if sign == "-" else x)
        sums.append(sum(terms))
    found = sums[0]
    if name in {"min", "max"}:
        found = min(sums) if name == "min" else max(sums)
    elif sums[1:]:
        found = max(sums[0], min(sums[1:]))
    unit = "px" if units[1:] else "".join(units)
    return f"{found:.6g}{unit}" if name in _COMPUTED else "0"


def lengths_in(value: str) -> list[float]:
    """Return the lengths in a value, of which those of unknown units are large."""
    return [float(x) * _UNITS.get(unit, FAR) for x, unit in _LENGTH.findall(value)]


def pixels(value: str) -> list[float] | None:
    """Return the lengths that a value is; None if it is invalid."""
    if "(" in value:
        return [TEXT_SIZE]
    found = _LENGTH.findall(value)
    known = [float(number) * _UNITS[unit] for number, unit in found if unit in _UNITS]
    if known and len(known) == len(value.split()) <= _MOST_SIDES:
        return known
    return [0.0] if _DEPENDS.match(value) else None


def one(value: str) -> float | None:
    """Return the one length that a value is."""
    found = pixels(value)
    return found[0] if found and not found[1:] else None


def around(names: tuple[str, ...], value: str) -> dict[str, float] | None:
    """Return the lengths of four sides, or two, of which some may be missing."""
    found = pixels(value.replace("auto", "0"))
    if not found:
        return None
    # If missing, right and bottom are as top, and left as right.
    for other in (0, 0, 1)[len(found) - 1 :]:
        found.append(found[other])
    return dict(zip(names, found, strict=False))


def extent(value: str) -> float | None:
    """Return the size of a box, which has room for all if it depends on the content."""
    found = one(value)
    if found is None or found < 0:
        return None
    return inf if "(" in value or _DEPENDS.match(value) else found


def size(value: str) -> tuple[float, bool] | None:
    """Return the size of a font, and whether it is a share of the size above.

    Examples
    --------
    >>> [size(value) for value in ("0", "14px", "2em", "small", "?", "-1px")]
    [(0.0, False), (14.0, False), (2.0, True), (16.0, False), None, None]
    >>> size("inherit"), size("larger")
    ((1.0, True), (1.2, True))
    """
    found = _LENGTH.fullmatch(value)
    if found is None:
        known = (TEXT_SIZE, False) if _DEPENDS.match(value) else None
        return _NAMED_SIZES.get(value, known)
    number, unit = float(found[1]), found[2]
    share = unit in _SHARES
    factor = (_SHARES if share else _UNITS).get(unit)
    # Without a unit, it depends on the doctype.
    if factor is None or number < 0 or (not unit and 0 < number <= FLAT):
        return None
    return number * factor, share


def font(value: str) -> tuple[float, bool]:
    """Return the size in the short form of a font.

    Examples
    --------
    >>> font("bold 14px/2 Arial"), font("400 0 a"), font("caption")
    ((14.0, False), (0.0, False), (16.0, False))
    """
    if value in UNTIL:
        return _NAMED_SIZES[value]
    found = _FONT.match(value)
    return (found and size(found[1])) or (TEXT_SIZE, False)


def opacity(value: str) -> float | None:
    """Return an opacity, 0 to 1."""
    found = _LENGTH.fullmatch(value)
    if found is None or found[2] not in {"", "%"}:
        return 1.0 if _DEPENDS.match(value) else None
    return min(1.0, float(found[1]) * (0.01 if found[2] else 1.0))


def transforms(value: str) -> bool:
    """Return whether functions leave nothing of a box, or move it off the screen.

    Examples
    --------
    >>> [transforms(x) for x in ("scale(1, 0)", "rotate(9deg) translate(-999px)")]
    [True, True]
    >>> [transforms(x) for x in ("matrix(1 0 0 1 9 9)", "scale(0) x", "rotate(90deg)")]
    [False, False, False]
    """
    if _CALL.sub("", value).strip():
        return False
    return any(_removes(name, arguments) for name, arguments in _CALL.findall(value))


def _removes(name: str, arguments: str) -> bool:
    """Return whether a function leaves nothing of a box, or moves it away."""
    terms = [(float(number), unit) for number, unit in _NUMBER.findall(arguments)]
    if name in _MATRICES:
        x = [number for number, _ in terms]
        if len(x) <= max(_MATRICES[name]):
            return False
        a, b, c, d, right, down = (x[place] for place in _MATRICES[name])
        return abs(a * d - b * c) <= FAINT**2 or away(right, down)
    if name.startswith("scale"):
        sizes = [number * (0.01 if unit == "%" else 1) for number, unit in terms[:2]]
        return name != "scalez" and min(map(abs, sizes), default=1.0) <= FAINT
    if name.startswith("translate"):
        x = [number * _UNITS.get(unit, 1.0) for number, unit in terms[:2]]
        across = name != "translatey"
        return away(*x) if across else away(0.0, *x[:1])
    turns = name in {"rotatex", "rotatey", "rotate3d", "skew", "skewx", "skewy"}
    angles = [number * _ANGLES[unit] for number, unit in terms if unit in _ANGLES]
    return turns and any(abs(cos(radians(angle))) <= FAINT for angle in angles)


def away(right: float = 0.0, down: float = 0.0) -> bool:
    """Return whether nobody scrolls to what is moved by so much."""
    return min(right, down) <= SHIFTED or right >= FAR
