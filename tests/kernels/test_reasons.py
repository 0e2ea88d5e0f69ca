"""The kernels of reasons equal a few plain lines, and stay inside their arrays."""

from __future__ import annotations

from itertools import chain, pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from app.features.observation import FeatureNames, ids_of
from app.kernels import reasons as kernel

LINKS, TRICKS, HEADERS, WORDS, PAIRS = range(5)
TAGS = np.array([ids_of(["link", "trick", "random"]), [LINKS, TRICKS, TRICKS]])
PLACES = ((HEADERS, kernel.TAGGED), (WORDS, kernel.WORDS), (PAIRS, kernel.PAIRS))
PARTS = 3

worth = st.sampled_from([-2.0, -1.0, -0.0, 0.0, 0.5, 1.0, 2.0, np.inf, np.nan])
tagged = st.sampled_from(
    ["link:x.example", "link:.a.x.example", "link:x..example.", "link:path",
     "link:a.b.c", "random:2", "trick:mixed", "trick:", "odd:word"],
)  # fmt: skip
headers = st.sampled_from(["from:a", "from:b", "to:a", "to:", "from", ":", "a"])
letters = st.lists(st.sampled_from("abcdefg"), max_size=30)
numbers = st.lists(st.integers(-3, 12), max_size=40)


def plain_rows(pairs, most):
    """Return the rows of more than one word."""
    rows = {word: [word] for pair in pairs for word in pair}
    for one, other in pairs:
        before = next((row for row in rows.values() if row[-1] == one), None)
        after = rows.get(other)
        if before and after and before is not after and len(before + after) <= most:
            rows[before[0]] = before + after
            del rows[other]
    return [row for row in rows.values() if len(row) > 1]


def plain_key(view, name):
    """Return the family of a name, and what else makes it one reason with others."""
    tag, colon, word = name.partition(":")
    if view == HEADERS:
        return HEADERS, tag
    if view == WORDS and colon and tag in {"trick", "random"}:
        return TRICKS, ""
    if view == WORDS and colon and tag == "link":
        labels = word.strip(".").rsplit(".", 2)[-2:]
        return LINKS, ".".join(labels) if len(labels) > 1 else ""
    return view, name


def plain(known, values, joins, most):
    """Return the first feature of the reason of each, and the rows of words."""
    keys = [plain_key(view, name) for view, name in known]
    reason = [keys.index(key) for key in keys]
    ends, sound = {}, []
    for pair, (view, name) in enumerate(known):
        if view == PAIRS:
            ends[pair] = [
                keys.index((WORDS, word)) if (WORDS, word) in keys else -1
                for word in name.split(" ")
            ]
            if all(at >= 0 and values[at] * values[pair] > 0 for at in ends[pair]):
                sound.append(pair)
    sound.sort(key=lambda pair: -abs(values[pair]))
    rows = plain_rows([ends[pair] for pair in sound[:joins]], most)
    for row in rows:
        for word in row:
            reason[word] = row[0]
    for pair, (one, other) in ends.items():
        owner = max(one, other)
        if min(one, other) >= 0:
            owner = one if abs(values[one]) >= abs(values[other]) else other
        reason[pair] = reason[owner] if owner >= 0 else pair
    return keys, reason, rows


@given(
    st.lists(headers, unique=True),
    st.lists(tagged, unique=True),
    letters,
    st.data(),
    st.tuples(st.integers(0, 9), st.integers(1, 6), st.integers(0, 4)),
    st.sampled_from([-1.5, 0.0, 1.5]),
)
def test_features_are_grouped_and_the_strongest_are_listed(
    of_header, of_tag, read, data, bounds, prior
):
    """By their names and by what each adds; those never seen are left out."""
    joins, most, strongest = bounds
    names = {
        HEADERS: of_header,
        # Some words have no name of their own in the pairs, and some pairs no words.
        WORDS: data.draw(st.permutations([*of_tag, *sorted({*read[1:]})])),
        PAIRS: sorted({f"{one} {other}" for one, other in pairwise(read)}),
    }
    size = sum(map(len, names.values()))
    added = data.draw(st.lists(worth, min_size=size, max_size=size))
    seen = data.draw(st.lists(st.booleans(), min_size=size, max_size=size))
    keys, values = np.empty((4, sum(seen)), np.int64), np.empty(sum(seen))
    start = count = begin = 0
    for view, how in PLACES:
        text = FeatureNames.of(names[view], 1 + (view == PAIRS))
        here = slice(start, start := start + len(names[view]))
        begin, count = count, kernel.keyed(
            np.frombuffer(text.text, np.uint8), text.bounds, text.at, how, view, TAGS,
            np.array(seen[here], np.bool_), np.array(added[here]), count, keys, values,
        )  # fmt: skip
    families, totals = np.empty((2, 5)), np.empty(count)
    listed = np.empty((2 * strongest, most + PARTS), np.int64)
    room = np.empty((kernel.LINES, max(256, 2 * count)), np.int64)
    rest, left, size = kernel.grouped(
        keys, values, begin, count, joins, most, prior, families, totals, listed, room
    )

    every = [(view, name) for view, _ in PLACES for name in names[view]]
    known = [name for name, was in zip(every, seen, strict=True) if was]
    worths = [each for each, was in zip(added, seen, strict=True) if was]
    plain_keys, reason, rows = plain(known, worths, joins, most)
    sums = np.zeros(count)
    for at, value in zip(reason, worths, strict=True):
        sums[at] += value
    overall = prior
    for value in worths:
        overall += value
    order = [at for at in range(count) if abs(sums[at]) > 0]
    order.sort(key=lambda at: -abs(sums[at]))
    sides = [[at for at in order if (sums[at] < 0) == (overall < 0)]]
    sides += [[at for at in order if at not in sides[0]]]
    sides = [side[:strongest] for side in sides]
    expected = []
    for at in [at for side in sides for at in [*side, *[-1] * strongest][:strongest]]:
        strong = [n for n, other in enumerate(reason) if other == at]
        strong.sort(key=worths.__getitem__, reverse=bool(at >= 0 and sums[at] > 0))
        words = next((row for row in rows if row[0] == at), [at])
        expected.append(
            [*words, *[-1] * most][:most] + [*strong, *[-1] * PARTS][:PARTS]
        )

    assert reason == room[kernel.REASON, :count].tolist()
    assert [reason.count(at) for at in range(count)] == room[
        kernel.SIZE, :count
    ].tolist()
    assert sums.tobytes() == totals.tobytes() or np.isnan(sums).any()
    of_family = [family for family, _ in plain_keys]
    assert [of_family.count(n) for n in range(5)] == families[1].tolist()
    assert all(
        np.array_equal(
            sum(v for v, f in zip(worths, of_family, strict=True) if f == n),
            families[0, n],
            equal_nan=True,
        )
        for n in range(5)
    )
    if not np.isnan(worths).any():
        others = [at for at in range(count) if at not in {*chain(*sides)}]
        chosen = room[kernel.CHOSEN, :size].tolist()
        assert sorted({*chain(*expected)} - {-1}) == chosen
        assert expected == [[*map([*chosen, -1].__getitem__, row)] for row in listed]
        assert sum(reason.count(at) for at in others) == left
        assert np.array_equal(sums[others].sum(), rest, equal_nan=True)


@given(
    st.binary(max_size=60),
    numbers,
    numbers,
    st.lists(worth, max_size=40),
    st.tuples(*[st.integers(0, 12)] * 6),
)
def test_any_arguments_are_read_and_written_inside_the_arrays(
    data, places, more, values, sizes
):
    """Names that are nowhere, words that are not there, and rooms that are too small."""
    how, high, wide, begin, end, most = sizes
    places, more = np.array(places, np.int64), np.array(more, np.int64)
    values, seen = np.array(values, np.float64), np.arange(len(values)) % 3 > 0
    text, tags = np.frombuffer(data, np.uint8), np.resize(TAGS, (high // 4, 3))
    keys = np.resize(np.append(more, 1), (high, 4 * wide))
    into, room = np.empty(4 * wide), np.empty((high, 300 if most % 2 else 2), np.int64)
    count = kernel.keyed(
        text, places, more, how, wide, tags, seen, values, begin, keys, into
    )
    listed = np.empty((begin, most % 5), np.int64)
    kernel.grouped(
        keys, values, begin, 3 * end, 2 * wide, most, 0.5, np.empty((wide, 5)), into,
        listed, room,
    )  # fmt: skip

    assert 0 <= count <= into.size
    assert listed.max(initial=-1) < max(1, values.size)
