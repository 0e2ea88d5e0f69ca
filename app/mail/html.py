"""HTML: the visible text of a part, its links, and hidden text.

Contract of this file:

- Every expression is linear in its input.
- A page that is too large for a tree, by the work that `_work` estimates, is cut in
  pieces, as far as the budget of the message allows.  The rest is read in linear time,
  by its tags alone.
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
from app.mail.hidden import SHADOWED, take_hidden
from app.mail.limits import (
    MAX_HTML_TAGS,
    MAX_LINK_CHARS,
    MAX_LINKS,
    MAX_TITLE_CHARS,
    Budget,
)
from app.mail.message import Link
from app.mail.sheets import NEXT, for_screens

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

_DROPPED: Final = {ord(c): None for c in "\t\n\r\0"}
# A comment, an element that is not shown, or a tag, as browsers find them (HTML
# standard, 13.2.5): a quoted value may hold what looks like any of them. A blank in
# place of tags that break the line makes "<td>a</td><td>b" two words; "w<b>or</b>d" and
# "V<!-- x -->iagra" remain one word, like on the screen.
_REST: Final = r"""(?>(?:=\s*+(?:"[^"]*+(?:"|\Z)|'[^']*+(?:'|\Z))|[^>])*)(?:>|\Z)"""
_MARKUP: Final = re.compile(
    r"<!--(?:-?>|.*?(?:--!?>|\Z))"
    rf"|<(script|style|iframe|noframes|noembed)(?=[\s/>]){_REST}"
    rf".*?(?:</\1(?=[\s/>]){_REST}|\Z)"
    r"|</?(?:(p|div|td|th|tr|table|li|ul|ol|dl|dt|dd|br|hr|h[1-6]|center|blockquote|pre"
    r"|form|option|select|input|textarea|button|img|title|section|article|header|footer"
    r"|address|main|nav|aside|figure|figcaption|fieldset|legend|details|summary|dialog"
    rf"|caption|hgroup|menu|search)(?=[\s/>])|[a-z!?]){_REST}",
    re.DOTALL | re.IGNORECASE,
)
_TARGET: Final = re.compile(
    r"\b(?:href|src|action)\s{0,9}=\s{0,9}[\"']?([^\s\"'>]{1,2048})", re.IGNORECASE
)
_POINTING: Final = (
    "a[href],area[href],img,form[action],frame[src],embed[src],input[src],[background]"
)
# Marks where a page is cut, to see which elements are open there.
_MARK: Final = "postbayes-cut"
_CUT: Final = f"<wbr {_MARK}>"
_CARRIED: Final = frozenset(
    {"bgcolor", "class", "color", "hidden", "id", "open", "size", "style", "text"}
)
# Deeper, browsers make siblings of elements (Chromium's HTMLTreeBuilder).
_MAX_OPENED: Final = 512
_LENGTH: Final = re.compile(r"\d{1,4}%?\Z", re.ASCII)
_TARGETS: Final = ("href", "src", "action", "background")


@dataclass(frozen=True, slots=True)
class Page:
    """The content of an HTML part.

    Parameters
    ----------
    hidden : str
        Text that no reader sees.
    alternatives : tuple of str
        ``alt`` texts of the elements.
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

    Examples
    --------
    >>> page = read('<p>V<!-- x -->iagra<td>now <a href="http://a.example">here</a>')
    >>> page.text.split(), page.links[0].url
    (['Viagra', 'now', 'here'], 'http://a.example')
    """
    budget = budget or Budget()
    defects: set[str] = set()
    room = budget.take("html", len(source))
    if room < len(source):
        source = source[:room]
        defects.add("html-too-long")
    # NUL: browsers drop it within text; here it would end the C string.
    if "\0" in source:
        source = source.replace("\0", "")
    pages: list[Page] = []
    above = ""
    while source:
        size, page, above = _beginning(source, above, budget, defects)
        pages.append(page)
        source = source[size:]
    return Page(
        "".join(page.text for page in pages),
        " ".join(page.hidden for page in pages),
        tuple(text for page in pages for text in page.alternatives),
        tuple(link for page in pages for link in page.links)[:MAX_LINKS],
        tuple(sorted(defects)),
    )


def _beginning(
    source: str, above: str, budget: Budget, defects: set[str]
) -> tuple[int, Page, str]:
    """Read as much of a page as one tree may have; the rest if there is none.

    Parameters
    ----------
    above : str
        HTML of what is left from before: style sheets, and the elements still open.
    defects : set of str
        Changed: defects are added.

    Returns
    -------
    size : int
        Number of characters read, at least 1.
    page : Page
        Their content.
    above : str
        As the parameter, for what follows.
    """
    piece = source
    while piece:
        cut = piece != source
        text = above + piece + (_CUT if cut else "")
        content = np.frombuffer(text.encode("utf-8", "replace"), np.uint8)
        into = np.empty(2 * content.size, np.uint8)
        size, tags, *counts, seen = markup.spaced(content, into)
        work = _work(len(text), tags, *counts)
        if tags <= MAX_HTML_TAGS and budget.allows("html tree", work):
            try:
                found = _with_tree(into[:size].tobytes(), seen, defects, cut=cut)
            except SelectolaxError:
                # The parser gives up, usually for lack of memory.
                defects.add("html-unreadable")
                break
            if found is not None:
                return len(piece), *found
        defects.add("html-too-complex")
        # Before a tag; otherwise its attributes would be text of the rest.
        piece = piece[: max(0, piece.rfind("<", 0, len(piece) // 2))]
    return len(source), _without_tree(source), ""


def _with_tree(
    content: bytes, seen: int, defects: set[str], *, cut: bool
) -> tuple[Page, str] | None:
    """Read HTML like a browser; return it, and what it leaves to the text that follows.

    None if it has too many elements, or is cut in a comment or in a quoted value.
    """
    tree = LexborHTMLParser(content)
    # Never None: the parser makes html, head and body even from nothing.
    root = cast("LexborNode", tree.root)
    opened = _opened(root) if cut else ""
    if opened is None:
        return None
    sheet = ""
    if seen & markup.UNSHOWN:
        # Not the text of elements within, which browsers ignore: in a picture, styles
        # may be inside one another, and to read each whole would be quadratic.
        sheet = NEXT.join(
            [
                # Where a sender writes the mark, it is part of an unknown name.
                for_screens(
                    child.text(separator=""), node.attributes.get("media")
                ).replace(NEXT, "?")
                for node in root.css("style")
                for child in node.iter(include_text=True)
                if child.is_text_node
            ]
        )
        # Browsers show a shadow instead of what is around it (HTML standard, 4.12.3).
        for shadow in root.css("template[shadowrootmode]"):
            if shadow.parent is not None:
                shadow.parent.attrs[SHADOWED] = ""
        tree.strip_tags(list(markup.UNSHOWN_ELEMENTS))
    titles = _take_long_titles(root)
    hidden = take_hidden(root, sheet, variables=b"var(" in content.lower())
    if hidden is None:
        return None
    alternatives, found = _references(root)
    unseen = " ".join([*titles, hidden])
    # V<!-- x -->iagra: one word to the reader.
    if seen & markup.IN_WORD:
        defects.add("html-comment-in-word")
    if unseen.strip():
        defects.add("html-hidden-text")
    # As in plain text (HTML standard, 15.3.6; Unicode Standard Annex 9, section 2).
    for node in root.css("bdo[dir=rtl]"):
        node.insert_before("\u202e")
        node.insert_after("\u202c")
    text = root.text(separator="")
    page = Page(text, unseen, tuple(alternatives), tuple(found))
    return page, f"<style>{sheet}</style>{opened}"


def _opened(root: LexborNode) -> str | None:
    """Return the start tags of the elements that are open where a page was cut."""
    marks = root.css(f"wbr[{_MARK}]")
    if not marks:
        return None
    tags = []
    node = marks[-1].parent
    while node is not None and node.tag != "html":
        carried = [
            f' {name}="{html.escape(value or "")}"'
            for name, value in node.attributes.items()
            if name in _CARRIED
        ]
        tags.append(f"<{node.tag}{''.join(carried)}>")
        node = node.parent
    return "".join(reversed(tags)) if len(tags) <= _MAX_OPENED else ""


def _without_tree(source: str) -> Page:
    """Read HTML that is too expensive for a tree, in linear time.

    Text that is hidden counts as visible: otherwise empty tags before it would hide any
    text from the filter.
    """
    tags: list[str] = []

    def take(found: re.Match[str]) -> str:
        tag = found[0]
        if "=" in tag and not tag.startswith("<!--"):
            tags.append(tag)
        return " " if found.lastindex else ""

    text = html.unescape(_MARKUP.sub(take, source))
    targets = islice(_TARGET.finditer("\n".join(tags)), MAX_LINKS)
    links = tuple(link(match[1], "unknown") for match in targets)
    return Page(text, links=links)


def _take_long_titles(root: LexborNode) -> list[str]:
    """Remove titles that are longer than people write them, and return their text."""
    # Not those of formulas and pictures, which may be inside one another: to read each
    # would be quadratic, and one that goes with another must not be removed again.
    titles = [
        node
        for node in root.css("title")
        if all(child.is_text_node for child in node.iter(include_text=True))
    ]
    texts = [node.text(separator="") for node in titles]
    if sum(map(len, texts)) <= MAX_TITLE_CHARS:
        return []
    for node in titles:
        node.decompose()
    return texts


def _references(root: LexborNode) -> tuple[list[str], list[Link]]:
    """Return the texts in place of elements that are seen, and their targets.

    Hosts of wanted mail where nobody sees them let spam pass (experiment 0126).
    """
    alternatives: list[str] = []
    found: list[Link] = []
    last = 0
    for node in islice(root.css(_POINTING), MAX_HTML_TAGS):
        # One match for each selector that fits, side by side.
        if node.mem_id == last:
            continue
        last = node.mem_id
        attributes = node.attributes
        content = node.text(separator="").strip() if node.tag == "a" else ""
        if not content and _is_unseen(node, attributes):
            continue
        text = attributes.get("alt")
        if text:
            alternatives.append(text)
        for name in _TARGETS:
            url = attributes.get(name)
            if url and len(found) < MAX_LINKS:
                shown = ""
                if node.tag == "a":
                    shown = content[:MAX_LINK_CHARS]
                if node.tag == "img":
                    shown = _size(attributes)
                found.append(link(url, node.tag or "", shown))
    return alternatives, found


def _is_unseen(node: LexborNode, attributes: dict[str, str | None]) -> bool:
    """Return whether nobody sees an element without text that points somewhere."""
    if node.tag == "img":
        return {attributes.get("width"), attributes.get("height")} <= {"0", "1"}
    if node.tag == "a":
        return node.css_first("img") is None
    return attributes.get("type") == "hidden"


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
    reopened: int,
    signs: int,
) -> int:
    """Return an estimate of the nanoseconds to build and read a tree.

    Parameters
    ----------
    chars : int
        Length of the HTML.
    tags, attributes, together, links, reopened, signs : int
        Upper bounds of their numbers, from `app.kernels.markup.spaced`.

    Notes
    -----
    A sum of costs measured on the worst page of each kind (lexbor in selectolax 1.0):
    100 µs for any page; 5 µs for each tag (images with four attributes); 2 ns for each
    pair of tags (nested elements), and 1 ns for each pair of attributes of one tag,
    which the parser compares; 2.5 µs for two elements that are opened again, most of it
    to find them; 1/4 ns for each pair of a link and a character (a text that many links
    share); and 1 µs for each sign of a style. The worst of some thousand random pages
    took 2.5 times as long as estimated.
    """
    work = 100_000 + tags * (5_000 + 2 * tags) + together * attributes
    return work + chars * links // 4 + 2_500 * reopened + 1_000 * signs
