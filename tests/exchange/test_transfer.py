"""Export and import: what is there after them is what was there before."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from functools import partial
from io import BytesIO

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.bayes.counts import FeatureCounts
from app.bayes.state import State
from app.classifier.specification import Specification
from app.errors import DatabaseUnavailable, MalformedExport, OtherProfile
from app.exchange import export as exporting
from app.exchange.blocks import BlockReader
from app.exchange.format import (
    LEDGER,
    NAMES,
    SUM,
    UNDOS,
    read_rows,
    write_names,
    write_rows,
    write_sum,
    write_undo,
)
from app.exchange.survey import survey
from app.ledger import entry
from app.ledger.sums import Amounts, encode_sums
from app.ledger.undo import Selection, UndoRow
from app.services import undo as undoing
from app.services.cache import LiveProfiles
from app.services.clock import SteadyClock
from app.services.recent import RecentMessages
from app.services.scheduler import Maintenance
from app.settings import Settings
from app.storage import history, lists, profiles, scored, tables, undo_work
from app.storage.database.engine import migrate, open_engine, reading, writing
from app.storage.ledger import append_sums
from app.storage.lists import CorrespondentRow
from tests.support.builders import (
    APRIL,
    MARCH,
    begin_undo,
    digest,
    drop_vectors,
    fold,
    named,
    new_profile,
    noted,
    observed,
    rows_of,
    taught,
    teach,
)
from tests.support.databases import (
    on_one_database,
    on_sqlite,
    postgres_database,
    sqlite_url,
)
from tests.support.ledger import counted
from tests.support.transfer import (
    LATER,
    altered,
    audited,
    created,
    exported,
    imported,
    is_there,
    rebuilt,
    state,
    taught_profile,
    transfer,
    undo,
)


@pytest.fixture(params=["counts", "ledger"])
def contents(request):
    """Both kinds of export."""
    return request.param


def test_a_round_trip_is_equality(engine, contents):
    """What is imported into a new profile is what was exported, to the last count."""
    profile = taught_profile(engine)
    data = exported(engine, profile, contents=contents)
    learned = imported(engine, data, "copy")

    assert learned.outcome == "added"
    assert state(engine, profile.name) == state(engine, "copy")
    assert audited(engine, "copy").sound
    assert counted(engine, profile) == counted(engine, learned.profile)


@on_sqlite
def test_a_second_export_has_the_same_bytes(engine, contents):
    """Nothing of the way is in the file, but for counts the number of rows."""
    profile = taught_profile(engine)
    data = exported(engine, profile, contents=contents)
    copy = imported(engine, data, "copy").profile
    again = exported(engine, copy, contents=contents)
    first, second = (survey(BytesIO(found)) for found in (data, again))

    assert first.content == second.content
    assert first.header == replace(
        second.header, profile=profile.name, revision=first.header.revision
    )
    if contents == "ledger":
        assert first.header.revision == second.header.revision


histories = st.lists(
    st.tuples(
        st.integers(0, 6),
        st.sampled_from(["ham", "spam", None]),
        st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 300), max_size=4),
        st.dictionaries(st.sampled_from("xyz"), st.integers(1, 2**40)),
        st.sampled_from([MARCH, APRIL]),
    ),
    max_size=12,
)


@on_sqlite
@given(history=histories, kind=st.sampled_from(["counts", "ledger"]))
@on_one_database
def test_a_round_trip_is_equality_whatever_was_taught(engine, history, kind):
    """For any history of learning, moving and forgetting."""
    profile = new_profile(engine)
    for message, label, words, pairs, time in history:
        teach(engine, profile, taught(message, label, words, pairs, time=time))
    name = f"copy-of-{profile.name}"
    imported(engine, exported(engine, profile, contents=kind), name)

    assert state(engine, profile.name) == state(engine, name)
    assert audited(engine, name).sound


def test_counts_are_added_to_what_is_there(engine):
    """The sum of two profiles is a profile that learned the mail of both."""
    here, there, both = (new_profile(engine) for _ in range(3))
    one = taught("one", "ham", {"lunch": 1}, {"length": 4})
    two = taught("two", "spam", {"lunch": 2, "prize": 1}, {"length": 6})
    # Told apart by when they were made, as profiles of two sites are.
    created(engine, there, LATER)
    teach(engine, here, one)
    teach(engine, there, two)
    teach(engine, both, one, two)
    imported(engine, exported(engine, there), here.name)

    assert state(engine, both.name) == state(engine, here.name)
    assert audited(engine, here.name).sound


@on_sqlite
def test_the_same_export_twice_changes_nothing(engine, contents):
    """An export of the counts, too, is learned only once."""
    profile = taught_profile(engine)
    data = exported(engine, profile, contents=contents)
    imported(engine, data, "copy")
    before = state(engine, "copy")
    again = imported(engine, data, "copy")

    assert again.outcome == "unchanged"
    assert before == state(engine, "copy")


@on_sqlite
def test_counts_of_the_profile_itself_are_refused(engine):
    """They would count each of its messages twice."""
    profile = taught_profile(engine)
    data = exported(engine, profile)

    with pytest.raises(OtherProfile, match="count twice"):
        imported(engine, data, profile.name)


@on_sqlite
def test_counts_that_were_taken_back_can_be_imported_again(engine):
    """Also where the profile began with them, and has the origin of the export."""
    data = exported(engine, taught_profile(engine))
    copy = imported(engine, data, "copy")
    before = state(engine, "copy")
    undo(engine, copy.profile, source=copy.source)
    again = imported(engine, data, "copy")

    assert "added" == again.outcome
    assert before == state(engine, "copy")
    assert audited(engine, "copy").sound


def test_a_ledger_adds_the_messages_that_are_not_known(engine):
    """What a profile says of a message stays; the others come with their history."""
    here, there = new_profile(engine), new_profile(engine)
    teach(engine, here, taught("both", "ham", {"lunch": 1}))
    teach(
        engine,
        there,
        taught("both", "spam", {"lunch": 1}),
        taught("theirs", "ham", {"prize": 1}, time=APRIL, source="bob"),
        taught("theirs", "spam"),
    )
    learned = imported(engine, exported(engine, there, contents="ledger"), here.name)
    (_, *added) = rows_of(engine, tables.ledger, here)

    assert (learned.rows, learned.known) == (2, 1)
    assert [(row[2], row[3], row[8]) for row in added] == [
        (None, "ham", "bob"),
        ("ham", "spam", "anna"),
    ]
    assert [n.tolist() for n in (state(engine, here.name)["words"].messages,)] == [
        [1, 1]
    ]
    assert audited(engine, here.name).sound


@on_sqlite
def test_learned_is_learned_after_a_move(engine):
    """A message that the ledger brought can be moved and forgotten here."""
    profile = taught_profile(engine)
    data = exported(engine, profile, contents="ledger")
    copy = imported(engine, data, "copy").profile
    outcomes = teach(
        engine,
        copy,
        taught("one", "ham", {"lunch": 1}),
        taught("one", None),
        taught("two", "ham"),
    )

    assert [o.kind for o in outcomes] == ["unchanged", "forgotten", "relabelled"]
    assert audited(engine, "copy").sound


def test_an_import_in_a_ledger_is_not_counted_twice(engine):
    """Two sites that began with one dump share it when they are merged."""
    here, there = new_profile(engine), new_profile(engine)
    created(engine, there, LATER)
    counts = FeatureCounts.of_counts(
        np.array([5, 0]), np.array([1]), np.array([[3, 0]]), np.array([[3, 0]])
    )
    for profile in (here, there):
        with writing(engine) as connection:
            append_sums(
                connection,
                profile,
                encode_sums({202603: State(words=counts)}, profile.labels),
                source="import:bogofilter:1234",
                time=MARCH,
            )
    teach(engine, there, taught("theirs", "spam", {"prize": 1}))
    learned = imported(engine, exported(engine, there, contents="ledger"), here.name)

    assert (learned.rows, learned.known) == (1, 1)
    assert state(engine, here.name)["words"].messages.tolist() == [5, 1]


def test_a_replaced_profile_is_the_export_and_nothing_else(engine, contents):
    """What it had learned is gone, also from the ledger and from the names."""
    profile = taught_profile(engine)
    other = new_profile(engine, labels=("ham", "junk"), spam_labels=("junk",))
    teach(engine, other, taught("old", "junk", {"casino": 1}))
    with writing(engine) as connection:
        row = entry.ScoredRow.of(observed("new", {"x": 1}), time=MARCH)
        scored.put_many(connection, other.id, [row])
        history.put_lines(connection, other.id, [noted("new")])
        somebody = CorrespondentRow(other.id, b"address", b"domain", 3, MARCH)
        lists.add_correspondents(connection, [somebody])
    learned = imported(
        engine, exported(engine, profile, contents=contents), other.name, instead=True
    )

    assert learned.outcome == "replaced"
    assert state(engine, profile.name) == state(engine, other.name)
    assert audited(engine, other.name).sound
    assert learned.profile.labels == ("ham", "spam")
    assert named(engine, profile) == named(engine, learned.profile)
    assert rows_of(engine, tables.ledger, other) == []
    # Teaching by id goes on.
    assert len(rows_of(engine, tables.scored, learned.profile)) == 1
    assert len(rows_of(engine, tables.history, learned.profile)) == 1
    assert len(rows_of(engine, tables.correspondent, learned.profile)) == 1


@on_sqlite
def test_words_stay_behind_where_they_are_not_wanted(engine, contents):
    """Either side may leave the text of features out."""
    profile = taught_profile(engine)
    without = exported(engine, profile, contents=contents, words=False)
    with_words = exported(engine, profile, contents=contents)
    left_there = imported(engine, without, "one").profile
    left_here = imported(engine, with_words, "two", store_words=False).profile

    for copy in (left_there, left_here):
        assert {} == named(engine, copy)
        assert {row[6] for row in rows_of(engine, tables.ledger, copy)} == {None}
    assert b"lunch" not in b"".join(c for _, c in BlockReader(BytesIO(without)))


@on_sqlite
def test_a_profile_with_more_labels_learns_an_export_of_fewer(engine):
    """Labels are matched by name, whatever their order."""
    profile = taught_profile(engine)
    wide = new_profile(engine, labels=("spam", "newsletter", "ham"))
    created(engine, wide, LATER)
    imported(engine, exported(engine, profile), wide.name)

    assert state(engine, wide.name)["words"].messages.tolist() == [3, 0, 1]


@on_sqlite
@pytest.mark.parametrize(
    "labels",
    [
        {"labels": ("ham", "junk"), "spam_labels": ("junk",)},
        {"labels": ("spam", "ham"), "spam_labels": ("ham",)},
    ],
)
def test_labels_that_a_profile_lacks_are_refused(engine, contents, labels):
    """The sentence has the labels of both; nothing is changed."""
    profile = taught_profile(engine)
    other = new_profile(engine, **labels)

    with pytest.raises(OtherProfile, match="labels ham, spam \\(spam\\)"):
        imported(engine, exported(engine, profile, contents=contents), other.name)
    assert rows_of(engine, tables.ledger, other) == []


@on_sqlite
@pytest.mark.parametrize("instead", [False, True])
def test_another_feature_set_is_refused(engine, contents, instead):
    """Counts of other features mean nothing here; nothing is changed."""
    profile = taught_profile(engine)
    data = altered(exported(engine, profile, contents=contents), feature_set=2)
    before = state(engine, profile.name)

    with pytest.raises(OtherProfile, match="feature set 2"):
        imported(engine, data, profile.name, instead=instead)
    with pytest.raises(OtherProfile, match="feature set 2"):
        imported(engine, data, "new")
    assert not is_there(engine, "new")
    assert before == state(engine, profile.name)


def sum_of(messages, occurrences, documents, *, view="words", epoch=202603):
    """Return a block of counts of one feature."""
    counts = FeatureCounts.of_counts(
        np.array(messages),
        np.array([7]),
        np.array([occurrences]),
        np.array([documents]),
    )
    return SUM, write_sum(epoch, State({view: counts}), ("ham", "spam"))


@pytest.mark.parametrize(
    ("block", "said"),
    [
        (sum_of([1, 0], [-1, 0], [-1, 0]), "negative"),
        (sum_of([-9, 0], [0, 0], [0, 0]), "negative"),
        (sum_of([5, 0], [1, 0], [2, 0]), "1 times in 2 messages"),
        (sum_of([1, 0], [9, 0], [9, 0], epoch=202604), "in 9 messages of class 0"),
        (sum_of([1, 0], [1, 0], [1, 0], view="odd"), "missing in its header"),
        (sum_of([1, 0], [1, 0], [1, 0], epoch=202613), "not a month"),
        (sum_of([1, 0], [1, 0], [1, 0], epoch=-5), "not a month"),
        ((SUM, b""), "cannot be read"),
        ((SUM, bytes(50)), "cannot be read"),
        ((NAMES, b""), "cannot be read"),
        ((NAMES, write_names("words", {1: "a"})[:-3]), "cannot be read"),
        ((LEDGER, write_rows([], words=True)), "must not have a block"),
        ((b"X", b""), "must not have a block"),
    ],
)
@on_sqlite
def test_counts_that_nobody_exported_are_refused(engine, block, said):
    """Right checksums do not make a hostile file believed."""
    data = exported(engine, taught_profile(engine))

    with pytest.raises(MalformedExport, match=said):
        imported(engine, rebuilt(data, lambda blocks: [*blocks, block]), "new")


@on_sqlite
def test_counts_of_no_mail_do_not_hide_among_others(engine):
    """A feature of a message that is missing, where the profile has learned others."""
    profile = taught_profile(engine)
    odd = rebuilt(
        exported(engine, profile),
        lambda _: [sum_of([0, 0], [1, 0], [1, 0])],
        created="2026-01-01T00:00:00+00:00",
    )
    before = state(engine, profile.name)

    with pytest.raises(MalformedExport, match="in 1 messages of class 0"):
        imported(engine, odd, profile.name)
    assert before == state(engine, profile.name)


@on_sqlite
def test_counts_that_no_mail_can_have_taught_are_refused(engine):
    """A few bytes of zeros must not fill the disk with counts."""
    n = 300_000
    ones = np.zeros((n, 2), np.int64)
    ones[:, 0] = 1
    counts = FeatureCounts.of_counts(np.array([1, 0]), np.arange(n), ones, ones)
    block = SUM, write_sum(202603, State(words=counts), ("ham", "spam"))
    data = exported(engine, taught_profile(engine))

    with pytest.raises(MalformedExport, match="which is impossible"):
        imported(engine, rebuilt(data, lambda blocks: [*blocks, block]), "new")


def test_an_export_that_changes_while_it_is_read_is_refused(engine, contents):
    """What is learned is what was checked, or nothing."""
    profile = taught_profile(engine)
    checked = survey(BytesIO(exported(engine, profile, contents=contents)))
    teach(engine, profile, taught(99, "spam", {"later": 1}))
    other = BytesIO(exported(engine, profile, contents=contents))
    before = rows_of(engine, tables.ledger, profile), state(engine, profile.name)
    use_case = transfer(engine)
    with pytest.raises(MalformedExport, match="changed while it was read"):
        use_case.add("elsewhere", other, checked, progress=lambda _: None)
    other.seek(0)
    with pytest.raises(MalformedExport, match="changed while it was read"):
        use_case.replace(profile, other, checked, progress=lambda _: None)
    found = rows_of(engine, tables.ledger, profile), state(engine, profile.name)

    assert before == found
    assert not is_there(engine, "elsewhere")


def changed_row(**values):
    """Return a change of the last row of a ledger."""

    def change(blocks):
        (kind, content), *rest = blocks
        rows = read_rows(content, ("ham", "spam"), Amounts())
        return [
            (kind, write_rows([*rows[:-1], replace(rows[-1], **values)], words=True)),
            *rest,
        ]

    return change


def odd_text(old, new):
    """Return a change of the text of a block of rows."""

    def change(blocks):
        (kind, content), *rest = blocks
        return [(kind, content.replace(old, new)), *rest]

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (changed_row(revision=9), "has the number 9"),
        (changed_row(digest=b"short"), "digest: String should match"),
        (changed_row(time=datetime(2026, 3, 1)), "time: a time has no zone"),  # noqa: DTZ001
        (changed_row(epoch=1), "not a month"),
        (changed_row(kind="odd"), "kind: Input should be 'message'"),
        (changed_row(label="junk"), "label .junk."),
        (changed_row(label="junk", vector=None), "junk"),
        (changed_row(source="a\0b"), "source: String should match"),
        (changed_row(vector=b"x"), "too short"),
        (changed_row(encoded_names=b"x"), "names"),
        (changed_row(encoded_names=None, label_before=None), "contradict"),
        (
            odd_text(b'"epoch":202603', b'"epoch":"2026"'),
            "epoch: Input should be a valid integer",
        ),
        (
            odd_text(b'"source":"anna"', b'"source":[1234]'),
            "source: Input should be a valid string",
        ),
        (odd_text(b'"vector":', b'"vectox":'), "vector"),
        (lambda _: [(LEDGER, b"")], "cannot be read"),
        (lambda blocks: [(LEDGER, blocks[0].content + b"x"), *blocks[1:]], "no row"),
        (
            lambda blocks: [(LEDGER, blocks[0].content[:-9]), *blocks[1:]],
            "is not there",
        ),
        (lambda blocks: blocks[1:], "0 ledger rows"),
        (lambda blocks: [*blocks, (b"X", b"")], "must not have a block"),
    ],
)
@on_sqlite
def test_a_ledger_that_nobody_exported_is_refused(engine, change, said):
    """Right checksums do not make a hostile file believed; nothing is changed."""
    data = exported(engine, taught_profile(engine), contents="ledger")

    with pytest.raises(MalformedExport, match=said):
        imported(engine, rebuilt(data, change), "new")
    assert not is_there(engine, "new")


@on_sqlite
def test_a_ledger_of_a_time_without_undos_is_read(engine):
    """Its rows do not say which undo wrote them."""
    profile = new_profile(engine)
    teach(engine, profile, taught("one", "ham", {"a": 1}), taught("two", "spam"))
    data = exported(engine, profile, contents="ledger")
    old = b',"undo":null'
    imported(engine, rebuilt(data, odd_text(old, b" " * len(old))), "new")

    assert state(engine, profile.name) == state(engine, "new")


@on_sqlite
def test_a_ledger_that_takes_back_what_it_never_added_is_refused(engine):
    """The profile could not be folded, or loaded, ever again."""
    profile = new_profile(engine)
    minus = FeatureCounts.of_counts(
        np.array([-1, 0]), np.array([1]), np.array([[-1, 0]]), np.array([[-1, 0]])
    )
    with writing(engine) as connection:
        (row,) = append_sums(
            connection,
            profile,
            encode_sums({202603: State(words=minus)}, profile.labels),
            source="x",
            time=MARCH,
        )
    data = exported(engine, taught_profile(engine), contents="ledger")
    file = rebuilt(
        data, lambda _: [(LEDGER, write_rows([row], words=True))], revision=1
    )

    with pytest.raises(MalformedExport, match="no mail has"):
        imported(engine, file, "new")


@on_sqlite
def test_an_export_of_counts_ends_where_the_counts_end(engine):
    """Feedback that is not folded yet is not half in the file."""
    profile = taught_profile(engine)
    folded = exported(engine, profile)
    teach(engine, profile, taught("late", "ham", {"late": 1}))
    file = BytesIO()
    transfer(engine).export(
        profile.name, file, contents="counts", words=True, progress=lambda _: None
    )

    assert folded == file.getvalue()


def test_others_may_write_while_an_undo_is_finished_first(engine, monkeypatch):
    """As beside an undo by hand."""
    profile = taught_profile(engine)
    with writing(engine) as connection:
        begin_undo(
            connection, profile, Selection(source="anna"), source="x", time=APRIL
        )
    pauses = []
    monkeypatch.setattr(undo_work, "STEP", 1)
    monkeypatch.setattr(undoing, "pause", lambda: pauses.append(None))
    steps = [rows for rows in transfer(engine).fold(profile) if rows]

    assert [1] * len(pauses) == steps[: len(pauses)]
    assert pauses


@on_sqlite
def test_undos_go_with_the_ledger(engine):
    """What was taken back can be given back after the move, as before it."""
    profile = taught_profile(engine)
    undo(engine, profile, source="anna")
    undo(engine, profile, source="bob")
    undo(engine, profile, source="undo:1")
    data = exported(engine, profile, contents="ledger")
    copy = imported(engine, data, "copy").profile

    for table in (tables.ledger, tables.undo, tables.undone):
        assert rows_of(engine, table, profile) == rows_of(engine, table, copy)
    assert len(rows_of(engine, tables.undo, copy)) == 3
    assert data == altered(
        exported(engine, copy, contents="ledger"), profile=profile.name
    )
    for each in (profile, copy):
        undo(engine, each, source="undo:2")
        list(transfer(engine).fold(each))
    assert state(engine, profile.name) == state(engine, "copy")
    assert audited(engine, "copy").sound


@on_sqlite
def test_an_import_that_was_undone_can_be_imported_again(engine):
    """What counts is whether it is learned, not whether it was."""
    profile = taught_profile(engine)
    here = new_profile(engine)
    created(engine, here, LATER)
    teach(engine, here, taught("mine", "ham", {"lunch": 1}))
    data = exported(engine, profile)
    first = imported(engine, data, here.name)
    learned = state(engine, here.name)
    undo(engine, here, source=first.source)
    again = imported(engine, data, here.name)

    assert again.outcome == "added"
    assert learned == state(engine, here.name)
    assert imported(engine, data, here.name).outcome == "unchanged"


@on_sqlite
def test_what_an_undo_did_elsewhere_is_a_teaching_here(engine):
    """Each profile counts its undos by itself, so that those of two would mix."""
    here, there = new_profile(engine), new_profile(engine)
    teach(engine, here, taught("mine", "ham", {"lunch": 1}))
    teach(engine, there, taught("theirs", "spam", {"prize": 1}, source="bob"))
    undo(engine, there, source="bob")
    imported(engine, exported(engine, there, contents="ledger"), here.name)
    rows = rows_of(engine, tables.ledger, here)

    assert ["anna", "bob", "import:undo:1"] == [row[8] for row in rows]
    assert {None} == {row[12] for row in rows}
    assert state(engine, here.name)["words"].messages.tolist() == [1, 0]


def test_an_undo_is_finished_before_an_export(engine):
    """Half of it would be in the file, and nobody to do the rest."""
    profile = taught_profile(engine)
    with writing(engine) as connection:
        begin_undo(
            connection, profile, Selection(source="anna"), source="x", time=APRIL
        )
    with pytest.raises(DatabaseUnavailable, match="is running"):
        transfer(engine).export(
            profile.name,
            BytesIO(),
            contents="ledger",
            words=True,
            progress=lambda _: None,
        )
    imported(engine, exported(engine, profile, contents="ledger"), "copy")

    assert state(engine, profile.name) == state(engine, "copy")


def test_a_ledger_whose_old_vectors_were_dropped_is_moved_whole(engine):
    """What its rows added is sealed, and the seals go with it."""
    profile = taught_profile(engine)
    undo(engine, profile, source="bob")
    with writing(engine) as connection:
        dropped = drop_vectors(connection, profile, before=APRIL, limit=9)
    data = exported(engine, profile, contents="ledger")
    copy = imported(engine, data, "copy").profile

    assert dropped
    assert counted(engine, profile) == counted(engine, copy)
    ledger = tables.ledger
    assert rows_of(engine, ledger, profile) == rows_of(engine, ledger, copy)
    assert state(engine, profile.name) == state(engine, "copy")
    assert audited(engine, "copy").sound
    assert data == altered(
        exported(engine, copy, contents="ledger"), profile=profile.name
    )


@on_sqlite
def test_a_service_loads_a_profile_anew_whose_seals_came(engine):
    """Following the rows, it would miss what they no longer say."""
    profile, empty = taught_profile(engine), new_profile(engine)
    live = LiveProfiles(engine, lambda _: Specification())
    live.refresh()
    list(transfer(engine).fold(profile))
    with writing(engine) as connection:
        drop_vectors(connection, profile, before=LATER, limit=9)
    imported(engine, exported(engine, profile, contents="ledger"), empty.name)
    live.refresh()

    assert live.get(empty.name).snapshot.messages.tolist() == [1, 3]


@on_sqlite
def test_a_ledger_without_old_vectors_is_not_mixed_with_another(engine):
    """Whose messages the sealed sums are of, nobody can tell."""
    profile, other = taught_profile(engine), new_profile(engine)
    teach(engine, other, taught("mine", "ham", {"lunch": 1}))
    list(transfer(engine).fold(profile))
    with writing(engine) as connection:
        drop_vectors(connection, profile, before=LATER, limit=2)
    data = exported(engine, profile, contents="ledger")

    with pytest.raises(
        OtherProfile, match=r"2 ledger rows.*dropped for their age or forgotten"
    ):
        imported(engine, data, other.name)
    assert imported(engine, data, other.name, instead=True).outcome == "replaced"
    assert state(engine, profile.name) == state(engine, other.name)


UNDONE = UndoRow(number=1, source="x", time=APRIL, asked={}, takes=(), revisions=(1, 2))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "cannot be read"),
        (b"[]", "cannot be read"),
        (write_undo(replace(UNDONE, source="a\0")), "source: String should match"),
        (write_undo(replace(UNDONE, number=2)), "out of order"),
        (write_undo(replace(UNDONE, takes=(1,))), "not before it"),
        (write_undo(replace(UNDONE, revisions=(6,))), "not before it"),
        (write_undo(replace(UNDONE, revisions=(2, 1))), "not before it"),
    ],
)
@on_sqlite
def test_undos_that_nobody_exported_are_refused(engine, content, said):
    """Right checksums do not make a hostile file believed."""
    data = exported(engine, taught_profile(engine), contents="ledger")
    file = rebuilt(data, lambda blocks: [*blocks, (UNDOS, content)])

    with pytest.raises(MalformedExport, match=said):
        imported(engine, file, "new")


@on_sqlite
def test_large_profiles_are_written_in_many_blocks(engine, monkeypatch, contents):
    """What one block does not hold goes on in the next."""
    monkeypatch.setattr(exporting, "FEATURES_PER_ROW", 3)
    monkeypatch.setattr(exporting, "_NAMES_PER_BLOCK", 3)
    monkeypatch.setattr(exporting, "_BLOCK_BYTES", 1)
    profile = new_profile(engine)
    words = {f"word{n}": n + 1 for n in range(10)}
    teach(engine, profile, *(taught(n, "ham", words) for n in range(5)))
    data = exported(engine, profile, contents=contents)
    kinds = [kind for kind, _ in BlockReader(BytesIO(data))]
    imported(engine, data, "copy")

    # The rows of a ledger have their names.
    assert kinds == ([SUM] * 4 + [NAMES] * 4 if contents == "counts" else [LEDGER] * 5)
    assert state(engine, profile.name) == state(engine, "copy")


def test_a_feature_of_the_largest_id_is_exported(engine):
    """Ids use all 64 bits, and the last one has no successor."""
    profile = new_profile(engine)
    largest = FeatureCounts.of_counts(
        np.array([1, 0]), np.array([2**63 - 1]), np.array([[1, 0]]), np.array([[1, 0]])
    )
    with writing(engine) as connection:
        append_sums(
            connection,
            profile,
            encode_sums({202603: State(words=largest)}, profile.labels),
            source="x",
            time=MARCH,
        )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exporting, "FEATURES_PER_ROW", 1)
        data = exported(engine, profile)
    imported(engine, data, "copy")

    assert state(engine, profile.name) == state(engine, "copy")


def test_a_move_between_databases_is_whole(tmp_path, postgres_url):
    """From SQLite to PostgreSQL and back: the same bytes, and the same answers."""
    with postgres_database(postgres_url, "moved", prepared=True) as url:
        small = open_engine(sqlite_url(tmp_path, "small.db"))
        large = open_engine(url)
        for engine in (small, large):
            migrate(engine)
        profile = taught_profile(small)
        data = exported(small, profile, contents="ledger")
        moved = imported(large, data, profile.name).profile
        again = exported(large, moved, contents="ledger")
        counts = exported(small, profile), exported(large, moved)
        states = state(small, profile.name), state(large, profile.name)
        for engine in (small, large):
            engine.dispose()

    assert data == again
    assert counts[0] == counts[1]
    assert states[0] == states[1]


@on_sqlite
def test_rows_without_vectors_are_written_in_many_blocks(engine, monkeypatch):
    """Those of a hundred thousand messages would be too large for one."""
    monkeypatch.setattr(exporting, "_ROWS_PER_BLOCK", 2)
    profile = new_profile(engine)
    teach(engine, profile, *(taught(n, "ham", {"lunch": 1}) for n in range(5)))
    list(transfer(engine).fold(profile))
    with writing(engine) as connection:
        drop_vectors(connection, profile, before=APRIL, limit=9)
    data = exported(engine, profile, contents="ledger")
    kinds = [kind for kind, _ in BlockReader(BytesIO(data))]
    imported(engine, data, "copy")

    assert 3 == kinds.count(LEDGER)
    assert state(engine, profile.name) == state(engine, "copy")


@on_sqlite
def test_a_service_notices_that_a_profile_was_replaced(engine):
    """Also where the new ledger is as long as the old one was."""
    profile = taught_profile(engine)
    other = new_profile(engine)
    live = LiveProfiles(engine, lambda _: Specification())
    live.refresh()
    data = exported(engine, profile, contents="ledger")
    teach(engine, other, *(taught(n, "ham", {"casino": 1}) for n in range(5)))
    live.refresh()
    imported(engine, data, other.name, instead=True)
    live.refresh()

    assert live.get(profile.name).snapshot.revision == 5
    assert live.get(other.name).snapshot.revision == 5
    assert live.get(other.name).snapshot.messages.tolist() == [1, 3]


def test_a_service_goes_on_while_a_profile_is_replaced(engine):
    """What it holds of the old one is dropped, and hinders nothing."""
    profile = taught_profile(engine)
    other = new_profile(engine)
    data = exported(engine, profile)
    live = LiveProfiles(engine, lambda _: Specification())
    live.refresh()
    recent = RecentMessages(rows=9, store_words=True)
    upkeep = Maintenance(
        live,
        recent,
        Settings(scored_days=1, scored_rows=9, vector_days=0),
        clock=SteadyClock(None, lambda: MARCH),
        on_follow=[partial(recent.flush, engine)],
    )
    teach(engine, other, taught("old", "ham", {"casino": 1}))
    recent.add(other.id, observed("seen", {"x": 1}), MARCH)
    live.refresh()
    imported(engine, data, other.name, instead=True)

    with writing(engine) as connection:
        assert fold(connection, other, limit=9) == 0
    while upkeep():
        pass
    assert recent.get(other.id, digest("seen")) is None
    assert rows_of(engine, tables.scored, other) == []


def decide(engine, name, policy):
    """Have a profile decide by thresholds of its own."""
    with writing(engine) as connection:
        profiles.set_policy(connection, profiles.find(connection, name), policy)


def policy(engine, name):
    """Return what a profile decides by otherwise than the settings."""
    with reading(engine) as connection:
        return profiles.find(connection, name).policy


@on_sqlite
@pytest.mark.parametrize("contents", ["counts", "ledger"])
def test_thresholds_go_with_a_profile_that_is_made(engine, contents):
    """They also go into a profile without messages and thresholds."""
    profile = new_profile(engine)
    teach(engine, profile, taught(1, "ham"))
    decide(engine, profile.name, {"ham_cost": 20.0, "reject_from": "never"})
    data = exported(engine, again(engine, profile), contents=contents)
    empty, strict = new_profile(engine).name, new_profile(engine).name
    decide(engine, strict, {"reject_from": 9.0})
    for name in ("made", empty, strict):
        imported(engine, data, name)

    assert {"ham_cost": 20.0, "reject_from": "never"} == policy(engine, "made")
    assert policy(engine, "made") == policy(engine, empty)
    assert {"reject_from": 9.0} == policy(engine, strict)


@on_sqlite
def test_a_profile_that_learns_an_export_keeps_its_thresholds(engine):
    """Learning more must not reject more mail; a replacement brings its own."""
    first, second = new_profile(engine), new_profile(engine)
    teach(engine, first, taught(1, "ham"))
    teach(engine, second, taught(2, "spam"))
    decide(engine, first.name, {"reject_from": 4.0})
    decide(engine, second.name, {"reject_from": 9.0})
    data = exported(engine, again(engine, first))
    imported(engine, data, second.name)
    kept = policy(engine, second.name)
    imported(engine, data, second.name, instead=True)

    assert {"reject_from": 9.0} == kept
    assert {"reject_from": 4.0} == policy(engine, second.name)


def again(engine, profile):
    """Return a profile as it is stored now."""
    with reading(engine) as connection:
        return profiles.find(connection, profile.name)
