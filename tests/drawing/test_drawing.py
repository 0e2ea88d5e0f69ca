"""Drawing: well-formed, escaped, within its frame."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from app.drawing import WIDTH, Axis, Linear, Plot, addressed, legend, table

PLOT = Plot(
    x=Axis(Linear(0, 10), "a < b"),
    y=Axis(Linear(0, 5), '"share" & more'),
)
points = st.lists(st.none() | st.tuples(st.floats(-20, 20), st.floats(-9, 9)))


@given(points)
def test_a_line_stays_within_its_frame_and_lifts_the_pen(points):
    """Values beyond the axes lie at their ends."""
    path = ET.fromstring(PLOT.line(points, class_="s0")).get("d", "")  # noqa: S314
    numbers = [float(n) for n in re.findall(r"[-\d.]+", path)]

    assert all(0 <= x <= WIDTH for x in numbers[::2])
    assert all(0 <= y <= PLOT.height for y in numbers[1::2])
    assert path.count("M") == sum(
        point is not None and (not at or points[at - 1] is None)
        for at, point in enumerate(points)
    )


def test_steps_go_across_then_up():
    """A rate changes at a message, not between two."""
    assert PLOT.line([(0, 1), (5, 1), (5, 2)], class_="x") == PLOT.steps(
        [(0, 1), (5, 2)], class_="x"
    )


def test_a_picture_has_its_name_and_what_it_shows_in_words():
    """For who cannot see it; and whatever is said is escaped."""
    drawing = ET.fromstring(  # noqa: S314
        PLOT.drawn(
            PLOT.bar(1, 2, 3, class_="ham"),
            PLOT.dot(1, 2, class_="s0", says="<&>"),
            PLOT.upright(4, 0, 5, class_="t"),
            PLOT.note(4, "here", side="left"),
            PLOT.note(4, "there", side="right"),
            title="Title & more",
        )
    )

    assert "img" == drawing.get("role")
    assert "Title & more" == drawing.findtext("title")
    assert '"share" & more against a < b' == drawing.findtext("desc")
    assert {"a < b", '"share" & more', "here", "there"} <= set(drawing.itertext())


def test_what_hides_or_reverses_text_is_not_written():
    """A cell of a table may have an escape sequence, a lone surrogate or an override."""
    shown = table("a\x1b[31mb", ["c\u202ed"], [["e\xa0f\ud800"]])

    assert {"a\ufffd[31mb", "c\ufffdd", "e f\ufffd"} <= set(re.findall("[^<>]+", shown))
    assert shown.isprintable()


def test_one_line_needs_no_legend():
    """Its heading says what it is."""
    assert "" == legend([("only", "s0")])
    assert "a&amp;b" in legend([("a&b", "s0"), ("c", "s1")])


def test_positions_are_short_and_texts_are_escaped():
    """A tenth of a pixel is not seen; a word of a mail is no markup."""
    dot = '<circle cx="58" cy="260.4" r="4" class="dot x"><title>&lt;b&gt;</title></circle>'

    assert dot == PLOT.dot(0.0, 0.6, class_="x", says="<b>")


def test_addresses_stand_apart_from_names():
    """A browser would mix an address with a name that is read from right to left."""
    line = "أحمد <a@example.org>, <script>@ \u202e<b@example.org>"

    assert (
        'أحمد <bdi dir="ltr">&lt;a@example.org&gt;</bdi>, &lt;script&gt;@ '
        '\ufffd<bdi dir="ltr">&lt;b@example.org&gt;</bdi>'
    ) == addressed(line)
