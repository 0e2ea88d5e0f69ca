"""Page docs/reference/rights.md: which right each route and command asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.access.rights import MEANINGS, ROLES, Right
from app.doors.http.app import ROUTERS
from app.doors.http.guard import Guarded
from app.doors.milter.server import RIGHT as OF_MILTER
from app.doors.rspamd.codec import PATHS
from app.doors.spamd.server import RIGHTS as OF_SPAMD
from scripts.reference.markdown import document, sentences, table

if TYPE_CHECKING:
    from collections.abc import Iterator

_INTRODUCTION: Final = """
A request needs one right, and no right includes another, except that `manage` includes
`lists`. Requests that need no right are open to everybody who reaches the door.
[access.md](../access.md) describes who has which right.
"""


def page() -> str:
    """Return the page."""
    return document(
        "Rights",
        sentences(_INTRODUCTION),
        table(("right", "meaning"), ((f"`{r}`", MEANINGS[r]) for r in Right)),
        "People who sign in have the rights of their role.",
        table(
            ("role", "rights"),
            (
                (role, ", ".join(f"`{right}`" for right in sorted(rights)))
                for role, rights in ROLES.items()
            ),
        ),
        "## HTTP",
        table(("operation", "right"), _routes()),
        "## Mail doors",
        table(("door", "request", "right"), _doors()),
    )


def _routes() -> Iterator[tuple[str, str]]:
    for router in ROUTERS:
        for route in router.routes:
            if isinstance(route, Guarded):
                for method in sorted(route.methods or ()):
                    yield f"`{method} {route.path_format}`", _named(route.right)


def _doors() -> Iterator[tuple[str, str, str]]:
    yield "milter", "a connection", _named(OF_MILTER)
    yield "spamd", "`PING`", _named(None)
    yield "spamd", "other commands", _named(Right.CLASSIFY)
    for command, right in OF_SPAMD.items():
        yield "spamd", f"`{command}`", _named(right)
    for path, (method, _, right, _) in PATHS.items():
        yield "rspamd", f"`{method} {path}`", _named(right)


def _named(right: Right | None) -> str:
    return "none" if right is None else f"`{right}`"
