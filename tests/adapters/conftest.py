"""What the tests of several doors share."""

from __future__ import annotations

import pytest

from tests.messages import ham, spam


@pytest.fixture
def index(tmp_path):
    """A stream of twenty messages, in the order of their arrival."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    lines = []
    for n in range(10):
        for label, raw in (("ham", ham(n)), ("spam", spam(n))):
            (folder / f"{label}{n}").write_bytes(raw)
            lines.append(f"{label} {label}{n}\n")
    (folder / "index").write_text("".join(lines))
    return folder / "index"
