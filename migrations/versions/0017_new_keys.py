"""New keys: no profile gets the key of one that was deleted."""

from __future__ import annotations

from typing import Final

from alembic import op

revision: Final = "0017"
down_revision: Final = "0016"
branch_labels: Final = None
depends_on: Final = None


def upgrade() -> None:
    """Let SQLite count the keys up, as the sequences of PostgreSQL do.

    It gave the greatest key again: what a process still scored for a deleted profile,
    was stored for the next one.
    """
    _make_again(autoincrement=True)


def downgrade() -> None:
    """Let SQLite choose the keys."""
    _make_again(autoincrement=False)


def _make_again(*, autoincrement: bool) -> None:
    if op.get_context().dialect.name == "sqlite":
        with op.batch_alter_table(
            "profile",
            recreate="always",
            table_kwargs={"sqlite_autoincrement": autoincrement},
        ):
            pass
