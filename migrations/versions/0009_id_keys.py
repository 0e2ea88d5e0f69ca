"""Id keys: which profiles have keyed feature ids, and with which key."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0009"
down_revision: Final = "0008"
branch_labels: Final = None
depends_on: Final = None


def upgrade() -> None:
    """Let profiles name their key; those that are there have none."""
    op.add_column("profile", sa.Column("id_key", sa.Text))


def downgrade() -> None:
    """Forget which profiles have keyed ids; older code can read none of these."""
    op.drop_column("profile", "id_key")
