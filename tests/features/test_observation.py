"""An Observation is known by its digest."""

from __future__ import annotations

from app.features.extract import extract
from app.mail.parse import parse


def test_an_observation_without_names_is_otherwise_the_same():
    """Where no words are stored, the counts are all there."""
    observation = extract(parse(b"Subject: a\n\nb"))

    assert {} == observation.nameless().names
    assert observation.views == observation.nameless().views
    assert observation.id == observation.nameless().id
