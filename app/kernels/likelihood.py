"""Log-likelihoods of the features of one message, and posteriors.

The event models have the formulas (`app.bayes.models`).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from app.kernels import compiled, in_place, inlined

if TYPE_CHECKING:
    from app.kernels import Bools, Bytes, Floats, Ints

    Apart = tuple[Floats, Floats, Bools, Floats]
    """Constant (K,), terms (K, n), which are seen (n,), and the sum of all (L, K)."""

ADDED: Final = 0
"""The rule that adds a pseudo-count to every count."""
REPLACED: Final = 1
"""The rule with a separate probability for unseen values, which may be zero."""


@inlined
def _share(
    rule: int, parameter: float, count: float, total: float, n_values: float
) -> float:
    """Return the smoothed probability of a value with a count."""
    if rule == ADDED:
        return (count + parameter) / (total + parameter * n_values)
    return count / total if count > 0 else parameter


@inlined
def _total(constant: Floats, terms: Floats) -> Floats:
    """Return a constant and the terms (L, K, n) of each class together, (L, K)."""
    levels, k, n = terms.shape
    found = np.empty((levels, k))
    for level in range(levels):
        for c in range(k):
            # Compensated summation: the error does not grow with the number of terms.
            total, lost = constant[c], 0.0
            for i in range(n):
                term = terms[level, c, i]
                added = total + term
                if abs(total) >= abs(term):
                    lost += (total - added) + term
                else:
                    lost += (term - added) + total
                total = added
            # If the sum is infinite, the compensation is NaN.
            found[level, c] = total + lost if math.isfinite(total) else total
    return found


@compiled
def multinomial(
    found: Ints,
    values: Ints,
    weighted: bool,
    totals: Ints,
    n_values: int,
    rule: int,
    parameter: float,
    by_frequency: bool,
    weights: Floats,
    declared: Bools,
) -> Apart:
    """Return what each feature adds to each class; 0 where it does not take part.

    The terms are those of the first level, which includes the counts of all others.

    Parameters
    ----------
    found : ndarray of int64, shape (L, n, K)
        Count of each feature in each class, at each level.
    values : ndarray of int64, shape (n,)
        Count of each in the message, used if `weighted`.
    totals : ndarray of int64, shape (L, K)
        Sum of the counts of each class.
    n_values : int
        Size of the vocabulary.
    rule, parameter
        The smoothing.
    by_frequency : bool
        Whether pseudo-counts are proportional to the frequency of the feature in all
        classes together, not uniform over the vocabulary.
    weights : ndarray of float64, shape (L, K)
        Weight of each class's own estimate; the rest is the weight of all classes
        together.
    declared : ndarray of bool, shape (n,)
        Which features take part even if no class has seen them.
    """
    levels, n, k = found.shape
    terms = np.zeros((levels, k, n))
    seen = np.zeros(n, np.bool_)
    for level in range(levels):
        # In floats: the sums of several classes may have more than 64 bits.
        of_all = 0.0
        for c in range(k):
            of_all += float(totals[level, c])
        for i in range(n):
            count = 0.0
            for c in range(k):
                count += float(found[level, i, c])
            if count == 0.0 and not declared[i]:
                continue
            seen[i] = True
            # Added to the count and, multiplied by this number, to the total.
            spread = of_all / count if by_frequency else float(n_values)
            whole = _share(rule, parameter, count, of_all, spread)
            for c in range(k):
                own = found[level, i, c]
                share = _share(rule, parameter, own, totals[level, c], spread)
                weight = weights[level, c]
                term = math.log(weight * share + (1.0 - weight) * whole)
                terms[level, c, i] = term * values[i] if weighted else term
    return np.zeros(k), terms[0], seen, _total(np.zeros(k), terms)


@compiled
def differential(found: Ints, messages: Ints, kappa: float) -> Apart:
    """Return the contribution of each feature to each class, by its difference.

    The terms are those of the first level, which includes the counts of all others.

    Parameters
    ----------
    found : ndarray of int64, shape (L, n, K)
        Messages of each class with each feature, at each level.
    messages : ndarray of int64, shape (L, K)
        Messages of each class.
    kappa : float
        Number of messages without the feature added to those with it.
    """
    levels, n, k = found.shape
    terms = np.zeros((levels, k, n))
    seen = np.zeros(n, np.bool_)
    for level in range(levels):
        largest = messages[level].max()
        for i in range(n):
            hits, most, least = 0.0, 0.0, math.inf
            for c in range(k):
                here = found[level, i, c] * (largest / max(messages[level, c], 1))
                hits += here
                most = max(most, here)
                least = min(least, here)
            seen[i] |= most > 0.0
            away = (most - least) * (most - least) - most * least / 4.0
            if away <= 0.0:
                continue
            trust = away / (hits * (hits + kappa))
            for c in range(k):
                share = found[level, i, c] / max(messages[level, c], 1)
                terms[level, c, i] = math.log((1.0 - trust) + trust * k * share)
    return np.zeros(k), terms[0], seen, _total(np.zeros(k), terms)


SYMBOL_BITS: Final = 6
"""Bits of a symbol of a chain."""
RUN_SYMBOLS: Final = 4
"""Symbols of a run."""
RUN_BITS: Final = SYMBOL_BITS * RUN_SYMBOLS
WHOLE_RUN: Final = (RUN_SYMBOLS + 1) << RUN_BITS
"""Added to a run for its id; its beginnings have lower ids."""


@in_place
def ring(symbols: Bytes, runs: Ints) -> None:
    """Write the run that begins at each symbol of a text, as a number.

    Parameters
    ----------
    symbols : ndarray of uint8, shape (n,)
        After the last comes the first.
    runs : ndarray of int64, shape (n,)
        Written.
    """
    n = min(symbols.size, runs.size)
    run = np.int64(0)
    for place in range(n + RUN_SYMBOLS - 1 if n else 0):
        run = (run << SYMBOL_BITS | symbols[place % n]) & ((1 << RUN_BITS) - 1)
        if place >= RUN_SYMBOLS - 1:
            runs[place - RUN_SYMBOLS + 1] = run


@in_place
def beginnings(runs: Ints, ids: Ints, counts: Ints) -> int:
    """Write the ids and counts of runs and their beginnings; return how many there are.

    Parameters
    ----------
    runs : ndarray of int64, shape (n,)
        Runs of symbols as numbers, in order; each counts once.
    ids, counts : ndarray of int64, shape (m,)
        Written, for up to (`RUN_SYMBOLS` + 1) n of them: see
        `app.bayes.models.chain.with_beginnings`.
    """
    size, most = 0, min(ids.size, counts.size)
    for length in range(RUN_SYMBOLS + 1):
        first = size
        for i in range(runs.size):
            if i > 0 and runs[i] == runs[i - 1]:
                continue
            beginning = runs[i] >> SYMBOL_BITS * (RUN_SYMBOLS - length)
            number = beginning | (length + 1) << RUN_BITS
            if size > first and ids[size - 1] == number:
                counts[size - 1] += 1
            elif size < most:
                ids[size], counts[size] = number, 1
                size += 1
    return size


@inlined
def _ones(bits: np.uint64) -> int:
    """Return the number of bits that are set.

    H. S. Warren, *Hacker's Delight*, second edition, 2012, section 5-1.
    """
    bits -= (bits >> np.uint64(1)) & np.uint64(0x5555555555555555)
    twos = np.uint64(0x3333333333333333)
    bits = (bits & twos) + ((bits >> np.uint64(2)) & twos)
    bits = (bits + (bits >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return int((bits * np.uint64(0x0101010101010101)) >> np.uint64(56))


@inlined
def _links(ids: Ints, size: int) -> tuple[Ints, Ints]:
    """Return the place of each run without its last, and without its first symbol.

    -1 where there is none.

    Runs with one more symbol than another stand side by side, so the symbols after a
    run are a set of bits, and the place of one of them is the number of bits below it:
    8 us for 950 runs, and 28 with a search.
    """
    parents, ends = np.full(size, -1), np.full(size, -1)
    first, after = np.zeros(size, np.int64), np.zeros(size, np.uint64)
    last = (1 << SYMBOL_BITS) - 1
    at = 0
    for i in range(1, size):
        length = ids[i] >> RUN_BITS
        beginning = (ids[i] & ((1 << RUN_BITS) - 1)) >> SYMBOL_BITS
        number = beginning | (length - 1) << RUN_BITS
        while at < i and ids[at] < number:
            at += 1
        if at < i and ids[at] == number:
            parents[i] = at
            if after[at] == 0:
                first[at] = i
            after[at] |= np.uint64(1) << np.uint64(ids[i] & last)
    for i in range(1, size):
        parent = parents[i]
        if parent == 0:
            ends[i] = 0
        elif parent > 0 and ends[parent] >= 0:
            end = ends[parent]
            bit = np.uint64(1) << np.uint64(ids[i] & last)
            if after[end] & bit:
                place = first[end] + _ones(after[end] & (bit - np.uint64(1)))
                ends[i] = place if place < i else -1
    return parents, ends


@compiled
def chain(ids: Ints, found: Ints, strength: float) -> Apart:
    """Return the log-probability of each last symbol; 0 where no class has any text.

    The terms are those of the first level, which includes the counts of all others.

    Parameters
    ----------
    ids : ndarray of int64, shape (n,)
        Runs and their beginnings, strictly increasing.
    found : ndarray of int64, shape (L, n, K)
        Count of each of them in each class, at each level.
    strength : float
        Weight of the distribution after one symbol less.
    """
    levels, n, k = found.shape
    terms = np.zeros((levels, k, n))
    seen = np.zeros(n, np.bool_)
    size = min(n, ids.size)
    if size == 0 or ids[0] != 1 << RUN_BITS:
        return np.zeros(k), terms[0], seen, _total(np.zeros(k), terms)
    parents, ends = _links(ids, size)
    shares = np.empty(size)
    for level in range(levels):
        texts = 0
        for c in range(k):
            texts += found[level, 0, c]
        for c in range(k if texts else 0):
            # Of all classes together, where a class has no text.
            begin, end = (c, c + 1) if found[level, 0, c] else (0, k)
            shares[0] = 1.0 / (1 << SYMBOL_BITS)
            for i in range(1, size):
                count, of = 0, 0
                for other in range(begin, end):
                    count += found[level, i, other]
                    of += found[level, max(parents[i], 0), other]
                back = shares[max(ends[i], 0)]
                shares[i] = (count + strength * back) / (of + strength)
                if ids[i] >= WHOLE_RUN and parents[i] >= 0:
                    seen[i] = True
                    terms[level, c, i] = math.log(shares[i])
    return np.zeros(k), terms[0], seen, _total(np.zeros(k), terms)


@compiled
def bernoulli(
    found: Ints,
    messages: Ints,
    absent: Floats,
    impossible: Ints,
    rule: int,
    parameter: float,
    declared: Bools,
) -> Apart:
    """Return the constant of each class, and the contribution of each feature.

    Parameters
    ----------
    found : ndarray of int64, shape (n, K)
        Messages of each class with each feature.
    messages : ndarray of int64, shape (K,)
        Messages of each class.
    absent : ndarray of float64, shape (K,)
        Log-probability that all features are absent, without the impossible terms.
    impossible : ndarray of int64, shape (K,)
        Number of features that cannot be absent.
    rule, parameter
        The smoothing.
    declared : ndarray of bool, shape (n,)
        Which of them take part even if no class has seen them.
    """
    n, k = found.shape
    constants = absent.copy()
    terms = np.zeros((k, n))
    seen = declared.copy()
    for i in range(n):
        for c in range(k):
            seen[i] |= found[i, c] > 0
    for c in range(k):
        left = impossible[c]
        for i in range(n):
            if not seen[i]:
                continue
            having = found[i, c]
            present = _share(rule, parameter, having, messages[c], 2)
            without = _share(rule, parameter, messages[c] - having, messages[c], 2)
            if without == 0.0 and impossible[c] > 0:
                # The message has one of the features that cannot be absent.
                left -= 1
                without = 1.0
            # Not the log of the ratio, which overflows for an epsilon of 1e-310.
            terms[c, i] = math.log(present) - math.log(without)
        if left > 0:
            constants[c] = -math.inf
    return constants, terms, seen, _total(constants, terms.reshape(1, k, n))


@compiled
def categorical(
    found: Ints,
    fields: Ints,
    known: Ints,
    totals: Ints,
    n_values: Ints,
    rule: int,
    parameter: float,
    declared: Bools,
) -> Apart:
    """Return what each value adds to each class; 0 where it does not take part.

    Parameters
    ----------
    found : ndarray of int64, shape (n, K)
        Messages of each class that have each value.
    fields : ndarray of int64, shape (n,)
        The field of each value.
    known : ndarray of int64, shape (F,)
        The fields that training has seen, or that are declared, increasing.
    totals : ndarray of int64, shape (F, K)
        Messages of each class that have the field.
    n_values : ndarray of int64, shape (F,)
        Values of the field that training has seen, or that are declared.
    rule, parameter
        The smoothing.
    declared : ndarray of bool, shape (n,)
        Which of them take part even if no class has seen them.
    """
    n, k = found.shape
    terms = np.zeros((k, n))
    seen = declared.copy()
    for i in range(n):
        for c in range(k):
            seen[i] |= found[i, c] > 0
        field = np.searchsorted(known, fields[i])
        if not seen[i] or field == known.size:
            continue
        for c in range(k):
            share = _share(
                rule, parameter, found[i, c], totals[field, c], n_values[field]
            )
            terms[c, i] = math.log(share)
    return np.zeros(k), terms, seen, _total(np.zeros(k), terms.reshape(1, k, n))


@compiled
def gaussian(
    ids: Ints, values: Ints, step: float, known: Ints, means: Floats, variances: Floats
) -> Apart:
    """Return the contribution of each field to each class; 0 for unused fields.

    Parameters
    ----------
    ids, values : ndarray of int64, shape (n,)
        The fields of the message, and their values in steps.
    step : float
        Size of a step.
    known : ndarray of int64, shape (D,)
        The used fields, increasing.
    means, variances : ndarray of float64, shape (D, K)
        Parameters of each class.
    """
    n, k = ids.size, means.shape[1]
    terms = np.zeros((k, n))
    seen = np.zeros(n, np.bool_)
    for i in range(n):
        field = np.searchsorted(known, ids[i])
        if field == known.size or known[field] != ids[i]:
            continue
        seen[i] = True
        value = values[i] * step
        for c in range(k):
            away = value - means[field, c]
            terms[c, i] = -0.5 * (
                math.log(2 * math.pi)
                + math.log(variances[field, c])
                + away * away / variances[field, c]
            )
    return np.zeros(k), terms, seen, _total(np.zeros(k), terms.reshape(1, k, n))


@inlined
def _log_sum(values: Floats, chosen: Bools) -> float:
    """Return the log of the sum of the exponentials of some values, at least one."""
    best, place = -math.inf, -1
    for c in range(values.size):
        if chosen[c] and (place < 0 or values[c] > best):
            best, place = values[c], c
    if best == -math.inf:
        return best
    # Of the other values only: the log of a sum just above 1 would lose digits.
    others = 0.0
    for c in range(values.size):
        if chosen[c] and c != place:
            others += math.exp(values[c] - best)
    return best + math.log1p(others)


@compiled
def log_posteriors(joints: Floats) -> Floats:
    """Return the log-posterior of each row of log-joints, shape (V, K)."""
    v, k = joints.shape
    found = np.empty((v, k))
    every = np.ones(k, np.bool_)
    relative = np.empty(k)
    for row in range(v):
        best = joints[row].max()
        for c in range(k):
            # If all classes are impossible, they tie.
            relative[c] = joints[row, c] - best if best > -math.inf else 0.0
        # Relative to the best class, so that the log-posterior of a nearly certain
        # class is -1e-12, not 0.
        normaliser = _log_sum(relative, every)
        for c in range(k):
            found[row, c] = relative[c] - normaliser
    return found


@compiled
def posterior_odds(posteriors: Floats, spam: Bools) -> Floats:
    """Return the log-odds of the spam classes for each row of log-posteriors."""
    found = np.empty(posteriors.shape[0])
    for row in range(found.size):
        found[row] = _log_sum(posteriors[row], spam) - _log_sum(posteriors[row], ~spam)
    return found


@compiled
def verdict(
    log_likelihoods: Floats,
    log_prior: Floats,
    rows: Ints,
    factors: Floats,
    weights: Floats,
    offsets: Floats,
    spam: Bools,
) -> tuple[Floats, Floats, Floats]:
    """Return the evidence of each term, and posteriors and log-odds.

    Parameters
    ----------
    log_likelihoods : ndarray of float64, shape (V, L, K)
        Log-likelihood of each class by each classifier, at each level.
    log_prior : ndarray of float64, shape (K,)
        Log-prior for single classifiers.
    rows : ndarray of int64, shape (T,)
        The classifier of each term.
    factors, weights : ndarray of float64, shape (L, T)
        Factors of each term: for the length of the message, and its weight.
    offsets : ndarray of float64, shape (L, K)
        Constants that the verdict adds to the terms.
    spam : ndarray of bool, shape (K,)
        Which classes are spam.

    Returns
    -------
    evidence : ndarray of float64, shape (T, K)
        Each term before its weight, at the first level.
    posteriors : ndarray of float64, shape (V + L, K)
        Of each single classifier at the first level, and of the verdict at each level.
    odds : ndarray of float64, shape (V + L,)
    """
    v, levels, k = log_likelihoods.shape
    evidence = np.empty((rows.size, k))
    joints = np.empty((v + levels, k))
    for c in range(k):
        for row in range(v):
            joints[row, c] = log_likelihoods[row, 0, c] + log_prior[c]
        # The first level comes last, because its evidence is returned.
        for level in range(levels - 1, -1, -1):
            joint = offsets[level, c]
            for t in range(rows.size):
                evidence[t, c] = log_likelihoods[rows[t], level, c] * factors[level, t]
                joint += weights[level, t] * evidence[t, c]
            joints[v + level, c] = joint
    posteriors = log_posteriors(joints)
    return evidence, posteriors, posterior_odds(posteriors, spam)


@in_place
def attribute(
    terms: Floats, seen: Bools, start: int, weights: Floats, added: Floats, known: Bools
) -> int:
    """Add what some features add to log-odds, and return the place behind them.

    Not a matrix product: its last bits, and so the order of equal features, depend on
    the processor.

    Parameters
    ----------
    terms, seen : ndarray of float64, ndarray of bool, shapes (K, n) and (n,)
        As an event model gives them.
    start : int
        The first of the features.
    weights : ndarray of float64, shape (K,)
        What the term of each class is multiplied by.
    added, known : ndarray of float64, ndarray of bool, shape (m,)
        Changed: what each of them adds, and whether it has been seen.
    """
    start = max(start, 0)
    left = min(seen.size, terms.shape[1]) - start
    for i in range(min(added.size, known.size, left)):
        total = 0.0
        for c in range(min(weights.size, terms.shape[0])):
            total += terms[c, start + i] * weights[c]
        added[i] += total
        known[i] |= seen[start + i]
    return start + added.size
