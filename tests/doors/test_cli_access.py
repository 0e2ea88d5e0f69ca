"""Keys, people and events from the command line, and a start that nobody could use."""

from __future__ import annotations

import json
import os
import re

import httpx2
import pytest

from app.access.rights import digest_of
from app.doors.cli.client import ask
from app.doors.cli.serve import require_locked
from app.doors.documents.message import FeedbackOut
from app.errors import InvalidSetting
from app.services.access import list_keys
from app.services.clock import now
from app.services.startup import opened_database
from app.settings import Settings, load_settings
from app.storage.database.engine import open_engine
from tests.support.application import running
from tests.support.command import Command
from tests.support.messages import ham

PASSWORD = b"correct horse\n"


def stored():
    """Return the keys of the database of the settings."""
    engine = open_engine(load_settings().database_url)
    try:
        return list_keys(engine)
    finally:
        engine.dispose()


def test_a_key_is_printed_once_and_stored_as_its_digest(run):
    """Alone on standard output, so that a script can take it."""
    limits = ("--profile", "ann", "--network", "192.0.2.0/24", "--label", "spam")
    code, out, err = run(
        *("keys", "create", "mx1", "--right", "teach", "--right", "classify"), *limits
    )
    (key,) = stored()
    listed = run("keys")[1]

    assert (0, "") == (code, re.sub(r"pb_[A-Za-z0-9_-]{43}\n", "", out))
    assert "shown only now" in err
    assert digest_of(out.strip()) == key.digest
    assert out.strip() not in listed
    assert listed.startswith(
        "mx1  classify, teach  profiles ann  labels spam  from 192.0.2.0/24  made "
    )


@pytest.mark.usefixtures("run")
def test_a_key_that_cannot_be_printed_is_revoked(tmp_path):
    """Nobody has seen it, and another one of its name can be made."""
    err = tmp_path / "err"
    made = Command(
        ["keys", "create", "mx1", "--right", "teach"],
        environment=os.environ,
        folder=tmp_path,
        out="/dev/full",
        err=err,
    )
    code = made.wait()
    (key,) = stored()

    assert 74 == code
    assert key.revoked_at is not None
    assert "shown only now" not in err.read_text()


def test_a_key_is_revoked_by_its_name(run):
    """And another one of that name can be made."""
    made = run("keys", "create", "mx1", "--right", "read", "--days", "7", "--json")
    twice = run("keys", "create", "mx1", "--right", "read")
    revoked = run("keys", "revoke", "mx1")
    again = run("keys", "revoke", "mx1")
    listed = json.loads(run("keys", "list", "--json")[1])["keys"]
    anew = run("keys", "create", "mx1", "--right", "read")

    assert {"name", "key", "expires_at"} <= json.loads(made[1]).keys()
    assert (65, 0, 65, 0) == tuple(each[0] for each in (twice, revoked, again, anew))
    assert "the key 'mx1' already exists" in twice[2]
    assert [("mx1", True)] == [
        (each["name"], each["revoked_at"] is not None) for each in listed
    ]


@pytest.mark.parametrize(
    ("code", "sentence", "arguments"),
    [
        (
            2,
            "missing argument 'NAME'. See `postbayes keys create --help`",
            ("keys", "create"),
        ),
        (2, "no such option: --days", ("keys", "revoke", "x", "--days", "1")),
        (
            2,
            "no such command 'creat'. Did you mean 'create'? See `postbayes keys",
            ("keys", "creat", "x"),
        ),
        (2, "missing option '--right'", ("keys", "create", "x")),
        (2, "admin", ("keys", "create", "x", "--right", "admin")),
        (
            65,
            "the key would expire",
            ("keys", "create", "x", "--right", "read", "--days", "0"),
        ),
        (
            2,
            "is too large",
            ("keys", "create", "x", "--right", "read", "--days", "1e9"),
        ),
        (2, "missing argument 'NAME'", ("people", "add")),
        (65, "a password must have from 8", ("people", "add", "eve")),
        (65, "there is no person", ("people", "remove", "eve")),
        (2, "missing argument 'ADDRESS'", ("correspondents", "forget")),
        (65, "there is no profile 'x'", ("correspondents", "--profile", "x")),
        (65, "'carl' is not an address", ("correspondents", "forget", "carl")),
        (
            65,
            "no profile has the correspondent carl@example.org; nothing was",
            ("correspondents", "forget", "carl@example.org"),
        ),
        (
            65,
            "'default' does not have the correspondent carl@example.org",
            ("correspondents", "forget", "carl@example.org", "--profile", "default"),
        ),
        (
            65,
            "there is no profile 'x'",
            ("correspondents", "forget", "carl@example.org", "--profile", "x"),
        ),
    ],
)
def test_what_cannot_be_done_is_a_sentence(run, code, sentence, arguments):
    """Nothing is stored."""
    run("profiles", "create", "other")
    found = run(*arguments, stdin=b"short\n")

    assert code == found[0]
    assert sentence in found[2]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("keys",), "no keys"),
        (("people",), "no people"),
        (("events",), "no events"),
        (("lists",), "no entries in default"),
        (("lists", "list", "carl@example.org"), "no such entries in default"),
        (("correspondents",), "no correspondents"),
        (
            ("correspondents", "list", "carl@example.org"),
            "no profile has the correspondent carl@example.org",
        ),
    ],
)
def test_an_empty_list_is_a_sentence(run, arguments, sentence):
    """On standard error: for a program the list has no lines."""
    with opened_database(load_settings(), make=True):
        pass

    assert (0, "", f"{sentence}\n") == run(*arguments)
    assert {} != json.loads(run(*arguments, "--json")[1])


def test_a_password_is_text(run):
    """A pipe may have any bytes."""
    code, _, err = run("people", "add", "ann", stdin=b"\xff" * 9 + b"\n")

    assert (65, "postbayes: the password is not UTF-8 text\n") == (code, err)


def test_people_are_added_with_a_password_from_a_pipe(run):
    """Listed with their role; removed, they are gone."""
    added = run("people", "add", "ann", "--role", "teacher", stdin=PASSWORD)
    changed = run("people", "password", "ann", stdin=b"another horse\n")
    run("people", "add", "eve", "--profile", "eve", "--no-password")
    listed = json.loads(run("people", "--json")[1])["people"]
    text = run("people")[1]
    removed = run("people", "remove", "ann")

    assert (0, 0, 0) == (added[0], changed[0], removed[0])
    assert [("ann", "teacher", None), ("eve", "reader", "eve")] == [
        (each["name"], each["role"], each["profile"]) for each in listed
    ]
    assert [True, False] == [each["has_password"] for each in listed]
    assert "eve  reader  profile eve  no password" in text
    assert "horse" not in "".join((*added, *changed)[1::3]) + text


def test_events_say_who_did_what(run):
    """The newest first, with the user of the system."""
    run("keys", "create", "mx1", "--right", "read")
    run("policy", "--ham-cost", "20")
    run("profiles", "create", "gone")
    run("profiles", "delete", "gone", "--yes")
    run("feedback", "--label", "ham", stdin=ham(1))
    run("undo", "--source", "cli")
    lines = run("events")[1].splitlines()
    found = json.loads(run("events", "--last", "1", "--json")[1])["events"]

    assert [
        "undo  default",
        "profile deleted  gone",
        "profile created  gone",
        "policy changed  default",
        "key created  mx1",
    ] == [re.search(r"  cli:\S+  ([\w ]+  \w+)", line)[1] for line in lines]
    assert "undo" == found[0]["act"]


@pytest.mark.parametrize(
    "open_to",
    [
        {"host": "0.0.0.0"},  # noqa: S104  what is refused
        {"host": "::"},
        {"host": "192.0.2.1"},
        {"milter": "0.0.0.0:11332"},
        {"spamd": "192.0.2.1:783"},
        {"rspamd": "[2001:db8::1]:11334"},
    ],
)
def test_a_service_that_others_reach_needs_a_key_or_a_network(tmp_path, run, open_to):
    """The sentence has both ways out; a revoked key is none."""
    url = load_settings().database_url

    def settings(**more):
        return Settings(database_url=url, **open_to, **more)

    with pytest.raises(InvalidSetting, match="postbayes keys create") as refused:
        require_locked(settings())
    require_locked(settings(keyless_from=("192.0.2.0/24",)))
    run("keys", "create", "mx1", "--right", "classify")
    require_locked(settings())
    run("keys", "revoke", "mx1")
    with pytest.raises(InvalidSetting, match="POSTBAYES_KEYLESS_FROM="):
        require_locked(settings())

    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "local",
    [
        {},
        {"host": "localhost"},
        {"host": "::1"},
        {"host": "127.0.0.2", "milter": "unix:/run/milter", "spamd": "127.0.0.1:783"},
    ],
)
def test_a_service_of_this_machine_starts_as_it_is(local):
    """Without looking into the database, which may not be there yet."""
    url = "sqlite:////nowhere/at/all.db"

    require_locked(Settings(database_url=url, **local))


def test_a_command_shows_its_key_to_a_service(monkeypatch):
    """From the environment, and not as an argument that others see."""
    monkeypatch.setenv("POSTBAYES_API_KEY", "pb_x")
    sent = []

    def request(*_, headers, **__):
        sent.append(headers)
        none = dict.fromkeys(("label", "label_before", "score_before"))
        found = {"id": "x", "outcome": "forgotten", "revision": 1, **none}
        return httpx2.Response(200, json=found)

    monkeypatch.setattr(httpx2.Client, "request", request)
    ask(FeedbackOut, "http://127.0.0.1:1", "/feedback/x", None, {})
    ask(FeedbackOut, "http://127.0.0.1:1", "/feedback", b"x", {})

    assert {"Authorization": "Bearer pb_x"} == sent[0]
    assert {"Content-Type", "Authorization"} == sent[1].keys()


def test_correspondents_are_counted_and_forgotten(run):
    """By profile; an address is looked up by its digest."""
    url = load_settings().database_url
    with running(database_url=url, authserv_id=("mx.example.org",)) as app:
        app.correspondents.sent(
            "ann@example.org", ["carl@friends.example", "dora@friends.example"]
        )
    today = f"{now():%Y-%m-%d}"
    listed, of_carl, of_eve = (
        run("correspondents", *args)[1]
        for args in ((), ("list", "Carl@friends.example"), ("list", "eve@example.org"))
    )
    run("profiles", "create", "other")
    elsewhere = [
        run("correspondents", *args, "--profile", "other")[1]
        for args in ((), ("list", "carl@friends.example"))
    ]
    forgot = run("correspondents", "forget", "carl@friends.example", "--json")
    again = run("correspondents", "forget", "carl@friends.example")[0]
    left = json.loads(run("correspondents", "--json")[1])["correspondents"]

    assert f"default  2 addresses  2 messages  last {today}\n" == listed
    assert f"default  1 message  last {today}\n" == of_carl
    assert "" == of_eve
    assert ["", ""] == elsewhere
    assert {"profiles": ["default"]} == json.loads(forgot[1])
    assert 65 == again
    assert [
        {"profile": "default", "addresses": 1, "messages": 1, "last": today}
    ] == left
