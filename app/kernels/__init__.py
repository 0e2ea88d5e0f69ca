"""Kernels: compiled, stateless passes over arrays.

Contract of this folder: whatever its arrays contain, a kernel reads and writes only
inside them, and their sizes bound its cost.  The tests compare each kernel, bit for
bit, with a few plain lines, and run it with checked indices.
"""

from __future__ import annotations

import sys
from functools import cached_property, update_wrapper
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, TypeVar

from app.errors import InvalidSetting

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Bools = NDArray[np.bool_]
    Bytes = NDArray[np.uint8]

COMPILER: Final = "app.kernels.compiler"
"""The module that imports numba."""
P = ParamSpec("P")
R = TypeVar("R")


def load_compiler() -> Any:
    """Return the module that compiles kernels.

    Raises
    ------
    InvalidSetting
        If the process may not execute memory that it has written.
    """
    try:
        return import_module(COMPILER)
    except PermissionError as error:
        raise InvalidSetting(
            "this process may not execute memory that it has written, which compiled "
            "code needs; under systemd, set MemoryDenyWriteExecute=no in its unit"
        ) from error


class Kernel(Generic[P, R]):
    """A function that is compiled at its first call.

    Until then, numba is not imported: that would take two fifths of the CPU time of a
    command that only asks the service, and fails in a process that may not execute
    memory that it has written, such as those of Postfix in Debian 13.

    Parameters
    ----------
    function : callable
        The function.
    cached : bool
        Whether its code is kept on disk; otherwise it is inlined into other kernels.
    options
        Options of numba.
    """

    def __init__(
        self, function: Callable[P, R], *, cached: bool = True, **options: bool
    ) -> None:
        update_wrapper(self, function)
        self.py_func = function
        self._cached = cached
        self._options = options

    @cached_property
    def dispatcher(self) -> Any:
        """What numba has made of the function."""
        compiler, function = load_compiler(), self.py_func
        made = compiler.made(function, cached=self._cached, **self._options)
        # From now on, calls by the name in the module, as those of a verdict, go to it
        # directly: by way of this object, a verdict takes 4 % longer.
        names = vars(sys.modules[function.__module__])
        if names.get(function.__name__) is self:
            names[function.__name__] = made
        return made

    def __call__(self, *arguments: P.args, **named: P.kwargs) -> R:
        """Call the compiled function."""
        result: R = self.dispatcher(*arguments, **named)
        return result

    @property
    def _numba_type_(self) -> Any:
        """Its type for numba, in the kernels that call it."""
        return self.dispatcher._numba_type_


def compiled(function: Callable[P, R]) -> Kernel[P, R]:
    """Compile a function at its first call, and cache the code on disk."""
    return Kernel(function)


def unlocked(function: Callable[P, R]) -> Kernel[P, R]:
    """Compile a function that releases the interpreter's lock.

    Like a sort of numpy.  For functions of some microseconds, `compiled` is better: a
    busy thread returns the interpreter's lock only after 5 ms.
    """
    return Kernel(function, nogil=True)


def inlined(function: Callable[P, R]) -> Kernel[P, R]:
    """Inline a function into the kernels that call it."""
    return Kernel(function, cached=False)


def in_place(function: Callable[P, R]) -> Kernel[P, R]:
    """Compile a function that only fills its arguments.

    It neither creates nor returns arrays, so no references are counted.  For a kernel
    that reads bytes, counting the references of arrays that are passed between
    functions takes four fifths of the time: 130 us for 3 kB of text, and 27 without it.
    """
    return Kernel(function, _nrt=False)


def part(function: Callable[P, R]) -> Kernel[P, R]:
    """Inline a function into the in-place kernels that call it."""
    return Kernel(function, cached=False, _nrt=False)


prefetch_instruction: Any = None
"""What `prefetch` is compiled to; set by the compiler."""


@part
def prefetch(array: NDArray[Any], row: np.int64) -> None:
    """Let the processor load the beginning of a row, without waiting for it.

    This is a hint: it changes nothing, and cannot fail even if there is no such row.
    """
    prefetch_instruction(array.ctypes.data + row * array.strides[0])
