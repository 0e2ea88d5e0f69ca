"""The kernels of the event models equal a few plain lines, bit for bit."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from app.kernels import likelihood

K = 2
COUNTS = st.lists(st.tuples(*[st.integers(0, 9)] * K), max_size=8)
RULES = st.sampled_from(
    [
        (likelihood.ADDED, 1.0),
        (likelihood.ADDED, 0.02),
        (likelihood.REPLACED, 1e-6),
        (likelihood.REPLACED, 0.0),
    ]
)


def log(x):
    """Return the logarithm, of zero as well."""
    return math.log(x) if x else -math.inf


def share(rule, count, total, n_values):
    """Return a smoothed probability."""
    kind, parameter = rule
    if kind == likelihood.ADDED:
        return (count + parameter) / (total + parameter * n_values)
    return count / total if count else parameter


def table(rows):
    """Return counts (n, K)."""
    return np.array(rows, np.int64).reshape(-1, K)


def sums_from(levels):
    """Return the sums of levels, those of all of them first, as one array."""
    return np.add.accumulate(levels)[::-1].copy()


def constant_of(values):
    """Return an array that is read only, as those of a profile are.

    A kernel is compiled anew for arrays of another kind, which takes seconds.
    """
    array = np.array(values)
    array.flags.writeable = False
    return array


def require_total(constant, terms, total):
    """Check the sum that a kernel gives of its terms."""
    for c in range(K):
        summands = [constant[c], *terms[c]]
        if all(map(math.isfinite, summands)):
            expected = math.fsum(summands)
            assert abs(total[c] - expected) <= 2 * math.ulp(expected)
        else:
            assert -math.inf == total[c]


LEVELS = st.lists(COUNTS, min_size=1, max_size=3).map(
    # Those of the first hold those of all others.
    lambda levels: sums_from([table((level + [(0, 0)] * 8)[:8]) for level in levels])
)


FLAGS = st.lists(st.booleans(), min_size=8, max_size=8).map(np.array)


@given(
    LEVELS, RULES, st.tuples(*[st.floats(0, 1)] * K), st.booleans(), st.none() | FLAGS
)
def test_multinomial(found, rule, trust, weighted, declared):
    """A mixture of each class with all of them; what does not take part adds nothing.

    Pseudo-counts follow the frequencies, unless a vocabulary is declared.
    """
    backed = declared is None
    takes_part = np.zeros(8, np.bool_) if declared is None else declared
    totals = 1 + found.sum(axis=1)
    values = np.arange(1, 9)
    constant, terms, seen, sums = likelihood.multinomial(
        found,
        values,
        weighted,
        totals,
        11,
        *rule,
        backed,
        np.tile(trust, (3, 1)),
        takes_part,
    )
    assert (found[0].any(axis=1) | takes_part).tolist() == seen.tolist()
    for level in reversed(range(len(found))):
        expected = np.zeros((K, 8))
        overall = totals[level].tolist()
        for i, row in enumerate(found[level].tolist()):
            if not (any(row) or takes_part[i]):
                continue
            spread = sum(overall) / sum(row) if backed else 11
            whole = share(rule, sum(row), sum(overall), spread)
            for c in range(K):
                own = share(rule, row[c], overall[c], spread)
                term = log(trust[c] * own + (1.0 - trust[c]) * whole)
                expected[c, i] = term * (values[i] if weighted else 1)
        require_total(constant, expected, sums[level])
    assert expected.tolist() == terms.tolist()


@given(LEVELS, st.tuples(*[st.integers(0, 9)] * K), st.sampled_from([0.0025, 2.56]))
def test_differential(found, more, kappa):
    """The log of a mixture of the class's share and of none; nothing without trust."""
    messages = found.max(axis=1) + more
    constant, terms, seen, sums = likelihood.differential(found, messages, kappa)
    assert found[0].any(axis=1).tolist() == seen.tolist()
    for level in reversed(range(len(found))):
        expected = np.zeros((K, 8))
        overall = messages[level].tolist()
        for i, row in enumerate(found[level].tolist()):
            hits = [row[c] * (max(overall) / max(overall[c], 1)) for c in range(K)]
            away = (max(hits) - min(hits)) ** 2 - max(hits) * min(hits) / 4
            for c in range(K):
                if any(row) and away > 0:
                    trust = away / (sum(hits) * (sum(hits) + kappa))
                    part = row[c] / max(overall[c], 1)
                    expected[c, i] = math.log((1 - trust) + trust * K * part)
        require_total(constant, expected, sums[level])
    assert expected.tolist() == terms.tolist()


RUNS = st.sets(st.integers(0, 2**24 - 1) | st.integers(0, 200), max_size=6).map(sorted)


def with_beginnings(runs):
    """Return the ids of runs and of their beginnings, with counts."""
    return sorted(
        Counter(
            (length + 1) * 2**24 + run // 64 ** (4 - length)
            for run in runs
            for length in range(5)
        ).items()
    )


@given(st.lists(st.integers(0, 63), min_size=4, max_size=12))
def test_ring(symbols):
    """After the last symbol comes the first."""
    found = np.zeros(len(symbols), np.int64)
    likelihood.ring(np.frombuffer(bytes(symbols), np.uint8), found)
    again = [*symbols, *symbols[:3]]
    digits = [again[at : at + 4] for at in range(len(symbols))]
    assert [sum(d * 64 ** (3 - n) for n, d in enumerate(x)) for x in digits] == list(
        found
    )


@given(RUNS, st.integers(1, 3))
def test_beginnings(runs, times):
    """By length, and in order; a run counts once, however often it is there."""
    ids, counts = np.zeros((2, 5 * len(runs)), np.int64)
    repeated = np.array(runs, np.int64).repeat(times)
    size = likelihood.beginnings(repeated, ids, counts)
    found = zip(ids[:size].tolist(), counts[:size].tolist(), strict=True)
    assert with_beginnings(runs) == list(found)


@given(RUNS, st.data(), st.sampled_from([0.5, 20.0]))
def test_chain(runs, data, strength):
    """Each context is mixed with the next shorter one; the last with equal shares.

    The end of a run that is not there counts as the run of no symbol.
    """
    ids = [number for number, _ in with_beginnings(runs)]
    rows = st.tuples(*[st.integers(0, 9)] * K)
    level = st.lists(rows, min_size=len(ids), max_size=len(ids)).map(table)
    levels = data.draw(st.lists(level, min_size=1, max_size=3))
    found = sums_from(levels)
    constant, terms, seen, sums = likelihood.chain(
        np.array(ids, np.int64), found, strength
    )
    for counts, total in reversed(list(zip(found.tolist(), sums, strict=True))):
        of = dict(zip(ids, counts, strict=True))
        expected = np.zeros((K, len(ids)))
        for c in range(K):
            text = of[2**24] if ids else ()
            shares = {2**24: 1 / 64}
            for i, number in enumerate(ids[1:], 1):
                length, run = number // 2**24 - 1, number % 2**24
                context = of[length * 2**24 + run // 64]
                end = length * 2**24 + run % 64 ** (length - 1)
                own, whole = of[number][c], context[c]
                if not text[c]:
                    own, whole = sum(of[number]), sum(context)
                back = shares.get(end, 1 / 64)
                shares[number] = (own + strength * back) / (whole + strength)
                if length == 4 and any(text):
                    expected[c, i] = log(shares[number])
        require_total(constant, expected, total)
    assert expected.tolist() == terms.tolist()
    whole = [number >= 5 * 2**24 and any(found[0, 0]) for number in ids]
    assert whole == seen.tolist()


@given(st.lists(st.integers(0, 6 * 2**24) | st.integers(0, 9), max_size=9))
def test_a_chain_of_anything_is_read_within_its_arrays(ids):
    """Ids out of order, and beginnings that are missing."""
    found = np.ones((1, len(ids), K), np.int64)
    _, terms, seen, _ = likelihood.chain(np.array(ids, np.int64), found, 20.0)
    assert not terms[:, ~seen].any()


@given(COUNTS, RULES, st.lists(st.integers(0, 3), min_size=K, max_size=K), FLAGS)
def test_bernoulli(rows, rule, impossible, declared):
    """What is there and is not; what cannot be absent decides where it is."""
    messages = [max([1, *(row[c] for row in rows)]) for c in range(K)]
    absent = np.array([-1.5, -2.5])
    constant, terms, seen, total = likelihood.bernoulli(
        table(rows),
        np.array(messages),
        absent,
        np.array(impossible),
        *rule,
        declared[: len(rows)],
    )
    takes_part = [any(row) or declared[i] for i, row in enumerate(rows)]
    assert takes_part == seen.tolist()
    for c in range(K):
        left = impossible[c]
        for i, row in enumerate(rows):
            if not takes_part[i]:
                assert 0.0 == terms[c, i]
                continue
            present = share(rule, row[c], messages[c], 2)
            without = share(rule, messages[c] - row[c], messages[c], 2)
            if not without and impossible[c]:
                left, without = left - 1, 1.0
            expected = log(present) - log(without) if without else math.inf
            assert expected == terms[c, i]
        assert (-math.inf if left > 0 else absent[c]) == constant[c]
    if not np.isposinf(terms).any():
        require_total(constant, terms, total[0])


@given(
    st.lists(st.tuples(st.integers(0, 5), st.booleans(), *[st.integers(0, 9)] * K)),
    RULES,
)
def test_categorical(rows, rule):
    """Each value by the values of its own field."""
    fields = np.array([row[0] for row in rows], np.int64)
    known, totals, n_values = np.array([1, 3]), table([(20, 9), (9, 9)]), [4, 2]
    constant, terms, seen, total = likelihood.categorical(
        table([row[2:] for row in rows]),
        fields,
        known,
        totals,
        np.array(n_values),
        *rule,
        np.array([row[1] for row in rows], np.bool_),
    )
    assert [any(row[1:]) for row in rows] == seen.tolist()
    for i, (field, declared, *counts) in enumerate(rows):
        place = int(known.searchsorted(field))
        for c in range(K):
            if not (declared or any(counts)) or place == 2:
                assert 0.0 == terms[c, i]
                continue
            of_field = int(totals[place, c]), n_values[place]
            assert log(share(rule, counts[c], *of_field)) == terms[c, i]
    require_total(constant, terms, total[0])


@given(st.dictionaries(st.integers(0, 5), st.integers(-(2**40), 2**40)))
def test_gaussian(values):
    """The log of a normal density for each field that takes part."""
    ids = sorted(values)
    means, variances = np.array([[0.5, 2.0], [-1.0, 3.0]]), np.array([[1, 2], [3, 4.0]])
    constant, terms, seen, total = likelihood.gaussian(
        np.array(ids, np.int64),
        np.array([values[i] for i in ids], np.int64),
        0.5,
        np.array([1, 4]),
        means,
        variances,
    )
    assert [i in {1, 4} for i in ids] == seen.tolist()
    for at, i in enumerate(ids):
        for c in range(K):
            if i not in {1, 4}:
                assert 0.0 == terms[c, at]
                continue
            variance = variances[int(i == 4), c]
            away = values[i] * 0.5 - means[int(i == 4), c]
            expected = math.log(2 * math.pi) + math.log(variance)
            assert -0.5 * (expected + away * away / variance) == terms[c, at]
    require_total(constant, terms, total[0])


JOINTS = st.lists(st.floats(-1e6, 1e6) | st.just(-math.inf), min_size=3, max_size=3)


@given(st.lists(JOINTS, min_size=1, max_size=4))
def test_posteriors_and_odds(rows):
    """Posteriors sum to one; what is impossible everywhere is a tie."""
    joints, spam = np.array(rows), constant_of([False, True, True])
    posteriors = likelihood.log_posteriors(joints)
    odds = likelihood.posterior_odds(posteriors, spam)
    for row, found, ratio in zip(rows, posteriors.tolist(), odds.tolist(), strict=True):
        best = max(row)
        away = [x - best if best > -math.inf else 0.0 for x in row]
        others = sorted(map(math.exp, away))[:-1]
        expected = [x - math.log1p(math.fsum(others)) for x in away]
        assert np.allclose(expected, found, rtol=1e-14, atol=1e-15)
        on_spam = np.logaddexp(found[1], found[2])
        assert np.allclose(on_spam - found[0], ratio, rtol=1e-13, equal_nan=True)


@given(
    st.integers(1, 3),
    st.lists(st.tuples(*[st.floats(-1e3, 1e3)] * 3 * K), min_size=2, max_size=4),
    st.tuples(*[st.floats(-2, 2)] * 9),
)
def test_verdict(levels, said, weights):
    """The terms, normalised and weighed, on top of what the verdict adds."""
    likelihoods = np.array(said).reshape(-1, 3, K)[:, :levels].copy()
    prior, offsets = np.array([-0.5, -1.0]), np.arange(0.25, 6.0).reshape(3, K)
    worth, spam = np.array(weights).reshape(3, 3), constant_of([False, True])
    factors, rows = worth[::-1] + 0.5, constant_of([1, 0, 1])
    evidence, posteriors, odds = likelihood.verdict(
        likelihoods, prior, rows, factors, worth, offsets, spam
    )
    joints = [*likelihoods[:, 0] + prior]
    for level in range(levels):
        expected = likelihoods[rows, level] * factors[level][:, np.newaxis]
        assert level or np.array_equal(expected, evidence)
        joint = offsets[level].copy()
        for weight, row in zip(worth[level], expected, strict=True):
            joint += weight * row
        joints.append(joint)
    assert np.array_equal(likelihood.log_posteriors(np.array(joints)), posteriors)
    assert np.array_equal(likelihood.posterior_odds(posteriors, spam), odds)


@given(
    st.lists(st.tuples(*[st.floats(-9, 9)] * K, st.booleans()), max_size=6),
    st.integers(-2, 8),
    st.tuples(*[st.floats(-2, 2)] * K),
)
def test_attribute(features, start, weights):
    """Each feature adds its terms, weighed; beyond the last, nothing is added."""
    terms = np.array([row[:K] for row in features], float).reshape(-1, K).T.copy()
    seen = np.array([row[K] for row in features], np.bool_)
    added, known = np.arange(3.0), np.array([True, False, False])

    behind = likelihood.attribute(terms, seen, start, np.array(weights), added, known)

    begin = max(start, 0)
    assert begin + 3 == behind
    for i in range(3):
        there = features[begin + i : begin + i + 1]
        more = [row[0] * weights[0] + row[1] * weights[1] for row in there]
        assert i + sum(more) == added[i]
        assert (not i or any(row[K] for row in there)) == known[i]
