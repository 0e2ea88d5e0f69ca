"""How good is the model on rows that it has not seen? Stratified folds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from app.bayes.posterior import log_posterior
from app.errors import InvalidObservation
from app.lab.fitted import fit, sums

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from app.lab.design import Design

FEWEST: Final = 2
"""With one fold, nothing is left to learn from."""


@dataclass(frozen=True, slots=True)
class Validation:
    """What became of each row, scored by a model of the other folds.

    Parameters
    ----------
    folds : int
        Number of folds.
    seed : int
        Seed of the deal.
    confusion : ndarray of int64, shape (K, K + 1)
        Rows by class (down) and decision (across); the last column counts
        those whose best classes were tied.
    log_loss : float
        Mean of ``-log P(class | row)``; infinite where a row's own class was
        impossible.  Unit: nats.
    impossible : int
        Rows whose own class was impossible.
    """

    folds: int
    seed: int
    confusion: NDArray[np.int64]
    log_loss: float
    impossible: int

    @property
    def right(self) -> int:
        """Rows that were decided rightly."""
        return int(np.trace(self.confusion))

    @property
    def rows(self) -> int:
        """All rows."""
        return int(self.confusion.sum())

    @property
    def accuracy(self) -> float:
        """Share of the rows that were decided rightly; a tie is not."""
        return self.right / self.rows


def deal(labels: Sequence[int], *, folds: int, seed: int) -> NDArray[np.int64]:
    """Return the fold of each row, so that folds are alike in their classes.

    Parameters
    ----------
    labels : sequence of int
        Class of each row.
    folds : int
        Number of folds.
    seed : int
        Seed of the shuffle within each class.

    Examples
    --------
    >>> deal([0, 0, 0, 0, 1, 1], folds=2, seed=1).reshape(-1).tolist().count(0)
    3
    """
    random = np.random.default_rng(seed)
    classes = np.array(labels)
    # One deal around the table for all classes: no fold is more than one row
    # larger than another, of any class and of all.
    order = np.concatenate(
        [random.permutation(np.flatnonzero(classes == c)) for c in np.unique(classes)]
    )
    dealt = np.empty(classes.size, np.int64)
    dealt[order] = np.arange(classes.size) % folds
    return dealt


def cross_validate(design: Design, *, folds: int, seed: int) -> Validation:
    """Score each row by a model of the rows in the other folds.

    A fold is unlearned from the whole, which is exact, and not learned again.

    Raises
    ------
    InvalidObservation
        If there are fewer rows than folds, or fewer than two folds.
    """
    n, k = len(design.examples), len(design.classes)
    if not FEWEST <= folds <= n:
        msg = f"folds must be from {FEWEST} to the number of rows, {n}; got {folds}"
        raise InvalidObservation(msg)
    dealt = deal([label for _, label in design.examples], folds=folds, seed=seed)
    whole = sums(design, design.examples)
    confusion = np.zeros((k, k + 1), np.int64)
    losses = np.empty(n)
    for fold in range(folds):
        members = np.flatnonzero(dealt == fold).tolist()
        held_out = sums(design, [design.examples[i] for i in members])
        model = fit(design, whole - held_out)
        for i in members:
            views, label = design.examples[i]
            joint = model.log_joint(views)
            best = np.flatnonzero(joint == joint.max())
            confusion[label, best[0] if best.size == 1 else k] += 1
            losses[i] = -log_posterior(joint)[label]
    return Validation(
        folds, seed, confusion, float(losses.mean()), int(np.isinf(losses).sum())
    )
