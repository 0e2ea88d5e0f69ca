"""Following: how far other sites were followed."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from alembic import op

from app.storage.tables import UtcDateTime

revision: Final = "0015"
down_revision: Final = "0014"
branch_labels: Final = None
depends_on: Final = None


def upgrade() -> None:
    """Make the table; no site was followed before."""
    op.create_table(
        "following",
        sa.Column("profile_id", sa.Integer, nullable=False),
        sa.Column("site", sa.Text, nullable=False),
        sa.Column("cursor", sa.Text, nullable=False),
        sa.Column("time", UtcDateTime, nullable=False),
        sa.ForeignKeyConstraint(
            ["profile_id"], ["profile.id"], name=op.f("fk_following_profile_id")
        ),
        sa.PrimaryKeyConstraint("profile_id", "site", name=op.f("pk_following")),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    """Drop it."""
    op.drop_table("following")
