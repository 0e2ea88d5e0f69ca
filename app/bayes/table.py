"""Feature table: counts in sorted tiers that learn a message without a rewrite.

A binary search reads one place after the other, each far from the last, and most
of them are in no cache of the processor.  Hashes are spread evenly, so that their
leading bits tell where they stand.

A `FeatureTable` is a sum of `FeatureCounts`, kept as a few sorted tiers of
falling size, the way a log-structured merge tree keeps its runs [1]_.  Adding
a message makes a new table that shares all large tiers with the old one, so a
reader of the old table is never disturbed and needs no lock.

.. [1] P. O'Neil, E. Cheng, D. Gawlick and E. O'Neil, "The log-structured
   merge-tree (LSM-tree)", Acta Informatica 33(4), 1996, pages 351-385.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from app.bayes.counts import FeatureCounts, half, require_frequencies, require_reachable
from app.bayes.moments import MomentSums
from app.bayes.sparse import Counting, any_of
from app.errors import InvalidObservation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from app.bayes.counts import Spectrum
    from app.bayes.state import State
    from app.bayes.statistics import Statistics

ID_BITS: Final = 64
# Of a row in each bucket on average, the fullest of two million has ten; only ids
# that are no hashes, or were chosen, stand closer.
FULLEST: Final = 16


@dataclass(frozen=True, slots=True, eq=False)
class Buckets:
    """Where the ids with the same leading bits begin.

    Parameters
    ----------
    starts : ndarray of int32, shape (2**b,)
        The first id of each bucket, by its leading *b* bits, the smallest first.
    bits : int
        How many bits: *b*.
    steps : int
        How many ids the fullest bucket has.

    Examples
    --------
    >>> ids = np.array([-(2**62), 3, 2**62])
    >>> buckets = Buckets.of(ids)
    >>> buckets.find(ids, np.array([3, 2**62, 4])).tolist()
    [1, 2, 2]
    """

    starts: NDArray[np.int32]
    bits: int
    steps: int

    @classmethod
    def of(cls, ids: NDArray[np.int64]) -> Buckets | None:
        """Return the buckets of ids, strictly increasing, two at least.

        Returns
        -------
        Buckets or None
            None where the ids are not spread evenly: then search them.
        """
        # 2**31 rows would take 80 GB.
        bits = max(1, int(ids.size - 1).bit_length())
        filled = np.bincount(_leading(ids, bits), minlength=1 << bits)
        steps = int(filled.max())
        if steps > FULLEST:
            return None
        starts = np.zeros(1 << bits, np.int32)
        np.cumsum(filled[:-1], out=starts[1:])
        return cls(starts, bits, steps)

    def find(
        self, ids: NDArray[np.int64], asked: NDArray[np.int64]
    ) -> NDArray[np.intp]:
        """Return the place of each id that is asked for, or where it belongs.

        Parameters
        ----------
        ids : ndarray of int64, shape (V,)
            Those that the buckets are of.
        asked : ndarray of int64, shape (n,)
            In any order.

        Returns
        -------
        ndarray of int, shape (n,)
            What ``ids.searchsorted(asked)`` returns.
        """
        place = self.starts.take(_leading(asked, self.bits)).astype(np.intp)
        for _ in range(self.steps):
            smaller = ids.take(place, mode="clip") < asked
            if not np.count_nonzero(smaller):
                return place
            place += smaller
        # What is larger than all ids was led beyond the end.
        return np.minimum(place, ids.size)


def _leading(ids: NDArray[np.int64], bits: int) -> NDArray[np.int64]:
    """Return the leading bits of ids, from 0 for the smallest."""
    # The shift keeps the sign.
    return (ids >> (ID_BITS - bits)) + (1 << (bits - 1))


# Rows from which buckets are made.  CPU time of finding 250 and 4,000 features, half
# of them known, where something else used the caches in between:
#
#     rows         70,000          300,000         2,000,000
#     search       59    165       110    482      202   1147  µs
#     buckets      71    142        70    157       83    180  µs
#
# To make them takes 3 ms for 300,000 rows, and such a tier is made anew after some
# hundred messages.
BUCKETS_FROM: Final = 1 << 17
# Fewer features, those of a short message, are searched for also where there are
# buckets:
#
#     asked               7     20     50    100    250
#     277,000 rows
#       search            9     14     20     26     44  µs
#       buckets          20     23     25     27     35  µs
#     2,000,000 rows
#       search           14     32     56     85    139  µs
#       buckets          30     39     39     45     57  µs
FEW: Final = 32


@dataclass(frozen=True, slots=True, eq=False)
class Tier:
    """A part of a table, and how its features are found.

    Parameters
    ----------
    counts : FeatureCounts
        The part.
    buckets : Buckets or None
        Of its ids; None where they are few, or not spread evenly.
    """

    counts: FeatureCounts
    buckets: Buckets | None

    @classmethod
    def of(cls, counts: FeatureCounts) -> Tier:
        """Return the tier of some counts."""
        large = counts.ids.size >= BUCKETS_FROM
        return cls(counts, Buckets.of(counts.ids) if large else None)

    @property
    def size(self) -> int:
        """Number of features."""
        return self.counts.vocabulary

    def look_up(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the columns of `ids` (n,), shape (n, 2K); 0 where never seen."""
        if self.buckets is None or ids.size < FEW:
            place = self.counts.ids.searchsorted(ids)
        else:
            place = self.buckets.find(self.counts.ids, ids)
        return self.counts.take(ids, place)


# A tier is merged into the one below it once it is an eighth of its size.
# A larger ratio leaves fewer tiers to search, and merges each row more often.
# 60,000 messages of 152 features on average, drawn from a Zipf law over
# 200,000 words and with 15 new ones each, 1.1 million features in the end;
# CPU time per message over the second half, two classes:
#
#     ratio             2      4      8     16     32
#     learn           170    150    139    145    154  µs
#     look up          98     76     61     55     47  µs
#     tiers           6.0    4.4    3.6    3.0    2.7
#
# Of 600 real messages after 2,000, in groups of 25 as busy clients make them, and
# one by one:
#
#     ratio             4      8     16
#     group, each     312    329    403  µs, scored and learned
#     one, scored     628    602    586  µs
#     one, learned    273    281    302  µs
TIER_RATIO: Final = 8
# A tier of fewer rows is merged always: that takes less than a search in one tier
# more, and the categorical model, whose views are as small, sums up all tiers.  Mail
# is learned and scored in the same time with 512 rows to 4,096, within noise, and
# in 5 to 10 % more with 128.
SMALL_TIER: Final = 1024


@dataclass(frozen=True, slots=True)
class FeatureTable:
    """A growing sum of feature statistics, with what scoring asks of it.

    Build one with `empty` or `of`, and grow it with `add`.  For a model that asks
    for document frequencies at each message, have them kept with `with_spectra`.

    Parameters
    ----------
    tiers : tuple of Tier
        Their sum is the state; largest first.
    messages : ndarray of int64, shape (K,)
        Messages per class.
    vocabulary : int
        Number of features with a count in any class.
    column_totals : ndarray of int64, shape (2K,)
        Sums over the features of both counts, occurrences first.
    spectra : tuple of Spectrum or None
        The document frequencies of each class; None where they are counted when
        they are asked for.

    Examples
    --------
    >>> from app.bayes.sparse import SparseCounts
    >>> x = SparseCounts.of({1: 3, 2: 1})
    >>> delta = FeatureCounts.of(x, label=1, n_classes=2)
    >>> table = FeatureTable.empty(2).add(delta).add(delta)
    >>> table.vocabulary, table.totals("occurrences").tolist()
    (2, [0, 8])
    >>> table.add(-delta).flatten() == delta
    True
    """

    tiers: tuple[Tier, ...]
    messages: NDArray[np.int64]
    vocabulary: int
    column_totals: NDArray[np.int64]
    # Kept up to date, they are two fifths of what learning a message takes, 19 of 45 µs
    # for 91 words, and only the Bernoulli model asks.
    spectra: tuple[Spectrum, ...] | None = None
    _asked: list[tuple[NDArray[np.int64], NDArray[np.int64]] | None] = field(
        default_factory=lambda: [None], init=False, repr=False, compare=False
    )

    @classmethod
    def empty(cls, n_classes: int) -> FeatureTable:
        """Return the table of no message."""
        return cls.of(FeatureCounts.zero(n_classes))

    @classmethod
    def of(cls, state: FeatureCounts) -> FeatureTable:
        """Return the table of a state.

        Raises
        ------
        InconsistentCounts
            If no set of messages has these counts.
        """
        state.require_reachable()
        return cls(
            (Tier.of(state),),
            state.messages,
            state.vocabulary,
            np.add.reduce(state.columns),
        )

    def with_spectra(self) -> FeatureTable:
        """Return the table with its document frequencies at hand from now on."""
        flat = self.flatten()
        return replace(
            self,
            spectra=tuple(flat.document_frequencies(c) for c in range(flat.n_classes)),
        )

    def add(self, delta: FeatureCounts, *, takes_back: bool = True) -> FeatureTable:
        """Return the table with `delta` added; this one stays as it is.

        The cost grows with the features of `delta`, not with the vocabulary
        (amortised over the merges of tiers).

        Parameters
        ----------
        delta : FeatureCounts
            What is learned, and what is taken back.
        takes_back : bool, default True
            False where no message is taken back in `delta`: then there are messages
            with the counts of the sum, and contradictions are not looked for.

        Raises
        ------
        InconsistentCounts
            If no set of messages has the counts of the sum; the table stays
            as it is.  Whether another feature is now in more messages than its
            class has, only a table with spectra knows.
        """
        messages = self.messages + delta.messages
        found = self._columns(delta.ids)
        old = half(found, "presence")
        # What is learned is there afterwards.
        left = delta.ids.size
        if takes_back:
            found = found + delta.columns
            new = half(found, "presence")
            require_reachable(
                messages=messages, occurrences=half(found, "occurrences"), documents=new
            )
            left = int(np.count_nonzero(any_of(new)))
        spectra = self.spectra and tuple(
            spectrum.moved(old[:, c], delta.documents[:, c])
            for c, spectrum in enumerate(self.spectra)
        )
        if takes_back:
            require_frequencies(
                messages=messages,
                documents=np.array([[spectrum.largest for spectrum in spectra]])
                if spectra
                else new,
            )
        gained = left - int(np.count_nonzero(any_of(old)))
        return FeatureTable(
            _push(self.tiers, delta),
            messages,
            self.vocabulary + gained,
            self.column_totals + np.add.reduce(delta.columns),
            spectra,
        )

    def totals(self, counting: Counting) -> NDArray[np.int64]:
        """Return the sum over all features of their counts, shape (K,)."""
        return half(self.column_totals, counting)

    def look_up(self, ids: NDArray[np.int64], counting: Counting) -> NDArray[np.int64]:
        """Return the counts of `ids` (n,), shape (n, K); 0 where never seen."""
        return half(self._columns(ids), counting)

    def _columns(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return both counts of `ids` (n,), shape (n, 2K), read-only.

        The last answer is kept: messages are scored before they are learned, and both
        ask for the counts of their features.
        """
        last = self._asked[0]
        # Mostly it is the same array.
        if last is not None and (last[0] is ids or np.array_equal(last[0], ids)):
            return last[1]
        found = self.tiers[0].look_up(ids)
        for tier in self.tiers[1:]:
            found += tier.look_up(ids)
        found.flags.writeable = False
        self._asked[0] = ids, found
        return found

    def document_frequencies(self, label: int) -> Spectrum:
        """Return how many features have each document frequency."""
        if self.spectra is None:
            return self.flatten().document_frequencies(label)
        return self.spectra[label]

    def flatten(self) -> FeatureCounts:
        """Return the state as one group element, for comparing and saving."""
        parts = [tier.counts for tier in self.tiers]
        return FeatureCounts.sum(parts, n_classes=int(self.messages.size))


def _push(tiers: tuple[Tier, ...], delta: FeatureCounts) -> tuple[Tier, ...]:
    """Return the tiers with one more, merged until their sizes fall again."""
    kept = len(tiers)
    while kept and tiers[kept - 1].size < max(SMALL_TIER, TIER_RATIO * delta.ids.size):
        kept -= 1
        delta = tiers[kept].counts + delta
    return (*tiers[:kept], Tier.of(delta))


Table = FeatureTable | MomentSums
"""The sum of a view as scoring asks for it: features in tiers, or sums as they are."""


def tables_of(state: State) -> dict[str, Table]:
    """Return the table of each view.

    Raises
    ------
    InconsistentCounts
        If no set of messages has these statistics.
    """
    for sums in state.moments.values():
        sums.require_reachable()
    counted = {view: FeatureTable.of(x) for view, x in state.features.items()}
    return {**counted, **state.moments}


def feature_tables(tables: Mapping[str, Table]) -> dict[str, FeatureTable]:
    """Return the tables of the views that count features."""
    return {v: table for v, table in tables.items() if isinstance(table, FeatureTable)}


def added(table: Table, delta: Statistics, *, takes_back: bool) -> Table:
    """Return a table with what messages add to its view; see `FeatureTable.add`.

    Raises
    ------
    InconsistentCounts
        If no set of messages has the counts of the sum.
    InvalidObservation
        If the view is of another kind.
    """
    if isinstance(table, FeatureTable) and isinstance(delta, FeatureCounts):
        return table.add(delta, takes_back=takes_back)
    if isinstance(table, MomentSums) and isinstance(delta, MomentSums):
        total = table + delta
        if takes_back:
            total.require_reachable()
        return total
    msg = f"a view holds {type(table).__name__} and cannot learn {type(delta).__name__}"
    raise InvalidObservation(msg)
