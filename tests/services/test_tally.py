"""Counters: of one process, and of several that share a folder."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from app.services.metrics import SHARED, STAGES, Tally

COUNT = """
from app.services.metrics import Tally
tally = Tally()
for _ in range(3):
    tally.classified("spam")
print(tally.counts("postbayes_classified", "decision"))
print(tally.registry.get_sample_value("postbayes_started_seconds"))
"""


def test_every_verdict_counts_once():
    """By its decision."""
    tally = Tally()
    for decision in ("spam", "ham", "spam"):
        tally.classified(decision)

    assert {"spam": 2, "ham": 1} == tally.counts("postbayes_classified", "decision")


def test_answers_and_feedback_count_by_what_became_of_them():
    """By status, and by outcome."""
    tally = Tally()
    for status in (200, 404, 200):
        tally.answered(status)
    for outcome in ("learned", "failed", "learned"):
        tally.teaching()(outcome, seconds=0.5)

    assert {"200": 2, "404": 1} == tally.counts("postbayes_http_responses", "status")
    assert {"learned": 2, "failed": 1} == tally.counts("postbayes_feedback", "outcome")
    assert 1.5 == tally.registry.get_sample_value("postbayes_feedback_seconds_sum")


def test_two_tallies_of_one_process_are_two():
    """No global registry: what one application did is not another's."""
    for tally in (Tally(), Tally()):
        tally.classified("spam")

        assert {"spam": 1} == tally.counts("postbayes_classified", "decision")


def test_a_failure_is_not_a_duration():
    """A verdict that there was none of has no time."""
    tally = Tally()
    with pytest.raises(ValueError, match="invalid literal"), tally.delivering("http"):
        int("mail")
    door = {"door": "http"}

    assert not tally.registry.get_sample_value("postbayes_classify_seconds_count", door)


def test_a_stage_begins_where_the_one_before_ends():
    """The stages of a verdict add up to no more than the whole; each has a series."""
    tally = Tally()
    begun = time.perf_counter()
    with tally.delivering("http"):
        passed = tally.classifying()
        for stage in STAGES:
            passed(stage)
    passed_here = time.perf_counter() - begun
    found = tally.registry.get_sample_value
    sums = [found("postbayes_stage_seconds_sum", {"stage": each}) for each in STAGES]
    whole = found("postbayes_classify_seconds_sum", {"door": "http"})

    assert 0 < sum(sums) <= whole <= passed_here


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """What two processes said that shared a folder; the first has ended."""
    shared = {SHARED: str(tmp_path_factory.mktemp("shared"))}
    command = [sys.executable, "-c", COUNT]
    return [
        subprocess.run(
            command, env=shared, check=True, capture_output=True, text=True
        ).stdout.splitlines()
        for _ in range(2)
    ]


def test_workers_that_share_a_folder_add_up(said):
    """The second process sees what the first, which has ended, had counted."""
    assert ["{'spam': 3}", "{'spam': 6}"] == [counts for counts, _ in said]


def test_a_service_is_as_old_as_its_first_worker(said):
    """One that took the place of another is no new service."""
    first, second = (started for _, started in said)

    assert float(first) > 0
    assert first == second
