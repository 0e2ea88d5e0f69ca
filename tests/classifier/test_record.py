"""What the ledger keeps of a score."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from app.bayes.models.discrete import Multinomial
from app.bayes.smoothing import NoSmoothing
from app.bayes.sparse import SparseCounts
from app.classifier.learn import delta
from app.classifier.record import evidence_of, record
from app.classifier.rule import Term, VerdictRule
from app.classifier.snapshot import Snapshot, score
from app.classifier.specification import Specification, ViewModel
from app.features.extract import extract
from app.mail.parse import parse
from tests.support.messages import ham, spam

SPECIFICATION = Specification()


def verdict():
    """Return the verdict of a filter that knows four messages on a fifth."""
    snapshot = Snapshot.empty(SPECIFICATION)
    for revision, (raw, label) in enumerate(
        [(ham(0), 0), (ham(1), 0), (spam(0), 1), (spam(1), 1)], 1
    ):
        views = extract(parse(raw), SPECIFICATION.views).views
        moved = delta(views, before=None, after=label, n_classes=2)
        snapshot.learn(moved, revision=revision)
    return score(snapshot, extract(parse(spam(4)), SPECIFICATION.views).views)


def test_a_record_has_the_decision_and_every_term():
    """It is what the live figures and a person with a database shell read."""
    said = verdict()
    kept = record(said, SPECIFICATION)

    assert said.decision == kept["decision"]
    assert said.log_odds == kept["log_odds"]
    assert set(SPECIFICATION.verdict.names) == set(kept["terms"])


def test_what_is_read_back_is_what_was_written():
    """JSON changes nothing: memory and database teach the fusion the same."""
    kept = record(verdict(), SPECIFICATION)

    from_memory = evidence_of(kept, SPECIFICATION)
    from_json = evidence_of(json.loads(json.dumps(kept)), SPECIFICATION)

    assert from_memory.terms.tolist() == from_json.terms.tolist()
    assert from_memory.log_prior.tolist() == from_json.log_prior.tolist()
    assert from_memory.log_odds == from_json.log_odds


def test_a_score_that_is_no_number_is_kept_as_null():
    """JSON has no infinity; an unsmoothed model gives it to what a class never had."""
    specification = Specification(
        classifiers={
            "words": ViewModel(
                view="words", event_model=Multinomial(smoothing=NoSmoothing())
            )
        },
        verdict=VerdictRule(terms=(Term(classifier="words"),)),
    )
    snapshot = Snapshot.empty(specification)
    for label in (0, 1):
        views = {"words": SparseCounts.of({label: 1})}
        moved = delta(views, before=None, after=label, n_classes=2)
        snapshot.learn(moved, revision=label + 1)
    said = score(snapshot, {"words": SparseCounts.of({0: 1})})
    kept = record(said, specification)

    assert said.log_odds == -math.inf
    assert None is kept["log_odds"]
    assert {"words/mean20": [0.0, None]} == kept["terms"]
    assert None is evidence_of(kept, specification)


def test_the_terms_of_a_record_add_up_to_its_log_odds():
    """Times the shipped weights, the terms sum to the log-odds."""
    kept = record(verdict(), SPECIFICATION)
    evidence = evidence_of(kept, SPECIFICATION)
    weights = np.array([term.weight for term in SPECIFICATION.verdict.terms])

    ham_joint, spam_joint = weights @ evidence.terms + evidence.log_prior

    assert kept["log_odds"] == pytest.approx(spam_joint - ham_joint, abs=1e-4)


def test_a_record_from_before_such_views_still_teaches_the_fusion():
    """Views of errors said nothing then; a view that is missing otherwise is another verdict."""
    kept = record(verdict(), SPECIFICATION)
    *views, corrections, headers, grams = SPECIFICATION.verdict.names

    def without(*names):
        terms = {key: row for key, row in kept["terms"].items() if key not in names}
        return evidence_of({**kept, "terms": terms}, SPECIFICATION)

    errors = (corrections, headers, grams)
    whole, old = evidence_of(kept, SPECIFICATION), without(*errors)

    assert errors == (
        "corrections/bounded20-5.4",
        "header_corrections/bounded20-5.4",
        "grams/bounded-mean20-0.09",
    )
    assert whole.terms[:-3].tolist() == old.terms[:-3].tolist()
    assert [[0.0, 0.0]] * 3 == old.terms[-3:].tolist()
    assert whole.terms[:-1].tolist() == without(grams).terms[:-1].tolist()
    assert without(views[0]) is None
