"""Tracing: spans of OpenTelemetry for requests, verdicts and their stages.

Contract of this file: nothing of OpenTelemetry is imported before traces are asked for,
and no span holds anything of a mail, nor who sent or received it.
"""

from __future__ import annotations

import contextvars
import time
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from app import __version__
from app.errors import InvalidSetting
from app.services.metrics import Stages, Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
    from opentelemetry.trace import Tracer

    from app.settings import Settings

_PATH: Final = "/v1/traces"


def tally_of(settings: Settings) -> Tally:
    """Return the counters of a service, which trace as well where that is set.

    Raises
    ------
    InvalidSetting
        If the address is none, or the extra `tracing` is not installed.
    """
    if settings.traces is None:
        return Tally()
    if not settings.traces.startswith(("http://", "https://")):
        msg = (
            f"POSTBAYES_TRACES is {settings.traces!r}, and must be the address of an "
            "OpenTelemetry collector, such as http://127.0.0.1:4318"
        )
        raise InvalidSetting(msg)
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
            OTLPSpanExporter,
        )
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    except ImportError as error:
        msg = (
            "POSTBAYES_TRACES needs OpenTelemetry, which is not installed: add the "
            "extra `tracing`, as in pip install 'postbayes[tracing]', or leave the "
            "setting out"
        )
        raise InvalidSetting(msg) from error
    endpoint = settings.traces.rstrip("/").removesuffix(_PATH) + _PATH
    return TracedTally(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint)))


class TracedTally(Tally):
    """Counters that make spans of what they measure.

    Parameters
    ----------
    processor : SpanProcessor
        Where finished spans go.
    """

    def __init__(self, processor: SpanProcessor) -> None:
        super().__init__()
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415

        resource = Resource.create(
            {"service.name": "postbayes", "service.version": __version__}
        )
        # Not that of the whole process, which can be set once.
        self._provider: TracerProvider = TracerProvider(resource=resource)
        self._provider.add_span_processor(processor)
        self.tracer: Tracer = self._provider.get_tracer("postbayes", __version__)

    @contextmanager
    def delivering(self, door: str) -> Iterator[None]:
        """Measure a verdict, in a span of its own."""
        with (
            self.tracer.start_as_current_span("verdict", attributes={"door": door}),
            super().delivering(door),
        ):
            yield

    def classifying(self) -> Stages:
        """Measure the stages of a verdict, each in a span."""
        return _TracedStages(super().classifying(), self.tracer)

    def teaching(self) -> Callable[..., None]:
        """Return what counts a feedback, whose span is one of the request."""
        # The thread of the writer calls it.
        context = contextvars.copy_context()

        def taught(outcome: str, *, seconds: float) -> None:
            context.run(partial(self._taught_in_span, outcome, seconds=seconds))

        return taught

    def _taught_in_span(self, outcome: str, *, seconds: float) -> None:
        self.taught(outcome, seconds=seconds)
        _ended(self.tracer, "commit", seconds, outcome=outcome)

    def close(self) -> None:
        """Send the spans that wait."""
        self._provider.shutdown()


class _TracedStages(Stages):
    """Stages of a verdict as spans."""

    __slots__ = ("_stages", "_tracer")

    def __init__(self, stages: Stages, tracer: Tracer) -> None:
        self._stages = stages
        self._tracer = tracer

    def passed(self, stage: str) -> float:
        """Note the end of a stage."""
        seconds = self._stages.passed(stage)
        _ended(self._tracer, stage, seconds)
        return seconds


def _ended(tracer: Tracer, name: str, seconds: float, **attributes: Any) -> None:
    """Make a span of what took so long until now."""
    now = time.time_ns()
    begun = now - int(1e9 * seconds)
    tracer.start_span(name, start_time=begun, attributes=attributes).end(now)
