"""HTML: the visible text of a part, its links, and hidden text.

Hidden text is found by the attributes of the elements themselves: ``hidden``,
``style``, ``color`` and ``bgcolor``.  Style sheets are not read, because mail programs
drop many of them; small or pale text counts as visible.

Contract of this file:

- Every expression is linear in its input.
- A tree is built only if the budget of the message allows for the work that `_work`
  estimates; any other part is read in linear time.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import numpy as np
from selectolax.lexbor import LexborHTMLParser, SelectolaxError

from app.kernels import markup
from app.mail.limits import (
    MAX_HIDDEN,
    MAX_HTML_FORMATTING,
    MAX_HTML_TAGS,
    MAX_HTML_TREE_CHARS,
    MAX_LINK_CHARS,
    MAX_LINKS,
    Budget,
)
from app.mail.message import Link

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

_DROPPED: Final = {ord(c): None for c in "\t\n\r\0"}
# A blank before tags that break the line makes "<td>a</td><td>b" two words, while
# "w<b>or</b>d" and "V<!-- x -->iagra" remain one word, like on the screen.
_BREAK: Final = re.compile(
    r"<(?=/?(?:p|div|td|th|tr|table|li|ul|ol|dl|dt|dd|br|hr|h[1-6]|center"
    r"|blockquote|pre|form|option|select|input|textarea|button|img|title|section"
    r"|article|header|footer|address)[\s/>])",
    re.IGNORECASE,
)
_COMMENT: Final = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_UNSHOWN: Final = re.compile(
    r"<(script|style)\b.*?(?:</\1[^>]*+>?|\Z)", re.DOTALL | re.IGNORECASE
)
_TAG: Final = re.compile(r"</?[a-z!?][^>]*+(?:>|\Z)", re.IGNORECASE)
_TARGET: Final = re.compile(
    r"\b(?:href|src|action)\s{0,9}=\s{0,9}[\"']?([^\s\"'>]{1,2048})", re.IGNORECASE
)
_POINTING: Final = (
    "a[href],area[href],img,form[action],iframe[src],frame[src],embed[src],"
    "link[href],base[href],input[src],[background],[title]"
)
_LENGTH: Final = re.compile(r"\d{1,4}%?\Z", re.ASCII)
_TARGETS: Final = ("href", "src", "action", "background")
Colour = tuple[int, int, int]
"""Red, green and blue, 0 to 255."""
# With what declares the colour behind others.
_CANDIDATES: Final = "[hidden],[style],font[color],[bgcolor],[background]"
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
# Text of any colour may be readable on an image.
_IMAGE: Final = (-255, -255, -255)
# "#fffffe on white" is a trick, light grey on white a footer.
_SAME: Final = 12


@dataclass(frozen=True, slots=True)
class Page:
    """The content of an HTML part.

    Parameters
    ----------
    text : str
        The visible text, title first.
    hidden : str
        Text that no reader sees.
    alternatives : tuple of str
        ``alt`` and ``title`` texts of the elements.
    links : tuple of Link
        In the order of the elements.
    defects : tuple of str
        Limits that were hit, and methods of hiding text.
    """

    text: str
    hidden: str = ""
    alternatives: tuple[str, ...] = ()
    links: tuple[Link, ...] = ()
    defects: tuple[str, ...] = ()


def read(source: str, budget: Budget | None = None) -> Page:
    """Read an HTML part.

    Parameters
    ----------
    source : str
        HTML of any quality.
    budget : Budget, optional
        Remaining work of the message; a full budget by default.

    Returns
    -------
    Page
        Its text and links.

    Examples
    --------
    >>> page = read('<p>V<!-- x -->iagra<td>now <a href="http://a.example">here</a>')
    >>> page.text.split(), page.links[0].url
    (['Viagra', 'now', 'here'], 'http://a.example')
    """
    budget = budget or Budget()
    defects: list[str] = []
    room = budget.take("html", len(source))
    if room < len(source):
        source = source[:room]
        defects.append("html-too-long")
    # NUL: browsers drop it within text; here it would end the C string.
    if "\0" in source:
        source = source.replace("\0", "")
    content = np.frombuffer(source.encode("utf-8", "replace"), np.uint8)
    into = np.empty(2 * content.size, np.uint8)
    size, *counts, seen = markup.spaced(content, into)
    tags, *_, formatting = counts
    # V<!-- x -->iagra: one word to the reader.
    if seen & markup.IN_WORD:
        defects.append("html-comment-in-word")
    costly = len(source) > MAX_HTML_TREE_CHARS or tags > MAX_HTML_TAGS
    costly = costly or tags * formatting > MAX_HTML_FORMATTING
    work = _work(len(source), *counts)
    if costly or not budget.allows("html tree", work):
        defects.append("html-too-complex")
        return _without_tree(source, defects)
    try:
        return _with_tree(into[:size].tobytes(), seen, list(defects))
    except SelectolaxError:
        # The parser gives up, usually for lack of memory.
        defects.append("html-unreadable")
        return _without_tree(source, defects)


def _with_tree(content: bytes, seen: int, defects: list[str]) -> Page:
    """Read HTML like a browser."""
    tree = LexborHTMLParser(content)
    # Never None: the parser makes html, head and body even from nothing.
    root = cast("LexborNode", tree.root)
    alternatives, found = _references(root)
    if seen & markup.UNSHOWN:
        tree.strip_tags(list(markup.UNSHOWN_ELEMENTS))
    unseen = _take_hidden(root)
    if unseen.strip():
        defects.append("html-hidden-text")
    return Page(
        root.text(separator=""),
        unseen,
        tuple(alternatives),
        tuple(found),
        tuple(defects),
    )


def _references(root: LexborNode) -> tuple[list[str], list[Link]]:
    """Return the texts in place of elements, and their targets."""
    alternatives: list[str] = []
    found: list[Link] = []
    last = 0
    for node in islice(root.css(_POINTING), MAX_HTML_TAGS):
        # One match for each selector that fits, side by side.
        if node.mem_id == last:
            continue
        last = node.mem_id
        attributes = node.attributes
        for name in ("alt", "title"):
            text = attributes.get(name)
            if text:
                alternatives.append(text)
        for name in _TARGETS:
            url = attributes.get(name)
            if url and len(found) < MAX_LINKS:
                shown = ""
                if node.tag == "a":
                    shown = node.text(separator="").strip()[:MAX_LINK_CHARS]
                if node.tag == "img":
                    shown = _size(attributes)
                found.append(link(url, node.tag or "", shown))
    return alternatives, found


def link(url: str, element: str, text: str = "") -> Link:
    """Return the link of an HTML element, its target trimmed as browsers do."""
    # Browsers drop tabs and line ends anywhere in a URL (WHATWG URL, 4.4).
    url = url[:MAX_LINK_CHARS]
    if not url.isprintable():
        url = url.translate(_DROPPED)
    return Link(url.strip(), element, text)


def _size(attributes: dict[str, str | None]) -> str:
    """Return the declared size of an image, or "" if it has none."""
    width, height = attributes.get("width"), attributes.get("height")
    if not (width and height and _LENGTH.match(width) and _LENGTH.match(height)):
        return ""
    return f"{width}x{height}"


def _work(
    chars: int,
    tags: int,
    attributes: int,
    together: int,
    links: int,
    formatting: int,
) -> int:
    """Return an estimate of the nanoseconds to build and read a tree.

    Parameters
    ----------
    chars : int
        Length of the HTML.
    tags, attributes, together, links, formatting : int
        Upper bounds of their numbers, from `app.kernels.markup.spaced`.

    Notes
    -----
    A sum of costs measured on the worst page of each kind (lexbor in selectolax 1.0):
    100 µs for any page; 5 µs for each tag (images with four attributes); 1 ns for each
    pair of tags (nested elements), and for each pair of attributes of one tag, which
    the parser compares; 100 ns for each pair of a formatting tag and a tag (elements
    that are opened again); and 1/4 ns for each pair of a link and a character (a text
    that many links share). The worst of some thousand random pages took 2.5 times as
    long as estimated.
    """
    work = 100_000 + tags * (5_000 + tags) + together * attributes
    return work + chars * links // 4 + 100 * tags * formatting


def _without_tree(source: str, defects: list[str]) -> Page:
    """Read HTML that is too expensive for a tree, in linear time."""
    source = _COMMENT.sub("", source)
    found = tuple(
        link(match[1], "unknown")
        for match, _ in zip(_TARGET.finditer(source), range(MAX_LINKS), strict=False)
    )
    source = _TAG.sub("", _BREAK.sub(" <", _UNSHOWN.sub(" ", source)))
    return Page(html.unescape(source), links=found, defects=tuple(defects))


def _take_hidden(root: LexborNode) -> str:
    """Remove hidden content from a tree, and return its text.

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
    grounds: dict[int, Colour] = {}
    # More elements than tags are copies, caused by open formatting elements.  One
    # match for each selector that fits, and what is above an element comes before it.
    matches = islice(root.css(_CANDIDATES), MAX_HTML_TAGS)
    for at, node in {node.mem_id: node for node in matches}.items():
        if len(found) == MAX_HIDDEN:
            break
        if _is_hidden(node, grounds):
            found[at] = node
    # Only the outermost ones: those inside are freed with them, and accessing a freed
    # one reads memory that is gone.
    known: dict[int, bool] = {}
    outermost = [node for node in found.values() if not _is_within(node, found, known)]
    pieces = []
    for node in outermost:
        pieces.append(node.text(separator=""))
        node.decompose()
    return " ".join(pieces)


def _is_within(
    node: LexborNode, others: dict[int, LexborNode], known: dict[int, bool]
) -> bool:
    """Return whether an element has one of the others above it.

    Parameters
    ----------
    node : LexborNode
        The element.
    others : dict of int to LexborNode
        The others, by identity.
    known : dict of int to bool
        Results for elements that were checked before; new ones are added, so each
        element is checked once.
    """
    path = []
    within = False
    above = node.parent
    while above is not None:
        at = above.mem_id
        if at in others or at in known:
            within = at in others or known[at]
            break
        path.append(at)
        above = above.parent
    known.update(dict.fromkeys(path, within))
    return within


def _is_hidden(node: LexborNode, grounds: dict[int, Colour]) -> bool:
    """Return whether an element hides its content.

    Parameters
    ----------
    node : LexborNode
        The element.
    grounds : dict of int to (int, int, int)
        The colours behind the elements above it, where they declare one, by identity;
        that of this one is added.
    """
    attributes = node.attributes
    look = _look((attributes.get("style") or "")[:_MAX_STYLE])
    image = attributes.get("background")
    ground = _IMAGE if image else look.ground or _rgb(attributes.get("bgcolor"))
    if ground is not None:
        grounds[node.mem_id] = ground
    colour = look.colour or _rgb(attributes.get("color"))
    if node.tag in {"html", "body"}:
        return False
    if look.hides or "hidden" in attributes:
        return True
    return colour is not None and _is_like(colour, _behind(node, grounds))


class _Look(NamedTuple):
    """What a style declares: hidden content, a colour, and the colour behind."""

    hides: bool
    colour: Colour | None
    ground: Colour | None


# The elements of a page share few styles: without this, reading a newsletter takes
# twice as long (experiment 0102).
@lru_cache(maxsize=1024)
def _look(style: str) -> _Look:
    """Return what a style declares."""
    style = style.lower()
    colour, ground = _COLOUR.search(style), _BACKGROUND.search(style)
    return _Look(
        _INVISIBLE.search(style) is not None,
        _rgb(colour and colour[1]),
        _IMAGE if "url(" in style else _rgb(ground and ground[1]),
    )


def _is_like(colour: Colour, other: Colour) -> bool:
    """Return whether two colours look the same."""
    return all(-_SAME <= a - b <= _SAME for a, b in zip(colour, other, strict=True))


def _behind(node: LexborNode, grounds: dict[int, Colour]) -> Colour:
    """Return the colour behind an element: the nearest that is declared, or white.

    It is also that of the elements on the way, and added for them, so each element is
    climbed once.
    """
    path = []
    at: LexborNode | None = node
    while at is not None and at.mem_id not in grounds:
        path.append(at.mem_id)
        at = at.parent
    colour = _WHITE if at is None else grounds[at.mem_id]
    grounds.update(dict.fromkeys(path, colour))
    return colour


def _rgb(colour: str | None) -> Colour | None:
    """Return the red, green and blue of a colour, 0 to 255, or None."""
    if not colour:
        return None
    colour = colour.strip().lower()
    if colour in _NAMED:
        return _NAMED[colour]
    found = _HEX.match(colour)
    if found is None:
        return None
    digits = found[1] if len(found[1]) > 3 else "".join(c + c for c in found[1])  # noqa: PLR2004
    red, green, blue = bytes.fromhex(digits)
    return red, green, blue
