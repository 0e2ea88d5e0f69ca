"""Exports and imports where feature ids are keyed, on one side or on both."""

from __future__ import annotations

from io import BytesIO

import numpy as np
import pytest

from app.errors import OtherProfile
from app.exchange.survey import survey
from app.features.extract import meant
from app.features.id_key import IdKey
from app.ledger.sums import encode_sums, redacted_sums
from app.services.profiles import list_profiles
from app.storage.database.engine import writing
from app.storage.ledger import append_sums
from tests.support.builders import (
    APRIL,
    MARCH,
    drop_vectors,
    fold_all,
    named,
    new_profile,
    taught,
    teach,
)
from tests.support.databases import on_sqlite
from tests.support.ledger import learned
from tests.support.transfer import (
    LATER,
    add,
    audited,
    created,
    exported,
    imported,
    state,
    taught_profile,
    undo,
)

KEY = IdKey(bytes(range(16)))
OTHER = IdKey(bytes(16))

contents = pytest.mark.parametrize("contents", ["counts", "ledger"])


def everything(engine):
    """Return a profile with messages, sums with names, and sealed sums."""
    profile = taught_profile(engine)
    with writing(engine) as connection:
        names = {
            view: {number: f"a{number}" for number in x.ids.tolist()}
            for view, x in learned().items()
        }
        append_sums(
            connection,
            profile,
            encode_sums({202602: learned()}, profile.labels, names),
            source="import:other",
            time=MARCH,
        )
    fold_all(engine, profile)
    with writing(engine) as connection:
        assert drop_vectors(connection, profile, before=APRIL, limit=1)
    return profile


def by_name(engine, profile):
    """Return the ids of a profile's features by view and name."""
    found = named(engine, profile)
    return {(v, name): at for v, texts in found.items() for at, name in texts.items()}


def keys(engine):
    """Return the key of each profile, by name."""
    return {row.name: row.id_key for row in list_profiles(engine)}


@contents
def test_an_export_without_a_key_is_keyed_on_its_way_in(engine, contents):
    """Into a new profile of a site without words: the same counts under other ids."""
    profile = everything(engine)
    data = exported(engine, profile, contents=contents)
    imported(engine, data, "new", store_words=False, key=KEY)
    plain, keyed = state(engine, profile.name), state(engine, "new")

    assert KEY.digest == keys(engine)["new"]
    assert redacted_sums(plain, KEY) == keyed
    assert plain["words"] != keyed["words"]
    assert (True, 0) == (
        audited(engine, "new").sound,
        audited(engine, "new").difference,
    )


@contents
def test_names_go_with_their_ids(engine, contents):
    """Where words are stored beside keyed ids, each is that of its own feature."""
    profile = everything(engine)
    data = exported(engine, profile, contents=contents)
    target = new_profile(engine, id_key=KEY.digest)
    keyed = by_name(engine, imported(engine, data, target.name, key=KEY).profile)
    plain = by_name(engine, profile)

    assert plain
    assert keyed == {
        (view, name): KEY.ids(np.array([number]))[0]
        for (view, name), number in plain.items()
    }


@contents
def test_an_export_says_which_key_its_ids_need(engine, contents):
    """By a digest; an export without keyed ids has none."""
    plain = taught_profile(engine)
    keyed = new_profile(engine, id_key=KEY.digest)
    teach(engine, keyed, taught(1, "ham", {"lunch": 1}))
    headers = [
        survey(BytesIO(exported(engine, profile, contents=contents))).header
        for profile in (plain, keyed)
    ]

    assert [None, KEY.digest] == [header.id_key for header in headers]
    assert b"id_key" not in headers[0].encode()
    assert KEY.secret.hex().encode() not in headers[1].encode()


@contents
@pytest.mark.parametrize("store_words", [True, False])
def test_keyed_ids_stay_as_they_are_where_the_key_is_the_same(
    engine, contents, store_words
):
    """Whatever the site stores, into a new profile and into a keyed one."""
    keyed = new_profile(engine, id_key=KEY.digest)
    teach(
        engine, keyed, taught(1, "ham", {"lunch": 1}), taught(2, "spam", {"money": 2})
    )
    data = exported(engine, keyed, contents=contents)
    there = new_profile(engine, id_key=KEY.digest)
    teach(engine, there, taught(3, "ham", {"noon": 1}))
    with_key = {"store_words": store_words, "key": KEY}
    imported(engine, data, "new", **with_key)
    imported(engine, data, "replaced", **with_key)
    imported(engine, data, "replaced", instead=True, **with_key)

    assert state(engine, keyed.name) == state(engine, "new")
    assert state(engine, keyed.name) == state(engine, "replaced")
    assert KEY.digest == keys(engine)["new"] == keys(engine)["replaced"]


@on_sqlite
@contents
@pytest.mark.parametrize("key", [OTHER, None])
def test_an_export_with_another_key_is_refused(engine, contents, key):
    """Its features would be those of nobody; nothing is made."""
    keyed = new_profile(engine, id_key=KEY.digest)
    teach(engine, keyed, taught(1, "ham", {"lunch": 1}))
    data = exported(engine, keyed, contents=contents)
    before = keys(engine)

    with pytest.raises(OtherProfile, match=f"this export needs the key {KEY.digest}"):
        imported(engine, data, "new", store_words=False, key=key)

    assert before == keys(engine)


@on_sqlite
@contents
@pytest.mark.parametrize("instead", [False, True])
def test_a_profile_without_a_key_takes_no_keyed_ids(engine, contents, instead):
    """They cannot be led back; the way out is a profile of its own."""
    keyed = new_profile(engine, id_key=KEY.digest)
    teach(engine, keyed, taught(1, "ham", {"lunch": 1}))
    plain = taught_profile(engine)
    data = exported(engine, keyed, contents=contents)

    with pytest.raises(OtherProfile, match="--profile NEWNAME"):
        imported(engine, data, plain.name, key=KEY, instead=instead)


@on_sqlite
def test_a_keyed_profile_takes_nothing_without_its_key(engine):
    """Neither an export nor a dump: their ids would be of other features."""
    data = exported(engine, taught_profile(engine))
    keyed = new_profile(engine, id_key=KEY.digest)

    with pytest.raises(OtherProfile, match=r"needs the key .* a file with no key"):
        imported(engine, data, keyed.name)
    with pytest.raises(OtherProfile, match=f"a file with the key {OTHER.digest}"):
        add(engine, keyed, key=OTHER)


@contents
@pytest.mark.parametrize("instead", [False, True])
def test_an_export_joins_a_profile_that_has_learned(engine, contents, instead):
    """Added to it, and again without an effect; or in its place."""
    plain = taught_profile(engine)
    data = exported(engine, plain, contents=contents)
    keyed = new_profile(engine, id_key=KEY.digest)
    both = new_profile(engine, id_key=KEY.digest)
    own = taught("own", "ham", {"garden": 1}, {"height": 2})
    teach(engine, both, own)
    created(engine, both, LATER)
    if instead:
        imported(engine, data, both.name, key=KEY, instead=True)
    else:
        teach(engine, keyed, own)
        imported(engine, data, both.name, key=KEY)
        again = imported(engine, data, both.name, key=KEY)
        assert "unchanged" == again.outcome or again.rows == 0
    alone = redacted_sums(state(engine, plain.name), KEY)
    fold_all(engine, keyed)

    assert alone + state(engine, keyed.name) == state(engine, both.name)
    assert audited(engine, both.name).sound


@on_sqlite
def test_what_was_keyed_on_its_way_is_undone(engine):
    """Each message of a ledger, as in the profile that it comes from."""
    plain = taught_profile(engine)
    data = exported(engine, plain, contents="ledger")
    keyed = imported(engine, data, "new", store_words=False, key=KEY).profile
    for profile in (plain, keyed):
        undo(engine, profile, source="bob")

    assert redacted_sums(state(engine, plain.name), KEY) == state(engine, "new")
    assert (True, 0) == (
        audited(engine, "new").sound,
        audited(engine, "new").difference,
    )


@on_sqlite
@pytest.mark.parametrize("store_words", [True, False])
def test_the_dump_of_another_filter_is_keyed(engine, store_words):
    """The words of the dump are those that mail will have here."""
    plain, keyed = (
        add(engine, profile, store_words=store_words, key=KEY).profile
        for profile in (new_profile(engine), new_profile(engine, id_key=KEY.digest))
    )
    words = by_name(engine, keyed)

    assert redacted_sums(state(engine, plain.name), KEY) == state(engine, keyed.name)
    assert store_words == bool(words)
    for (view, name), number in words.items():
        assert meant(name, KEY)[view] == number
