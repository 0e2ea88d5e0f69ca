"""Moment sums: a table of measurements beside that of features."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0002"
down_revision: Final = "0001"
branch_labels: Final = None
depends_on: Final = None


def upgrade() -> None:
    """Create the sums, and say of each view that there is that it has features."""
    # No copy of the table, on SQLite neither: whoever reads it goes on reading.
    op.add_column(
        "class_count",
        sa.Column("kind", sa.Text, nullable=False, server_default="features"),
    )
    op.create_table(
        "moment_sum",
        sa.Column("profile_id", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("epoch", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("view", sa.Text, nullable=False),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("field", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("other", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("degree", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("messages", sa.BigInteger, nullable=False),
        sa.Column("low", sa.BigInteger, nullable=False),
        sa.Column("middle", sa.BigInteger, nullable=False),
        sa.Column("high", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint(
            "profile_id",
            "epoch",
            "view",
            "label",
            "field",
            "other",
            "degree",
            name=op.f("pk_moment_sum"),
        ),
        sa.CheckConstraint("messages > 0", name=op.f("ck_moment_sum_messages")),
        sa.CheckConstraint(
            "(degree = 1 AND other = field) OR (degree = 2 AND other >= field)",
            name=op.f("ck_moment_sum_degree"),
        ),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    """Drop the sums and their messages.

    The ledger keeps its vectors; the version before refuses those that hold
    measurements, so go back only where none were learned, or with a backup.
    """
    op.drop_table("moment_sum")
    op.execute("DELETE FROM class_count WHERE kind <> 'features'")
    op.drop_column("class_count", "kind")
