"""Exports without words: nothing in them tells a text, and the rest is whole."""

from __future__ import annotations

from dataclasses import replace
from io import BytesIO

import pytest

from app.bayes.state import State
from app.exchange.blocks import BlockReader
from app.exchange.format import (
    LEDGER,
    SUM,
    read_rows,
    read_sum,
)
from app.exchange.survey import survey
from app.features.id_key import IdKey
from app.ledger.entry import ScoredRow
from app.ledger.sums import Amounts, encode_sums, redacted_sums
from app.ledger.teaching import Teaching
from app.storage import ledger
from app.storage.database.engine import reading, writing
from app.storage.ledger import append_sums
from tests.support.builders import (
    APRIL,
    MARCH,
    counts_of,
    drop_vectors,
    fold_all,
    new_profile,
    seen,
    teach,
)
from tests.support.messages import ham, spam
from tests.support.transfer import (
    LATER,
    audited,
    created,
    exported,
    imported,
    state,
    undo,
)

KEY = IdKey(bytes(range(16)))
LABELS = ("ham", "spam")

contents = pytest.mark.parametrize("contents", ["counts", "ledger"])


def read(raw, label, *, time=MARCH, source="anna"):
    """Return the teaching of a message, with all that is extracted from it."""
    found = seen(raw)
    return Teaching(
        digest=found.digest,
        label=label,
        evidence=ScoredRow.of(found.stored(words=True), time=time),
        source=source,
        time=time,
    )


def without_evidence(teaching, **changes):
    """Return a teaching by id."""
    return replace(teaching, evidence=None, **changes)


ONE = read(spam(3), "ham", source="bob")


@pytest.fixture
def profile(engine):
    """Return a profile of messages, sums, sealed sums, an undo and a relabelling."""
    made = new_profile(engine)
    teach(
        engine,
        made,
        read(ham(1), "ham"),
        read(spam(1), "spam", source="emma"),
        read(ham(2), "ham", time=APRIL, source="carl"),
        ONE,
        without_evidence(ONE, label="spam", time=APRIL),
    )
    fold_all(engine, made)
    taken = counts_of(engine, made)
    grams = {month: State(grams=x["grams"] * 2) for month, x in taken.items()}
    with writing(engine) as connection:
        for sums in (taken, grams):
            append_sums(
                connection,
                made,
                encode_sums(sums, made.labels),
                source="import:other",
                time=MARCH,
            )
    undo(engine, made, source="carl")
    fold_all(engine, made)
    with writing(engine) as connection:
        assert drop_vectors(connection, made, before=APRIL, limit=1)
    return made


def views_in(data):
    """Return the views of the header, of the rows and of the sums of an export."""
    reader = BlockReader(BytesIO(data))
    found = {"header": set(survey(BytesIO(data)).header.views)}
    for kind, content in reader:
        if kind == SUM:
            _, sums = read_sum(content, LABELS)
            found.setdefault("sums", set()).update(sums)
        elif kind == LEDGER:
            for row in read_rows(content, LABELS, Amounts()):
                views = row.ids(LABELS) if row.vector is not None else ()
                found.setdefault(row.kind, set()).update(views)
    return found


@contents
def test_no_view_from_which_text_can_be_read_is_in_the_file(engine, profile, contents):
    """Neither in the header, nor in a row, nor in a sum; with words, in all of them."""
    given, withheld = (
        views_in(exported(engine, profile, contents=contents, words=words))
        for words in (True, False)
    )

    assert given == {place: views | {"grams"} for place, views in withheld.items()}
    assert given != withheld
    assert "grams" not in set().union(*withheld.values())


@contents
def test_all_else_is_learned_from_it(engine, profile, contents):
    """The counts are those of the profile in every other view."""
    data = exported(engine, profile, contents=contents, words=False)
    new = imported(engine, data, "new").profile

    assert redacted_sums(state(engine, profile.name)) == state(engine, new.name)
    assert (True, 0) == (
        audited(engine, new.name).sound,
        audited(engine, new.name).difference,
    )


@contents
def test_it_joins_a_profile_that_has_learned(engine, contents):
    """The grams of other mail stay, and count only that mail."""
    left = new_profile(engine)
    teach(engine, left, read(ham(1), "ham"), read(spam(1), "spam"))
    data = exported(engine, left, contents=contents, words=False)
    both = new_profile(engine)
    created(engine, both, LATER)
    teach(engine, both, read(spam(2), "spam"))
    fold_all(engine, both)
    own = state(engine, both.name)
    imported(engine, data, both.name)

    assert own + redacted_sums(state(engine, left.name)) == state(engine, both.name)
    assert own["grams"] == state(engine, both.name)["grams"]
    assert audited(engine, both.name).sound


def test_what_was_imported_is_relabelled_and_undone(engine, profile):
    """As in the profile that it comes from, by the features that were imported."""
    data = exported(engine, profile, contents="ledger", words=False)
    new = imported(engine, data, "new").profile
    for each in (profile, new):
        moved = without_evidence(ONE, label="ham", source="dora", time=APRIL)
        (outcome,) = teach(engine, each, moved)
        assert "relabelled" == outcome.kind
        undo(engine, each, source="emma")

        assert (True, 0) == (
            audited(engine, each.name).sound,
            audited(engine, each.name).difference,
        )

    assert redacted_sums(state(engine, profile.name)) == state(engine, new.name)
    for each in (profile, new):
        undo(engine, each, source="dora")
        undo(engine, each, source="bob")
        undo(engine, each, source="import:other")

    assert redacted_sums(state(engine, profile.name)) == state(engine, new.name)


def test_the_rows_are_the_same_but_for_the_view_that_is_left_out(engine, profile):
    """A row that had its features keeps the others; none counts as dropped."""
    data = exported(engine, profile, contents="ledger", words=False)
    new = imported(engine, data, "new").profile
    with reading(engine) as connection:
        plain, told = (
            ledger.rows_after(connection, each.id, revision=0, limit=100)
            for each in (profile, new)
        )

    assert [row.identity for row in plain] == [row.identity for row in told]
    assert [row.kept for row in plain] == [row.kept for row in told]
    assert {False, True} == {row.kept for row in told}
    for before, after in zip(plain, told, strict=True):
        if before.kept and before.kind == "message":
            views = dict(before.views)
            assert views.pop("grams").size
            assert views == after.views


@contents
def test_a_key_leaves_the_view_out_of_rows_and_sums_alike(engine, profile, contents):
    """Where an export with words is keyed on its way in."""
    data = exported(engine, profile, contents=contents)
    new = imported(engine, data, "new", store_words=False, key=KEY).profile

    assert redacted_sums(state(engine, profile.name), KEY) == state(engine, new.name)
    assert "grams" not in state(engine, new.name)
    assert audited(engine, new.name).sound
