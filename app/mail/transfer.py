"""Transfer encodings: base64, quoted-printable and uuencode, decoded leniently.

Contract of this file: any bytes in, bytes out, and no exception.
"""

from __future__ import annotations

import re
from binascii import Error, a2b_base64, a2b_qp, a2b_uu
from typing import Final

from app.mail.limits import MAX_UUENCODED

_NOT_BASE64: Final = bytes(
    set(range(256))
    - set(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=")
)
_BLANKS: Final = b" \t\r\n"
_PADDING: Final = re.compile(rb"=+")
# Most pieces of base64 that are decoded; the last one ends at its first padding.
_MAX_PIECES: Final = 1_000
_UU_BEGIN: Final = re.compile(rb"^begin [0-7]{3,4} [^\n]*$", re.MULTILINE)
_BARE_EQUALS: Final = re.compile(rb"=(?![0-9A-Fa-f]{2}|[ \t]*\n|\Z)")
# One uuencoded line holds at most 45 bytes: a length byte and 60 characters;
# some encoders add a checksum.
_UU_LINE: Final = 62
IDENTITY: Final = frozenset({"", "7bit", "8bit", "binary"})


def decode(content: bytes, encoding: str) -> tuple[bytes, str]:
    r"""Undo a transfer encoding.

    Parameters
    ----------
    content : bytes
        The body of a part, line ends LF.
    encoding : str
        Content-Transfer-Encoding, lower case.

    Returns
    -------
    content : bytes
        The decoded content.
    defect : str
        The defect, or "".

    Examples
    --------
    >>> decode(b"SGVsbG8", "base64")
    (b'Hello', 'base64-broken')
    >>> decode(b"caf=C3=A9=\n!", "quoted-printable")
    (b'caf\xc3\xa9!', '')
    """
    if encoding in IDENTITY:
        return content, ""
    if encoding == "quoted-printable":
        broken = _BARE_EQUALS.search(content) is not None
        return a2b_qp(content), "quoted-printable-broken" if broken else ""
    if encoding == "base64":
        return _base64(content)
    if encoding in {"x-uuencode", "uuencode", "uue", "x-uue"}:
        return _uuencode(content)
    return content, "transfer-encoding-unknown"


def _base64(content: bytes) -> tuple[bytes, str]:
    """Decode base64 that may have garbage, inner padding, or no end."""
    try:
        return a2b_base64(content.translate(None, _BLANKS), strict_mode=True), ""
    except Error:
        pass
    # a2b_base64 stops at the first padding, but mail programs read on: a list server's
    # footer or hidden evidence may follow.
    clean = content.translate(None, _NOT_BASE64)
    *pieces, rest = _PADDING.split(clean, _MAX_PIECES)
    pieces.append(rest.partition(b"=")[0])
    return b"".join(map(_unpadded, pieces)), "base64-broken"


def _unpadded(piece: bytes) -> bytes:
    """Decode base64 without padding; a single last letter is ignored."""
    whole = piece if len(piece) % 4 != 1 else piece[:-1]
    return a2b_base64(whole + b"=" * (-len(whole) % 4))


def _uuencode(content: bytes) -> tuple[bytes, str]:
    """Decode the lines between begin and end."""
    begin = _UU_BEGIN.search(content)
    if begin is None:
        return content, "uuencode-broken"
    pieces = []
    defect = ""
    for line in content[begin.end() + 1 :].split(b"\n"):
        if line.strip() in {b"end", b"`", b""}:
            break
        try:
            pieces.append(a2b_uu(line[:_UU_LINE]))
        except Error:
            defect = "uuencode-broken"
    return b"".join(pieces), defect


# A file inside a text, as in mail before MIME. The first character of a line gives its
# length, and "M" is that of a full line.
_UU_BLOCK: Final = re.compile(
    rb"^begin [0-7]{3,4} ([^\n]{1,255})\n"
    rb"((?:[!-`][ -`]{1,85}\n)++)(?:[ `]?\n)?(end\n?)?",
    re.MULTILINE,
)


def without_uuencoded(content: bytes) -> tuple[bytes, list[tuple[str, bytes]], str]:
    r"""Take the uuencoded files out of a text.

    Returns
    -------
    content : bytes
        The text without them.
    files : list of (str, bytes)
        Name, with bytes above 127 as surrogate escapes, and content of each.
    defect : str
        The defect, or "".

    Examples
    --------
    >>> mail = b"See:\nbegin 644 a.txt\n#0V%T\n`\nend\nBye\n"
    >>> text, files, _ = without_uuencoded(mail)
    >>> text, files
    (b'See:\nBye\n', [('a.txt', b'Cat')])
    """
    found: list[tuple[str, bytes]] = []
    defect = ""

    def take(block: re.Match[bytes]) -> bytes:
        nonlocal defect
        file, broken = _uuencode(block[0])
        if broken or not block[3]:
            defect = "uuencode-broken"
        found.append((block[1].decode("ascii", "surrogateescape"), file))
        return b""

    content = _UU_BLOCK.sub(take, content, count=MAX_UUENCODED)
    return content, found, defect
