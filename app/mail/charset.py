"""Character sets: decoding of bytes with any declared charset."""

from __future__ import annotations

import codecs
from encodings import normalize_encoding
from encodings.aliases import aliases
from functools import lru_cache
from typing import Final

import cchardet

from app.mail.limits import MAX_DETECTION_BYTES, Budget

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
"""The known labels, in the notation of `encodings.normalize_encoding`."""
# The detector's confidence is 0.99 or more if it is right, and 0.25 to 0.75 if it has
# no evidence.
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
    # A table, because codecs.lookup stores every unknown label as long as the process
    # lives.
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
        Remaining work of the message; a full budget by default.

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
    """Decode, or return None if the bytes do not fit."""
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
    """Decode with the detected character set, or as Latin-1."""
    found = cchardet.detect(content[:MAX_DETECTION_BYTES])
    codec = codec_name(found["encoding"] or "")
    # The detector takes a single accented letter for UTF-8, which it cannot be.
    if not codec or (found["confidence"] or 0) < _MIN_CONFIDENCE:
        return content.decode("latin-1")
    return content.decode(codec, "replace")
