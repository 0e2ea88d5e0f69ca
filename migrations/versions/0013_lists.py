"""Lists: allow and deny entries of each profile."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from alembic import op

from app.storage.tables import UtcDateTime

revision: Final = "0013"
down_revision: Final = "0012"
branch_labels: Final = None
depends_on: Final = None


def upgrade() -> None:
    """Make the table, which is empty."""
    op.add_column(
        "profile",
        sa.Column("lists", sa.BigInteger, nullable=False, server_default="0"),
    )
    op.create_table(
        "list_entry",
        sa.Column("profile_id", sa.Integer, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("value", sa.Text, nullable=False),
        sa.Column("nats", sa.Float, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("created_at", UtcDateTime, nullable=False),
        sa.Column("expires_at", UtcDateTime),
        sa.Column("note", sa.Text, nullable=False),
        sa.ForeignKeyConstraint(
            ["profile_id"], ["profile.id"], name=op.f("fk_list_entry_profile_id")
        ),
        sa.PrimaryKeyConstraint(
            "profile_id", "kind", "value", name=op.f("pk_list_entry")
        ),
    )


def downgrade() -> None:
    """Drop the table: older code knows no lists."""
    op.drop_table("list_entry")
    op.drop_column("profile", "lists")
