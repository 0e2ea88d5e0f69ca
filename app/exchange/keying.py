"""Keying: the feature ids of an export, keyed on their way into a profile."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from app.bayes.counts import FeatureCounts
from app.bayes.state import State
from app.features.observation import Observation
from app.ledger.sums import encode_sum
from app.ledger.vector import encode, encode_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from app.features.id_key import IdKey
    from app.ledger.entry import LedgerRow


def keyed_names(key: IdKey, view: str, names: Mapping[int, str]) -> dict[int, str]:
    """Return the text of features of a view by their keyed ids."""
    ids = key.ids(view, np.fromiter(names, np.int64, len(names)))
    return dict(zip(ids.tolist(), names.values(), strict=True))


def keyed_sums(sums: State, key: IdKey) -> State:
    """Return statistics with keyed ids; measurements stay as they are."""
    found = State(sums)
    for view, x in sums.features.items():
        ids, places = key.ordered(view, x.ids)
        found[view] = FeatureCounts(x.messages, ids, x.columns.take(places, axis=0))
    return found


def keyed_row(row: LedgerRow, key: IdKey, labels: Sequence[str]) -> LedgerRow:
    """Return a row of the ledger with keyed ids, of a message or of a sum.

    Parameters
    ----------
    row : LedgerRow
        The row.
    key : IdKey
        The key.
    labels : sequence of str
        Name of each class index.
    """
    if row.vector is None:
        return row
    names: Mapping[str, Sequence[str]] = row.names
    if row.kind == "sum":
        sums = row.delta(labels)
        vector = encode_sum(keyed_sums(sums, key), labels)
        for view, x in sums.features.items():
            if view in names:
                texts = names[view]
                _, places = key.ordered(view, x.ids)
                names = {**names, view: [texts[at] for at in places.tolist()]}
    else:
        seen = Observation(row.digest, row.feature_set, row.views, names).keyed(key)
        vector, names = encode(seen.views), seen.names
    return replace(
        row, vector=vector, encoded_names=encode_names(names) if names else None
    )
