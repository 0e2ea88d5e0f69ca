"""Encodings: transfer encodings and character sets, decoded leniently; text as a line.

Contract of this file: any bytes in, bytes or text out, and no exception.
"""

from __future__ import annotations

import codecs
import re
from binascii import Error, a2b_base64, a2b_qp, a2b_uu
from encodings import normalize_encoding
from encodings.aliases import aliases
from functools import lru_cache
from typing import Final

import cchardet
import numpy as np

from app.mail.limits import MAX_DETECTION_BYTES, MAX_TEXT_CHARS, MAX_UUENCODED, Budget

# Mail that declares the left name often contains characters of the right one, a
# superset: WHATWG Encoding Standard, section 4.2, if Python has the codec.
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
    "iso2022_jp": "iso2022_jp_ext",
}
# Not in the table below: no text (base64 ...), or no charset of mail because they
# are quadratic (idna, punycode), warn (the escapes) or depend on the machine; and
# EBCDIC (cp037 ...), under whose names mail programs show ASCII as it is.
REFUSED: Final = frozenset(
    {
        "base64_codec", "bz2_codec", "hex_codec", "quopri_codec", "rot_13", "uu_codec",
        "zlib_codec", "idna", "punycode", "unicode_escape", "raw_unicode_escape",
        "mbcs", "oem", "undefined",
        "cp037", "cp1026", "cp1140", "cp273", "cp424", "cp500", "cp875",
    }
)  # fmt: skip
# Codecs of the standard library that no alias names.
_UNALIASED: Final = (
    "cp1006", "cp720", "cp737", "cp856", "cp874", "iso8859_1", "koi8_t", "koi8_u",
    "mac_arabic", "mac_croatian", "mac_farsi", "mac_romanian", "palmos",
    "utf_8_sig",
)  # fmt: skip
# Labels that Python does not know: WHATWG Encoding Standard, section 4.2.
_WHATWG: Final = {
    "unicode_1_1_utf_8": "utf_8", "unicode11utf8": "utf_8", "x_unicode20utf8": "utf_8",
    "dos_874": "cp874", "windows_874": "cp874",
    "iso_8859_8_e": "iso8859_8", "logical": "iso8859_8",
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
"""The known labels, in the notation of `encodings.normalize_encoding`."""
# In these, bytes below 128 are not ASCII.
_STATEFUL: Final = ("utf-7", "utf-16", "utf-32", "iso2022", "hz")
# In these, a character is two bytes.
_BY_PAIRS: Final = frozenset({"gb18030", "big5hkscs", "cp949", "cp932", "euc_jp"})
# What the detector is believed about. It finds others too, such as those of DOS and the
# Macintosh, but in short texts in Latin-1 and not in mail (experiment 0120).
_DETECTED: Final = frozenset(
    {
        *_BY_PAIRS,
        *("utf-8", "cp866", "cp874", "koi8-r"),
        *(f"cp125{n}" for n in range(9)),
        *(f"iso8859-{n}" for n in (2, 4, 5, 6, 7, 8, 13, 16)),
    }
)
_MIN_CONFIDENCE: Final = 0.6
_LAST: Final = SUPERSETS["iso8859-1"]
_ASCII: Final = bytes(range(128))
_UNDECLARED: Final = frozenset({"", "us-ascii", "ascii"})
_META_BYTES: Final = 1_024
_META: Final = re.compile(
    rb"<meta[\s/][^>]{0,200}?charset\s{0,9}=[\s\"']{0,9}([a-z\d._:-]{1,40})",
    re.IGNORECASE,
)
ESCAPE: Final = "\x1b$"
"""The beginning of Japanese text in ISO-2022-JP, often undeclared in headers."""


@lru_cache(maxsize=256)
def codec_name(charset: str) -> str:
    """Return Python's codec for a charset as mail names it, or "".

    Examples
    --------
    >>> codec_name("iso-8859-1"), codec_name("GB2312"), codec_name("rot13")
    ('cp1252', 'gb18030', '')
    """
    # A table, because codecs.lookup stores every unknown label as long as the process
    # lives.
    label = normalize_encoding(charset.strip("\"' \t").lower()) if charset else ""
    codec = _CODECS.get(label) or _CODECS.get(label.replace(".", "_"), "")
    name = codecs.lookup(codec).name if codec else ""
    return SUPERSETS.get(name, name)


def decode_text(
    content: bytes, charset: str, budget: Budget | None = None
) -> tuple[str, bool]:
    """Decode bytes: declared, then UTF-8, then detected, then Windows-1252.

    Parameters
    ----------
    charset : str
        The declared charset, or "" if none is.

    Returns
    -------
    text : str
        The characters.
    as_declared : bool
        Whether the declared charset (ASCII, if none is) fits the bytes.

    Examples
    --------
    >>> decode_text("Grüße".encode(), "us-ascii")
    ('Grüße', False)
    >>> decode_text("Grüße".encode("latin-1"), "iso-8859-1")
    ('Grüße', True)
    """
    declared = codec_name(charset) if charset else ""
    if content.isascii() and not declared.startswith(_STATEFUL):
        if ESCAPE.encode() in content:
            text = _strict(content, SUPERSETS["iso2022_jp"])
            if text is not None:
                return text, False
        return content.decode("ascii"), bool(declared) or not charset
    # Declared ASCII with bytes above 127 is not believed.
    if declared and charset.lower() not in _UNDECLARED:
        text = _strict(content, declared)
        if text is not None:
            return text, True
    text = _strict(content, "utf-8")
    if text is not None:
        return text, declared == "utf-8"
    return _repaired(content, declared) or _guess(content, budget or Budget()), False


def charset_of_page(content: bytes, declared: str) -> str:
    """Return the declared charset of HTML, or that which it names itself.

    Only where none or ASCII is declared, and it is neither that nor UTF-8; the element
    is looked for where browsers do (HTML standard, 13.2.3.2).

    Examples
    --------
    >>> page = "<meta charset=koi8-r>\u0441\u043f\u0430\u043c".encode("koi8-r")
    >>> charset_of_page(page, "us-ascii"), charset_of_page(page, "cp1251")
    ('koi8-r', 'cp1251')
    """
    if declared.lower() not in _UNDECLARED or _strict(content, "utf-8") is not None:
        return declared
    found = _META.search(content[:_META_BYTES])
    codec = codec_name(found[1].decode()) if found else ""
    # Not such as UTF-16, in which it could not be read.
    return declared if codec.startswith(_STATEFUL) else codec or declared


def _strict(content: bytes, codec: str) -> str | None:
    """Decode, or return None if the bytes do not fit."""
    try:
        text = content.decode(codec, "windows" if "jp" in codec else "strict")
    # Some codecs raise a base class of UnicodeDecodeError. A codec may raise any
    # ValueError (Python's documentation of codecs, "Error Handlers").
    except ValueError:
        return None
    # UTF-7 yields lone surrogates, which no other codec can encode again.
    if codec == "utf-7":
        text = text.encode("utf-8", "replace").decode()
    return text


# Each pair takes 1 us, and each replaced byte 0.3.  No text that is kept is longer, but
# for pages in HTML.
_MOST_BYTES: Final = 2 * MAX_TEXT_CHARS + 3
_PAIR: Final = re.compile(rb"[!-~]{2}|[\xa1-\xfe]{2}")


def _of_windows(error: UnicodeError) -> tuple[str, int]:
    """Decode two bytes that are no character of JIS X 0208 but one of Windows."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    end = error.start + 2
    if error.start > _MOST_BYTES:
        return "", len(error.object)
    pair = error.object[error.start : end]
    if not _PAIR.fullmatch(pair):
        raise error
    # Two rows of 94 characters are one of 188 in Shift_JIS.
    row, cell = (pair[0] & 127) - 33, (pair[1] & 127) - 33
    first = 129 + row // 2 + 64 * (row > 61)  # noqa: PLR2004
    second = cell + (159 if row % 2 else 64 + (cell > 62))  # noqa: PLR2004
    return bytes([first, second]).decode("cp932"), end


# Mail programs of Windows write "①", "㈱" and "髙" in these charsets, which do not have
# them: the Encoding Standard's index jis0208 does.
codecs.register_error("windows", _of_windows)


def _repaired(content: bytes, declared: str) -> str:
    """Decode bytes of which some are missing or too many, or return "".

    Subjects are cut in a character, and the detector knows too little of them.  Text in
    another charset than the declared one loses most of its characters.
    """
    text = _replaced(content, declared) if declared in _BY_PAIRS else ""
    lost, beyond = text.count("\ufffd"), len(content.translate(None, _ASCII))
    return text if 3 * lost <= beyond else ""


def _replaced(content: bytes, codec: str) -> str:
    """Decode with U+FFFD for all that is no character."""
    return content[: _MOST_BYTES if codec in _BY_PAIRS else None].decode(
        codec, "replace"
    )


def _guess(content: bytes, budget: Budget) -> str:
    """Decode with the detected character set, or with the last one."""
    codec = _LAST
    if budget.allows("detections", 1):
        found = cchardet.detect(content[:MAX_DETECTION_BYTES])
        name = codec_name(found["encoding"] or "")
        if name in _DETECTED and (found["confidence"] or 0) >= _MIN_CONFIDENCE:
            codec = name
    text = _strict(content, codec)
    return _replaced(content, codec) if text is None else text


_ALPHABET: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_NOT_BASE64: Final = bytes(set(range(256)) - {*_ALPHABET, *b"="})
_BLANKS: Final = b" \t\r\n"
# The bits of each letter of base64 (RFC 4648, table 1).
_BITS: Final = np.zeros(256, np.uint16)
_BITS[[*_ALPHABET]] = range(64)
_UU_BEGIN: Final = re.compile(rb"^begin [0-7]{3,4} [^\n]*$", re.MULTILINE)
_BARE_EQUALS: Final = re.compile(rb"=(?![0-9A-Fa-f]{2}|[ \t]*\n|\Z)")
# RFC 2045 section 6.7, rule 3: blanks at the end of a line are no part of it. The
# decoder of the library leaves such a line break inside a word.
_SOFT_BREAK: Final = re.compile(rb"=[ \t]++\n")
# One uuencoded line holds at most 45 bytes: a length byte and 60 characters;
# some encoders add a checksum.
_UU_LINE: Final = 62
IDENTITY: Final = frozenset({"", "7bit", "8bit", "binary"})


def decode_transfer(content: bytes, encoding: str) -> tuple[bytes, str]:
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
    >>> decode_transfer(b"SGVsbG8", "base64")
    (b'Hello', 'base64-broken')
    >>> decode_transfer(b"caf=C3=A9=\n!", "quoted-printable")
    (b'caf\xc3\xa9!', '')
    """
    if encoding in IDENTITY:
        return content, ""
    if encoding == "quoted-printable":
        broken = _BARE_EQUALS.search(content) is not None
        if b"= " in content or b"=\t" in content:
            content = _SOFT_BREAK.sub(b"=\n", content)
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
    clean = np.frombuffer(content.translate(None, _NOT_BASE64), np.uint8)
    letter = clean != ord("=")
    bits = _BITS[clean[letter]]
    # The place of each letter behind the last padding, of four.
    ends = np.cumsum(letter, dtype=np.int32)[~letter]
    first = np.zeros(bits.size + 1, np.int32)
    first[ends] = ends
    order = np.arange(bits.size, dtype=np.int32)
    shift = 2 * ((order - np.maximum.accumulate(first[:-1])) % 4).astype(np.uint8)
    # A letter completes the byte that the one before it begins.
    whole = np.append(np.uint16(0), bits[:-1]) << shift | bits >> 6 - shift
    return whole[shift > 0].astype(np.uint8).tobytes(), "base64-broken"


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


# The elements of DER before the content of a signed message (RFC 5652, 3 and 5.1): its
# type, the signed data, their version and algorithms, and the type of the content.
_TO_CONTENT: Final = b"\x30\x06\xa0\x30\x02\x31\x30\x06\xa0"
_ENTERED: Final = frozenset(b"\x30\xa0")
_OCTETS, _OF_OCTETS, _END_OF_OCTETS = 0x04, 0x24, 0x00
_SHORT: Final = 0x80


def signed_content(message: bytes) -> bytes:
    r"""Return the content of an opaque-signed message (RFC 8551, 3.5.2), or nothing.

    Examples
    --------
    >>> head = b"0%\x06\x09*\x86H\x86\xf7\r\x01\x07\x02\xa0\x180\x16\x02\x01\x011\x00"
    >>> data = b"0\x0f\x06\x09*\x86H\x86\xf7\r\x01\x07\x01\xa0\x02\x04\x02hi"
    >>> signed_content(head + data)
    b'hi'
    """
    at, found = 0, []
    for expected in _TO_CONTENT:
        tag, start, end = _element(message, at)
        if tag != expected:
            return b""
        at = start if tag in _ENTERED else end
    # Many programs write it in pieces.
    while True:
        tag, start, end = _element(message, at)
        if tag == _OCTETS:
            found.append(message[start:end])
            at = end
        elif tag in {_OF_OCTETS, _END_OF_OCTETS}:
            at = start
        else:
            return b"".join(found)


def _element(content: bytes, at: int) -> tuple[int, int, int]:
    """Return the tag of an element of DER or BER, and where its content is."""
    if at + 2 > len(content):
        return -1, at, at
    tag, size = content[at], content[at + 1]
    at += 2
    if size >= _SHORT:
        # As of none, if it is indefinite: what matters is its beginning.
        start = at + size - _SHORT
        size = int.from_bytes(content[at:start])
        at = start
    return tag, at, at + size


# A file inside a text, as in mail before MIME.
_UU_BLOCK: Final = re.compile(
    rb"^begin [0-7]{3,4} ([^\n]{1,255})\n"
    rb"((?>(?:[!-`][ -`]{1,85}\n)+))(?:[ `]?\n)?(end\n?)?",
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
        if not all(map(_fits, block[2].splitlines())):
            return block[0]
        file, broken = _uuencode(block[0])
        if broken or not block[3]:
            defect = "uuencode-broken"
        found.append((block[1].decode("ascii", "surrogateescape"), file))
        return b""

    content = _UU_BLOCK.sub(take, content, count=MAX_UUENCODED)
    return content, found, defect


def _fits(line: bytes) -> bool:
    """Return whether a line is as long as its first character says.

    In any other lines people read text, such as "BUY NOW".
    """
    # With the checksum of some encoders.
    return len(line) - 1 + -((line[0] - 32) % 64) // 3 * 4 in {0, 1}


MAX_FIELD: Final = 200
"""Most characters of a field as a line; the longest kept Message-ID has 190."""


def shown(text: str, most: int = MAX_FIELD) -> str:
    r"""Return a text as one line of a bounded length.

    Examples
    --------
    >>> shown("grüße"), shown("a\nb\x1b[2J"), shown("x" * 9, 4)
    ('grüße', 'a\\nb\\x1b[2J', 'xxxx…')
    """
    if len(text) > most:
        text = text[:most] + "…"
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode() for c in text
    )
