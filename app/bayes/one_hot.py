"""Which class is a message of? One among zeros."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from app.errors import InvalidObservation

if TYPE_CHECKING:
    from numpy.typing import NDArray


def one_hot(label: int, n_classes: int) -> NDArray[np.int64]:
    """Return a one for the class of a message, and zeros for the others, shape (K,).

    Raises
    ------
    InvalidObservation
        If `label` is not in ``range(n_classes)``.

    Examples
    --------
    >>> one_hot(1, 3).tolist()
    [0, 1, 0]
    """
    if not 0 <= label < n_classes:
        msg = f"label {label} is not in range({n_classes})"
        raise InvalidObservation(msg)
    signs = np.zeros(n_classes, np.int64)
    signs[label] = 1
    return signs
