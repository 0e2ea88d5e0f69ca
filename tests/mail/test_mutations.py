"""Mutated whole messages are read, scored and explained, whatever they are."""

from __future__ import annotations

import math
import runpy
import sys
from itertools import islice
from pathlib import Path
from random import Random

import pytest

from app.classifier.specification import Specification
from app.evaluation.subject import Subject
from app.features.extract import extract
from app.mail.parse import parse
from tests.support.messages import ham, spam
from tests.support.mutations import messages, mutated

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def taught():
    """A filter that has learned a few messages of each kind."""
    subject = Subject(Specification())
    for number in range(12):
        for label, make in (("ham", ham), ("spam", spam)):
            subject.learn(extract(parse(make(number))).views, label)
    return subject


@pytest.mark.parametrize("seed", range(8))
def test_a_mutated_message_has_an_answer(taught, seed):
    """From bytes to explanation nothing is raised, and every number is finite."""
    random = Random(seed)  # noqa: S311  repeatable, no secret
    for raw in islice(mutated(messages(), random), 60):
        message = parse(raw)
        observation = extract(message)
        verdict = taught.score(observation.views)
        taught.explain(observation.views, verdict, strongest=5)

        assert "part-unreadable" not in message.defects
        assert math.isfinite(verdict.log_odds)
        assert all("" not in names for names in observation.names.values())


def test_the_targets_of_the_fuzzing_take_any_bytes(monkeypatch):
    """They are loaded without atheris, which guides them, and raise nothing."""
    monkeypatch.setattr(sys, "argv", ["fuzz", "mutations"])
    targets = runpy.run_path(str(ROOT / "scripts" / "fuzz"))["TARGETS"]

    assert {"mail", "milter", "spamd", "rspamd", "imap"} == set(targets)
    requests = [
        b"POST /checkv2 HTTP/1.1\r\nFrom: ann@example.org\r\n\r\nhello",
        b"CHECK SPAMC/1.5\r\nContent-length: 5\r\n\r\nhello",
    ]
    for target in targets.values():
        for raw in (b"", b"\0", ham(1), spam(1) + b"\0" + ham(2), *requests):
            target(raw)
