"""History: a line for each verdict."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from alembic import op

from app.storage.tables import UtcDateTime

revision: Final = "0011"
down_revision: Final = "0010"
branch_labels: Final = None
depends_on: Final = None


def upgrade() -> None:
    """Make the table; what was scored before has no lines."""
    op.create_table(
        "history",
        sa.Column("profile_id", sa.Integer, nullable=False),
        sa.Column("digest", sa.LargeBinary, nullable=False),
        sa.Column("time", UtcDateTime, nullable=False),
        sa.Column("door", sa.Text, nullable=False),
        sa.Column("decision", sa.Text, nullable=False),
        sa.Column("log_odds", sa.Float),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("features", sa.Integer, nullable=False),
        sa.Column("unseen", sa.Integer, nullable=False),
        sa.Column("sender", sa.Text),
        sa.Column("subject", sa.Text),
        sa.Column("recipients", sa.Text),
        sa.Column("envelope", sa.Text),
        sa.Column("reasons", sa.JSON),
        sa.ForeignKeyConstraint(
            ["profile_id"], ["profile.id"], name=op.f("fk_history_profile_id")
        ),
        sa.PrimaryKeyConstraint(
            "profile_id", "digest", "time", name=op.f("pk_history")
        ),
    )
    op.create_index(
        op.f("ix_history_profile_id_time_digest_decision_door"),
        "history",
        ["profile_id", "time", "digest", "decision", "door"],
    )


def downgrade() -> None:
    """Drop it."""
    op.drop_table("history")
