"""A typed word is the feature that explanations name."""

from __future__ import annotations

import pytest

from app.features.extract import MOST_PARTS, extract, meant, parts_of
from app.mail.parse import parse

MESSAGE = (
    b"Subject: cheap pills\nFrom: a@pills.example\n\nBuy cheap pills online today\n"
)


def test_every_name_of_a_word_or_pair_leads_to_its_id():
    """What extraction names and numbers, looking up numbers alike."""
    seen = extract(parse(MESSAGE), ("words", "headers", "pairs"))
    checked = 0
    for view in ("words", "headers", "pairs"):
        for name, number in zip(
            seen.names[view], seen.views[view].ids.tolist(), strict=True
        ):
            checked += 1
            assert number == meant(name)[view], name

    assert checked > 10


def test_a_word_is_meant_in_any_case():
    """People type it as they see it in the message."""
    assert meant("money") == meant("MONEY")
    assert meant("subject:выиграли приз") == meant("Subject:ВЫИГРАЛИ Приз")
    assert meant("grösser") == meant("GRÖẞER")


def test_three_words_are_no_feature():
    """Nothing is made of what no view could hold."""
    assert {} == meant("buy cheap pills")


@pytest.mark.parametrize(
    "word", ["代开发票", "無料プレゼント", "สวัสดีครับ", "iPhone手机壳"]
)
def test_parts_of_a_word_are_features_of_a_message_with_it(word):
    """All of them, in the view in which the filter learns them."""
    message = extract(parse(f"Subject: x\n\n{word}".encode()))
    parts = parts_of(word)

    assert len(parts) > 2
    for part in parts:
        view = "pairs" if " " in part else "words"
        assert meant(part)[view] in message.views[view].ids


@pytest.mark.parametrize(
    "name",
    [
        "money",
        "subject:money",
        "发票",
        "代开 开发",
        "link:.example.org",
        "file:.exe",
        ":",
    ],
)
def test_a_feature_has_no_parts(name):
    """It is answered as it is."""
    assert [] == parts_of(name)


def test_a_text_has_few_parts():
    """Nobody waits for those of a long text, each with its counts."""
    assert 2 * MOST_PARTS - 1 >= len(parts_of("代开发票" * 128))
