"""Id key: a secret that hides the words behind feature ids.

Contract of this file: an id of a view always has the same keyed id, so counts of a
profile with keyed ids equal those of one without.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np

from app.errors import InvalidSetting
from app.kernels import hashing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from app.kernels import Ints

T = TypeVar("T")
KEY_BYTES: Final = 16
"""Size of a key.  Unit: bytes."""
UNKEYED: Final = frozenset({"grams"})
"""Views that a keyed observation does not have.

A run of symbols tells the next one, so a few known texts would reveal the others."""


def keyable(views: Mapping[str, T]) -> dict[str, T]:
    """Return the views that a key can hide."""
    return {view: x for view, x in views.items() if view not in UNKEYED}


@dataclass(frozen=True, slots=True)
class IdKey:
    """A key of feature ids.

    Parameters
    ----------
    secret : bytes
        The key itself, `KEY_BYTES` long.

    Raises
    ------
    InvalidSetting
        If it has another length.

    Notes
    -----
    The keyed id is SipHash-2-4 of the id.

    Examples
    --------
    >>> key = IdKey(bytes(range(16)))
    >>> key
    IdKey(digest='439ccfa476a7fecc')
    >>> key.ids(np.array([7, -3])).tolist()
    [7206592717500094725, -6358590219089893641]
    """

    secret: bytes

    def __post_init__(self) -> None:
        """Check the length."""
        if len(self.secret) != KEY_BYTES:
            raise InvalidSetting(f"a key has {KEY_BYTES} bytes, got {len(self.secret)}")

    def __repr__(self) -> str:
        """Show only the digest."""
        return f"IdKey(digest={self.digest!r})"

    @property
    def digest(self) -> str:
        """An identifier of the key that does not reveal it: 16 hex digits."""
        return blake2b(
            self.secret, digest_size=8, person=b"postbayes-id-key"
        ).hexdigest()

    def ids(self, ids: Ints) -> Ints:
        """Return the keyed ids of some ids, in their order."""
        keyed = np.empty(ids.size, np.uint64)
        hashing.siphash(
            np.ascontiguousarray(ids).view(np.uint64),
            np.frombuffer(self.secret, "<u8"),
            keyed,
        )
        return keyed.view(np.int64)

    def names(self, names: Mapping[int, str]) -> dict[int, str]:
        """Return the text of features by their keyed ids."""
        ids = self.ids(np.fromiter(names, np.int64, len(names)))
        return dict(zip(ids.tolist(), names.values(), strict=True))

    def ordered(self, ids: Ints) -> tuple[Ints, NDArray[np.intp]]:
        """Return the keyed ids in increasing order, and the place of each.

        Notes
        -----
        Among a million ids, two have the same keyed id with a probability of 3e-8.
        They are then one feature with the counts of the first.
        """
        return np.unique(self.ids(ids), return_index=True)
