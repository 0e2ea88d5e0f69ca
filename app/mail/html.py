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
from itertools import islice
from typing import TYPE_CHECKING, Final, cast

import numpy as np
from selectolax.lexbor import LexborHTMLParser, SelectolaxError

from app.kernels import markup
from app.mail.limits import (
    MAX_ANCESTORS,
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
# From the first "<" to a ">", and to one more ">" for each in a quoted value: the
# longest possible tag, however its attributes are written.
_LONG: Final = re.compile(r"<[^>]*+")
_QUOTED_END: Final = re.compile(r"=\s*+(?:\"[^\">]*+>|'[^'>]*+>)")
# Fewer attributes cost less than a second look at them.
_FEW_ATTRIBUTES: Final = 2_000
_LENGTH: Final = re.compile(r"\d{1,4}%?\Z", re.ASCII)
_TARGETS: Final = ("href", "src", "action", "background")
Colour = tuple[int, int, int]
"""Red, green and blue, 0 to 255."""
_CANDIDATES: Final = "[hidden],[style],font[color]"
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
    size, tags, attributes, links, formatting, seen = markup.spaced(content, into)
    # V<!-- x -->iagra: one word to the reader.
    if seen & markup.IN_WORD:
        defects.append("html-comment-in-word")
    costly = len(source) > MAX_HTML_TREE_CHARS or tags > MAX_HTML_TAGS
    costly = costly or tags * formatting > MAX_HTML_FORMATTING
    work = _work(source, tags, attributes, links, formatting)
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


def _work(source: str, tags: int, attributes: int, links: int, formatting: int) -> int:
    """Return an estimate of the nanoseconds to build and read a tree.

    Parameters
    ----------
    source : str
        The HTML.
    tags, attributes, links, formatting : int
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

    The attributes of a tag are bounded without parsing: a tag goes from ``<`` to
    ``>``, and to one more ``>`` for each in a quoted value; before each attribute is
    a blank, a slash, or a value that ends in a quote.
    """
    of_a_tag = attributes
    if attributes > _FEW_ATTRIBUTES:
        quoted = len(_QUOTED_END.findall(source))
        runs = source.split(">") if quoted else _LONG.findall(source)
        longest = max(map(len, runs), default=0)
        of_a_tag = min(attributes, (quoted + 1) * longest // 2)
    work = 100_000 + tags * (5_000 + tags) + of_a_tag * attributes
    work += len(source) * links // 4
    return work + 100 * tags * formatting


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
    grounds: dict[int, Colour | None] = {}
    # More elements than tags are copies, caused by open formatting elements.
    for node in islice(root.css(_CANDIDATES), MAX_HTML_TAGS):
        if len(found) == MAX_HIDDEN:
            break
        if node.mem_id not in found and _is_hidden(node, grounds):
            found[node.mem_id] = node
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


def _is_hidden(node: LexborNode, grounds: dict[int, Colour | None]) -> bool:
    """Return whether an element hides its content.

    Parameters
    ----------
    node : LexborNode
        The element.
    grounds : dict of int to (int, int, int) or None
        Results of `_ground`, because many elements share the ones above them.
    """
    if node.tag in {"html", "body"}:
        return False
    attributes = node.attributes
    style = (attributes.get("style") or "")[:_MAX_STYLE].lower()
    if "hidden" in attributes or (style and _INVISIBLE.search(style)):
        return True
    colour = _colour_of(attributes, style)
    if colour is None:
        return False
    behind = _behind(node, grounds)
    return all(-_SAME <= a - b <= _SAME for a, b in zip(colour, behind, strict=True))


def _colour_of(attributes: dict[str, str | None], style: str) -> Colour | None:
    """Return the colour of text that an element declares."""
    declared = style and _COLOUR.search(style)
    return _rgb(declared[1] if declared else attributes.get("color") or "")


def _behind(node: LexborNode, grounds: dict[int, Colour | None]) -> Colour:
    """Return the colour behind an element: the nearest that is declared."""
    at: LexborNode | None = node
    for _ in range(MAX_ANCESTORS):
        if at is None:
            break
        if at.mem_id not in grounds:
            grounds[at.mem_id] = _ground(at)
        colour = grounds[at.mem_id]
        if colour is not None:
            return colour
        at = at.parent
    return _WHITE


def _ground(node: LexborNode) -> Colour | None:
    """Return the background colour of an element, if it has one."""
    attributes = node.attributes
    style = (attributes.get("style") or "")[:_MAX_STYLE].lower()
    if attributes.get("background") or "url(" in style:
        # An image: text of any colour may be readable on it.
        return (-255, -255, -255)
    declared = style and _BACKGROUND.search(style)
    return _rgb(declared[1] if declared else attributes.get("bgcolor") or "")


def _rgb(colour: str) -> Colour | None:
    """Return the red, green and blue of a colour, 0 to 255, or None."""
    colour = colour.strip().lower()
    if colour in _NAMED:
        return _NAMED[colour]
    found = _HEX.match(colour)
    if found is None:
        return None
    digits = found[1] if len(found[1]) > 3 else "".join(c + c for c in found[1])  # noqa: PLR2004
    red, green, blue = bytes.fromhex(digits)
    return red, green, blue
