"""Metrics: the count and the spans of answers, and `GET /metrics` for Prometheus."""

from __future__ import annotations

import platform
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

from fastapi import APIRouter, Query, Request, Response
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.registry import Collector
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders

from app import __version__
from app.access.rights import Right
from app.doors.http.guard import Guarded, asking
from app.doors.http.page.profiles import WINDOW
from app.doors.http.routes import App, Who, problems
from app.errors import DatabaseDamaged, DatabaseUnavailable
from app.services.profiles import learned

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from opentelemetry.trace import Span, Tracer
    from prometheus_client.core import Metric
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from app.services.application import Application
    from app.services.figures import LiveFigures
    from app.services.metrics import Tally

router = APIRouter(route_class=asking(Right.READ, Guarded), tags=["operation"])
TEXT: Final = "text/plain"
MAX_PROFILES: Final = 100
"""Most profiles of a request: the figures of a newly taught one take 0.2 s."""


@router.get(
    "/metrics",
    response_class=Response,
    responses={
        200: {"content": {TEXT: {"schema": {"type": "string"}}}},
        **problems(404, 422),
    },
)
async def metrics(
    request: Request,
    who: Who,
    app: App,
    profile: Annotated[list[str], Query(max_length=MAX_PROFILES)] = [],  # noqa: B006
) -> Response:
    """Return the metrics in the format of Prometheus.

    The counters are those of all workers of the service together; another service on
    the same database has its own. The gauges are of the worker that answers, which
    follows the others within a second. Those with a `profile` are only for the
    requested profiles, so that a site with a profile for each user does not create a
    series for each. While the database is unavailable, `postbayes_database_up` is 0
    and its figures are left out. Process metrics are the standard ones of Prometheus;
    with several workers, each has its process id as `worker`.

    Parameters
    ----------
    profile
        Profile whose gauges to return; POSTBAYES_PROFILE if not given. May be repeated.
    """
    who.require_all("the metrics, which are of the whole service")
    encode, content_type = choose_encoder(request.headers.get("accept", ""))
    collected = Collected(app, profile or [app.settings.profile])
    content = await run_in_threadpool(encode, collected)
    return Response(content, media_type=content_type)


class Collected(Collector):
    """All metrics: the counters of the tally, and the state of the service.

    Raises
    ------
    UnknownProfile
        If there is no such profile.
    """

    def __init__(self, application: Application, profiles: Iterable[str]) -> None:
        self._app = application
        self._profiles = [
            application.live.find(name) for name in dict.fromkeys(profiles)
        ]

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        yield from self._app.tally.registry.collect()
        yield from self._app.tally.processes()
        families = {
            name: GaugeMetricFamily(f"postbayes_{name}", meaning, labels=labels)
            for labels, gauges in GAUGES.items()
            for name, meaning in gauges.items()
        }
        for name, labels, value in self._samples():
            families[name].add_metric(labels, value)
        yield from (family for family in families.values() if family.samples)

    def _samples(self) -> Iterator[Sample]:
        """Yield the state of the process, of the followed sites and of profiles."""
        app = self._app
        yield "build_info", (__version__, platform.python_version(), app.database), 1
        yield "profiles", (), len([*app.live])
        yield "profiles_loaded", (), sum(each.kept is not None for each in app.live)
        yield "profiles_bytes", (), app.live.nbytes
        yield "correspondents", (), len(app.correspondents)
        for kind, n in app.backlog.items():
            yield "waiting", (kind,), n
        yield "upkeep_age_seconds", (), app.scheduler.age
        for site in app.follower:
            up = site.failure is None and site.left is not None
            yield "followed_up", (site.name,), int(up)
            yield "followed_left", (site.name,), site.left or 0
            yield "followed_labels", (site.name,), site.words
        up = True
        for each in self._profiles:
            profile = each.row.name
            yield "revision", (profile,), each.revision
            for label, n in learned(each).items():
                yield "learned_messages", (profile, label), n
            try:
                newest, folded = app.revisions(each.row)
                figures = app.figures(profile, window=WINDOW)
            except (DatabaseUnavailable, DatabaseDamaged):
                up = False
                continue
            yield "unfolded_rows", (profile,), max(0, each.revision - folded)
            yield "unread_rows", (profile,), max(0, newest - each.revision)
            yield from _of_figures(profile, figures)
        yield "database_up", (), int(up)
        yield "writable", (), int(app.write_failure is None)


Sample = tuple[str, tuple[str, ...], float]
"""Name of a gauge, values of its labels, and value."""
# Documents have per cent, but the convention for metrics is base units: shares of 1.
GAUGES: Final[Mapping[tuple[str, ...], Mapping[str, str]]] = {
    ("version", "python", "database"): {
        "build_info": "Always 1; the labels are the version and the build."
    },
    (): {
        "profiles": "Profiles that this process serves.",
        "profiles_loaded": "Profiles with their counts in the memory of this process.",
        "profiles_bytes": "Memory used by these counts, in bytes.",
        "correspondents": "Correspondents: addresses that users have written to, "
        "summed over all profiles.",
        "upkeep_age_seconds": "Time since the last successful maintenance step of this "
        "process (folding, following, expiry); below a second unless a step takes "
        "longer.",
        "database_up": "Whether the database answers.",
        "writable": "Whether the latest write succeeded; while 0, feedback is refused.",
    },
    ("kind",): {
        "waiting": "Waiting work of this process, by kind: feedback to write, ids to "
        "look up, scored messages to store."
    },
    ("site",): {
        "followed_up": "Whether the last request to a site that is followed succeeded.",
        "followed_left": "Rows in the ledger of a site that were not asked for yet.",
        "followed_labels": "Labels of a site that this process has taken since its "
        "start.",
    },
    ("profile",): {
        "revision": "Latest ledger row that this process has learned.",
        "unfolded_rows": "Ledger rows that are not in the counts yet.",
        "unread_rows": "Ledger rows of other processes that this one has not learned "
        "yet.",
        "ham_lost_ratio": "Share of the latest labelled ham that the filter took for "
        "spam.",
        "spam_missed_ratio": "Share of the latest labelled spam that the filter let "
        "through, including unsure.",
        "unsure_ratio": "Share of the latest labelled messages that were unsure.",
        "ranked_wrongly_ratio": "1-ROCA: share of pairs of ham and spam that are "
        "ranked wrongly.",
        "calibration_error": "Expected calibration error of the probability.",
    },
    ("profile", "label"): {
        "learned_messages": "Messages that the profile has learned."
    },
    ("profile", "source", "label"): {
        "source_messages": "The latest labelled messages, by source (the busiest 20) "
        "and side."
    },
    ("profile", "source"): {
        "source_contradicted_ratio": "Share of a teacher's latest messages that the "
        "filter had decided the other way.",
        "source_suspect": "1 for a teacher who contradicts confident verdicts, while "
        "others teach as much; 0 for everybody else.",
    },
}
"""Meaning of the gauges by their labels."""


def _of_figures(profile: str, figures: LiveFigures) -> Iterator[Sample]:
    """Yield the accuracy on the newest labelled messages."""
    errors, messages = figures.errors, figures.errors.messages
    for name, pct in {
        "ham_lost_ratio": errors.ham_lost_pct,
        "spam_missed_ratio": errors.spam_missed_pct,
        "unsure_ratio": 100.0 * figures.unsure / messages if messages else None,
        "ranked_wrongly_ratio": figures.roca_pct,
        "calibration_error": None if figures.ece is None else 100.0 * figures.ece,
    }.items():
        # An undefined figure has no sample, not a zero.
        if pct is not None:
            yield name, (profile,), pct / 100.0
    suspect = figures.suspects
    for each in figures.sources:
        its, whose = each.errors, (profile, each.source)
        yield "source_suspect", whose, int(each in suspect)
        yield "source_messages", (*whose, "ham"), its.ham
        yield "source_messages", (*whose, "spam"), its.spam
        if its.messages:
            share = each.contradicted / its.messages
            yield "source_contradicted_ratio", whose, share


@dataclass(frozen=True, slots=True)
class CountAnswers:
    """Counts the answers of an ASGI application by their status; HEAD counts as GET.

    With a tracer, each request is a span, within the client's trace if it sends one.

    Caches may not keep the answers to GET that do not allow it: the Back button of a
    browser would show mail after its reader has signed out, and a cache before the
    service, which knows no credentials but `Authorization` (RFC 9111 section 3.5),
    could give the answer for an `X-API-Key` to the next client.
    """

    app: ASGIApp
    tally: Tally

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer as the application, and count the status."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        method = scope["method"]
        # Load balancers and monitors ask so for health (RFC 9110, 9.3.2); the server
        # leaves out the body.
        if method == "HEAD":
            scope = {**scope, "method": "GET"}
        tracer = self.tally.tracer
        with (
            nullcontext() if tracer is None else _traced(tracer, scope, method) as span
        ):

            async def counting(message: Message) -> None:
                if message["type"] == "http.response.start":
                    self.tally.answered(message["status"])
                    if scope["method"] == "GET":
                        headers = MutableHeaders(scope=message)
                        headers.setdefault("Cache-Control", "no-store")
                        # Nor are they a script to a page of another site.
                        headers.setdefault("X-Content-Type-Options", "nosniff")
                    if span is not None:
                        # Not the path, which may contain a person's name.
                        route = getattr(scope.get("route"), "path_format", None)
                        if route is not None:
                            span.update_name(f"{method} {route}")
                            span.set_attribute("http.route", route)
                        span.set_attribute("http.request.method", method)
                        span.set_attribute(
                            "http.response.status_code", message["status"]
                        )
                await send(message)

            await self.app(scope, receive, counting)


def _traced(tracer: Tracer, scope: Scope, method: str) -> AbstractContextManager[Span]:
    from opentelemetry.propagate import extract  # noqa: PLC0415
    from opentelemetry.trace import SpanKind  # noqa: PLC0415

    # `traceparent` and `tracestate` (W3C Trace Context).
    carrier = {
        name.decode("latin-1"): value.decode("latin-1")
        for name, value in scope["headers"]
        if name.startswith(b"trace")
    }
    return tracer.start_as_current_span(
        method, context=extract(carrier), kind=SpanKind.SERVER
    )
