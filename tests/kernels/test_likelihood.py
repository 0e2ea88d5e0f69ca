"""The kernels of the event models equal a few plain lines, bit for bit."""

from __future__ import annotations

import math

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
    lambda levels: np.add.accumulate(
        [table((level + [(0, 0)] * 8)[:8]) for level in levels]
    )[::-1]
)


@given(LEVELS, RULES, st.booleans(), st.tuples(*[st.floats(0, 1)] * K), st.booleans())
def test_multinomial(found, rule, backed, trust, weighted):
    """A mixture of each class with all of them; what was never seen adds nothing."""
    totals = 1 + found.sum(axis=1)
    values = np.arange(1, 9)
    constant, terms, seen, sums = likelihood.multinomial(
        found, values, weighted, totals, 11, *rule, backed, np.tile(trust, (3, 1))
    )
    assert found[0].any(axis=1).tolist() == seen.tolist()
    for level in reversed(range(len(found))):
        expected = np.zeros((K, 8))
        overall = totals[level].tolist()
        for i, row in enumerate(found[level].tolist()):
            if not any(row):
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


CHAINS = st.lists(
    st.lists(
        st.tuples(*[st.tuples(*[st.integers(0, 9)] * K)] * 2 * likelihood.RUN_SYMBOLS),
        min_size=2,
        max_size=2,
    ),
    min_size=1,
    max_size=3,
)


@given(CHAINS, st.integers(0, 3), st.sampled_from([0.5, 20.0]))
def test_chain(levels, before, strength):
    """Each context is mixed with the next shorter one; the last with equal shares."""
    found = np.array(levels, np.int64)
    constant, terms, seen, sums = likelihood.chain(found, 2 + before, strength)
    for level in reversed(range(len(levels))):
        expected = np.zeros((K, 2 + before))
        for i, row in enumerate(levels[level]):
            text = row[-1]
            for c in range(K):
                share = 1 / 2**likelihood.SYMBOL_BITS
                for count, of in zip(row[-2::-2], row[::-2], strict=True):
                    own, whole = count[c], of[c]
                    if not text[c]:
                        own, whole = sum(count), sum(of)
                    share = (own + strength * share) / (whole + strength)
                expected[c, before + i] = log(share) if any(text) else 0.0
        require_total(constant, expected, sums[level])
    assert expected.tolist() == terms.tolist()
    assert [False] * before == seen[:before].tolist()
    texts = [any(any(level[i][-1]) for level in levels) for i in range(2)]
    assert texts == seen[before:].tolist()


@given(st.lists(st.integers(0, 2**24 - 1), max_size=4))
def test_contexts(runs):
    """The run, its beginning, and the same without its first symbols."""
    asked = np.zeros((len(runs), 8), np.int64)
    likelihood.contexts(np.array(runs, np.int64), asked)
    for run, row in zip(runs, asked.tolist(), strict=True):
        for length in range(4, 0, -1):
            end = run % 64**length
            assert (length + 1) * 2**24 + end == row.pop(0)
            assert length * 2**24 + end // 64 == row.pop(0)


@given(COUNTS, RULES, st.lists(st.integers(0, 3), min_size=K, max_size=K))
def test_bernoulli(rows, rule, impossible):
    """What is there and is not; what cannot be absent decides where it is."""
    messages = [max([1, *(row[c] for row in rows)]) for c in range(K)]
    absent = np.array([-1.5, -2.5])
    constant, terms, seen, total = likelihood.bernoulli(
        table(rows), np.array(messages), absent, np.array(impossible), *rule
    )
    assert [any(row) for row in rows] == seen.tolist()
    for c in range(K):
        left = impossible[c]
        for i, row in enumerate(rows):
            if not any(row):
                assert 0.0 == terms[c, i]
                continue
            present = share(rule, row[c], messages[c], 2)
            without = share(rule, messages[c] - row[c], messages[c], 2)
            if not without and impossible[c]:
                left, without = left - 1, 1.0
            expected = log(present / without) if without else math.inf
            assert expected == terms[c, i]
        assert (-math.inf if left > 0 else absent[c]) == constant[c]
    if not np.isposinf(terms).any():
        require_total(constant, terms, total[0])


@given(st.lists(st.tuples(st.integers(0, 5), *[st.integers(0, 9)] * K)), RULES)
def test_categorical(rows, rule):
    """Each value by the values of its own field."""
    fields = np.array([row[0] for row in rows], np.int64)
    known, totals, n_values = np.array([1, 3]), table([(20, 9), (9, 9)]), [4, 2]
    constant, terms, seen, total = likelihood.categorical(
        table([row[1:] for row in rows]),
        fields,
        known,
        totals,
        np.array(n_values),
        *rule,
    )
    assert [any(row[1:]) for row in rows] == seen.tolist()
    for i, (field, *counts) in enumerate(rows):
        place = int(known.searchsorted(field))
        for c in range(K):
            if not any(counts) or place == 2:
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
    joints, spam = np.array(rows), np.array([False, True, True])
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
    likelihoods = np.array(said).reshape(-1, 3, K)[:, :levels]
    prior, offsets = np.array([-0.5, -1.0]), np.arange(0.25, 6.0).reshape(3, K)
    worth, spam = np.array(weights).reshape(3, 3), np.array([False, True])
    factors, rows = worth[::-1] + 0.5, np.array([1, 0, 1])
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
