"""Scoring: the posterior and the verdict of an observation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from app.bayes.posterior import probability_of
from app.classifier.verdict import ROUNDING, Decision, Verdict, ViewScore
from app.kernels import likelihood

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.bayes.sparse import SparseCounts
    from app.classifier.rule import VerdictRule
    from app.classifier.snapshot import Scorer


def score(snapshot: Scorer, views: Mapping[str, SparseCounts]) -> Verdict:
    r"""Return the verdict of a snapshot on the features of a message.

    Notes
    -----
    Only the classifiers in `Specification.deciding` are used.

    Let :math:`f_{tic}` be the log-likelihood of feature *i* in class *c* for the
    classifier of term *t*, :math:`g_t` the factor of its normaliser for this message,
    :math:`w_t` and :math:`b_c` the weights of the fusion, and :math:`r_t` the factor
    that compensates for views which have learned less than others
    (`app.classifier.snapshot`).  The verdict's joint is

    .. math:: J_c = \log \pi_c + b_c
        + \sum_t r_t \, w_t \, g_t \sum_i f_{tic}

    `app.classifier.rule.VerdictRule` gives the reasons.
    """
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
