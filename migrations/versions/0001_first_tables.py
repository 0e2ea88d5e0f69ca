"""First tables: the profile, its ledger and its counts."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0001"
down_revision: Final = None
branch_labels: Final = None
depends_on: Final = None


def upgrade() -> None:
    """Create the tables in an empty database."""
    op.create_table(
        "profile",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("labels", sa.JSON, nullable=False),
        sa.Column("spam_labels", sa.JSON, nullable=False),
        sa.Column("feature_set", sa.Integer, nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_profile")),
        sa.UniqueConstraint("name", name=op.f("uq_profile_name")),
    )
    op.create_table(
        "fold",
        sa.Column("profile_id", sa.Integer, nullable=False),
        sa.Column("folded_revision", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("profile_id", name=op.f("pk_fold")),
        sa.ForeignKeyConstraint(
            ["profile_id"], ["profile.id"], name=op.f("fk_fold_profile_id")
        ),
    )
    op.create_table(
        "ledger",
        sa.Column("profile_id", sa.Integer, nullable=False),
        sa.Column("revision", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("digest", sa.LargeBinary, nullable=False),
        sa.Column("label_before", sa.Text),
        sa.Column("label", sa.Text),
        sa.Column("epoch", sa.Integer, nullable=False),
        sa.Column("vector", sa.LargeBinary),
        sa.Column("names", sa.LargeBinary),
        sa.Column("feature_set", sa.Integer, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("time", sa.DateTime(timezone=True), nullable=False),
        sa.Column("scores", sa.JSON),
        sa.PrimaryKeyConstraint("profile_id", "revision", name=op.f("pk_ledger")),
        sa.ForeignKeyConstraint(
            ["profile_id"], ["profile.id"], name=op.f("fk_ledger_profile_id")
        ),
    )
    op.create_index(
        op.f("ix_ledger_profile_id_digest_revision"),
        "ledger",
        ["profile_id", "digest", "revision"],
    )
    op.create_table(
        "class_count",
        sa.Column("profile_id", sa.Integer, nullable=False),
        sa.Column("epoch", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("view", sa.Text, nullable=False),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("messages", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint(
            "profile_id", "epoch", "view", "label", name=op.f("pk_class_count")
        ),
        sa.ForeignKeyConstraint(
            ["profile_id"], ["profile.id"], name=op.f("fk_class_count_profile_id")
        ),
        sa.CheckConstraint("messages >= 0", name=op.f("ck_class_count_messages")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "feature_count",
        sa.Column("profile_id", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("epoch", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("view", sa.Text, nullable=False),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("feature", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("occurrences", sa.BigInteger, nullable=False),
        sa.Column("messages", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint(
            "profile_id",
            "epoch",
            "view",
            "label",
            "feature",
            name=op.f("pk_feature_count"),
        ),
        sa.CheckConstraint(
            "occurrences >= 0", name=op.f("ck_feature_count_occurrences")
        ),
        sa.CheckConstraint("messages >= 0", name=op.f("ck_feature_count_messages")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "feature_name",
        sa.Column("profile_id", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("view", sa.Text, nullable=False),
        sa.Column("feature", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint(
            "profile_id", "view", "feature", name=op.f("pk_feature_name")
        ),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "scored",
        sa.Column("profile_id", sa.Integer, nullable=False),
        sa.Column("digest", sa.LargeBinary, nullable=False),
        sa.Column("vector", sa.LargeBinary, nullable=False),
        sa.Column("names", sa.LargeBinary),
        sa.Column("feature_set", sa.Integer, nullable=False),
        sa.Column("time", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("profile_id", "digest", name=op.f("pk_scored")),
        sa.ForeignKeyConstraint(
            ["profile_id"], ["profile.id"], name=op.f("fk_scored_profile_id")
        ),
    )
    op.create_index(
        op.f("ix_scored_profile_id_time_digest"),
        "scored",
        ["profile_id", "time", "digest"],
    )


def downgrade() -> None:
    """Drop all tables, and what was learned with them."""
    for table in (
        "scored",
        "feature_name",
        "feature_count",
        "class_count",
        "ledger",
        "fold",
        "profile",
    ):
        op.drop_table(table)
