"""Runs: the counts as sums of many features, in place of a row for each.

The version before this one does not know them: while services of both use a database,
that one says that its tables are gone.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import sqlalchemy as sa
from alembic import op

from app.bayes.counts import FeatureCounts
from app.bayes.sparse import Rows, beside
from app.bayes.state import History, State
from app.ledger.entry import LedgerRow, sum_by_epoch
from app.ledger.sums import decode_sum
from app.storage import runs
from app.storage.runs import encode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

revision: Final = "0012"
down_revision: Final = "0011"
branch_labels: Final = None
depends_on: Final = None
_ROWS: Final = 50_000


def upgrade() -> None:
    """Create the table, and write into it what the others hold."""
    run = op.create_table(
        "run",
        sa.Column("profile_id", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("epoch", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("view", sa.Text, nullable=False),
        sa.Column("level", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("number", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("first", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("vector", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint(
            "profile_id",
            *("kind", "epoch", "view", "level", "number", "first"),
            name=op.f("pk_run"),
        ),
    )
    for profile_id, labels in _profiles():
        taken = _take_back(profile_id, labels)
        for kind, number, sums in (
            ("counts", 0, _counted(profile_id, labels)),
            ("counts", 1, taken.items()),
            ("sealed", 0, _sealed(profile_id, labels).items()),
        ):
            shared = {"profile_id": profile_id, "kind": kind, "level": 0}
            for epoch, state in sums:
                parts = encode({epoch: state}, labels)
                if parts:
                    op.bulk_insert(
                        run, [shared | {"number": number} | x._asdict() for x in parts]
                    )
        runs.add_messages(op.get_bind(), runs.changes(taken, profile_id, labels))
        _drop_names(profile_id, labels)
    for table in ("fold_rest", "sealed", "moment_sum", "feature_count"):
        op.drop_table(table)


def _drop_names(profile_id: int, labels: Sequence[str]) -> None:
    """Drop the text that rows of the ledger have as well."""
    sealed = State.sum(_sealed(profile_id, labels).values())
    stored = _all(
        "SELECT view, feature FROM feature_name WHERE profile_id = :id", profile_id
    )
    kept = {view: set(x.ids.tolist()) for view, x in sealed.items()}
    gone = [
        {"id": profile_id, "view": view, "feature": feature}
        for view, feature in stored
        if feature not in kept.get(view, ())
    ]
    if gone:
        delete = (
            "DELETE FROM feature_name"
            " WHERE profile_id = :id AND view = :view AND feature = :feature"
        )
        op.get_bind().execute(sa.text(delete), gone)


def downgrade() -> None:
    """Write a row for each count again."""
    feature, sealed = _make_old()
    for profile_id, labels in _profiles():
        for number, (kind, epoch, vector) in enumerate(
            _all(
                "SELECT kind, epoch, vector FROM run WHERE profile_id = :id", profile_id
            )
        ):
            if kind == "sealed":
                key = {"profile_id": profile_id, "epoch": epoch, "level": 0}
                op.bulk_insert(
                    sealed, [key | {"run": number, "part": 0, "vector": vector}]
                )
        for epoch, state in _totals(profile_id, labels).items():
            for view, x in state.items():
                key = {"profile_id": profile_id, "epoch": epoch, "view": view}
                _write_features(feature, key, x, labels)
    op.drop_table("run")


def _all(query: str, profile_id: int, **values: object) -> Any:
    """Give the rows of a query, some at a time."""
    # Of the statement: a connection would keep the option.
    asked = sa.text(query).execution_options(yield_per=_ROWS)
    return op.get_bind().execute(asked, {"id": profile_id, **values})


def _profiles() -> list[tuple[int, tuple[str, ...]]]:
    """Return the profiles and their labels."""
    found = op.get_bind().execute(sa.text("SELECT id, labels FROM profile"))
    return [
        (key, tuple(json.loads(labels) if isinstance(labels, str) else labels))
        for key, labels in found
    ]


def _groups(profile_id: int) -> list[Any]:
    """Return what the class counts say, in the order of the runs."""
    return list(
        _all(
            "SELECT epoch, view, kind, label, messages FROM class_count"
            " WHERE profile_id = :id ORDER BY epoch, view",
            profile_id,
        )
    )


def _counted(profile_id: int, labels: Sequence[str]) -> Iterator[tuple[int, State]]:
    """Give the counts of each month and view."""
    groups = _groups(profile_id)
    for epoch, view, kind in sorted({tuple(row[:3]) for row in groups}):
        messages = np.zeros(len(labels), np.int64)
        for row in groups:
            if tuple(row[:2]) == (epoch, view):
                messages[labels.index(row.label)] = row.messages
        key = {"epoch": epoch, "view": view}
        # Measurements are not read any more (migration 0016 deletes their messages).
        if kind == "features":
            rows = beside([_of_label(profile_id, x, **key) for x in labels])
            yield epoch, State({view: FeatureCounts(messages, *rows)})


def _of_label(profile_id: int, label: str, **key: object) -> Rows:
    """Return the counts of one label, as if there were no other."""
    found = _all(
        "SELECT feature, occurrences, messages FROM feature_count"
        " WHERE profile_id = :id AND epoch = :epoch AND view = :view"
        " AND label = :label ORDER BY feature",
        profile_id,
        label=label,
        **key,
    )
    some = [
        np.array([tuple(row) for row in part], np.int64) for part in found.partitions()
    ]
    columns = np.concatenate([np.empty((0, 3), np.int64), *some])
    return Rows(columns[:, 0], columns[:, 1:])


def _sealed(profile_id: int, labels: Sequence[str]) -> History:
    """Return the sums of the rows whose vectors were dropped."""
    found = _all("SELECT epoch, vector FROM sealed WHERE profile_id = :id", profile_id)
    return History.sum({row.epoch: decode_sum(row.vector, labels)} for row in found)


def _totals(profile_id: int, labels: Sequence[str]) -> History:
    """Return the counts of each month."""
    found = _all(
        "SELECT epoch, vector FROM run WHERE profile_id = :id AND kind = 'counts'",
        profile_id,
    )
    return History.sum({row.epoch: decode_sum(row.vector, labels)} for row in found)


def _take_back(profile_id: int, labels: Sequence[str]) -> History:
    """Return what takes back a fold that was written in part; the next one is whole."""
    found = History()
    for after, upto, feature in _all(
        "SELECT after_revision, upto_revision, feature FROM fold_rest"
        " WHERE profile_id = :id",
        profile_id,
    ).all():
        batch = _all(
            "SELECT revision, label_before, label, epoch, vector, kind FROM ledger"
            " WHERE profile_id = :id AND revision > :after AND revision <= :upto",
            profile_id,
            after=after,
            upto=upto,
        )
        ledger = (
            LedgerRow(
                **dict(zip(batch.keys(), row, strict=True)),
                digest=b"",
                encoded_names=None,
                feature_set=1,
                source="",
                time=datetime.now(UTC),
                scores=None,
            )
            for row in batch
        )
        found += -sum_by_epoch(ledger, labels).between(None, feature)
        op.get_bind().execute(
            sa.text("UPDATE fold SET folded_revision = :after WHERE profile_id = :id"),
            {"after": after, "id": profile_id},
        )
    return found


def _write_features(
    table: sa.Table, key: dict[str, object], x: FeatureCounts, labels: Sequence[str]
) -> None:
    """Write a row for each feature and label."""
    for index, label in enumerate(labels):
        counts = np.column_stack(
            (x.ids, x.occurrences[:, index], x.documents[:, index])
        )
        left = counts[counts[:, 1:].any(axis=1)]
        for first in range(0, len(left), _ROWS):
            written = [
                key
                | {"label": label}
                | dict(zip(("feature", "occurrences", "messages"), row, strict=True))
                for row in left[first : first + _ROWS].tolist()
            ]
            op.bulk_insert(table, written)


def _make_old() -> tuple[sa.Table, sa.Table]:
    """Make the tables of the version before, which are empty."""

    def columns(kind: Any, *names: str) -> list[sa.Column[Any]]:
        return [
            sa.Column(name, kind, autoincrement=False, nullable=False) for name in names
        ]

    def key(table: str, *names: str) -> sa.PrimaryKeyConstraint:
        return sa.PrimaryKeyConstraint("profile_id", *names, name=op.f(f"pk_{table}"))

    def check(table: str, name: str, rule: str) -> sa.CheckConstraint:
        return sa.CheckConstraint(rule, name=op.f(f"ck_{table}_{name}"))

    feature = op.create_table(
        "feature_count",
        *columns(sa.Integer, "profile_id", "epoch"),
        *columns(sa.Text, "view", "label"),
        *columns(sa.BigInteger, "feature", "occurrences", "messages"),
        key("feature_count", "epoch", "view", "label", "feature"),
        check("feature_count", "occurrences", "occurrences >= 0"),
        check("feature_count", "messages", "messages >= 0"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "moment_sum",
        *columns(sa.Integer, "profile_id", "epoch"),
        *columns(sa.Text, "view", "label"),
        *columns(sa.BigInteger, "field", "other"),
        *columns(sa.Integer, "degree"),
        *columns(sa.BigInteger, "messages", "low", "middle", "high"),
        key("moment_sum", "epoch", "view", "label", "field", "other", "degree"),
        check("moment_sum", "messages", "messages > 0"),
        check(
            "moment_sum",
            "degree",
            "(degree = 1 AND other = field) OR (degree = 2 AND other >= field)",
        ),
        sqlite_with_rowid=False,
    )
    sealed = op.create_table(
        "sealed",
        *columns(sa.Integer, "profile_id", "epoch", "level", "run", "part"),
        *columns(sa.LargeBinary, "vector"),
        key("sealed", "epoch", "level", "run", "part"),
    )
    op.create_table(
        "fold_rest",
        *columns(sa.Integer, "profile_id"),
        *columns(sa.BigInteger, "after_revision", "upto_revision", "feature"),
        key("fold_rest"),
        sa.ForeignKeyConstraint(
            ["profile_id"],
            ["fold.profile_id"],
            name=op.f("fk_fold_rest_profile_id"),
            ondelete="CASCADE",
        ),
    )
    return feature, sealed
