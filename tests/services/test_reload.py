"""Settings that are read again count from then on, as far as they can."""

from __future__ import annotations

import logging

import pytest

from app.doors.documents.profile import ProfileOut
from app.errors import InvalidSetting
from app.services.access import Caller
from app.services.application import RELOADED
from app.services.log import JsonFormat, TextFormat, keep_log
from app.settings import Settings
from tests.support.application import running
from tests.support.databases import sqlite_url


@pytest.fixture
def app(tmp_path):
    """A running application."""
    with running(database_url=sqlite_url(tmp_path)) as app:
        yield app


def settings(app, **changed):
    """Return the settings of an application with some changes."""
    given = app.settings.model_dump() | changed
    return Settings(**given)


def test_what_needs_no_restart_counts_at_once(app, tmp_path):
    """And what needs one is named, and stays."""
    aliases = tmp_path / "aliases"
    aliases.write_text("postmaster: default\n")
    found = settings(
        app, ham_cost=1e6, quarantine_from=14.0, aliases=aliases, port=1, profile="x"
    )
    reloaded = app.take_over(found)
    rule = ProfileOut.of(app, "default")

    assert "changed: POSTBAYES_ALIASES, POSTBAYES_HAM_COST, POSTBAYES_Q" in str(
        reloaded
    )
    assert "restart the service for POSTBAYES_PORT, POSTBAYES_PROFILE" in str(reloaded)
    assert (13.816, 14.0) == (
        round(rule.spam_threshold.log_odds, 3),
        rule.quarantine_from.log_odds,
    )
    assert "default" == app.aliases.get("postmaster")
    assert 8025 == app.settings.port
    assert "default" == app.settings.profile


def test_nothing_is_taken_over_where_a_setting_cannot_be_used(app, tmp_path):
    """Neither it nor the others."""
    before = app.settings
    found = settings(app, ham_cost=1e6, aliases=tmp_path / "nowhere")
    with pytest.raises(InvalidSetting, match="cannot be read"):
        app.take_over(found)

    assert before is app.settings
    assert 2.197 == round(ProfileOut.of(app, "default").spam_threshold.log_odds, 3)


def test_no_network_is_taken_over_beside_one_that_is_none(app):
    """The log says that the settings were not changed."""
    found = settings(app, keyless_from=["192.0.2.1"], proxies=["nobody"])
    with pytest.raises(InvalidSetting, match="POSTBAYES_PROXIES: 'nobody'"):
        app.take_over(found)

    hosts = ("127.0.0.1", "192.0.2.1")
    assert [True, False] == [app.gate.needs_no_key(Caller(host)) for host in hosts]


def test_a_policy_stays_above_the_settings(app):
    """It was given by hand."""
    app.change_policy("default", {"ham_cost": 100.0})
    app.take_over(settings(app, ham_cost=1e6))

    assert 4.605 == round(ProfileOut.of(app, "default").spam_threshold.log_odds, 3)


def test_settings_without_a_change_change_nothing(app):
    """The line of the log says so."""
    reloaded = app.take_over(settings(app))

    assert ((), ()) == (reloaded.taken, reloaded.left)
    assert str(reloaded).endswith("; none changed")


def test_every_setting_that_is_reloaded_is_one():
    """A setting that is renamed is renamed there."""
    assert set() == RELOADED - set(Settings.model_fields)


def test_the_log_follows_the_settings(monkeypatch):
    """A handler of ours; one that somebody else has set up stays."""
    root, theirs = logging.getLogger(), logging.NullHandler()
    found = []
    with monkeypatch.context() as alone:
        alone.setattr(root, "handlers", [])
        alone.setattr(root, "level", root.level)
        for changed in ({}, {"log_level": "warning", "log_format": "json"}):
            keep_log(Settings(**changed))
            root.handlers[1:] = [theirs]
            found.append((root.level, type(root.handlers[0].formatter)))
    root.setLevel(root.level)

    assert [(logging.INFO, TextFormat), (logging.WARNING, JsonFormat)] == found
    assert theirs.formatter is None
