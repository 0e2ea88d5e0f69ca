"""Header of an export, and the values that its fields may hold.

Contract of this file: whatever JSON holds there, a reader of a value returns the value
as it was written, or raises `ValueError` or `TypeError` with a sentence.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Literal, get_args

from app.classifier.policy import Policy
from app.classifier.specification import check_labels, check_name
from app.errors import (
    InvalidObservation,
    InvalidPolicy,
    InvalidSetting,
    MalformedExport,
)
from app.features.observation import DIGEST_BYTES
from app.ledger.capacity import require_view

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SMALL: Final = 2**31 - 1
"""The largest integer of an INTEGER column on PostgreSQL."""
LARGE: Final = 2**63 - 1
"""That of a BIGINT column, and of SQLite's integers."""
_FIRST: Final = datetime(1970, 1, 1, tzinfo=UTC)
# A day less than there is: people read it in their own time zone.
_LAST: Final = datetime(9999, 12, 31, tzinfo=UTC)
# An undo that comes from elsewhere has some more than a door takes.  PostgreSQL has
# room for 2,704 bytes in its index.
_LONGEST_SOURCE: Final = 255
_FIRST_EPOCH: Final = 197001
_LAST_EPOCH: Final = 999912


def text(value: object) -> str:
    """Return a value that has to be text."""
    if not isinstance(value, str):
        msg = f"{_shown(value)} is not text"
        raise TypeError(msg)
    return value


def text_or_none(value: object) -> str | None:
    """Return a value that has to be text or null."""
    return None if value is None else text(value)


def integer(value: object, *, least: int = 0, most: int = LARGE) -> int:
    """Return a value that has to be an integer from `least` to `most`."""
    if not isinstance(value, int) or isinstance(value, bool):
        msg = f"{_shown(value)} is not a number"
        raise TypeError(msg)
    if not least <= value <= most:
        msg = f"{_shown(value)} is not from {least} to {most}"
        raise ValueError(msg)
    return value


def epoch(value: int) -> int:
    """Return a value that has to be a month from 1970 to 9999, YYYYMM."""
    if not (_FIRST_EPOCH <= value <= _LAST_EPOCH and 1 <= value % 100 <= 12):  # noqa: PLR2004
        msg = f"this export has the epoch {_shown(value)}, which is no month (YYYYMM)"
        raise ValueError(msg)
    return value


def moment(value: object) -> datetime:
    """Return a time that has a zone, and is in the calendar of every zone."""
    found = datetime.fromisoformat(text(value))
    if found.tzinfo is None:
        msg = f"the time {value!r} is without zone"
        raise ValueError(msg)
    # Two moments of different zones are compared without leaving the calendar.
    if not _FIRST <= found <= _LAST:
        msg = f"the time {value!r} is not from {_FIRST.year} to {_LAST.year}"
        raise ValueError(msg)
    return found


def source(value: object) -> str:
    """Return a source as rows and undos may have it, the reserved ones included."""
    found = text(value)
    if not found.isprintable() or len(found) > _LONGEST_SOURCE:
        msg = (
            f"the source {_shown(found)} is not printable, or longer than "
            f"{_LONGEST_SOURCE} characters"
        )
        raise ValueError(msg)
    return found


def digest(value: object) -> bytes:
    """Return the bytes of the hexadecimal digest of a message or a sum."""
    found = bytes.fromhex(text(value))
    if len(found) != DIGEST_BYTES:
        msg = f"a row has no digest of {DIGEST_BYTES} bytes"
        raise ValueError(msg)
    return found


def listed(value: object) -> list[object]:
    """Return a value that has to be a list."""
    if not isinstance(value, list):
        msg = f"{_shown(value)} is no list"
        raise TypeError(msg)
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
        msg = "it was asked for what no undo can be"
        raise ValueError(msg)
    for name, given in value.items():
        if given is not None:
            readers[name](given)
    return value


def _shown(value: object) -> str:
    """Return a value in the form that a sentence can hold."""
    if isinstance(value, list | dict):
        # It may be nested more deeply than repr can follow.
        return f"a {type(value).__name__}"
    if isinstance(value, int) and abs(value) > LARGE:
        return f"a number of {math.log10(abs(value)):.0f} digits"
    return f"{value!r:.80}"


Contents = Literal["counts", "ledger"]
"""Contents of an export: the counts alone, or the ledger that they come from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportHeader:
    """The origin of an export, and its demands on the profile that learns it.

    Parameters
    ----------
    postbayes : str
        Version of Postbayes that wrote it.
    profile : str
        Name of the profile.
    created : datetime
        When that profile was made.
    feature_set : int
        Number of the rules that its features were extracted with.
    labels, spam_labels : tuple of str
        The profile's labels, and those that stand for spam.
    contents : str
        See `Contents`.
    words : bool
        Whether the text of features is there.
    revision : int
        Revision of the newest ledger row that it includes.
    views : mapping of str to mapping of str to int
        For each view, the number of messages of each label.
    policy : Policy or None
        Thresholds of the profile that differ from the service's settings; None in
        exports of older versions, which have none.
    id_key : str or None
        Digest of the key of its feature ids; None where they are not keyed.
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

    @property
    def messages(self) -> dict[str, int]:
        """Messages of each label that were learned, in any view."""
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
        """Return the header in a line of JSON.

        Raises
        ------
        MalformedExport
            If it is not one, or no profile can be like it.
        """
        try:
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
                msg = (
                    f"{header.contents!r} is not one of {', '.join(get_args(Contents))}"
                )
                raise ValueError(msg)  # noqa: TRY301
            check_name(header.profile)
            check_labels(header.labels, header.spam_labels)
            for view in header.views:
                require_view(view)
        except (
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            RecursionError,
            InvalidObservation,
            InvalidPolicy,
            InvalidSetting,
        ) as error:
            msg = f"the header of this export cannot be read: {error}"
            raise MalformedExport(msg) from error
        return header
