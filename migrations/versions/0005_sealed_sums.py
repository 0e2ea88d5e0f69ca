"""Sealed sums: the sums of rows whose vectors are dropped."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0005"
down_revision: Final = "0004"
branch_labels: Final = None
depends_on: Final = None

_KEPT: Final = sa.text("vector IS NOT NULL")


def upgrade() -> None:
    """Create the sums, and find the rows that have vectors by their time."""
    op.create_table(
        "sealed",
        sa.Column("profile_id", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("epoch", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("level", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("run", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("part", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("vector", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint(
            "profile_id", "epoch", "level", "run", "part", name=op.f("pk_sealed")
        ),
    )
    op.create_index(
        "ix_ledger_kept",
        "ledger",
        ["profile_id", "time"],
        sqlite_where=_KEPT,
        postgresql_where=_KEPT,
    )


def downgrade() -> None:
    """Drop the sums.

    The version before cannot audit a ledger without all of its vectors, so go
    back only where none was dropped.
    """
    op.drop_index("ix_ledger_kept", "ledger")
    op.drop_table("sealed")
