"""A verdict, computed from messages by the formulas of docs/mathematics.md alone."""

from __future__ import annotations

from collections import Counter
from math import hypot, log

import pytest

from app.classifier.learn import delta, taught
from app.classifier.snapshot import Snapshot, score
from app.classifier.specification import Specification
from app.features.extract import extract
from app.mail.parse import parse
from tests.support.messages import ham, spam

TEXT = ("words", "headers", "pairs")
RUN = 5 << 24
"""Added to a run of four symbols for its id."""


def features(raw, view):
    """Return the features of a message in a view; grams as runs of symbols."""
    ids = extract(parse(raw)).views[view].ids.tolist()
    if view != "grams":
        return ids
    return [
        tuple((i - RUN) >> 6 * place & 63 for place in (3, 2, 1, 0))
        for i in ids
        if i >= RUN
    ]


class Learned:
    """Counts of what each side has taught a view."""

    def __init__(self):
        """Start with nothing."""
        self.messages, self.found = [0, 0], [Counter(), Counter()]

    def learn(self, label, found):
        """Add the features of a message."""
        self.messages[label] += 1
        self.found[label].update(found)

    def multinomial(self, found):
        """Return the log-odds of section 5, with its interpolation."""
        sizes = [counts.total() for counts in self.found]
        odds = 0.0
        for i in found:
            if both := self.found[0][i] + self.found[1][i]:
                p = [
                    trust * (counts[i] + 0.02) / (size + 0.02 * sum(sizes) / both)
                    + (1 - trust) * both / sum(sizes)
                    for counts, size, n in zip(
                        self.found, sizes, self.messages, strict=True
                    )
                    for trust in [n / (n + 3)]
                ]
                odds += log(p[1] / p[0])
        return odds

    def differential(self, found):
        """Return the log-odds of section 16."""
        odds = 0.0
        for i in found:
            n = [counts[i] for counts in self.found]
            h = [
                here * max(self.messages) / of
                for here, of in zip(n, self.messages, strict=True)
            ]
            apart = (max(h) - min(h)) ** 2 - max(h) * min(h) / 4
            if apart > 0:
                q = apart / sum(h) ** 2 * sum(h) / (sum(h) + 1 / 400)
                mixed = [
                    1 - q + 2 * q * here / of
                    for here, of in zip(n, self.messages, strict=True)
                ]
                odds += log(mixed[1] / mixed[0])
        return odds

    def chain(self, runs):
        """Return the log-odds of section 17."""
        begun = [
            Counter(run[:size] for run in found.elements() for size in range(5))
            for found in self.found
        ]

        def theta(counts, run):
            back = theta(counts, run[1:]) if len(run) > 1 else 1 / 64
            return (counts[run] + 20 * back) / (counts[run[:-1]] + 20)

        return sum(log(theta(begun[1], run) / theta(begun[0], run)) for run in runs)


@pytest.mark.parametrize("asked", [ham(7), spam(7), ham(99), b"Subject: x\n\ny\n"])
def test_a_verdict_is_what_the_formulas_give(asked):
    """Of even classes, before the weights of the views are fitted."""
    snapshot = Snapshot.empty(Specification())
    views = {view: Learned() for view in (*TEXT, "corrections", "grams")}
    # The last four have the wrong labels, so they are errors.
    taught_mail = [(n % 2 ^ (n > 7), (ham, spam)[n % 2](n // 2)) for n in range(12)]
    for revision, (label, raw) in enumerate(taught_mail, 1):
        x = extract(parse(raw)).views
        kept = taught(x, score(snapshot, x), label, snapshot.specification)
        change = delta(kept, before=None, after=label, n_classes=2)
        snapshot.learn(change, revision=revision)
        for view in TEXT:
            views[view].learn(label, features(raw, view))
        if "corrections" in kept:
            every = [i for view in TEXT for i in features(raw, view)]
            views["corrections"].learn(label, every)
        if "grams" in kept:
            views["grams"].learn(label, features(raw, "grams"))

    found = {view: features(asked, view) for view in (*TEXT, "grams")}
    expected = sum(
        3.5 * views[view].multinomial(found[view]) / (len(found[view]) + 20)
        for view in TEXT
    )
    few = min(views["corrections"].messages)
    for weight, names in (3, TEXT), (2, ("headers",)):
        used = [i for view in names for i in found[view]]
        d = views["corrections"].differential(used)
        bounded = d / hypot(5.4 * (len(used) + 20) ** 0.5, d)
        expected += weight * few / (few + 7) * bounded
    few = min(views["grams"].messages)
    assert few > 1
    d = views["grams"].chain(found["grams"])
    size = len(extract(parse(asked)).views["grams"].ids)
    expected += 2 * few / (few + 7) * d / hypot(0.09 * (size + 20), d)

    assert expected == pytest.approx(
        score(snapshot, extract(parse(asked)).views).log_odds, rel=1e-9
    )
