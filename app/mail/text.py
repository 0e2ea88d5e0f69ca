"""Text of a part: character sets, HTML, links, and text that a reader does not see.

Hidden text is found by the attributes of the elements themselves: ``hidden``,
``style``, ``color`` and ``bgcolor``.  Style sheets are not read, since mail programs
drop many of them; small or pale text counts as visible.

Contract of this file:

- Any bytes with any label become text.
- Every expression is linear in its input.
- A tree is built only where the budget of the message allows for the work that
  `_work` estimates; any other part is read in linear time.
"""

from __future__ import annotations

import codecs
import html
import re
from dataclasses import dataclass
from encodings import normalize_encoding
from encodings.aliases import aliases
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Final, cast

import cchardet
from selectolax.lexbor import LexborHTMLParser, SelectolaxError

from app.mail.limits import (
    MAX_ANCESTORS,
    MAX_DETECTION_BYTES,
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

# What mail calls by the left name holds characters of the right one, a
# superset: WHATWG Encoding Standard, section 4.2, where Python has the codec.
SUPERSETS: Final = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "tis-620": "cp874",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "big5": "big5hkscs",
    "euc_kr": "cp949",
    "shift_jis": "cp932",
}
# Not in the table below: no text (base64 ...), or no charset of mail because they
# are quadratic (idna, punycode), warn (the escapes) or depend on the machine.
REFUSED: Final = frozenset(
    {
        "base64_codec", "bz2_codec", "hex_codec", "quopri_codec", "rot_13", "uu_codec",
        "zlib_codec", "idna", "punycode", "unicode_escape", "raw_unicode_escape",
        "mbcs", "oem", "undefined",
    }
)  # fmt: skip
# Codecs of the standard library that no alias names.
_UNALIASED: Final = (
    "cp1006", "cp720", "cp737", "cp856", "cp874", "cp875", "iso8859_1", "koi8_t",
    "koi8_u", "mac_arabic", "mac_croatian", "mac_farsi", "mac_romanian", "palmos",
    "utf_8_sig",
)  # fmt: skip
# Labels that Python does not know: WHATWG Encoding Standard, section 4.2.
_WHATWG: Final = {
    "unicode_1_1_utf_8": "utf_8", "unicode11utf8": "utf_8", "x_unicode20utf8": "utf_8",
    "dos_874": "cp874", "iso_8859_8_e": "iso8859_8", "logical": "iso8859_8",
    "visual": "iso8859_8", "koi": "koi8_r", "koi8": "koi8_r", "koi8_ru": "koi8_u",
    "macintosh": "mac_roman", "x_mac_roman": "mac_roman",
    "x_mac_cyrillic": "mac_cyrillic", "x_mac_ukrainian": "mac_cyrillic",
    **{f"x_cp125{n}": f"cp125{n}" for n in range(9)},
    "x_gbk": "gbk", "iso_ir_58": "gb2312", "gb_2312": "gb2312", "cn_big5": "big5",
    "x_x_big5": "big5", "x_euc_jp": "euc_jp", "x_sjis": "cp932",
    "windows_949": "cp949", "ks_c_5601_1989": "cp949",
}  # fmt: skip
_CODECS: Final = {
    label: codec
    for label, codec in (
        *((codec, codec) for codec in {*aliases.values(), *_UNALIASED}),
        *aliases.items(),
        *_WHATWG.items(),
    )
    if codec not in REFUSED
}
"""The labels that are known, as `encodings.normalize_encoding` writes them."""
# The detector's answers are 0.99 or more where they are right, and 0.25 to 0.75
# where it has nothing to go by.
_MIN_CONFIDENCE: Final = 0.8
# In these, bytes below 128 are not ASCII.
_STATEFUL: Final = ("utf-7", "utf-16", "utf-32", "iso2022", "hz", "cp037", "cp500")


@lru_cache(maxsize=256)
def codec_name(charset: str) -> str:
    """Return Python's codec for a charset as mail names it, or "".

    Examples
    --------
    >>> codec_name("iso-8859-1"), codec_name("GB2312"), codec_name("rot13")
    ('cp1252', 'gb18030', '')
    """
    # A table, since codecs.lookup remembers each label that it does not find, for as
    # long as the process lives.
    label = normalize_encoding(charset.strip("\"' \t").lower()) if charset else ""
    codec = _CODECS.get(label) or _CODECS.get(label.replace(".", "_"), "")
    name = codecs.lookup(codec).name if codec else ""
    return SUPERSETS.get(name, name)


def decode(
    content: bytes, charset: str, budget: Budget | None = None
) -> tuple[str, bool]:
    """Decode bytes: declared, then UTF-8, then detected, then Latin-1.

    Parameters
    ----------
    content : bytes
        Any bytes.
    charset : str
        The declared charset, or "" if none is.
    budget : Budget, optional
        What the message may cost; without it, a whole one.

    Returns
    -------
    text : str
        The characters.
    as_declared : bool
        Whether the declared charset (ASCII, if none is) fits the bytes.

    Examples
    --------
    >>> decode("Grüße".encode(), "us-ascii")
    ('Grüße', False)
    >>> decode("Grüße".encode("latin-1"), "iso-8859-1")
    ('Grüße', True)
    """
    declared = codec_name(charset) if charset else ""
    if content.isascii() and not declared.startswith(_STATEFUL):
        return content.decode("ascii"), bool(declared) or not charset
    # Declared ASCII with bytes above 127 is not believed.
    if declared and charset.lower() not in {"us-ascii", "ascii"}:
        text = _strict(content, declared)
        if text is not None:
            return text, True
    text = _strict(content, "utf-8")
    if text is not None:
        return text, declared == "utf-8"
    if not (budget or Budget()).allows("detections", 1):
        return content.decode("latin-1"), False
    return _guess(content), False


def _strict(content: bytes, codec: str) -> str | None:
    """Decode, or return None where the bytes do not fit."""
    try:
        text = content.decode(codec)
    # Some codecs raise a base class of UnicodeDecodeError. A codec may raise any
    # ValueError (Python's documentation of codecs, "Error Handlers").
    except ValueError:
        return None
    # UTF-7 yields lone surrogates, which no other codec can encode again.
    if codec == "utf-7":
        text = text.encode("utf-8", "replace").decode()
    return text


def _guess(content: bytes) -> str:
    """Decode by what the detector says, or as Latin-1."""
    found = cchardet.detect(content[:MAX_DETECTION_BYTES])
    codec = codec_name(found["encoding"] or "")
    # Of a single accented letter the detector says UTF-8, which it cannot be.
    if not codec or (found["confidence"] or 0) < _MIN_CONFIDENCE:
        return content.decode("latin-1")
    return content.decode(codec, "replace")


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


def take(root: LexborNode) -> str:
    """Take what no reader sees out of a tree, and return its text.

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
    # More than a page has tags are copies, which open formatting elements leave.
    for node in islice(root.css(_CANDIDATES), MAX_HTML_TAGS):
        if len(found) == MAX_HIDDEN:
            break
        if node.mem_id not in found and _is_hidden(node, grounds):
            found[node.mem_id] = node
    # The outermost ones alone: those within them are freed with them, and to
    # ask a freed one anything reads memory that is not there any more.
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
        The others, by what identifies them.
    known : dict of int to bool
        What was found of the elements above those that were asked about before;
        what is found now is added, so that each element is looked at once.
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
    """Return whether an element says that what is in it is not to be seen.

    Parameters
    ----------
    node : LexborNode
        The element.
    grounds : dict of int to (int, int, int) or None
        What `_ground` said of elements, which most stand below again and again.
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
    return max(abs(a - b) for a, b in zip(colour, behind, strict=True)) <= _SAME


def _colour_of(attributes: dict[str, str | None], style: str) -> Colour | None:
    """Return the colour of text that an element declares."""
    declared = _COLOUR.search(style)
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
    """Return the colour that an element puts behind what is in it, if any."""
    attributes = node.attributes
    style = (attributes.get("style") or "")[:_MAX_STYLE].lower()
    if attributes.get("background") or "url(" in style:
        # An image: whatever the colour, it may be read on it.
        return (-255, -255, -255)
    declared = _BACKGROUND.search(style)
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
    return int(digits[:2], 16), int(digits[2:4], 16), int(digits[4:], 16)


# What follows "http://", "https://", "ftp://" or "www." up to a blank or a
# bracket, and no trailing punctuation, which belongs to the sentence. The first
# letter stands by itself, in both cases, so that the search goes from one such
# letter to the next: a third of the time that (?i:https?://|ftp://|www\.) takes.
_ADDRESS: Final = re.compile(
    r"[hHfFwW](?:(?<=[hH])[tT]{2}[pP][sS]?://|(?<=[fF])[tT][pP]://|(?<=[wW])[wW]{2}\.)"
    r"[^\s<>\"'\]\)}]{1,2040}"
)
_TRAILING: Final = ".,;:!?*_-"


def in_text(text: str) -> list[Link]:
    """Return the links that are written out in a text.

    Examples
    --------
    >>> [link.url for link in in_text("See http://example.com/a, or not.")]
    ['http://example.com/a']
    """
    # Two searches for a substring, before the expression, which is slower.
    if "://" not in text and "www." not in text.lower():
        return []
    found = islice(_ADDRESS.finditer(text), MAX_LINKS)
    return [Link(match[0].rstrip(_TRAILING), "text") for match in found]


def of(url: str, element: str, text: str = "") -> Link:
    """Return the link of an HTML element, its target trimmed as browsers do."""
    # Browsers drop tabs and line ends anywhere in a URL (WHATWG URL, 4.4).
    url = url[:MAX_LINK_CHARS]
    if not url.isprintable():
        url = url.translate(_DROPPED)
    return Link(url.strip(), element, text)


_DROPPED: Final = {ord(c): None for c in "\t\n\r\0"}
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
# From the first "<" to a ">", and a ">" within a quoted value: what a tag can be at
# the longest, however its attributes are written.
_LONG: Final = re.compile(r"<[^>]*+")
_QUOTED_END: Final = re.compile(r"=\s*+(?:\"[^\">]*+>|'[^'>]*+>)")
# Below so many attributes, or tags, they cost less than to look at them twice.
_FEW_ATTRIBUTES: Final = 2_000
_FEW_TAGS: Final = 300
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


def read(source: str, budget: Budget | None = None) -> Page:
    """Read an HTML part.

    Parameters
    ----------
    source : str
        HTML of any quality.
    budget : Budget, optional
        What the message may cost; without it, a whole one.

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
    if "-->" in source and _COMMENT_IN_WORD.search(source):
        defects.append("html-comment-in-word")
    if _is_costly(source) or not budget.allows("html tree", _work(source)):
        defects.append("html-too-complex")
        return _without_tree(source, defects)
    try:
        return _with_tree(source, list(defects))
    except SelectolaxError:
        # The parser gives up, for want of memory as a rule.
        defects.append("html-unreadable")
        return _without_tree(source, defects)


def _with_tree(source: str, defects: list[str]) -> Page:
    """Read HTML as a browser does."""
    tree = LexborHTMLParser(_BREAK.sub(" <", source))
    # Never None: the parser makes html, head and body of nothing.
    root = cast("LexborNode", tree.root)
    alternatives, found = _references(root)
    tree.strip_tags(_UNSHOWN_ELEMENTS)
    unseen = take(root)
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
                found.append(of(url, node.tag or "", shown))
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


def _work(source: str) -> int:
    """Return about how many nanoseconds a tree takes, to build and to read.

    Notes
    -----
    The sum of what was measured on the worst page of each kind (lexbor in
    selectolax 1.0): 100 µs for any page; 5 µs for each tag, as images with four
    attributes take; 1 ns for each pair of tags, as nested elements take, and for each
    pair of attributes of one tag, which the parser compares with each other; 100 ns
    for each pair of a formatting tag and a tag, as elements that are opened again
    take; and 1/4 ns for each pair of a link and a character, as a text takes that
    many links share. The worst of some thousand pages that were put together by
    chance took 2.5 times as long as was estimated.

    The attributes of a tag are bounded without reading it as the parser does: a tag
    goes from ``<`` to ``>``, and one ``>`` further for each that stands in a quoted
    value; before each attribute is a blank, a slash, or a value that ends in a quote.
    """
    tags = source.count("<")
    attributes = len(source.split()) + source.count("/") + source.count("=")
    of_a_tag = attributes
    if attributes > _FEW_ATTRIBUTES:
        quoted = len(_QUOTED_END.findall(source))
        runs = source.split(">") if quoted else _LONG.findall(source)
        longest = max(map(len, runs), default=0)
        of_a_tag = min(attributes, (quoted + 1) * longest // 2)
    work = 100_000 + tags * (5_000 + tags) + of_a_tag * attributes
    work += len(source) * (source.count("<a") + source.count("<A")) // 4
    formatting = tags if tags < _FEW_TAGS else len(_FORMATTING.findall(source))
    return work + 100 * tags * formatting


def _without_tree(source: str, defects: list[str]) -> Page:
    """Read HTML that is too costly to build a tree of, in linear time."""
    source = _COMMENT.sub("", source)
    found = tuple(
        of(match[1], "unknown")
        for match, _ in zip(_TARGET.finditer(source), range(MAX_LINKS), strict=False)
    )
    source = _TAG.sub("", _BREAK.sub(" <", _UNSHOWN.sub(" ", source)))
    return Page(html.unescape(source), links=found, defects=tuple(defects))
