"""A file system of a few megabytes, which can be filled and made read-only."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import contextmanager, suppress

import pytest

MEBIBYTES = 4


class Disk:
    """A mounted file system, at `path`."""

    def __init__(self, path):
        self.path = path
        self._ballast = path / "ballast"

    def fill(self):
        """Leave no byte on it."""
        with (
            self._ballast.open("wb", buffering=0) as file,
            suppress(OSError),
        ):
            while True:
                file.write(bytes(4096))
        assert 0 == shutil.disk_usage(self.path).free

    def make_room(self):
        """Take away what filled it."""
        self._ballast.unlink()

    def remount(self, mode):
        """Make it read-only (``ro``), or writable (``rw``); nobody may use it."""
        subprocess.run(["mount", "-o", f"remount,{mode}", self.path], check=True)


@contextmanager
def mounted(path):
    """Mount a small file system at a new folder; skip the test unless allowed to."""
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={MEBIBYTES}m", "tmpfs", path]
    if os.geteuid() != 0 or subprocess.run(mount, check=False).returncode:
        pytest.skip("only root may mount a file system: not tested")
    try:
        yield Disk(path)
    finally:
        # Lazily: an interrupted test may have left somebody in it.
        subprocess.run(["umount", "--lazy", path], check=True)
