"""MIME tree: the structure of a message, read with the standard library.

Contract of this file: only public hooks of `email.message.Message` keep the standard
parser within the limits, so its behaviour at a limit does not depend on the depth of
the caller's stack.
"""

from __future__ import annotations

import re
from email.feedparser import FeedParser
from email.message import Message
from email.policy import compat32
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, cast

from app.mail import headers
from app.mail.limits import (
    MAX_DEPTH,
    MAX_HEADERS,
    MAX_PARTS,
    Budget,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_DEFECTS: Final = {
    "MissingHeaderBodySeparatorDefect": "header-without-end",
    "NoBoundaryInMultipartDefect": "multipart-without-boundary",
    "StartBoundaryNotFoundDefect": "multipart-without-start",
    "CloseBoundaryNotFoundDefect": "multipart-without-end",
    "FirstHeaderLineIsContinuationDefect": "header-malformed",
    "MisplacedEnvelopeHeaderDefect": "header-malformed",
    "InvalidHeaderDefect": "header-malformed",
    "MultipartInvariantViolationDefect": "multipart-without-parts",
    "InvalidMultipartContentTransferEncodingDefect": "multipart-encoded",
}
_MEDIA_TYPE: Final = re.compile(r"[!-.0-~]{1,100}/[!-.0-~]{1,100}\Z")
# The type is generic only for the type checker.
if TYPE_CHECKING:
    _Message = Message[str, str]
else:
    _Message = Message
# A header field with its continuation lines, as in `email.feedparser`: RFC 5322 section
# 3.6.8 for the name.
_FIELD: Final = re.compile(
    r"^([!-9;-~]++):([^\n]*+(?:\n[ \t][^\n]*+)*+)\n", re.MULTILINE
)
# Characters to strip before a value. The standard parser of Python 3.11 leaves a line
# break there, and that of 3.14 does not: a value must not depend on the version.
_BLANK: Final = " \t\r\n"
# No character that would end the quoted string around it.
_BOUNDARY_LINE: Final = re.compile(
    r"^--([^\s\"\\-][^\n\"\\]{0,69})\nContent-", re.MULTILINE | re.IGNORECASE
)
_WRAPPER: Final = 'Content-Type: multipart/mixed; boundary="{}"\n\n'
_SCHEMES: Final = frozenset({"http", "https", "ftp"})
_UNENCODED: Final = frozenset({"", "7bit", "8bit", "binary"})
# Deeper, the fast path would read the same text again and again.
_SHORT_DEPTH: Final = 4


class _TooManyPartsError(Exception):
    """Stops the standard parser; what it has built so far is used."""


class Node(_Message):
    """A message or part, as the standard parser builds it.

    The parser asks for its type to decide whether to look for parts in it.  The answer
    comes from the parsed header that the rest of Postbayes uses; below `MAX_DEPTH`, it
    is text.
    """

    def __init__(self, budget: Budget) -> None:
        super().__init__(compat32)
        self.budget = budget
        self.depth = 0
        self.default_type = "text/plain"
        self.fields: list[tuple[str, str]] = []
        self.parts: list[Node] = []
        self.body = ""
        self._type: tuple[str, dict[str, str]] | None = None
        self._disposition: tuple[str, dict[str, str]] | None = None

    def set_raw(self, name: str, value: str) -> None:
        """Accept a header from the parser, up to `MAX_HEADERS`."""
        if len(self.fields) < MAX_HEADERS:
            self.fields.append((name.lower(), value.lstrip(_BLANK)))

    def __len__(self) -> int:
        """Return the number of headers; a message without headers is false."""
        return len(self.fields)

    def attach(self, payload: Any) -> None:
        """Accept a part from the parser."""
        payload.depth = self.depth + 1
        self.parts.append(payload)

    def is_multipart(self) -> bool:
        """Return whether parts were found."""
        return bool(self.parts)

    def set_payload(self, payload: Any, charset: Any = None) -> None:  # noqa: ARG002
        """Accept the body of a leaf from the parser."""
        # Kept here because get_payload() decodes bytes above 127 with the
        # declared charset and loses those that do not fit.
        self.body = payload

    def set_default_type(self, ctype: str) -> None:
        """Accept the default type for parts of the container."""
        self.default_type = ctype

    def first(self, name: str) -> str:
        """Return the raw value of a header, or ""."""
        # Not next() of a generator, which takes twice as long.
        for known, value in self.fields:
            if known == name:
                return value
        return ""

    def _content_type(self) -> tuple[str, dict[str, str]]:
        """Return the type and its parameters, read once."""
        if self._type is None:
            declared, parameters = headers.parameters(
                self.first("content-type"), self.budget
            )
            if not declared:
                declared = self.default_type
            elif not _MEDIA_TYPE.match(declared):
                # RFC 2045 section 5.2: an invalid type means text/plain.
                declared = "text/plain"
            self._type = declared, parameters
        return self._type

    def parameter(self, name: str) -> str:
        """Return a parameter of the type, or ""."""
        return self._content_type()[1].get(name, "")

    def get_content_type(self) -> str:
        """Return the media type, for the parser and for Postbayes."""
        if self.depth >= MAX_DEPTH:
            return "text/plain"
        return self._content_type()[0]

    def get_content_maintype(self) -> str:
        """Return the main type, by which the parser decides to look for parts."""
        media_type = self.get_content_type()
        # Only messages, not message/partial, external-body and the like.
        if media_type.startswith("message/") and media_type != "message/rfc822":
            return "text"
        return media_type.partition("/")[0]

    def get_boundary(self, failobj: Any = None) -> Any:
        """Return the boundary of a multipart."""
        # RFC 2046 section 5.1.1: at most 70 characters, never ending in a
        # blank.
        boundary = self.parameter("boundary").rstrip()
        return boundary or failobj

    def get(self, name: str, failobj: Any = None) -> Any:
        """Return a header; the parser needs the transfer encoding."""
        return self.first(name.lower()) or failobj

    @property
    def media_type(self) -> str:
        """Media type, lower case."""
        return self.get_content_type()

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

    def _content_disposition(self) -> tuple[str, dict[str, str]]:
        """Return the disposition and its parameters, read once."""
        if self._disposition is None:
            value = self.first("content-disposition")
            self._disposition = headers.parameters(value, self.budget)
        return self._disposition

    @property
    def disposition(self) -> str:
        """Declared disposition, or ""."""
        return self._content_disposition()[0]

    @property
    def filename(self) -> str:
        """File name of the part, or ""."""
        name = self._content_disposition()[1].get("filename", "")
        return name or self.parameter("name")

    @property
    def children(self) -> list[Node] | None:
        """The parts of a container, or None for a leaf."""
        return self.parts or None

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
    defects = budget.defects
    text = raw.decode("ascii", "surrogateescape")
    root, nodes = _feed(text, budget)
    if root.get_content_maintype() == "multipart" and not root.parts:
        found = _BOUNDARY_LINE.search(root.body)
        if found:
            # The boundary in use is not the declared one. Mail programs then show
            # nothing or everything; the parts are better evidence.
            again, more = _feed(_WRAPPER.format(found[1]) + root.body, budget)
            root.parts = again.parts
            nodes += more
    for node in nodes:
        for defect in node.defects:
            defects.add(_DEFECTS.get(type(defect).__name__, "mime-malformed"))
        if node.depth >= MAX_DEPTH:
            defects.add("too-deep")
        if len(node.fields) >= MAX_HEADERS:
            defects.add("too-many-headers")
    _move_text_to_body(root, text, defects)
    return root


def _feed(text: str, budget: Budget) -> tuple[Node, list[Node]]:
    """Return the root and all nodes below it."""
    left = dict(budget.left)
    nodes = well_formed(text, budget)
    if nodes is None:
        # Work done in vain is not charged twice.
        budget.left = left
        return nested(text, budget)
    return nodes[0], nodes


def nested(
    text: str, budget: Budget, kind: type[Node] = Node
) -> tuple[Node, list[Node]]:
    """Run the standard parser; return the root and all nodes it has built."""
    nodes: list[Node] = []

    def factory(*_: object, **__: object) -> Node:
        # One more than the limit, because the parser creates one to test the factory.
        if len(nodes) > MAX_PARTS:
            raise _TooManyPartsError
        nodes.append(kind(budget))
        return nodes[-1]

    parser: FeedParser[Node] = FeedParser(cast("Callable[[], Node]", factory))
    try:
        parser.feed(text)
        root = parser.close()
    except _TooManyPartsError:
        budget.defects.add("too-many-parts")
        root = nodes[1]
    return root, nodes


def well_formed(text: str, budget: Budget) -> list[Node] | None:
    """Return the nodes of a well-formed message, the root first.

    Return None for other messages and for messages with attached ones, which `nested`
    handles: the standard parser works line by line and takes four times as long.  If
    both can read a message, the result is the same
    (`test_the_short_way_reads_what_the_standard_parser_reads`).
    """
    nodes: list[Node] = []
    return nodes if _is_well_formed(text, budget, 0, nodes) else None


def _is_well_formed(text: str, budget: Budget, depth: int, nodes: list[Node]) -> bool:
    """Return whether a message or part is well-formed, and add its nodes."""
    root = Node(budget)
    root.depth = depth
    nodes.append(root)
    if text.startswith("\n"):
        body = text[1:]
    else:
        head, blank, body = text.partition("\n\n")
        fields = _FIELD.findall(head + "\n")
        # A line that is not a field was skipped, and its characters are missing here.
        read = sum(map(len, chain.from_iterable(fields))) + 2 * len(fields)
        if not blank or read != len(head) + 1:
            return False
        root.fields = [
            (name.lower(), value.lstrip(_BLANK)) for name, value in fields[:MAX_HEADERS]
        ]
    media_type = root.get_content_type()
    if media_type.startswith("multipart/"):
        return _are_well_formed(body, root, nodes)
    root.set_payload(body)
    return not media_type.startswith("message/")


def _are_well_formed(body: str, root: Node, nodes: list[Node]) -> bool:
    """Return whether the parts of a multipart are well-formed, and add their nodes."""
    boundary = root.get_boundary()
    odd = root.get_content_type() == "multipart/digest" or root.depth == _SHORT_DEPTH
    encoding = root.first("content-transfer-encoding").lower()
    if odd or not boundary or encoding not in _UNENCODED:
        return False
    _, *pieces = ("\n" + body).split("\n--" + boundary, MAX_PARTS)
    if pieces and pieces[-1].partition("\n")[0].rstrip(" \t") == "--":
        pieces.pop()
    elif len(pieces) < MAX_PARTS:
        return False
    for piece in pieces:
        rest, newline, content = piece.partition("\n")
        if not newline or rest.strip(" \t"):
            return False
        if len(nodes) == MAX_PARTS:
            # The standard parser stops here as well.
            root.budget.defects.add("too-many-parts")
            return True
        at = len(nodes)
        if not _is_well_formed(content + "\n", root.budget, root.depth + 1, nodes):
            return False
        root.parts.append(nodes[at])
    return bool(pieces)


def _move_text_to_body(root: Node, text: str, defects: set[str]) -> None:
    """Remove text that looks like a header from the header."""
    if not any(headers.is_known(name) for name, _ in root.fields):
        if root.fields:
            defects.add("header-unknown")
        root.fields = []
        root.body = text
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
