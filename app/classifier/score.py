"""What does the evidence of a message come to? The posterior and the verdict."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
from scipy.special import expit

from app.bayes.batch import join
from app.bayes.measurements import Measurements
from app.bayes.posterior import log_odds, log_posterior
from app.bayes.sparse import SparseCounts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from app.bayes.likelihood import Breakdown, Contributions
    from app.classifier.snapshot import Snapshot

Decision = Literal["spam", "ham", "unsure"]

# What is at a threshold is decided, and not by the last bits: after eight spam and no
# ham the log-odds of any message are ln 9.  Unit: nats.
ROUNDING: Final = 1e-9

# A message that was seen before a view existed says nothing in that view.
_NOTHING: Final[Mapping[bool, SparseCounts | Measurements]] = {
    False: SparseCounts.of({}),
    True: Measurements.of({}),
}


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


@dataclass(frozen=True, slots=True)
class Said:
    """What the classifiers say of the features of one message.

    Parameters
    ----------
    breakdowns : mapping of str to Breakdown
        By classifier, of all the messages that were scored together.
    message : int
        Which of them.
    """

    breakdowns: Mapping[str, Breakdown]
    message: int

    def __getitem__(self, classifier: str) -> Contributions:
        """Return what a classifier says of each feature of its view."""
        return self.breakdowns[classifier].of(self.message)


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
    evidence : ndarray of float64, shape (T, K)
        What each term of the rule says of each class, normalised and before its
        weight. Unit: nats.
    log_prior : ndarray of float64, shape (K,)
        The class prior. Unit: nats.
    said : Said
        What each classifier says of each feature (`app.classifier.attribution`).
    """

    decision: Decision
    label: int
    probability: float
    log_odds: float
    log_posterior: NDArray[np.float64]
    views: Mapping[str, ViewScore]
    evidence: NDArray[np.float64]
    log_prior: NDArray[np.float64]
    said: Said = field(repr=False)


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
    (`app.classifier.share`), the verdict's joint is

    .. math:: J_c = \log \pi_c + b_c
        + r \sum_t w_t \, g_t(n) \sum_i f_{tic}

    (`app.classifier.rule.VerdictRule` says why).
    """
    specification = snapshot.specification
    joined = {
        view: join([views.get(view, _NOTHING[measures]) for views in messages])
        for view, measures in specification.views.items()
    }
    breakdowns = {
        name: snapshot.likelihoods[name].breakdown(joined[model.view])
        for name, model in specification.classifiers.items()
    }
    said = {name: each.log_likelihoods() for name, each in breakdowns.items()}
    known = {name: each.known() for name, each in breakdowns.items()}
    terms = specification.verdict.terms
    evidence = np.empty((len(messages), len(terms), specification.n_classes))
    for t, term in enumerate(terms):
        sizes = breakdowns[term.classifier].features().tolist()
        factors = np.array([term.normaliser.factor(n) for n in sizes])
        factors *= snapshot.raised
        np.multiply(said[term.classifier], factors[:, np.newaxis], out=evidence[:, t])
    joints = snapshot.fusion.weights @ evidence
    joints += snapshot.verdict_log_prior + snapshot.fusion.bias
    odds = log_odds(joints, specification.spam_mask)
    posteriors = log_posterior(joints)
    something = np.any([known[term.classifier] > 0 for term in terms], axis=0)
    by_themselves = _by_themselves(snapshot, said, known)
    return [
        Verdict(
            decision=_decide(snapshot, total, known=some),
            label=label,
            probability=probability,
            log_odds=total,
            log_posterior=posteriors[m],
            views=by_themselves[m],
            evidence=evidence[m],
            log_prior=snapshot.verdict_log_prior,
            said=Said(breakdowns, m),
        )
        for m, (label, total, probability, some) in enumerate(
            zip(
                joints.argmax(axis=1).tolist(),
                odds.tolist(),
                expit(odds).tolist(),
                something.tolist(),
                strict=True,
            )
        )
    ]


def _by_themselves(
    snapshot: Snapshot,
    said: Mapping[str, NDArray[np.float64]],
    known: Mapping[str, NDArray[np.int64]],
) -> list[dict[str, ViewScore]]:
    """Return what each classifier says by itself: prior and likelihood."""
    classifiers = snapshot.specification.classifiers
    names = [(name, classifiers[name].event_model_name) for name in said]
    joints = np.stack([*said.values()], axis=1)
    joints += snapshot.log_prior
    posteriors = log_posterior(joints)
    odds = log_odds(joints, snapshot.specification.spam_mask).tolist()
    features = np.stack([*known.values()], axis=1).tolist()
    return [
        {
            name: ViewScore(
                event_model=event_model,
                log_posterior=posteriors[m, v],
                log_odds=odds[m][v],
                features=features[m][v],
            )
            for v, (name, event_model) in enumerate(names)
        }
        for m in range(len(posteriors))
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
