"""`GET /docs`: the reference of the interface as a page without scripts.

The page of the framework loads its scripts from another site, which a mail
server's network has no way to, and which would see who looks.  This one is
made from the same OpenAPI document, and has no script at all.

Both are constant, and are made once: the document takes 8 ms of CPU, in which nobody
else is served, and as bytes 0.02 ms.
"""

from __future__ import annotations

import json
from html import escape
from typing import TYPE_CHECKING, Any, Final

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse

from app.doors.http.guard import Guarded, asking

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

# The interface of every service of this version, and nothing of this one.
router = APIRouter(route_class=asking(None, Guarded))
_STYLE: Final = """
:root { color-scheme: light dark; --line: #8884; --mark: #2a7d4f; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem;
       margin: 2rem auto; padding: 0 1rem; }
h1 { margin-bottom: 0; } h2 { margin-top: 3rem; border-top: 1px solid var(--line);
     padding-top: 1rem; }
code, pre { font: 14px/1.5 ui-monospace, monospace; } h2 code { font-size: inherit; }
pre { padding: .8rem; border: 1px solid var(--line); border-radius: 6px;
      overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .3rem .8rem .3rem 0;
         border-bottom: 1px solid var(--line); }
.method { color: var(--mark); font-weight: 600; }
"""
# No page has it: it stands where the address of the service is put in.
_BASE: Final = "\N{OBJECT REPLACEMENT CHARACTER}"


def _documents(request: Request) -> tuple[bytes, bytes]:
    """Return the OpenAPI document and the page of an application."""
    state = request.app.state
    if not hasattr(state, "documents"):
        api = request.app.openapi()
        openapi = json.dumps(api, ensure_ascii=False, separators=(",", ":"))
        state.documents = openapi.encode(), page(api, _BASE).encode()
    made: tuple[bytes, bytes] = state.documents
    return made


@router.get("/openapi.json", include_in_schema=False)
async def openapi(request: Request) -> Response:
    """Return the OpenAPI document."""
    document, _ = _documents(request)
    return Response(document, media_type="application/json")


@router.get("/docs", include_in_schema=False)
async def docs(request: Request) -> HTMLResponse:
    """Return the page."""
    base = escape(str(request.base_url).rstrip("/"))
    _, html = _documents(request)
    return HTMLResponse(
        html.replace(_BASE.encode(), base.encode()),
        # Nothing is loaded, whatever somebody may have written into a text.
        headers={
            "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"
        },
    )


def page(api: Mapping[str, Any], base: str) -> str:
    """Return an OpenAPI document as one page of HTML.

    Parameters
    ----------
    api : mapping
        The document, as FastAPI makes it.
    base : str
        Where the service is, for the commands.
    """
    operations = [
        (method.upper(), path, operation)
        for path, methods in api["paths"].items()
        for method, operation in methods.items()
    ]
    schemas = api.get("components", {}).get("schemas", {})
    title = f"{api['info']['title']} {api['info']['version']}"
    index = _table(
        ("operation", "what it does"),
        (
            (_link(method, path), escape(_first(operation)))
            for method, path, operation in operations
        ),
    )
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width'>",
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{escape(title)}</h1>",
        _text(api["info"].get("description", "")),
        "<p>For programs: <a href='openapi.json'>openapi.json</a></p>",
        index,
    ]
    for method, path, operation in operations:
        parts += _operation(method, path, operation, schemas, base)
    return "\n".join((*parts, "</body></html>"))


def _operation(
    method: str,
    path: str,
    operation: Mapping[str, Any],
    schemas: Mapping[str, Any],
    base: str,
) -> Iterator[str]:
    """Yield the section of one operation."""
    yield f"<h2 id='{_anchor(method, path)}'>{_name(method, path)}</h2>"
    yield _text(operation.get("description", ""))
    yield f"<pre>{escape(_command(method, path, operation, base))}</pre>"
    rows = [
        (
            f"<code>{escape(each['name'])}</code>",
            escape(each["in"]),
            escape(each.get("description", "")),
        )
        for each in operation.get("parameters", ())
    ]
    if rows:
        yield _table(("parameter", "in", "meaning"), rows)
    body = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if body is not None:
        yield "<h3>Fields of a JSON body</h3>"
        yield _fields(body["schema"], schemas)
    answer = operation["responses"].get("200", {}).get("content", {})
    if "application/json" in answer:
        yield "<h3>Fields of the answer</h3>"
        yield _fields(answer["application/json"]["schema"], schemas)
    statuses = [
        (f"<code>{escape(status)}</code>", escape(each.get("description", "")))
        for status, each in operation["responses"].items()
        if status != "200"
    ]
    if statuses:
        yield _table(("status", "problem (RFC 9457)"), statuses)


def _command(method: str, path: str, operation: Mapping[str, Any], base: str) -> str:
    """Return a request as a shell command."""
    words = ["curl -sS"]
    if method not in ("GET", "POST"):
        words.append(f"-X {method}")
    taken = operation.get("requestBody", {}).get("content", {})
    if "message/rfc822" in taken:
        words.append("-H 'Content-Type: message/rfc822' --data-binary @message.eml")
    elif "application/json" in taken:
        example = json.dumps(taken["application/json"].get("example", {}))
        words.append(f"-H 'Content-Type: application/json' -d '{example}'")
    return " ".join([*words, f"'{base}{path}'"])


def _fields(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    """Return the fields of a document, with those inside it, as a table."""
    return _table(("field", "meaning"), _walk(schema, schemas, ""))


def _walk(
    schema: Mapping[str, Any], schemas: Mapping[str, Any], prefix: str
) -> Iterator[tuple[str, str]]:
    """Yield name and meaning of the fields of a schema, depth first."""
    if "$ref" in schema:
        schema = schemas[schema["$ref"].rpartition("/")[2]]
    for name, field in schema.get("properties", {}).items():
        meaning = escape(field.get("description", ""))
        yield f"<code>{escape(prefix + name)}</code>", meaning
        for inner, mark in _inside(field):
            # One level is what a reader needs; the rest is in openapi.json.
            if not prefix:
                yield from _walk(inner, schemas, f"{name}{mark}.")


def _inside(field: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Yield the documents in a field, and how to write the step to them."""
    values = field.get("additionalProperties")
    candidates = [(each, "") for each in (field, *field.get("anyOf", ()))]
    candidates.append((field.get("items", {}), "[]"))
    candidates.append((values if isinstance(values, dict) else {}, ".*"))
    yield from (each for each in candidates if "$ref" in each[0])


def _first(operation: Mapping[str, Any]) -> str:
    return str(operation.get("description", "")).partition("\n")[0]


def _anchor(method: str, path: str) -> str:
    kept = (c if c.isalnum() else "-" for c in f"{method}{path}".lower())
    return "".join(kept).strip("-")


def _name(method: str, path: str) -> str:
    return f"<span class='method'>{escape(method)}</span> <code>{escape(path)}</code>"


def _link(method: str, path: str) -> str:
    return f"<a href='#{_anchor(method, path)}'>{_name(method, path)}</a>"


def _text(text: str) -> str:
    """Return text with `code` in backquotes as paragraphs."""
    paragraphs = []
    for paragraph in text.strip().split("\n\n"):
        pieces = escape(" ".join(paragraph.split())).split("`")
        marked = (
            f"<code>{piece}</code>" if number % 2 else piece
            for number, piece in enumerate(pieces)
        )
        paragraphs.append(f"<p>{''.join(marked)}</p>")
    return "\n".join(paragraphs)


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table of cells that are HTML already."""
    cells = "".join(f"<th>{name}</th>" for name in head)
    lines = "".join(
        f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows
    )
    return f"<table><tr>{cells}</tr>{lines}</table>"
