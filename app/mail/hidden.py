"""Hidden text: what no reader of an HTML part sees.

It is found by the elements that browsers do not show, by the attributes ``hidden``,
``style``, ``color`` and ``bgcolor``, and by style sheets (`app.mail.sheets`).  Small or
pale text counts as visible.

An element hides all of its content (``display:none``), or only that which declares
nothing else (``font-size:0``, a colour): many newsletters set the size of each cell to
0, and that of the text inside to 14 pixels.

Contract of this file: the work is linear in the elements.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

from app.mail.colours import (
    CLEAR,
    FAINT,
    IMAGE,
    INHERITED,
    PALE,
    UNKNOWN,
    WHITE,
    Colour,
    is_like,
    legacy_colour,
)
from app.mail.limits import MAX_HTML_CHARS, MAX_HTML_ELEMENTS
from app.mail.sheets import Rules, Styles, read_rules, variables_in
from app.mail.style import without_comments
from app.mail.values import FLAT, TEXT_SIZE, away

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from selectolax.lexbor import LexborNode

    from app.mail.style import Style

SHADOWED: Final = "postbayes-shadowed"
"""Attribute of elements of which browsers show something else instead."""
_PAGE: Final = frozenset({"html", "body"})
# What browsers do not show (HTML standard, 15.3.1), unless a style says so.
_UNSHOWN: Final = frozenset(
    {"annotation", "annotation-xml", "datalist", "mphantom", "rp"}
)
# What they show as a picture or a gauge, whatever the style, or as little of as a
# sender likes: a field of one letter holds any number of words.
_REPLACED: Final = frozenset({
    *("audio", "canvas", "meter", "progress", "svg", "video"),
    *("marquee", "object", "select", "textarea"),
})  # fmt: skip
_OPENED: Final = frozenset({"details", "dialog", "summary"})
# Without a doctype, text in a table is as large as outside (HTML standard, 15.3.10).
_CELLS: Final = frozenset({"table", "td", "th"})
# The attribute with the colour of the text.
_COLOURING: Final = {"body": "text", "html": "text", "font": "color"}
# Elements of which browsers read "bgcolor" (HTML standard, 15.3.2 and 15.3.10).
_GROUNDED: Final = frozenset(
    {"body", "table", "tbody", "td", "tfoot", "th", "thead", "tr"}
)
# What browsers show in colours of its own, as they do links.
_SHADED: Final = frozenset({"button", "mark"})
# What hides, shows or colours text, and what colours the ground behind it.
_CANDIDATES: Final = (
    "[hidden],[style],font[color],font[size],[bgcolor],[background],body[text],"
    f"[popover],[{SHADOWED}],"
    "details,dialog,summary," + ",".join(sorted(_UNSHOWN | _REPLACED))
)
# What shows text where an outer element would hide it.
_SHOWING: Final = _SHADED | {"a", "table"}
# All attributes that `_state` reads.
_ATTRIBUTES: Final = (
    *("class", "id", "style", "hidden", "popover", "open"),
    *("color", "text", "size", "bgcolor", "background", SHADOWED),
)
_ABSENT: Final = (False,) * len(_ATTRIBUTES)
# Elements that declare variables.
_DECLARING: Final = "[style*='--']"
# In selectors of elements by others, or by what they are not.
_WHOLE: Final = frozenset("* (")
# So many elements as selectors, because each is one for the whole tree.
_MAX_TAGS: Final = 20
# Elements with steps of selectors that each of them may match: 0.1 s.
_MAX_STEPS: Final = 500_000
# Of a small text.  Unit: square pixels.
_OF_LETTER: Final = 60.0
# Letters of boxes that may be too small for them; those within others count again.
_MOST_MEASURED: Final = 10 * MAX_HTML_CHARS
# Letters that are read although they may be hidden (experiment 0127).
_MAX_DOUBTFUL: Final = 500
# From here on an indent is meant to hide.
_INDENTED: Final = -150.0


class _State(NamedTuple):
    """How the text of an element is shown, by what it declares or inherits.

    Parameters
    ----------
    gone, unseen, colour, shade, ground
        As in `Style`; without a colour, it is that of the mail program.
    size, opacity : float
        Of the text.  Unit of the size: pixels.
    hider : int
        Identity of the outermost element that hides the text; 0 if it is shown.
    right, down, indent, flat
        As in `Style`, with those above.
    apart, room
        As in `Style`.
    steps, all_steps : int
        Of selectors that the element matches, and of those that it or one above does.
    """

    gone: bool = False
    unseen: bool = False
    size: float = TEXT_SIZE
    opacity: float = 1.0
    colour: Colour | None = None
    shade: Colour = CLEAR
    ground: Colour = WHITE
    hider: int = 0
    right: float = 0.0
    down: float = 0.0
    indent: float = 0.0
    flat: bool = False
    apart: bool = False
    room: float = inf
    steps: int = 0
    all_steps: int = 0

    @property
    def hides(self) -> bool:
        """Whether no reader sees the text."""
        beside = self.right + min(self.indent, 0.0)
        return (
            (self.gone or self.unseen or self.flat)
            or (self.size <= FLAT or self.opacity <= FAINT)
            or away(beside, self.down)
            or (self.indent <= _INDENTED and beside <= _INDENTED)
            or (is_like(self.colour, self.ground) and is_like(self.shade, self.ground))
        )


_OUTERMOST: Final = _State()


def take_hidden(
    root: LexborNode, sheet: str = "", *, variables: bool = True
) -> str | None:
    """Remove hidden text from a tree, and return it; or None for too many elements.

    Parameters
    ----------
    root : LexborNode
        The document; changed in place.
    variables : bool
        Whether styles may declare any.

    Returns
    -------
    str or None
        The text taken out, piece by piece, with blanks between the pieces.
    """
    declared: dict[str, str] = {}
    if variables:
        own = [node.attributes.get("style") or "" for node in root.css(_DECLARING)]
        declared = variables_in(without_comments(";".join([sheet, *own])))
    rules, shown, gone = read_rules(sheet, declared)
    others: Rules = {name: {} for name in gone} | shown
    styles = Styles(rules, others, declared, strict=False)
    selector = _candidates({**rules, **shown, **gone})
    hidden = _find(root, selector, styles)
    if hidden is not None and styles.doubtful:
        # Little text is, in wanted mail, what is not known to be hidden or shown.
        strict = Styles(rules, gone, declared, strict=True)
        more = _find(root, selector, strict)
        if more and _length(more) > _length(hidden) + _MAX_DOUBTFUL:
            hidden, styles = more, strict
    # Asked for only where it matters, because pages are full of links.
    if hidden and any(_may_show(*each) for each in hidden.values()):
        hidden = _find(root, ",".join([selector, *sorted(_SHOWING)]), styles)
    if hidden is None:
        return None
    # A page that shows nothing at all is rather one that is not understood.
    return " ".join(
        _take(node, shown)
        for node, shown in hidden.values()
        if shown or node.tag not in _PAGE
    )


def _length(hidden: dict[int, tuple[LexborNode, set[int]]]) -> int:
    """Return the length of the text of hidden elements, but for what they show."""
    return sum(
        len(each.text(separator=""))
        for node, shown in hidden.values()
        for each in _within(node, shown)
        if each.is_text_node
    )


def _find(
    root: LexborNode, selector: str, styles: Styles
) -> dict[int, tuple[LexborNode, set[int]]] | None:
    """Return the hidden elements, with what they show; None for too many elements."""
    states: dict[int, _State] = {}
    derived: dict[tuple[object, ...], _State] = {}
    equal: dict[_State, _State] = {}
    hidden: dict[int, tuple[LexborNode, set[int]]] = {}
    old = root.prev is None or root.prev.tag != "-doctype"
    page: Colour | None = None
    left = _MOST_MEASURED
    # One match for each selector that fits, and what is above an element comes before
    # it.
    matches = {node.mem_id: node for node in root.css(selector)}
    steps = max(map(len, styles.steps.values()), default=0)
    if len(matches) > MAX_HTML_ELEMENTS or len(matches) * steps > _MAX_STEPS:
        return None
    for at, node in matches.items():
        above = _inherited(node.parent, states)
        tag, of = node.tag or "", node.attributes
        if tag == "table" and old:
            # HTML standard, 15.3.10.
            above = above._replace(size=TEXT_SIZE, colour=page)
            above = equal.setdefault(above, above)
        # Most cells of a page have the attributes and the surroundings of others.  No
        # state is freed in this loop, so its identity stays its own.
        key = id(above), tag, "href" in of, *map(of.get, _ATTRIBUTES, _ABSENT)
        state = derived.get(key)
        if state is None:
            state = _state(tag, of, at, above, styles)
            if state.hider != at:
                derived[key] = state = equal.setdefault(state, state)
            else:
                hidden[at] = node, set()
        if state.room < inf and not state.hider and left > 0:
            left -= (size := len(node.text(separator="")))
            if size * _OF_LETTER > state.room:
                state = state._replace(gone=True, hider=at)
                hidden[at] = node, set()
        if tag in _PAGE:
            page = state.colour
        if above.hider and not state.hider:
            hidden[above.hider][1].add(at)
        states[at] = state
        _set_apart(node, state)
    return hidden


def _set_apart(node: LexborNode, state: _State) -> None:
    """Part an element from the words beside it, if it stands by itself."""
    if state.apart:
        node.insert_before(" ")
        node.insert_after(" ")


def _candidates(rules: Rules) -> str:
    """Return the selector of the elements that may hide, show or colour text."""
    tags = sorted(name for name in rules if name.isalnum())
    # What is inside another is looked for from the outermost element on.
    if len(tags) > _MAX_TAGS or any(not _WHOLE.isdisjoint(name) for name in rules):
        return "*"
    marks = ["[class]"] * any("." in name for name in rules)
    marks += ["[id]"] * any("#" in name for name in rules)
    return ",".join([_CANDIDATES, *marks, *tags])


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
    tag: str,
    attributes: Mapping[str, str | None],
    at: int,
    above: _State,
    styles: Styles,
) -> _State:
    """Return the state of an element below another."""
    get = attributes.get
    names = tag, get("class") or "", get("id") or "", get("style") or ""
    style = styles[*names, above.steps, above.all_steps]
    gone, unseen, size = style.gone, style.unseen, above.size
    if tag in _OPENED and "open" not in attributes:
        gone = tag == "dialog" if gone is None else gone
        unseen = tag == "details" if unseen is None else unseen
    if gone is None:
        gone = "hidden" in attributes or "popover" in attributes or tag in _UNSHOWN
    gone = gone or tag in _REPLACED or SHADOWED in attributes
    if style.size is not None:
        whole = TEXT_SIZE if tag in _CELLS else size
        size = style.size[0] * (whole if style.size[1] else 1.0)
    elif tag == "button" or (tag == "font" and "size" in attributes):
        size = TEXT_SIZE
    colour, ground = _colours(tag, attributes, style, above, styles)
    state = _State(
        gone=gone or above.gone,
        unseen=above.unseen if unseen is None else unseen,
        size=size,
        opacity=style.opacity * above.opacity,
        colour=colour,
        shade=style.shade or above.shade,
        ground=ground,
        right=above.right + style.right,
        down=above.down + style.down,
        indent=above.indent if style.indent is None else style.indent,
        flat=style.flat or (above.flat and not style.placed),
        apart=style.apart,
        room=style.room,
        steps=style.steps,
        all_steps=above.all_steps | style.steps,
    )
    if tag in _PAGE:
        # Many programs show the content in a page of their own.
        state = _OUTERMOST._replace(
            size=size,
            colour=colour,
            shade=state.shade,
            ground=ground,
            steps=state.steps,
            all_steps=state.all_steps,
        )
    return state._replace(hider=above.hider or at) if state.hides else state


def _colours(
    tag: str,
    attributes: Mapping[str, str | None],
    style: Style,
    above: _State,
    styles: Styles,
) -> tuple[Colour | None, Colour]:
    """Return the colour of the text of an element, and of the ground behind it."""
    get = attributes.get
    inherited = None if tag in _PAGE else above.colour
    colour, ground = inherited, above.ground
    if tag in _SHADED:
        colour, ground = UNKNOWN, IMAGE
    elif tag == "a" and "href" in attributes:
        colour = UNKNOWN
    own = style.colour or legacy_colour(get(_COLOURING.get(tag, "")))
    colour = inherited if own == INHERITED else own or colour
    own = style.ground or legacy_colour(get("bgcolor"))
    ground = ground if own in {None, CLEAR} else own
    # Some programs colour more by these attributes than browsers do.
    more = get("bgcolor") and not style.ground and tag not in _GROUNDED
    pictured = bool(get("background") or more)
    pale = is_like(colour, ground, PALE) and not is_like(colour, ground)
    if pictured or pale or style.ground == IMAGE or style.shade == UNKNOWN:
        styles.doubtful = True
    if styles.strict:
        return ground if pale else colour, ground
    return colour, IMAGE if pictured else ground


def _within(node: LexborNode, shown: set[int]) -> Iterator[LexborNode]:
    """Yield the nodes of an element, except those of some elements inside."""
    waiting = [node]
    while waiting:
        at = waiting.pop()
        if at.mem_id not in shown:
            yield at
            waiting += reversed([*at.iter(include_text=True)])


def _may_show(node: LexborNode, shown: set[int]) -> bool:
    """Return whether an element hides text, and what may show it."""
    nodes = [*_within(node, shown)]
    texts = (each.text(separator="") for each in nodes if each.is_text_node)
    return any(each.tag in _SHOWING for each in nodes) and not "".join(texts).isspace()


def _take(node: LexborNode, shown: set[int]) -> str:
    """Remove the text of an element, except in some elements inside; return it."""
    if not shown:
        text: str = node.text(separator="")
        node.decompose()
        return text
    texts = [each for each in _within(node, shown) if each.is_text_node]
    pieces = [each.text(separator="") for each in texts]
    for each, piece in zip(texts, pieces, strict=True):
        # Blanks part the words that are shown.
        if not piece.isspace():
            each.decompose()
    return "".join(pieces)
