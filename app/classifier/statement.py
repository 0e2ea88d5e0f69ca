"""Statements: evidence about a message beyond its features."""

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
    """Evidence about a message beyond its features.

    Parameters
    ----------
    kind : {'list', 'people'}
        An entry of a list, or a correspondent of the recipient; it is a family in
        explanations.
    name : str
        Subject of the statement, such as ``example.org``.
    nats : float
        Contribution to the log-odds; positive is evidence of spam.  Unit: nats.
    text : str
        The reason as one line of text for people.
    """

    kind: Literal["list", "people"]
    name: str
    nats: float
    text: str


def stated(
    verdict: Verdict, statements: Sequence[Statement], specification: Specification
) -> Verdict:
    r"""Return a verdict with statements added.

    Parameters
    ----------
    verdict : Verdict
        The verdict by the features alone.
    statements : sequence of Statement
        The statements, which are summed.
    specification : Specification
        The specification of the verdict.

    Notes
    -----
    The sum *s* is a log-likelihood ratio of the spam labels against the others.  It is
    added to the joint of every spam label, so the log-odds rise by *s* for any number
    of labels, and labels on the same side keep their odds relative to each other.  The
    scores of the views, the evidence and the prior stay those of the features, because
    the fusion is fitted to them.

    If no feature was seen before, the verdict stays *unsure* unless the statements
    alone reach a threshold on their side.
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
    """The origin of a message, as far as the door knows it.

    Parameters
    ----------
    sender : str
        Sender of the SMTP envelope; empty if unknown.
    client : str
        Address of the client that sent the message; empty if unknown.
    """

    sender: str = ""
    client: str = ""


UNKNOWN: Final = Origin()


class Witness(Protocol):
    """Makes statements about messages."""

    def __call__(self, message: Message, origin: Origin) -> Testimony | None:
        """Return the statements about a message, by the name of a profile.

        None if there are none for any profile, which saves work.
        """
        ...


def testimony(
    witnesses: Iterable[Witness], message: Message, origin: Origin
) -> Testimony | None:
    """Combine the statements of all witnesses; None if there are none."""
    heard = [
        each for witness in witnesses if (each := witness(message, origin)) is not None
    ]
    if not heard:
        return None
    return lambda profile: [said for each in heard for said in each(profile)]
