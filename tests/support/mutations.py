"""Mutations of whole messages: what a broken, cut or hostile sender makes of mail.

Each is drawn from a seeded generator, so that a seed and a number name a message
for ever.  `tests/mail/test_mutations.py` reads a few hundred, and
``scripts/fuzz mutations`` as many as are asked for.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from random import Random

_TESTS = Path(__file__).parent.parent

# Longer ones say nothing more, and take their time.
MAX_BYTES = 100_000

# What decoders look at, and readers of MIME.
_TOKENS = (
    b"=", b"==", b"=?", b"?=", b"=?utf-8?b?", b"=?x?q?", b"\n", b"\n\n", b"\r", b"\0",
    b"--", b";", b'"', b"\\", b"<", b">", b"<!--", b"&#", b"\xff\xfe", b"\xed\xa0\x80",
    b"begin 644 a\n", b"PK\x05\x06", b"charset=utf-7;", b"charset=utf-16;",
    b"Content-Transfer-Encoding: base64\n", b"Content-Type: message/rfc822\n\n",
    b"Content-Type: text/html; charset=hz\n", b"+2AA-", b"~{", b"\x1b$B",
)  # fmt: skip


def messages() -> list[bytes]:
    """Return the messages that mutations begin with, in one order."""
    folders = (_TESTS / "golden" / "messages", _TESTS / "vault" / "mail")
    return [
        path.read_bytes() for folder in folders for path in sorted(folder.glob("*.eml"))
    ]


def mutated(seeds: Sequence[bytes], random: Random) -> Iterator[bytes]:
    """Yield mutations without end, each of one to five steps from a message."""
    while True:
        raw = random.choice(seeds)
        for _ in range(random.randint(1, 5)):
            raw = random.choice(_STEPS)(raw, seeds, random)[:MAX_BYTES]
        yield raw


def _flip(raw: bytes, _: Sequence[bytes], random: Random) -> bytes:
    """Flip one bit of some bytes."""
    flipped = bytearray(raw)
    for _ in range(random.randint(1, 8)):
        if flipped:
            flipped[random.randrange(len(flipped))] ^= 1 << random.randrange(8)
    return bytes(flipped)


def _splice(raw: bytes, seeds: Sequence[bytes], random: Random) -> bytes:
    """Put the end of another message behind the beginning."""
    other = random.choice(seeds)
    return raw[: _place(raw, random)] + other[_place(other, random) :]


def _cut(raw: bytes, _: Sequence[bytes], random: Random) -> bytes:
    """Take a piece out of the middle."""
    begin, end = sorted((_place(raw, random), _place(raw, random)))
    return raw[:begin] + raw[end:]


def _repeat(raw: bytes, _: Sequence[bytes], random: Random) -> bytes:
    """Repeat a piece, a few times or very often."""
    begin, end = sorted((_place(raw, random), _place(raw, random)))
    return raw[:end] + raw[begin:end] * random.choice((1, 2, 30, 1_001)) + raw[end:]


def _repeat_line(raw: bytes, _: Sequence[bytes], random: Random) -> bytes:
    """Repeat a line where it stands."""
    lines = raw.splitlines(keepends=True) or [b""]
    at = random.randrange(len(lines))
    lines[at] *= random.choice((2, 3, 1_003))
    return b"".join(lines)


def _reorder(raw: bytes, _: Sequence[bytes], random: Random) -> bytes:
    """Let two lines change places, or all of them."""
    lines = raw.splitlines(keepends=True) or [b""]
    if random.random() < 0.2:
        random.shuffle(lines)
    a, b = random.randrange(len(lines)), random.randrange(len(lines))
    lines[a], lines[b] = lines[b], lines[a]
    return b"".join(lines)


def _duplicate_part(raw: bytes, _: Sequence[bytes], random: Random) -> bytes:
    """Repeat what stands between two lines that begin with two dashes."""
    pieces = raw.split(b"\n--")
    at = random.randrange(len(pieces))
    return b"\n--".join([*pieces[:at], *[pieces[at]] * 3, *pieces[at + 1 :]])


def _insert(raw: bytes, _: Sequence[bytes], random: Random) -> bytes:
    """Insert something that decoders look at, once or very often."""
    at = _place(raw, random)
    return raw[:at] + random.choice(_TOKENS) * random.choice((1, 2, 1_003)) + raw[at:]


def _place(raw: bytes, random: Random) -> int:
    return random.randint(0, len(raw))


_STEPS = (
    _flip,
    _splice,
    _cut,
    _repeat,
    _repeat_line,
    _reorder,
    _duplicate_part,
    _insert,
)
