"""Errors as problem details (RFC 9457), and the faults of a document."""

from __future__ import annotations

import logging
import math
import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, get_args

from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from app import errors
from app.access.rights import Right
from app.doors.documents.message import ProblemOut
from app.doors.serving.request import STATUS
from app.ledger.entry import PRINTABLE
from app.services.log import SparingLog

if TYPE_CHECKING:
    from collections.abc import (
        Awaitable,
        Callable,
        Iterable,
        Iterator,
        Mapping,
        Sequence,
    )

    from fastapi import APIRouter, FastAPI, Request, Response
    from starlette.routing import BaseRoute

    from app.access.rights import Principal

# Limits for documents with many faults, and for long invented names.
_SHOWN: Final = 5
_LONGEST: Final = 64


def list_faults(
    errors: Sequence[Mapping[str, Any]],
    names: type[BaseModel] | Sequence[str],
    *,
    of: str,
) -> str:
    """Describe the errors of pydantic in a sentence.

    Parameters
    ----------
    names : type of BaseModel, or sequence of str
        The document, or the names that exist.
    of : str
        The kind of these names: field or parameter.

    Examples
    --------
    >>> list_faults(
    ...     [{"loc": ("labell",), "type": "extra_forbidden", "msg": "No"}],
    ...     ["label", "source"],
    ...     of="parameter",
    ... )
    'unknown parameter `labell`; the known ones are `label`, `source`'
    """
    faults = []
    for error in errors[:_SHOWN]:
        place = error["loc"]
        faults.append(
            _unknown(place, names, of)
            if error["type"] == "extra_forbidden"
            else f"{_written(place)}{_message_of(error)}".removeprefix("it: ")
        )
    return "; ".join(faults)


def _message_of(error: Mapping[str, Any]) -> str:
    """Return the text of a fault, to follow the name of its place.

    Examples
    --------
    >>> _message_of({"type": "string_type", "msg": "Input should be a valid string"})
    ' should be a valid string'
    """
    if error["type"] == "missing":
        return " is missing"
    if error["type"] == "timezone_aware":
        return " needs a time zone, as in 2026-03-01T14:30:00Z"
    if error["type"] == "string_pattern_mismatch" and (
        error["ctx"]["pattern"] == PRINTABLE
    ):
        return " should be one line of printable text"
    sentence = error["msg"].replace(" after validation", "")
    should, found = re.subn(r"^\w+ should", " should", sentence)
    return should if found else f": {sentence.removeprefix('Value error, ')}"


def _written(place: Sequence[str | int]) -> str:
    """Return a place as the sender would write it.

    Examples
    --------
    >>> _written(("ids", 0)), _written(())
    ('`ids[0]`', 'it')
    """
    steps = (f"[{each}]" if isinstance(each, int) else f".{each}" for each in place)
    return f"`{''.join(steps)[1:][:_LONGEST]}`" if place else "it"


def _unknown(
    place: tuple[str | int, ...], names: type[BaseModel] | Sequence[str], of: str
) -> str:
    """Return a sentence with an unknown name and the known ones."""
    if isinstance(names, type):
        way = [step for step in place[:-1] if isinstance(step, str)]
        names = [*_names(names, way)]
    listed = ", ".join(f"`{name}`" for name in names)
    known = f"the known ones are {listed}" if listed else "there are no known ones"
    return f"unknown {of} {_written(place)}; {known}"


def _names(model: type[BaseModel], place: Sequence[str]) -> Iterator[str]:
    """Yield the field names at a place in a document, ignoring indexes."""
    fields = {field.alias or name: field for name, field in model.model_fields.items()}
    if not place:
        yield from fields
        return
    for inner in _documents(fields[place[0]].annotation):
        yield from _names(inner, place[1:])


def _documents(annotation: object) -> Iterator[type[BaseModel]]:
    """Yield the documents that a field may contain."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for each in get_args(annotation):
        yield from _documents(each)


log = logging.getLogger(__name__)
# Seconds. A database restarts in a few, and mail servers retry later anyway.
RETRY_AFTER: Final = "5"
CHALLENGE: Final = 'Bearer realm="Postbayes"'
"""The challenge to a request that needs a key (RFC 9110 section 11.6.1)."""


def status_of(error: errors.PostbayesError) -> HTTPStatus:
    """Return the HTTP status of an error."""
    return errors.answer_to(error, STATUS)


def problem_type(error: type[errors.PostbayesError]) -> str:
    """Return the problem type of an error class, a URN.

    Examples
    --------
    >>> problem_type(errors.UnknownLabel)
    'urn:postbayes:problem:unknown-label'
    """
    name = "".join(f"-{c.lower()}" if c.isupper() else c for c in error.__name__)
    return f"urn:postbayes:problem:{name.lstrip('-')}"


def described(error: errors.PostbayesError, principal: Principal) -> ProblemOut:
    """Return an error as a problem document for a principal.

    A confidential sentence is for those who may read all profiles.
    """
    trusted = principal.profiles is None and principal.may(Right.READ)
    detail = str(error) if trusted else error.public
    return _problem(status_of(error), problem_type(type(error)), detail)


def name_of(status: HTTPStatus) -> str:
    """Return the name of a status in RFC 9110, which Python has from 3.13 on.

    Examples
    --------
    >>> name_of(HTTPStatus(422)), name_of(HTTPStatus(400))
    ('Unprocessable Content', 'Bad Request')
    """
    renamed = {413: "Content Too Large", 422: "Unprocessable Content"}
    return renamed.get(status, status.phrase)


def _problem(status: HTTPStatus, kind: str, detail: str) -> ProblemOut:
    return ProblemOut(
        type=kind, title=name_of(status), status=status.value, detail=detail
    )


DEFECT: Final = _problem(
    HTTPStatus.INTERNAL_SERVER_ERROR,
    "about:blank",
    "an unexpected failure, which is a defect of Postbayes; the traceback is on the "
    "standard error of the service",
)
"""The answer to an unexpected exception."""


def _headers(
    error: errors.PostbayesError, status: HTTPStatus
) -> Mapping[str, str] | None:
    """Return the headers of the answer to an error."""
    if status is HTTPStatus.UNAUTHORIZED:
        return {"WWW-Authenticate": CHALLENGE}
    if isinstance(error, errors.TooManyRequests):
        return {"Retry-After": f"{math.ceil(error.seconds)}"}
    if status is HTTPStatus.SERVICE_UNAVAILABLE:
        return {"Retry-After": RETRY_AFTER}
    return None


def install(
    app: FastAPI,
    routers: Iterable[APIRouter],
    page: Callable[[Request, ProblemOut], Awaitable[Response]],
    reader_of: Callable[[Request], Principal],
) -> None:
    """Make an application answer every error with a problem document or a page.

    Parameters
    ----------
    routers : iterable of APIRouter
        All routers that it serves: a path may have routes in several.
    page : callable
        Returns the page of a problem, for the paths below `/ui`.
    reader_of : callable
        Returns for whom an error is worded.
    """
    served = [route for router in routers for route in router.routes]
    sparing = SparingLog(log)

    async def answer(
        request: Request, problem: ProblemOut, headers: Mapping[str, str] | None = None
    ) -> Response:
        if not request.url.path.startswith("/ui/"):
            return JSONResponse(
                problem.model_dump(),
                problem.status,
                headers,
                media_type="application/problem+json",
            )
        shown = await page(request, problem)
        shown.headers.update(headers or {})
        return shown

    @app.exception_handler(errors.PostbayesError)
    async def _(request: Request, error: errors.PostbayesError) -> Response:
        status = status_of(error)
        if status is HTTPStatus.INTERNAL_SERVER_ERROR:
            sparing.error("%s %s: %s", request.method, request.url.path, error)
        if status is HTTPStatus.SERVICE_UNAVAILABLE:
            sparing.warning(
                "%s %s was refused: %s", request.method, request.url.path, error
            )
        problem = described(error, reader_of(request))
        return await answer(request, problem, _headers(error, status))

    @app.exception_handler(RequestValidationError)
    async def _(request: Request, error: RequestValidationError) -> Response:
        names = request.scope["route"].parameters
        found: dict[str, list[dict[str, Any]]] = {}
        for each in error.errors():
            where, *place = each["loc"]
            found.setdefault(where, []).append({**each, "loc": tuple(place)})
        detail = "; ".join(
            f"the {where} cannot be used: {list_faults(some, names, of='parameter')}"
            for where, some in found.items()
        )
        kind = problem_type(errors.MalformedRequest)
        problem = _problem(HTTPStatus.UNPROCESSABLE_ENTITY, kind, detail)
        return await answer(request, problem)

    @app.exception_handler(HTTPException)
    async def _(request: Request, error: HTTPException) -> Response:
        sentence, headers = _unserved(error, request, served)
        detail = f"{sentence}; the interface is described at /docs"
        problem = _problem(HTTPStatus(error.status_code), "about:blank", detail)
        return await answer(request, problem, headers)


def _unserved(
    error: HTTPException, request: Request, served: Iterable[BaseRoute]
) -> tuple[str, Mapping[str, str] | None]:
    """Return the sentence and the headers of an error of the framework."""
    path: str = request.scope["path"]
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        # The framework lists the methods of one route, but a path may have several.
        allowed = ", ".join(_methods(served, path))
        sentence = f"{_shown(path)} takes {allowed}, not {request.method}"
        return sentence, {"Allow": allowed}
    sentence = str(error.detail)
    if error.status_code == HTTPStatus.NOT_FOUND:
        sentence = f"there is no {_shown(path)}"
        if path.endswith("/") and _methods(served, path[:-1]):
            sentence += f", but {_shown(path[:-1])}"
    return sentence, error.headers


def _shown(path: str) -> str:
    return f"{path!r:.{_LONGEST}}"


def _methods(served: Iterable[BaseRoute], path: str) -> list[str]:
    """Return the methods of a path."""
    found = {
        method
        for route in served
        if isinstance(route, APIRoute) and route.path_regex.match(path)
        for method in route.methods or ()
    }
    return sorted(found | {"HEAD"} if "GET" in found else found)
