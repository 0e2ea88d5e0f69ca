"""The page of a word: its counts, its months as a picture, and nothing that acts."""

from __future__ import annotations

import re

import pytest

from app.doors.documents.figures import VerdictsOut
from app.doors.http.page.overview import drawn, verdicts_figure
from app.drawing import Months
from app.services.inspection import WordInView
from app.storage.database.engine import writing
from app.storage.runs import EpochCount
from tests.support.application import served, teach
from tests.support.builders import fold
from tests.support.messages import ham, spam

HOSTILE = "<script>alert(1)</script>\"'\u202e{{7*7}}"


@pytest.fixture
def client(tmp_path):
    """A client of a service with nine messages, all folded."""
    with served(tmp_path) as client:
        app = client.app.state.application
        for n in range(6):
            teach(app, spam(n), "spam")
        for n in range(3):
            teach(app, ham(n), "ham")
        with writing(app.engine) as connection:
            fold(connection, app.live.get("default").row, limit=100)
        yield client


def counted(epoch, label, messages, learned):
    """Return the counts of a word in one month."""
    return EpochCount(
        epoch=epoch,
        label=label,
        occurrences=messages,
        messages=messages,
        learned=learned,
    )


def test_a_word_is_shown_with_its_counts_and_its_picture(client):
    """The page has the numbers of the JSON, and the word as typed."""
    twin = client.get("/words/free").json()["views"]["words"]
    text = client.get("/ui/words", params={"word": " Free "}).text

    assert f"of {twin['learned']['spam']} messages" in text
    assert '<figure class="narrow"><svg' in text
    assert f"{twin['log_odds']:+.3f}" in text
    assert "In words" in text


def test_a_word_that_nobody_taught_is_said_to_be_unknown(client):
    """No diagram is drawn."""
    text = client.get("/ui/words", params={"word": "unheard"}).text

    assert "Never learned" in text
    assert "<figure" not in text


def test_a_word_without_blanks_is_shown_by_its_parts(client):
    """Each part that was learned leads to its own page."""
    app = client.app.state.application
    teach(app, "Subject: x\n\n代开 发票\n".encode(), "spam")
    text = client.get("/ui/words", params={"word": "代开发票"}).text

    assert "does not read this as one word" in text
    assert re.search(r'href="/ui/words\?[^"]*%E4%BB%A3%E5%BC%80"><bdi>代开</bdi>', text)
    assert "<bdi>开发</bdi></th>" in text


@pytest.mark.parametrize("word", [HOSTILE, "a\0b", "x y z", "\ud83d", " "])
def test_what_is_asked_is_text(client, word):
    """The word is escaped in the title, the form and the diagram."""
    answer = client.get(
        "/ui/words", params={"word": word.encode("utf-8", "surrogatepass")}
    )

    assert 200 == answer.status_code
    assert "<script>" not in answer.text
    assert "\u202e" not in answer.text
    assert "\0" not in answer.text


def test_a_picture_escapes_its_title_and_its_labels():
    """Any label and any word is escaped."""
    found = WordInView(
        learned={"<b>": 4, "ham": 3},
        messages={},
        occurrences={},
        log_odds=0.0,
        epochs=(counted(202511, "<b>", 1, 2), counted(202602, "ham", 3, 3)),
    )
    markup = str(drawn(found, title=HOSTILE.replace("\u202e", "")))

    assert "&lt;script&gt;alert(1)" in markup
    assert "<script>" not in markup
    assert "<b>" not in markup


def test_months_without_mail_break_the_line():
    """Three months with mail, one gap: two strokes, and a dot for each month."""
    found = WordInView(
        learned={"spam": 9},
        messages={},
        occurrences={},
        log_odds=0.0,
        epochs=tuple(counted(m, "spam", 1, 2) for m in (202511, 202512, 202602)),
    )
    markup = drawn(found, title="x")
    path = re.search(r'<path d="([^"]*)" class="line spam"', markup)[1]

    assert (2, 1) == (path.count("M"), path.count("L"))
    assert 3 == markup.count('class="dot spam"><title>spam, 20')


def test_a_word_without_months_has_no_picture():
    """The months appear once they are folded."""
    found = WordInView(learned={"spam": 9}, messages={}, occurrences={}, log_odds=0.0)

    assert "" == drawn(found, title="x")


def test_many_months_have_few_ticks():
    """In the end, only whole years have ticks."""
    assert ["2024-01", "2025-01", "2026-01"] == [
        text for _, text in Months(2023 * 12 + 5, 2026 * 12 + 6).ticks()
    ]
    assert 8 > len(Months(1990 * 12, 2026 * 12).ticks()) > 3


def test_the_axis_of_few_verdicts_has_whole_numbers():
    """Nobody counts a fifth of a message."""
    one = VerdictsOut(begin="2026-11-26T15:00:00Z", spam=1, unsure=0, ham=0)
    text = verdicts_figure([one], 3_600, 7.0).partition("<details>")[0]

    assert ">5</text>" in text
    assert not re.search(r">\d+\.\d+</text>", text)
