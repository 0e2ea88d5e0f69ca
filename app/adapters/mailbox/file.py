"""Where is kept what was seen of a mailbox? In a small file that only we read."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from app.adapters.mailbox.memory import Memory
from app.errors import InvalidSetting


@dataclass(frozen=True, slots=True)
class File:
    """A file that holds a memory; it is replaced as a whole.

    Parameters
    ----------
    path : Path
        Where; its folder is made.
    """

    path: Path

    def load(self) -> Memory:
        """Return what was kept last, or an empty memory.

        Raises
        ------
        InvalidSetting
            If the file holds something else, or cannot be read.
        """
        try:
            text = self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return Memory()
        except (OSError, UnicodeDecodeError) as error:
            msg = f"POSTBAYES_IMAP_STATE, {self.path}, cannot be read: {error}"
            raise InvalidSetting(msg) from error
        return Memory.load(text, file=str(self.path))

    def keep(self, memory: Memory) -> None:
        """Write it, so that a crash leaves the old or the new one.

        Raises
        ------
        InvalidSetting
            If it cannot be written.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            number, name = tempfile.mkstemp(dir=self.path.parent, prefix=".imap-")
            with os.fdopen(number, "w", encoding="utf-8") as file:
                file.write(memory.dump())
            Path(name).replace(self.path)
        except OSError as error:
            msg = f"POSTBAYES_IMAP_STATE, {self.path}, cannot be written: {error}"
            raise InvalidSetting(msg) from error
