"""The URL of a database: what is wrong with it is said, and its password is not."""

from __future__ import annotations

import traceback

import pytest

from app.errors import DatabaseUnavailable, InvalidSetting
from app.storage.database.dialect import dialect_of, parse, without_password
from app.storage.database.engine import disposing, open_engine, reading

USER = "postgresql://anna:s3cret@"
NOBODY = "127.0.0.1:1"


def refused(url):
    """Return the sentence that a URL is refused with, at the latest when it is used."""
    with pytest.raises(InvalidSetting) as caught:
        try_to_read(url)
    assert "s3cret" not in "".join(traceback.format_exception(caught.value))
    return str(caught.value)


def try_to_read(url):
    """Begin a transaction in the database of a URL."""
    engine = open_engine(url, busy_timeout=0.1)
    with reading(engine):
        pytest.fail("nobody is there")


@pytest.mark.parametrize(
    "url",
    [
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:///file::memory:?uri=true",
        "sqlite:///file:x?mode=memory&uri=true",
    ],
)
def test_a_database_in_memory_is_refused(url):
    """It would lose what is learned, and every thread would have its own."""
    assert "would lose everything" in refused(url)


@pytest.mark.parametrize("url", ["mysql://localhost/mail", "mysql+foo://h/d"])
def test_an_unknown_database_is_refused(url):
    """The sentence names it and those that there are."""
    assert refused(url).startswith("'mysql' is not")
    assert refused(url).endswith("sqlite or postgresql.")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "postbayes.db",
        "://",
        f"{USER}host:port/mail",
        f"{USER}host:1:2/mail",
        f"{USER}[::1/mail",
        f"{USER}[::1]:5x/mail",
        f"{USER}host/mail?port=x",
        f"{USER}host/mail?host=a:1&host=b:x",
        "postgresql://anna:1@4:s3cret@host/mail",
        "postgresql://anna:s3cret%00@host/mail",
        "postgresql://anna:s3cret@\ud800/mail",
        "sqlite://host/mail.db",
        "sqlite://anna:s3cret@host/mail.db",
        "sqlite:///mail%00.db",
        "sqlite:///\ud800",
        "sqlite:///file:mail.db?uri=perhaps",
    ],
)
def test_what_is_no_url_is_refused(url):
    """The sentence shows what one looks like."""
    assert "sqlite:///var/postbayes.db" in refused(url)


@pytest.mark.parametrize("port", [0, -1, 65_536, 10**30])
def test_a_port_that_no_host_has_is_refused(port):
    """Libpq takes 0 for none at all, and tries the usual one."""
    url = f"{USER}127.0.0.1:{port}/mail"

    assert "The port of the database URL must be 1 to 65535." == refused(url)


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://anna:1@s3cret@{NOBODY}/mail",
        f"postgresql://anna:1@s3cret/4@{NOBODY}/mail",
    ],
)
def test_a_password_with_an_at_sign_is_refused(url):
    """It would be shown as the name of a host."""
    assert refused(url).endswith("In a password, write it as %40.")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://anna@example.org:1@host/mail",
        "postgresql://anna:1%40s3cret@host/mail",
        "postgresql://anna:p:/?#@host/mail?user=anna@example.org",
        "postgresql://anna@host/mail",
    ],
)
def test_an_at_sign_elsewhere_is_taken(url):
    """In the user's name, as Azure has it; where it is escaped; and in options."""
    assert "host" == parse(url).host


@pytest.mark.parametrize(
    ("url", "name", "database"),
    [
        ("postgresql:///mail?foo=bar", "foo", "PostgreSQL"),
        (f"{USER}{NOBODY}/mail?plugin=x&sslmode=disable", "plugin", "PostgreSQL"),
        (f"{USER}{NOBODY}/mail?autocommit=true", "autocommit", "PostgreSQL"),
        (f"{USER}{NOBODY}/mail?conninfo=s3cret", "conninfo", "PostgreSQL"),
        (f"{USER}{NOBODY}/mail?patience=1", "patience", "PostgreSQL"),
        ("sqlite:///mail.db?mode=ro", "mode", "SQLite"),
        ("sqlite:///mail.db?timeout=x", "timeout", "SQLite"),
        ("sqlite:///file:mail.db?uri=true&plugin=x", "plugin", "SQLite"),
    ],
)
def test_an_option_that_nobody_knows_is_named(url, name, database):
    """Before anything is opened; what belongs to our driver is nobody's option."""
    assert refused(url).endswith(f"an option that {database} does not know: {name}.")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql:///mail?sslmode:verify-full",
        f"{USER}{NOBODY}/mail?user=anna&sslmode",
        f"postgresql://anna:1@s3cret/4?5@{NOBODY}/mail",
        "sqlite:///mail.db?uri",
    ],
)
def test_an_option_without_a_value_is_refused(url):
    """Nobody would read it, and the connection would not be encrypted."""
    assert refused(url).endswith("Write each as name=value.")


def test_the_rest_of_a_password_is_not_named():
    """Behind an & it looks like an option."""
    said = refused("postgresql:///mail?password=a&s3cret=b")

    assert said.endswith("in a password, write & as %26.")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("sslmode=often", 'invalid sslmode value: "often"'),
        (
            "keepalives=x",
            'invalid integer value "x" for connection option "keepalives"',
        ),
    ],
)
def test_a_value_that_libpq_refuses_is_shown(options, sentence):
    """It is looked at only when a connection is opened."""
    said = refused(f"{USER}{NOBODY}/mail?{options}")

    assert f"The database URL cannot be used: {sentence}." == said


@pytest.mark.parametrize("host", ["a..b", "a" * 64])
def test_a_name_that_no_host_can_have_is_refused(host):
    """It cannot even be looked up."""
    assert "host name in the database URL is not valid" in refused(f"{USER}{host}/mail")


@pytest.mark.parametrize("url", [f"{USER}{NOBODY}/mail", f"{USER}[::1]:1/m%FFl"])
def test_a_server_that_cannot_be_reached_is_unavailable(url):
    """There is nothing wrong with such a URL."""
    with pytest.raises(DatabaseUnavailable, match="Connection refused") as caught:
        try_to_read(url)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "place", "shown"),
    [
        (f"{USER}db1/mail", "db1, database mail", "postgresql://anna@db1/mail"),
        (
            f"{USER}/mail?host=db1:5433&host=db2&sslmode=require&password=s3cret",
            "db1:5433, db2, database mail",
            "postgresql://anna@/mail?host=db1%3A5433&host=db2",
        ),
        (
            "postgresql:///mail?host=/run/postgresql",
            "/run/postgresql, database mail",
            "postgresql:///mail?host=%2Frun%2Fpostgresql",
        ),
        (
            "postgresql:///mail?service=mail",
            "this machine, database mail",
            "postgresql:///mail?service=mail",
        ),
    ],
)
def test_each_server_of_a_url_is_named(url, place, shown):
    """Also where only its options have them; the password is never shown."""
    with disposing(open_engine(url)) as engine:
        assert place == dialect_of(engine).place(engine.url)
        assert shown == without_password(engine.url)
