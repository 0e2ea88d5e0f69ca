"""Forgotten: the index of what is to be erased, and the bytes of scored messages."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0008"
down_revision: Final = "0007"
branch_labels: Final = None
depends_on: Final = None

_FORGOTTEN: Final = sa.text("label IS NULL AND undo IS NULL AND vector IS NOT NULL")


def upgrade() -> None:
    """Find forgotten messages at once; those that are scored already weigh nothing."""
    op.create_index(
        op.f("ix_ledger_forgotten"),
        "ledger",
        ["profile_id", "revision"],
        sqlite_where=_FORGOTTEN,
        postgresql_where=_FORGOTTEN,
    )
    op.add_column(
        "scored", sa.Column("bytes", sa.BigInteger, nullable=False, server_default="0")
    )
    op.drop_index(op.f("ix_scored_profile_id_time_digest"), "scored")
    op.create_index(
        op.f("ix_scored_profile_id_time_digest_bytes"),
        "scored",
        ["profile_id", "time", "digest", "bytes"],
    )


def downgrade() -> None:
    """Forget how many bytes scored messages have."""
    op.drop_index(op.f("ix_scored_profile_id_time_digest_bytes"), "scored")
    op.create_index(
        op.f("ix_scored_profile_id_time_digest"),
        "scored",
        ["profile_id", "time", "digest"],
    )
    op.drop_column("scored", "bytes")
    op.drop_index(op.f("ix_ledger_forgotten"), "ledger")
