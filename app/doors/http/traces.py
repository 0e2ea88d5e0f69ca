"""Traces of HTTP requests: a span for each, where somebody traces."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


class TraceRequests:
    """Makes a span of each request, within the trace of the client that names one.

    Parameters
    ----------
    app : ASGI application
        What answers.
    tracer : Tracer
        What makes spans.
    """

    def __init__(self, app: ASGIApp, tracer: Tracer) -> None:
        from opentelemetry.propagate import extract  # noqa: PLC0415
        from opentelemetry.trace import SpanKind  # noqa: PLC0415

        self._app = app
        self._tracer = tracer
        self._extract = extract
        self._kind = SpanKind.SERVER

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass everything on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        # `traceparent` and `tracestate` (W3C Trace Context).
        carrier = {
            name.decode("latin-1"): value.decode("latin-1")
            for name, value in scope["headers"]
            if name.startswith(b"trace")
        }
        method = scope["method"]
        with self._tracer.start_as_current_span(
            method, context=self._extract(carrier), kind=self._kind
        ) as span:

            async def noting(message: Message) -> None:
                if message["type"] == "http.response.start":
                    # Not the path, which may name a person.
                    route = getattr(scope.get("route"), "path_format", None)
                    if route is not None:
                        span.update_name(f"{method} {route}")
                        span.set_attribute("http.route", route)
                    span.set_attribute("http.request.method", method)
                    span.set_attribute("http.response.status_code", message["status"])
                await send(message)

            await self._app(scope, receive, noting)
