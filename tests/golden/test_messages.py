"""Messages written for the purpose, and what is to be read from each.

``messages/NAME.eml`` is a message as it arrives, ``messages/NAME.txt`` what
parse and extract make of it. After a change that is meant, write the latter
anew and read the difference::

    POSTBAYES_GOLDEN=write pytest tests/golden/test_messages.py && git diff
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from app.features.extract import FEATURE_SET, extract
from app.mail.parse import parse

FOLDER = Path(__file__).parent / "messages"
NAMES = sorted(path.stem for path in FOLDER.glob("*.eml"))


def described(raw: bytes) -> str:
    """Return what is read from a message, one thing a line."""
    message = parse(raw)
    observation = extract(message)
    lines = [f"feature set {FEATURE_SET}", f"digest {observation.id}"]
    lines += [f"defect {defect}" for defect in message.defects]
    lines += [f"header {header.name}: {header.value}" for header in message.headers]
    lines += [f"container {container}" for container in message.containers]
    lines += [
        f"part {part.media_type} {part.charset or '-'} {part.encoding or '-'} {part.disposition or '-'}"
        f" {part.filename or '-'} {part.size} bytes, depth {part.depth}"
        for part in message.parts
    ]
    lines += [
        f"text {text.place}: {' '.join(text.content.split())}" for text in message.texts
    ]
    lines += [
        f"link {link.element} {link.url} | {link.text}".rstrip(" |")
        for link in message.links
    ]
    for view, names in observation.names.items():
        values = observation.views[view].counts.tolist()
        lines += [
            f"{view} {name} {value}"
            for name, value in sorted(zip(names, values, strict=True))
        ]
    return "\n".join(lines).replace("\0", "\\0") + "\n"


def test_there_are_golden_messages():
    """An empty folder must not pass for a success."""
    assert len(NAMES) >= 40


@pytest.mark.parametrize("name", NAMES)
def test_a_golden_message_is_read_as_expected(name):
    """What a person has read and found right stays so."""
    expected = FOLDER / f"{name}.txt"
    found = described((FOLDER / f"{name}.eml").read_bytes())
    if os.environ.get("POSTBAYES_GOLDEN") == "write":
        expected.write_text(found, encoding="utf-8")

    assert expected.read_text(encoding="utf-8") == found
