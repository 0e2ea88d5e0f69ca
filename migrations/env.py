"""Environment of Alembic: migrations run on the connection that they are given.

`app.storage.database.engine` opens the transaction, holds the lock and passes the
connection, so that a migration that fails leaves nothing behind.
"""

from __future__ import annotations

from alembic import context

from app.storage.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
