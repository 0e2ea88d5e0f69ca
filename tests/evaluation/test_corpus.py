"""Messages as arrays: each comes out as it went in."""

from __future__ import annotations

import itertools

import pytest

from app.evaluation.subject import Corpus
from app.features.extract import extract
from app.mail.parse import parse
from tests.support.messages import HAM, SPAM

VIEWS = ("words", "pairs")
RAWS = [*HAM, *SPAM, b"", b"Subject: \n\n"]


@pytest.fixture
def corpus():
    """A few messages, two of them empty."""
    return Corpus.read(
        RAWS, VIEWS, advance=lambda _: None, clock=itertools.count().__next__
    )


@pytest.mark.parametrize("number", range(len(RAWS)))
def test_a_message_has_the_views_that_were_extracted(corpus, tmp_path, number):
    """In memory, and mapped from files."""
    expected = extract(parse(RAWS[number]), VIEWS).views
    corpus.save(tmp_path)

    assert expected == corpus[number]
    assert expected == Corpus.load(tmp_path)[number]


def test_reading_tells_its_time_and_its_progress():
    """All messages are counted; time is kept with the arrays."""
    ticks = []
    corpus = Corpus.read(
        RAWS, VIEWS, advance=ticks.append, clock=iter([3.0, 5.5]).__next__
    )

    assert len(RAWS) == sum(ticks)
    assert 2.5 == corpus.seconds


def test_no_message_is_a_corpus_too(tmp_path):
    """Arrays may be empty."""
    empty = Corpus.read([], VIEWS, advance=lambda _: None, clock=lambda: 0.0)
    empty.save(tmp_path)

    assert list(VIEWS) == list(Corpus.load(tmp_path).columns)
