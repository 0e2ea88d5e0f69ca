"""Undo: tables of undos and of the rows that they take back."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0004"
down_revision: Final = "0003"
branch_labels: Final = None
depends_on: Final = None


def upgrade() -> None:
    """Create the undos; every row that there is was taught."""
    op.add_column("ledger", sa.Column("undo", sa.Integer))
    op.create_table(
        "undo",
        sa.Column("profile_id", sa.Integer, nullable=False),
        sa.Column("number", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("time", sa.DateTime(timezone=True), nullable=False),
        sa.Column("asked", sa.JSON, nullable=False),
        sa.Column("takes", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("profile_id", "number", name=op.f("pk_undo")),
        sa.ForeignKeyConstraint(
            ["profile_id"], ["profile.id"], name=op.f("fk_undo_profile_id")
        ),
    )
    op.create_table(
        "undone",
        sa.Column("profile_id", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("number", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("revision", sa.BigInteger, autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint(
            "profile_id", "number", "revision", name=op.f("pk_undone")
        ),
        sqlite_with_rowid=False,
    )
    op.create_index(
        op.f("ix_undone_profile_id_revision"), "undone", ["profile_id", "revision"]
    )
    op.create_table(
        "undo_work",
        sa.Column("profile_id", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("revision", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("sign", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("profile_id", "revision", name=op.f("pk_undo_work")),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    """Forget which rows were taken back, and by whom; what they say stays."""
    op.drop_table("undo_work")
    op.drop_index(op.f("ix_undone_profile_id_revision"), "undone")
    op.drop_table("undone")
    op.drop_table("undo")
    op.drop_column("ledger", "undo")
