"""Features are found in a tier however large it is."""

from __future__ import annotations

import numpy as np
import pytest

from app.bayes import table as tier
from app.bayes.counts import FeatureCounts, half
from app.bayes.sparse import SparseCounts
from app.bayes.table import BUCKETS_FROM, FEW, FeatureTable, Tier


def counted(ids, label=0):
    """Return what a message with these features adds."""
    x = SparseCounts.from_occurrences(np.array(ids, np.int64))
    return FeatureCounts.of(x, label=label, n_classes=2)


ONE = counted([1, 3, 3, 7]) + counted([3, -(2**63)], label=1)


@pytest.mark.parametrize("few", [0, FEW])
@pytest.mark.parametrize("buckets_from", [2, BUCKETS_FROM])
def test_looking_up_in_a_tier_is_looking_up_in_its_counts(
    monkeypatch, buckets_from, few
):
    """One search answers for both counts, with buckets and without."""
    monkeypatch.setattr(tier, "BUCKETS_FROM", buckets_from)
    monkeypatch.setattr(tier, "FEW", few)
    ids = np.array([-9, 1, 3, 5, 9, -(2**63), 2**63 - 1])
    it = Tier.of(ONE)
    found = it.look_up(ids)

    assert (buckets_from == 2) == (it.buckets is not None)
    for counting in ("occurrences", "presence"):
        assert ONE.look_up(ids, counting).tolist() == half(found, counting).tolist()


def test_a_large_table_counts_as_its_flat_sum_does():
    """With buckets below and small tiers above."""
    rng = np.random.default_rng(3)
    known = np.unique(rng.integers(-(2**63), 2**63 - 1, BUCKETS_FROM + 500))
    table = FeatureTable.of(counted(known))
    for n in range(20):
        fresh = rng.integers(-(2**63), 2**63 - 1, 40)
        table = table.add(counted([*known[n::999], *fresh], label=n % 2))
    flat = table.flatten()
    asked = np.concatenate((known[::37], rng.integers(-(2**63), 2**63 - 1, 100)))

    assert table.tiers[0].buckets is not None
    assert len(table.tiers) > 1
    for counting in ("occurrences", "presence"):
        assert (flat.look_up(asked, counting) == table.look_up(asked, counting)).all()
