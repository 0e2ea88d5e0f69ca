"""Request bodies: reading with a limit, and parsing by content type."""

from __future__ import annotations

import json
import re
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

from fastapi import Depends, Query, Request
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.json_schema import GenerateJsonSchema, models_json_schema

from app.doors.documents.message import TextIn
from app.doors.documents.verdict import MAX_EXPLAINED
from app.doors.http.errors import list_faults
from app.doors.serving.request import take
from app.doors.serving.threads import computing
from app.errors import EmptyMessage, MalformedRequest, UnsupportedContentType
from app.ledger.entry import MAX_SOURCE, PRINTABLE
from app.mail.limits import MAX_BYTES

if TYPE_CHECKING:
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core.core_schema import WithDefaultSchema

# Recipients: RFC 5321 section 4.5.3.1.8 requires a server to accept 100; Postfix sends
# 50 at once (default_destination_recipient_limit).
MAX_QUERIED: Final = 100
ProfileName = Annotated[
    str | None,
    Query(
        description="Name of the profile. If it is not given, the profile of the "
        "recipients answers or, without recipients, that of POSTBAYES_PROFILE."
    ),
]
Recipient = Annotated[
    list[str],
    Query(
        max_length=MAX_QUERIED,
        description="Recipient of the message: an address or a user's name. May be "
        "repeated.",
    ),
]
Label = Annotated[
    str | None,
    Query(description="The label of the message, one of the profile's labels."),
]
Source = Annotated[
    str | None,
    Query(
        max_length=MAX_SOURCE,
        pattern=PRINTABLE,
        description="The source of the feedback, kept in the ledger.",
    ),
]


def reasons(most: int) -> Any:
    """Return the parameter for the length of an explanation."""
    text = "Number of reasons on each side of the explanation."
    return Query(ge=0, le=most, description=text)


Explain = Annotated[int, reasons(MAX_EXPLAINED)]


def at_most(most: int) -> Any:
    """Return the parameter for the length of an answer."""
    return Query(ge=1, le=most)


class ClassifyQuery(BaseModel):
    """The query of `/classify`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    profile: ProfileName = None
    recipient: Recipient = []
    explain: Explain = 10


class FeedbackQuery(BaseModel):
    """The query of `/feedback`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    label: Label = None
    profile: ProfileName = None
    recipient: Recipient = []
    source: Source = None


MOST_PARTS: Final = 32_768
"""Most strings, commas and brackets of a document.

A batch of 1,000 messages with every field has 22,000.  Parsing more would block other
requests: in 8 MiB, repeated ``{},`` took 0.3 s of CPU, ``[],`` inside of a message 1.0
s, and 800,000 unknown names 3.8 s.  Counting them takes 0.02 s.
"""


def require_few_parts(body: bytes, *, most: int = MOST_PARTS) -> None:
    """Raise if a JSON document has more parts than any request needs.

    Raises
    ------
    MalformedRequest
        If it has more.

    Notes
    -----
    Parts are counted up to the first byte that is not JSON, where a parser stops.

    Examples
    --------
    >>> require_few_parts(b'{"body": "' + b"{},[]," * MOST_PARTS + b'"}')
    """
    # Each part has at least one byte.
    if len(body) <= most:
        return
    # The content of strings is cut out before counting.
    bare = body.replace(rb"\\", b"").replace(rb"\"", b"")
    parts = bare.count(b'"') // 2
    if parts <= most:
        outside = b"".join(bare.split(b'"')[::2])
        parts += sum(outside.count(mark) for mark in (b",", b"[", b"{"))
    if parts > most:
        raise MalformedRequest(
            f"the JSON body has more than {most:,} strings, commas and brackets, more "
            "than any message needs; send the message as a string in `message`, or "
            "raw as message/rfc822"
        )


RAW_TYPES: Final = ("message/rfc822", "message/global", "application/octet-stream")
JSON_TYPE: Final = "application/json"
# JSON must be held whole to be parsed. The limit is twice that of the parser, because
# JSON escapes rarely double a text.
MAX_JSON_BYTES: Final = 2 * MAX_BYTES
Document = TypeVar("Document", bound=BaseModel)


async def read_body(request: Request) -> bytes:
    """Return the body of a request, or stop as soon as it is too large.

    Of a raw message, only the bytes that the parser reads are kept, and one more that
    shows that it is longer: many large messages at once must not fill the memory.

    Raises
    ------
    UnsupportedContentType
        If it is neither a message nor JSON, or is JSON that does not say so.
    MessageTooLarge
        If it is over the limit; the rest is not read.
    SlowRequest
        If it does not arrive in time.
    EmptyMessage
        If there is no body.
    """
    limit: int = request.app.state.application.settings.max_request_bytes
    kept = MAX_BYTES + 1
    if is_json(request):
        limit = kept = min(limit, MAX_JSON_BYTES)
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding != "identity":
        raise UnsupportedContentType(
            f"the content encoding {encoding[:64]!r} is not supported; send the body "
            "without encoding"
        )
    body = await take(request, limit=limit, kept=kept)
    if not body:
        raise EmptyMessage(
            "the request has no body; send the JSON that its content type announces"
            if is_json(request)
            else "the request has no body; send the message itself as message/rfc822, "
            "or JSON as application/json"
        )
    # No header begins so (RFC 5322 section 2.2): a client forgot the type of its JSON.
    if "content-type" not in request.headers and re.match(rb'{\s*"', body):
        raise UnsupportedContentType(
            "the body is JSON without a content type; send it as application/json, or "
            "a raw message as message/rfc822"
        )
    return body


Body = Annotated[bytes, Depends(read_body)]


def is_json(request: Request) -> bool:
    """Return whether the content type says JSON, not a raw message.

    Raises
    ------
    UnsupportedContentType
        If it says neither.  A missing type means a raw message.
    """
    media_type = _media_type(request)
    if media_type in RAW_TYPES:
        return False
    if media_type == JSON_TYPE:
        return True
    raise UnsupportedContentType(
        f"the content type {media_type[:64]!r} is not supported; send a raw message "
        "as message/rfc822 (curl: -H 'Content-Type: message/rfc822' --data-binary "
        "@FILE), or JSON as application/json"
    )


def _media_type(request: Request) -> str:
    header = request.headers.get("content-type", RAW_TYPES[0])
    return header.partition(";")[0].strip().lower()


def read_message(value: object) -> TextIn:
    """Parse a part of a JSON body as a message.

    Raises
    ------
    MalformedRequest
        If it does not have that form.
    """
    if not isinstance(value, dict):
        raise MalformedRequest(
            "a message must be an object with `message`, or with fields such as "
            f"`subject` and `body`; got {value!r:.64}"
        )
    try:
        return TextIn.model_validate(value)
    except ValidationError as error:
        raise _refusal(error, "the message", TextIn) from error


def parse_document(body: bytes, model: type[Document]) -> Document:
    """Parse a JSON body as a document.

    Raises
    ------
    MalformedRequest
        If it is not JSON, has too many parts, or does not have that form.
    """
    require_few_parts(body)
    try:
        # Refused here at the first invalid byte, where the parser below would go on.
        body.decode()
    except UnicodeDecodeError as error:
        raise MalformedRequest(
            f"the JSON body cannot be used: it is not valid UTF-8 at byte {error.start}"
        ) from error
    try:
        try:
            return model.model_validate_json(body)
        except ValidationError as error:
            if error.errors(include_url=False, include_input=False)[0]["type"] != (
                "json_invalid"
            ):
                raise
            return model.model_validate(_lenient(body))
    except ValidationError as error:
        raise _refusal(error, "the JSON body", model) from error


def _refusal(
    error: ValidationError, what: str, model: type[BaseModel]
) -> MalformedRequest:
    found = error.errors(include_url=False, include_input=False)
    faults = list_faults(found, model, of="field")
    return MalformedRequest(f"{what} cannot be used: {faults}")


def require_json(request: Request) -> None:
    """Raise unless the content type of a request is JSON.

    Raises
    ------
    UnsupportedContentType
        If it is a message, or another type.
    """
    if _media_type(request) != JSON_TYPE:
        raise UnsupportedContentType(
            "send JSON, as application/json (curl: -H 'Content-Type: application/json')"
        )


if TYPE_CHECKING:
    JsonOf = Annotated[Document, ...]
    """The document of a request that accepts only JSON."""
else:

    class JsonOf:
        """The document of a request that accepts only JSON."""

        def __class_getitem__(cls, model: type[BaseModel]) -> Any:
            """Return the type of a parameter, with the dependency that reads it."""

            async def read(request: Request) -> BaseModel:
                require_json(request)
                body = await read_body(request)
                return await computing(partial(parse_document, body, model), len(body))

            return Annotated[model, Depends(read)]


def _lenient(body: bytes) -> object:
    """Parse JSON that pydantic refuses although RFC 8259 allows it.

    A text that was cut inside an emoji has a lone surrogate, which programs write as
    JSON.  If it were refused, spammers could use it to get around the filter of callers
    that accept mail without an answer.

    Raises
    ------
    MalformedRequest
        If it is not JSON.
    """
    try:
        return json.loads(
            json.dumps(json.loads(body), ensure_ascii=False).encode("utf-8", "replace")
        )
    except (ValueError, RecursionError) as error:
        msg = f"the JSON body cannot be used: Invalid JSON: {error}"
        raise MalformedRequest(msg) from error


_TEMPLATE: Final = "#/components/schemas/{model}"
_MODELS: Final[set[type[BaseModel]]] = set()
MESSAGE: Final = "From: ann@example.org\nSubject: Lunch\n\nShall we meet at noon?\n"
FORM: Final = {"subject": "Lunch", "body": "Shall we meet at noon?"}


def openapi_body(model: type[TextIn], document: object = FORM) -> dict[str, Any]:
    """Return the OpenAPI description of a body that is not parsed by the framework."""
    described = json_body(model, document)
    # Last, because openapi-generator takes the schema of the first type, and sends JSON
    # wherever it is accepted: it would send a message as JSON.
    raw = {"schema": {"type": "string", "format": "binary"}, "example": MESSAGE}
    described["requestBody"]["content"][RAW_TYPES[0]] = raw
    return described


def json_body(model: type[BaseModel], example: object) -> dict[str, Any]:
    """Return the description in OpenAPI of a body that is only JSON."""
    content = {JSON_TYPE: {"schema": schema_of(model), "example": example}}
    return {"requestBody": {"required": True, "content": content}}


def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """Return the reference to the schema of a document, which `make_schemas` makes."""
    _MODELS.add(model)
    return {"$ref": _TEMPLATE.format(model=model.__name__)}


class _Optional(GenerateJsonSchema):
    """Schemas without the defaults that are null, as the framework makes them.

    openapi-typescript requires each field with a default, also in what is sent.
    """

    def default_schema(self, schema: WithDefaultSchema) -> JsonSchemaValue:
        """Return the schema of a field."""
        made = super().default_schema(schema)
        if made.get("default", "") is None:
            del made["default"]
        return made


def make_schemas() -> dict[str, Any]:
    """Make the schemas that are referred to, and those of the documents in them."""
    models = sorted(_MODELS, key=lambda model: model.__name__)
    _, made = models_json_schema(
        [(model, "validation") for model in models],
        ref_template=_TEMPLATE,
        schema_generator=_Optional,
    )
    schemas: dict[str, Any] = made["$defs"]
    return schemas
