"""Profiles with keyed ids: as good as others, and no dictionary gives words back."""

from __future__ import annotations

import numpy as np
import pytest

from app.classifier.rule import SHIPPED_VIEWS
from app.features.extract import VIEWS, meant
from app.ledger.undo import Selection
from app.services.profiles import create_profile, id_key_of_new
from app.services.recent import HEADER
from app.storage import ledger
from app.storage.database.engine import reading
from app.storage.fold import audit
from tests.support.application import learn_batch, running
from tests.support.builders import MARCH, counts_of, fold_all
from tests.support.databases import on_sqlite
from tests.support.messages import ham, spam

# A dictionary of the public, with which a reader of the database tries his luck.
WORDS = [
    first + second
    for first in ("ba", "cor", "den", "fli", "gor", "hu", "jas", "lem", "mi", "nor")
    for second in ("bel", "dan", "fin", "gus", "kol", "lap", "mer", "nat", "pir", "sol")
]


def letter(number):
    """Return a message of ten words of the dictionary."""
    words = " ".join(WORDS[10 * number : 10 * number + 10])
    return f"From: ann@example.org\nSubject: {WORDS[number]}\n\n{words}\n".encode()


@pytest.fixture
def settings(database_url, tmp_path):
    """Return the settings of a site without words, in all views."""
    return {
        "database_url": database_url,
        "store_words": False,
        "key_file": tmp_path / "key",
        "text_views": ("words", "headers", "pairs"),
    }


@pytest.fixture
def app(settings):
    """A site whose profile has keyed ids, beside one without a key."""
    with running(**settings) as app:
        add(app, "plain", id_key=None)
        yield app


def add(app, name, *, id_key):
    """Create a profile, and have the service load it."""
    create_profile(
        app.engine,
        name,
        labels=("ham", "spam"),
        spam_labels=("spam",),
        time=MARCH,
        id_key=id_key,
    )
    app.live.refresh()


def teach(app, raw, label, *profiles, source="test"):
    """Teach a message to profiles."""
    for profile in profiles:
        app.feedback.teach(profile, raw, label=label, source=source)


def teach_both(app, count):
    """Teach messages of both sides to both profiles."""
    for number in range(count):
        teach(app, ham(number), "ham", "default", "plain")
        teach(app, spam(number), "spam", "default", "plain")


def by_name(found):
    """Return what each named feature adds to the log-odds."""
    seen, added = found.observation, found.attribution.contributions
    return {
        (view, name): value
        for view in added
        for name, value in zip(seen.names.get(view, ()), added[view], strict=False)
    }


def stored(app, profile):
    """Return the ids of features in the ledger and in the counts of a profile."""
    row = app.live.get(profile).row
    fold_all(app.engine, row)
    found = {
        (view, number)
        for _, view, x in counts_of(app.engine, row).parts()
        for number in x.ids.tolist()
    }
    with reading(app.engine) as connection:
        for entry in ledger.rows_after(connection, row.id, revision=0, limit=100):
            for view, x in entry.views.items():
                found |= {(view, number) for number in x.ids.tolist()}
    return found


@on_sqlite
def test_a_dictionary_gives_no_word_back(app):
    """All of them without a key; with one, neither words nor their order."""
    for number in range(10):
        teach(app, letter(number), "spam", "default", "plain")
    pairs = [f"{one} {two}" for i in range(0, 100, 10)
             for one, two in zip(WORDS[i : i + 9], WORDS[i + 1 : i + 10], strict=True)]  # fmt: skip
    guesses = [("words", WORDS), ("pairs", pairs)]
    recovered = {
        profile: {
            view: sum((view, meant(word)[view]) in ids for word in names)
            for view, names in guesses
        }
        for profile in ("plain", "default")
        for ids in [stored(app, profile)]
    }

    assert {"words": 100, "pairs": 90} == recovered["plain"]
    assert {"words": 0, "pairs": 0} == recovered["default"]


def test_no_id_is_stored_as_another_profile_has_it(app):
    """In no view."""
    teach_both(app, 3)
    plain, keyed = stored(app, "plain"), stored(app, "default")

    assert len(plain) == len(keyed)
    assert {view for view, _ in keyed} == set(VIEWS) - {"grams"}
    assert not plain & keyed


@on_sqlite
def test_verdicts_are_those_of_a_profile_without_a_key(app):
    """To the rounding of sums, which are added in another order."""
    teach_both(app, 12)
    for number in range(12, 30):
        for raw in (ham(number), spam(number)):
            found = app.classify.each(("default", "plain"), raw, strongest=9)
            keyed, plain = found["default"], found["plain"]

            assert plain.verdict.decision == keyed.verdict.decision
            assert plain.verdict.log_odds == pytest.approx(
                keyed.verdict.log_odds, rel=1e-9
            )
            assert by_name(plain) == pytest.approx(by_name(keyed), rel=1e-9)
            assert plain.observation.id == keyed.observation.id


def test_a_message_that_was_scored_is_taught_by_its_id(app, settings):
    """From memory, from the table after a restart, and by the mark in its headers."""
    teach_both(app, 4)
    digests = [
        app.classify.each(("default",), spam(n), strongest=0, taught=("plain",))[
            "default"
        ].observation.digest
        for n in (50, 51, 52)
    ]
    for profile in ("default", "plain"):
        app.feedback.teach_by_id(profile, digests[0], label="spam", source="test")
    app.stop()
    with running(**settings) as again:
        for profile in ("default", "plain"):
            again.feedback.teach_by_id(profile, digests[1], label="spam", source="test")
            tagged = b"%b: %b\n" % (HEADER.encode(), digests[2].hex().encode())
            taught = again.feedback.teach(
                profile, tagged + spam(52) + b"A footer.\n", label="spam", source="test"
            )
            assert digests[2] == taught.outcome.digest
            assert digests[2] == again.feedback.identify(
                profile, tagged + spam(52) + b"A footer.\n"
            )
        same = {len(stored(again, profile)) for profile in ("default", "plain")}

    assert 1 == len(same)


def test_what_is_taught_is_moved_forgotten_and_undone(app):
    """As if it had never been: the audit is zero, and so are the counts."""
    teach_both(app, 3)
    before = app.live.get("default").snapshot.tables["words"].flatten()
    teach(app, spam(40), "ham", "default", source="ben")
    teach(app, spam(40), "spam", "default", source="ben")
    teach(app, spam(41), "ham", "default", source="ben")
    digest = app.feedback.identify("default", spam(42))
    teach(app, spam(42), "spam", "default")
    app.feedback.forget("default", digest, source="test")
    undone = app.undo.begin("default", Selection(source="ben"), source="test")
    list(app.undo.finish(undone))
    live = app.live.get("default")
    live.follow(app.engine)
    with reading(app.engine) as connection:
        found = audit(connection, live.row)

    assert before == live.snapshot.tables["words"].flatten()
    assert (True, 0) == (found.sound, found.difference)


def test_a_word_is_looked_up_by_its_keyed_id(app):
    """The word is found in memory and in the monthly tables."""
    teach_both(app, 3)
    for profile in ("default", "plain"):
        fold_all(app.engine, app.live.get(profile).row)
    keyed, plain = (app.words(name, "money").views for name in ("default", "plain"))

    assert keyed.keys() == plain.keys()
    assert {"ham": 0, "spam": 2} == plain["words"].messages == keyed["words"].messages
    assert plain["words"].epochs == keyed["words"].epochs


@on_sqlite
@pytest.mark.parametrize("store_words", [True, False])
def test_where_no_words_are_stored_are_no_grams(settings, store_words):
    """Also in a profile without a key, from before words were left out."""
    shipped = {"text_views": SHIPPED_VIEWS, "store_words": store_words}
    with running(**settings | shipped) as app:
        add(app, "plain", id_key=None)
        found = app.live.get("plain").specification.deciding

    assert store_words == ("grams" in found)


@on_sqlite
def test_mail_that_is_read_in_bulk_is_keyed(app):
    """`learn` gives the ids that feedback gives."""
    add(app, "bulk", id_key=app.live.get("default").row.id_key)
    mail = [("ham", ham(1)), ("spam", spam(1))]
    learn_batch(app, mail, MARCH, profile="bulk", store_words=False)
    teach(app, ham(1), "ham", "default")
    teach(app, spam(1), "spam", "default")

    assert stored(app, "bulk") == stored(app, "default")


@on_sqlite
def test_what_the_filter_learns_by_itself_is_keyed(settings):
    """Its own verdicts are of the observation that was scored."""
    with running(**settings, autolearn_from=3.0) as app:
        for number in range(20):
            teach(app, ham(number), "ham", "default")
            teach(app, spam(number), "spam", "default")
        before = stored(app, "default")
        app.classify("default", spam(77), strongest=0)
        # The writer takes what waits in order: this comes after the verdict.
        teach(app, ham(0), "ham", "default")
        learned = stored(app, "default") - before
        row = app.live.get("default").row
        with reading(app.engine) as connection:
            own = ledger.rows_after(connection, row.id, revision=40, limit=9)
        numbers = [meant(word)["words"] for word in ("77", "offer", "order")]

    assert ["auto"] == [each.source for each in own]
    assert learned
    assert not np.isin(own[0].views["words"].ids, numbers).any()


@on_sqlite
def test_a_message_is_explained_after_a_restart(app, settings):
    """By stored features, whose words are not there and whose weight is."""
    teach_both(app, 5)
    found = app.classify("default", spam(60), strongest=3)
    app.stop()
    with running(**settings) as again:
        (history,) = again.history.stored(
            found.observation.digest, profile="default", strongest=3
        )

    assert found.verdict.log_odds == pytest.approx(history.now.verdict.log_odds)


@on_sqlite
def test_a_further_profile_of_the_site_has_the_same_key(app, settings):
    """A database has one key, so a message is keyed once for all of them."""
    key = id_key_of_new(app.engine, app.settings)
    add(app, "ann@example.org", id_key=key)
    teach(app, spam(1), "spam", "default", "ann@example.org")
    found = app.classify.each(
        ("default", "ann@example.org", "plain"), spam(2), strongest=0
    )
    observations = {id(each.observation) for each in found.values()}

    assert app.live.get("default").row.id_key == key
    assert 2 == len(observations)
    assert stored(app, "default") == stored(app, "ann@example.org")
