"""An Observation is known by its digest."""

from __future__ import annotations

from app.features.extract import extract
from app.mail.parse import parse


def test_an_observation_without_names_is_otherwise_the_same():
    """Where no words are stored, the counts are all there."""
    observation = extract(parse(b"Subject: a\n\nb"))

    assert {} == observation.stored(words=False).names
    assert observation.views == observation.stored(words=False).views
    assert observation.id == observation.stored(words=False).id


def test_what_is_kept_for_people_leaves_out_the_names_of_pairs():
    """A pair's name is two words that have names themselves."""
    observation = extract(parse(b"Subject: big lunch\n\nsmall talk"))

    kept = observation.stored(words=True)

    assert "pairs" in observation.names
    assert observation.names.keys() - {"pairs"} == kept.names.keys()
    assert observation.views == kept.views
