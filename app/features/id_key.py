"""Id key: the secret without which ids of features do not lead back to words.

Contract of this file: the same id of the same view has the same keyed id, wherever it
comes from, so a profile whose ids are keyed counts as one whose ids are not.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

import numpy as np

from app.bayes.models.categorical import VALUE_BITS
from app.errors import InvalidSetting
from app.kernels.siphash import siphash

if TYPE_CHECKING:
    from numpy.typing import NDArray

KEY_BYTES: Final = 16
"""Size of a key.  Unit: bytes."""
# Bits of an id that the statistics of a view read, and that stay: the field of a value.
_FIELD: Final = {"structure": np.int64(-1) << np.int64(VALUE_BITS)}


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
        If it is of another length.

    Notes
    -----
    The keyed id is SipHash-2-4 of the id.  Measurements have no ids of words: theirs
    are the numbers of fields, and stay.

    Examples
    --------
    >>> key = IdKey(bytes(range(16)))
    >>> key
    IdKey(digest='439ccfa476a7fecc')
    >>> key.ids("words", np.array([7, -3])).tolist()
    [7206592717500094725, -6358590219089893641]
    """

    secret: bytes

    def __post_init__(self) -> None:
        """Refuse an invalid key."""
        if len(self.secret) != KEY_BYTES:
            raise InvalidSetting(f"a key has {KEY_BYTES} bytes, got {len(self.secret)}")

    def __repr__(self) -> str:
        """Name the key without showing it."""
        return f"IdKey(digest={self.digest!r})"

    @property
    def digest(self) -> str:
        """An identifier of the key that does not reveal it: 16 hex digits."""
        return blake2b(
            self.secret, digest_size=8, person=b"postbayes-id-key"
        ).hexdigest()

    def ids(self, view: str, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the keyed ids of some ids of a view, in their order."""
        keyed = np.empty(ids.size, np.uint64)
        siphash(
            np.ascontiguousarray(ids).view(np.uint64),
            np.frombuffer(self.secret, "<u8"),
            keyed,
        )
        found = keyed.view(np.int64)
        kept = _FIELD.get(view)
        return found if kept is None else (ids & kept) | (found & ~kept)

    def ordered(
        self, view: str, ids: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
        """Return the keyed ids of a view in increasing order, and the place of each.

        Notes
        -----
        Two ids of a million have the same keyed id with a chance of 3e-8.  They are one
        feature then, with the counts of the first.
        """
        return np.unique(self.ids(view, ids), return_index=True)
