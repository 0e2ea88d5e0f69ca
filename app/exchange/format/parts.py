"""Parts of an export: the rows inside its blocks.

Contract of this file: each kind of block has one function to write it and one to read
it, and whatever a reader cannot take, of any bytes, raises `MalformedExport`.
"""

from __future__ import annotations

import json
import struct
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from app.classifier.record import require_record
from app.errors import (
    CorruptVector,
    InconsistentCounts,
    InvalidObservation,
    MalformedExport,
)
from app.exchange.format.header import (
    SMALL,
    asked,
    digest,
    epoch,
    integer,
    listed,
    moment,
    source,
    text,
    text_or_none,
)
from app.ledger.entry import LedgerRow
from app.ledger.sums import decode_sum, encode_sum
from app.ledger.undo import UndoRecord

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from app.bayes.state import State
    from app.ledger.capacity import Amounts

SUM: Final = b"S"
"""Kind of a block with statistics of one epoch."""
LEDGER: Final = b"L"
"""Kind of a block with rows of the ledger."""
NAMES: Final = b"N"
"""Kind of a block with the text of features."""
UNDOS: Final = b"U"
"""Kind of a block with an undo of a ledger."""
_EPOCH: Final = struct.Struct("<i")
_LENGTH: Final = struct.Struct("<I")
_NUMBER: Final = np.dtype("<i8")


def write_sum(month: int, state: State, labels: Sequence[str]) -> bytes:
    """Return the content of a block of statistics."""
    return _EPOCH.pack(month) + encode_sum(state, labels)


def read_sum(content: bytes, labels: Sequence[str]) -> tuple[int, State]:
    """Return the epoch of a block of statistics, and them.

    Raises
    ------
    MalformedExport
        If the block cannot be read.
    """
    with _reading("statistics"):
        month = epoch(*_EPOCH.unpack_from(content))
        return month, decode_sum(content[_EPOCH.size :], labels)


def write_names(view: str, names: Mapping[int, str]) -> bytes:
    """Return the content of a block with the text of features of one view."""
    texts = json.dumps([view, *names.values()], ensure_ascii=False).encode()
    ids = np.fromiter(names, _NUMBER, len(names))
    return _LENGTH.pack(len(names)) + ids.tobytes() + texts


def read_names(content: bytes) -> tuple[str, dict[int, str]]:
    """Return the view of a block of names, and text by feature.

    Raises
    ------
    MalformedExport
        If the block cannot be read.
    """
    with _reading("names"):
        (n,) = _LENGTH.unpack_from(content)
        ids = np.frombuffer(content, _NUMBER, n, _LENGTH.size)
        view, *texts = map(text, json.loads(content[_LENGTH.size + ids.nbytes :]))
        return view, dict(zip(ids.tolist(), texts, strict=True))


def write_rows(rows: Sequence[LedgerRow], *, words: bool) -> bytes:
    """Return the content of a block of rows.

    Parameters
    ----------
    rows : sequence of LedgerRow
        The rows, in the order of their revisions.
    words : bool
        Whether the text of features goes with them.
    """
    lines = []
    blobs = []
    for row in rows:
        names = row.encoded_names if words else None
        values = {
            "revision": row.revision,
            "digest": row.digest.hex(),
            "label_before": row.label_before,
            "label": row.label,
            "epoch": row.epoch,
            "vector": None if row.vector is None else len(row.vector),
            "names": None if names is None else len(names),
            "feature_set": row.feature_set,
            "source": row.source,
            "time": row.time.isoformat(),
            "scores": row.scores,
            "kind": row.kind,
            "undo": row.undo,
        }
        lines.append(values)
        blobs += [row.vector or b"", names or b""]
    texts = json.dumps(lines, separators=(",", ":"), ensure_ascii=False).encode()
    return _LENGTH.pack(len(texts)) + texts + b"".join(blobs)


def read_rows(
    content: bytes, labels: Sequence[str], amounts: Amounts
) -> list[LedgerRow]:
    """Return the rows of a block, each of which can be added up.

    Parameters
    ----------
    content : bytes
        The block.
    labels : sequence of str
        Name of each class index.
    amounts : Amounts
        Sums of the rows before; these rows are added.

    Raises
    ------
    MalformedExport
        If the block or a row of it cannot be read.
    """
    rows = surveyed_rows(content)
    with _reading("ledger rows"):
        for row in rows:
            _require_readable(row, labels, amounts)
    return rows


def surveyed_rows(content: bytes) -> list[LedgerRow]:
    """Return the rows of a block that `read_rows` has read before.

    Their vectors are not decoded again: that is most of the work.

    Raises
    ------
    MalformedExport
        If it holds no rows.
    """
    with _reading("ledger rows"):
        (length,) = _LENGTH.unpack_from(content)
        at = _LENGTH.size + length
        rows = []
        for values in json.loads(content[_LENGTH.size : at]):
            vector, at = _blob(content, at, values["vector"])
            names, at = _blob(content, at, values["names"])
            rows.append(_row(values, vector, names))
        if at != len(content):
            msg = f"{len(content) - at} bytes belong to no row"
            raise ValueError(msg)
    return rows


def write_undo(record: UndoRecord) -> bytes:
    """Return the content of a block with an undo."""
    values = asdict(record) | {"time": record.time.isoformat()}
    return json.dumps(values, separators=(",", ":"), ensure_ascii=False).encode()


def read_undo(content: bytes) -> UndoRecord:
    """Return the undo of a block.

    Raises
    ------
    MalformedExport
        If the block cannot be read.
    """
    with _reading("an undo"):
        values = json.loads(content)
        return UndoRecord(
            number=integer(values["number"], most=SMALL),
            source=source(values["source"]),
            time=moment(values["time"]),
            asked=asked(values["asked"]),
            takes=tuple(map(integer, listed(values["takes"]))),
            revisions=tuple(map(integer, listed(values["revisions"]))),
        )


@contextmanager
def _reading(what: str) -> Iterator[None]:
    """Raise `MalformedExport` for all that the bytes of a block can make fail."""
    try:
        yield
    except (
        struct.error,
        KeyError,
        ValueError,
        TypeError,
        RecursionError,
        CorruptVector,
        InconsistentCounts,
        InvalidObservation,
    ) as error:
        msg = f"{what} in this export cannot be read: {error}"
        raise MalformedExport(msg) from error


def _row(
    values: dict[str, Any], vector: bytes | None, names: bytes | None
) -> LedgerRow:
    """Return a row as it was written."""
    if values["kind"] not in {"message", "sum"}:
        msg = f"a row is of the unknown kind {values['kind']!r}"
        raise ValueError(msg)
    if values["scores"] is not None:
        require_record(values["scores"])
    undo = values["undo"]
    return LedgerRow(
        revision=integer(values["revision"]),
        digest=digest(values["digest"]),
        label_before=text_or_none(values["label_before"]),
        label=text_or_none(values["label"]),
        epoch=epoch(integer(values["epoch"])),
        vector=vector,
        encoded_names=names,
        feature_set=integer(values["feature_set"], most=SMALL),
        source=source(values["source"]),
        time=moment(values["time"]),
        scores=values["scores"],
        kind=values["kind"],
        undo=None if undo is None else integer(undo, least=1, most=SMALL),
    )


def _require_readable(row: LedgerRow, labels: Sequence[str], amounts: Amounts) -> None:
    """Raise if a row cannot be added up; add what it counts to `amounts`."""
    strange = {row.label_before, row.label} - {None, *labels}
    if strange:
        msg = f"row {row.revision} has the label {strange.pop()!r}"
        raise ValueError(msg)
    of_sum = row.kind == "sum"
    if of_sum and (row.label_before, row.label, row.scores) != (None, None, None):
        msg = f"row {row.revision} is a sum, and says what one message is"
        raise ValueError(msg)
    if row.vector is None:
        return
    if of_sum:
        sums = row.delta(labels)
        amounts.add(sums)
        sizes = {view: x.ids.size for view, x in sums.items()}
    else:
        moved = (row.label_before is not None) + (row.label is not None)
        views = row.views
        amounts.add_message(views, times=moved)
        sizes = {view: x.ids.size for view, x in views.items()}
    for view, texts in row.names.items():
        if len(texts) != sizes.get(view):
            msg = f"row {row.revision} has not as many names as features"
            raise ValueError(msg)


def _blob(content: bytes, at: int, size: object) -> tuple[bytes | None, int]:
    """Return the bytes of a row's column, and where the next ones begin."""
    if size is None:
        return None, at
    end = at + integer(size)
    if end > len(content):
        msg = f"a column of {size} bytes is not there"
        raise ValueError(msg)
    return content[at:end], end
