"""What does the second line of an export say?"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal, get_args

from app.classifier.policy import Policy
from app.classifier.specification import check_labels, check_name
from app.errors import (
    InvalidObservation,
    InvalidPolicy,
    InvalidSetting,
    MalformedExport,
)
from app.portable.fields import SMALL, integer, moment, text
from app.storage.room import require_view

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

Contents = Literal["counts", "ledger"]
"""What an export holds: the counts alone, or the ledger that they come from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What an export is of, and what it needs of the profile it goes to.

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
        Of the newest ledger row that it knows of.
    views : mapping of str to mapping of str to int
        For each view, how many messages of each label were learned.
    policy : Policy or None
        What the profile decides by otherwise than the service's settings; None in
        exports of older versions, which do not say.
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

    @property
    def messages(self) -> dict[str, int]:
        """How many messages of each label were learned, in any view."""
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
        return json.dumps(values, sort_keys=True).encode()

    @classmethod
    def decode(cls, line: bytes) -> Header:
        """Return the header in a line of JSON.

        Raises
        ------
        MalformedExport
            If it is not one, or says what no profile can be.
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
                contents=_contents(values["contents"]),
                words=bool(values["words"]),
                revision=integer(values["revision"]),
                views={
                    text(view): {text(name): integer(n) for name, n in counts.items()}
                    for view, counts in values["views"].items()
                },
                policy=Policy.read(values["policy"]) if "policy" in values else None,
            )
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


def _contents(value: object) -> Contents:
    for contents in get_args(Contents):
        if value == contents:
            return contents  # type: ignore[no-any-return]
    msg = f"{value!r} is not one of {', '.join(get_args(Contents))}"
    raise ValueError(msg)
