"""A personal profile backs off to those above it."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.bayes.counts import FeatureCounts
from app.bayes.models.discrete import Bernoulli, Multinomial
from app.bayes.smoothing import Interpolation, Lidstone
from app.bayes.sparse import SparseCounts
from app.bayes.table import FeatureTable, PartialSums
from app.classifier.explain import attribute, explain
from app.classifier.learn import delta
from app.classifier.levels import REACH, Level, backed_off, weights
from app.classifier.record import record
from app.classifier.snapshot import Snapshot, score
from app.classifier.specification import PARTS, Specification
from app.features.extract import extract
from app.features.observation import Observation
from app.mail.parse import parse
from tests.support.messages import ham, spam

SHIPPED = Specification()
messages = st.dictionaries(st.integers(-9, 9), st.integers(1, 9), max_size=6)


def views_of(raw):
    """Return the views of a message."""
    return extract(parse(raw), SHIPPED.views).views


def taught(hams=(), spams=(), made_of=SHIPPED):
    """Return the snapshot of a profile that was taught these messages.

    With more labels, those of a side take turns.
    """
    snapshot = Snapshot.empty(made_of)
    k, sides = made_of.n_classes, (~made_of.spam_mask, made_of.spam_mask)
    lessons = [(raw, 0, n) for n, raw in enumerate(hams)]
    lessons += [(raw, 1, n) for n, raw in enumerate(spams)]
    for revision, (raw, side, n) in enumerate(lessons, start=1):
        labels = np.flatnonzero(sides[side])
        label = int(labels[n % labels.size])
        moved = delta(views_of(raw), before=None, after=label, n_classes=k)
        if made_of.decay is not None:
            moved *= PARTS
        snapshot.learn(moved, revision=revision)
    return snapshot


def levels_of(**snapshots):
    """Return levels, the most personal first, from their snapshots by name."""
    return [Level(name, snapshot) for name, snapshot in snapshots.items()]


def table_of(lessons):
    """Return the table of messages with their labels, and their sum."""
    total = FeatureCounts.zero(2)
    for label, x in lessons:
        total += FeatureCounts.of(SparseCounts.of(x), label=label, n_classes=2)
    return FeatureTable.of(total), total


@pytest.fixture(scope="module")
def site():
    """A profile that was taught 600 messages."""
    return taught(map(ham, range(300)), map(spam, range(300)))


@given(
    st.lists(
        st.tuples(
            st.integers(1, 50),
            st.lists(st.tuples(st.integers(0, 1), messages), max_size=4),
        ),
        min_size=1,
        max_size=3,
    ),
    st.lists(st.integers(-9, 9), max_size=5, unique=True),
)
def test_partial_sums_count_as_if_they_were_added_up(parts, ids):
    """Features, totals, messages and frequencies, of all levels and of those above."""
    tables = [(weight, *table_of(lessons)) for weight, lessons in parts]
    lazy = PartialSums([(weight, table) for weight, table, _ in tables])
    asked = np.array(ids, np.int64)
    added = FeatureCounts.zero(2)
    for level in reversed(range(len(tables))):
        weight, _, counts = tables[level]
        added += counts * weight

        assert added.messages.tolist() == lazy.messages[level].tolist()
        for counting in ("occurrences", "presence"):
            assert added.totals(counting).tolist() == (
                lazy.totals(counting)[level].tolist()
            )
            assert added.look_up(asked, counting).tolist() == (
                lazy.look_up(asked, counting)[level].tolist()
            )

    assert added == lazy.flatten()
    assert lazy.vocabulary <= added.vocabulary


def test_partial_sums_are_in_the_order_that_kernels_are_compiled_for():
    """For another, the first verdict would wait while two of them are compiled."""
    sums = PartialSums([(2, table_of([])[0]), (1, table_of([])[0])])
    arrays = [
        sums.messages,
        sums.totals("presence"),
        sums.look_up(np.arange(3), "presence"),
    ]

    assert all(array.flags.c_contiguous for array in arrays)


@given(messages, messages, messages, st.integers(1, 40))
def test_it_is_the_mean_of_a_dirichlet_with_the_levels_above_as_prior(
    own, above, asked, weight
):
    """The estimate is (n + R p) / (N + R), with R the size of the prior."""
    model = Multinomial(smoothing=Lidstone(1e-9), counting="occurrences")
    lessons = [(0, own), (1, {99: 1})]
    site = [(0, {**above, 50: 1}), (1, {99: 1})]
    (table, n), (over, m) = table_of(lessons), table_of(site)
    total = model.estimate(PartialSums([(weight, table), (1, over)]))
    x = SparseCounts.of({**asked, 50: 1})
    n_i, m_i = (c.look_up(x.ids, "occurrences")[:, 0] for c in (n, m))
    size = m.totals("occurrences")[0] / weight
    prior = m_i / m.totals("occurrences")[0]
    mean = (n_i + size * prior) / (n.totals("occurrences")[0] + size)
    seen = mean > 0

    found = np.exp(total.contributions(x).features[seen, 0] / x.counts[seen])
    assert found == pytest.approx(mean[seen], rel=1e-6)


def test_lessons_weigh_as_if_all_above_them_were_as_large_as_the_reach():
    """A lesson of a user never weighs less than one of the site."""
    assert [1, 1] == weights([10, REACH])
    assert [50, 1] == weights([3, 50 * REACH])
    # The domain's 100 lessons count as 5,000 messages: so much more is above the user.
    assert [62, 50, 1] == weights([3, 100, 50 * REACH])[:3]


def test_a_new_profile_says_what_the_site_says(site):
    """To the last bit, with its numbers and its reasons."""
    new = backed_off(levels_of(ann=Snapshot.empty(SHIPPED), site=site))
    for raw in (ham(7), spam(7), b"Subject: unheard of\n\nzyx"):
        views = views_of(raw)
        here, there = (score(each, views) for each in (new, site))

        assert here.log_odds == there.log_odds
        assert here.log_posterior.tolist() == there.log_posterior.tolist()
        assert record(here, SHIPPED) == record(there, SHIPPED)


def test_few_lessons_turn_the_verdict_of_the_site(site):
    """Ann wants what the site takes for spam; nobody else is asked to want it."""
    wanted = [spam(n) for n in range(20)]
    before = score(site, views_of(spam(77)))
    ann = backed_off(levels_of(ann=taught(hams=wanted), site=site))
    after = score(ann, views_of(spam(77)))

    assert before.decision == "spam"
    assert after.log_odds < before.log_odds - 1.0
    assert before.log_odds == score(site, views_of(spam(77))).log_odds


def test_the_shares_of_the_levels_sum_to_the_log_odds(site):
    """The shares and the reasons both sum to the log-odds, whoever taught a word."""
    domain = taught(map(ham, range(400, 440)), map(spam, range(300, 310)))
    ann = taught(hams=[spam(1)], spams=[ham(1), ham(2)])
    scorer = backed_off(levels_of(ann=ann, domain=domain, site=site))
    for raw in (ham(1), spam(1), spam(3)):
        views = views_of(raw)
        verdict = score(scorer, views)
        shares = scorer.shares(verdict)
        seen = Observation(digest=b"", feature_set=1, views=views)
        attribution = attribute(verdict, scorer)
        explanation = explain(attribution, scorer, seen, strongest=3)

        assert ["ann", "domain", "site"] == [share.profile for share in shares]
        assert [3, 50, 600] == [sum(share.messages.values()) for share in shares]
        assert verdict.log_odds == pytest.approx(sum(s.log_odds for s in shares))
        above = backed_off(levels_of(domain=domain, site=site))
        alone = [score(each, views).log_odds for each in (above, site)]
        assert alone == verdict.above
        assert [shares[1].log_odds, shares[2].log_odds] == [
            alone[0] - alone[1],
            alone[1],
        ]
        assert verdict.log_odds == pytest.approx(sum(explanation.families.values()))
        assert {"ham": 341, "spam": 312} == explanation.summands[0].messages


def test_the_weights_are_those_of_the_level_that_knows_most():
    """A new profile has fitted none."""
    own, site = taught(), taught()
    site.fusion = replace(site.fusion, fitted_messages=500)

    for levels in ({"own": own, "site": site}, {"own": site, "site": own}):
        assert site.fusion is backed_off(levels_of(**levels)).fusion


def test_more_labels_have_the_verdicts_of_two_at_every_level():
    """Bit for bit, with and without the levels above."""
    labels = Specification(labels=("ham", "list", "spam"))
    said = []
    for made_of in (SHIPPED, labels):
        scorer = backed_off(
            levels_of(
                ann=taught([ham(1), ham(2)], [spam(1)], made_of),
                site=taught(map(ham, range(40)), map(spam, range(40)), made_of),
            )
        )
        verdict = score(scorer, views_of(spam(99)))
        said.append((verdict.log_odds, *verdict.above))

    assert said[0] == said[1]
    assert len(set(said[0])) == 2


def test_what_a_level_forgets_leaves_no_trace_below():
    """The sum is computed, not kept."""
    site = taught(map(ham, range(9)), map(spam, range(9)))
    ann = taught(hams=[ham(50)], spams=[spam(50)])
    views = views_of(ham(3))
    before = score(backed_off(levels_of(ann=ann, site=site)), views)
    lesson = delta(views_of(spam(80)), before=None, after=1, n_classes=2)
    site.learn(lesson, revision=site.revision + 1)
    between = score(backed_off(levels_of(ann=ann, site=site)), views)
    site.learn(-lesson, revision=site.revision + 1)
    after = score(backed_off(levels_of(ann=ann, site=site)), views)

    assert before.log_odds != between.log_odds
    assert before.log_odds == after.log_odds
    assert record(before, SHIPPED) == record(after, SHIPPED)


def test_counts_that_decay_weigh_as_many_messages():
    """A part of a message is no message."""
    fading = SHIPPED.decaying(6.0).as_of(202603)
    site = taught(map(ham, range(9)), map(spam, range(9)), made_of=fading)
    ann = taught(hams=[spam(1)], made_of=fading)
    whole = backed_off(
        levels_of(
            ann=taught(hams=[spam(1)]),
            site=taught(map(ham, range(9)), map(spam, range(9))),
        )
    )
    views = views_of(spam(2))

    found = score(backed_off(levels_of(ann=ann, site=site)), views)
    assert found.log_odds == pytest.approx(score(whole, views).log_odds)


@pytest.mark.parametrize(
    "other",
    [
        Specification(labels=("good", "bad"), spam_labels=("bad",)),
        Specification(labels=("ham", "news", "spam"), spam_labels=("news", "spam")),
        replace(
            SHIPPED,
            classifiers={
                **SHIPPED.classifiers,
                "words": replace(
                    SHIPPED.classifiers["words"],
                    event_model=Multinomial(interpolation=Interpolation(9.0)),
                ),
            },
        ),
    ],
)
def test_who_is_made_of_something_else_has_no_part(other, site):
    """Only levels with the same specification are summed."""
    ann, elsewhere = taught(hams=[ham(1)]), Snapshot.empty(other)

    assert ann is backed_off(levels_of(ann=ann, site=elsewhere))
    both = backed_off(levels_of(ann=ann, domain=elsewhere, site=site))
    shares = both.shares(score(both, views_of(ham(1))))
    assert ["ann", "site"] == [share.profile for share in shares]


@pytest.mark.parametrize("event_model", [Bernoulli(), Multinomial(vocabulary=9)])
def test_models_that_ask_for_more_than_counts_of_features_answer_alone(event_model):
    """Bernoulli sums over all features, of all levels together."""
    words = replace(SHIPPED.classifiers["words"], event_model=event_model)
    made_of = replace(SHIPPED, classifiers={**SHIPPED.classifiers, "words": words})
    ann, site = Snapshot.empty(made_of), Snapshot.empty(made_of)

    assert ann is backed_off(levels_of(ann=ann, site=site))
