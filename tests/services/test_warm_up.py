"""Warm-up: no kernel is compiled while a request waits, or where nothing is writable."""

from __future__ import annotations

from functools import partial

from tests.support import command

LEFT = """
from importlib import import_module
from pkgutil import iter_modules

from app import kernels
from app.services.classify import warm_up

warm_up()
for module in iter_modules(kernels.__path__):
    found = vars(import_module(f"app.kernels.{module.name}"))
    for name, kernel in found.items():
        if name in ("categorical", "gaussian"):
            # Of the lab alone.
            continue
        made = getattr(kernel, "dispatcher", kernel)
        # Those that are not kept on disk are compiled into the others.
        if getattr(made, "signatures", None) == [] and made.stats.cache_path:
            print(name)
"""


def test_all_kernels_are_compiled():
    """In a process of its own: the other tests have compiled all of them."""
    done = command.run_program(partial(exec, LEFT, {}), [])

    assert (0, "") == (done.returncode, done.stdout)
