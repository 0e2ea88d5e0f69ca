"""Fold in parts: the rest of a fold that is written in parts."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0007"
down_revision: Final = "0006"
branch_labels: Final = None
depends_on: Final = None


def upgrade() -> None:
    """Create the table; every fold is whole."""
    op.create_table(
        "fold_rest",
        sa.Column("profile_id", sa.Integer, nullable=False),
        sa.Column("after_revision", sa.BigInteger, nullable=False),
        sa.Column("upto_revision", sa.BigInteger, nullable=False),
        sa.Column("feature", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("profile_id", name=op.f("pk_fold_rest")),
        sa.ForeignKeyConstraint(
            ["profile_id"],
            ["fold.profile_id"],
            name=op.f("fk_fold_rest_profile_id"),
            ondelete="CASCADE",
        ),
    )


def downgrade() -> None:
    """Drop the table, once nothing is left: the version before would not add it.

    Raises
    ------
    RuntimeError
        If a fold is not written to its end.
    """
    left = sa.select(sa.func.count()).select_from(sa.table("fold_rest"))
    if op.get_bind().execute(left).scalar_one():
        msg = "A fold is written in part. Run `postbayes fold`, then go back."
        raise RuntimeError(msg)
    op.drop_table("fold_rest")
