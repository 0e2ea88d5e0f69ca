"""Which work leaves the event loop, and to which threads does it go?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from anyio import CapacityLimiter, to_thread

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

# Of the SpamAssassin corpus 99.8 % are not larger; those of 40 to 64 KiB take 7 ms
# to parse and extract, 16 at most. Handing 0.6 ms of work to a thread cost
# 0.13 ms more at the median, and under the interpreter's lock no thread leaves
# the event loop freer.
INLINE_BYTES: Final = 64 * 1024

# More feedback than this at once waits for a thread; it would wait for the
# writer anyway, which commits up to 256 together. Threads of its own: in the
# common pool forty that wait for a locked database would leave none for a
# large message.
_LEARNING: Final = CapacityLimiter(64)


async def scoring(use_case: Callable[[], T], size: int) -> T:
    """Score where it stands what is small, and in a thread what is large.

    Parameters
    ----------
    use_case : callable
        What is to be done.
    size : int
        Of the message. Unit: bytes.
    """
    if size <= INLINE_BYTES:
        return use_case()
    # A door that has waited long enough goes on; the thread changes nothing and
    # ends by itself, because the time of a message is bounded.
    return await to_thread.run_sync(use_case, abandon_on_cancel=True)


async def learning(use_case: Callable[[], T]) -> T:
    """Run what waits for the database in a thread of its own kind."""
    return await to_thread.run_sync(use_case, limiter=_LEARNING)
