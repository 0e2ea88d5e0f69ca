"""MIME tree: the structure of a message, as mail programs find it.

Contract of this file: a text is gone over once for each container around it, within
`MAX_NESTED_CHARS`, and every expression is linear in its input.
"""

from __future__ import annotations

import re
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Final

from app.mail import headers
from app.mail.encoding import IDENTITY, decode_transfer, signed_content
from app.mail.limits import (
    MAX_DEPTH,
    MAX_HEADERS,
    MAX_PARTS,
    Budget,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

MESSAGES: Final = frozenset({"message/rfc822", "message/global", "message/news"})
"""Types of messages in a message (RFC 2046 section 5.2.1, RFC 6532 section 3.7)."""
# Mail programs show what is signed in them (RFC 8551, 3.5.2; experiment 0126).
_SIGNED: Final = frozenset({"application/pkcs7-mime", "application/x-pkcs7-mime"})
_MEDIA_TYPE: Final = re.compile(r"[!-.0-~]{1,100}/[!-.0-~]{1,100}\Z")
# RFC 5322 section 3.6.8 for the name, and section 2.2.3 for the further lines.  Blanks
# behind a name (section 4.5) count only where they would hide an encoding: below a
# subject, "Ann :" begins the text of mail whose header has no end.
_NAME: Final = r"(?>(?i:Content-)[!-9;-~]++(?=[ \t])|[!-9;-~]++(?=:))"
_VALUE: Final = r"[^\n]*+(?>(?:\n[ \t][^\n]*+)*)"
_FIELDS: Final = re.compile(rf"^({_NAME})[ \t]*+:({_VALUE})\n", re.MULTILINE)
_OF_MIME: Final = re.compile(
    rf"^(?=Content-|Subject)({_NAME})[ \t]*+:({_VALUE})\n", re.MULTILINE | re.IGNORECASE
)
# Without groups: in what is possessive, Python loses their ends up to 3.12.7
# (SystemError, CPython issue 101955).
_FIELD: Final = rf"{_NAME}[ \t]*+:{_VALUE}\n"
_HEADER: Final = re.compile(rf"\A(?>(?:{_FIELD})*)")
# Lines that end no header, but are none.
_LINES: Final = re.compile(rf"\A(?>(?:{_FIELD}|(?:[ \t]|From )[^\n]*+\n)*)")
_CONTENT: Final = re.compile(r"^Content-[!-9;-~]++:", re.MULTILINE | re.IGNORECASE)
_BLANK: Final = " \t\n"
_BOUNDARY_LINE: Final = re.compile(
    r"^--([^\s-][^\n]{0,69})\nContent-", re.MULTILINE | re.IGNORECASE
)
_SCHEMES: Final = frozenset({"http", "https", "ftp"})


class Node:
    """A message or part, a leaf without parts; below `MAX_DEPTH`, it is text."""

    def __init__(
        self, budget: Budget, depth: int = 0, default_type: str = "text/plain"
    ) -> None:
        self.budget = budget
        self.depth = depth
        self.default_type = default_type
        self.fields: list[tuple[str, str]] = []
        self.parts: list[Node] = []
        self.body = ""

    def first(self, name: str) -> str:
        """Return the raw value of a header, or ""."""
        # Not next() of a generator, which takes twice as long.
        for known, value in self.fields:
            if known == name:
                return value
        return ""

    @cached_property
    def _content_type(self) -> tuple[str, dict[str, str]]:
        """The type and its parameters."""
        declared, parameters = headers.parameters(
            self.first("content-type"), self.budget
        )
        if not declared:
            declared = self.default_type
        elif not _MEDIA_TYPE.match(declared):
            # RFC 2045 section 5.2: an invalid type means text/plain.
            declared = "text/plain"
        return declared, parameters

    def parameter(self, name: str) -> str:
        """Return a parameter of the type, or ""."""
        return self._content_type[1].get(name, "")

    @property
    def media_type(self) -> str:
        """Media type, lower case."""
        return "text/plain" if self.depth >= MAX_DEPTH else self._content_type[0]

    @property
    def charset(self) -> str:
        """Declared charset, lower case, or ""."""
        charset = self.parameter("charset").strip().lower()
        return charset.encode("ascii", "replace").decode()

    @property
    def encoding(self) -> str:
        """Transfer encoding, lower case, or ""."""
        value = self.first("content-transfer-encoding")
        return headers.parameters(value, self.budget)[0]

    @cached_property
    def _content_disposition(self) -> tuple[str, dict[str, str]]:
        """The disposition and its parameters."""
        return headers.parameters(self.first("content-disposition"), self.budget)

    @property
    def disposition(self) -> str:
        """Declared disposition, or ""."""
        return self._content_disposition[0]

    @property
    def filename(self) -> str:
        """File name of the part, or ""."""
        name = self._content_disposition[1].get("filename", "")
        return name or self.parameter("name")

    @property
    def content(self) -> bytes:
        """The body of a leaf, not decoded."""
        return self.body.encode("ascii", "surrogateescape")


def build(raw: bytes, budget: Budget) -> Node:
    """Return the root of a message's tree.

    Parameters
    ----------
    raw : bytes
        The message, line ends LF.
    budget : Budget
        The remaining work of the message; defects are added to it.
    """
    root = nodes_of(raw, budget)[0]
    _move_text_to_body(root, raw, budget.defects)
    return root


def nodes_of(raw: bytes, budget: Budget, *, messages: bool = True) -> list[Node]:
    """Return the nodes of a message's tree in order, the root first.

    Parameters
    ----------
    messages : bool
        Whether the messages in it are parsed.
    """
    nodes = [Node(budget)]
    _grow(nodes, raw.decode("ascii", "surrogateescape"), messages=messages)
    return nodes


def _grow(nodes: list[Node], text: str, *, messages: bool) -> None:
    """Read the last node, and add those below it."""
    node = nodes[-1]
    defects = node.budget.defects
    if node.depth >= MAX_DEPTH:
        defects.add("too-deep")
    body = _read_header(node, text)
    kind = node.media_type
    pieces: list[str] = []
    of_parts = kind.startswith("multipart/")
    # By its name, whatever its type, if it is the whole message (RFC 8551, 3.6).
    signed = kind in _SIGNED or (
        not node.depth and node.filename.lower().endswith(".p7m")
    )
    opened = of_parts or signed or (messages and kind in MESSAGES)
    if opened and node.budget.allows("containers", len(body)):
        most = MAX_PARTS + 1 - len(nodes)
        pieces = (
            _pieces(node, body, most)
            if of_parts
            else _content(node, body, signed=signed)
        )
    for piece in pieces:
        if len(nodes) == MAX_PARTS:
            defects.add("too-many-parts")
            return
        digest = kind == "multipart/digest"
        default = "message/rfc822" if digest else "text/plain"
        nodes.append(Node(node.budget, node.depth + 1, default))
        node.parts.append(nodes[-1])
        _grow(nodes, piece, messages=messages)
    if not pieces:
        node.body = body


def _read_header(node: Node, text: str) -> str:
    """Read the header of a message or part, and return its body."""
    if not text or text.startswith("\n"):
        return text[1:]
    defects = node.budget.defects
    head, _, body = text.partition("\n\n")
    head = head.removesuffix("\n") + "\n"
    if _end(_HEADER, head) < len(head):
        end = _end(_LINES, head)
        # Mail programs skip what is no field, up to the empty line: headers of MIME
        # may follow.
        if end == len(head) or _CONTENT.search(head, end):
            defects.add("header-malformed")
        else:
            defects.add("header-without-end")
            head, body = head[:end], text[end:]
    # Of parts, few fields are asked for.
    fields = _some(_OF_MIME if node.depth else _FIELDS, head)
    if len(fields) == MAX_HEADERS:
        defects.add("too-many-headers")
        if not node.depth:
            # Those of MIME are read wherever they stand.
            known = set(fields)
            fields += [field for field in _some(_OF_MIME, head) if field not in known]
    node.fields = fields
    return body


def _end(pattern: re.Pattern[str], text: str) -> int:
    """Return the end of a pattern at the beginning of a text."""
    found = pattern.match(text)
    return found.end() if found else 0


def _some(pattern: re.Pattern[str], head: str) -> list[tuple[str, str]]:
    """Return the first fields of a header."""
    found = islice(pattern.finditer(head), MAX_HEADERS)
    return [(field[1].lower(), field[2].lstrip(_BLANK)) for field in found]


def _pieces(node: Node, body: str, most: int) -> list[str]:
    """Return the parts of a multipart, not more than a number; [] if none is found."""
    defects = node.budget.defects
    # RFC 2046 section 5.1.1: a boundary never ends in a blank.
    boundary = node.parameter("boundary").rstrip()
    if not boundary:
        defects.add("multipart-without-boundary")
    texts = [body]
    if node.encoding not in IDENTITY:
        # RFC 2045 section 6.4 forbids it, and some mail programs decode it.
        defects.add("multipart-encoded")
        texts.append(_decoded(node, body))
    found: list[str] = []
    for text in texts:
        if boundary:
            found = [*islice(_between(text, boundary, defects), most)]
        if not found:
            # The boundary in use is not the declared one. Mail programs then show
            # nothing or everything; the parts are better evidence.
            defects |= {"multipart-without-start", "multipart-without-parts"}
            line = _BOUNDARY_LINE.search(text)
            if line:
                found = [*islice(_between(text, line[1].rstrip(), defects), most)]
        if found:
            break
    return found


def _between(body: str, boundary: str, defects: set[str]) -> Iterator[str]:
    """Yield the texts between the lines of a boundary."""
    text, mark = "\n" + body, "\n--" + boundary
    start = -1
    at = text.find(mark)
    while at >= 0:
        line = at + len(mark)
        end = text.find("\n", line)
        end = len(text) if end < 0 else end
        more = text[line:end].rstrip(" \t")
        if more in {"", "--"}:
            if start >= 0:
                yield text[start : at + 1]
            if more:
                return
            start = end + 1
        at = text.find(mark, end)
    if start >= 0:
        defects.add("multipart-without-end")
        yield text[start:]


def _content(node: Node, body: str, *, signed: bool) -> list[str]:
    """Return the message in a container, or the part that is signed in it, if any."""
    text = _decoded(node, body, signed=signed)
    return [text] if text else []


def _decoded(node: Node, body: str, *, signed: bool = False) -> str:
    """Return the body of a container, whose encoding RFC 2046 forbids."""
    if node.encoding in IDENTITY and not signed:
        return body
    content, _ = decode_transfer(body.encode("ascii", "surrogateescape"), node.encoding)
    content = signed_content(content) if signed else content
    return content.replace(b"\r\n", b"\n").decode("ascii", "surrogateescape")


def _move_text_to_body(root: Node, raw: bytes, defects: set[str]) -> None:
    """Remove text that looks like a header from the header."""
    if not any(headers.is_known(name) for name, _ in root.fields):
        if root.fields:
            defects.add("header-unknown")
        root.fields = []
        root.body = raw.decode("ascii", "surrogateescape")
        return
    # "http://..." directly below the subject looks like a header named http.
    if _SCHEMES.isdisjoint([name for name, _ in root.fields]):
        return
    kept = []
    lines = []
    for name, value in root.fields:
        if name in _SCHEMES and value.startswith("//"):
            lines.append(f"{name}:{value}\n")
        else:
            kept.append((name, value))
    if lines:
        defects.add("header-without-end")
        root.fields = kept
        root.body = "".join(lines) + root.body
