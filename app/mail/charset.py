"""Which characters do these bytes stand for?"""

from __future__ import annotations

import codecs
from functools import lru_cache
from typing import Final

import cchardet

from app.mail.limits import MAX_DETECTION_BYTES

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

# Codecs that bytes.decode() takes and that no mail means: they are quadratic
# (idna, punycode), warn (the escapes), or depend on the machine (mbcs, oem).
REFUSED: Final = frozenset(
    {"idna", "punycode", "unicode-escape", "raw-unicode-escape", "mbcs", "oem"}
)

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
    try:
        info = codecs.lookup(charset.strip("\"' \t"))
    # ValueError: a NUL in the name. UnicodeError is one too: a name that is
    # not ASCII.
    except (LookupError, ValueError):
        return ""
    name = info.name
    # No public way to ask this; bytes.decode() itself looks at this attribute.
    if not getattr(info, "_is_text_encoding", True) or name in REFUSED:
        return ""
    return SUPERSETS.get(name, name)


def decode(content: bytes, charset: str) -> tuple[str, bool]:
    """Decode bytes: declared, then UTF-8, then detected, then Latin-1.

    Parameters
    ----------
    content : bytes
        Any bytes.
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
    return _guess(content), False


def _strict(content: bytes, codec: str) -> str | None:
    """Decode, or return None where the bytes do not fit."""
    try:
        text = content.decode(codec)
    # Not only UnicodeDecodeError: some codecs raise its base class.
    except UnicodeError:
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
