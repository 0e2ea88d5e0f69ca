"""Sums in the ledger: rows of many messages, and an index by time."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0003"
down_revision: Final = "0002"
branch_labels: Final = None
depends_on: Final = None


def upgrade() -> None:
    """Say of each row that there is that it is of one message."""
    # No copy of the table, on SQLite neither.
    op.add_column(
        "ledger",
        sa.Column("kind", sa.Text, nullable=False, server_default="message"),
    )
    op.create_index(op.f("ix_ledger_profile_id_time"), "ledger", ["profile_id", "time"])
    op.create_index(
        op.f("ix_ledger_profile_id_source_time"),
        "ledger",
        ["profile_id", "source", "time"],
    )


def downgrade() -> None:
    """Drop the kind, where there is no sum.

    The version before takes a sum for a message whose vector is broken, so
    undo imports and prunings first.
    """
    op.drop_index(op.f("ix_ledger_profile_id_source_time"), "ledger")
    op.drop_index(op.f("ix_ledger_profile_id_time"), "ledger")
    op.drop_column("ledger", "kind")
