"""What do users say a message is, who now and then are wrong?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from app.errors import InvalidObservation

if TYPE_CHECKING:
    from collections.abc import Sequence


def told(
    labels: Sequence[str],
    *,
    known: Sequence[str],
    spam_labels: Sequence[str],
    noise: float,
    seed: int,
) -> tuple[str, ...]:
    """Return what users say of each message, who now and then are wrong.

    Parameters
    ----------
    labels : sequence of str
        Gold labels.
    known : sequence of str
        All labels that there are.
    spam_labels : sequence of str
        Those of them that stand for spam.
    noise : float
        The chance that a user takes spam for ham, or ham for spam.
    seed : int
        Of that chance.

    Raises
    ------
    InvalidObservation
        If the chance is not from 0 to 1.

    Notes
    -----
    A label is turned into the first one of the other side.
    """
    if not 0 <= noise <= 1:
        msg = f"the share of wrong labels is from 0 to 1, got {noise}"
        raise InvalidObservation(msg)
    other = {
        side: next(label for label in known if (label in spam_labels) is not side)
        for side in (True, False)
    }
    # A stream of its own: which messages get feedback must not change with it.
    wrong = np.random.default_rng([seed, 1]).random(len(labels)) < noise
    return tuple(
        other[label in spam_labels] if turned else label
        for label, turned in zip(labels, wrong.tolist(), strict=True)
    )
