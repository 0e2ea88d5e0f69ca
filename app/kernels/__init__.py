"""Kernels: compiled, stateless passes over arrays.

Contract of this folder: whatever its arrays contain, a kernel reads and writes only
inside them, and their sizes bound its cost.  The tests compare each kernel, bit for
bit, with a few plain lines, and run it with checked indices.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar, cast

import numba
from llvmlite import ir
from numba import extending
from numba.core import caching, config

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

P = ParamSpec("P")
R = TypeVar("R")
_FILES: Final = sorted(Path(__file__).parent.glob("*.py"))
_SOURCES: Final = sha256(b"".join(x.read_bytes() for x in _FILES)).hexdigest()

# No kernel multiplies matrices.  To look for a BLAS, numba would import scipy.linalg,
# which takes as long as loading all kernels.
sys.modules["scipy.linalg.cython_blas"] = None  # type: ignore[assignment]
import_module("numba.np.arraymath")
del sys.modules["scipy.linalg.cython_blas"]

# The same machine code for all processors of an architecture: compiled code in an image
# runs everywhere, and floats have the same bits.  The kernels are bound by memory, and
# would not gain from wider registers.
config.CPU_NAME = "generic"  # type: ignore[attr-defined]
config.CPU_FEATURES = ""  # type: ignore[attr-defined]


class _OfAllSources:
    """Code that is compiled anew when any file of this folder changes.

    By itself, numba looks at the file of a kernel, and not at those of its parts.
    """

    def get_source_stamp(self) -> str:
        return _SOURCES


class CacheBesideSource(_OfAllSources, caching.InTreeCacheLocator):
    """Compiled code in `__pycache__`, which is read even if it is not writable."""

    @classmethod
    def from_function(
        cls, py_func: Callable[..., object], py_file: str
    ) -> CacheBesideSource | None:
        """Return the place of a function's code; None if there can be none."""
        found = cls(py_func, py_file)
        # Numba ignores folders that it cannot write, so an image on a read-only disk
        # would compile everything at each start.
        kept = Path(found.get_cache_path())  # type: ignore[no-untyped-call]
        if any(kept.glob(f"*.{py_func.__name__}-*.nbi")):
            return found
        writable: CacheBesideSource | None = super().from_function(  # type: ignore[no-untyped-call]
            py_func, py_file
        )
        return writable


class CacheInFolder(_OfAllSources, caching.UserProvidedCacheLocator):
    """Compiled code in the folder that `NUMBA_CACHE_DIR` names."""


class CacheOfUser(_OfAllSources, caching.UserWideCacheLocator):
    """Compiled code in the user's folder for caches."""


_LOCATORS: Final = (CacheBesideSource, CacheInFolder, CacheOfUser)
config.CACHE_LOCATOR_CLASSES = ",".join(  # type: ignore[attr-defined]
    f"{__name__}.{locator.__name__}" for locator in _LOCATORS
)


class _Cache(caching.FunctionCache):
    """Code on disk, where there is a folder for it and space, and it can be read."""

    def load_overload(self, *asked: Any) -> Any:
        with suppress(OSError):
            try:
                return super().load_overload(*asked)  # type: ignore[no-untyped-call]
            except (EOFError, UnpicklingError):
                # Cut short by a power cut, since numba does not wait for the disk.
                self.flush()  # type: ignore[no-untyped-call]
        return None

    def save_overload(self, *code: Any) -> None:
        with suppress(OSError):
            super().save_overload(*code)  # type: ignore[no-untyped-call]


def _made(function: Callable[P, R], **options: Any) -> Callable[P, R]:
    # Without fast-math or fused operations: sums follow IEEE 754, in order.
    made: Callable[P, R] = numba.njit(error_model="numpy", **options)(function)
    return made


def _cached(function: Callable[P, R], **options: Any) -> Callable[P, R]:
    made: Any = _made(function, **options)
    # Without a folder, each process compiles the kernels that it calls.  A mail server
    # may run a command under a user without a home.
    with suppress(RuntimeError):
        made._cache = _Cache(function)  # type: ignore[no-untyped-call]  # noqa: SLF001
    return cast("Callable[P, R]", made)


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function at its first call, and cache the code on disk."""
    return _cached(function)


def unlocked(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function that releases the interpreter's lock.

    Like a sort of numpy.  For functions of some microseconds, `compiled` is better: a
    busy thread returns the interpreter's lock only after 5 ms.
    """
    return _cached(function, nogil=True)


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """Inline a function into the kernels that call it."""
    return _made(function)


def in_place(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function that only fills its arguments.

    It neither creates nor returns arrays, so no references are counted.  For a kernel
    that reads bytes, counting the references of arrays that are passed between
    functions takes four fifths of the time: 130 us for 3 kB of text, and 27 without it.
    """
    return _cached(function, _nrt=False)


def part(function: Callable[P, R]) -> Callable[P, R]:
    """Inline a function into the in-place kernels that call it."""
    return _made(function, _nrt=False)


def _instruction(_: Any, address: Any) -> Any:
    """Return the type of the instruction of `prefetch`, and what emits it."""

    def emit(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        declared = builder.module.declare_intrinsic(
            "llvm.prefetch",
            [pointer],
            ir.FunctionType(ir.VoidType(), [pointer, *[number] * 3]),
        )
        # To read, and to keep; of data.
        hints = number(0), number(3), number(1)
        builder.call(declared, [builder.inttoptr(arguments[0], pointer), *hints])
        return context.get_dummy_value()

    return numba.void(address), emit


_prefetch: Any = extending.intrinsic(_instruction)


@part
def prefetch(array: NDArray[Any], row: np.int64) -> None:
    """Let the processor load the beginning of a row, without waiting for it.

    This is a hint: it changes nothing, and cannot fail even if there is no such row.
    """
    _prefetch(array.ctypes.data + row * array.strides[0])
