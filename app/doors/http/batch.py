"""Route of a batch of messages.

Contract of this file: between any two messages, of all batches together, every other
request to the service has a turn.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final

from anyio import CapacityLimiter
from fastapi import APIRouter, Query, Request, Response

from app.access.rights import Right
from app.doors.documents.verdict import (
    MAX_BATCH_EXPLAINED,
    MAX_MESSAGES,
    BatchIn,
    BatchOut,
    ClassifyOut,
    ResultOut,
)
from app.doors.http.body import (
    JSON_TYPE,
    Body,
    ProfileName,
    Recipient,
    json_body,
    parse_document,
    read_message,
    require_json,
)
from app.doors.http.errors import DEFECT, described
from app.doors.http.guard import asking
from app.doors.http.routes import ApplicationDep, addressed, effort, problems, required
from app.doors.serving.asgi import hung_up
from app.doors.serving.process import computing, unless_gone
from app.errors import BatchTooLarge, PostbayesError
from app.services.log import SparingLog

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from app.services.application import Application
    from app.services.delivery import Addressed

LOG: Final = SparingLog(logging.getLogger(__name__))
# Each holds up to 8 MiB of JSON that is read; further ones wait.
BATCHES: Final = CapacityLimiter(4)
ONE_AT_A_TIME: Final = CapacityLimiter(1)
router = APIRouter(route_class=asking(Right.CLASSIFY))


@router.post(
    "/classify/batch",
    tags=["mail"],
    response_model=BatchOut,
    responses=problems(400, 404, 408, 413, 415, 422),
    openapi_extra=json_body(
        BatchIn, {"messages": [{"subject": "Lunch", "body": "At noon?"}]}
    ),
)
async def classify_batch(
    request: Request,
    body: Body,
    app: ApplicationDep,
    profile: ProfileName = None,
    recipient: Recipient = [],  # noqa: B006  the framework copies it
    explain: Annotated[
        int,
        Query(
            ge=0,
            le=MAX_BATCH_EXPLAINED,
            description="Number of reasons on each side of the explanation.",
        ),
    ] = 0,
) -> Response:
    """Score many messages without learning them.

    Each message has the JSON fields of `/classify`. The results are in the order of
    the messages: an answer of `/classify` for each, or a problem document if it cannot
    be used, which does not affect the others. The profile and the recipients apply to
    all messages.
    """
    require_json(request)
    async with BATCHES:
        batch = await computing(partial(parse_document, body, BatchIn), len(body))
        messages = batch.messages
        if len(messages) > MAX_MESSAGES:
            msg = (
                f"the batch has {len(messages):,} messages, and the limit is "
                f"{MAX_MESSAGES:,}; send several batches"
            )
            raise BatchTooLarge(msg)
        asked = addressed(request, profile, recipient)
        for each in asked.profiles:
            app.live.find(each)
        answer = partial(_answer, app, asked, explain)
        results = await unless_gone(_results(answer, messages), hung_up(request))
    # Joined as they are: to make one document of a thousand would hold up the loop.
    return Response(b'{"results":[' + b",".join(results) + b"]}", media_type=JSON_TYPE)


async def _answer(
    app: Application, asked: Addressed, explain: int, message: object
) -> ClassifyOut:
    """Return the answer about one message of a batch."""
    size = sys.getsizeof(message)
    if isinstance(message, dict):
        size += sum(map(sys.getsizeof, message.values()))
    raw = required(await computing(lambda: read_message(message).raw(), size))
    score = partial(app.delivery.answer, asked, raw, strongest=explain, door="http")
    return ClassifyOut.of(await computing(score, effort(raw, asked.profiles)))


async def _results(
    answer: Callable[[object], Awaitable[ClassifyOut]], messages: Sequence[object]
) -> list[bytes]:
    return [await _result(answer, message) for message in messages]


async def _result(
    answer: Callable[[object], Awaitable[ClassifyOut]], message: object
) -> bytes:
    """Return the result of one message, and let other requests have a turn."""
    async with ONE_AT_A_TIME:
        try:
            result = ResultOut(answer=await answer(message), problem=None)
        except PostbayesError as error:
            result = ResultOut(answer=None, problem=described(error))
        # The outermost point of a message: the others have another chance.
        except Exception:
            LOG.exception("a message of a batch could not be scored")
            result = ResultOut(answer=None, problem=DEFECT)
        encoded = result.model_dump_json().encode()
        await asyncio.sleep(0)
    return encoded
