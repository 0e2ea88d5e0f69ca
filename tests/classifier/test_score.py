"""The verdict, and the list of reasons that adds up to it."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.bayes.models import Product
from app.bayes.models.discrete import Bernoulli, Multinomial
from app.bayes.posterior import log_odds
from app.bayes.sparse import SparseCounts
from app.classifier.explain import attribute, explain
from app.classifier.learn import delta
from app.classifier.rule import (
    ShrunkenMean,
    Term,
    VerdictRule,
    terms_of,
)
from app.classifier.snapshot import Snapshot, score
from app.classifier.specification import Specification, ViewModel
from app.errors import InconsistentCounts
from app.features.extract import extract
from app.features.observation import Observation
from app.mail.parse import parse
from tests.support.builders import Root, Whole
from tests.support.messages import ham, spam

WORDS = {"words": ViewModel(view="words", event_model=Multinomial())}
BY_WORDS = VerdictRule(terms=(Term(classifier="words", normaliser=Root()),))
TWO = Specification(classifiers=WORDS, verdict=BY_WORDS)
THREE = Specification(
    labels=("ham", "spam", "phishing"),
    spam_labels=("spam", "phishing"),
    classifiers=WORDS,
    verdict=BY_WORDS,
)
# Words in two ways and by two event models, and a second view.
MANY = Specification(
    labels=("ham", "spam", "phishing"),
    spam_labels=("spam", "phishing"),
    classifiers={
        "words": WORDS["words"],
        "bernoulli": ViewModel(view="words", event_model=Bernoulli()),
        "pairs": ViewModel(view="pairs", event_model=Multinomial()),
    },
    verdict=VerdictRule(
        terms=(
            Term(classifier="words", normaliser=Root(), weight=0.5),
            Term(classifier="words", normaliser=ShrunkenMean(3.0), weight=2.0),
            Term(classifier="bernoulli", normaliser=ShrunkenMean(9.0), weight=-0.25),
            Term(classifier="pairs"),
        )
    ),
)

messages = st.dictionaries(st.integers(0, 12), st.integers(1, 9), max_size=8).map(
    SparseCounts.of
)


def viewed(x):
    """Return the same features in two views, the second without the first."""
    return {"words": x, "pairs": SparseCounts(x.ids[1:], x.counts[1:])}


def taught(specification, history):
    """Return the snapshot of a history of (message, class)."""
    snapshot = Snapshot.empty(specification)
    for revision, (x, label) in enumerate(history, 1):
        moved = delta(
            viewed(x),
            before=None,
            after=label % specification.n_classes,
            n_classes=specification.n_classes,
        )
        snapshot.learn(moved, revision=revision)
    return snapshot


def observation(x, names=()):
    """Return an observation; only words may have names."""
    return Observation(bytes(16), 1, viewed(x), {"words": names} if names else {})


specifications = st.sampled_from([TWO, THREE, MANY])
histories = st.lists(st.tuples(messages, st.integers(0, 5)), max_size=8)


@given(specifications, histories, messages, st.integers(0, 10))
def test_the_explanation_adds_up_to_the_log_odds(specification, history, x, strongest):
    """Prior, listed features and rest sum to the log-odds, for every K."""
    snapshot = taught(specification, history)
    verdict = score(snapshot, viewed(x))

    attribution = attribute(verdict, snapshot)
    found = explain(attribution, snapshot, observation(x), strongest=strongest)
    entries = found.summands

    assert math.isclose(
        verdict.log_odds, math.fsum(e.log_odds for e in entries), abs_tol=1e-9
    )
    assert math.isclose(
        verdict.log_odds, math.fsum(found.families.values()), abs_tol=1e-9
    )
    assert sum(int(seen.sum()) for seen in attribution.seen.values()) == sum(
        e.features for e in entries
    )


@given(specifications, histories, messages)
def test_log_odds_and_posterior_are_one_statement(specification, history, x):
    """The log-odds are those of the log-posterior, which sums to one."""
    verdict = score(taught(specification, history), viewed(x))

    assert math.isclose(1.0, np.exp(verdict.log_posterior).sum(), abs_tol=1e-9)
    assert math.isclose(
        verdict.log_odds,
        log_odds(verdict.log_posterior, specification.spam_mask),
        abs_tol=1e-9,
    )
    assert verdict.label == int(np.argmax(verdict.log_posterior))


@pytest.mark.parametrize("made_of", [TWO, THREE])
@pytest.mark.parametrize(
    ("away", "decision"), [(0.0, "spam"), (1e-12, "spam"), (1e-6, "unsure")]
)
def test_the_last_bits_decide_nothing(made_of, away, decision):
    """What is at the threshold is spam, however its log-odds were rounded.

    Thresholds hold from the next verdict on, for any number of labels.
    """
    x = SparseCounts.of({1: 1})
    snapshot = taught(made_of, [(x, 1), (x, 1), (SparseCounts.of({2: 1}), 0)])
    log_odds = score(snapshot, {"words": x}).log_odds
    rule = replace(made_of.verdict, spam_threshold=log_odds + away, ham_threshold=-9.0)

    snapshot.decide_as(replace(made_of, verdict=rule))
    verdict = score(snapshot, {"words": x})

    assert decision == verdict.decision


def test_a_filter_that_knows_nothing_is_unsure_at_the_prior():
    """Before the first message every class has its smoothed prior."""
    verdict = score(Snapshot.empty(TWO), {"words": SparseCounts.of({1: 1})})

    assert verdict.decision == "unsure"
    assert verdict.log_odds == 0.0
    assert verdict.probability == 0.5
    assert verdict.views["words"].features == 0


@pytest.mark.parametrize(("feature", "decision"), [(1, "spam"), (2, "ham")])
def test_what_was_only_in_spam_speaks_for_spam(feature, decision):
    """A taught filter recognises what it was taught."""
    history = [(SparseCounts.of({1: 1}), 1), (SparseCounts.of({2: 1}), 0)] * 20

    verdict = score(taught(TWO, history), {"words": SparseCounts.of({feature: 1})})

    assert verdict.decision == decision


def test_between_the_thresholds_lies_unsure():
    """A message whose log-odds reach neither threshold is unsure."""
    unsure = Specification(
        classifiers=WORDS,
        verdict=VerdictRule(
            terms=BY_WORDS.terms, spam_threshold=1e6, ham_threshold=-1e6
        ),
    )
    history = [(SparseCounts.of({1: 1}), 1), (SparseCounts.of({2: 1}), 0)]

    verdict = score(taught(unsure, history), {"words": SparseCounts.of({1: 1})})

    assert verdict.decision == "unsure"
    assert verdict.log_odds > 0


def test_the_strongest_reasons_come_first_with_their_counts():
    """Entries fall in strength and carry the messages of each label."""
    history = [
        (SparseCounts.of({1: 1, 3: 1}), 1),
        (SparseCounts.of({1: 2}), 1),
        (SparseCounts.of({2: 1, 3: 1}), 0),
    ]
    snapshot = taught(TWO, history)
    x = SparseCounts.of({1: 1, 3: 4, 9: 1})
    verdict = score(snapshot, {"words": x})

    prior, first, second, rest = explain(
        attribute(verdict, snapshot),
        snapshot,
        observation(x, ("one", "three", "new")),
        strongest=5,
    ).summands

    assert {"ham": 1, "spam": 2} == prior.messages
    assert ("one", {"ham": 0, "spam": 2}) == (first.text, first.parts[0]["messages"])
    assert ("three", {"ham": 1, "spam": 1}) == (
        second.text,
        second.parts[0]["messages"],
    )
    assert abs(first.log_odds) > abs(second.log_odds)
    assert (0, 0.0) == (rest.features, rest.log_odds)


def test_the_strongest_of_each_side_are_listed():
    """However many speak for spam, what speaks against it is not left out."""
    history = [(SparseCounts.of(dict.fromkeys(range(1, 9), 1)), 1)] * 5
    history.append((SparseCounts.of(dict.fromkeys((9, 10, 11), 1)), 0))
    snapshot = taught(TWO, history)
    x = SparseCounts.of(dict.fromkeys(range(1, 11), 1))

    _, *listed, rest = explain(
        attribute(score(snapshot, {"words": x}), snapshot),
        snapshot,
        observation(x),
        strongest=2,
    ).summands

    # The deciding side first.
    assert [True, True, False, False] == [entry.log_odds > 0 for entry in listed]
    assert 10 - 4 == rest.features
    strengths = [abs(entry.log_odds) for entry in listed]
    assert strengths[0] >= strengths[1]
    assert strengths[2] >= strengths[3]


def test_features_are_listed_with_their_view():
    """The strongest of all views come first, and the rest is of all views."""
    history = [
        (SparseCounts.of({0: 1, 1: 1}), 1),
        (SparseCounts.of({0: 1, 1: 1}), 1),
        (SparseCounts.of({2: 1, 3: 1}), 0),
    ]
    snapshot = taught(MANY, history)
    x = SparseCounts.of({0: 1, 1: 1})

    _, *listed, rest = explain(
        attribute(score(snapshot, viewed(x)), snapshot),
        snapshot,
        observation(x, ("zero", "one")),
        strongest=9,
    ).summands

    assert {("words", "zero"), ("words", "one"), ("pairs", "#0000000000000001")} == {
        (entry.family, entry.text) for entry in listed
    }
    assert (None, 0) == (rest.family, rest.features)


def test_a_verdict_is_the_weighted_sum_of_its_terms():
    """Each view's sum times its weight and normaliser, for two classes."""
    rule = VerdictRule(
        terms=(
            Term(classifier="words", normaliser=ShrunkenMean(2.0), weight=3.0),
            Term(classifier="pairs", normaliser=Root(), weight=0.5),
        )
    )
    specification = Specification(classifiers=MANY.classifiers, verdict=rule)
    history = [
        (SparseCounts.of({1: 1, 2: 1}), 1),
        (SparseCounts.of({2: 1, 3: 1, 4: 1}), 0),
    ]
    snapshot = taught(specification, history)
    views = viewed(SparseCounts.of({1: 1, 2: 1, 4: 1, 9: 1}))
    words, pairs = (snapshot.likelihood(name)(views[name]) for name in views)

    expected = 3.0 * (words[1] - words[0]) / 6 + 0.5 * (pairs[1] - pairs[0]) / 3**0.5

    assert math.isclose(expected, score(snapshot, views).log_odds, abs_tol=1e-12)


def test_only_what_decides_is_asked():
    """A classifier without a term costs nothing, and can be asked by itself."""
    rule = VerdictRule(terms=(Term(classifier="pairs"),))
    snapshot = taught(replace(MANY, verdict=rule), [(SparseCounts.of({1: 1, 2: 3}), 1)])
    views = viewed(SparseCounts.of({1: 1, 9: 1}))

    assert ["pairs"] == list(score(snapshot, views).views)
    assert 1 == snapshot.likelihood("bernoulli").contributions(views["words"]).known


def test_what_decides_has_the_views_that_it_is_made_of():
    """Where a feature of the corrections stands is known by the sizes of those."""
    decides = VerdictRule(terms=(Term(classifier="words"), *terms_of(("corrections",))))

    made_of = Specification(verdict=decides).deciding

    assert ("words", "headers", "pairs", "corrections") == made_of


def test_a_feature_without_text_is_shown_by_its_id():
    """Without stored words, the 64-bit id is shown in hex."""
    x = SparseCounts.of({-1: 1})
    snapshot = taught(TWO, [(x, 1), (SparseCounts.of({2: 1}), 0)])

    entries = explain(
        attribute(score(snapshot, {"words": x}), snapshot),
        snapshot,
        observation(x),
        strongest=1,
    ).summands

    assert entries[1].text == "#ffffffffffffffff"


def test_what_cannot_be_learned_changes_nothing():
    """If one view cannot learn the message, no view does."""
    x = SparseCounts.of({1: 1, 2: 2})
    snapshot = Snapshot.empty(Specification())
    for revision, (label, seen) in enumerate(((0, x), (1, SparseCounts.of({2: 1})))):
        learned = delta({"words": seen}, before=None, after=label, n_classes=2)
        snapshot.learn(learned, revision=revision + 1)
    before = score(snapshot, {"words": x})
    # The pairs of no message have been learned.
    change = delta({"words": x, "pairs": x}, before=0, after=1, n_classes=2)

    with pytest.raises(InconsistentCounts):
        snapshot.learn(change, revision=3)

    assert before.log_odds == score(snapshot, {"words": x}).log_odds
    assert snapshot.revision == 2


def test_a_view_without_stored_counts_starts_empty():
    """A snapshot of stored states lacks no view of its specification."""
    snapshot = Snapshot.of(TWO, {}, revision=7)

    assert snapshot.revision == 7
    assert 0 == snapshot.tables["words"].vocabulary


def test_a_profile_can_be_the_plain_product_of_any_views():
    """Words, headers and pairs add up to one textbook posterior."""
    names = ("words", "headers", "pairs")
    specification = Specification(
        verdict=VerdictRule(
            terms=tuple(Term(classifier=n, normaliser=Whole()) for n in names)
        )
    )
    snapshot = Snapshot.empty(specification)
    messages = [(ham(n), 0) for n in range(4)] + [(spam(n), 1) for n in range(4)]
    for revision, (raw, label) in enumerate(messages, 1):
        views = extract(parse(raw), specification.views).views
        moved = delta(views, before=None, after=label, n_classes=2)
        snapshot.learn(moved, revision=revision)
    views = extract(parse(spam(9)), specification.views).views
    product = Product(2, {name: snapshot.likelihood(name) for name in names})
    ham_joint, spam_joint = product(views)

    verdict = score(snapshot, views)

    assert spam_joint - ham_joint == pytest.approx(verdict.log_odds, rel=1e-12)
    assert verdict.log_odds == pytest.approx(
        sum(
            entry.log_odds
            for entry in explain(
                attribute(verdict, snapshot),
                snapshot,
                Observation(bytes(16), 1, views),
                strongest=5,
            ).summands
        ),
        rel=1e-12,
    )
