"""List of the files that are written from the code."""

from __future__ import annotations

from scripts.reference import (
    commands,
    completion,
    errors,
    http,
    manual,
    rights,
    settings,
)


def pages() -> dict[str, str]:
    """Return the text of each file by its path in the repository."""
    return {
        "docs/reference/settings.md": settings.page(),
        "docs/reference/commands.md": commands.page(),
        "docs/reference/http.md": http.page(),
        "docs/reference/errors.md": errors.page(),
        "docs/reference/rights.md": rights.page(),
        "deploy/man/postbayes.1": manual.page(),
        "deploy/completions/postbayes.bash": completion.bash(),
        "deploy/completions/postbayes.fish": completion.fish(),
    }
