"""Scoring: the posterior and the verdict of an observation."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from app.bayes.posterior import log_posterior, probability_of
from app.classifier.verdict import ROUNDING, Decision, Verdict, ViewScore
from app.kernels import likelihood

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from app.bayes.sparse import SparseCounts
    from app.classifier.rule import VerdictRule
    from app.classifier.snapshot import Scorer


def score(snapshot: Scorer, views: Mapping[str, SparseCounts]) -> Verdict:
    r"""Return the verdict of a snapshot on the features of a message.

    Notes
    -----
    Only the classifiers in `Specification.deciding` are used.  With more than two
    labels, the verdict is between wanted mail and spam, by the counts of all labels of
    a side together; the labels of a side then divide its probability in proportion to
    their posteriors (experiment 0112).

    Let :math:`f_{tic}` be the log-likelihood of feature *i* in class *c* for the
    classifier of term *t*, :math:`g_t` the factor of its normaliser for this message,
    :math:`w_t` and :math:`b_c` the weights of the fusion, and :math:`r_t` the factor
    that compensates for views which have learned less than others
    (`app.classifier.snapshot`).  The verdict's joint is

    .. math:: J_c = \log \pi_c + b_c
        + \sum_t r_t \, w_t \, g_t \sum_i f_{tic}

    `app.classifier.rule.VerdictRule` gives the reasons.
    """
    sides = _scored(snapshot.sides, views)
    if snapshot.sides is snapshot:
        return sides
    labels = _scored(snapshot, views)
    spam = snapshot.specification.spam_mask
    posterior, *of_views = _within_sides(
        [labels.log_posterior, *(each.log_posterior for each in labels.views.values())],
        [sides.log_posterior, *(each.log_posterior for each in sides.views.values())],
        spam,
    )
    return replace(
        sides,
        label=int(posterior.argmax()),
        log_posterior=posterior,
        views={
            name: replace(each, log_posterior=of_view)
            for (name, each), of_view in zip(sides.views.items(), of_views, strict=True)
        },
    )


def _within_sides(
    labels: Sequence[NDArray[np.float64]],
    sides: Sequence[NDArray[np.float64]],
    spam: NDArray[np.bool_],
) -> NDArray[np.float64]:
    """Divide the probability of each side among its labels, shape (n, K).

    Parameters
    ----------
    labels, sides : sequence of n ndarrays of float64, shapes (K,) and (2,)
        Log-posteriors of the labels and of the sides.
    """
    found = np.array(labels)
    for side, mask in enumerate((~spam, spam)):
        found[:, mask] = log_posterior(found[:, mask])
        found[:, mask] += np.array(sides)[:, side, np.newaxis]
    return found


def _scored(snapshot: Scorer, views: Mapping[str, SparseCounts]) -> Verdict:
    """Return the verdict between the classes of a scorer."""
    specification = snapshot.specification
    models = specification.classifiers
    parts = {
        name: snapshot.likelihood(name).contributions(models[name].features(views))
        for name in specification.deciding
    }
    terms = specification.verdict.terms
    raised, weights, added = snapshot.rows
    sums = {name: part.totals.tolist() for name, part in parts.items()}
    factors = [
        [
            term.normaliser.factor(
                parts[term.classifier].seen.size, sums[term.classifier][level]
            )
            for term in terms
        ]
        for level in range(len(raised))
    ]
    evidence, posteriors, odds = likelihood.verdict(
        np.array([*sums.values()]),
        snapshot.log_prior,
        specification.places,
        raised * factors,
        weights,
        added,
        specification.spam_mask,
    )
    last = len(parts)
    each = odds.tolist()
    log_odds = each[last]
    said = {
        name: ViewScore(
            event_model=models[name].event_model_name,
            log_posterior=posteriors[place],
            log_odds=each[place],
            features=part.known,
        )
        for place, (name, part) in enumerate(parts.items())
    }
    # Any text has grams, even one of new words.
    known = any(
        said[term.classifier].features
        for term in terms
        if not models[term.classifier].learns_errors
    )
    return Verdict(
        # Without evidence for either side, the prior alone must not decide.
        decision=decide(specification.verdict, log_odds) if known else "unsure",
        label=int(posteriors[last].argmax()),
        probability=probability_of(log_odds),
        log_odds=log_odds,
        log_posterior=posteriors[last],
        views=said,
        evidence=evidence,
        log_prior=snapshot.verdict_log_prior,
        parts=parts,
        factors=factors[0],
        above=each[last + 1 :],
    )


def decide(rule: VerdictRule, log_odds: float) -> Decision:
    """Return the decision for log-odds by the thresholds of a rule."""
    if log_odds >= rule.spam_threshold - ROUNDING:
        return "spam"
    if log_odds <= rule.ham_threshold + ROUNDING:
        return "ham"
    return "unsure"
