"""Postbayes: the filter that serves, with the settings that ship."""

from __future__ import annotations

from app.classifier.specification import Specification
from app.evaluation.subject import Subject
from app.features.extract import extract
from app.mail.parse import parse
from benchmarks.peers.peer import Said


class Postbayes:
    """In this process, without a database, as `postbayes evaluate` runs it."""

    def __init__(self) -> None:
        specification = Specification()
        self._views = specification.views
        self._subject = Subject(specification)

    def score(self, raw: bytes, /) -> Said:
        """Return the log-odds."""
        verdict = self._subject.score(extract(parse(raw), self._views).views)
        return Said(
            verdict.log_odds,
            0.0,
            spam=verdict.decision == "spam",
            probability=verdict.probability,
        )

    def learn(self, raw: bytes, /, *, spam: bool) -> None:
        """Learn one message."""
        views = extract(parse(raw), self._views).views
        self._subject.learn(views, "spam" if spam else "ham")

    def close(self) -> None:
        """Do nothing."""
