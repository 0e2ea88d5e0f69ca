"""Live figures: what the filter said before it learned, against what people said."""

from __future__ import annotations

import numpy as np
import pytest

from app.errors import UnknownProfile
from app.figures import Errors, roca_pct
from app.services.figures import OTHERS, SOURCES
from app.services.profiles import delete_profile, rename_profile
from tests.support.messages import ham, spam

N = 24


@pytest.fixture
def database():
    """SQLite alone: no rule here is about a database; storage's tests run on both."""
    return "sqlite"


def teach(app, raw, label):
    """Teach one message; return the verdict before."""
    return app.feedback.teach("default", raw, label=label, source="test")


@pytest.fixture
def taught(app):
    """The verdicts of messages that were taught in turn."""
    return [
        teach(app, spam(i) if i % 2 else ham(i), "spam" if i % 2 else "ham")
        for i in range(N)
    ]


def test_they_are_those_of_the_verdicts_before_learning(app, taught):
    """Errors and ranking are recomputed here from the answers to the feedback."""
    gold = np.arange(N) % 2 == 1
    decided = np.array([t.verdict_before.decision == "spam" for t in taught])
    log_odds = np.array([t.verdict_before.log_odds for t in taught])

    figures = app.figures("default", window=1000)

    assert Errors.of(gold, decided) == figures.errors
    assert sum(t.verdict_before.decision == "unsure" for t in taught) == figures.unsure
    assert roca_pct(log_odds, gold) == figures.roca_pct
    assert N == sum(part.messages for part in figures.reliability)


def test_the_teachers_alone_are_those_of_all_figures(app, taught):
    """Watching teachers does not require intervals of the other figures."""
    alone = app.figures.sources("default", window=5)

    assert app.figures("default", window=5).sources == alone


def test_the_window_takes_the_newest(app, taught):
    """An older message is not in a smaller window."""
    figures = app.figures("default", window=5)

    assert (5, taught[-1].revision) == (
        figures.errors.ham + figures.errors.spam,
        figures.curve[-1].last_revision,
    )


def test_the_curve_has_every_message_once(app, taught):
    """Tenths of the window, in the order of the ledger."""
    curve = app.figures("default", window=1000).curve

    assert 10 == len(curve)
    assert N == sum(part.errors.ham + part.errors.spam for part in curve)
    assert (1, taught[-1].revision) == (
        curve[0].first_revision,
        curve[-1].last_revision,
    )


def test_a_corrected_label_corrects_the_figures(app, taught):
    """A message that is moved counts on the side where it is now."""
    before = app.figures("default", window=1000).errors
    assert taught

    teach(app, spam(1), "ham")

    after = app.figures("default", window=1000).errors
    assert (before.ham + 1, before.spam - 1) == (after.ham, after.spam)


def test_a_forgotten_message_counts_no_more(app, taught):
    """What was taken back is not evidence of anything."""
    app.feedback.forget("default", taught[3].outcome.digest, source="test")

    errors = app.figures("default", window=1000).errors

    assert N - 1 == errors.ham + errors.spam


def test_a_message_that_is_taught_again_counts_once(app, taught):
    """However often it was forgotten, and where it was learned last."""
    before = app.figures("default", window=1000).errors
    for _ in range(2):
        app.feedback.forget("default", taught[3].outcome.digest, source="test")
        again = teach(app, spam(3), "spam")

    figures = app.figures("default", window=1000)

    assert (before.ham, before.spam) == (figures.errors.ham, figures.errors.spam)
    assert again.revision == figures.curve[-1].last_revision


def test_a_message_that_is_taught_again_and_again_hides_no_other(app, taught):
    """The window counts messages, so nobody can fill it with one of them."""
    for _ in range(12):
        app.feedback.forget("default", taught[3].outcome.digest, source="test")
        teach(app, spam(3), "spam")

    figures = app.figures("default", window=10)

    assert 10 == figures.errors.ham + figures.errors.spam


def test_nothing_learned_has_no_figures(app):
    """None, not zero: a filter that was not tried made no error."""
    figures = app.figures("default", window=10)

    assert (None, None, None, None, (), ()) == (
        figures.roca_pct,
        figures.roca_interval_pct,
        figures.ece,
        figures.brier,
        figures.reliability,
        figures.curve,
    )


def test_another_profile_of_the_same_name_has_its_own_figures(app):
    """Figures are cached by revision, and both profiles are at the first one."""

    def figures(name, raw, label):
        app.create_profile(name, labels=("ham", "spam"), spam_labels=("spam",))
        app.feedback.teach(name, raw, label=label, source="test")
        return app.figures(name, window=10)

    old = figures("ann", spam(0), "spam")
    rename_profile(app.engine, "ann", "bob")
    app.live.refresh()
    renamed = app.figures("bob", window=10)
    list(delete_profile(app.engine, "bob"))
    new = figures("bob", ham(0), "ham")

    assert ("ann", 1, 0) == (old.profile, old.errors.spam, old.errors.ham)
    assert ("bob", 1, 0) == (renamed.profile, renamed.errors.spam, renamed.errors.ham)
    assert ("bob", 0, 1) == (new.profile, new.errors.spam, new.errors.ham)


def test_a_profile_that_is_not_there_is_named(app):
    """The error names it."""
    with pytest.raises(UnknownProfile, match="'nobody'"):
        app.figures("nobody", window=10)


def test_a_label_counts_for_who_gave_it_last(app):
    """The last teacher of a message is responsible, and the busiest are named."""
    for number in range(SOURCES + 2):
        for _ in range(2):
            app.feedback.teach(
                "default", spam(number), label="spam", source=f"u{number:02}"
            )
    app.feedback.teach("default", spam(0), label="ham", source="eve")
    for number in range(100, 103):
        app.feedback.teach("default", ham(number), label="ham", source="eve")
    found = {each.source: each for each in app.figures("default", window=99).sources}

    assert (4, 0) == (found["eve"].errors.ham, found["eve"].errors.spam)
    assert SOURCES + 1 == len(found)
    assert SOURCES + 5 == sum(x.errors.ham + x.errors.spam for x in found.values())
    assert found[OTHERS].errors.spam == 2
