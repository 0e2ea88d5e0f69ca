"""Metrics: counters, timings and traces for a monitoring system.

All doors of a process share one set of counters.  Several workers write their counts
into files in a shared folder, and the worker that answers a request sums all files:
`prometheus_client` does so if the variable ``PROMETHEUS_MULTIPROC_DIR`` is set before
the workers start.

Contract of this file: OpenTelemetry is imported only if traces are enabled, and spans
contain neither the content of a mail nor its sender or recipients.
"""

from __future__ import annotations

import contextvars
import os
import threading
import time
from contextlib import contextmanager, nullcontext, suppress
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
)
from prometheus_client.metrics_core import Metric
from prometheus_client.multiprocess import MultiProcessCollector

from app import __version__
from app.errors import InvalidSetting, UnwritableFile, reason
from app.settings import is_web_address

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
    from opentelemetry.trace import Tracer

    from app.settings import Settings

SHARED: Final = "PROMETHEUS_MULTIPROC_DIR"
"""Variable with the folder that the workers share."""
# A verdict takes about a millisecond, and a megabyte of HTML a hundred.
# Unit: seconds.
_BUCKETS: Final = (
    *(0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05),
    *(0.1, 0.2, 0.5, 1.0, 2.0, 5.0),
)
STAGES: Final = ("parse", "features", "score")
"""The stages of a verdict, in order."""


_STARTED: Final = "gauge_min"
_KINDS: Final = ("counter", "histogram", _STARTED)
# `prometheus_client` maps the files of a worker into memory, and the kernel ends the
# process (SIGBUS) if a page finds no room on the disk when it is first written.  So all
# pages are allocated at the start; a service with all doors fills a third of them.
# Unit: bytes.
_ALLOCATED: Final = 64 * 1024


def _files() -> Iterator[Path]:
    """Yield the files that this process counts into, if it is one of several."""
    if SHARED in os.environ:
        for kind in _KINDS:
            yield Path(os.environ[SHARED], f"{kind}_{os.getpid()}.db")


def _allocate() -> None:
    """Allocate the files of this process.

    Raises
    ------
    UnwritableFile
        If there is no room for them.
    """
    for path in _files():
        try:
            # Somebody may have cleaned up.
            path.parent.mkdir(mode=0o700, exist_ok=True)
            with path.open("ab") as file:
                os.posix_fallocate(file.fileno(), 0, _ALLOCATED)
        except OSError as error:
            msg = f"{path} for the counters of a worker cannot be written: "
            raise UnwritableFile(msg + reason(error)) from error


def discard() -> None:
    """Remove the files of a worker that cannot start: nobody reads its counts."""
    for path in _files():
        # What kept the worker from making them keeps nothing there.
        with suppress(OSError):
            path.unlink()


def _workers(folder: Path) -> list[str]:
    """Return the process ids of the live workers that count into a folder."""
    # Each worker has a file for the time of its start.
    found = {file.stem.rpartition("_")[2] for file in folder.glob(f"{_STARTED}_*.db")}
    return sorted(each for each in found if Path("/proc", each).exists())


class Tally:
    """The counters of this process, or of all workers together, since the start.

    Parameters
    ----------
    processor : SpanProcessor or None
        Gets a span of each request; None if tracing is off.

    Attributes
    ----------
    tracer : Tracer or None
        Makes spans of requests; None if tracing is off.
    """

    def __init__(self, processor: SpanProcessor | None = None) -> None:
        self._provider = None if processor is None else _provider(processor)
        self.tracer: Tracer | None = None
        if self._provider is not None:
            self.tracer = self._provider.get_tracer("postbayes", __version__)
        self.registry = CollectorRegistry()
        _allocate()
        if SHARED in os.environ:
            own = None
            MultiProcessCollector(self.registry)  # type: ignore[no-untyped-call]
        else:
            own = self.registry

        # Looked up once, because a look-up takes longer than counting.
        def counter(
            name: str, meaning: str, *by: str, alarming: Iterable[tuple[str, ...]] = ()
        ) -> Callable[..., None]:
            labelled = cache(Counter(name, meaning, by, registry=own).labels)
            # Shown from 0 on: to Prometheus, a series that begins with 1 has not grown.
            for labels in alarming:
                labelled(*labels)

            def count(*labels: str | int) -> None:
                labelled(*labels).inc()

            return count

        histogram = partial(Histogram, buckets=_BUCKETS, registry=own)
        self.classified = counter(
            "postbayes_classified",
            "Messages that were classified, by decision.",
            "decision",
        )
        self.acted = counter(
            "postbayes_actions",
            "Messages from mail servers, by the requested action; skipped: mail of "
            "users who have logged in; unmarked: not scored in time, or because of an "
            "error.",
            *("door", "action"),
            alarming=[("milter", "unmarked")],
        )
        self.asked = counter(
            "postbayes_door_requests", "Requests from mail servers.", "door"
        )
        self.learned = counter(
            "postbayes_door_learned", "Messages that clients taught, by door.", "door"
        )
        self.refused = counter(
            "postbayes_access_refused",
            "Refused requests, by reason: an invalid key, no key, a missing right, or "
            "too many requests.",
            "reason",
        )
        self.sign_in_refused = counter(
            "postbayes_sign_in_refused",
            "Refused sign-ins, by reason: a wrong name or password, an answer of the "
            "provider, or too many attempts.",
            "reason",
        )
        self.answered = counter(
            "postbayes_http_responses", "HTTP answers, by status.", "status"
        )
        self.posted = counter(
            "postbayes_webhook_events",
            "Webhook events: sent, dropped, and failed attempts.",
            "outcome",
        )
        self._taught = counter(
            "postbayes_feedback",
            "Answered feedback, by outcome.",
            "outcome",
            alarming=[("failed",)],
        )
        self._teaching = histogram(
            "postbayes_feedback_seconds",
            "Time from the scored message to its feedback on disk.",
        )
        # The oldest start: a worker that replaces another does not restart the service.
        started = Gauge(
            "postbayes_started_seconds",
            "Start time of the service, in Unix time.",
            registry=own,
            multiprocess_mode="min",
        )
        started.set_to_current_time()
        delivering = histogram(
            "postbayes_classify_seconds",
            "Time from the message to its verdict, without the network, by door.",
            ("door",),
        )
        self._delivering = cache(delivering.labels)
        # Each stage takes 1.3 of the 1,000 microseconds of a verdict, or 4.7 if several
        # workers count into files. A look-up would take as long again.
        stages = histogram(
            "postbayes_stage_seconds",
            "Time of each stage of a verdict: parse, features and score (with the "
            "explanation).",
            ("stage",),
        )
        self._stages = {stage: stages.labels(stage) for stage in STAGES}

    def teaching(self) -> Callable[..., None]:
        """Return the function that counts one lesson when it ends.

        It is given the outcome, and how long the feedback waited for the disk.
        """
        # Called by the writer's thread.
        context = contextvars.copy_context()

        def taught(outcome: str, *, seconds: float) -> None:
            self._taught(outcome)
            self._teaching.observe(seconds)
            if self.tracer is not None:
                context.run(_ended, self.tracer, "commit", seconds, outcome=outcome)

        return taught

    @contextmanager
    def delivering(self, door: str) -> Iterator[None]:
        """Measure how long a verdict takes for all its recipients."""
        with (
            nullcontext()
            if self.tracer is None
            else self.tracer.start_as_current_span("verdict", attributes={"door": door})
        ):
            begun = time.perf_counter()
            yield
            self._delivering(door).observe(time.perf_counter() - begun)

    def classifying(self) -> Callable[[str], None]:
        """Return the function that notes the end of each of the `STAGES` of a verdict.

        A stage begins at the end of the one before.
        """
        begun = time.perf_counter()

        def passed(stage: str) -> None:
            nonlocal begun
            now = time.perf_counter()
            self._stages[stage].observe(now - begun)
            if self.tracer is not None:
                _ended(self.tracer, stage, now - begun)
            begun = now

        return passed

    def close(self) -> None:
        """Send the waiting spans for a moment; the collector may be away."""
        if self._provider is not None:
            # By itself, it would try for 10 to 30 s, and the service could not restart.
            closing = threading.Thread(target=self._provider.shutdown, daemon=True)
            closing.start()
            closing.join(LAST)

    def uptime(self) -> float:
        """Return how long the service with all its workers has run.  Unit: seconds."""
        started = self.registry.get_sample_value("postbayes_started_seconds")
        return max(0.0, time.time() - (started or time.time()))

    def processes(self) -> Iterator[Metric]:
        """Yield CPU time, memory, start and descriptors of the process.

        If there are several workers, one value for each, with its process id.
        """
        if SHARED not in os.environ:
            yield from ProcessCollector(registry=None).collect()
            return
        families: dict[str, Metric] = {}
        for worker in _workers(Path(os.environ[SHARED])):
            collector = ProcessCollector(pid=partial(int, worker), registry=None)
            for found in collector.collect():
                family = families.setdefault(
                    found.name, Metric(found.name, found.documentation, found.type)
                )
                for sample in found.samples:
                    family.add_sample(sample.name, {"worker": worker}, sample.value)
        yield from families.values()

    def counts(self, name: str, label: str) -> dict[str, int]:
        """Return a counter by one of its labels, for doors that show statistics.

        Examples
        --------
        >>> tally = Tally()
        >>> tally.classified("spam")
        >>> tally.counts("postbayes_classified", "decision")
        {'spam': 1}
        """
        found: dict[str, int] = {}
        for family in self.registry.collect():
            for sample in family.samples:
                if sample.name == f"{name}_total":
                    key = sample.labels[label]
                    found[key] = found.get(key, 0) + int(sample.value)
        return found


_PATH: Final = "/v1/traces"
LAST: Final = 2.0
"""How long a stopping service goes on sending spans.  Unit: seconds."""


def tally_of(settings: Settings) -> Tally:
    """Return the counters of a service, which also trace if the settings say so.

    Raises
    ------
    InvalidSetting
        If the address is invalid, or the extra `tracing` is not installed.
    """
    if settings.traces is None:
        return Tally()
    if not is_web_address(settings.traces):
        raise InvalidSetting(
            f"POSTBAYES_TRACES is {settings.traces!r}, and must be the address of an "
            "OpenTelemetry collector, such as http://127.0.0.1:4318"
        )
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
            OTLPSpanExporter,
        )
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    except ImportError as error:
        raise InvalidSetting(
            "POSTBAYES_TRACES needs OpenTelemetry, which is not installed: run pip "
            "install '.[tracing]' in the folder of the source, or leave the setting out"
        ) from error
    endpoint = settings.traces.rstrip("/").removesuffix(_PATH) + _PATH
    return Tally(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint)))


def _provider(processor: SpanProcessor) -> TracerProvider:
    """Return what makes spans; not that of the process, which can be set only once."""
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415

    provider = TracerProvider(
        resource=Resource.create(
            {"service.name": "postbayes", "service.version": __version__}
        )
    )
    provider.add_span_processor(processor)
    return provider


def _ended(tracer: Tracer, name: str, seconds: float, **attributes: Any) -> None:
    """Make a span that ends now, of the given duration."""
    now = time.time_ns()
    begun = now - int(1e9 * seconds)
    tracer.start_span(name, start_time=begun, attributes=attributes).end(now)
