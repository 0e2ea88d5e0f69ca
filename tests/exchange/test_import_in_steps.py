"""An import that others work beside: unseen until it is whole, and in nobody's way."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from datetime import timedelta
from io import BytesIO
from types import SimpleNamespace

import pytest

from app.classifier.specification import Specification
from app.errors import (
    DatabaseUnavailable,
    MalformedExport,
    OtherProfile,
    ProfileReplaced,
)
from app.exchange import export as exporting
from app.exchange import staging
from app.exchange.survey import survey
from app.ledger import entry
from app.ledger.entry import OWN
from app.ledger.sums import encode_sums
from app.services.cache import LiveProfiles
from app.services.clock import SteadyClock
from app.services.recent import RecentMessages
from app.services.scheduler import Maintenance
from app.settings import Settings
from app.storage import fold, hidden, profiles, scored, tables
from app.storage.database import engine as turn
from app.storage.database.engine import open_engine, reading, writing
from app.storage.ledger import append_sums
from tests.support.builders import (
    APRIL,
    MARCH,
    digest,
    drop_vectors,
    fold_all,
    new_profile,
    observed,
    rows_of,
    taught,
    teach,
)
from tests.support.ledger import counted, learned
from tests.support.transfer import (
    LATER,
    CutError,
    audited,
    created,
    exported,
    imported,
    seen,
    state,
    stored,
    taught_profile,
    transfer,
    undo,
)


@pytest.fixture(params=["counts", "ledger"])
def contents(request):
    """Both kinds of export."""
    return request.param


@pytest.fixture
def in_many_blocks(monkeypatch):
    """Have exports of a few messages several blocks."""
    monkeypatch.setattr(exporting, "_BLOCK_BYTES", 1)
    monkeypatch.setattr(exporting, "FEATURES_PER_ROW", 1)


def beside(engine, data, name, act, *, instead=False, after=1):
    """Import an export, and do something once so many of its blocks are written."""
    file = BytesIO(data)
    found = survey(file)
    file.seek(0)
    blocks = []

    def told(at):
        blocks.append(at)
        if len(blocks) == after:
            act()

    service = transfer(engine)
    if instead:
        done = service.replace(service.profile(name), file, found, progress=told)
    else:
        done = service.add(name, file, found, progress=told)
    assert len(blocks) >= after
    list(service.fold(done.profile))
    return done


def cut(engine, data, name, *, after=1):
    """Begin an import as a process does that is killed."""

    def die(*_):
        raise CutError

    with pytest.MonkeyPatch.context() as patch:
        # Nothing is cleaned up.
        patch.setattr(hidden, "abandon", die)
        with pytest.raises(CutError):
            beside(engine, data, name, die, after=after)


@pytest.mark.parametrize("instead", [False, True])
def test_nothing_is_seen_of_an_import_until_it_is_whole(
    engine, in_many_blocks, contents, instead
):
    """Neither in a list, nor by a service, nor in the counts of a profile."""
    data = exported(engine, taught_profile(engine), contents=contents)
    other = new_profile(engine)
    created(engine, other, LATER)
    teach(engine, other, taught("mine", "ham", {"lunch": 1}))
    live = LiveProfiles(engine, lambda _: Specification())
    live.refresh()
    before = seen(engine), state(engine, other.name)
    at_half = []

    def look():
        live.refresh()
        at_half.append((seen(engine), state(engine, other.name)))
        assert len({each.row.name for each in live}) == len(seen(engine))
        assert stored(engine) > seen(engine)

    beside(engine, data, other.name, look, instead=instead, after=3)

    assert [before] == at_half
    assert before[1] != state(engine, other.name)
    assert stored(engine) == seen(engine)
    assert audited(engine, other.name).sound


def test_an_import_waits_for_nobody_and_nobody_for_it(engine, in_many_blocks, contents):
    """Another process teaches between two steps, for which no lock is held."""
    data = exported(engine, taught_profile(engine), contents=contents)
    other = new_profile(engine)
    # A lock would be held for as long as this one waits.
    other_process = open_engine(
        engine.url.render_as_string(hide_password=False), busy_timeout=10
    )
    outcomes = []

    def taught_by_others():
        outcomes.extend(teach(other_process, other, taught("x", "ham", {"lunch": 1})))

    beside(engine, data, "copy", taught_by_others, after=2)
    other_process.dispose()

    assert ["learned"] == [outcome.kind for outcome in outcomes]


@pytest.mark.parametrize("by", ["import", "upkeep"])
def test_what_an_import_leaves_that_was_cut_is_removed_by_whoever_comes_next(
    engine, in_many_blocks, contents, by
):
    """Once it has stood still for so long that nobody can be at work on it."""
    profile = taught_profile(engine)
    data = exported(engine, profile, contents=contents)
    before = seen(engine)
    cut(engine, data, "copy", after=2)
    unseen = stored(engine) - seen(engine)
    imported(engine, data, "early")
    still = stored(engine) - seen(engine)
    with writing(engine) as connection:
        tables_profile = tables.profile
        connection.execute(
            tables_profile.update()
            .where(tables_profile.c.id.in_(unseen))
            .values(created_at=LATER - hidden.LEASE - timedelta(seconds=1))
        )
    if by == "import":
        imported(engine, data, "late")
    else:
        upkeep = Maintenance(
            LiveProfiles(engine, lambda _: Specification()),
            RecentMessages(rows=0, store_words=True),
            Settings(scored_days=1, scored_rows=9, vector_days=0),
            clock=SteadyClock(None, lambda: LATER),
        )
        while upkeep():
            pass

    assert (1, unseen) == (len(unseen), still)
    assert before < seen(engine)
    assert stored(engine) == seen(engine)


def test_an_import_that_fails_leaves_nothing(engine, in_many_blocks, contents):
    """It removes what it has written itself."""
    data = exported(engine, taught_profile(engine), contents=contents)
    before = stored(engine)

    def fail():
        raise CutError

    with pytest.raises(CutError):
        beside(engine, data, "copy", fail, after=2)
    assert before == stored(engine)


def test_an_import_that_was_taken_for_dead_learns_nothing(engine, in_many_blocks):
    """Its process had been suspended; it says what to do."""
    data = exported(engine, taught_profile(engine), contents="ledger")
    before = seen(engine)

    def remove():
        (key,) = stored(engine) - seen(engine)
        with writing(engine) as connection:
            while hidden.remove_step(connection, key):
                pass

    with pytest.raises(DatabaseUnavailable, match="Import it again"):
        beside(engine, data, "copy", remove)
    assert before == seen(engine) == stored(engine)


@pytest.mark.parametrize("carried", [1, 64])
def test_what_is_taught_while_a_profile_is_replaced_is_taught_to_the_new_one(
    engine, contents, carried, monkeypatch
):
    """Acknowledged feedback is learned; everything else is dropped."""
    monkeypatch.setattr(staging, "_CARRIED", carried)
    data = exported(engine, taught_profile(engine), contents=contents)
    other, alike = new_profile(engine), new_profile(engine)
    teach(engine, other, taught("old", "ham", {"casino": 1}))
    meanwhile = [
        taught("new", "spam", {"casino": 2}, {"length": 9}, source="carl"),
        taught("two", "ham", {"prize": 3, "noon": 1}, {"length": 5}),
        taught("new", "ham", time=APRIL),
        taught("brief", "ham", {"brief": 1}),
        taught("brief", None),
    ]
    alike = imported(engine, data, alike.name).profile
    teach(engine, alike, *meanwhile)
    done = beside(
        engine,
        data,
        other.name,
        lambda: teach(engine, other, *meanwhile),
        instead=True,
    )
    list(transfer(engine).fold(alike))

    assert "replaced" == done.outcome
    assert state(engine, alike.name) == state(engine, other.name)
    assert audited(engine, other.name).sound
    assert digest("old") not in {
        row[1] for row in rows_of(engine, tables.ledger, done.profile)
    }


def test_others_may_write_after_each_step_of_an_import(
    engine, in_many_blocks, contents, monkeypatch
):
    """Of what it reads, carries over and removes, and of the fold that follows."""
    monkeypatch.setattr(staging, "_CARRIED", 1)
    data = exported(engine, taught_profile(engine), contents=contents)
    other = new_profile(engine)
    row = entry.ScoredRow.of(observed("a", {"x": 1}), time=MARCH)
    with writing(engine) as connection:
        scored.put_many(connection, other.id, [row])
    did = []

    def noted(name, function):
        def note(*args, **how):
            did.append(name)
            return function(*args, **how)

        return note

    monkeypatch.setattr(turn, "time", SimpleNamespace(sleep=noted("pause", int)))
    steps = (hidden, "renew"), (hidden, "remove_step"), (fold, "write")
    for module, name in steps:
        monkeypatch.setattr(module, name, noted(name, getattr(module, name)))
    new = taught("new", "ham", {"casino": 1}), taught("two", "ham", {"casino": 1})
    beside(engine, data, other.name, lambda: teach(engine, other, *new), instead=True)

    assert ["pause"] * (len(did) // 2) == did[1::2]
    assert "pause" not in did[::2]
    assert 5 < did.count("renew")
    assert 0 < did.count("remove_step")


def half_joined(engine, monkeypatch, *, then=lambda _: None):
    """Return a profile into which an import was cut after one message of four."""
    monkeypatch.setattr(hidden, "_MESSAGES", 1)
    data = exported(engine, taught_profile(engine), contents="ledger")
    other = new_profile(engine)
    teach(engine, other, taught("mine", "ham", {"lunch": 1}))
    whole = hidden.join

    def join(engine, new, into):
        for _ in range(3):
            with writing(engine) as connection:
                hidden.join_some(connection, new.id, into)
            then(into)
        return whole(engine, new, into)

    with monkeypatch.context() as patch:
        patch.setattr(hidden, "join", join)
        with suppress(CutError):
            imported(engine, data, other.name)
    return other, data


def cut_here(_into):
    """End the import."""
    raise CutError


def maintained(engine):
    """Do what a service does until nothing is left to do."""
    live = LiveProfiles(engine, lambda _: Specification())
    live.refresh()
    upkeep = Maintenance(
        live,
        RecentMessages(rows=0, store_words=True),
        Settings(scored_days=1, scored_rows=9, vector_days=0),
        clock=SteadyClock(None, lambda: LATER),
    )
    while upkeep():
        pass


@pytest.mark.parametrize("by", ["import", "upkeep"])
def test_messages_that_join_a_profile_are_whole_wherever_it_is_cut(
    engine, monkeypatch, by
):
    """The next import, or a service, goes on, and then all of them are there."""
    alike, data = half_joined(engine, monkeypatch)
    other, data = half_joined(engine, monkeypatch, then=cut_here)
    cut_off = audited(engine, other.name)
    unseen = stored(engine) - seen(engine)
    if by == "import":
        imported(engine, data, other.name)
    maintained(engine)

    assert (True, 2, 1) == (cut_off.sound, cut_off.ledger_rows, len(unseen))
    assert audited(engine, other.name).sound
    assert state(engine, alike.name) == state(engine, other.name)
    assert 6 == audited(engine, other.name).ledger_rows
    # The profile that has joined is empty, and is found by the next look.
    maintained(engine)
    assert stored(engine) == seen(engine)


def test_an_import_that_fails_once_messages_join_says_so(engine, monkeypatch):
    """Its step alone would say that nothing was stored."""

    def fail(_into):
        raise DatabaseUnavailable("the disk is full")

    with pytest.raises(DatabaseUnavailable, match=r"only a part .* the disk is full"):
        half_joined(engine, monkeypatch, then=fail)


def test_what_is_taught_while_messages_join_a_profile_counts(engine, monkeypatch):
    """Between two of them a lesson waits for nobody, and each has one history."""
    sounds = []

    def lesson(into):
        teach(engine, into, taught("three", "ham", {"prize": 1}, source="me"))
        sounds.append(audited(engine, into.name).sound)

    other, _ = half_joined(engine, monkeypatch, then=lesson)
    rows = rows_of(engine, tables.ledger, other)

    assert [True] * 3 == sounds
    # Mine, two of others, and that of the lesson, which the import does not know of.
    assert 5 == len(rows)
    assert audited(engine, other.name).sound


def test_an_import_whose_profile_is_renamed_meanwhile_says_so(engine, monkeypatch):
    """A service goes on with it; what the step says alone would be wrong."""

    def rename(into):
        with writing(engine) as connection:
            profiles.lock(connection, into)
            profiles.rename(connection, into, "renamed")

    with pytest.raises(ProfileReplaced, match=r"renamed.* only a part was added"):
        half_joined(engine, monkeypatch, then=rename)
    maintained(engine)
    renamed = audited(engine, "renamed")

    assert (True, 6) == (renamed.sound, renamed.ledger_rows)


def test_an_import_into_a_profile_that_was_deleted_is_removed(engine, monkeypatch):
    """A day later, as any other that was cut."""
    other, _ = half_joined(engine, monkeypatch, then=cut_here)
    with writing(engine) as connection:
        profiles.lock(connection, other)
        hidden.hide(connection, other, why="deleted")
    with reading(engine) as connection:
        left = hidden.joining(connection)
        gone = hidden.abandoned(connection, now=LATER + 2 * hidden.LEASE)

    assert {} == left
    assert stored(engine) - seen(engine) == set(gone)


def test_what_is_taught_while_a_profile_is_made_is_not_lost(engine, contents):
    """Somebody makes it and teaches it, and then the import has that name."""
    data = exported(engine, taught_profile(engine), contents=contents)

    def make():
        with writing(engine) as connection:
            made = profiles.create(
                connection,
                name="copy",
                labels=("ham", "spam"),
                spam_labels=("spam",),
                feature_set=1,
                created_at=MARCH,
            )
        teach(engine, made, taught("new", "ham", {"casino": 1}))

    done = beside(engine, data, "copy", make)
    ledger = rows_of(engine, tables.ledger, done.profile)

    assert "added" == done.outcome
    assert digest("new") in {row[1] for row in ledger}
    assert [3, 2] == state(engine, "copy")["words"].messages[::-1].tolist()
    assert audited(engine, "copy").sound


@pytest.mark.parametrize("kind", ["sum", "undo", "label"])
def test_what_cannot_be_said_to_the_new_profile_is_not_forgotten(engine, kind):
    """The import is refused, and all is as it was."""
    data = exported(engine, taught_profile(engine))
    other = new_profile(engine, labels=("ham", "spam", "news"))
    teach(engine, other, taught("old", "ham", {"casino": 1}))

    def change():
        if kind == "label":
            teach(engine, other, taught("new", "news", {"casino": 1}))
        elif kind == "undo":
            undo(engine, other, source="anna")
        else:
            with writing(engine) as connection:
                append_sums(
                    connection,
                    other,
                    encode_sums({202603: learned(n_classes=3)}, other.labels),
                    source="import:x",
                    time=MARCH,
                )

    with pytest.raises(OtherProfile, match="nothing was replaced"):
        beside(engine, data, other.name, change, instead=True)
    assert other.id in seen(engine)
    assert 2 == len(rows_of(engine, tables.ledger, other))
    assert audited(engine, other.name).sound


@pytest.mark.parametrize("source", ["anna", OWN])
def test_what_has_no_features_in_the_export_is_not_forgotten(engine, source):
    """A message that is moved meanwhile, where the export has dropped its features.

    But what the filter teaches itself gives way to what people say.
    """
    exporter, other = new_profile(engine), new_profile(engine)
    teach(engine, exporter, taught("old", "spam", {"casino": 1}))
    fold_all(engine, exporter)
    with writing(engine) as connection:
        drop_vectors(connection, exporter, before=APRIL, limit=9)
    data = exported(engine, exporter, contents="ledger")

    def say():
        teach(engine, other, taught("old", "ham", {"casino": 1}, source=source))

    with (
        nullcontext()
        if source == OWN
        else pytest.raises(OtherProfile, match=r"not have its features.* was replaced")
    ):
        beside(engine, data, other.name, say, instead=True)

    assert (source == OWN) == (other.id not in seen(engine))


def test_what_was_scored_lately_can_be_taught_to_the_new_profile(engine, monkeypatch):
    """All of it, also what is scored while the profile is replaced."""
    monkeypatch.setattr(staging, "_CARRIED", 2)
    data = exported(engine, taught_profile(engine))
    other = new_profile(engine)

    def score(*messages, time=MARCH):
        rows = [ScoredRow.of(observed(each, {"x": 1}), time=time) for each in messages]
        with writing(engine) as connection:
            scored.put_many(connection, other.id, rows)

    ScoredRow = entry.ScoredRow  # noqa: N806  (a class)
    score(*"abcde")
    done = beside(
        engine, data, other.name, lambda: score("f", time=APRIL), instead=True
    )

    assert {digest(each) for each in "abcdef"} == {
        row[0] for row in rows_of(engine, tables.scored, done.profile)
    }


def test_what_a_profile_is_taught_while_an_import_joins_it_stands(engine):
    """The import leaves that message out, with all of its history."""
    profile, other = taught_profile(engine), new_profile(engine)
    data = exported(engine, profile, contents="ledger")
    teach(engine, other, taught("mine", "ham", {"lunch": 1}))
    three = taught("three", "ham", {"prize": 1}, {"height": 7}, source="zoe")
    done = beside(engine, data, other.name, lambda: teach(engine, other, three))
    rows = rows_of(engine, tables.ledger, other)

    assert ("added", 3, 2) == (done.outcome, done.rows, done.known)
    assert [1, 2, 3, 4, 5] == [row[0] for row in rows]
    assert ["zoe"] == [row[8] for row in rows if row[1] == digest("three")]
    assert audited(engine, other.name).sound


def test_the_second_of_two_imports_at_once_finds_it_learned(engine):
    """Both have looked before either was there; the counts are added once."""
    profile, other = taught_profile(engine), new_profile(engine)
    created(engine, other, LATER)
    teach(engine, other, taught("mine", "ham", {"lunch": 1}))
    data = exported(engine, profile)
    done = beside(engine, data, other.name, lambda: imported(engine, data, other.name))

    assert "unchanged" == done.outcome
    assert [2, 3] == state(engine, other.name)["words"].messages.tolist()
    assert audited(engine, other.name).sound
    assert stored(engine) == seen(engine)


def test_the_second_of_two_ledgers_at_once_finds_its_sums_learned(engine):
    """They have the digests of the export, as its messages have."""
    profile, other, alike = (new_profile(engine) for _ in range(3))
    teach(engine, profile, taught("one", "spam", {"casino": 1}))
    with writing(engine) as connection:
        sums = encode_sums({202603: learned()}, profile.labels)
        append_sums(connection, profile, sums, source="import:x", time=MARCH)
    list(transfer(engine).fold(profile))
    for each in (other, alike):
        teach(engine, each, taught("mine", "ham", {"lunch": 1}))
    data = exported(engine, profile, contents="ledger")
    imported(engine, data, alike.name)
    done = beside(engine, data, other.name, lambda: imported(engine, data, other.name))

    assert "unchanged" == done.outcome
    assert state(engine, alike.name) == state(engine, other.name)
    assert audited(engine, other.name).sound


def test_a_pruning_of_what_is_known_by_then_is_refused(engine):
    """Alone it takes counts away that nobody has added."""
    profile, other = taught_profile(engine), new_profile(engine)
    teach(engine, other, taught("mine", "ham", {"lunch": 1}))
    minus = -state(engine, profile.name)
    with writing(engine) as connection:
        sums = encode_sums({202603: minus}, profile.labels)
        append_sums(connection, profile, sums, source="p", time=MARCH)
    before = rows_of(engine, tables.ledger, other)
    data = exported_unfolded(engine, profile)

    with pytest.raises(MalformedExport, match="no mail has"):
        beside(engine, data, other.name, lambda: None)
    assert before == rows_of(engine, tables.ledger, other)


def exported_unfolded(engine, profile):
    """Return an export with the ledger of a profile that cannot be folded."""
    file = BytesIO()
    transfer(engine).export(
        profile.name, file, contents="ledger", words=True, progress=lambda _: None
    )
    return file.getvalue()


def test_names_that_the_exporter_had_not_folded_come_with_their_rows(engine):
    """An export with the ledger holds rows whose words its tables do not have yet."""
    profile = taught_profile(engine)
    data = exported_unfolded(engine, profile)
    copy = imported(engine, data, "copy").profile
    list(transfer(engine).fold(profile))

    assert counted(engine, profile) == counted(engine, copy)
