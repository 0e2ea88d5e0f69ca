"""Compiled code on disk: used again, unless any source of the kernels changed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

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
NO_SPACE = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"


@pytest.fixture
def kernels(tmp_path):
    """Return the folder of a package of kernels that has one of them."""
    folder = tmp_path / "app/kernels"
    folder.mkdir(parents=True)
    (tmp_path / "app/__init__.py").touch()
    for name in ("__init__.py", "compiler.py", "../errors.py"):
        source = Path(app.kernels.__file__).parent / name
        (folder / name).write_bytes(source.read_bytes())
    (folder / "one.py").write_text(ONE.format(number=1))
    (folder / "kernel.py").write_text(KERNEL)
    return folder


def run(kernels, **environment):
    """Run the kernel in a process of its own; return its result and its cache hits."""
    place = kernels.parents[1]
    done = subprocess.run(
        # Without bytecode on disk: for Python, a file of the same size that is written
        # again within a second has not changed.
        [sys.executable, "-B", "-c", "import app.kernels.kernel"],
        cwd=place,
        env=os.environ | {"PYTHONPATH": str(place)} | environment,
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.split()


def test_a_kernel_is_compiled_anew_when_a_part_in_another_file_changes(kernels):
    """Else it would go on with the machine code of the old part."""
    found = []
    for number in (1, 1, 2):
        (kernels / "one.py").write_text(ONE.format(number=number))
        found.append(run(kernels))

    assert [["1", "0"], ["1", "1"], ["2", "0"]] == found


def test_a_kernel_runs_without_a_folder_for_its_code(kernels):
    """As for `nobody`, as whom mail servers run commands: it has no home."""
    (kernels / "__pycache__").touch()
    nowhere = {"HOME": os.devnull, "XDG_CACHE_HOME": os.devnull}

    assert ["1", "0"] == run(kernels, **nowhere)


def test_a_kernel_runs_without_space_for_its_code(kernels):
    """A service starts on a full disk, even if its kernels are new."""
    (kernels / "kernel.py").write_text(NO_SPACE + KERNEL)

    assert ["1", "0"] == run(kernels)


@pytest.mark.parametrize("left", [0, 30], ids=["nothing", "part"])
@pytest.mark.parametrize("kind", ["nbi", "nbc"], ids=["index", "code"])
def test_a_kernel_whose_code_was_cut_short_is_compiled_anew(kernels, kind, left):
    """As a power cut leaves a file that was renamed before it was on the disk."""
    run(kernels)
    (file,) = (kernels / "__pycache__").glob(f"kernel.fill-*.{kind}")
    os.truncate(file, left)

    assert [["1", "0"], ["1", "1"]] == [run(kernels) for _ in range(2)]


@pytest.mark.parametrize("kind", ["nbi", "nbc"], ids=["index", "code"])
def test_a_kernel_of_which_a_byte_changed_is_compiled_anew(kernels, kind):
    """Machine code that a bad disk changed would end every start with SIGSEGV."""
    run(kernels)
    (file,) = (kernels / "__pycache__").glob(f"kernel.fill-*.{kind}")
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0xFF
    file.write_bytes(content)

    assert [["1", "0"], ["1", "1"]] == [run(kernels) for _ in range(2)]


def test_a_kernel_whose_code_cannot_be_read_is_compiled(kernels):
    """As where root was the first to run it, and others may not read its files."""
    run(kernels)
    (file,) = (kernels / "__pycache__").glob("kernel.fill-*.nbi")
    file.unlink()
    file.mkdir()

    assert ["1", "0"] == run(kernels)
