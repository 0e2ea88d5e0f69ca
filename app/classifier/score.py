"""What does the evidence of a message come to? The posterior and the verdict."""

from __future__ import annotations

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

    from app.bayes.likelihood import Contributions
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
        What the class prior and the bias of the fusion add to `log_odds`, and
        with them what the event models add for every message alike.
        Unit: nats.
    contributions : mapping of str to ndarray of float64, shape (n,)
        View by view, what each feature adds to `log_odds`, in the order of the
        view's features; all of them and `prior` sum to `log_odds`.
        Unit: nats.
    seen : mapping of str to ndarray of bool, shape (n,)
        View by view, which of the features have been seen before.
    evidence : ndarray of float64, shape (T, K)
        What each term of the rule says of each class, normalised and before its
        weight. Unit: nats.
    log_prior : ndarray of float64, shape (K,)
        The class prior. Unit: nats.
    """

    decision: Decision
    label: int
    probability: float
    log_odds: float
    log_posterior: NDArray[np.float64]
    views: Mapping[str, ViewScore]
    prior: float
    contributions: Mapping[str, NDArray[np.float64]]
    seen: Mapping[str, NDArray[np.bool_]]
    evidence: NDArray[np.float64]
    log_prior: NDArray[np.float64]


def score(
    snapshot: Snapshot, views: Mapping[str, SparseCounts | Measurements]
) -> Verdict:
    r"""Return the verdict of a snapshot on the features of a message.

    Notes
    -----
    With :math:`f_{tic}` the log-likelihood of feature *i* in class *c* for the
    classifier of term *t*, :math:`g_t(n)` its normaliser for the *n* features of
    the message, :math:`w_t` and :math:`b_c` the weights of the fusion, and *r*
    what they are raised by for views that have learned less than the others
    (`app.classifier.share`), the verdict's joint is

    .. math:: J_c = \log \pi_c + b_c
        + r \sum_t w_t \, g_t(n) \sum_i f_{tic}

    (`app.classifier.rule.VerdictRule` says why).  The log-odds of a
    set of classes against the rest is a difference of two log-sum-exps, which
    is linear in :math:`J` once the weights of the classes within each side
    are known: so it is a sum of one contribution per feature for every K
    (`app.bayes.posterior.odds_weights`).
    """
    specification = snapshot.specification
    spam = specification.spam_mask
    rule = specification.verdict
    said: dict[str, Contributions] = {}
    for name, model in specification.classifiers.items():
        x = views.get(model.view, _NOTHING[model.measures])
        parts = snapshot.likelihoods[name].contributions(x)
        said[name] = parts

    log_prior = snapshot.verdict_log_prior
    joint = log_prior + snapshot.fusion.bias
    constant = joint.copy()
    evidence = np.empty((len(rule.terms), joint.size))
    added_to: dict[str, NDArray[np.float64]] = {}
    seen: dict[str, NDArray[np.bool_]] = {}
    for number, term in enumerate(rule.terms):
        parts = said[term.classifier]
        view = specification.classifiers[term.classifier].view
        factor = snapshot.raised * term.normaliser.factor(parts.seen.size)
        weight = float(snapshot.fusion.weights[number]) * factor
        added = parts.features * weight
        whole = parts.constant + parts.features.sum(axis=0)
        evidence[number] = whole * factor
        constant += parts.constant * weight
        joint = joint + whole * weight
        # Two terms may take one view in two ways: one entry for each feature.
        added_to[view] = added_to[view] + added if view in added_to else added
        seen[view] = seen[view] | parts.seen if view in seen else parts.seen
    weights, offset = odds_weights(joint, spam)
    contributions = {view: added @ weights for view, added in added_to.items()}
    prior = float(constant @ weights + offset)
    total = prior + sum(float(of_view.sum()) for of_view in contributions.values())
    return Verdict(
        decision=_decide(snapshot, total, known=any(s.any() for s in seen.values())),
        label=int(np.argmax(joint)),
        probability=float(expit(total)),
        log_odds=total,
        log_posterior=log_posterior(joint),
        views=_by_themselves(snapshot, said),
        prior=prior,
        contributions=contributions,
        seen=seen,
        evidence=evidence,
        log_prior=log_prior,
    )


def _by_themselves(
    snapshot: Snapshot, said: Mapping[str, Contributions]
) -> dict[str, ViewScore]:
    """Return what each classifier says by itself: prior and likelihood."""
    # All classifiers at once: each of these steps costs a few µs however many
    # rows it has.
    joints = np.array(
        [parts.constant + parts.features.sum(axis=0) for parts in said.values()]
    )
    joints += snapshot.log_prior
    posteriors = log_posterior(joints)
    odds = log_odds(joints, snapshot.specification.spam_mask).tolist()
    return {
        name: ViewScore(
            event_model=snapshot.specification.classifiers[name].event_model_name,
            log_posterior=posteriors[row],
            log_odds=odds[row],
            features=int(np.count_nonzero(parts.seen)),
        )
        for row, (name, parts) in enumerate(said.items())
    }


def _decide(snapshot: Snapshot, log_odds: float, *, known: bool) -> Decision:
    """Return the decision: unsure where nothing speaks for either side."""
    rule = snapshot.specification.verdict
    if not known:
        return "unsure"
    if log_odds >= rule.spam_threshold:
        return "spam"
    if log_odds <= rule.ham_threshold:
        return "ham"
    return "unsure"
