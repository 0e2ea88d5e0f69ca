"""Compiled code on disk: used again, unless any source of the kernels changed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import app.kernels

ONE = """
from app.kernels import part

@part
def number():
    return {number}
"""
KERNEL = """
import numpy as np
from app.kernels import in_place
from app.kernels.one import number

@in_place
def fill(into):
    into[0] = number()

found = np.zeros(1, np.int64)
fill(found)
print(found[0], sum(fill.stats.cache_hits.values()))
"""


def run(folder):
    """Run the kernel in a process of its own; return its result and its cache hits."""
    done = subprocess.run(
        [sys.executable, "-c", "import app.kernels.kernel"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(folder)},
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.split()


def test_a_kernel_is_compiled_anew_when_a_part_in_another_file_changes(tmp_path):
    """Else it would go on with the machine code of the old part."""
    folder = tmp_path / "app/kernels"
    folder.mkdir(parents=True)
    (tmp_path / "app/__init__.py").touch()
    source = Path(app.kernels.__file__)
    (folder / "__init__.py").write_bytes(source.read_bytes())
    (folder / "kernel.py").write_text(KERNEL)
    found = []
    for number in (1, 1, 2):
        (folder / "one.py").write_text(ONE.format(number=number))
        found.append(run(tmp_path))

    assert [["1", "0"], ["1", "1"], ["2", "0"]] == found
