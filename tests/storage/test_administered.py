"""What an administrator of PostgreSQL has set: kept to, or told in one sentence."""

from __future__ import annotations

from contextlib import contextmanager
from itertools import count

import pytest

from app.errors import InvalidSetting
from app.storage.engine import open_engine
from app.storage.migrate import migrate
from tests import postgres
from tests.storage.builders import new_profile, taught, teach

_numbers = count(1)


@pytest.fixture
def site(request, postgres_url):
    """A database of its own; the parameter is how it is made."""
    options = getattr(request, "param", "")
    with postgres.site(postgres_url, f"site_{next(_numbers)}", options) as site:
        yield site


@contextmanager
def opened(url):
    """Give the engine of a database, migrated."""
    engine = open_engine(url)
    try:
        migrate(engine)
        yield engine
    finally:
        engine.dispose()


def encoded(name):
    """Return how a database is made whose text has that encoding."""
    return pytest.param(f"ENCODING '{name}' TEMPLATE template0", id=name)


@pytest.mark.parametrize(
    "site", [encoded("LATIN1"), encoded("WIN1251"), encoded("EUC_JP")], indirect=True
)
def test_an_encoding_that_lacks_letters_is_refused(site):
    """Before there is a table, and with the command that makes another database."""
    with (
        pytest.raises(InvalidSetting, match=r"has the encoding .* createdb -E UTF8"),
        opened(site.url),
    ):
        pytest.fail("a database that cannot keep all mail")


@pytest.mark.parametrize("site", [encoded("UTF8"), encoded("SQL_ASCII")], indirect=True)
def test_any_word_is_kept_where_bytes_are(site):
    """In UTF-8, and where PostgreSQL does not look at what they mean."""
    with opened(site.url) as engine:
        profile = new_profile(engine)
        (learned,) = teach(
            engine, profile, taught(1, "ham", {"Ελένη": 1, "猫": 1}, source="Э")
        )

    assert "Э" == learned.row.source
