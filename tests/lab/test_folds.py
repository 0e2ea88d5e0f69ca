"""Rows are scored by a model that has not seen them."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.bayes.posterior import log_posterior
from app.bayes.prior import SmoothedPrior
from app.lab.design import Choices, design
from app.lab.fitted import cross_validate, deal, fit
from app.lab.table import Table, read_text

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


def test_every_row_is_counted_once():
    """Rows without a class are not."""
    rows = (*TABLE.rows, read_text("colour\nred\n").rows[0])
    plan = design(Table(TABLE.columns, rows), Choices(target="class"))
    found = cross_validate(plan, folds=3, seed=0)

    assert Counter(label for _, label in plan.examples) == Counter(
        dict(enumerate(found.confusion.sum(axis=1).tolist()))
    )
