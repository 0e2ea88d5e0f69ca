"""In which month does each message of a stream arrive?"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import numpy as np

from app.errors import UnreadableSource

if TYPE_CHECKING:
    from collections.abc import Sequence

AROUND: Final = 50
"""Messages before and after one whose dates say when it was."""

_FIRST_YEAR: Final = 2001


def months_by_dates(moments: Sequence[int | None], name: str) -> tuple[int, ...]:
    """Return the month of each message, by the dates of those around it.

    Parameters
    ----------
    moments : sequence of int or None
        When each message says that it arrived, in the order of the stream.
        Unit: seconds since 1970; None where it does not say.
    name : str
        What people call the stream.

    Returns
    -------
    tuple of int
        YYYYMM, never falling: the median of what the messages around say, since
        some of them come from clocks that are years off, and the latest such
        month so far, since a server's clock does not go back.

    Raises
    ------
    UnreadableSource
        If no message says when it arrived.

    Examples
    --------
    >>> february, march = 1_140_000_000, 1_142_000_000
    >>> found = months_by_dates(
    ...     [february] * 80 + [0, None, 9 * march] + [march] * 80, "mail"
    ... )
    >>> found[0], found[80], found[-1], len(set(found))
    (200602, 200602, 200603, 2)
    """
    told = np.array([np.nan if each is None else each for each in moments])
    if np.isnan(told).all():
        msg = (
            f"no message of {name} has a date, and a half-life goes by months; say "
            "with --months how many months the stream took"
        )
        raise UnreadableSource(msg)
    # Whoever says nothing came when the one before it did.
    known = np.flatnonzero(~np.isnan(told))
    at = np.maximum(np.searchsorted(known, np.arange(told.size), side="right") - 1, 0)
    told = told[known[at]]
    around = [
        np.median(told[max(0, here - AROUND) : here + AROUND + 1])
        for here in range(told.size)
    ]
    latest = np.maximum.accumulate(np.array(around))
    dates = [datetime.fromtimestamp(float(each), UTC) for each in latest]
    return tuple(100 * date.year + date.month for date in dates)


def months_evenly(messages: int, months: int) -> tuple[int, ...]:
    """Return the month of each message where all months have as many.

    Parameters
    ----------
    messages : int
        How many messages the stream has.
    months : int
        How many months it took.

    Examples
    --------
    >>> months_evenly(5, 2)
    (200101, 200101, 200101, 200102, 200102)
    """
    numbers = [here * months // messages for here in range(messages)]
    return tuple(100 * (_FIRST_YEAR + n // 12) + n % 12 + 1 for n in numbers)
