"""Access: keys, people, and the events beside the ledger."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0010"
down_revision: Final = "0009"
branch_labels: Final = None
depends_on: Final = None
_TIME: Final = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Add the tables; there is no key and nobody who could sign in."""
    op.create_table(
        "access_key",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("digest", sa.LargeBinary, nullable=False),
        sa.Column("rights", sa.JSON, nullable=False),
        sa.Column("profiles", sa.JSON),
        sa.Column("labels", sa.JSON),
        sa.Column("networks", sa.JSON),
        sa.Column("names_sources", sa.Boolean, nullable=False),
        sa.Column("created_at", _TIME, nullable=False),
        sa.Column("expires_at", _TIME),
        sa.Column("last_used_at", _TIME),
        sa.Column("revoked_at", _TIME),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_access_key"),
        sa.UniqueConstraint("digest", name="uq_access_key_digest"),
    )
    op.create_table(
        "person",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("password", sa.Text),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("profile", sa.Text),
        sa.Column("created_at", _TIME, nullable=False),
        sa.Column("removed_at", _TIME),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_person"),
    )
    op.create_table(
        "audit_event",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer, "sqlite"),
            nullable=False,
            autoincrement=True,
        ),
        sa.Column("time", _TIME, nullable=False),
        sa.Column("who", sa.Text, nullable=False),
        sa.Column("act", sa.Text, nullable=False),
        sa.Column("object", sa.Text, nullable=False),
        sa.Column("details", sa.JSON),
        sa.PrimaryKeyConstraint("id", name="pk_audit_event"),
    )
    op.create_index("ix_audit_event_time", "audit_event", ["time"])
    op.create_table(
        "service_secret",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("value", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_service_secret"),
    )


def downgrade() -> None:
    """Forget keys, people and events: older code lets everybody in."""
    for name in ("service_secret", "audit_event", "person", "access_key"):
        op.drop_table(name)
