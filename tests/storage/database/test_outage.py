"""A server that hangs is asked by one, and nobody else waits for it."""

from __future__ import annotations

import pytest

from app.errors import DatabaseUnavailable
from app.storage.database.dialect import Outage


class Connection:
    """A connection to a server that answers."""

    def execute(self, statement):
        """Answer."""

    def close(self):
        """Let go."""


def begun(connect):
    """Return an outage that lasts, of a server that is asked so."""
    outage = Outage()
    outage.connect = connect
    outage.begin()
    return outage


def test_nobody_is_refused_before_an_outage():
    """A server is well until somebody finds otherwise."""
    Outage().require_over()


def test_everybody_is_refused_while_it_lasts():
    """With the sentence that nothing was stored."""
    with pytest.raises(DatabaseUnavailable, match=r"hangs.*Nothing was stored"):
        begun(Connection).require_over()


def test_a_server_that_answers_ends_it():
    """From then on everybody is let through."""
    outage = begun(Connection)
    outage.probe()

    assert not outage.active


def test_a_server_that_is_silent_again_lets_it_last():
    """The next caller waits for the time-out, and gets the error."""

    def connect():
        outage.begin()
        msg = "still nothing"
        raise ConnectionError(msg)

    outage = begun(connect)
    with pytest.raises(ConnectionError, match="still nothing"):
        outage.probe()

    assert outage.active


def test_a_server_that_is_gone_ends_it():
    """It refuses at once, so that nobody waits for it any more."""

    def connect():
        msg = "connection refused"
        raise ConnectionError(msg)

    outage = begun(connect)
    with pytest.raises(ConnectionError, match="refused"):
        outage.probe()

    assert not outage.active
