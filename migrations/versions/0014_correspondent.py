"""Correspondents: whom the owners of profiles wrote to."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from alembic import op

from app.storage.tables import UtcDateTime

revision: Final = "0014"
down_revision: Final = "0013"
branch_labels: Final = None
depends_on: Final = None


def upgrade() -> None:
    """Make the table; nothing is known of mail that was sent before."""
    op.create_table(
        "correspondent",
        sa.Column("profile_id", sa.Integer, nullable=False),
        sa.Column("address", sa.LargeBinary, nullable=False),
        sa.Column("domain", sa.LargeBinary, nullable=False),
        sa.Column("messages", sa.Integer, nullable=False),
        sa.Column("last", UtcDateTime, nullable=False),
        sa.ForeignKeyConstraint(
            ["profile_id"], ["profile.id"], name=op.f("fk_correspondent_profile_id")
        ),
        sa.PrimaryKeyConstraint("profile_id", "address", name=op.f("pk_correspondent")),
        sqlite_with_rowid=False,
    )
    op.create_index(
        op.f("ix_correspondent_profile_id_last"),
        "correspondent",
        ["profile_id", "last"],
    )


def downgrade() -> None:
    """Drop it."""
    op.drop_table("correspondent")
