"""Which status does each error have? Problem details, RFC 9457, in one table."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from app import errors
from app.adapters.http.faults import told
from app.adapters.http.parameters import parameters
from app.adapters.schemas.problem import ProblemOut

if TYPE_CHECKING:
    from fastapi import FastAPI, Request

log = logging.getLogger(__name__)

# Seconds. A database that restarts is back in a few; mail servers retry later
# anyway.
RETRY_AFTER: Final = "5"

STATUS: Final[dict[type[errors.PostbayesError], HTTPStatus]] = {
    errors.EmptyMessage: HTTPStatus.BAD_REQUEST,
    errors.MalformedRequest: HTTPStatus.BAD_REQUEST,
    errors.MessageTooLarge: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    errors.BatchTooLarge: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    errors.SlowRequest: HTTPStatus.REQUEST_TIMEOUT,
    errors.UnsupportedContentType: HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    errors.MissingLabel: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.UnknownLabel: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.InvalidInput: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.NotFound: HTTPStatus.NOT_FOUND,
    errors.Conflict: HTTPStatus.CONFLICT,
    errors.Unavailable: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.Inconsistent: HTTPStatus.INTERNAL_SERVER_ERROR,
    errors.PostbayesError: HTTPStatus.INTERNAL_SERVER_ERROR,
}
"""The nearest class in the line of ancestors decides."""


DEFECT: Final = ProblemOut(
    type="about:blank",
    title=HTTPStatus.INTERNAL_SERVER_ERROR.phrase,
    status=HTTPStatus.INTERNAL_SERVER_ERROR.value,
    detail="an unexpected failure, which is a defect of Postbayes; the traceback is "
    "on its standard error",
)
"""What is said of an error that nobody raised on purpose."""


def status_of(error: errors.PostbayesError) -> HTTPStatus:
    """Return the status that an error answers with."""
    return next(STATUS[cls] for cls in type(error).__mro__ if cls in STATUS)


def problem_type(error: type[errors.PostbayesError]) -> str:
    """Return the problem type of an error class, a URN.

    Examples
    --------
    >>> problem_type(errors.UnknownLabel)
    'urn:postbayes:problem:unknown-label'
    """
    name = "".join(f"-{c.lower()}" if c.isupper() else c for c in error.__name__)
    return f"urn:postbayes:problem:{name.lstrip('-')}"


def described(error: errors.PostbayesError) -> ProblemOut:
    """Return an error as a problem inside of another document."""
    status = status_of(error)
    return ProblemOut(
        type=problem_type(type(error)),
        title=status.phrase,
        status=status.value,
        detail=str(error),
    )


def problem(
    status: HTTPStatus, kind: str, detail: str, headers: dict[str, str] | None = None
) -> JSONResponse:
    """Return a problem document."""
    return JSONResponse(
        {
            "type": kind,
            "title": status.phrase,
            "status": status.value,
            "detail": detail,
        },
        status_code=status.value,
        headers=headers,
        media_type="application/problem+json",
    )


def install(app: FastAPI) -> None:
    """Have every error of an application answered as a problem document."""

    @app.exception_handler(errors.PostbayesError)
    async def _(request: Request, error: errors.PostbayesError) -> JSONResponse:
        status = status_of(error)
        if status is HTTPStatus.INTERNAL_SERVER_ERROR:
            log.error("%s %s: %s", request.method, request.url.path, error)
        headers = None
        if status is HTTPStatus.SERVICE_UNAVAILABLE:
            headers = {"Retry-After": RETRY_AFTER}
        return problem(status, problem_type(type(error)), str(error), headers)

    @app.exception_handler(RequestValidationError)
    async def _(request: Request, error: RequestValidationError) -> JSONResponse:
        names = parameters(request.scope["route"])
        found: dict[str, list[dict[str, Any]]] = {}
        for each in error.errors():
            where, *place = each["loc"]
            found.setdefault(where, []).append({**each, "loc": tuple(place)})
        detail = "; ".join(
            f"the {where} cannot be used: {told(some, names, of='parameter')}"
            for where, some in found.items()
        )
        return problem(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            problem_type(errors.MalformedRequest),
            detail,
        )

    @app.exception_handler(HTTPException)
    async def _(_: Request, error: HTTPException) -> JSONResponse:
        status = HTTPStatus(error.status_code)
        return problem(
            status,
            "about:blank",
            f"{error.detail}; the interface is described at /docs",
            dict(error.headers or {}),
        )
