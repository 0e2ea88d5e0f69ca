"""Is that error news? What is tried twice a second is logged once."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable


class News:
    """Remembers what went wrong last, for each thing that may go wrong.

    Examples
    --------
    >>> news = News()
    >>> [news.tell("disk", error) for error in ("full", "full", "gone")]
    [True, False, True]
    >>> news.over("disk"), news.over("disk")
    (True, False)
    """

    def __init__(self) -> None:
        self._last: dict[Hashable, str] = {}

    def tell(self, what: Hashable, error: object) -> bool:
        """Return whether an error is another than the last one of that thing."""
        said = str(error)
        known = self._last.get(what) == said
        self._last[what] = said
        return not known

    def over(self, what: Hashable) -> bool:
        """Note that it goes well again, and return whether it did not before."""
        return self._last.pop(what, None) is not None
