"""Command ``python scripts/reference``: writes the files; ``--check`` compares them."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# In place of this folder, whose `http.py` would hide the standard library's.
sys.path[0] = str(ROOT)
if find_spec("typer") is None:
    sys.exit(
        f"{sys.argv[0]} needs the libraries of .venv, which `make test` installs: "
        f"run .venv/bin/python {sys.argv[0]}"
    )

from scripts.reference.pages import pages  # noqa: E402


def main() -> int:
    """Write the files that differ, or name them (``--check``); return an exit code."""
    check = "--check" in sys.argv[1:]
    stale = [
        (ROOT / name, text)
        for name, text in pages().items()
        if not (ROOT / name).is_file()
        or (ROOT / name).read_text(encoding="utf-8") != text
    ]
    for path, text in stale:
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        verb = "is stale" if check else "written"
        sys.stdout.write(f"{path.relative_to(ROOT)}: {verb}\n")
    return 1 if check and stale else 0


sys.exit(main())
