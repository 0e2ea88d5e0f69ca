"""Compiler: makes machine code of kernels, and keeps it on disk."""

from __future__ import annotations

import sys
from contextlib import contextmanager, suppress
from hashlib import sha256
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numba
from llvmlite import ir
from numba import extending
from numba.core import caching, config

import app.kernels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
        kept = Path(found.get_cache_path())
        if any(kept.glob(f"*.{py_func.__name__}-*.nbi")):
            return found
        writable: CacheBesideSource | None = super().from_function(py_func, py_file)
        return writable


class CacheInFolder(_OfAllSources, caching.UserProvidedCacheLocator):
    """Compiled code in the folder that `NUMBA_CACHE_DIR` names."""


class CacheOfUser(_OfAllSources, caching.UserWideCacheLocator):
    """Compiled code in the user's folder for caches."""


_LOCATORS: Final = (CacheBesideSource, CacheInFolder, CacheOfUser)
config.CACHE_LOCATOR_CLASSES = ",".join(  # type: ignore[attr-defined]
    f"{__name__}.{locator.__name__}" for locator in _LOCATORS
)


class _CheckedFiles(caching.IndexDataCacheFile):
    """An index and code, each with its digest at the end, which a pickle ignores.

    Code with a changed byte would kill the process (SIGSEGV), at each start again.  The
    digests of all kernels, 2.3 MB, take 3 ms of a start.
    """

    @contextmanager
    def _open_for_write(self, filepath: str) -> Iterator[BytesIO]:
        written = BytesIO()
        yield written
        content = written.getvalue()
        with super()._open_for_write(filepath) as file:
            file.write(content + sha256(content).digest())

    def _load_index(self) -> Any:
        return super()._load_index() if _is_intact(self._index_path) else {}

    def _load_data(self, name: str) -> Any:
        # Without data, numba compiles the function, and writes its file anew.
        return super()._load_data(name) if _is_intact(self._data_path(name)) else None


def _is_intact(path: str) -> bool:
    """Return whether a file exists and ends with the digest of its content."""
    try:
        found = Path(path).read_bytes()
    except FileNotFoundError:
        return False
    size = sha256().digest_size
    return found[-size:] == sha256(found[:-size]).digest()


class _Cache(caching.FunctionCache):
    """Code on disk, where there is a folder for it and space, and it can be read."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        stamp = self._impl.locator.get_source_stamp()
        name = self._impl.filename_base
        self._cache_file = _CheckedFiles(self._cache_path, name, stamp)

    def load_overload(self, *asked: Any) -> Any:
        with suppress(OSError):
            return super().load_overload(*asked)
        return None

    def save_overload(self, *code: Any) -> None:
        with suppress(OSError):
            super().save_overload(*code)


def made(function: Callable[..., Any], *, cached: bool, **options: Any) -> Any:
    """Return a function that numba compiles at its first call."""
    # Without fast-math or fused operations: sums follow IEEE 754, in order.
    dispatcher: Any = numba.njit(error_model="numpy", **options)(function)
    if cached:
        # Without a folder, each process compiles the kernels that it calls.  A mail
        # server may run a command under a user without a home.
        with suppress(RuntimeError):
            dispatcher._cache = _Cache(function)  # noqa: SLF001
    return dispatcher


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


app.kernels.prefetch_instruction = extending.intrinsic(_instruction)
