"""Stated evidence: evidence on a message that is not in its features."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol

import numpy as np

from app.bayes.posterior import log_posterior, probability_of
from app.classifier.score import decide

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from app.classifier.specification import Specification
    from app.classifier.verdict import Verdict
    from app.mail.message import Message

    Testimony = Callable[[str], Sequence["Statement"]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """Evidence on a message that no feature of it carries.

    Parameters
    ----------
    kind : {'list', 'people'}
        An entry of a list, or a correspondent of the recipient; explanations have it
        as a family.
    name : str
        What the statement is about, such as ``example.org``.
    nats : float
        What it adds to the log-odds; positive speaks for spam.  Unit: nats.
    text : str
        The reason as a person reads it, in one line.
    """

    kind: Literal["list", "people"]
    name: str
    nats: float
    text: str


def stated(
    verdict: Verdict, statements: Sequence[Statement], specification: Specification
) -> Verdict:
    r"""Return a verdict with what is stated beside the features.

    Parameters
    ----------
    verdict : Verdict
        The verdict on the features alone.
    statements : sequence of Statement
        What is stated; they are summed.
    specification : Specification
        Under which the verdict was given.

    Notes
    -----
    The sum *s* is a likelihood ratio of the spam labels against the others: it is
    added to the joint of every spam label, so that the log-odds rise by *s* for any
    number of labels, and those on one side keep their odds against each other.  What
    the views say, the evidence and the prior stay those of the features, since the
    fusion is fitted to them.

    Where no feature was seen before, the verdict stays *unsure* unless the statements
    alone reach a threshold of their side.
    """
    nats = math.fsum(each.nats for each in statements)
    rule = specification.verdict
    log_odds = verdict.log_odds + nats
    decided = any(verdict.views[term.classifier].features for term in rule.terms) or (
        nats != 0 and decide(rule, nats) == ("spam" if nats > 0 else "ham")
    )
    posterior = log_posterior(
        verdict.log_posterior + np.where(specification.spam_mask, nats, 0.0)
    )
    return replace(
        verdict,
        decision=decide(rule, log_odds) if decided else "unsure",
        label=int(posterior.argmax()),
        probability=probability_of(log_odds),
        log_odds=log_odds,
        log_posterior=posterior,
    )


class Origin(NamedTuple):
    """Where a message comes from, as a door knows it.

    Parameters
    ----------
    sender : str
        Of the SMTP envelope; empty where it is unknown.
    client : str
        Address of the client that sent the message; empty where it is unknown.
    """

    sender: str = ""
    client: str = ""


UNKNOWN: Final = Origin()


class Witness(Protocol):
    """States evidence on messages that their features do not carry."""

    def __call__(self, message: Message, origin: Origin) -> Testimony | None:
        """Return the statements on a message, by the name of a profile.

        None where nothing is stated of it in any profile, so that it costs nothing.
        """
        ...


def testimony(
    witnesses: Iterable[Witness], message: Message, origin: Origin
) -> Testimony | None:
    """Return the statements of all witnesses on a message; None if there are none."""
    heard = [
        each for witness in witnesses if (each := witness(message, origin)) is not None
    ]
    if not heard:
        return None
    return lambda profile: [said for each in heard for said in each(profile)]
