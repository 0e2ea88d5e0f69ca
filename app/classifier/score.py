"""What does the evidence of a message come to? The posterior and the verdict."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
from scipy.special import expit

from app.bayes.measurements import Measurements
from app.bayes.posterior import log_odds, log_posterior, odds_weights
from app.bayes.sparse import SparseCounts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from app.classifier.snapshot import Snapshot

Decision = Literal["spam", "ham", "unsure"]

# A message that was seen before a view existed says nothing in that view.
_NOTHING: Final = {False: SparseCounts.of({}), True: Measurements.of({})}


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewScore:
    """What one naive Bayes classifier says, by itself.

    Parameters
    ----------
    event_model : str
        Name of its event model.
    log_posterior : ndarray of float64, shape (K,)
        Log-posterior of each class. Unit: nats.
    log_odds : float
        Log-odds of the spam labels against the others. Unit: nats.
    features : int
        Number of the message's features that it has seen before.
    """

    event_model: str
    log_posterior: NDArray[np.float64]
    log_odds: float
    features: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The decision on one message, with its numbers.

    Parameters
    ----------
    decision : {'spam', 'ham', 'unsure'}
        What the filter says.
    label : int
        Index of the most probable class; the first of several.
    probability : float
        Probability that the message is spam.
    log_odds : float
        Log-odds of the spam labels against the others. Unit: nats.
    log_posterior : ndarray of float64, shape (K,)
        Log-posterior of each class, under the verdict's rule. Unit: nats.
    views : mapping of str to ViewScore
        What each classifier says by itself.
    prior : float
        What the class prior adds to `log_odds`. Unit: nats.
    contributions : ndarray of float64, shape (n,)
        What each feature adds to `log_odds`, in the order of the features of
        the deciding classifier's view; they and `prior` sum to `log_odds`.
        Unit: nats.
    seen : ndarray of bool, shape (n,)
        Which of the features have been seen before.
    """

    decision: Decision
    label: int
    probability: float
    log_odds: float
    log_posterior: NDArray[np.float64]
    views: Mapping[str, ViewScore]
    prior: float
    contributions: NDArray[np.float64]
    seen: NDArray[np.bool_]


def score(
    snapshot: Snapshot, views: Mapping[str, SparseCounts | Measurements]
) -> Verdict:
    r"""Return the verdict of a snapshot on the features of a message.

    Notes
    -----
    With :math:`f_{ic}` the log-likelihood of feature *i* in class *c* and
    *n* the number of features of the message, the verdict's joint is

    .. math:: J_c = \log \pi_c + \frac{s}{\sqrt n} \sum_i f_{ic}

    (`app.classifier.specification.VerdictRule` says why).  The log-odds of a
    set of classes against the rest is a difference of two log-sum-exps, which
    is linear in :math:`J` once the weights of the classes within each side
    are known: so it is a sum of one contribution per feature for every K
    (`app.bayes.posterior.odds_weights`).
    """
    specification = snapshot.specification
    spam = specification.spam_mask
    rule = specification.verdict
    scores: dict[str, ViewScore] = {}
    for name, model in specification.classifiers.items():
        x = views.get(model.view, _NOTHING[model.measures])
        parts = snapshot.likelihoods[name].contributions(x)
        joint = snapshot.log_prior + parts.constant + parts.features.sum(axis=0)
        scores[name] = ViewScore(
            event_model=model.event_model_name,
            log_posterior=log_posterior(joint),
            log_odds=log_odds(joint, spam),
            features=int(np.count_nonzero(parts.seen)),
        )
        if name == rule.classifier:
            deciding = parts

    log_prior = rule.prior.log_prior(snapshot.messages)
    evidence = deciding.features * (rule.scale / math.sqrt(max(1, deciding.seen.size)))
    joint = log_prior + evidence.sum(axis=0)
    weights, constant = odds_weights(joint, spam)
    contributions = evidence @ weights
    prior = float(log_prior @ weights + constant)
    total = prior + float(contributions.sum())
    return Verdict(
        decision=_decide(snapshot, total),
        label=int(np.argmax(joint)),
        probability=float(expit(total)),
        log_odds=total,
        log_posterior=log_posterior(joint),
        views=scores,
        prior=prior,
        contributions=contributions,
        seen=deciding.seen,
    )


def _decide(snapshot: Snapshot, log_odds: float) -> Decision:
    """Return the decision: unsure while only one side has been taught a little."""
    messages, spam = snapshot.messages, snapshot.specification.spam_mask
    rule = snapshot.specification.verdict
    one_sided = not (messages[spam].any() and messages[~spam].any())
    if one_sided and messages.sum() < rule.one_sided_messages:
        return "unsure"
    if log_odds >= rule.spam_threshold:
        return "spam"
    if log_odds <= rule.ham_threshold:
        return "ham"
    return "unsure"
