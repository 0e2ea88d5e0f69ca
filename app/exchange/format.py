"""Format of an export: its header, and the content of its blocks.

Contract of this file: for any JSON value, a reader of a value returns it as it was
written, or raises `ValueError` or `TypeError` with a sentence.

Each kind of block has a writer and a reader.  For any bytes, a reader of a block
returns its content or raises `MalformedExport`.
"""

from __future__ import annotations

import json
import math
import struct
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal, Self, get_args

import numpy as np

from app import __version__
from app.classifier.policy import Policy
from app.classifier.record import require_record
from app.classifier.specification import check_labels, check_name
from app.errors import (
    CorruptVector,
    InconsistentCounts,
    InvalidObservation,
    InvalidPolicy,
    InvalidSetting,
    MalformedExport,
)
from app.features.observation import DIGEST_BYTES
from app.ledger.entry import LedgerRow, RowKind
from app.ledger.sums import decode_sum, encode_sum, require_view
from app.ledger.undo import UndoRow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

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
_FIRST_EPOCH: Final = 197001
_LAST_EPOCH: Final = 999912


def text(value: object) -> str:
    """Return a value that must be text."""
    if not isinstance(value, str):
        raise TypeError(f"{_shown(value)} is not text")
    return value


def text_or_none(value: object) -> str | None:
    """Return a value that must be text or null."""
    return None if value is None else text(value)


def integer(value: object, *, most: int = LARGE) -> int:
    """Return a value that must be an integer from 0 to `most`."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{_shown(value)} is not a number")
    if not 0 <= value <= most:
        raise ValueError(f"{_shown(value)} is not from 0 to {most}")
    return value


def epoch(value: int) -> int:
    """Return a value that must be a month from 1970 to 9999, YYYYMM."""
    if not (_FIRST_EPOCH <= value <= _LAST_EPOCH and 1 <= value % 100 <= 12):  # noqa: PLR2004
        raise ValueError(
            f"this export has the epoch {_shown(value)}, which is not a month (YYYYMM)"
        )
    return value


def moment(value: object) -> datetime:
    """Return a time that must have a zone, and be within the calendar in every zone."""
    found = datetime.fromisoformat(text(value))
    if found.tzinfo is None:
        raise ValueError(f"the time {value!r} has no time zone")
    # Two moments of different zones are compared without leaving the calendar.
    if not _FIRST <= found <= _LAST:
        msg = f"the time {value!r} is not from {_FIRST.year} to {_LAST.year}"
        raise ValueError(msg)
    return found


def source(value: object) -> str:
    """Return a source of rows or undos, including reserved ones."""
    found = text(value)
    if not found.isprintable() or len(found) > _LONGEST_SOURCE:
        raise ValueError(
            f"the source {_shown(found)} is not printable, or longer than "
            f"{_LONGEST_SOURCE} characters"
        )
    return found


def digest(value: object) -> bytes:
    """Return the bytes of the hexadecimal digest of a message or a sum."""
    found = bytes.fromhex(text(value))
    if len(found) != DIGEST_BYTES:
        raise ValueError(f"a row has no digest of {DIGEST_BYTES} bytes")
    return found


def listed(value: object) -> list[object]:
    """Return a value that must be a list."""
    if not isinstance(value, list):
        raise TypeError(f"{_shown(value)} is not a list")
    return value


def asked(value: object) -> dict[str, object]:
    """Return the request of an undo (`app.ledger.undo.Selection`)."""
    readers: dict[str, Callable[[object], object]] = {
        "ids": lambda ids: list(map(digest, listed(ids))),
        "source": source,
        "since": moment,
        "until": moment,
    }
    if not isinstance(value, dict) or value.keys() - readers.keys():
        raise ValueError("the selection of an undo has unknown fields")
    for name, given in value.items():
        if given is not None:
            readers[name](given)
    return value


def _shown(value: object) -> str:
    """Return a value in a form suitable for a sentence."""
    if isinstance(value, list | dict):
        # It may be too deeply nested for repr.
        return f"a {type(value).__name__}"
    if isinstance(value, int) and abs(value) > LARGE:
        return f"a number of {math.log10(abs(value)):.0f} digits"
    return f"{value!r:.80}"


Contents = Literal["counts", "ledger"]
"""Contents of an export: only counts, or the ledger from which they come."""


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
    created: datetime
    feature_set: int
    labels: tuple[str, ...]
    spam_labels: tuple[str, ...]
    contents: Contents
    words: bool
    revision: int
    views: Mapping[str, Mapping[str, int]]
    policy: Policy | None = None
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
        values = asdict(self) | {"created": self.created.isoformat()}
        del values["policy"]
        if self.policy is not None:
            values["policy"] = self.policy.document()
        if self.id_key is None:
            del values["id_key"]
        return json.dumps(values, sort_keys=True).encode()

    @classmethod
    def decode(cls, line: bytes) -> ExportHeader:
        """Parse the header from a line of JSON.

        Raises
        ------
        MalformedExport
            If it is not a header, or describes an impossible profile.
        """
        with _reading("the header of this export"):
            values = json.loads(line)
            header = cls(
                postbayes=text(values["postbayes"]),
                profile=text(values["profile"]),
                created=moment(values["created"]),
                feature_set=integer(values["feature_set"], most=SMALL),
                labels=tuple(map(text, values["labels"])),
                spam_labels=tuple(map(text, values["spam_labels"])),
                contents=values["contents"],
                words=bool(values["words"]),
                revision=integer(values["revision"]),
                views={
                    text(view): {text(name): integer(n) for name, n in counts.items()}
                    for view, counts in values["views"].items()
                },
                policy=Policy.read(values["policy"]) if "policy" in values else None,
                id_key=text_or_none(values.get("id_key")),
            )
            if header.contents not in get_args(Contents):
                raise ValueError(
                    f"{header.contents!r} is not one of {', '.join(get_args(Contents))}"
                )
            check_name(header.profile)
            check_labels(header.labels, header.spam_labels)
            for view in header.views:
                require_view(view)
        return header


SUM: Final = b"S"
"""Kind of a block with statistics of one epoch."""
LEDGER: Final = b"L"
"""Kind of a block with rows of the ledger."""
NAMES: Final = b"N"
"""Kind of a block with the text of features."""
UNDOS: Final = b"U"
"""Kind of a block with an undo of a ledger."""
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
        month = epoch(*_EPOCH.unpack_from(content))
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
        view, *texts = map(text, _of_block(content[_LENGTH.size + ids.nbytes :]))
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
        for values in _of_block(content[_LENGTH.size : at]):
            vector, at = _blob(content, at, values["vector"])
            names, at = _blob(content, at, values["names"])
            rows.append(_row(values, vector, names))
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
        values = json.loads(content)
        return UndoRow(
            number=integer(values["number"], most=SMALL),
            source=source(values["source"]),
            time=moment(values["time"]),
            asked=asked(values["asked"]),
            takes=tuple(map(integer, listed(values["takes"]))),
            revisions=tuple(map(integer, listed(values["revisions"]))),
        )


# Characters; some reasons quote a value as it is, and a block may be one value.
_LONGEST_REASON: Final = 500


@contextmanager
def _reading(what: str) -> Iterator[None]:
    """Convert all errors that bytes of an export can cause to `MalformedExport`."""
    try:
        yield
    except (
        struct.error,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        RecursionError,
        CorruptVector,
        InconsistentCounts,
        InvalidObservation,
        InvalidPolicy,
        InvalidSetting,
    ) as error:
        msg = f"{what} cannot be read: {str(error)[:_LONGEST_REASON]}"
        raise MalformedExport(msg) from error


def _row(
    values: dict[str, Any], vector: bytes | None, names: bytes | None
) -> LedgerRow:
    """Return a row as it was written."""
    if values["kind"] not in get_args(RowKind):
        raise ValueError(f"a row is of the unknown kind {values['kind']!r}")
    if values["scores"] is not None:
        require_record(values["scores"])
    # The first exports had no undos.
    undo = values.get("undo")
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
        undo=None if undo is None else integer(undo, most=SMALL),
    )


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


def _of_block(texts: bytes) -> Any:
    """Return the JSON of a block, within its limit."""
    if len(texts) > _LARGEST_JSON:
        raise ValueError(f"{len(texts)} bytes of JSON; {_LARGEST_JSON} are allowed")
    return json.loads(texts)


def _blob(content: bytes, at: int, size: object) -> tuple[bytes | None, int]:
    """Return the bytes of a row's column, and the start of the next one."""
    if size is None:
        return None, at
    end = at + integer(size)
    if end > len(content):
        raise ValueError(f"a column of {size} bytes is not there")
    return content[at:end], end
