"""Classification: scores one message without learning it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple, Self

import numpy as np

from app.bayes.models.discrete import Bernoulli
from app.bayes.posterior import log_odds
from app.bayes.table import SMALLEST
from app.classifier.explain import attribute, explain
from app.classifier.learn import delta
from app.classifier.levels import BackedOff
from app.classifier.snapshot import Snapshot, score
from app.classifier.specification import Specification
from app.classifier.statement import UNKNOWN, stated, testimony
from app.errors import EmptyMessage
from app.features.extract import VIEWS, extract
from app.features.id_key import KEY_BYTES, IdKey
from app.features.places import passages, placed
from app.ledger.vector import decode, encode, encode_names
from app.mail.parse import parse
from app.services.clock import now

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable, Sequence

    from app.classifier.explain import Attribution, Explanation
    from app.classifier.levels import LevelShare
    from app.classifier.statement import Origin, Statement, Testimony, Witness
    from app.classifier.verdict import Action, Verdict
    from app.features.observation import Observation
    from app.mail.message import Message
    from app.services.cache import LiveProfiles
    from app.services.live import LiveProfile
    from app.services.metrics import Tally
    from app.services.recent import RecentMessages
    from app.services.writer import AutoLearn


class Head(NamedTuple):
    """The decoded headers by which people recognise a message; its size in bytes."""

    message_id: str = ""
    sender: str = ""
    to: str = ""
    subject: str = ""
    size: int = 0

    @classmethod
    def of(cls, message: Message, size: int) -> Self:
        """Return the head of a message, with its size."""
        head = message.header
        return cls(head("message-id"), head("from"), head("to"), head("subject"), size)


_NO_HEAD: Final = Head()


@dataclass(frozen=True, slots=True, kw_only=True)
class Classified:
    """The answer about one message.

    Parameters
    ----------
    attribution : Attribution
        The log-odds that each feature adds.
    explanation : Explanation
        The log-odds of the verdict, by family and by reason.
    profile : str
        Name of the profile that answered.
    revision : int
        The last ledger row that the profile had learned.
    specification : Specification
        The specification of the profile at that time, with its thresholds, and its
        labels in the order of the verdict's arrays.
    head : Head
        The headers by which people recognise the message.
    levels : tuple of LevelShare
        What each level adds to the log-odds, where the profile backs off.
    statements : tuple of Statement
        What is stated beside the features; the verdict and the explanation hold it.
    testimony : callable or None
        Returns the statements about the message for the name of a profile; None if
        there are none.
    unstated : Classified or None
        The answer by the features alone, where something is stated.
    """

    observation: Observation
    verdict: Verdict
    attribution: Attribution
    explanation: Explanation
    profile: str
    revision: int
    specification: Specification
    head: Head = _NO_HEAD
    levels: tuple[LevelShare, ...] = ()
    statements: tuple[Statement, ...] = ()
    testimony: Testimony | None = None
    unstated: Classified | None = None

    def stated_for(self, profile: str) -> Classified:
        """Return the answer with what is stated for a profile.

        The profile is that of the recipient; another profile may have answered for it.
        """
        if self.testimony is None:
            return self
        statements = tuple(self.testimony(profile))
        if statements == self.statements:
            return self
        features = self.unstated or self
        if not statements:
            return features
        return replace(
            features,
            verdict=stated(features.verdict, statements, self.specification),
            explanation=features.explanation.stated(statements),
            statements=statements,
            unstated=features,
        )

    @property
    def action(self) -> Action:
        """The action that is requested from a mail server."""
        return self.specification.action(self.verdict)


def observe(raw: bytes, views: Container[str], key: IdKey | None = None) -> Observation:
    """Return the features of a raw message, in the views and by the key of a profile.

    Raises
    ------
    EmptyMessage
        If the message is blank.
    """
    return extract(read(raw), views).keyed(key)


def read(raw: bytes) -> Message:
    """Return a raw message, parsed.

    Raises
    ------
    EmptyMessage
        If the message is blank.
    """
    if not raw or raw.isspace():
        msg = "the message is empty; send it whole, headers and body, as RFC 5322"
        raise EmptyMessage(msg)
    return parse(raw)


@dataclass(eq=False)
class Classify:
    """Score messages against the profiles in memory."""

    live: LiveProfiles
    recent: RecentMessages
    tally: Tally
    autolearn: AutoLearn | None = None
    witnesses: Sequence[Witness] = ()

    def __call__(self, profile: str, raw: bytes, *, strongest: int) -> Classified:
        """Classify one message.

        Raises
        ------
        UnknownProfile
            If there is no such profile.
        EmptyMessage
            If the message is blank.
        """
        return self.each((profile,), raw, strongest=strongest)[profile]

    def each(
        self,
        profiles: Iterable[str],
        raw: bytes,
        *,
        strongest: int,
        taught: Collection[str] = (),
        others: Collection[str] = (),
        origin: Origin = UNKNOWN,
    ) -> dict[str, Classified]:
        """Classify one message against several profiles, and read it once.

        Parameters
        ----------
        strongest : int
            How many of the strongest features of each side an explanation names.
        taught : collection of str
            Names of further profiles that feedback with the id may be for.
        others : collection of str
            Names of profiles to load into memory, because the caller asks them next if
            the message would be held or refused.
        origin : Origin
            Where the message comes from.

        Returns
        -------
        dict of str to Classified
            By the name of the profile, with what is stated for it.

        Raises
        ------
        UnknownProfile
            If there is no such profile.
        ProfileLoading
            If one is not in memory yet; nothing was done.
        EmptyMessage
            If the message is blank.
        """
        lives = self.live.get_all(profiles)
        if others and any(_holds(live.specification) for live in lives.values()):
            self.live.get_all(others)
        known = {live.row.id: live.specification for live in lives.values()}
        for name in taught:
            cached = self.live.find(name)
            known[cached.row.id] = cached.specification
        views = {view for each in known.values() for view in each.views}
        passed = self.tally.classifying()
        message = read(raw)
        passed("parse")
        read_once = extract(message, views)
        # A database has at most one key.
        keys = {each.key for each in known.values()}
        observations = {key: read_once.keyed(key) for key in keys}
        passed("features")
        head = Head.of(message, len(raw))
        classified = {
            name: classify_observation(
                live,
                observations[live.specification.key],
                strongest=strongest,
                head=head,
            )
            for name, live in lives.items()
        }
        heard = testimony(self.witnesses, message, origin)
        if heard is not None:
            classified = {
                name: replace(each, testimony=heard).stated_for(name)
                for name, each in classified.items()
            }
        passed("score")
        time = now()
        for name, live in lives.items():
            answer = classified[name]
            self.tally.classified(answer.verdict.decision)
            # By the features alone: otherwise a statement, and a forged sender with it,
            # would teach the filter.  A verdict that contradicts a statement is not
            # learned.
            by_features = (answer.unstated or answer).verdict
            agree = by_features.decision == answer.verdict.decision
            if self.autolearn is not None and agree:
                self.autolearn(live, answer.observation, by_features)
        for profile_id, specification in known.items():
            self.recent.add(profile_id, observations[specification.key], time)
        return classified


def _holds(specification: Specification) -> bool:
    """Return whether mail may be held or refused."""
    action = specification.action
    return (action.quarantine_from, action.reject_from) != (None, None)


def classify_observation(
    live: LiveProfile,
    observation: Observation,
    *,
    strongest: int,
    head: Head = _NO_HEAD,
) -> Classified:
    """Score the features of a message with what is learned now."""
    with live.scoring() as snapshot:
        specification = snapshot.specification
        verdict = score(snapshot, observation.views)
        attribution = attribute(verdict, snapshot)
        return Classified(
            observation=observation,
            verdict=verdict,
            attribution=attribution,
            explanation=explain(
                attribution, snapshot, observation, strongest=strongest
            ),
            profile=live.row.name,
            revision=snapshot.revision,
            specification=specification,
            head=head,
            levels=snapshot.shares(verdict) if isinstance(snapshot, BackedOff) else (),
        )


@cache
def warm_up() -> None:
    """Compile all kernels, or read them from disk, before the first message.

    Once in a process; again, it would take 5 ms for each further application.
    """
    # Enough words to make the table of counts grow.
    words = " ".join(f"w{n}" for n in range(SMALLEST))
    head = "Subject: é\r\nContent-Type: text/html; charset=utf-8"
    message = read(f"{head}\n\n<p>{words}</p>".encode())
    placed(passages(message))
    observation = extract(message, VIEWS)
    observation.keyed(IdKey(bytes(KEY_BYTES)))
    decode(encode(observation.views))
    encode_names(observation.names)
    snapshot = Snapshot.empty(Specification())
    for label in range(snapshot.specification.n_classes):
        change = delta(observation.views, before=None, after=label, n_classes=2)
        snapshot.learn(change + change, revision=label + 1)
        attribution = attribute(score(snapshot, observation.views), snapshot)
        explain(attribution, snapshot, observation, strongest=1)
    # Including the kernels that no verdict uses.
    likelihood = Bernoulli().estimate(snapshot.tables["words"])
    likelihood.contributions(observation.views["words"])
    log_odds(np.zeros(2), np.array([False, True]))
