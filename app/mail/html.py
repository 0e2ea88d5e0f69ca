"""What does an HTML part show, and where does it point to?"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from selectolax.lexbor import LexborHTMLParser

from app.mail import hidden, links
from app.mail.limits import (
    MAX_HTML_CHARS,
    MAX_HTML_FORMATTING,
    MAX_HTML_TAGS,
    MAX_HTML_TREE_CHARS,
    MAX_LINKS,
)

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

    from app.mail.message import Link

# Elements that break the line, or stand for something between two words: a
# blank before each makes "<td>a</td><td>b" two words, while "w<b>or</b>d" and
# "V<!-- x -->iagra" stay what the reader sees, one word.
_BREAK: Final = re.compile(
    r"<(?=/?(?:p|div|td|th|tr|table|li|ul|ol|dl|dt|dd|br|hr|h[1-6]|center"
    r"|blockquote|pre|form|option|select|input|textarea|button|img|title|section"
    r"|article|header|footer|address)[\s/>])",
    re.IGNORECASE,
)
_FORMATTING: Final = re.compile(
    r"<(?:a|b|big|code|em|font|i|nobr|s|small|strike|strong|tt|u)[\s/>]",
    re.IGNORECASE,
)
_COMMENT: Final = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
# V<!-- x -->iagra: one word to the reader.
_COMMENT_IN_WORD: Final = re.compile(r"[a-zA-Z]<!--[^<>]{0,200}-->[a-zA-Z]")
_UNSHOWN: Final = re.compile(
    r"<(script|style)\b.*?(?:</\1[^>]*+>?|\Z)", re.DOTALL | re.IGNORECASE
)
_TAG: Final = re.compile(r"</?[a-z!?][^>]*+(?:>|\Z)", re.IGNORECASE)
_TARGET: Final = re.compile(
    r"\b(?:href|src|action)\s{0,9}=\s{0,9}[\"']?([^\s\"'>]{1,2048})", re.IGNORECASE
)

_UNSHOWN_ELEMENTS: Final = ["script", "style", "noscript", "template"]
_POINTING: Final = (
    "a[href],area[href],img,form[action],iframe[src],frame[src],embed[src],"
    "link[href],base[href],input[src],[background],[title]"
)
_LENGTH: Final = re.compile(r"\d{1,4}%?\Z", re.ASCII)
_TARGETS: Final = ("href", "src", "action", "background")


@dataclass(frozen=True, slots=True)
class Page:
    """What an HTML part holds.

    Parameters
    ----------
    text : str
        What the reader sees, title first.
    hidden : str
        Text that is there and that no reader sees.
    alternatives : tuple of str
        ``alt`` and ``title`` texts of the elements.
    links : tuple of Link
        In the order of the elements.
    defects : tuple of str
        Limits that were hit, and what is done to hide text.
    """

    text: str
    hidden: str = ""
    alternatives: tuple[str, ...] = ()
    links: tuple[Link, ...] = ()
    defects: tuple[str, ...] = ()


def read(source: str) -> Page:
    """Read an HTML part.

    Parameters
    ----------
    source : str
        HTML of any quality.

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
    defects: list[str] = []
    if len(source) > MAX_HTML_CHARS:
        source = source[:MAX_HTML_CHARS]
        defects.append("html-too-long")
    # NUL: browsers drop it within text; here it would end the C string.
    if "\0" in source:
        source = source.replace("\0", "")
    if "-->" in source and _COMMENT_IN_WORD.search(source):
        defects.append("html-comment-in-word")
    if _is_costly(source):
        defects.append("html-too-complex")
        return _without_tree(source, defects)
    tree = LexborHTMLParser(_BREAK.sub(" <", source))
    # Never None: the parser makes html, head and body of nothing.
    root = cast("LexborNode", tree.root)
    alternatives, found = _references(root)
    tree.strip_tags(_UNSHOWN_ELEMENTS)
    unseen = hidden.take(root)
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
    """Return the texts that stand in for elements, and what they point to."""
    alternatives: list[str] = []
    found: list[Link] = []
    last = 0
    for node in root.css(_POINTING):
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
                shown = node.text(separator="").strip() if node.tag == "a" else ""
                if node.tag == "img":
                    shown = _size(attributes)
                found.append(links.of(url, node.tag or "", shown))
    return alternatives, found


def _size(attributes: dict[str, str | None]) -> str:
    """Return the declared size of an image, or "" if it has none."""
    width, height = attributes.get("width"), attributes.get("height")
    if not (width and height and _LENGTH.match(width) and _LENGTH.match(height)):
        return ""
    return f"{width}x{height}"


def _is_costly(source: str) -> bool:
    """Return whether building a tree could take long or much memory."""
    tags = source.count("<")
    if len(source) > MAX_HTML_TREE_CHARS or tags > MAX_HTML_TAGS:
        return True
    # Few tags need no second look.
    if tags * tags <= MAX_HTML_FORMATTING:
        return False
    formatting = sum(1 for _ in _FORMATTING.finditer(source))
    return tags * formatting > MAX_HTML_FORMATTING


def _without_tree(source: str, defects: list[str]) -> Page:
    """Read HTML that is too costly to build a tree of, in linear time."""
    source = _COMMENT.sub("", source)
    found = tuple(
        links.of(match[1], "unknown")
        for match, _ in zip(_TARGET.finditer(source), range(MAX_LINKS), strict=False)
    )
    source = _TAG.sub("", _BREAK.sub(" <", _UNSHOWN.sub(" ", source)))
    return Page(html.unescape(source), links=found, defects=tuple(defects))
