"""Colours: what style sheets and attributes call the colours of a page.

Contract of this file: every expression is linear in its input.
"""

from __future__ import annotations

import re
from colorsys import hls_to_rgb
from functools import lru_cache
from math import cos, radians, sin
from typing import Final

Colour = tuple[int, int, int]
"""Red, green and blue, 0 to 255."""
FAINT: Final = 0.1
"""Opacity up to which text is too pale to be read."""
WHITE: Final = (255, 255, 255)
IMAGE: Final = (-255, -255, -255)
"""The ground of an image, on which text of any colour may be readable."""
GRADIENT: Final = (-254, -254, -254)
"""A ground of several colours, none of them white."""
CLEAR: Final = (-999, -999, -999)
"""No colour: what is behind can be seen."""
UNKNOWN: Final = (999, 999, 999)
"""Of text that may be readable on anything."""
INHERITED: Final = (-1, -1, -1)
"""Of text that has the colour of what is around it."""
# "#fffffe on white" is a trick, light grey on white a footer.
_SAME: Final = 20
PALE: Final = 36
"""Difference of colours that is too small for a long text (``#dbdbdb`` on white)."""
# CSS Color 4, 6.1, and of its system colours those that are light.
_NAMES: Final = """
    aliceblue f0f8ff antiquewhite faebd7 aqua 00ffff aquamarine 7fffd4 azure f0ffff
    beige f5f5dc bisque ffe4c4 black 000000 blanchedalmond ffebcd blue 0000ff
    blueviolet 8a2be2 brown a52a2a burlywood deb887 cadetblue 5f9ea0 chartreuse 7fff00
    chocolate d2691e coral ff7f50 cornflowerblue 6495ed cornsilk fff8dc crimson dc143c
    cyan 00ffff darkblue 00008b darkcyan 008b8b darkgoldenrod b8860b darkgray a9a9a9
    darkgreen 006400 darkgrey a9a9a9 darkkhaki bdb76b darkmagenta 8b008b
    darkolivegreen 556b2f darkorange ff8c00 darkorchid 9932cc darkred 8b0000
    darksalmon e9967a darkseagreen 8fbc8f darkslateblue 483d8b darkslategray 2f4f4f
    darkslategrey 2f4f4f darkturquoise 00ced1 darkviolet 9400d3 deeppink ff1493
    deepskyblue 00bfff dimgray 696969 dimgrey 696969 dodgerblue 1e90ff firebrick
    b22222 floralwhite fffaf0 forestgreen 228b22 fuchsia ff00ff gainsboro dcdcdc
    ghostwhite f8f8ff gold ffd700 goldenrod daa520 gray 808080 green 008000
    greenyellow adff2f grey 808080 honeydew f0fff0 hotpink ff69b4 indianred cd5c5c
    indigo 4b0082 ivory fffff0 khaki f0e68c lavender e6e6fa lavenderblush fff0f5
    lawngreen 7cfc00 lemonchiffon fffacd lightblue add8e6 lightcoral f08080 lightcyan
    e0ffff lightgoldenrodyellow fafad2 lightgray d3d3d3 lightgreen 90ee90 lightgrey
    d3d3d3 lightpink ffb6c1 lightsalmon ffa07a lightseagreen 20b2aa lightskyblue
    87cefa lightslategray 778899 lightslategrey 778899 lightsteelblue b0c4de
    lightyellow ffffe0 lime 00ff00 limegreen 32cd32 linen faf0e6 magenta ff00ff maroon
    800000 mediumaquamarine 66cdaa mediumblue 0000cd mediumorchid ba55d3 mediumpurple
    9370db mediumseagreen 3cb371 mediumslateblue 7b68ee mediumspringgreen 00fa9a
    mediumturquoise 48d1cc mediumvioletred c71585 midnightblue 191970 mintcream f5fffa
    mistyrose ffe4e1 moccasin ffe4b5 navajowhite ffdead navy 000080 oldlace fdf5e6
    olive 808000 olivedrab 6b8e23 orange ffa500 orangered ff4500 orchid da70d6
    palegoldenrod eee8aa palegreen 98fb98 paleturquoise afeeee palevioletred db7093
    papayawhip ffefd5 peachpuff ffdab9 peru cd853f pink ffc0cb plum dda0dd powderblue
    b0e0e6 purple 800080 rebeccapurple 663399 red ff0000 rosybrown bc8f8f royalblue
    4169e1 saddlebrown 8b4513 salmon fa8072 sandybrown f4a460 seagreen 2e8b57 seashell
    fff5ee sienna a0522d silver c0c0c0 skyblue 87ceeb slateblue 6a5acd slategray
    708090 slategrey 708090 snow fffafa springgreen 00ff7f steelblue 4682b4 tan d2b48c
    teal 008080 thistle d8bfd8 tomato ff6347 turquoise 40e0d0 violet ee82ee wheat
    f5deb3 white ffffff whitesmoke f5f5f5 yellow ffff00 yellowgreen 9acd32
    buttonface efefef canvas ffffff field ffffff window ffffff
"""
_WORDS: Final = _NAMES.split()
_NAMED: Final[dict[str, Colour]] = {
    name: (int(digits[:2], 16), int(digits[2:4], 16), int(digits[4:], 16))
    for name, digits in zip(_WORDS[::2], _WORDS[1::2], strict=True)
} | {"transparent": CLEAR}
_FUNCTION: Final = re.compile(
    r"(rgb|hsl|hwb|lab|lch|oklab|oklch|color)a?\((?:[a-z][\w-]* )?([^()a-z]{1,80})\)"
)
# Of functions of other colours, none is known that mail uses for what it shows.
_OF_COLOURS: Final = re.compile(r"(?:color-mix|contrast-color)\(|[a-z]{2,8}\(from ")
_NUMBER: Final = re.compile(r"([+-]?(?:\d{1,6}(?:\.\d{0,9})?|\.\d{1,9}))(%?)")
_HEX: Final = re.compile(r"#?(?:([0-9a-f]{3,4})|([0-9a-f]{6}|[0-9a-f]{8}))\Z")
_NO_HEX: Final = re.compile("[^0-9a-f]")
_MAX_LEGACY: Final = 128
_SHORT: Final = 4
# What a share of all is of each number (CSS Color 4, 5 to 10).
_WHOLE: Final = {
    "rgb": (255, 255, 255), "hsl": (1, 100, 100), "hwb": (1, 100, 100),
    "lab": (100, 125, 125), "lch": (100, 150, 1), "oklab": (1, 0.4, 0.4),
    "oklch": (1, 0.4, 1), "color": (1, 1, 1),
}  # fmt: skip
# From lightness, a and b to the cube roots of the responses of an eye, and from these
# to red, green and blue (CSS Color 4, 18).
_Rows = tuple[tuple[float, float, float], ...]
_LAB: Final[tuple[_Rows, _Rows]] = (
    ((1.0, 0.002, 0.0), (1.0, 0.0, 0.0), (1.0, 0.0, -0.005)),
    ((3.0219, -1.6169, -0.4048), (-0.9438, 1.9161, 0.0276), (0.0694, -0.2290, 1.1595)),
)
_OKLAB: Final[tuple[_Rows, _Rows]] = (
    ((1.0, 0.3963, 0.2158), (1.0, -0.1056, -0.0639), (1.0, -0.0895, -1.2915)),
    ((4.0767, -3.3077, 0.2310), (-1.2684, 2.6098, -0.3413), (-0.0042, -0.7034, 1.7076)),
)


def colour_of(colour: str | None) -> Colour | None:
    """Return the red, green and blue of a colour, 0 to 255, or None.

    Examples
    --------
    >>> [colour_of(text) for text in ("#fff", "rgb(255, 0, 10)", "colour")]
    [(255, 255, 255), (255, 0, 10), None]
    >>> {colour_of(x) for x in ("oklch(1 0 0)", "lab(100% 0 0)", "hwb(0 100% 0%)")}
    {(255, 255, 255)}
    >>> {colour_of("rgba(0, 0, 0, 0)"), colour_of("rgb(from red r g b)")} == {CLEAR}
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
    if _OF_COLOURS.match(colour):
        return CLEAR
    function = _FUNCTION.match(colour.replace("none", "0").replace("deg", ""))
    return _calculated(function[1], function[2]) if function else None


@lru_cache(maxsize=256)
def legacy_colour(colour: str | None) -> Colour | None:
    """Return the colour of an attribute (HTML standard, 2.3.6), or None.

    Examples
    --------
    >>> [legacy_colour(text) for text in ("white", "#FFF", "fefefe", "", "transparent")]
    [(255, 255, 255), (255, 255, 255), (254, 254, 254), None, None]
    >>> [legacy_colour(text) for text in ("fff", "#fffffg", "gold")]
    [(15, 15, 15), (255, 255, 240), (255, 215, 0)]
    """
    colour = (colour or "").strip().lower()
    if colour in {"", "transparent"}:
        return None
    if colour in _NAMED or (len(colour) == _SHORT and _HEX.match(colour)):
        return colour_of(colour)
    digits = _NO_HEX.sub("0", colour[:_MAX_LEGACY].removeprefix("#")) or "0"
    size = -(-len(digits) // 3)
    digits = digits.ljust(3 * size, "0")
    parts = [digits[at : at + size][-8:] for at in (0, size, 2 * size)]
    # Of numbers that begin with zeros, the rest.
    while parts[0][2:] and all(part[0] == "0" for part in parts):
        parts = [part[1:] for part in parts]
    red, green, blue = (int(part[:2], 16) for part in parts)
    return red, green, blue


@lru_cache(maxsize=256)
def is_like(colour: Colour | None, ground: Colour, most: int = _SAME) -> bool:
    """Return whether text of a colour can hardly be told from the ground."""
    if colour is None:
        return False
    differences = [abs(a - b) for a, b in zip(colour, ground, strict=True)]
    return colour == CLEAR or max(differences) <= most


def _calculated(function: str, arguments: str) -> Colour | None:
    """Return the colour of a function; None if it is invalid."""
    parts = _NUMBER.findall(arguments)
    if not parts[2:]:
        return None
    values = [
        float(number) * (whole / 100 if share else 1.0)
        for (number, share), whole in zip(parts, (*_WHOLE[function], 1.0), strict=False)
    ]
    if values[3:] and values[3] < FAINT:
        return CLEAR
    first, second, third = values[:3]
    shares: tuple[float, ...]
    if function in {"hsl", "hwb"}:
        second, third = (max(0.0, min(1.0, x / 100)) for x in (second, third))
        light, full = (third, second) if function == "hsl" else (0.5, 1.0)
        shares = hls_to_rgb(first / 360, light, full)
        if function == "hwb":
            rest = max(0.0, 1 - second - third)
            shares = tuple(rest * x + second / max(1.0, second + third) for x in shares)
    elif function in {"lab", "lch", "oklab", "oklch"}:
        if function.endswith("lch"):
            turn = radians(third)
            second, third = second * cos(turn), second * sin(turn)
        if function in {"oklab", "oklch"}:
            shares = _shown((first, second, third), *_OKLAB)
        else:
            shares = _shown(((first + 16) / 116, second, third), *_LAB)
    else:
        scale = 255.0 if function == "rgb" else 1.0
        shares = first / scale, second / scale, third / scale
    red, green, blue = (round(255 * max(0.0, min(1.0, x))) for x in shares)
    return red, green, blue


def _shown(
    place: tuple[float, float, float], roots: _Rows, lights: _Rows
) -> tuple[float, ...]:
    """Return the shares of red, green and blue of a place in the space of colours."""
    eye = [sum(a * x for a, x in zip(row, place, strict=True)) ** 3 for row in roots]
    light = [sum(a * x for a, x in zip(row, eye, strict=True)) for row in lights]
    return tuple(1.055 * max(0.0, x) ** (1 / 2.4) - 0.055 for x in light)
