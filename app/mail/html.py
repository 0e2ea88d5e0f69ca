"""HTML: the visible text of a part, its links, and hidden text.

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
from app.mail.hidden import take_hidden
from app.mail.limits import (
    MAX_HTML_TAGS,
    MAX_HTML_TREE_CHARS,
    MAX_LINK_CHARS,
    MAX_LINKS,
    MAX_TITLE_CHARS,
    Budget,
)
from app.mail.message import Link

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

_DROPPED: Final = {ord(c): None for c in "\t\n\r\0"}
# A comment, an element that is not shown, or a tag, as browsers find them (HTML
# standard, 13.2.5): a quoted value may hold what looks like any of them. A blank in
# place of tags that break the line makes "<td>a</td><td>b" two words; "w<b>or</b>d" and
# "V<!-- x -->iagra" remain one word, like on the screen.
_REST: Final = r"""(?:=\s*+(?:"[^"]*+(?:"|\Z)|'[^']*+(?:'|\Z))|[^>])*+(?:>|\Z)"""
_MARKUP: Final = re.compile(
    r"<!--(?:-?>|.*?(?:--!?>|\Z))"
    rf"|<(script|style|iframe|noframes|noembed)(?=[\s/>]){_REST}"
    rf".*?(?:</\1(?=[\s/>]){_REST}|\Z)"
    r"|</?(?:(p|div|td|th|tr|table|li|ul|ol|dl|dt|dd|br|hr|h[1-6]|center|blockquote|pre"
    r"|form|option|select|input|textarea|button|img|title|section|article|header|footer"
    rf"|address)(?=[\s/>])|[a-z!?]){_REST}",
    re.DOTALL | re.IGNORECASE,
)
_TARGET: Final = re.compile(
    r"\b(?:href|src|action)\s{0,9}=\s{0,9}[\"']?([^\s\"'>]{1,2048})", re.IGNORECASE
)
_POINTING: Final = (
    "a[href],area[href],img,form[action],iframe[src],frame[src],embed[src],"
    "link[href],base[href],input[src],[background],[title]"
)
_SCREENS: Final = (None, "", "all", "screen")
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
    # V<!-- x -->iagra: one word to the reader.
    if seen & markup.IN_WORD:
        defects.append("html-comment-in-word")
    costly = len(source) > MAX_HTML_TREE_CHARS or counts[0] > MAX_HTML_TAGS
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
    sheet = ""
    if seen & markup.UNSHOWN:
        sheets = [x for x in root.css("style") if x.attributes.get("media") in _SCREENS]
        sheet = "".join([x.text(separator="") for x in sheets])
        tree.strip_tags(list(markup.UNSHOWN_ELEMENTS))
    unseen = " ".join([*_take_long_titles(root), take_hidden(root, sheet)])
    if unseen.strip():
        defects.append("html-hidden-text")
    return Page(
        root.text(separator=""),
        unseen,
        tuple(alternatives),
        tuple(found),
        tuple(defects),
    )


def _take_long_titles(root: LexborNode) -> list[str]:
    """Remove titles that are longer than people write them, and return their text."""
    titles = root.css("title")
    texts = [node.text(separator="") for node in titles]
    if sum(map(len, texts)) <= MAX_TITLE_CHARS:
        return []
    for node in titles:
        node.decompose()
    return texts


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
    reopened: int,
) -> int:
    """Return an estimate of the nanoseconds to build and read a tree.

    Parameters
    ----------
    chars : int
        Length of the HTML.
    tags, attributes, together, links, reopened : int
        Upper bounds of their numbers, from `app.kernels.markup.spaced`.

    Notes
    -----
    A sum of costs measured on the worst page of each kind (lexbor in selectolax 1.0):
    100 µs for any page; 5 µs for each tag (images with four attributes); 1 ns for each
    pair of tags (nested elements), and for each pair of attributes of one tag, which
    the parser compares; 300 ns for two elements that are opened again; and 1/4 ns for
    each pair of a link and a character (a text that many links share). The worst of
    some thousand random pages took 2.5 times as long as estimated.
    """
    work = 100_000 + tags * (5_000 + tags) + together * attributes
    return work + chars * links // 4 + 300 * reopened


def _without_tree(source: str, defects: list[str]) -> Page:
    """Read HTML that is too expensive for a tree, in linear time."""
    tags: list[str] = []

    def take(found: re.Match[str]) -> str:
        tag = found[0]
        if "=" in tag and not tag.startswith("<!--"):
            tags.append(tag)
        return " " if found.lastindex else ""

    text = html.unescape(_MARKUP.sub(take, source))
    found = islice(_TARGET.finditer("\n".join(tags)), MAX_LINKS)
    links = tuple(link(match[1], "unknown") for match in found)
    return Page(text, links=links, defects=tuple(defects))
