"""Session: the proof in each form that a page of this service was its origin."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request


def csrf_token(request: Request) -> str:  # noqa: ARG001  the session is in it
    """Return what the forms of a page post in their field `csrf`."""
    return ""


def require_csrf(request: Request, form: Mapping[str, object]) -> None:
    """Raise if a form was not posted from a page of this service.

    Raises
    ------
    Forbidden
        If its field `csrf` is not what `csrf_token` gave the page.
    """
