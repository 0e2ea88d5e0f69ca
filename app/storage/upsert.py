"""How are rows inserted that may be there already?

SQLite and PostgreSQL share the ``ON CONFLICT`` clause, but SQLAlchemy has one
class per dialect for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy.dialects import postgresql, sqlite

if TYPE_CHECKING:
    from sqlalchemy import Connection, Table


def insert_into(
    connection: Connection, table: Table
) -> sqlite.Insert | postgresql.Insert:
    """Return an INSERT of the connection's dialect, to add ``on_conflict`` to."""
    if connection.dialect.name == "sqlite":
        return sqlite.insert(table)
    return postgresql.insert(table)
