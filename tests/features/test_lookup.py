"""A typed word is the feature that explanations name."""

from __future__ import annotations

from app.features.extract import extract, meant
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
