"""The key file: made once, for its owner alone, and asked for by name ever after."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest
from alembic import command

from app.errors import InvalidSetting
from app.services.application import Application
from app.services.profiles import create_profile, id_key_of_new, key_of, list_profiles
from app.services.startup import open_database, prepare_database
from app.settings import Settings
from app.storage.database.engine import (
    alembic_config,
    migrating,
    open_engine,
    revision_of,
)
from tests.support.application import running
from tests.support.builders import MARCH


@pytest.fixture
def database():
    """SQLite alone: no rule here is about a database."""
    return "sqlite"


@pytest.fixture
def chosen(database_url, tmp_path):
    """Return settings of a site without words, changed in some."""
    site = {
        "database_url": database_url,
        "store_words": False,
        "key_file": tmp_path / "apart" / "key",
    }
    return lambda **changes: Settings(**site | changes)


def id_keys(settings):
    """Return the keys of the profiles, by name; the database is made."""
    engine = open_database(settings, make=True)
    try:
        return {row.name: row.id_key for row in list_profiles(engine)}
    finally:
        engine.dispose()


def add(settings, name):
    """Create a profile."""
    engine = open_database(settings, make=True)
    try:
        create_profile(
            engine,
            name,
            labels=settings.labels,
            spam_labels=settings.spam_labels,
            time=MARCH,
            id_key=id_key_of_new(engine, settings),
        )
    finally:
        engine.dispose()


def test_what_root_makes_belongs_to_the_owner_of_the_folder(chosen, tmp_path):
    """A command before the first start leaves the service able to read its files."""
    user = os.geteuid() or 65534
    folder = tmp_path / "site"
    folder.mkdir()
    os.chown(folder, user, -1)
    url = f"sqlite:///{folder}/new.db"
    id_keys(chosen(database_url=url, key_file=folder / "key"))

    made = {path.name: path.stat().st_uid for path in folder.iterdir()}
    assert {"key": user, "new.db": user} == made


def test_a_new_site_without_words_gets_a_key(chosen):
    """Only its owner can read the file, and the profile has its digest."""
    settings = chosen()
    found = id_keys(settings)
    text = settings.key_file.read_text()

    assert 0o600 == stat.S_IMODE(settings.key_file.stat().st_mode)
    assert [settings.key_file] == [*settings.key_file.parent.iterdir()]
    assert 32 == len(bytes.fromhex(text)) * 2
    assert found["default"]
    assert text.strip() not in found["default"]
    assert found == id_keys(settings)


def test_a_site_with_words_has_no_key(chosen):
    """No key is read or created."""
    settings = chosen(store_words=True)

    assert {"default": None} == id_keys(settings)
    assert not settings.key_file.parent.exists()


def test_a_profile_keeps_the_way_its_ids_are_made(chosen):
    """A change of the setting applies to new profiles only."""
    id_keys(chosen(store_words=True))
    add(chosen(), "keyed")
    add(chosen(store_words=True), "plain")
    found = id_keys(chosen())

    assert {"default": None, "plain": None} == {
        name: key for name, key in found.items() if name != "keyed"
    }
    assert found["keyed"]


def test_an_older_site_starts_without_a_key(chosen):
    """Its profiles have unkeyed ids and go on with them, wherever the file would be."""
    id_keys(chosen(store_words=True))
    settings = chosen()
    with running(**settings.model_dump()) as app:
        assert app.live.get("default").specification.key is None
    assert not settings.key_file.exists()


def test_two_processes_make_one_key(chosen):
    """The second takes the key of the first."""
    settings = chosen()
    engine = open_database(chosen(store_words=True), make=True)
    with ThreadPoolExecutor(8) as threads:
        keys = threads.map(lambda _: key_of(engine, settings, make=True), range(8))
        found = {key.digest for key in keys}
    engine.dispose()

    assert 1 == len(found)


@pytest.mark.parametrize("begin", [Application, prepare_database])
@pytest.mark.parametrize("store_words", [True, False])
def test_a_start_without_the_key_is_refused(chosen, begin, store_words):
    """The error names the file, the profile and the key."""
    settings = chosen()
    needed = id_keys(settings)["default"]
    settings.key_file.unlink()

    with pytest.raises(InvalidSetting) as refused:
        begin(chosen(store_words=store_words))

    assert (
        f"POSTBAYES_KEY_FILE names {str(settings.key_file)!r}, which is not there, but "
        f"the profile 'default' needs the key {needed}; restore the file "
        "with that key from your copy"
    ) == str(refused.value)
    assert not settings.key_file.exists()


def test_a_start_without_the_key_leaves_an_older_database_as_it_is(chosen):
    """The version before can be started again."""
    settings = chosen()
    id_keys(settings)
    engine = open_engine(settings.database_url)
    config = alembic_config()
    with migrating(engine) as connection:
        config.attributes["connection"] = connection
        command.downgrade(config, "0009")
    settings.key_file.rename(settings.key_file.with_suffix(".away"))

    with pytest.raises(InvalidSetting, match="which is not there"):
        Application(settings, upgrade=True)
    assert "0009" == revision_of(engine)
    settings.key_file.with_suffix(".away").rename(settings.key_file)
    prepare_database(settings)
    assert "0009" < revision_of(engine)
    engine.dispose()


def test_a_start_with_another_key_is_refused(chosen):
    """Both keys are named by their digests."""
    settings = chosen()
    needed = id_keys(settings)["default"]
    settings.key_file.write_text("00" * 16)

    with pytest.raises(InvalidSetting, match=f"holds the key .* the key {needed}"):
        Application(settings)


@pytest.mark.parametrize("text", ["", "no key", "00" * 15, "ü"])
def test_a_file_that_holds_no_key_is_refused(chosen, text):
    """The file is not changed."""
    settings = chosen()
    settings.key_file.parent.mkdir()
    settings.key_file.write_text(text)

    with pytest.raises(InvalidSetting, match="32 hexadecimal digits and nothing else"):
        id_keys(settings)


def test_a_file_that_cannot_be_read_or_made_is_named(chosen, tmp_path):
    """A folder stands in place of the file, or a file in place of the folder."""
    with pytest.raises(InvalidSetting, match="cannot be read: Is a directory"):
        id_keys(chosen(key_file=tmp_path))

    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidSetting, match=r"'.*/file/key'.*: Not a directory"):
        id_keys(chosen(key_file=tmp_path / "file" / "key"))


def test_a_key_that_is_lost_later_breaks_no_other_profile(chosen):
    """The profile that needs it says so, and the others go on."""
    id_keys(chosen(store_words=True))
    settings = chosen()
    with running(**settings.model_dump()) as app:
        app.scheduler.stop()
        add(settings, "keyed")
        kept = settings.key_file.read_text()
        settings.key_file.unlink()
        app.live.refresh()
        with pytest.raises(Exception, match="'keyed' needs the key"):
            app.live.get("keyed")
        app.live.get("default")

    settings.key_file.write_text(kept)
    with running(**settings.model_dump()) as app:
        assert app.live.get("keyed").specification.key == key_of(app.engine, settings)
