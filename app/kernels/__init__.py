"""Kernels: compiled passes over arrays, which hold no state of their own.

Contract of this folder: a kernel reads and writes inside the arrays that it is given,
whatever they hold, and its cost is bounded by their sizes.  The tests run each beside
a few plain lines that it has to equal bit for bit, and with indices checked.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

import numba
from numba.core import caching, config

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
R = TypeVar("R")

# No kernel multiplies matrices, and to look for a BLAS numba would import scipy.linalg,
# which takes as long as all kernels take to load.
sys.modules["scipy.linalg.cython_blas"] = None  # type: ignore[assignment]
import_module("numba.np.arraymath")
del sys.modules["scipy.linalg.cython_blas"]

# One machine code for all processors of an architecture: the code that an image brings
# fits wherever it runs, and floats have the same bits everywhere.  The kernels wait for
# memory, and gain nothing from wider registers.
config.CPU_NAME = "generic"  # type: ignore[attr-defined]
config.CPU_FEATURES = ""  # type: ignore[attr-defined]


class CacheBesideSource(caching.InTreeCacheLocator):
    """Compiled code in `__pycache__`, read also where nothing can be written there."""

    @classmethod
    def from_function(
        cls, py_func: Callable[..., object], py_file: str
    ) -> CacheBesideSource | None:
        """Return where the code of a function is, None where it was never compiled."""
        found = cls(py_func, py_file)
        # Numba passes over a folder that it cannot write into, and an image on a
        # read-only disk would compile everything at each start.
        kept = Path(found.get_cache_path())  # type: ignore[no-untyped-call]
        return found if any(kept.glob(f"*.{py_func.__name__}-*.nbi")) else None


_LOCATORS: Final = (
    "InTreeCacheLocator",
    f"{__name__}.{CacheBesideSource.__name__}",
    "UserProvidedCacheLocator",
    "UserWideCacheLocator",
)
config.CACHE_LOCATOR_CLASSES = ",".join(_LOCATORS)  # type: ignore[attr-defined]


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function compiled at its first call, and kept on disk for the next."""
    # Neither fast-math nor fused operations: sums are those of IEEE 754 in their order.
    made: Callable[P, R] = numba.njit(cache=True, error_model="numpy")(function)
    return made


def unlocked(function: Callable[P, R]) -> Callable[P, R]:
    """Return a compiled function that lets other threads run meanwhile.

    As a sort of numpy does.  For what takes microseconds, `compiled` is better: a busy
    thread gives the interpreter's lock back after 5 ms.
    """
    made: Callable[P, R] = numba.njit(cache=True, nogil=True, error_model="numpy")(
        function
    )
    return made


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function that kernels call, compiled into each of them."""
    made: Callable[P, R] = numba.njit(error_model="numpy")(function)
    return made


_UNCOUNTED: Final[dict[str, Any]] = {"error_model": "numpy", "_nrt": False}


def in_place(function: Callable[P, R]) -> Callable[P, R]:
    """Return a compiled function that only fills the arrays that it is given.

    It makes no array and returns none, so that none is counted: the references of
    those that go from one function to another are four fifths of the time of a kernel
    that reads bytes (27 us against 130 for 3 kB of text).
    """
    made: Callable[P, R] = numba.njit(cache=True, **_UNCOUNTED)(function)
    return made


def part(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function that kernels in place call, compiled into each of them.

    Code on disk is made anew when the file of the kernel changes, not when only that
    of a part does.
    """
    made: Callable[P, R] = numba.njit(**_UNCOUNTED)(function)
    return made
