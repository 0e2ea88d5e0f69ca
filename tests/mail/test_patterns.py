"""No regular expression that reads mail can be made to take long.

Each is run on strings that make careless expressions quadratic or worse, at a
length and at four times that length: a linear one takes about four times as
long, a quadratic one sixteen, an exponential one never ends.  Times are those
of one process's own work, compared with each other and with nothing else.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import time
from pathlib import Path

import pytest

import app.access
import app.features
import app.mail

PACKAGES = (app.mail, app.features, app.access)


def patterns():
    """Yield name and compiled expression of all modules of the floors."""
    for package in PACKAGES:
        for info in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
            module = importlib.import_module(info.name)
            for name, value in sorted(vars(module).items()):
                if isinstance(value, re.Pattern):
                    yield f"{info.name.removeprefix('app.')}.{name}", value


PATTERNS = dict(patterns())

# Runs of what expressions repeat, then what makes them fail at the end.
PIECES = [
    "a", "A", "1", " ", "\n", "=", "=?", "=?a?q?", "=?a?b?a", "?", '"', "\\", '\\"', "'", "*", ";", "; a", ";a=",
    ';a="', "a=b;", "*1", "<", "<a ", "<!--", "<!-- ", "a<!--", "<script", "<script>", "<style ", "</script", "<a b='",
    "href=", 'href = "a', ">", "-", "--", "\n--", "--a\nContent", "--a", "\r", "\r\r\n", "From ", ">From ", "From a 10:0",
    "begin 644 a", "\nbegin 644 a\n", "begin 644 a\n#0V%T\n", "#0V%T\n", "`\n", "M" * 61 + "\n", "http://", "www.", "http:/", "http://a@", "a@",
    "@", "a.", ".", "a.a@", "%6", "0x", "0x.", "1.", "1.1.1.", "a b ", "a.b.", "a- ", "A-", "a * ", "b", "xkq", "$", "!", "_",
    "\u0e01", "\u4e00", "\u0301", "a\u0301", "\u200b", "\u202e", "\u0430", "a\u0430", "x\u00ad",
    "display:none", "display", "display :", ";display:", " color:", "color:#f", ";background-color:", "background:", "opacity:0.",
    "font-size:0.", "font-size:1", "#f", "ffffff", "x/", "text/", "list-", "x-a", "content-", "(", ")", "[",
]  # fmt: skip
ENDS = ["", "\0"]

SEARCHES = {
    "match",
    "fullmatch",
    "search",
    "sub",
    "subn",
    "split",
    "findall",
    "finditer",
}
# Small, as four times of a quadratic expression has to end as well.
SHORT, LONG = 1_000, 4_000
# Below it a clock says nothing.
NOISE_SECONDS = 0.005
ATTEMPTS = 5


def seconds(pattern, text, attempts):
    """Return the least time of some attempts to find all matches."""
    given = (
        text.encode("utf-8", "surrogateescape")
        if isinstance(pattern.pattern, bytes)
        else text
    )
    least = float("inf")
    for _ in range(attempts):
        begun = time.process_time()
        for _match in pattern.finditer(given):
            pass
        pattern.match(given)
        least = min(least, time.process_time() - begun)
        if least < NOISE_SECONDS:
            break
    return least


def grown(piece, size, end):
    """Return a piece repeated up to a size, and an end."""
    return piece * (size // len(piece)) + end


def is_slow(pattern, piece, end):
    """Return whether four times the text takes more than nine times as long."""
    short, long = (seconds(pattern, grown(piece, n, end), 3) for n in (SHORT, LONG))
    return long > NOISE_SECONDS and long > 9 * short


def test_no_expression_is_compiled_in_passing():
    """It would be none of the module's: `From` was searched in a quadratic time."""
    calls = [
        f"{path.name}:{node.lineno}"
        for package in PACKAGES
        for path in sorted(Path(package.__path__[0]).glob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in {f"re.{name}" for name in SEARCHES}
        and isinstance(node.args[0], ast.Name)
    ]

    assert [] == calls


def test_no_group_is_repeated_possessively():
    """Python 3.11.2, of Debian 12, finds other matches then, and 3.12.7 may raise.

    CPython issues 106052 and 101955; atomic groups have neither fault.
    """
    possessive = re.compile(r"(?<!\\)\)(?:[*+?]|\{[\d,]+\})\+")
    root = Path(app.__path__[0]).parent
    sources = [*root.glob("app/**/*.py"), *root.glob("tests/**/*.py")]
    found = [
        f"{path.name}:{number}"
        for path in sources
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if possessive.search(line)
    ]

    assert [] == found
    assert len(sources) > 100


def test_all_expressions_are_found():
    """The walk over the modules must not come back empty."""
    assert len(PATTERNS) > 35
    assert "mail.parse._MBOX_LINE" in PATTERNS


@pytest.mark.parametrize("name", PATTERNS)
def test_an_expression_is_linear(name):
    """Four times the text never takes nine times as long."""
    pattern = PATTERNS[name]
    # Whatever else the machine does at one time, it does not do each time.
    slow = [
        (piece, end)
        for piece in PIECES
        for end in ENDS
        if all(is_slow(pattern, piece, end) for _ in range(ATTEMPTS))
    ]

    assert [] == slow
