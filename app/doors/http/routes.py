"""Routes of messages: classify, one or a batch, feedback, and health.

Contract of this file: a lesson waits for the answer of another thread without
holding one.  Between any two messages, of all batches together, every other request to
the service has a turn.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Final

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Depends, Path, Query, Request, Response

from app.access.rights import Principal, Right
from app.doors.documents.message import (
    MAX_BATCH_EXPLAINED,
    MAX_MESSAGES,
    BatchIn,
    BatchOut,
    FeedbackIn,
    FeedbackOut,
    ProblemOut,
    ResultOut,
    SentIn,
    SentOut,
    TextIn,
    feedback_fields,
)
from app.doors.documents.verdict import ClassifyOut, answer_fields
from app.doors.http.body import (
    JSON_TYPE,
    Body,
    ClassifyQuery,
    FeedbackQuery,
    JsonOf,
    ProfileName,
    Recipient,
    Source,
    is_json,
    json_body,
    openapi_body,
    parse_document,
    read_message,
    reasons,
    require_json,
    schema_of,
)
from app.doors.http.errors import DEFECT, described, name_of
from app.doors.http.guard import (
    Direct,
    Guarded,
    asking,
    document,
    principal_of,
    profile_of,
)
from app.doors.serving.request import hung_up
from app.doors.serving.threads import (
    DATABASE_THREADS,
    LEARNING,
    computing,
    in_thread,
    unless_gone,
)
from app.errors import (
    BatchTooLarge,
    DatabaseUnavailable,
    EmptyMessage,
    MalformedRequest,
    MissingLabel,
    PostbayesError,
    UnsupportedContentType,
)
from app.features.observation import parse_id
from app.ledger.entry import check_source
from app.services.application import Application
from app.services.feedback import PATIENCE, Via, too_late
from app.services.log import SparingLog
from app.services.recent import marked_ids

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from concurrent.futures import Future
    from typing import Any

    from pydantic import BaseModel

    from app.services.delivery import Addressed
    from app.services.feedback import PendingFeedback
    from app.services.recent import StoredMessage
    from app.services.writer import Taught


# Each profile takes some 0.3 ms, so five make a message count as large.
PROFILE_BYTES: Final = 16 * 1024
# Batches at once: each holds up to 8 MiB of parsed JSON, and further ones wait.
BATCHES: Final = CapacityLimiter(4)
# Between any two messages, of all batches, every other request has a turn.
ONE_AT_A_TIME: Final = CapacityLimiter(1)
LOG: Final = SparingLog(logging.getLogger(__name__))
scored = APIRouter(route_class=asking(Right.CLASSIFY, Direct), tags=["mail"])
taught = APIRouter(route_class=asking(Right.TEACH, Direct), tags=["mail"])
router = APIRouter(route_class=asking(Right.TEACH), tags=["mail"])
batch = APIRouter(route_class=asking(Right.CLASSIFY), tags=["mail"])
# Supervisors have no key, and monitoring systems may add parameters.
operation = APIRouter(route_class=asking(None, Guarded), tags=["operation"])


async def application(request: Request) -> Application:
    """Return the application behind the door."""
    served: Application = request.app.state.application
    return served


App = Annotated[Application, Depends(application)]
"""The use cases."""


async def _admitted(request: Request) -> Principal:
    return principal_of(request)


Who = Annotated[Principal, Depends(_admitted)]
"""The principal of the request."""


async def _of_path(request: Request, name: Annotated[str, Path(max_length=128)]) -> str:
    return profile_of(request, name)


async def _of_query(request: Request, profile: ProfileName = None) -> str:
    return profile_of(request, profile)


async def digest_of_path(id: str) -> bytes:  # noqa: A002  part of the interface
    """Return the digest of the message whose id is in the path."""
    return parse_id(id)


Named = Annotated[str, Depends(_of_path)]
"""The profile in the path, which the client may use."""
Queried = Annotated[str, Depends(_of_query)]
"""The profile of the query, or that of the client or the site."""


_PROBLEM: Final = {"application/problem+json": {"schema": schema_of(ProblemOut)}}


def problems(*statuses: int, public: bool = False) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI descriptions of a route's errors."""
    # Every route checks the origin of a request and whether there is a place for it,
    # and most check the client.
    found = {403, 429, 503, *statuses} | (set() if public else {401})
    # A database that can be away can be damaged.
    if HTTPStatus.SERVICE_UNAVAILABLE in statuses:
        found.add(500)
    return {
        status: {"description": name_of(HTTPStatus(status)), "content": _PROBLEM}
        for status in sorted(found)
    }


def takes(model: type[BaseModel], example: object, *statuses: int) -> dict[str, Any]:
    """Return the OpenAPI descriptions of a route with a JSON body and of its errors."""
    return {
        "responses": problems(400, 408, 413, 415, 422, *statuses),
        "openapi_extra": json_body(model, example),
    }


@scored.post(
    "/classify",
    response_model=ClassifyOut,
    responses=problems(400, 404, 408, 413, 415, 422, 503),
    openapi_extra=openapi_body(TextIn),
)
async def classify(
    request: Request, body: Body, app: App, query: Annotated[ClassifyQuery, Query()]
) -> Response:
    """Score one message without learning it.

    Send the message itself as `message/rfc822`, or JSON: `{"message": "…"}`
    or the fields of a form.  The entries of `explanation` sum to `log_odds`.

    With `?recipient=`, the most personal profile answers: that of the address,
    of its domain, or of the site.  With several recipients, the answer is that
    of the most personal profile that they share, and `recipients` has an
    answer for each.
    """
    raw = await message_in(request, body)
    recipients = addressed(request, query.profile, query.recipient)
    score = partial(
        app.delivery.answer, recipients, raw, strongest=query.explain, door="http"
    )
    size = effort(raw, recipients.profiles)
    return document(
        answer_fields(await computing(score, size, partial(hung_up, request)))
    )


@batch.post(
    "/classify/batch",
    response_model=BatchOut,
    **takes(BatchIn, {"messages": [{"subject": "Lunch", "body": "At noon?"}]}, 404),
)
async def classify_batch(
    request: Request,
    body: Body,
    app: App,
    profile: ProfileName = None,
    recipient: Recipient = [],  # noqa: B006  the framework copies it
    explain: Annotated[int, reasons(MAX_BATCH_EXPLAINED)] = 0,
) -> Response:
    """Score many messages without learning them.

    Each message has the JSON fields of `/classify`. The results are in the order of
    the messages: an answer of `/classify` for each, or a problem document if it cannot
    be used, which does not affect the others. The profile and the recipients apply to
    all messages. JSON cannot hold bytes that are not UTF-8: mail that has some gets the
    `id` of the original only if it is sent raw, to `/classify`.
    """
    require_json(request)
    async with BATCHES:
        given = await computing(partial(parse_document, body, BatchIn), len(body))
        messages = given.messages
        if len(messages) > MAX_MESSAGES:
            raise BatchTooLarge(
                f"the batch has {len(messages):,} messages, and the limit is "
                f"{MAX_MESSAGES:,}; send several batches"
            )
        recipients = addressed(request, profile, recipient)
        for each in recipients.profiles:
            app.live.find(each)
        answering = _results(principal_of(request), app, recipients, explain, messages)
        results = await unless_gone(answering, hung_up(request))
    # The results are joined as bytes: one document of a thousand would block the loop.
    return Response(b'{"results":[' + b",".join(results) + b"]}", media_type=JSON_TYPE)


@taught.post(
    "/feedback",
    response_model=FeedbackOut,
    responses=problems(400, 404, 408, 409, 413, 415, 422, 503),
    openapi_extra=openapi_body(
        FeedbackIn, {"id": "0123456789abcdef0123456789abcdef", "label": "spam"}
    ),
)
async def feedback(
    request: Request, body: Body, app: App, query: Annotated[FeedbackQuery, Query()]
) -> Response:
    """Teach one message; the answer comes after it is on disk.

    Send the message with `?label=`, or JSON with a `label` and either the
    `id` that `/classify` returned or the message.  The same message with the
    same label changes nothing; with another label, it is relabelled.
    """
    if "content-type" not in request.headers:
        raise UnsupportedContentType(
            "the body has no content type, so it could come from a page of another "
            "site; send the message as message/rfc822, or JSON as application/json"
        )
    name = profile_of(request, query.profile, query.recipient)
    given = FeedbackIn()
    raw: bytes | None = body
    if is_json(request):
        given = await computing(partial(parse_document, body, FeedbackIn), len(body))
        raw = given.raw()
        if given.label and query.label not in {None, given.label}:
            msg = "the body and the query have different labels; send one of them"
            raise MalformedRequest(msg)
    label = given.label or query.label
    if not label:
        msg = 'the label is missing; give ?label=spam, or "label" in the JSON'
        raise MissingLabel(msg)
    principal = principal_of(request)
    teaching: dict[str, Any] = {
        "label": principal.require_label(label),
        "source": _source(principal, given.source or query.source),
        "via": Via("http", principal),
    }
    if given.id is None:
        message = required(raw)
        marks = [await recalled(app, name, each) for each in marked_ids(message)]
        teach = partial(app.feedback.start_teach, name, message, marks, **teaching)
        pending = await computing(teach, len(message), partial(hung_up, request))
        return document(feedback_fields(await answered(pending)))
    if raw is not None:
        raise MalformedRequest("send either the `id` or the message, not both")
    lesson = await taught_by_id(app, name, parse_id(given.id), **teaching)
    return document(feedback_fields(lesson))


@router.delete("/feedback/{id}", responses=problems(404, 409, 422, 503))
async def forget(
    request: Request,
    who: Who,
    digest: Annotated[bytes, Depends(digest_of_path)],
    app: App,
    profile: ProfileName = None,
    recipient: Recipient = [],  # noqa: B006  the framework copies it
    source: Source = None,
) -> FeedbackOut:
    """Forget one message for good, as if it had never been scored or learned.

    No undo restores it. Its words are deleted before the answer, and its features
    within two minutes. If nothing of the message is stored, the answer is 404.
    """
    name = profile_of(request, profile, recipient)
    who.require_every_label("forget messages")
    origin, via = _source(who, source), Via("http", who)
    begin = partial(app.feedback.start_forget, name, digest, source=origin, via=via)
    pending = await computing(begin, 0)
    return FeedbackOut.of(await answered(pending))


@router.post(
    "/sent",
    **takes(SentIn, {"sender": "ann@example.org", "recipients": ["carl@example.net"]}),
)
async def sent(who: Who, mail: JsonOf[SentIn], app: App) -> SentOut:
    """Count the recipients of a user's message as correspondents.

    For mail servers without the milter, which does this by itself. Only mail of users
    who have logged in counts. From then on, mail whose verified sender is one of these
    recipients has evidence of ham.
    """
    counted = app.correspondents.sent(mail.sender, mail.recipients, principal=who)
    return SentOut(counted=counted)


@operation.get("/healthz", responses=problems(public=True))
async def healthz(response: Response) -> dict[str, str]:
    """Report that the process answers.

    The header `Postbayes-Worker` has the process id.
    """
    response.headers["Postbayes-Worker"] = str(os.getpid())
    return {"status": "ok"}


@operation.get("/readyz", responses=problems(503, public=True))
async def readyz(app: App) -> dict[str, str]:
    """Report whether the profile of the site is loaded and the database answers."""
    threads = app.writer, app.scheduler
    if not all(thread.is_alive() for thread in threads):
        raise DatabaseUnavailable(
            "a thread for feedback or maintenance has died; restart the service"
        )
    # If the database server hangs, the client gets an error within this time.
    seconds = app.settings.busy_timeout + 1
    try:
        async with asyncio.timeout(seconds):
            await to_thread.run_sync(
                app.ping, abandon_on_cancel=True, limiter=DATABASE_THREADS
            )
    except TimeoutError as error:
        msg = f"the database did not answer within {seconds:g} seconds"
        raise DatabaseUnavailable(msg) from error
    return {"status": "ready"}


async def message_in(request: Request, body: bytes) -> bytes:
    """Return the message of a body, which is raw or JSON.

    Raises
    ------
    EmptyMessage, MalformedRequest
        If the JSON has no message, or another form.
    """
    if not is_json(request):
        return body
    read = await computing(lambda: parse_document(body, TextIn).raw(), len(body))
    return required(read)


def required(raw: bytes | None) -> bytes:
    """Return a message; raise if there is none.

    Raises
    ------
    EmptyMessage
        If there is none.
    """
    if raw is None:
        raise EmptyMessage(
            "the JSON has no message; give `message`, or fields such as `subject`, "
            "`from` and `body`"
        )
    return raw


def effort(raw: bytes, profiles: Collection[str]) -> int:
    """Return the size of a message with the same cost for one profile.  Unit: bytes."""
    return len(raw) + PROFILE_BYTES * (len(profiles) - 1)


def addressed(
    request: Request, profile: str | None, recipients: Sequence[str]
) -> Addressed:
    """Return the profiles that answer a request.

    Raises
    ------
    Forbidden
        If the principal may not use one of them.
    """
    principal = principal_of(request)
    if not recipients:
        profile = profile or principal.only_profile
    app: Application = request.app.state.application
    return app.delivery.address(recipients, profile=profile, principal=principal)


def _source(principal: Principal, given: str | None) -> str:
    """Return the source of feedback; only some clients may set it."""
    if given:
        check_source(given)
    return principal.source(given)


async def recalled(
    app: Application, profile: str, digest: bytes, *, within: float = 0.0
) -> StoredMessage:
    """Return the stored data of a message, waiting some seconds for it.

    Raises
    ------
    UnknownProfile
        If there is no such profile.
    DatabaseUnavailable
        If the database does not answer.
    """
    # The common case, without a change of threads.
    stored = app.recall.at_hand(profile, digest)
    if stored is None:
        look_up = partial(app.recall.look_up, within=within)
        stored = await in_thread(LEARNING, look_up, profile, digest)
    return stored


async def taught_by_id(
    app: Application, profile: str, digest: bytes, **teaching: Any
) -> Taught:
    """Teach a stored message, and return the outcome once it is on disk."""
    stored = await recalled(app, profile, digest, within=app.recall.write_behind)
    teach = partial(app.feedback.start_teach_by_id, profile, digest, stored, **teaching)
    return await answered(await computing(teach, 0))


async def answered(pending: PendingFeedback) -> Taught:
    """Return the outcome of a lesson once it is on disk.

    Raises
    ------
    DatabaseUnavailable
        If it could not be stored in time.
    UnknownMessage
        If the message cannot be changed, or does not exist.
    """
    return pending.checked(await in_time(pending.answer))


async def in_time(answer: Future[Taught]) -> Taught:
    """Wait for an answer, and return it.

    Raises
    ------
    DatabaseUnavailable
        If it does not come in time, or is this error.
    """
    if answer.done():
        return answer.result()
    try:
        async with asyncio.timeout(PATIENCE):
            # Shielded, because the thread goes on with what it has begun.
            return await asyncio.shield(asyncio.wrap_future(answer))
    except TimeoutError as error:
        raise too_late() from error


async def _answer(
    app: Application, addressed: Addressed, explain: int, message: object
) -> ClassifyOut:
    """Return the answer about one message of a batch."""
    size = sys.getsizeof(message)
    if isinstance(message, dict):
        size += sum(map(sys.getsizeof, message.values()))
    raw = required(await computing(lambda: read_message(message).raw(), size))
    score = partial(app.delivery.answer, addressed, raw, strongest=explain, door="http")
    return ClassifyOut.of(await computing(score, effort(raw, addressed.profiles)))


async def _results(
    principal: Principal,
    app: Application,
    addressed: Addressed,
    explain: int,
    messages: Sequence[object],
) -> list[bytes]:
    """Return the results of messages; after each, other requests take a turn."""
    results = []
    for message in messages:
        async with ONE_AT_A_TIME:
            try:
                answer = await _answer(app, addressed, explain, message)
                result = ResultOut(answer=answer, problem=None)
            except PostbayesError as error:
                result = ResultOut(answer=None, problem=described(error, principal))
            # The outermost point of a message: its failure must not affect the others.
            except Exception:
                LOG.exception("a message of a batch could not be scored")
                result = ResultOut(answer=None, problem=DEFECT)
            results.append(result.model_dump_json().encode())
            await asyncio.sleep(0)
    return results
