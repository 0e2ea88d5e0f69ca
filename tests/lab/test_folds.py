"""Rows are scored by a model that has not seen them."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import precision_recall_fscore_support

from app.bayes.posterior import log_posterior
from app.bayes.prior import SmoothedPrior, UniformPrior
from app.figures import deal
from app.lab.design import design
from app.lab.fitted import fit
from app.lab.groups import Choices
from app.lab.report import Validation, cross_validate, measures_table
from app.lab.table import Model, Row, Table, read_text

TABLE = read_text(
    "class,colour,size,text\n"
    "a,red,1,buy now\na,red,2,buy book\na,blue,,buy this\n"
    "b,blue,7,do math\nb,blue,8,math is fun\nb,red,9,\n"
)


@given(
    st.lists(st.integers(0, 4), min_size=2, max_size=60),
    st.integers(2, 9),
    st.integers(0, 5),
)
def test_folds_are_alike(labels, folds, seed):
    """No fold has two rows more than another, of a class or of all."""
    dealt = deal(labels, folds=folds, seed=seed)
    for chosen in [np.ones(len(labels), bool)] + [
        np.array(labels) == c for c in set(labels)
    ]:
        sizes = np.bincount(dealt[chosen], minlength=folds)

        assert sizes.max() - sizes.min() <= 1
    assert dealt.tolist() == deal(labels, folds=folds, seed=seed).tolist()


def test_a_seed_deals_in_its_own_way():
    """Another seed, another deal."""
    labels = [0, 1] * 20

    assert (
        deal(labels, folds=5, seed=1).tolist() != deal(labels, folds=5, seed=2).tolist()
    )


@pytest.mark.parametrize("folds", [2, 3, 6])
def test_unlearning_a_fold_is_learning_the_others(folds):
    """The figures are those of models that are fitted to the other rows alone."""
    choices = Choices(target="class", prior=SmoothedPrior(1.0))
    plan = design(TABLE, choices)
    found = cross_validate(plan, folds=folds, seed=3)
    dealt = deal([label for _, label in plan.examples], folds=folds, seed=3)
    losses, right = [], 0
    for i, row in enumerate(plan.rows):
        rest = [
            e for e, fold in zip(plan.examples, dealt, strict=True) if fold != dealt[i]
        ]
        model = fit(replace(plan, examples=tuple(rest)))
        joint = model.log_joint(plan.encode(row))
        label = plan.examples[i][1]
        losses.append(-log_posterior(joint)[label])
        right += int(joint.argmax() == label)

    assert math.fsum(losses) / len(losses) == pytest.approx(found.log_loss, rel=1e-12)
    assert (right, 6, right / 6) == (found.right, found.rows, found.accuracy)


def test_a_class_of_one_row_is_impossible_without_it():
    """Its row has probability 0 under the fitted prior: an infinite loss."""
    table = read_text("class,x\na,u\na,u\na,v\nb,v\n")
    found = cross_validate(design(table, Choices(target="class")), folds=2, seed=0)

    assert (math.inf, 1) == (found.log_loss, found.impossible)
    assert [1, 0, 0] == found.confusion[1].tolist()


def test_a_tie_is_not_right():
    """Equal classes and nothing known: no row is decided."""
    table = read_text("class\n" + "a\nb\n" * 2)
    found = cross_validate(design(table, Choices(target="class")), folds=2, seed=0)

    assert [[0, 0, 2], [0, 0, 2]] == found.confusion.tolist()
    assert (0.0, math.log(2)) == (found.accuracy, pytest.approx(found.log_loss))


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=1))
def test_the_measures_of_classes_are_those_of_scikit_learn(rows):
    """A tie, here 3, is a decision for no class; classes without rows are no mean."""
    confusion = np.zeros((3, 4), np.int64)
    np.add.at(confusion, tuple(np.transpose(rows)), 1)
    found = Validation("rows", confusion, 0.0, None, 0)
    gold, decided = zip(*rows, strict=True)
    classes = sorted({*gold, *decided} - {3})
    expected = [
        precision_recall_fscore_support(
            gold, decided, labels=classes, average=average, zero_division=0
        )[:3]
        for average in (None, "macro")
    ]

    assert np.transpose(expected[0]) == pytest.approx(
        np.array([[float(x.value) for x in found.by_class[c]] for c in classes])
    )
    assert expected[1] == pytest.approx(found.macro)


def test_what_was_never_decided_has_no_precision():
    """It is no number, and 0 in the mean."""
    found = Validation("rows", np.array([[2, 0, 0], [1, 0, 0]]), 0.0, None, 0)

    assert [
        ("a", "2/3 (0.6667)", "2/2 (1)", "4/5 (0.8)"),
        ("b", "-", "0/1 (0)", "0/1 (0)"),
        ("(mean)", "0.3333", "0.5", "0.4"),
    ] == measures_table(found, ("a", "b"))[1]


def test_every_row_is_counted_once():
    """Rows without a class are not."""
    rows = (*TABLE.rows, read_text("colour\nred\n").rows[0])
    plan = design(Table(TABLE.columns, rows), Choices(target="class"))
    found = cross_validate(plan, folds=3, seed=0)

    assert Counter(label for _, label in plan.examples) == Counter(
        dict(enumerate(found.confusion.sum(axis=1).tolist()))
    )


SMALL = st.lists(
    st.tuples(*[st.sampled_from("ab")] * 3, st.sampled_from("01")),
    min_size=4,
    max_size=9,
).filter(lambda rows: len({row[-1] for row in rows}) == 2)


@given(SMALL, st.integers(0, 2))
def test_a_tie_of_fractions_is_a_tie_in_every_fold(rows, seed):
    """Each row is decided as fractions decide, whatever the order of the factors."""
    table = read_text("x,y,z,class\n" + "".join(",".join(r) + "\n" for r in rows))
    plan = design(table, Choices(target="class", model=Model.CATEGORICAL))
    n = len(rows)
    found = cross_validate(plan, folds=n, seed=seed)
    expected = np.zeros((2, 3), np.int64)
    for i, row in enumerate(rows):
        rest = rows[:i] + rows[i + 1 :]
        joint = []
        for c in "01":
            of_class = [r for r in rest if r[-1] == c]
            value = Fraction(len(of_class), len(rest))
            for column in range(3):
                domain = {r[column] for r in rest}
                if row[column] in domain:
                    hits = sum(r[column] == row[column] for r in of_class)
                    value *= Fraction(hits + 1, len(of_class) + len(domain))
            joint.append(value)
        decision = 2 if joint[0] == joint[1] else int(joint[1] > joint[0])
        expected[int(row[-1]), decision] += 1

    assert expected.tolist() == found.confusion.tolist()


@pytest.mark.parametrize(
    ("low", "high", "middle"), [("1.71", "1.82", "1.765"), ("0.1", "0.8", "0.45")]
)
def test_the_middle_of_two_gaussians_is_a_tie(low, high, middle):
    """Their variances are the same, and so are the distances from both means."""
    spread = [0.03, -0.03]
    rows = [
        f"{c},{float(m) + s:.3f}\n"
        for c, m in (("a", low), ("b", high))
        for s in spread
    ]
    table = read_text("class,x\n" + "".join(rows))
    prediction = fit(design(table, Choices(target="class"))).predict(
        Row("the question", {"x": middle})
    )

    assert (0, 1) == prediction.best


def test_a_gaussian_tie_is_a_tie_in_the_folds():
    """Each fold takes one row of either class and leaves one: the middle is the third."""
    table = read_text("class,x\na,0.1\na,0.3\nb,0.7\nb,0.9\na,0.5\n")
    plan = design(table, Choices(target="class", prior=UniformPrior()))
    for seed in range(20):
        found = cross_validate(plan, folds=5, seed=seed)

        assert 1 == found.confusion[0, 2]
