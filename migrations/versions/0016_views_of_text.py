"""Views of text: the counts of two other views go, which no verdict used."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0016"
down_revision: Final = "0015"
branch_labels: Final = None
depends_on: Final = None


def upgrade() -> None:
    """Delete them, and the column that told sums of measurements from counts.

    A service of the version before cannot fold while the column is missing.
    """
    # By name too: a view whose messages were all forgotten has no row that says it.
    of_view = sa.text(
        "view IN ('structure', 'measurements')"
        " OR view IN (SELECT view FROM class_count WHERE kind = 'moments')"
    )
    for name in ("run", "feature_name", "class_count"):
        op.execute(sa.table(name).delete().where(of_view))
    op.drop_column("class_count", "kind")


def downgrade() -> None:
    """Add the column.

    The counts stay deleted, although messages of before have both views: the version
    before this one finds differences in an audit.
    """
    op.add_column(
        "class_count",
        sa.Column("kind", sa.Text, nullable=False, server_default="features"),
    )
