"""The routes of the HTTP door: each translates, and calls one use case."""

from __future__ import annotations

import asyncio
import os
import time
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Depends, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from app.adapters.http.body import Body, is_json, openapi_body, parse_json
from app.adapters.schemas.answer import ClassifyOut
from app.adapters.schemas.feedback import FeedbackIn, FeedbackOut
from app.adapters.schemas.message import TextIn
from app.adapters.schemas.problem import ProblemOut
from app.adapters.schemas.source import MAX_SOURCE, PRINTABLE, check_source
from app.bootstrap import Application
from app.errors import (
    DatabaseUnavailable,
    EmptyMessage,
    MalformedRequest,
    MissingLabel,
    UnknownMessage,
)
from app.services.marked import marked_ids
from app.services.recall import LOOK_AGAIN, PATIENCE, too_late

if TYPE_CHECKING:
    from concurrent.futures import Future
    from typing import Any

    from app.services.pending import Pending
    from app.services.recall import Known

DIGEST_BYTES: Final = 16
MAX_EXPLAINED: Final = 1000
# RFC 5321 section 4.5.3.1.8 has a server take 100; Postfix sends 50 at once
# (default_destination_recipient_limit).
MAX_RECIPIENTS: Final = 100
# Of the SpamAssassin corpus 99.8 % are not larger; those of 40 to 64 KiB take 7 ms
# to parse and extract, 16 at most.
INLINE_BYTES: Final = 64 * 1024
# Each takes some 0.3 ms.
INLINE_PROFILES: Final = 4
# Not the framework's threads: while the database is away, forty that ask for it
# would leave none for a large message.
DATABASE_THREADS: Final = CapacityLimiter(64)

Answer = TypeVar("Answer")

router = APIRouter()


async def application(request: Request) -> Application:
    """Return the application that `app.bootstrap` put together."""
    served: Application = request.app.state.application
    return served


ApplicationDep = Annotated[Application, Depends(application)]
"""The use cases."""

ProfileName = Annotated[
    str | None,
    Query(
        description="Name of the profile. Where it is not given, the recipients' "
        "answers, and without recipients that of POSTBAYES_PROFILE."
    ),
]
Recipient = Annotated[
    list[str],
    Query(
        max_length=MAX_RECIPIENTS,
        description="Who receives the message, an address or a user's name; may be "
        "repeated.",
    ),
]
Explain = Annotated[
    int,
    Query(
        ge=0,
        le=MAX_EXPLAINED,
        description="How many features to explain with, of each side.",
    ),
]
Source = Annotated[
    str | None,
    Query(
        max_length=MAX_SOURCE,
        pattern=PRINTABLE,
        description="Who says so; kept in the ledger.",
    ),
]


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return what /docs says of the errors of a route."""
    schema = ProblemOut.model_json_schema()
    return {
        status: {
            "description": HTTPStatus(status).phrase,
            "content": {"application/problem+json": {"schema": schema}},
        }
        for status in statuses
    }


async def recalled(
    app: Application, profile: str, digest: bytes, *, within: float = 0.0
) -> Known:
    """Return what is known of a message, or will be within some seconds.

    Raises
    ------
    UnknownProfile
        If there is no such profile.
    DatabaseUnavailable
        If it cannot be looked up, or not in time.
    """
    until = time.monotonic() + within
    while True:
        known = await in_time(app.recall.look_up(profile, digest))
        if known or time.monotonic() >= until:
            return known
        await asyncio.sleep(LOOK_AGAIN)


async def in_time(answer: Future[Answer]) -> Answer:
    """Wait for what another thread answers, without holding one.

    Raises
    ------
    DatabaseUnavailable
        If it does not come in time, or the thread answers so.
    """
    try:
        async with asyncio.timeout(PATIENCE):
            return await asyncio.wrap_future(answer)
    except TimeoutError as error:
        raise too_late() from error


async def answered(pending: Pending) -> FeedbackOut:
    """Return the answer to a feedback once it is on disk, without a thread.

    Raises
    ------
    DatabaseUnavailable
        If it could not be stored, or does not come in time.
    UnknownMessage
        If the message cannot be changed, or is not there to be forgotten.
    """
    return FeedbackOut.of(pending.taught(await in_time(pending.answer)))


# A coroutine that scores small messages where it stands: handing 0.6 ms of work
# to a thread cost 0.13 ms more at the median, and under the interpreter's lock
# no thread leaves the event loop freer.  Large ones, which may take a second,
# go to a thread, and so does whatever waits for the disk.
@router.post(
    "/classify",
    tags=["mail"],
    responses=problems(400, 404, 408, 413, 415, 422),
    openapi_extra=openapi_body(TextIn),
)
async def classify(
    request: Request,
    body: Body,
    app: ApplicationDep,
    profile: ProfileName = None,
    recipient: Recipient = [],  # noqa: B006  the framework copies it
    explain: Explain = 10,
) -> ClassifyOut:
    """Score one message, without learning from it.

    Send the message itself as `message/rfc822`, or JSON: `{"message": "…"}`
    or the fields of a form.  The entries of `explanation` sum to `log_odds`.

    With `?recipient=` the most personal profile answers that there is: the
    address's own, its domain's, or the site's.  With several of them, the
    answer is that of the most personal profile that they share, and
    `recipients` has one answer for each.
    """
    raw = body
    if is_json(request):
        raw = required(parse_json(body, TextIn).raw())
    name = profile or app.recipients.shared(recipient)
    theirs = {each: app.recipients.profile(each) for each in recipient}
    profiles = {name, *theirs.values()}
    score = partial(app.classify.each, profiles, raw, strongest=explain)
    inline = len(raw) <= INLINE_BYTES and len(profiles) <= INLINE_PROFILES
    answers = score() if inline else await run_in_threadpool(score)
    return ClassifyOut.of_classified(
        answers[name], {each: answers[theirs[each]] for each in theirs}
    )


@router.post(
    "/feedback",
    tags=["mail"],
    responses=problems(400, 404, 408, 409, 413, 415, 422, 503),
    openapi_extra=openapi_body(FeedbackIn),
)
async def feedback(
    request: Request,
    body: Body,
    app: ApplicationDep,
    label: Annotated[
        str | None, Query(description="What the message was: a label of the profile.")
    ] = None,
    profile: ProfileName = None,
    recipient: Recipient = [],  # noqa: B006  the framework copies it
    source: Source = None,
) -> FeedbackOut:
    """Teach one message; the answer comes after it is on disk.

    Send the message with `?label=`, or JSON with a `label` and either the
    `id` that `/classify` returned or the message.  The same message with the
    same label changes nothing; with another label it is moved.
    """
    name = profile or app.recipients.shared(recipient)
    given = parse_json(body, FeedbackIn) if is_json(request) else FeedbackIn()
    raw = given.raw() if is_json(request) else body
    said = {
        "label": _label(given.label or label),
        "source": _source(given.source or source),
    }
    if given.id is None:
        message = required(raw)
        marks = [await recalled(app, name, each) for each in marked_ids(message)]
        teach = partial(app.feedback.start_teach, name, message, marks, **said)
        if len(message) <= INLINE_BYTES:
            return await answered(teach())
        return await answered(await run_in_threadpool(teach))
    if raw is not None:
        msg = "send either the `id` or the message, not both"
        raise MalformedRequest(msg)
    digest = parse_id(given.id)
    known = await recalled(app, name, digest, within=app.recall.write_behind)
    return await answered(app.feedback.start_teach_by_id(name, digest, known, **said))


@router.delete("/feedback/{id}", tags=["mail"], responses=problems(404, 409, 422, 503))
async def forget(
    id: str,  # noqa: A002  the name of the path parameter is part of the interface
    app: ApplicationDep,
    profile: ProfileName = None,
    recipient: Recipient = [],  # noqa: B006  the framework copies it
    source: Source = None,
) -> FeedbackOut:
    """Take one message back, as if it had never been learned."""
    name = profile or app.recipients.shared(recipient)
    return await answered(
        app.feedback.start_forget(name, parse_id(id), source=_source(source))
    )


@router.get("/healthz", tags=["operation"])
async def healthz(response: Response) -> dict[str, str]:
    """Tell that the process answers.

    The header `Postbayes-Worker` says which one it is, by its process id.
    """
    response.headers["Postbayes-Worker"] = str(os.getpid())
    return {"status": "ok"}


@router.get("/readyz", tags=["operation"], responses=problems(503))
async def readyz(app: ApplicationDep) -> dict[str, str]:
    """Tell whether the profiles are loaded and the database answers."""
    if not (app.writer.alive and app.recall.alive and app.keeper.alive):
        msg = "a thread that learns, looks up or keeps house has ended; restart"
        raise DatabaseUnavailable(msg)
    # A server that hangs answers nobody; whoever asks is told within this time.
    seconds = app.settings.busy_timeout + 1
    try:
        async with asyncio.timeout(seconds):
            await to_thread.run_sync(
                app.ping, abandon_on_cancel=True, limiter=DATABASE_THREADS
            )
    except TimeoutError as error:
        msg = f"the database has not answered within {seconds:g} seconds"
        raise DatabaseUnavailable(msg) from error
    return {"status": "ready"}


def parse_id(text: str) -> bytes:
    """Return the digest that an id stands for.

    Raises
    ------
    UnknownMessage
        If it is not 32 hexadecimal digits, so that no message can have it.
    """
    try:
        digest = bytes.fromhex(text)
    except ValueError:
        digest = b""
    if len(digest) != DIGEST_BYTES:
        msg = (
            f"no message has the id {text[:64]!r}; an id is the 32 hexadecimal "
            "digits that /classify returned"
        )
        raise UnknownMessage(msg)
    return digest


def required(raw: bytes | None) -> bytes:
    """Return a message that has to be there.

    Raises
    ------
    EmptyMessage
        If there is none.
    """
    if raw is None:
        msg = (
            "the JSON holds no message; give `message`, or fields such as "
            "`subject`, `from` and `body`"
        )
        raise EmptyMessage(msg)
    return raw


def _source(given: str | None) -> str:
    if not given:
        return "http"
    check_source(given)
    return given


def _label(label: str | None) -> str:
    if not label:
        msg = 'say what the message was: ?label=spam, or "label" in the JSON'
        raise MissingLabel(msg)
    return label
