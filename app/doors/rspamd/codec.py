"""Codec of rspamd's protocol: parsed requests, encoded answers, and zstd.

The protocol is HTTP: path and headers describe the request, and the body is the message
(docs/protocols/rspamd.md).

Contract of this file: any request becomes an `Ask` or a `Refusal`, and an answer is
JSON that rspamc, Haraka and others accept as rspamd's.  Of a compressed message, only
the part that is parsed is decompressed, within the memory that `app.zstd.WINDOW_LOG`
allows.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Literal

from starlette.exceptions import HTTPException as Refusal
from starlette.responses import Response

from app.access.rights import Right
from app.mail.limits import MAX_BYTES
from app.services.recipients import MAX_RECIPIENTS
from app.zstd import BadFrame, decompressor, packer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Kind = Literal["scan", "learn", "ping", "stat", "metrics", "healthy", "ready"]
"""The kinds of requests."""
ZSTD: Final = "zstd"
_MESSAGE_ID: Final = re.compile(
    rb"^message-id[ \t]*:\s*<?([!-;=?-~]{1,500})", re.IGNORECASE | re.MULTILINE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A parsed request.

    Parameters
    ----------
    kind : str
        See `Kind`.
    right : Right or None
        The required right; None if everybody may.
    label : str
        For *learn*: the label of the message.
    sender : str
        Sender of the SMTP envelope; empty if not given.
    client : str
        Address of the client that sent the message; empty if not given.
    user : str
        The teacher, for the ledger.
    packed : bool
        Whether the message is compressed, according to the client.
    packs : bool
        Whether the client accepts a compressed answer.
    """

    kind: Kind
    right: Right | None
    label: str = ""
    recipients: tuple[str, ...] = ()
    sender: str = ""
    client: str = ""
    user: str = ""
    packed: bool = False
    packs: bool = False


# rspamd scans on its normal port and on the controller's; the paths before /checkv2 are
# for older clients.
PATHS: Final[Mapping[str, tuple[str, Kind, Right | None, str]]] = {
    **dict.fromkeys(
        ("/checkv2", "/check", "/scan", "/symbols"),
        ("POST", "scan", Right.CLASSIFY, ""),
    ),
    "/learnspam": ("POST", "learn", Right.TEACH, "spam"),
    "/learnham": ("POST", "learn", Right.TEACH, "ham"),
    "/learnclass": ("POST", "learn", Right.TEACH, ""),
    "/ping": ("GET", "ping", None, ""),
    "/stat": ("GET", "stat", Right.READ, ""),
    "/metrics": ("GET", "metrics", Right.READ, ""),
    "/healthy": ("GET", "healthy", None, ""),
    "/ready": ("GET", "ready", None, ""),
}
"""Method, kind, required right and label of a request, by its path."""


def read(method: str, path: str, headers: Sequence[tuple[bytes, bytes]]) -> Ask:
    """Return the kind and the fields of a request.

    Parameters
    ----------
    method, path : str
        From the request line; the path without its query.
    headers : sequence of (bytes, bytes)
        Names in lower case, and values, which are UTF-8 as addresses are (RFC 6532).

    Raises
    ------
    Refusal
        If there is no such path or method, or a header requests something unsupported.

    Examples
    --------
    >>> read("POST", "/checkv2", [(b"rcpt", b"<ann@example.org>")]).recipients
    ('<ann@example.org>',)
    """
    if path not in PATHS:
        raise Refusal(HTTPStatus.NOT_FOUND, "Not found")
    wanted, kind, right, label = PATHS[path]
    if method not in {wanted, "HEAD" if wanted == "GET" else wanted}:
        raise Refusal(HTTPStatus.METHOD_NOT_ALLOWED, f"{path} takes {wanted} requests")
    values: dict[str, list[str]] = {}
    for name, value in headers:
        text = value.decode("utf-8", "replace").strip()
        values.setdefault(name.decode("latin-1"), []).append(text)
    _check(values)

    def last(name: str) -> str:
        return values.get(name, [""])[-1]

    if path == "/learnclass":
        label = last("class").lower()
        if not label:
            sentence = "give the label of the message in the Class header"
            raise Refusal(HTTPStatus.BAD_REQUEST, sentence)
    deliver, user = last("deliver-to"), last("user")
    # The final recipient, if known, is the owner of the mail.  For commands of a
    # person, it is the user who logged in.
    recipients = [deliver] if deliver else [n for n in values.get("rcpt", ()) if n]
    if not recipients and user:
        recipients = [user]
    return Ask(
        kind=kind,
        right=right,
        label=label,
        recipients=tuple(recipients),
        sender=last("from"),
        client=last("ip"),
        user=user or deliver,
        packed=any(each.lower() == ZSTD for each in _packings(values)),
        packs=any(
            _wants_zstd(each) for name in _WISHES for each in values.get(name, ())
        ),
    )


def _check(values: Mapping[str, Sequence[str]]) -> None:
    """Raise Refusal if headers ask for something unsupported."""
    if any(each.lower() not in {"", "identity", ZSTD} for each in _packings(values)):
        sentence = "zstd is the only compression that is supported"
        raise Refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, sentence)
    if any(values.get("dictionary", ())):
        sentence = "dictionaries are not supported; compress without one"
        raise Refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, sentence)
    # A client must not make the service read files of this machine.
    if "file" in values or "shm" in values:
        sentence = "send the message in the body; File and Shm are not supported"
        raise Refusal(HTTPStatus.BAD_REQUEST, sentence)
    if len(values.get("rcpt", ())) > MAX_RECIPIENTS:
        raise Refusal(HTTPStatus.BAD_REQUEST, f"more than {MAX_RECIPIENTS} recipients")


_PACKINGS: Final = ("compression", "content-encoding")
_WISHES: Final = ("flags", "accept-encoding")
_NEVER: Final = re.compile(r"q=0(?:\.0*)?")


def _packings(values: Mapping[str, Sequence[str]]) -> list[str]:
    return [each for name in _PACKINGS for each in values.get(name, ())]


def _wants_zstd(listed: str) -> bool:
    """Return whether a list of flags or encodings contains zstd."""
    for item in listed.lower().split(","):
        name, _, weight = item.partition(";")
        if name.strip() == ZSTD:
            return _NEVER.fullmatch(weight.strip()) is None
    return False


def message_id(raw: bytes) -> str:
    r"""Return the Message-ID of a message in the form of rspamd's answers.

    Examples
    --------
    >>> message_id(b"Message-Id: <1@example.org>\n\n"), message_id(b"\nMessage-ID: 2")
    ('1@example.org', 'undef')
    """
    head = raw[:65_536].replace(b"\r\n", b"\n").partition(b"\n\n")[0]
    if raw.startswith((b"\n", b"\r\n")):
        return "undef"
    found = _MESSAGE_ID.search(head)
    return "undef" if found is None else found[1].decode("ascii")


def document(
    content: Mapping[str, object], status: HTTPStatus = HTTPStatus.OK
) -> Response:
    """Return an answer with a JSON document."""
    text = json.dumps(
        content, ensure_ascii=True, separators=(",", ":"), allow_nan=False
    )
    return Response(text, status, media_type="application/json")


def failure(status: HTTPStatus, sentence: str) -> Response:
    """Return an error for rspamd's clients: a document with only `error`."""
    return document({"error": sentence}, status)


SUCCESS: Final = document({"success": True})
PONG: Final = Response(b"pong\r\n", media_type="text/plain")
# The fastest level, as in rspamc, because an answer has only some 3 kB.
_packed: Final = packer(level=1)


def unpacked(packed: bytes, *, cut: bool) -> bytes:
    r"""Decompress a message, up to the part that is parsed.

    Parameters
    ----------
    packed : bytes
        One zstd frame.
    cut : bool
        Whether its end was left out because of its size.

    Raises
    ------
    Refusal
        If it is not a frame, ends early, is followed by more data, or needs more memory
        than `app.zstd.WINDOW_LOG` allows.

    Examples
    --------
    >>> unpacked(_packed(b"Subject: Lunch\n\n"), cut=False)
    b'Subject: Lunch\n\n'
    """
    inflater = decompressor()
    try:
        message = inflater.decompress(packed, max_length=MAX_BYTES + 1)
    except BadFrame as error:
        sentence = f"the message cannot be decompressed: {error}"
        raise Refusal(HTTPStatus.BAD_REQUEST, sentence) from error
    if inflater.unused_data:
        sentence = "there is data after the compressed message; send one zstd frame"
        raise Refusal(HTTPStatus.BAD_REQUEST, sentence)
    if not (inflater.eof or cut or len(message) > MAX_BYTES):
        raise Refusal(HTTPStatus.BAD_REQUEST, "the compressed message is incomplete")
    return message


def packed(answer: Response) -> Response:
    """Return an answer as one zstd frame, with the headers that announce it.

    rspamc reads the first header, and other clients read the second.
    """
    headers = {"Compression": ZSTD, "Content-Encoding": ZSTD}
    frame = _packed(bytes(answer.body))
    return Response(frame, answer.status_code, headers, answer.media_type)
