"""Shading: places add up to the verdict, and what is strong is dark."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.classifier.explain import attribute
from app.classifier.learn import delta
from app.classifier.shading import STEPS, shade
from app.classifier.snapshot import Snapshot, score
from app.classifier.specification import Specification
from app.features.extract import extract
from app.features.id_key import IdKey
from app.features.places import passages, placed
from app.mail.parse import parse
from tests.support.messages import ham, spam

LETTER = (
    b"From: Winner <win@prizes.example>\nSubject: Your free prize\n\n"
    b"Claim your free money! free free\n\nShall we meet at noon? The agenda "
)
TAUGHT = ["free", "money", "noon", "agenda", "unheard", "\u0430ccount", "\u200b"]


def learned(specification, n=6):
    """Return the snapshot after so many ham and as many spam."""
    snapshot = Snapshot.empty(specification)
    for at in range(n):
        for label, raw in enumerate((ham(at), spam(at))):
            seen = extract(parse(raw), specification.views).keyed(specification.key)
            moved = delta(seen.views, before=None, after=label, n_classes=2)
            snapshot.learn(moved, revision=snapshot.revision + 1)
    return snapshot


SHIPPED = learned(Specification())


def shaded(raw, snapshot=SHIPPED, *, most=100):
    """Return the verdict on a message and its shading."""
    specification = snapshot.specification
    message = parse(raw)
    seen = extract(message, specification.views).keyed(specification.key)
    verdict = score(snapshot, seen.views)
    places = passages(message)
    added = attribute(verdict, snapshot)
    found = shade(
        places,
        placed(places),
        seen,
        added,
        snapshot.in_messages,
        key=specification.key,
        most=most,
    )
    return verdict, found


def segments(found):
    """Return all segments in a row."""
    return [each for passage in found.passages for each in passage.segments]


@given(st.lists(st.sampled_from(TAUGHT), max_size=30), st.integers(0, 9))
def test_places_add_up_to_the_verdict(words, most):
    """However many segments are shaded: all that is added is added somewhere."""
    raw = b"Subject: free noon\nFrom: ann@example.org\n\n" + " ".join(words).encode()
    verdict, found = shaded(raw, most=most)

    assert math.isclose(verdict.log_odds, found.log_odds, abs_tol=1e-9)
    assert most >= sum(each.shade != 0 for each in segments(found))


@given(st.text(max_size=80), st.integers(0, 9))
def test_segments_are_the_text(text, most):
    """Every character once, in order."""
    message = parse(b"\nfree " + text.encode())
    _, found = shaded(b"\nfree " + text.encode(), most=most)

    assert [
        "".join(piece.text for piece in passage.pieces) for passage in passages(message)
    ] == ["".join(each.text for each in passage.segments) for passage in found.passages]


def test_a_word_of_spam_is_dark_on_its_side():
    """A ham word is dark on the other side; both show their message counts."""
    _, found = shaded(LETTER)
    by_text = {each.text: each for each in segments(found)}
    free, noon = by_text["free"], by_text["noon?"]

    assert free.shade > 0 > noon.shade
    assert "free" in [each["feature"] for each in free.features]
    (feature,) = [each for each in free.features if each["feature"] == "free"]
    assert (4, {"ham": 0, "spam": 4}) == (feature["places"], feature["messages"])


def test_a_shade_is_the_strength_beside_the_strongest_piece():
    """A step darker from each share of it on, by all that its features add."""
    shown = [
        (each.shade, sum(feature["log_odds"] for feature in each.features))
        for each in segments(shaded(LETTER)[1])
        if each.shade
    ]
    strongest = max(abs(strength) for _, strength in shown)

    assert {1, 2, 3} == {abs(steps) for steps, _ in shown}
    for steps, strength in shown:
        darker = sum(abs(strength) >= step * strongest for step in STEPS)
        assert math.copysign(darker, strength) == steps


def test_a_word_in_several_places_adds_the_same_part_in_each():
    """Each occurrence is equally dark."""
    _, found = shaded(b"\nfree free money")
    one, other = [each for each in segments(found) if each.text == "free"]

    assert one == other
    assert pytest.approx(one.features[0]["log_odds"]) == 2 * one.log_odds


def test_words_that_nobody_taught_are_not_shaded():
    """Untaught words and the blanks around them are one segment."""
    _, found = shaded(b"\nquite unheard words")

    assert [("quite unheard words", 0, ())] == [
        (each.text, each.shade, each.features) for each in segments(found)
    ]


def test_an_untaught_filter_shades_nothing():
    """Nothing is known, so nothing adds."""
    verdict, found = shaded(LETTER, Snapshot.empty(Specification()))

    assert math.isclose(verdict.log_odds, found.log_odds, abs_tol=1e-9)
    assert {0} == {each.shade for each in segments(found)}


def test_keyed_ids_are_found_at_their_places():
    """Without stored words, a text that somebody provides still shows them."""
    keyed = learned(Specification(key=IdKey(bytes(range(16)))))
    _, found = shaded(LETTER, keyed)
    _, open_ = shaded(LETTER)

    assert [(each.text, each.shade) for each in segments(open_)] == [
        (each.text, each.shade) for each in segments(found)
    ]


def test_features_without_names_are_shown_by_their_id():
    """Such features are shown by their id, as in explanations."""
    message = parse(b"\nfree")
    seen = extract(message, SHIPPED.specification.views)
    added = attribute(score(SHIPPED, seen.views), SHIPPED)
    places = passages(message)
    count = SHIPPED.in_messages
    found = shade(places, placed(places), seen.stored(words=False), added, count)

    assert "#" == segments(found)[0].features[0]["feature"][0]
