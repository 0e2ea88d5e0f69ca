"""Format of an export: its header, and the content of its blocks.

Contract of this file: each kind of block has a writer and a reader.  For any bytes, a
reader of a block returns its content or raises `MalformedExport`.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self

import numpy as np
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    FailFast,
    Field,
    PlainValidator,
    TypeAdapter,
    ValidationError,
    with_config,
)

from app import __version__
from app.classifier.policy import Policy
from app.classifier.specification import check_labels, check_name
from app.classifier.verdict import Decision
from app.errors import Inconsistent, InvalidInput, MalformedExport
from app.features.observation import DIGEST_BYTES
from app.ledger.entry import LedgerRow, RowKind
from app.ledger.sums import decode_sum, encode_sum, require_view
from app.ledger.undo import UndoRow

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from app.bayes.state import State
    from app.ledger.sums import Amounts
    from app.storage.profiles import ProfileRow

SMALL: Final = 2**31 - 1
"""The largest integer of an INTEGER column on PostgreSQL."""
LARGE: Final = 2**63 - 1
"""The largest integer of a BIGINT column, and of SQLite."""
_FIRST: Final = datetime(1970, 1, 1, tzinfo=UTC)
# A day before the end of the calendar, since people read times in their own zone.
_LAST: Final = datetime(9999, 12, 31, tzinfo=UTC)
# Longer than the doors accept, for undos of imported ledgers.  PostgreSQL's index has
# room for 2,704 bytes.
_LONGEST_SOURCE: Final = 255
MOST_NATS: Final = 1e30
"""Largest magnitude of a score.

Earlier versions recorded the result of a Gaussian too, which goes up to 1e28; the
fusion does not use such a value.
"""
MOST_NAMES: Final = 64
"""Most views, terms or labels of a score, as for the labels of a profile."""
# As `str.isprintable`, in a third of the time.
_PRINTABLE: Final = r"^(?: |[^\p{C}\p{Z}])*$"
_FIRST_EPOCH: Final = 197001
_LAST_EPOCH: Final = 999912


def _epoch(value: int) -> int:
    """Return a value that must be a month from 1970 to 9999, YYYYMM."""
    if not (_FIRST_EPOCH <= value <= _LAST_EPOCH and 1 <= value % 100 <= 12):  # noqa: PLR2004
        raise ValueError(f"the epoch {value} is not a month (YYYYMM)")
    return value


def _moment(value: object) -> datetime:
    """Return a time that must have a zone, and be within the calendar in every zone."""
    found = datetime.fromisoformat(str(value))
    # Two moments of different zones are compared without leaving the calendar.
    if found.tzinfo is None or not _FIRST <= found <= _LAST:
        raise ValueError("a time has no zone, or is not from 1970 to 9999")
    return found


def _written(text: str) -> str:
    """Return a time as it was written."""
    _moment(text)
    return text


def _few(value: object) -> object:
    """Return an object that must have few names."""
    if isinstance(value, dict) and len(value) > MOST_NAMES:
        raise ValueError(f"{len(value)} names; {MOST_NAMES} are allowed")
    return value


Whole = Annotated[int, Field(ge=0, le=LARGE)]
Small = Annotated[int, Field(ge=0, le=SMALL)]
Source = Annotated[str, Field(max_length=_LONGEST_SOURCE, pattern=_PRINTABLE)]
Name = Annotated[str, Field(max_length=64, pattern=_PRINTABLE)]
# Those of a record that were not finite are None.
Nats = Annotated[float, Field(ge=-MOST_NATS, le=MOST_NATS, allow_inf_nan=False)] | None
Row = Annotated[list[Nats], Field(max_length=MOST_NAMES)]
Few = BeforeValidator(_few)
Decided = Decision | None
Views = Mapping[str, Mapping[str, Whole]]
Moment = Annotated[datetime, BeforeValidator(_moment)]
Written = Annotated[str, AfterValidator(_written)]
Digest = Annotated[str, Field(pattern=f"^[0-9a-f]{{{2 * DIGEST_BYTES}}}$")]
_STRICT: Final = ConfigDict(strict=True)
_KNOWN: Final = ConfigDict(strict=True, extra="forbid")


class _Asked(BaseModel):
    """The request of an undo (`app.ledger.undo.Selection`), as it was written."""

    model_config = _STRICT

    ids: Annotated[list[Digest], FailFast()] = []
    source: Source | None = None
    since: Written | None = None
    until: Written | None = None


class _Undo(BaseModel):
    """An undo, as it was written."""

    model_config = _STRICT

    number: Small
    source: Source
    time: Moment
    asked: _Asked
    takes: Annotated[tuple[Whole, ...], FailFast()]
    revisions: Annotated[tuple[Whole, ...], FailFast()]


class _ViewScore(BaseModel):
    """The score of a view, in old records."""

    model_config = _KNOWN

    log_odds: Nats
    features: Small


class ScoreRecord(BaseModel):
    """A record of `app.classifier.record`; older versions did not write all fields."""

    model_config = _KNOWN

    decision: Decided = None
    log_odds: Nats = None
    prior: Row = []
    terms: Annotated[dict[Name, Row], Few] = {}
    views: Annotated[dict[Name, _ViewScore], Few] = {}
    arrived: Small = 0


def _scores(document: object) -> object:
    """Return the record of a score as it was written."""
    if document is not None:
        ScoreRecord.model_validate(document)
    return document


class _Row(BaseModel):
    """A row of the ledger as it was written, with the sizes of its bytes."""

    model_config = _STRICT

    revision: Whole
    digest: Digest
    label_before: str | None
    label: str | None
    epoch: Annotated[int, AfterValidator(_epoch)]
    vector: Whole | None
    names: Whole | None
    feature_set: Small
    source: Source
    time: Moment
    scores: Annotated[Any, AfterValidator(_scores)]
    kind: RowKind
    # The first exports had no undos.
    undo: Small | None = None


Contents = Literal["counts", "ledger"]
"""Contents of an export: only counts, or the ledger from which they come."""


@with_config(_STRICT)
@dataclass(frozen=True, slots=True, kw_only=True)
class ExportHeader:
    """The origin of an export, and its requirements on the profile that imports it.

    Parameters
    ----------
    postbayes : str
        Version of Postbayes that wrote it.
    feature_set : int
        Number of the rules by which its features were extracted.
    labels, spam_labels : tuple of str
        The profile's labels, and the spam labels among them.
    contents : str
        See `Contents`.
    words : bool
        Whether it contains the text of features.
    revision : int
        Revision of the newest included ledger row.
    views : mapping of str to mapping of str to int
        For each view, the number of messages of each label.
    policy : Policy or None
        Thresholds of the profile that differ from the service's settings; None in
        exports of older versions.
    id_key : str or None
        Digest of the key of its feature ids; None if not keyed.
    """

    postbayes: str
    profile: str
    created: Moment
    feature_set: Small
    labels: tuple[str, ...]
    spam_labels: tuple[str, ...]
    contents: Contents
    words: bool
    revision: Whole
    views: Views
    policy: Annotated[Policy | None, PlainValidator(Policy.read)] = None
    id_key: str | None = None

    @classmethod
    def of(cls, profile: ProfileRow, **given: Any) -> Self:
        """Return the header for an export of a profile, with its further fields."""
        return cls(
            postbayes=__version__,
            profile=profile.name,
            created=profile.created_at,
            feature_set=profile.feature_set,
            labels=profile.labels,
            spam_labels=profile.spam_labels,
            id_key=profile.id_key,
            **given,
        )

    @property
    def messages(self) -> dict[str, int]:
        """Learned messages of each label, in any view."""
        return {
            label: max((n.get(label, 0) for n in self.views.values()), default=0)
            for label in self.labels
        }

    def encode(self) -> bytes:
        """Return the header as one line of JSON."""
        policy = None if self.policy is None else self.policy.document()
        values = asdict(self) | {"created": self.created.isoformat(), "policy": policy}
        given = {name: each for name, each in values.items() if each is not None}
        return json.dumps(given, sort_keys=True).encode()

    @classmethod
    def decode(cls, line: bytes) -> ExportHeader:
        """Parse the header from a line of JSON.

        Raises
        ------
        MalformedExport
            If it is not a header, or describes an impossible profile.
        """
        with _reading("the header of this export"):
            header = _HEADER.validate_json(line)
            check_name(header.profile)
            check_labels(header.labels, header.spam_labels)
            for view in header.views:
                require_view(view)
        return header


_HEADER: Final = TypeAdapter(ExportHeader)
SUM: Final = b"S"
"""Kind of a block with statistics of one epoch."""
LEDGER: Final = b"L"
"""Kind of a block with rows of the ledger."""
NAMES: Final = b"N"
"""Kind of a block with the text of features."""
UNDOS: Final = b"U"
"""Kind of a block with an undo of a ledger."""
# The first value that is wrong ends the check: each would be an error in memory.
_TEXTS: Final = TypeAdapter(Annotated[list[str], FailFast()], config=_STRICT)
_ROWS: Final = TypeAdapter(Annotated[list[_Row], FailFast()])
# Of a block of rows or names; those of Postbayes have some 5 MB at most.  ``[],``
# takes 28 times its size in memory: a file of 65 kB, unpacked to 64 MiB, took 1.8 GB.
_LARGEST_JSON: Final = 16 * 1024 * 1024
# Brackets of an undo; its two sources, of 255 characters each, may be of brackets.
_MOST_LISTS: Final = 1_000
_EPOCH: Final = struct.Struct("<i")
_LENGTH: Final = struct.Struct("<I")
_NUMBER: Final = np.dtype("<i8")


def write_sum(month: int, state: State, labels: Sequence[str]) -> bytes:
    """Return the content of a block of statistics."""
    return _EPOCH.pack(month) + encode_sum(state, labels)


def read_sum(content: bytes, labels: Sequence[str]) -> tuple[int, State]:
    """Return the epoch and the statistics of a block.

    Raises
    ------
    MalformedExport
        If the block cannot be read.
    """
    with _reading("statistics in this export"):
        month = _epoch(*_EPOCH.unpack_from(content))
        return month, decode_sum(content[_EPOCH.size :], labels)


def write_names(view: str, names: Mapping[int, str]) -> bytes:
    """Return the content of a block with the text of features of one view."""
    texts = json.dumps([view, *names.values()], ensure_ascii=False).encode()
    ids = np.fromiter(names, _NUMBER, len(names))
    return _LENGTH.pack(len(names)) + ids.tobytes() + texts


def read_names(content: bytes) -> tuple[str, dict[int, str]]:
    """Return the view of a block of names, and the text by feature.

    Raises
    ------
    MalformedExport
        If the block cannot be read.
    """
    with _reading("names in this export"):
        (n,) = _LENGTH.unpack_from(content)
        ids = np.frombuffer(content, _NUMBER, n, _LENGTH.size)
        view, *texts = _TEXTS.validate_json(_json(content[_LENGTH.size + ids.nbytes :]))
        return view, dict(zip(ids.tolist(), texts, strict=True))


def write_rows(rows: Sequence[LedgerRow], *, words: bool) -> bytes:
    """Return the content of a block of rows."""
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
    """Return the rows of a block, each checked to be summable.

    Parameters
    ----------
    amounts : Amounts
        Amounts of the rows before; those of these rows are added.

    Raises
    ------
    MalformedExport
        If the block or a row of it cannot be read.
    """
    rows = surveyed_rows(content)
    with _reading("ledger rows in this export"):
        for row in rows:
            _require_readable(row, labels, amounts)
    return rows


def surveyed_rows(content: bytes) -> list[LedgerRow]:
    """Return the rows of a block that `read_rows` has checked before.

    Their vectors are not decoded again, which is most of the work.

    Raises
    ------
    MalformedExport
        If it has no rows.
    """
    with _reading("ledger rows in this export"):
        (length,) = _LENGTH.unpack_from(content)
        at = _LENGTH.size + length
        rows = []
        for row in _ROWS.validate_json(_json(content[_LENGTH.size : at])):
            values = {**vars(row)}
            vector, at = _blob(content, at, values.pop("vector"))
            names, at = _blob(content, at, values.pop("names"))
            values["digest"] = bytes.fromhex(row.digest)
            rows.append(LedgerRow(vector=vector, encoded_names=names, **values))
        if at != len(content):
            raise ValueError(f"{len(content) - at} bytes belong to no row")
    return rows


def write_undo(record: UndoRow) -> bytes:
    """Return the content of a block with an undo."""
    values = asdict(record) | {"time": record.time.isoformat()}
    return json.dumps(values, separators=(",", ":"), ensure_ascii=False).encode()


def read_undo(content: bytes) -> UndoRow:
    """Return the undo of a block.

    Raises
    ------
    MalformedExport
        If the block cannot be read.
    """
    with _reading("an undo in this export"):
        # Not by its size, since an undo of eight million rows has 64 MiB.
        if sum(map(content.count, (b"[", b"{"))) > _MOST_LISTS:
            raise ValueError(f"more than {_MOST_LISTS} lists; it needs five")
        found = _Undo.model_validate_json(content)
        asked = found.asked.model_dump(exclude_unset=True)
        return UndoRow(**dict(found) | {"asked": asked})


# Characters; some reasons quote a value as it is, and a block may be one value.
_LONGEST_REASON: Final = 500


@contextmanager
def _reading(what: str) -> Iterator[None]:
    """Convert all errors that bytes of an export can cause to `MalformedExport`."""
    try:
        yield
    except (struct.error, ValueError, InvalidInput, Inconsistent) as error:
        why = str(error)
        if isinstance(error, ValidationError):
            first = error.errors(include_url=False, include_input=False)[0]
            at = ".".join(map(str, first["loc"]))
            why = f"{at}: {first['msg'].removeprefix('Value error, ')}"
        msg = f"{what} cannot be read: {why[:_LONGEST_REASON]}"
        raise MalformedExport(msg) from error


def _require_readable(row: LedgerRow, labels: Sequence[str], amounts: Amounts) -> None:
    """Raise if a row cannot be summed; otherwise add its amounts to `amounts`."""
    strange = {row.label_before, row.label} - {None, *labels}
    if strange:
        raise ValueError(f"row {row.revision} has the label {strange.pop()!r}")
    of_sum = row.kind == "sum"
    if of_sum and (row.label_before, row.label, row.scores) != (None, None, None):
        raise ValueError(
            f"row {row.revision} is a sum, but has the label of a single message"
        )
    if row.vector is None:
        if row.encoded_names is not None:
            raise ValueError(f"row {row.revision} has names, but no features")
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
            raise ValueError(
                f"row {row.revision} does not have as many names as features"
            )


def _json(texts: bytes) -> bytes:
    """Return the JSON of a block, within its limit."""
    if len(texts) > _LARGEST_JSON:
        raise ValueError(f"{len(texts)} bytes of JSON; {_LARGEST_JSON} are allowed")
    return texts


def _blob(content: bytes, at: int, size: int | None) -> tuple[bytes | None, int]:
    """Return the bytes of a row's column, and the start of the next one."""
    if size is None:
        return None, at
    end = at + size
    if end > len(content):
        raise ValueError(f"a column of {size} bytes is not there")
    return content[at:end], end
