"""What did the filter say of the messages that people then labelled?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from sqlalchemy import bindparam, case, select

from app.storage import tables
from app.storage.entry import OWN

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from sqlalchemy import Connection

_rows: Final = tables.ledger.alias("first")
_later: Final = tables.ledger.alias("later")

# The label is the newest of the message, not the first: whoever corrects a slip
# of the finger corrects the figures too.  A message that was forgotten counts
# no more.
#
# What the filter taught itself has no label but its own, which agrees with it: it
# counts once a person has said what it is, by what was said before any learning.
_NEWEST: Final = (
    select(case((_later.c.source != OWN, _later.c.label)))
    .where(
        _later.c.profile_id == _rows.c.profile_id,
        _later.c.digest == _rows.c.digest,
    )
    .order_by(_later.c.revision.desc())
    .limit(1)
    .scalar_subquery()
)
_SCORED: Final = (
    select(
        _rows.c.revision,
        _NEWEST.label("label"),
        _rows.c.scores["decision"].as_string().label("decision"),
        _rows.c.scores["log_odds"].as_float().label("log_odds"),
    )
    .where(
        _rows.c.profile_id == bindparam("profile_id"),
        _rows.c.label_before.is_(None),
        _rows.c.label.is_not(None),
        _rows.c.scores.is_not(None),
        _NEWEST.is_not(None),
    )
    .order_by(_rows.c.revision.desc())
    .limit(bindparam("window"))
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """The newest messages that were scored before they were learned.

    Parameters
    ----------
    revisions : ndarray of int64, shape (n,)
        Ledger rows that learned them, in ascending order.
    is_spam : ndarray of bool, shape (n,)
        Whether the message's label, as it is now, stands for spam.
    decided_spam, unsure : ndarray of bool, shape (n,)
        What the filter had decided.
    log_odds : ndarray of float64, shape (n,)
        What it had said.  Unit: nats.
    """

    revisions: NDArray[np.int64]
    is_spam: NDArray[np.bool_]
    decided_spam: NDArray[np.bool_]
    unsure: NDArray[np.bool_]
    log_odds: NDArray[np.float64]


def newest(
    connection: Connection,
    profile_id: int,
    *,
    spam_labels: tuple[str, ...],
    window: int,
) -> Scored:
    """Return the newest scored messages of a profile, `window` at most."""
    rows = connection.execute(_SCORED, {"profile_id": profile_id, "window": window})
    kept = [row for row in rows if row.label is not None and row.log_odds is not None]
    kept.reverse()
    return Scored(
        revisions=np.array([row.revision for row in kept], np.int64),
        is_spam=np.array([row.label in spam_labels for row in kept], np.bool_),
        decided_spam=np.array([row.decision == "spam" for row in kept], np.bool_),
        unsure=np.array([row.decision == "unsure" for row in kept], np.bool_),
        log_odds=np.array([row.log_odds for row in kept], np.float64),
    )
