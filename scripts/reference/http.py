"""Page docs/reference/http.md: requests and answers."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from app.doors.http.guard import RIGHT
from app.doors.http.metrics import Collected
from scripts.reference import errors, exchanges
from scripts.reference.exchanges import BEFORE, EXAMPLES, JSON, Exchange
from scripts.reference.markdown import block, document, paragraphs, sentences, table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_INTRODUCTION: Final = """
The service listens on `POSTBAYES_HOST` and `POSTBAYES_PORT`, 127.0.0.1:8025 by default.
Clients on the same machine need no key; others send one as `Authorization: Bearer
pb_…`, as `X-API-Key`, or as the password of Basic authentication, and need the right in
the table ([access.md](../access.md)). A running service describes the same interface as
an OpenAPI document at `/openapi.json`, and as a page at `/docs`. Clients can be
generated from it. Those by openapi-python-client leave out raw messages unless its
`content_type_overrides` map `message/rfc822` to `application/octet-stream`. Those by
@hey-api/openapi-ts have no type for raw messages: cast the body, and give
`bodySerializer: null` and the header `Content-Type`. Those by openapi-generator and
swagger-typescript-api send only JSON: mail in another encoding than UTF-8 gets its `id`
only if it is sent raw, without them. With openapi-typescript, the option
`--default-non-nullable=false` makes fields with a default optional. Field names,
outcomes and problem types are stable; new fields may be added. Log-odds and
log-posteriors are in nats: ln 9 = 2.197 means nine to one.
"""

_BEFORE: Final = """
The examples build on each other, on a new service that has learned these two messages.
Numbers are rounded to three decimals.
"""

_BODY: Final = """
The body is the message itself, as `message/rfc822` (also `message/global`,
`application/octet-stream` or, except for `/feedback`, no type at all), or JSON as
`application/json` with these fields. Only the first 4 MiB of a raw message are read. A
larger one, up to `POSTBAYES_MAX_REQUEST_BYTES`, has the defect `message-too-large`.
JSON may have 8 MiB.
"""

_JSON_BODY: Final = """
The body is JSON, as `application/json`, of 8 MiB at most, with these fields.
"""

MEANINGS: Final = {
    "status": "`ok` of `/healthz`, `ready` of `/readyz`.",
    "path.id": "The id from `/classify` or `/feedback`: 32 hexadecimal digits.",
    "path.name": "The name of the profile, the key or the person.",
}
"""Meanings of fields that the OpenAPI document gives none."""

_DESCRIPTIONS: Final = {
    "/healthz": "For a supervisor that restarts a stuck service; it depends only on "
    "the process.",
    "/readyz": "For a load balancer. It only reads the database, so a locked or full "
    "database still answers.",
}


def openapi() -> dict[str, Any]:
    """Return the OpenAPI document of the service."""
    with tempfile.TemporaryDirectory() as folder:
        app = exchanges.application(Path(folder))
        app.state.application.engine.dispose()
        api: dict[str, Any] = app.openapi()
    # A set of values belongs to the field that has it.
    written = json.dumps(api)
    for name, schema in api["components"]["schemas"].items():
        if "enum" in schema:
            link = json.dumps({"$ref": f"#/components/schemas/{name}"})
            written = written.replace(link, json.dumps(schema))
    inlined: dict[str, Any] = json.loads(written)
    return inlined


def page() -> str:
    """Return the page."""
    api = openapi()
    answers = exchanges.answers()
    schemas = api["components"]["schemas"]
    operations = [
        (method.upper(), path, operation)
        for path, methods in api["paths"].items()
        for method, operation in methods.items()
    ]
    # Each example is run after those before it.
    operations.sort(key=lambda each: [*EXAMPLES].index(each[:2]))
    overview = table(
        ("operation", "right", "purpose"),
        (
            (
                f"[`{method} {path}`](#{_anchor(method, path)})",
                operation.get(RIGHT, "none"),
                operation["summary"],
            )
            for method, path, operation in operations
        ),
    )
    before = block("sh", "\necho\n".join(each.command() for each in BEFORE))
    return document(
        "HTTP",
        sentences(_INTRODUCTION),
        overview,
        f"{sentences(_BEFORE)}\n\n{before}",
        *(
            _operation(method, path, operation, schemas, answers)
            for method, path, operation in operations
        ),
    )


def _anchor(method: str, path: str) -> str:
    kept = (c for c in f"{method} {path}".lower() if c.isalnum() or c in " -_")
    return "".join(kept).replace(" ", "-")


def _operation(
    method: str,
    path: str,
    operation: dict[str, Any],
    schemas: dict[str, Any],
    answers: Mapping[Exchange, Any],
) -> str:
    parts = [f"## {method} {path}", operation["summary"]]
    if "description" in operation:
        parts.append(paragraphs(operation["description"]))
    if path in _DESCRIPTIONS:
        parts.append(sentences(_DESCRIPTIONS[path]))
    rows = [_parameter(each) for each in operation.get("parameters", ())]
    if rows:
        parts.append(table(("parameter", "in", "type", "default", "meaning"), rows))
    if "requestBody" in operation:
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        fields = table(("field", "type", "meaning"), _fields(schema, schemas, "", None))
        raw = "message/rfc822" in operation["requestBody"]["content"]
        parts += [sentences(_BODY if raw else _JSON_BODY), fields]
    for exchange in EXAMPLES[method, path]:
        parts.append(block("sh", exchange.command()))
        parts.append(exchanges.shown(answers[exchange]))
    content = operation["responses"]["200"]["content"]
    if JSON in content:
        schema = content[JSON]["schema"]
        fields = table(("field", "type", "meaning"), _fields(schema, schemas, "", None))
        parts += ["The answer has these fields.", fields]
    elif path == "/metrics":
        parts.append(table(("metric", "type", "meaning"), _metrics()))
    parts.append(table(("status", "problem type"), _statuses(f"{method} {path}")))
    return "\n\n".join(parts)


def _metrics() -> Iterator[tuple[str, str, str]]:
    """Yield name, type and meaning of each metric of the service itself."""
    with exchanges.taught_service() as client:
        application = client.app.state.application  # type: ignore[attr-defined]
        for family in Collected(application, ["default"]).collect():
            if family.name.startswith("postbayes_"):
                total = "_total" if family.type == "counter" else ""
                yield f"`{family.name}{total}`", family.type, family.documentation


def _parameter(parameter: dict[str, Any]) -> tuple[str, str, str, str, str]:
    name, schema = parameter["name"], parameter["schema"]
    default = schema.get("default")
    meaning = parameter.get("description") or MEANINGS[f"path.{name}"]
    return (
        f"`{name}`",
        parameter["in"],
        _type(schema).removesuffix(" or null"),
        "required"
        if parameter["required"]
        else ""
        if default in (None, [])
        else f"{default}",
        meaning,
    )


def _statuses(operation: str) -> Iterator[tuple[str, str]]:
    """Yield the statuses of an operation with their problem types."""
    yield "200", "none: it is done"
    found: dict[int, list[str]] = {}
    for cls in errors.raised():
        for status in errors.statuses(cls, operation):
            link = f"[{errors.short(cls)}](errors.md#{errors.short(cls)})"
            found.setdefault(status.value, []).append(link)
    for number in sorted(found):
        yield f"{number}", ", ".join(found[number])


def _fields(
    schema: dict[str, Any], schemas: dict[str, Any], prefix: str, owner: str | None
) -> Iterator[tuple[str, str, str]]:
    """Yield name, type and meaning of each field, with those inside it."""
    if "$ref" in schema:
        owner = schema["$ref"].rpartition("/")[2]
        schema = schemas[owner]
    if "properties" not in schema:
        # An object of any keys, which two operations have: their `status`.
        yield f"`{prefix}status`", "text", MEANINGS["status"]
        return
    for name, field in schema["properties"].items():
        yield f"`{prefix}{name}`", _type(field), meaning(owner, name, field)
        inner, mark = _inside(field)
        if inner is not None:
            yield from _fields(inner, schemas, f"{prefix}{name}{mark}.", None)


def meaning(owner: str | None, name: str, field: dict[str, Any]) -> str:
    """Return the meaning of a field.

    Raises
    ------
    LookupError
        If neither the code nor this file has it.
    """
    given = field.get("description") or MEANINGS.get(f"{owner}.{name}")
    given = given or MEANINGS.get(name)
    if given is None:
        msg = f"the schema lacks a description of the field {name!r} of {owner}"
        raise LookupError(msg)
    return str(given)


def _inside(field: dict[str, Any]) -> tuple[dict[str, Any] | None, str]:
    """Return the schema of the documents in a field, and how to write the step."""
    if "$ref" in field:
        return field, ""
    for each in field.get("anyOf", ()):
        if "$ref" in each:
            return each, ""
    if "$ref" in field.get("items", ()):
        return field["items"], "[]"
    values = field.get("additionalProperties")
    if isinstance(values, dict) and "$ref" in values:
        return values, ".*"
    return None, ""


def _type(schema: dict[str, Any]) -> str:
    """Return the type of a field in words."""
    if "anyOf" in schema:
        kinds = [each for each in schema["anyOf"] if each.get("type") != "null"]
        word = " or ".join(_type(each) for each in kinds)
        return word if len(kinds) == len(schema["anyOf"]) else f"{word} or null"
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    word = _WORDS[schema.get("format") or schema.get("type", "object")]
    values = schema.get("items") or schema.get("additionalProperties")
    if isinstance(values, dict):
        word = f"{word} of {_type(values)}"
    if "maximum" in schema:
        word = f"{word} from {schema['minimum']} to {schema['maximum']}"
    if "maxLength" in schema:
        word = f"{word} of {schema['maxLength']} characters at most"
    return word


_WORDS: Final = {
    "string": "text",
    "integer": "whole number",
    "int64": "whole number",
    "number": "number",
    "boolean": "true or false",
    "array": "list",
    "object": "object",
    "date-time": "time",
}
