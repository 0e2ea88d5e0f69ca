"""The driver of PostgreSQL as this service has it: patient, and no chatterbox."""

from __future__ import annotations

import logging

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.exc import DataError

from app.storage.database.engine import writing
from tests.support.databases import on_postgresql

# More than the driver sends before it looks for answers: behind the first, which
# fails, are others that the server passes over.
MANY = 5_000


@on_postgresql
def test_rows_behind_one_that_fails_are_not_news(engine, caplog):
    """The error is raised; what psycopg ignores after it is not logged as well."""
    halves = [{"n": n, "text": "x" * 1_000} for n in range(MANY)]

    with pytest.raises(DataError), writing(engine) as connection:
        connection.execute(text("SELECT 1 / CAST(:n AS int), :text"), halves)

    assert [] == caplog.messages


@on_postgresql
def test_what_else_psycopg_warns_of_is_logged(engine, caplog):
    """Of another thing than a pipeline, or of another kind."""
    log = logging.getLogger("psycopg")
    with writing(engine) as connection:
        driver = connection.connection.dbapi_connection
        log.warning("error ignored terminating %r: %s", driver.cursor(), "x")
        log.warning("error ignored terminating %r: %s", psycopg.Pipeline(driver), "x")
        log.warning("a pipeline: %r", psycopg.Pipeline(driver))
        log.warning("nothing")

    assert ["error ignor", "a pipeline:", "nothing"] == [
        message[:11] for message in caplog.messages
    ]
