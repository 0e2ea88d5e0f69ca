"""Text, facts and measurements of one message add up."""

from __future__ import annotations

import numpy as np
import pytest

from app.bayes.models import Product
from app.bayes.models.discrete import Categorical, Multinomial, value_id
from app.bayes.models.gaussian import Gaussian
from app.bayes.sparse import Measurements, SparseCounts


def views(word, charset, size):
    """Return the three views of a message."""
    return {
        "words": SparseCounts.of({word: 1}),
        "structure": SparseCounts.of({value_id(field=0, value=charset): 1}),
        "measurements": Measurements.of({0: size}),
    }


MODELS = {
    "words": Multinomial(),
    "structure": Categorical(),
    "measurements": Gaussian(),
}
HISTORY = [
    (views(1, 1, 2.0), 0),
    (views(2, 1, 3.0), 0),
    (views(2, 2, 8.0), 1),
    (views(3, 2, 9.5), 1),
]


@pytest.fixture
def product():
    """A naive Bayes product of three event models."""
    likelihoods = {}
    for name, model in MODELS.items():
        deltas = [model.observe(m[name], label=c, n_classes=2) for m, c in HISTORY]
        likelihoods[name] = model.estimate(sum(deltas[1:], start=deltas[0]))
    return Product(2, likelihoods)


def test_the_views_log_likelihoods_add_up(product):
    """Independent given the class: a sum of logs."""
    x = views(2, 2, 5.0)
    expected = sum(product.likelihoods[name](x[name]) for name in MODELS)

    assert np.allclose(expected, product(x), rtol=1e-15)


def test_a_view_that_the_message_lacks_adds_nothing(product):
    """A missing view adds nothing, and neither does a view without event model."""
    x = views(2, 2, 5.0)

    assert (
        product.likelihoods["words"](x["words"]).tolist()
        == product({"words": x["words"], "pairs": x["words"]}).tolist()
    )
    assert [0.0, 0.0] == product({}).tolist()


def test_contributions_of_all_views_sum_to_the_score(product):
    """Each view explains its part."""
    x = views(2, 2, 5.0)
    parts = product.contributions(x | {"pairs": x["words"]})
    total = sum(p.constant + p.features.sum(axis=0) for p in parts.values())

    assert sorted(MODELS) == sorted(parts)
    assert ["words"] == list(product.contributions({"words": x["words"]}))
    assert np.allclose(product(x), total, rtol=1e-14)
