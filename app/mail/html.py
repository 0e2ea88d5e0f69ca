"""HTML: the visible text of a part, its links, and hidden text.

Contract of this file:

- Every expression is linear in its input.
- A tree is built only of as much as the budget of the message allows for, by the work
  that `_work` estimates: the whole part, its half, a quarter, and so on.
"""

from __future__ import annotations

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
    MAX_LINK_CHARS,
    MAX_LINKS,
    MAX_TITLE_CHARS,
    Budget,
)
from app.mail.message import Link

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

_DROPPED: Final = {ord(c): None for c in "\t\n\r\0"}
_POINTING: Final = (
    "a[href],area[href],img,form[action],iframe[src],frame[src],embed[src],"
    "link[href],base[href],input[src],[background],[title]"
)
_SCREENS: Final = frozenset({"", "all", "screen", "only screen"})
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
    defects: set[str] = set()
    room = budget.take("html", len(source))
    if room < len(source):
        source = source[:room]
        defects.add("html-too-long")
    # NUL: browsers drop it within text; here it would end the C string.
    if "\0" in source:
        source = source.replace("\0", "")
    while True:
        content = np.frombuffer(source.encode("utf-8", "replace"), np.uint8)
        into = np.empty(2 * content.size, np.uint8)
        size, tags, *counts, seen = markup.spaced(content, into)
        work = _work(len(source), tags, *counts)
        if tags <= MAX_HTML_TAGS and budget.allows("html tree", work):
            page = _with_tree(into[:size].tobytes(), seen, defects)
            if page is not None:
                return page
        defects.add("html-too-complex")
        if not source:
            return Page("", defects=tuple(sorted(defects)))
        source = source[: len(source) // 2]


def _with_tree(content: bytes, seen: int, defects: set[str]) -> Page | None:
    """Read HTML like a browser; return None if it has too many elements."""
    try:
        tree = LexborHTMLParser(content)
    except SelectolaxError:
        # The parser gives up, usually for lack of memory.
        return Page("", defects=(*sorted(defects), "html-unreadable"))
    # Never None: the parser makes html, head and body even from nothing.
    root = cast("LexborNode", tree.root)
    alternatives, found = _references(root)
    sheet = ""
    if seen & markup.UNSHOWN:
        sheet = "".join(
            [
                node.text(separator="")
                for node in root.css("style")
                if (node.attributes.get("media") or "").strip().lower() in _SCREENS
            ]
        )
        tree.strip_tags(list(markup.UNSHOWN_ELEMENTS))
    titles = _take_long_titles(root)
    hidden = take_hidden(root, sheet)
    if hidden is None:
        return None
    unseen = " ".join([*titles, hidden])
    # V<!-- x -->iagra: one word to the reader.
    if seen & markup.IN_WORD:
        defects.add("html-comment-in-word")
    if unseen.strip():
        defects.add("html-hidden-text")
    return Page(
        root.text(separator=""),
        unseen,
        tuple(alternatives),
        tuple(found),
        tuple(sorted(defects)),
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
    100 µs for any page; 5 µs for each tag (images with four attributes); 1 ns for each
    pair of tags (nested elements), and for each pair of attributes of one tag, which
    the parser compares; 2.5 µs for two elements that are opened again, most of it to
    find them; 1/4 ns for each pair of a link and a character (a text that many links
    share); and 1 µs for each sign of a style. The worst of some thousand random pages
    took 2.5 times as long as estimated.
    """
    work = 100_000 + tags * (5_000 + tags) + together * attributes
    return work + chars * links // 4 + 2_500 * reopened + 1_000 * signs
