"""Two services that follow each other over HTTP."""

from __future__ import annotations

import time

import pytest

from tests.support.command import PATIENCE
from tests.support.databases import sqlite_url
from tests.support.messages import ham, spam
from tests.support.service import Service, learned


@pytest.fixture
def sites(database_url, tmp_path):
    """Two services that offer and follow, one of them always on SQLite."""
    made = []
    for name, url in (("amsterdam", database_url), ("berlin", None)):
        (tmp_path / name).mkdir()
        folder = tmp_path / name
        made.append(Service(url or sqlite_url(folder), folder))
    for here, there, name in ((*made, "berlin"), (*made[::-1], "amsterdam")):
        here.environment |= {
            "POSTBAYES_OFFER": "default",
            "POSTBAYES_FOLLOW": f"{name}=http://127.0.0.1:{there.port}/profiles/default",
            "POSTBAYES_FOLLOW_SECONDS": "0.1",
        }
    yield made
    for each in made:
        each.client.close()
        if each.process is not None:
            each.kill()


def wait_until(what):
    """Wait until something is so."""
    deadline = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_two_services_learn_from_each_other(sites):
    """Each message counts once, a kill in between loses nothing, and audits are zero."""
    here, there = sites
    here.start()
    for number in range(4):
        here.teach(spam(number), "spam")
        here.teach(ham(number), "ham")
    there.start()
    wait_until(lambda: learned(there) == {"ham": 4, "spam": 4})
    there.teach(spam(3), "ham")
    wait_until(lambda: learned(here) == {"ham": 5, "spam": 3})
    there.kill()
    here.teach(ham(9), "ham")
    there.start()
    wait_until(lambda: learned(there) == {"ham": 6, "spam": 3})

    assert 0 == there.command("undo", "--source", "site:amsterdam").returncode
    wait_until(lambda: sum(learned(there).values()) == 1)
    # It may not have asked again since the other was killed.
    up = 'postbayes_followed_up{site="berlin"} 1.0'
    wait_until(lambda: up in here.client.get("/metrics").text)
    for each in sites:
        each.stop()
        assert each.audit()[0] == 0
