"""An application in memory: what it answers depends on words, not on a model."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np

from app.access.rights import Keyring
from app.classifier.explain import Attribution, Explanation, ListedFeature, Summand
from app.classifier.policy import Policy
from app.classifier.rule import VerdictRule
from app.classifier.specification import Specification
from app.classifier.verdict import ActionRule
from app.errors import DatabaseUnavailable, UnknownLabel, UnknownMessage
from app.features.observation import Observation
from app.services.access import Gate
from app.services.classify import Classified, observe
from app.services.delivery import Delivery
from app.services.metrics import Tally
from app.services.recipients import Recipients
from app.settings import Settings
from tests.support.builders import verdict

WORDS = {b"money": 3.0, "無料".encode(): 3.0, b"pills": 5.0, b"noon": -3.0}
LABELS = ("ham", "spam")
DESK = ("note", "junk")


def classified(raw, profile="default", labels=LABELS, made_of=None, *, strongest=3):
    """Return an answer: so many nats for each word that is known."""
    digest = observe(raw, ()).digest
    found = {word: nats for word, nats in WORDS.items() if word in raw}
    log_odds = sum(found.values())
    made_of = made_of or Specification(
        verdict=VerdictRule(spam_threshold=2.5, ham_threshold=-2.5)
    )
    made_of = replace(made_of, labels=labels, spam_labels=labels[1:])
    rule = made_of.verdict
    decision = "unsure"
    if log_odds >= rule.spam_threshold:
        decision = "spam"
    elif log_odds <= rule.ham_threshold:
        decision = "ham"
    named = tuple(
        Summand(
            kind="reason",
            text=word.decode(),
            family="words",
            log_odds=nats,
            features=1,
            parts=(
                ListedFeature(
                    feature=word.decode(), view="words", log_odds=nats, messages={}
                ),
            ),
        )
        for word, nats in found.items()
    )
    return Classified(
        observation=Observation(digest, 1, {}, {}),
        verdict=replace(verdict(log_odds), decision=decision),
        attribution=Attribution(
            prior=0.0,
            contributions={
                "words": np.array(list(found.values())),
                "headers": np.array([0.0]),
            },
            seen={},
        ),
        explanation=Explanation(
            strongest=strongest,
            families={"words": log_odds, "headers": 0.0, "prior": 0.0},
            summands=named if strongest else (),
        ),
        profile=profile,
        revision=7,
        specification=made_of,
    )


class Feedback:
    """What is learned, by profile and digest."""

    def __init__(self, labels):
        self.labels = labels
        self.learned = {}
        self.sources, self.doors = [], []
        self.away = False

    def teach(self, profile, raw, *, label, source, via=None):
        """Learn a message, or move it."""
        self.doors.append(via.door)
        self.needs_database()
        if label not in self.labels[profile]:
            msg = f"no label {label!r}"
            raise UnknownLabel(msg)
        digest = observe(raw, ()).digest
        before = self.learned.get((profile, digest))
        self.learned[profile, digest] = label
        self.sources.append(source)
        kind = "unchanged" if before == label else "relabelled" if before else "learned"
        return SimpleNamespace(
            outcome=SimpleNamespace(
                kind=kind, digest=digest, label=label, label_before=before
            )
        )

    def identify(self, profile, raw):  # noqa: ARG002
        """Return the digest that a message is taught under."""
        self.needs_database()
        return observe(raw, ()).digest

    def forget(self, profile, digest, *, source, via=None):
        """Take a message back."""
        self.doors.append(via.door)
        self.needs_database()
        if self.learned.pop((profile, digest), None) is None:
            msg = "not learned"
            raise UnknownMessage(msg)
        self.sources.append(source)

    def needs_database(self):
        """Raise while it is away."""
        if self.away:
            msg = "the database does not answer"
            raise DatabaseUnavailable(msg)


class Classify:
    """Classifies by the words that are known."""

    def __init__(self, labels, made_of, tally):
        self.labels = labels
        self.made_of = made_of
        self.tally = tally

    def __call__(self, profile, raw, *, strongest):
        """Classify one message."""
        return self.each([profile], raw, strongest=strongest)[profile]

    def each(self, profiles, raw, *, strongest, **more):  # noqa: ARG002
        """Classify one message against several profiles."""
        return {
            name: classified(
                raw,
                name,
                self.labels[name],
                self.made_of[name],
                strongest=strongest,
            )
            for name in profiles
        }


class Correspondents:
    """Whom users have written to."""

    def __init__(self):
        self.heard = []

    def sent(self, sender, recipients, *, login):
        """Note a message that a user has sent."""
        self.heard.append((login, sender, recipients))


class Live:
    """The profiles, by name."""

    def __init__(self, labels, made_of, taught):
        self.labels = labels
        self.made_of = made_of
        self.taught = taught

    def __iter__(self):
        """Iterate over them."""
        return iter(self.labels)

    def find(self, profile):
        """Return one with its row."""
        labels = self.labels[profile]
        row = SimpleNamespace(labels=labels, spam_labels=(labels[1],))
        return SimpleNamespace(row=row, specification=self.made_of[profile])

    def get(self, profile):
        """Return one with its counts."""
        labels = self.labels[profile]
        taught = [label for (name, _), label in self.taught.items() if name == profile]
        snapshot = SimpleNamespace(
            specification=Specification(labels=labels, spam_labels=labels[1:]),
            messages=np.array([taught.count(label) for label in labels]),
            tables={"words": SimpleNamespace(vocabulary=124)},
        )
        return SimpleNamespace(snapshot=snapshot)


class Application:
    """As much of `app.services.application.Application` as doors use."""

    def __init__(self, *keys, **settings):
        self.settings = Settings(**settings)
        self.gate = Gate(Keyring(keys), self.settings)
        self.labels = {
            "default": LABELS,
            "bob@example.org": LABELS,
            "desk@example.org": DESK,
        }
        service = Specification(
            verdict=VerdictRule(spam_threshold=2.5, ham_threshold=-2.5),
            action=ActionRule(
                spam_from=2.5,
                quarantine_from=self.settings.quarantine_from,
                reject_from=self.settings.reject_from,
            ),
        )
        self.made_of = dict.fromkeys(self.labels, service)
        self.recipients = Recipients(self.labels, site="default", aliases={})
        self.feedback = Feedback(self.labels)
        self.tally = Tally()
        self.classify = Classify(self.labels, self.made_of, self.tally)
        self.delivery = Delivery(self.classify, self.recipients)
        self.correspondents = Correspondents()
        self.live = Live(self.labels, self.made_of, self.feedback.learned)

    def decide(self, profile, **policy):
        """Have a profile decide by thresholds of its own."""
        made_of = self.made_of[profile]
        self.made_of[profile] = Policy(**policy).applied_to(made_of)

    def ping(self):
        """Raise if the database does not answer."""
        self.feedback.needs_database()
