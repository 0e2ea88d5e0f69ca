"""Scoring: the posterior and the verdict of an observation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from app.bayes.batch import join
from app.bayes.measurements import Measurements
from app.bayes.posterior import log_posterior, posterior_odds, probability_of
from app.bayes.sparse import SparseCounts
from app.classifier.verdict import ROUNDING, Decision, Verdict, ViewScore

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from app.bayes.likelihood import Contributions
    from app.classifier.snapshot import Snapshot

# A message that was seen before a view existed says nothing in that view.
_NOTHING: Final[Mapping[bool, SparseCounts | Measurements]] = {
    False: SparseCounts.of({}),
    True: Measurements.of({}),
}


def score(
    snapshot: Snapshot, views: Mapping[str, SparseCounts | Measurements]
) -> Verdict:
    """Return the verdict of a snapshot on the features of a message."""
    return score_many(snapshot, [views])[0]


def score_many(
    snapshot: Snapshot,
    messages: Sequence[Mapping[str, SparseCounts | Measurements]],
) -> list[Verdict]:
    r"""Return the verdicts of a snapshot on M messages, each as if it were alone.

    Most steps cost a few µs, however many rows they have: all are done for all
    messages at once.

    Parameters
    ----------
    snapshot : Snapshot
        What the profile knows.
    messages : sequence of mapping of str to SparseCounts or Measurements
        The features of each message, view by view.

    Notes
    -----
    With :math:`f_{tic}` the log-likelihood of feature *i* in class *c* for the
    classifier of term *t*, :math:`g_t(n)` its normaliser for the *n* features of
    the message, :math:`w_t` and :math:`b_c` the weights of the fusion, and *r*
    what they are raised by for views that have learned less than the others
    (`app.classifier.snapshot`), the verdict's joint is

    .. math:: J_c = \log \pi_c + b_c
        + r \sum_t w_t \, g_t(n) \sum_i f_{tic}

    (`app.classifier.rule.VerdictRule` says why).
    """
    specification = snapshot.specification
    joined = {
        view: join([views.get(view, _NOTHING[measures]) for views in messages])
        for view, measures in specification.views.items()
    }
    batch = {
        name: snapshot.likelihoods[name].decompose(joined[model.view])
        for name, model in specification.classifiers.items()
    }
    said = np.array([each.log_likelihoods() for each in batch.values()])
    evidence = _evidence(snapshot, batch, said)
    # What each classifier says by itself, and in the last row the verdict.
    joints = np.empty((len(said) + 1, *said.shape[1:]))
    np.add(said, snapshot.log_prior, out=joints[:-1])
    np.matmul(snapshot.fusion.weights, evidence, out=joints[-1])
    joints[-1] += snapshot.verdict_log_prior + snapshot.fusion.bias
    posteriors = log_posterior(joints)
    odds = posterior_odds(posteriors, specification.spam_mask)
    views = _by_themselves(snapshot, batch, posteriors, odds)
    deciding = [term.classifier for term in specification.verdict.terms]
    return [
        Verdict(
            decision=_decide(
                snapshot, total, known=any(its[name].features for name in deciding)
            ),
            label=label,
            probability=probability,
            log_odds=total,
            log_posterior=posteriors[-1, m],
            views=its,
            evidence=evidence[m],
            log_prior=snapshot.verdict_log_prior,
            batch=batch,
            place=m,
        )
        for m, (label, total, probability, its) in enumerate(
            zip(
                joints[-1].argmax(axis=1).tolist(),
                odds[-1].tolist(),
                map(probability_of, odds[-1].tolist()),
                views,
                strict=True,
            )
        )
    ]


def _evidence(
    snapshot: Snapshot,
    batch: Mapping[str, Contributions],
    said: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return what each term of the rule says of each message, shape (M, T, K).

    Parameters
    ----------
    said : ndarray of float64, shape (V, M, K)
        What each classifier says.
    """
    terms = snapshot.specification.verdict.terms
    place = {name: v for v, name in enumerate(batch)}
    factors = np.array(
        [
            [term.normaliser.factor(n) for n in batch[term.classifier].sizes()]
            for term in terms
        ]
    )
    factors *= snapshot.raised
    of_terms = said[[place[term.classifier] for term in terms]]
    of_terms *= factors[:, :, np.newaxis]
    # In one layout for one message and for many, so that the product with the weights
    # adds in one order.
    return np.ascontiguousarray(of_terms.transpose(1, 0, 2))


def _by_themselves(
    snapshot: Snapshot,
    batch: Mapping[str, Contributions],
    posteriors: NDArray[np.float64],
    odds: NDArray[np.float64],
) -> list[dict[str, ViewScore]]:
    """Return what each classifier says of each message by itself.

    Parameters
    ----------
    posteriors : ndarray of float64, shape (V + 1, M, K)
        By classifier; the last row is not one of them.
    odds : ndarray of float64, shape (V + 1, M)
        The same.
    """
    classifiers = snapshot.specification.classifiers
    names = [(name, classifiers[name].event_model_name) for name in batch]
    known = [each.known() for each in batch.values()]
    log_odds = odds.tolist()
    return [
        {
            name: ViewScore(
                event_model=event_model,
                log_posterior=posteriors[v, m],
                log_odds=log_odds[v][m],
                features=known[v][m],
            )
            for v, (name, event_model) in enumerate(names)
        }
        for m in range(odds.shape[1])
    ]


def _decide(snapshot: Snapshot, log_odds: float, *, known: bool) -> Decision:
    """Return the decision: unsure where nothing speaks for either side."""
    rule = snapshot.specification.verdict
    if not known:
        return "unsure"
    if log_odds >= rule.spam_threshold - ROUNDING:
        return "spam"
    if log_odds <= rule.ham_threshold + ROUNDING:
        return "ham"
    return "unsure"
