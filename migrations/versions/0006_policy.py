"""Policy: the thresholds of a profile."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0006"
down_revision: Final = "0005"
branch_labels: Final = None
depends_on: Final = None


def upgrade() -> None:
    """Give every profile the policy of the service's settings."""
    op.add_column("profile", sa.Column("policy", sa.JSON))


def downgrade() -> None:
    """Forget the thresholds; all profiles decide by the service's settings."""
    op.drop_column("profile", "policy")
