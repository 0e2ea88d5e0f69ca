"""The view of what its own classifier had wrong, or nearly so."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.bayes.models.chain import runs_of
from app.bayes.sparse import SparseCounts
from app.classifier.explain import attribute
from app.classifier.learn import MARGIN, delta, taught
from app.classifier.rule import FEW, Bounded, Term, VerdictRule, terms_of
from app.classifier.snapshot import Snapshot, score
from app.classifier.specification import Specification, ViewModel, classifiers_of
from app.errors import InvalidSetting

VIEWS = ("words", "headers", "pairs")
THREE = Specification(labels=("ham", "list", "spam"))
features = st.dictionaries(st.integers(0, 9), st.just(1), max_size=6)
messages = st.tuples(*[features] * len(VIEWS)).map(
    lambda each: {
        view: SparseCounts.of(counts) for view, counts in zip(VIEWS, each, strict=True)
    }
)
histories = st.lists(st.tuples(messages, st.integers(0, 2)), max_size=8)


def said_by_corrections(verdict):
    """Return what the corrections add for each class, bounded.

    The headers alone, which teach nothing, and the grams are last.
    """
    return verdict.parts["corrections"].totals[0] * verdict.factors[-3]


def learned(history, *, specification=THREE):
    """Return the snapshot of messages that were scored and learned one by one.

    It has had some wrong before, with another feature.
    """
    snapshot = Snapshot.empty(specification)
    many = {"corrections": SparseCounts.of({99: 1})}
    for label in range(3):
        change = delta(many, before=None, after=label, n_classes=3) * 50
        snapshot.learn(change, revision=0)
    for revision, (views, label) in enumerate(history, 1):
        kept = taught(views, score(snapshot, views), label, specification)
        change = delta(kept, before=None, after=label, n_classes=3)
        snapshot.learn(change, revision=revision)
    return snapshot


@given(histories, messages, st.integers(0, 2))
def test_only_what_was_wrong_or_nearly_so_is_taught(history, views, label):
    """The right side has to lead the other by the margin, whatever its label."""
    verdict = score(learned(history), views)
    said = said_by_corrections(verdict)
    right = int(THREE.labels[label] in THREE.spam_labels)
    leads = said[right] - said[1 - right] >= MARGIN

    kept = taught(views, verdict, label, THREE)

    assert leads == ("corrections" not in kept)
    assert views == {view: kept[view] for view in VIEWS}


@given(histories, messages)
def test_its_features_are_those_of_other_views(history, views):
    """Each feature counts once, and earlier lessons of the message do not matter."""
    empty = score(Snapshot.empty(THREE), views)
    again = taught(views, empty, 0, THREE)

    every = {i for x in views.values() for i in x.ids.tolist()}
    assert sorted(every) == again["corrections"].ids.tolist()
    assert again == taught(again, empty, 0, THREE)
    snapshot = learned(history)
    assert (
        score(snapshot, views).log_posterior.tolist()
        == score(snapshot, again).log_posterior.tolist()
    )


@given(histories, messages)
def test_each_feature_has_its_share_where_it_comes_from(history, views):
    """The explanation has no view of corrections, and adds up to the log-odds."""
    snapshot = learned(history)
    verdict = score(snapshot, views)

    attribution = attribute(verdict, snapshot)

    assert {*VIEWS, "grams"} == attribution.contributions.keys()
    for view in VIEWS:
        added = attribution.contributions[view]
        assert views[view].size == added.size == attribution.seen[view].size
    total = sum(added.sum() for added in attribution.contributions.values())
    assert verdict.log_odds == pytest.approx(attribution.prior + total, abs=1e-9)


def test_a_share_stands_with_its_own_feature():
    """A pair that the corrections alone know adds what the verdict gains by it."""
    x = {"words": SparseCounts.of({1: 1}), "pairs": SparseCounts.of({7: 1})}
    specification = Specification(
        verdict=VerdictRule(terms=terms_of(("words", "corrections")))
    )
    snapshot = Snapshot.empty(specification)
    known = {"corrections": SparseCounts.of({7: 1}), "words": SparseCounts.of({2: 1})}
    for label in range(2):
        only = known if label else {**known, "corrections": SparseCounts.of({8: 1})}
        snapshot.learn(
            delta(only, before=None, after=label, n_classes=2), revision=label + 1
        )

    found = attribute(score(snapshot, x), snapshot)

    assert [0.0] == found.contributions["words"].tolist()
    assert found.contributions["pairs"][0] > 0
    assert [False] == found.seen["words"].tolist()
    assert [True] == found.seen["pairs"].tolist()


@given(
    st.integers(0, 10**6),
    st.lists(st.floats(-1e300, 1e300), min_size=2, max_size=4).map(np.array),
)
def test_what_is_said_is_bounded(features, said):
    """No two classes are farther apart than 1, however long the message."""
    factor = Bounded().factor(features, said)

    assert np.ptp(said * factor) <= 1.0 + 1e-12


@given(st.integers(0, 10**6), st.floats(0, 1e9), st.floats(0, 1e9))
def test_who_says_more_adds_more(features, less, more):
    """The bound keeps the order."""
    less, more = sorted((less, more))
    bounded = [x * Bounded().factor(features, np.array([0.0, x])) for x in (less, more)]

    assert bounded[0] <= bounded[1] + 1e-12


def test_what_is_impossible_stays_so():
    """An infinite sum gets a factor, and no NaN."""
    assert 0 < Bounded().factor(5, np.array([0.0, -np.inf]))


def test_it_raises_nothing_and_is_lowered_while_it_knows_little():
    """It learns less than the others because they are right without it."""
    snapshot = Snapshot.empty(Specification())
    words = {view: SparseCounts.of({1: 1}) for view in VIEWS}
    for revision in range(1, 4):
        snapshot.learn(
            delta(words, before=None, after=revision % 2, n_classes=2),
            revision=revision,
        )

    assert [1.0, 1.0, 1.0, 0.0, 0.0, 0.0] == snapshot.raised.tolist()

    few = {"words": words["words"], "corrections": words["words"]}
    for label in range(2):
        snapshot.learn(
            delta(few, before=None, after=label, n_classes=2), revision=4 + label
        )

    assert snapshot.raised[0] > 1.0
    assert [1 / (1 + FEW), 1 / (1 + FEW), 0.0] == snapshot.raised[-3:].tolist()


def test_a_site_without_it_teaches_nothing_there():
    """The same holds if the verdict has no term for it."""
    without = Specification(
        classifiers=classifiers_of(VIEWS), verdict=VerdictRule(terms=terms_of(VIEWS))
    )
    unheard = Specification(verdict=VerdictRule(terms=terms_of(VIEWS)))
    views = {"words": SparseCounts.of({1: 1})}

    for specification in (without, unheard):
        verdict = score(Snapshot.empty(specification), views)
        assert views == taught(views, verdict, 0, specification)


def test_its_terms_are_the_last_whatever_the_order():
    """The first is of a view that learns every message."""
    assert ["headers", "words", "corrections", "header_corrections"] == [
        term.classifier for term in terms_of(("corrections", "headers", "words"))
    ]
    assert ["words", "corrections"] == [
        term.classifier for term in terms_of(("corrections", "words"))
    ]
    made_of = classifiers_of(("corrections", "pairs", "grams", "words"))
    assert ("words", "pairs") == made_of["corrections"].made_of


@pytest.mark.parametrize("views", [("corrections",), ("grams", "corrections")])
def test_it_needs_a_view_whose_features_it_has(views):
    """The error names the missing views."""
    with pytest.raises(
        InvalidSetting, match="words, headers, pairs; add one of these views"
    ):
        classifiers_of(views)


@pytest.mark.parametrize("source", ["smell", "corrections"])
def test_a_view_is_made_of_views_of_features(source):
    """Each view needs a classifier, which takes its share of the log-odds."""
    shipped = Specification().classifiers
    made = replace(shipped["corrections"], made_of=("words", source))

    with pytest.raises(InvalidSetting, match=f"made of .*{source}"):
        Specification(classifiers={**shipped, "corrections": made})


def test_the_headers_are_heard_by_themselves_in_the_same_counts():
    """Their term adds what they say, and the other features add nothing to it."""
    shipped = Specification()
    at = [term.classifier for term in shipped.verdict.terms].index("header_corrections")
    snapshot = Snapshot.empty(shipped)
    for label, counts in enumerate(({1: 1, 5: 1}, {2: 1, 6: 1})):
        only = {"corrections": SparseCounts.of(counts)}
        snapshot.learn(
            delta(only, before=None, after=label, n_classes=2), revision=label
        )
    headers = {"headers": SparseCounts.of({2: 1})}
    words = {"words": SparseCounts.of({5: 1, 6: 1})}

    alone, both = score(snapshot, headers), score(snapshot, headers | words)

    assert alone.evidence[at].tolist() == both.evidence[at].tolist()
    assert alone.evidence[at][1] > alone.evidence[at][0]
    assert [0.0, 0.0] == score(snapshot, words).evidence[at].tolist()


def test_a_verdict_needs_a_view_that_learns_every_message():
    """The class prior counts the messages of such a view."""
    shipped = Specification().classifiers

    with pytest.raises(InvalidSetting, match="a view of its own"):
        Specification(
            classifiers=shipped,
            verdict=VerdictRule(
                terms=(Term(classifier="corrections"), Term(classifier="words"))
            ),
        )


def test_the_model_takes_what_is_there():
    """A message that lacks a view has the features of the others."""
    model = ViewModel(
        view="both",
        event_model=Specification().classifiers["corrections"].event_model,
        made_of=("words", "pairs"),
    )

    assert [4, 9, 4] == model.features(
        {"words": SparseCounts.of({4: 1, 9: 2}), "pairs": SparseCounts.of({4: 1})}
    ).ids.tolist()
    assert [] == model.features({}).ids.tolist()


SYMBOLS = Specification()
texts = st.lists(st.integers(0, 5), max_size=20).map(
    lambda symbols: {
        "words": SparseCounts.of(dict.fromkeys(symbols, 1)),
        "grams": runs_of(np.array(symbols, np.uint8)),
    }
)
readings = st.lists(st.tuples(texts, st.integers(0, 1)), max_size=8)


def read(history):
    """Return the snapshot of texts that were scored and learned one by one."""
    snapshot = Snapshot.empty(SYMBOLS)
    for revision, (views, label) in enumerate(history, 1):
        kept = taught(views, score(snapshot, views), label, SYMBOLS)
        change = delta(kept, before=None, after=label, n_classes=2)
        snapshot.learn(change, revision=revision)
    return snapshot


@given(readings, texts, st.integers(0, 1))
def test_grams_too_are_taught_where_they_were_wrong_or_nearly_so(history, views, label):
    """What they say is their own, and so is what they learn."""
    verdict = score(read(history), views)
    ham, spam = verdict.parts["grams"].totals[0] * verdict.factors[-1]
    leads = (spam - ham if label else ham - spam) >= MARGIN

    kept = taught(views, verdict, label, SYMBOLS)

    assert leads == ("grams" not in kept)
    assert kept.get("grams", views["grams"]) == views["grams"]
    without = {"words": views["words"]}
    assert "grams" not in taught(without, score(read(history), without), label, SYMBOLS)


@given(readings, texts)
def test_the_shares_of_runs_add_up(history, views):
    """With those of all other features, they are the log-odds."""
    snapshot = read(history)
    verdict = score(snapshot, views)
    found = attribute(verdict, snapshot)

    total = sum(added.sum() for added in found.contributions.values())
    assert verdict.log_odds == pytest.approx(found.prior + total, abs=1e-9)


def test_grams_are_heard_as_far_as_they_know_both_sides():
    """By the lessons of the side with fewer."""
    one, two = np.arange(60, dtype=np.uint8).reshape(2, 30)
    text = {"grams": runs_of(one), "words": SparseCounts.of({1: 1})}
    other = {"grams": runs_of(two), "words": SparseCounts.of({2: 1})}
    heard = []
    for hams in (0, 1, 60):
        snapshot = Snapshot.empty(SYMBOLS)
        change = delta(text, before=None, after=1, n_classes=2) * 60
        if hams:
            change += delta(other, before=None, after=0, n_classes=2) * hams
        snapshot.learn(change, revision=1)
        heard.append(snapshot.raised[-1])

    assert [0.0, 1 / (1 + FEW), 60 / (60 + FEW)] == pytest.approx(heard)


@given(readings, texts, st.integers(0, 1))
def test_how_far_it_is_heard_does_not_change_what_is_taught(history, views, label):
    """A classifier that is right needs no lessons, even while it is hardly heard."""
    verdict = score(read(history), views)
    unheard = replace(verdict, evidence=np.zeros_like(verdict.evidence))

    assert taught(views, verdict, label, SYMBOLS) == taught(
        views, unheard, label, SYMBOLS
    )
