"""Classification of one message: scored, and nothing learned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.classifier.explain import Attribution, Summand, attribute, explain
from app.classifier.score import score
from app.errors import EmptyMessage
from app.features.extract import extract
from app.mail.parse import parse

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable
    from datetime import datetime

    from app.classifier.specification import Specification
    from app.classifier.verdict import Action, Verdict
    from app.features.observation import Observation
    from app.services.autolearn import AutoLearn
    from app.services.memory.live import LiveProfile, LiveProfiles
    from app.services.memory.recent import RecentMessages
    from app.services.metrics import Tally


@dataclass(frozen=True, slots=True, kw_only=True)
class Classified:
    """The answer about one message.

    Parameters
    ----------
    observation : Observation
        The features of the message; its `id` teaches it later.
    verdict : Verdict
        The decision with its numbers.
    attribution : Attribution
        The log-odds that each feature adds.
    explanation : tuple of Summand
        The summands add up to the log-odds of the verdict.
    profile : str
        Name of the profile that answered.
    labels : tuple of str
        Its labels, in the order of the verdict's arrays.
    revision : int
        The ledger row that the profile had learned last.
    specification : Specification
        The specification of the profile then: its thresholds.
    """

    observation: Observation
    verdict: Verdict
    attribution: Attribution
    explanation: tuple[Summand, ...]
    profile: str
    labels: tuple[str, ...]
    revision: int
    specification: Specification

    @property
    def action(self) -> Action:
        """The action that a mail server is asked for."""
        return self.specification.action(self.verdict)


def observe(raw: bytes, views: Container[str]) -> Observation:
    """Return the features of a raw message, in the views of a profile.

    Raises
    ------
    EmptyMessage
        If the message is blank.
    """
    if not raw or raw.isspace():
        msg = "the message is empty; send it whole, headers and body, as RFC 5322"
        raise EmptyMessage(msg)
    return extract(parse(raw), views)


class Classify:
    """Score messages against the profiles in memory.

    Parameters
    ----------
    live : LiveProfiles
        The profiles.
    recent : RecentMessages or None
        The cache of observations for teaching by id; None stores none.
    clock : callable
        Returns the time now, in UTC.
    tally : Tally
        The counters of verdicts.
    autolearn : AutoLearn or None
        Learns confident verdicts; None learns none.
    """

    def __init__(
        self,
        live: LiveProfiles,
        recent: RecentMessages | None,
        clock: Callable[[], datetime],
        tally: Tally,
        autolearn: AutoLearn | None = None,
    ) -> None:
        self._live = live
        self._recent = recent
        self._clock = clock
        self._tally = tally
        self._autolearn = autolearn

    def __call__(self, profile: str, raw: bytes, *, strongest: int) -> Classified:
        """Classify one message.

        Parameters
        ----------
        profile : str
            Name of the profile.
        raw : bytes
            The message, RFC 5322.
        strongest : int
            How many of the strongest features of each side the explanation names.

        Raises
        ------
        UnknownProfile
            If there is no such profile.
        EmptyMessage
            If the message is blank.
        """
        return self.each((profile,), raw, strongest=strongest)[profile]

    def each(
        self, profiles: Iterable[str], raw: bytes, *, strongest: int
    ) -> dict[str, Classified]:
        """Classify one message against several profiles, and read it once.

        Returns
        -------
        dict of str to Classified
            By the name of the profile.

        Raises
        ------
        UnknownProfile
            If there is no such profile.
        EmptyMessage
            If the message is blank.
        """
        lives = {name: self._live.get(name) for name in profiles}
        views = {view for live in lives.values() for view in live.specification.views}
        with self._tally.classifying():
            observation = observe(raw, views)
            classified = {
                name: classify_observation(live, observation, strongest=strongest)
                for name, live in lives.items()
            }
        now = self._clock()
        for name, live in lives.items():
            self._tally.classified(classified[name].verdict.decision)
            if self._recent is not None:
                self._recent.add(live.row.id, observation, now)
            if self._autolearn is not None:
                self._autolearn(live, observation, classified[name].verdict)
        return classified


def classify_observation(
    live: LiveProfile, observation: Observation, *, strongest: int
) -> Classified:
    """Score the features of a message with the snapshot of now."""
    snapshot = live.snapshot
    verdict = score(snapshot, observation.views)
    attribution = attribute(verdict, snapshot)
    return Classified(
        observation=observation,
        verdict=verdict,
        attribution=attribution,
        explanation=explain(attribution, snapshot, observation, strongest=strongest),
        profile=live.row.name,
        labels=live.row.labels,
        revision=snapshot.revision,
        specification=snapshot.specification,
    )
