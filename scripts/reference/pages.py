"""List of the pages of the reference."""

from __future__ import annotations

from scripts.reference import commands, errors, http, rights, settings


def pages() -> dict[str, str]:
    """Return the text of each page by its file name in `docs/reference`."""
    return {
        "settings.md": settings.page(),
        "commands.md": commands.page(),
        "http.md": http.page(),
        "errors.md": errors.page(),
        "rights.md": rights.page(),
    }
