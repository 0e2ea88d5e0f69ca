"""Command ``python scripts/reference``: writes the pages; ``--check`` compares them."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# In place of this folder, whose `http.py` would hide the standard library's.
sys.path[0] = str(ROOT)

from scripts.reference.pages import pages  # noqa: E402


def main() -> int:
    """Write the pages that differ, or name them (``--check``); return an exit code."""
    check = "--check" in sys.argv[1:]
    folder = ROOT / "docs" / "reference"
    folder.mkdir(exist_ok=True)
    stale = [
        (folder / name, text)
        for name, text in pages().items()
        if not (folder / name).is_file()
        or (folder / name).read_text(encoding="utf-8") != text
    ]
    for path, text in stale:
        if not check:
            path.write_text(text, encoding="utf-8")
        verb = "is stale" if check else "written"
        sys.stdout.write(f"{path.relative_to(ROOT)}: {verb}\n")
    return 1 if check and stale else 0


sys.exit(main())
