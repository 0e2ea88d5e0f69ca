"""Sheets: the rules of style sheets, as browsers read them.

Rules are read whose selectors are elements, classes and ids, also those inside one
another (``.a > p .b``).  Others, and those for some screens only, count for what they
may show; where they may hide or show more than a few words, for what they may hide.

Contract of this file: the work is linear in the style sheets, and every expression in
its input.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice, product
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from app.mail.colours import FAINT, IMAGE, UNKNOWN
from app.mail.style import (
    BOXES,
    ESCAPE,
    LONG,
    ROOMS,
    VISIBLE,
    Declared,
    Style,
    declared_in,
    outcome,
    without_comments,
)
from app.mail.values import FLAT, TEXT_SIZE, pixels

if TYPE_CHECKING:
    from collections.abc import Mapping

Rules = dict[str, Declared]
"""Declarations by selectors such as ``.a > p.note``, in the order of the cascade."""
NEXT: Final = "\ufdd0"
"""Between style sheets, each of which ends the rules that it has opened."""
_BRACES: Final = re.compile(rf"([{{}}{NEXT}])")
_VARIABLE: Final = re.compile(r"(--[\w-]{1,80}+)\s{0,9}:\s{0,9}([^;{}]{0,200})")
_PLAIN: Final = r"(?>(?:[.#][\w-]{1,80}|:not\([.#]?[\w-]{1,80}\))*)"
_COMPOUND: Final = rf"(?:[a-z][a-z0-9]{{0,20}}|\*|(?=[.#:])){_PLAIN}"
# Of at most ten elements, because each beginning is remembered.
_SELECTOR: Final = re.compile(
    rf"\A{_COMPOUND}(?: (?:> )?{_COMPOUND}){{0,9}}\Z", re.ASCII
)
_MARK: Final = re.compile(r"[.#]?[\w-]+|\*")
_NOT: Final = re.compile(r":not\(([.#]?[\w-]{1,80})\)")
_ELEMENT: Final = re.compile(r"(?<![.#:\w-])[a-z]")
_EITHER: Final = re.compile(r":(?:is|where|matches|-webkit-any)\(([^()]*+)\)")
# What has another form, that of the root in two steps.
_MEANT: Final = (
    ("*|", ""), (">", " > "), ("html:root", "html"), (":root", "html"),
    (":scope", "html"),
)  # fmt: skip
_FORM: Final = re.compile(r"(?>(?:[^(),]++|\([^()]*+\)|[()])+)")
_MOST_COMBINED: Final = 100
_MOST_NESTED: Final = 5_000
# The last part of a selector, and what of it is neither element, class nor id.
_LAST: Final = re.compile(r"[^ +~]*\Z")
_BESIDES: Final = re.compile(r"\[[^\]]*+\]|:[\w-]++(?:\([^()]*+\))?")
# Rules for parts of elements, and for those under a pointer.
_STATE: Final = re.compile(r":(?:hover|active|focus|:|before|after)")
# Newsletters hide what is beside a picture (img.a + div), and elements without text.
_UNHIDING: Final = re.compile(
    rf"{_STATE.pattern}|:empty|[+~](?![^()\[\]]{{0,50}}[)\]])"
)
_AROUND_RULES: Final = re.compile(r"@(?:media|supports|layer|container|scope)\b")
_TYPE: Final = re.compile(r"\s*(not\b|only\b)?\s*([a-z]*)")
_FEATURE: Final = re.compile(
    r"\(\s*([a-z-]{1,40})\s*(?:([:<>])=?\s*([^()<>]{1,40}))?\)"
)
# Widths of screens: no telephone has less than the first, and the next is a large one.
_WIDTHS: Final = (299.0, 1_000.0, 2_000.0)
_SCREENS: Final = frozenset({"", "all", "screen", "only screen"})
# Of rules inside others, the inner ones.
_INNER: Final = re.compile(r"(?<![^{}])[^{}]*+\{[^{}]*+\}")


@dataclass(slots=True)
class _Step:
    """A part of a selector, such as the ``b`` of ``.a b > .c``, below those before.

    Parameters
    ----------
    marks, without : frozenset of str
        Element, classes and id, all of which it takes; and those that it does not.
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
    without: frozenset[str]
    before: int
    child: bool
    bit: int = 0
    rule: tuple[int, Declared] = (0, {})


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
    inner = _INNER.findall(without_comments(sheet))
    return f"@media {media}{{{''.join(inner)}}}"


class _Block(NamedTuple):
    """Rules in braces, and on which screens they hold.

    Parameters
    ----------
    read, others : list of str
        Selectors that are understood, and others.
    everywhere, elsewhere : bool
        Whether the rules hold on all screens, and whether on no large one.
    """

    read: list[str]
    others: list[str]
    everywhere: bool = True
    elsewhere: bool = False


_TOP: Final = _Block([""], [])


def read_rules(
    sheet: str, variables: Mapping[str, str] | None = None
) -> tuple[Rules, Rules, Rules]:
    """Return the rules of style sheets by their selectors, and what others may do.

    Parameters
    ----------
    variables : dict of str to str, optional
        From `variables_in`.

    Returns
    -------
    rules : dict of str to dict
        The rules that are understood, those that prevail last.
    shown, gone : dict of str to dict
        By elements, classes and ids, or ``*`` for all, what rules declare that show or
        hide a text, and may hold for it.

    Examples
    --------
    >>> read_rules("/* a */ .b, p#c { display: none } @media print {.d {top:0}}")
    ({'.b': {'display': 'none'}, 'p#c': {'display': 'none'}}, {}, {})
    >>> read_rules("td[class] {opacity: 1} @media (min-width: 600px) {.b {top: 0}}")
    ({}, {'td': {'opacity': 1.0}, '.b': {'top': 0.0}}, {})
    >>> read_rules("p:first-child {opacity: 0} p:empty {opacity: 0}")
    ({}, {}, {'p': {'opacity': 0.0}})
    >>> [*read_rules("@media all {.b {color: red; p:is(.c, .d) > & {top: 0}}}")[0]]
    ['.b', 'p.c > .b', 'p.d > .b']
    """
    found = _Found({}, {}, {})
    blocks, left, stray = [_TOP], _MOST_NESTED, ""
    pieces = _BRACES.split(without_comments(sheet) + NEXT)
    for text, sign in zip(pieces[:-1:2], pieces[1::2], strict=True):
        # Before a rule within another are declarations, or rules without braces.
        declarations, _, head = text.rpartition(";") if sign == "{" else (text, "", "")
        inside = len(blocks) > 1
        if inside:
            found.add(blocks[-1], declared_in(declarations, variables))
        if sign == "{":
            blocks.append(_inside(blocks[-1], stray + head.strip(), left))
            left -= 1 + len(blocks[-1].read) if inside else 0
            stray = ""
        elif sign == NEXT:
            del blocks[1:]
        elif inside:
            blocks.pop()
        else:
            # It is part of the next selector.
            stray = sign
    # The last one prevails, an id over a class, and a class over an element (Selectors
    # 4, section 17).
    order = sorted(
        found.rules,
        key=lambda x: (x.count("#"), x.count("."), len(_ELEMENT.findall(x))),
    )
    return {name: found.rules[name] for name in order}, found.shown, found.gone


class _Found(NamedTuple):
    """What style sheets declare, as `read_rules` returns it."""

    rules: Rules
    shown: Rules
    gone: Rules

    def add(self, block: _Block, declared: Declared) -> None:
        """Add the declarations of a rule."""
        others = block.others
        if not block.everywhere:
            others = block.read + others
        for name in filter(None, block.read if block.everywhere and declared else ()):
            self.rules[name] = self.rules.pop(name, {}) | declared
        if block.elsewhere or not declared:
            return
        shows = _showing(declared)
        hides = {key: x for key, x in declared.items() if key not in shows}
        for name in filter(None, others):
            known = _known(name)
            if shows and not _STATE.search(name):
                self.shown[known] = self.shown.get(known, {}) | shows
            if hides and not _UNHIDING.search(name):
                self.gone[known] = self.gone.get(known, {}) | hides


def variables_in(text: str) -> dict[str, str]:
    """Return the variables that styles without comments declare, wherever they hold.

    Examples
    --------
    >>> variables_in(".a{--b: 0; color: red} .c {--d:none}")
    {'--b': '0', '--d': 'none'}
    """
    return dict(_VARIABLE.findall(text)) if "--" in text else {}


def _inside(above: _Block, head: str, left: int) -> _Block:
    """Return the block of a rule within another; of as many selectors as are left."""
    if left <= 0 and above != _TOP:
        return _Block([], ["*"])
    if head[:1] == "@":
        if not _AROUND_RULES.match(head):
            return _Block([], [], elsewhere=True)
        if not head.startswith("@media"):
            # Whether they hold, and which prevail, is not asked.
            return above._replace(everywhere=False)
        holds = [_holds(head[6:], width) for width in _WIDTHS]
        everywhere = above.everywhere and all(holds)
        elsewhere = above.elsewhere or not holds[1]
        return above._replace(everywhere=everywhere, elsewhere=elsewhere)
    named = _named(head)
    if above.read == [""]:
        forms = named
    else:
        pairs = islice(product(above.read, named), min(left, _MOST_COMBINED))
        forms = [
            name.replace("&", outer) if "&" in name else f"{outer} {name}"
            for outer, name in pairs
        ]
    read = [*filter(_SELECTOR.match, forms)]
    others = named if above.others else []
    if len(read) < len(forms):
        others = [x for x in forms if not _SELECTOR.match(x)] + others
    return _Block(read, others, above.everywhere, above.elsewhere)


def _named(head: str) -> list[str]:
    """Return the selectors before a brace, with single blanks."""
    if "\\" in head:
        head = ESCAPE.sub(lambda x: chr(int(x[1], 16) % 128), head)
    if not head.isalnum():
        for written, meant in _MEANT:
            head = head.replace(written, meant)
    whole = "(" not in head
    forms = head.split(",") if whole else _FORM.findall(head)
    named = [" ".join(x.split()) for x in forms]
    return named if whole else [x for name in named for x in _spelled_out(name)]


def _spelled_out(selector: str) -> list[str]:
    """Return the selectors that stand for one with alternatives.

    Examples
    --------
    >>> _spelled_out("p:is(.a, .b) i:where(#c)"), _spelled_out("p:not(.a)")
    (['p.a i#c', 'p.b i#c'], ['p:not(.a)'])
    """
    found = [selector]
    while len(found) <= _MOST_COMBINED and len(selector) <= LONG:
        either = _EITHER.search(found[0])
        if either is None:
            break
        names = [name.strip() for name in either[1].split(",")]
        found = [form.replace(either[0], name, 1) for name in names for form in found]
    return found


@lru_cache(maxsize=256)
def _holds(media: str, width: float) -> bool:
    """Return whether a media query holds on a screen of a width in pixels, by day.

    Examples
    --------
    >>> queries = "not print", "(max-width: 9em), all and (color)", "(width > 1200px)"
    >>> [_holds(query, 1_000) for query in queries]
    [True, True, False]
    """
    for query in media.split(","):
        form = _TYPE.match(query)
        negated, kind = (form[1], form[2]) if form else ("", "")
        holds = kind in {"", "all", "screen", "and"} and all(
            _has(name, sign, value.strip(), width)
            for name, sign, value in _FEATURE.findall(query)
        )
        if holds != (negated == "not"):
            return True
    return False


def _has(name: str, sign: str, value: str, width: float) -> bool:
    """Return whether a screen of a width has a feature; of others, most have."""
    if name.endswith("width"):
        given = (pixels(value) or [0.0])[0]
        most = name.startswith("max-") or sign == "<"
        return width <= given if most else width >= given
    if name == "prefers-color-scheme":
        return value == "light"
    if name == "orientation":
        return value == "landscape" or width < _WIDTHS[1]
    return True


def _known(selector: str) -> str:
    """Return elements, classes and ids of which a rule needs all, or ``*``.

    Examples
    --------
    >>> [_known(x) for x in ("u + .a .b", "td[x]:empty", "[x] i.c", "p:not(.a .b)")]
    ['.b', 'td', 'i.c', 'p']
    """
    last = _LAST.findall(_BESIDES.sub("", selector))[0]
    return last if _SELECTOR.match(last) else "*"


# What may have any colour, if a rule may give it another.
_ANY_COLOUR: Final = {
    **dict.fromkeys(("background-color", "background-image"), IMAGE),
    **dict.fromkeys(("color", "text-fill-color", "text-shadow"), UNKNOWN),
}


def _showing(declared: Declared) -> Declared:
    """Return the declarations that may show what others hide."""
    found: Declared = {}
    for key, value in declared.items():
        name = key.lstrip("!")
        if name == "display" and value != "none":
            # In a line, an element without height hides nothing.
            found[key] = "inline"
        elif name == "font-size":
            above = value[0] * (TEXT_SIZE if value[1] else 1.0)
            found |= {key: value} if above > FLAT else {}
        elif name == "opacity":
            found |= {key: value} if value > FAINT else {}
        elif name == "visibility":
            found |= {} if VISIBLE.get(value) else {key: value}
        elif name in _ANY_COLOUR:
            found[key] = _ANY_COLOUR[name]
        elif name in BOXES:
            found |= {key: value} if value > FLAT else {}
        elif isinstance(value, float) and value >= 0 and name not in ROOMS:
            found[key] = 0.0
        elif (value is False or value == "") and name != "background-clip":
            found[key] = value
    return found


# The elements of a page share few styles: without this, and without the cache below,
# reading a newsletter takes twice as long (experiment 0102).
class Styles(dict[tuple[str, str, str, str, int, int], Style]):
    """The styles of elements, by tag, classes, id, own style, and steps above.

    Parameters
    ----------
    others : dict of str to dict
        Declarations of rules that are not understood.
    strict : bool
        Whether pictures, and shadows of several colours, show no text on them.

    Attributes
    ----------
    doubtful : bool
        Whether one of the other rules may hold for an element that was asked for, or
        whether its text is readable for another reason.
    """

    def __init__(
        self, rules: Rules, others: Rules, variables: Mapping[str, str], *, strict: bool
    ) -> None:
        super().__init__()
        self.variables = variables
        self.strict = strict
        self.doubtful = False
        self._understood = len(rules)
        # By the mark that fewest elements have.
        self.steps: dict[str, list[_Step]] = {}
        known: dict[str, _Step] = {}
        for rank, (selector, declared) in enumerate(rules.items(), 1):
            step, path = None, ""
            for part in selector.replace("> ", ">").split(" "):
                path += " " + part
                if path not in known:
                    marks = frozenset(_MARK.findall(_NOT.sub("", part)))
                    without = frozenset(_NOT.findall(part))
                    before = 0
                    if step is not None:
                        before = step.bit = step.bit or 1 << len(known)
                    known[path] = _Step(marks, without, before, part[0] == ">")
                    rarest = min(marks - {"*"}, default="*")
                    self.steps.setdefault(rarest, []).append(known[path])
                step = known[path]
            if step is not None:
                step.rule = rank, declared
        for rank, (selector, declared) in enumerate(others.items(), len(rules) + 1):
            marks = frozenset(_MARK.findall(selector))
            step = _Step(marks, frozenset(), 0, child=False, rule=(rank, declared))
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
            and step.without.isdisjoint(names)
            and (not step.before or step.before & (parent if step.child else above))
        ]
        found = sorted([step.rule for step in steps], key=itemgetter(0))
        if found and found[-1][0] > self._understood:
            self.doubtful = True
        declared = [
            *[declared for _, declared in found],
            declared_in(own, self.variables),
        ]
        style = outcome(tag, declared, strict=self.strict)
        bits = sum({step.bit for step in steps})
        if bits:
            style = style._replace(steps=bits)
        self[key] = style
        return style
