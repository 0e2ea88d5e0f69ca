"""The page of the site: profiles, policies, and settings without their secrets."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from app.access.rights import ALL_RIGHTS, ROLES, Principal
from app.services.startup import HIDDEN, in_force
from app.settings import Settings, texts_below
from tests.support.application import add_profiles, served, teach
from tests.support.messages import ham, spam

CANARY = "canary-4711"
FORM = re.compile(r'action="(/ui/site/\w+)')
NO_SECRETS = {
    # Networks that need no key, rates of keys, and days for which those made are known.
    "keyless_from",
    "rate_per_key",
    "rate_per_address",
    "event_days",
    # They say that another setting has the secret, or who needs a key.
    "store_words",
    "offer",
}
"""Settings whose description names a secret, and that hold none."""


@pytest.fixture
def client(tmp_path):
    """A client of a service that was taught some mail."""
    with served(tmp_path) as client:
        app = client.app.state.application
        teach(app, spam(1), "spam")
        teach(app, ham(1), "ham")
        yield client


def speaks_of_secrets(name):
    """Return whether a setting's name or description does."""
    text = f"{name} {texts_below(Settings)[name]}".lower()
    return any(each in text for each in ("password", "secret", "key"))


def is_path(field):
    """Return whether a setting is the name of a file."""
    return Path in (field.annotation, *get_args(field.annotation))


SECRET = [
    name
    for name, field in Settings.model_fields.items()
    if speaks_of_secrets(name) and not is_path(field) and name not in NO_SECRETS
]


def test_settings_that_hold_secrets_are_known():
    """A new setting has to be looked at here, whatever its name."""
    assert {"database_url", "imap_password"} <= set(SECRET)


@pytest.mark.parametrize("name", SECRET)
def test_no_secret_is_shown(name):
    """Only the fact that it is set is shown, also for a password in a URL."""
    value = {
        "database_url": f"postgresql://ann:{CANARY}@db.example/mail?passfile={CANARY}",
        "webhook": f"https://ann:{CANARY}@hooks.example/{CANARY}?token={CANARY}",
    }.get(name, CANARY)
    shown = in_force(Settings(**{name: value}))
    (state,) = [
        each for each in shown if each["variable"] == f"POSTBAYES_{name.upper()}"
    ]

    assert CANARY not in repr(shown)
    assert state["value"] not in (None, "")


@pytest.mark.parametrize(
    ("name", "written", "shown"),
    [
        ("traces", "https://ann:{}@a.example/x", "https://(hidden)@a.example/x"),
        (
            "follow",
            "a=https://b.example/profiles/x,c=https://ann:{}@d.example/profiles/x",
            "a=https://b.example/profiles/x, c=https://(hidden)@d.example/profiles/x",
        ),
    ],
)
def test_a_login_in_an_address_is_hidden(name, written, shown):
    """The rest of the address is shown."""
    given = {name: written.format(CANARY)}
    found = {each["variable"]: each["value"] for each in in_force(Settings(**given))}

    assert shown == found[f"POSTBAYES_{name.upper()}"]


def test_a_webhook_that_is_no_address_is_hidden_whole():
    """The page of settings, and the command, show it without an error."""
    shown = in_force(Settings(webhook=f"https://[{CANARY}"))

    assert CANARY not in repr(shown)


def test_every_setting_is_listed_with_default_and_description(client):
    """The order is that of the reference, and an unset value is null."""
    found = client.get("/settings").json()
    by_name = {each["variable"]: each for each in found["settings"]}

    assert [f"POSTBAYES_{name.upper()}" for name in Settings.model_fields] == list(
        by_name
    )
    assert ("8025", "8025") == tuple(
        by_name["POSTBAYES_PORT"][key] for key in ("value", "default")
    )
    assert by_name["POSTBAYES_MILTER"]["value"] is None
    assert "ham, spam" == by_name["POSTBAYES_LABELS"]["value"]
    assert "true" == by_name["POSTBAYES_STORE_WORDS"]["value"]
    assert all(each["description"] for each in found["settings"])
    assert ("sqlite", 1, 1) == tuple(
        found[k] for k in ("database", "workers", "profiles")
    )


def test_the_page_hides_secrets_and_escapes_values(tmp_path):
    """A value is text, as mail is."""
    with served(
        tmp_path,
        imap_password=CANARY,
        spam_header="X-Spam: <script>alert(1)</script>",
    ) as client:
        text = client.get("/ui/site").text

    assert CANARY not in text
    assert HIDDEN in text
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)" in text


def test_profiles_are_listed_with_what_they_learned(client):
    """Each leads to its policy; one that is asked for is shown."""
    app = client.app.state.application
    add_profiles(app, "ann@example.org")
    text = client.get("/ui/site", params={"profile": "ann@example.org"}).text

    assert "/ui/site?profile=default#policy" in text
    assert "Policy of ann@example.org" in text
    assert "ham 1, spam 1" in text


def test_a_policy_is_changed_and_shown(client):
    """An empty field restores the setting."""
    given = {"ham_cost": "99", "ham_threshold": "", "reject_from": "99.99%"}
    after = client.post("/ui/site/policy", data=given)
    profile = client.get("/profiles/default").json()
    client.post("/ui/site/policy", data=dict.fromkeys(given, ""))

    assert "The policy is changed" in after.text
    assert "+4.595 nats, 99 %<" in after.text
    assert 'value="99"' in after.text
    assert {"ham_cost", "reject_from"} == set(profile["policy"])
    assert {} == client.get("/profiles/default").json()["policy"]


@pytest.mark.parametrize("value", ["<script>", "nan", "-1", "x" * 500])
def test_a_policy_that_means_nothing_is_refused(client, value):
    """The error shows what to write, as text."""
    answer = client.post("/ui/site/policy", data={"ham_cost": value})

    assert 422 == answer.status_code
    assert "<script>" not in answer.text
    assert {} == client.get("/profiles/default").json()["policy"]


def test_who_may_use_one_profile_does_not_see_the_settings(tmp_path):
    """The settings concern the whole site; the own policy is shown."""
    owner = Principal("user:ann", ALL_RIGHTS, frozenset({"default"}), "person")

    async def admit(access):
        access.admit(owner)

    with served(tmp_path) as client:
        guards = client.app.state.guards
        client.app.state.guards = (guards[0], admit)
        twin = client.get("/settings")
        text = client.get("/ui/site").text

    assert (403, True) == (twin.status_code, "all profiles" in twin.json()["detail"])
    assert "Policy of default" in text
    assert "POSTBAYES_" not in text


def test_who_only_reads_is_shown_no_form(client):
    """What it cannot do is not offered."""

    async def admit(access):
        access.admit(Principal("user:ann", ROLES["reader"], None, "person"))

    manager = client.get("/ui/site").text
    client.app.state.guards = (client.app.state.guards[0], admit)
    reader = client.get("/ui/site").text

    assert ["/ui/site/profiles", "/ui/site/policy"] == FORM.findall(manager)
    assert [] == FORM.findall(reader)
    assert "Settings in force" in reader


def test_an_unknown_profile_is_a_page_that_says_so(client):
    """Its name is escaped."""
    answer = client.get("/ui/site", params={"profile": "<script>"})

    assert (404, True) == (answer.status_code, "<script>" not in answer.text)
