"""The picture of the curves of several filters."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import numpy as np
import pytest

from app.figures import roc
from benchmarks.drawing import drawing

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def curves():
    """Two filters on three streams of 4,000 messages."""
    random = np.random.default_rng(1)
    gold = random.random(4000) < 0.5
    return {
        stream: {
            name: roc(random.normal(size=4000) + apart * gold, gold)
            for name, apart in (("good & new", 4.0), ("old", 1.0))
        }
        for stream in ("one", "two", "three")
    }


def test_each_stream_has_a_panel_with_a_line_for_each_filter(curves):
    """The picture is a well-formed file of its own."""
    root = ET.fromstring(drawing(curves))  # noqa: S314  it is our own
    panels = root.findall(f"{SVG}g")
    classes = [path.get("class") for path in panels[0].findall(f"{SVG}path")]

    assert 3 == len(panels)
    assert ["line s0", "line s1"] == classes
    assert ["one", "two", "three"] == [list(panel)[-1].text for panel in panels]
    assert ["good & new", "old"] == [text.text for text in root.findall(f"{SVG}text")]


def test_what_no_eye_can_tell_apart_is_left_out(curves):
    """Twelve thousand thresholds need fewer points."""
    assert len(drawing(curves)) < 60_000
