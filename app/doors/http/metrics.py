"""`GET /metrics`: the metrics in the format of Prometheus."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fastapi import APIRouter, Request, Response
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.registry import Collector
from starlette.concurrency import run_in_threadpool

from app.doors.http.guard import Guarded
from app.doors.http.profiles import WINDOW
from app.doors.http.routes import ApplicationDep, problems
from app.errors import DatabaseDamaged, DatabaseUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.core import Metric
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from app.services.application import Application
    from app.services.figures import LiveFigures
    from app.services.metrics import Tally

router = APIRouter(route_class=Guarded)
TEXT: Final = "text/plain"


@router.get(
    "/metrics",
    tags=["operation"],
    response_class=Response,
    responses={200: {"content": {TEXT: {}}}, **problems()},
)
async def metrics(request: Request, app: ApplicationDep) -> Response:
    """Return counters and gauges as Prometheus reads them.

    The counters are those of all workers of the service together; another service on
    the same database has its own. The gauges are of the worker that answers, which
    follows the others within a second. Those with a `profile` are of
    POSTBAYES_PROFILE, so that a site with a profile for each user does not make a
    series for each; the figures of others are at `/profiles/{name}/figures`. Where the
    database is away, `postbayes_database_up` is 0 and the figures of the database are
    left out.
    """
    encode, content_type = choose_encoder(request.headers.get("accept", ""))
    content = await run_in_threadpool(encode, app.tally.registry)
    return Response(content, media_type=content_type)


class Gauges(Collector):
    """Collects the state of the service; the tally has its counters.

    Parameters
    ----------
    application : Application
        Read at each collection.
    """

    def __init__(self, application: Application) -> None:
        self._app = application

    def collect(self) -> Iterator[Metric]:
        """Yield the gauges."""
        live = self._app.live
        site = live.get(self._app.settings.profile)
        yield _gauge(
            "profiles", "Profiles that this process answers for.", len([*live])
        )
        yield _gauge(
            "revision",
            "Newest ledger row that this process has learned.",
            site.revision,
            profile=site.row.name,
        )
        learned = GaugeMetricFamily(
            "postbayes_learned_messages",
            "Messages that the profile has learned.",
            labels=("profile", "label"),
        )
        for label, n in zip(
            site.row.labels,
            site.snapshot.specification.in_messages(site.snapshot.messages).tolist(),
            strict=True,
        ):
            learned.add_metric((site.row.name, label), n)
        yield learned
        up = 1
        try:
            folded = self._app.folded_revision(site)
            figures = self._app.figures(site.row.name, window=WINDOW)
        except (DatabaseUnavailable, DatabaseDamaged):
            up = 0
        else:
            yield _gauge(
                "unfolded_rows",
                "Ledger rows that are not in the count tables yet.",
                max(0, site.revision - folded),
                profile=site.row.name,
            )
            yield from _of_figures(figures)
        yield _gauge("database_up", "Whether the database answered just now.", up)


def _of_figures(figures: LiveFigures) -> Iterator[Metric]:
    """Yield how well the filter does on the newest labelled messages."""
    errors = figures.errors
    # In per cent here and in the documents, as shares of 1 for a monitoring
    # system: base units are its convention.
    shares = {
        "ham_lost_ratio": (
            "Share of the newest labelled ham that it would have lost.",
            errors.ham_lost_pct,
        ),
        "spam_missed_ratio": (
            "Share of the newest labelled spam that it let through.",
            errors.spam_missed_pct,
        ),
        "ranked_wrongly_ratio": (
            "1-ROCA: share of pairs of a ham and a spam that are ranked wrongly.",
            figures.roca_pct,
        ),
        "calibration_error": (
            "Expected calibration error of the probability.",
            None if figures.ece is None else 100.0 * figures.ece,
        ),
    }
    for name, (meaning, pct) in shares.items():
        # An undefined figure has no sample, rather than a zero.
        if pct is not None:
            yield _gauge(name, meaning, pct / 100.0, profile=figures.profile)


def _gauge(name: str, meaning: str, value: float, **labels: str) -> GaugeMetricFamily:
    """Return a gauge with one sample."""
    family = GaugeMetricFamily(f"postbayes_{name}", meaning, labels=tuple(labels))
    family.add_metric(tuple(labels.values()), value)
    return family


class CountAnswers:
    """Counts the answers of an ASGI application by their status.

    Parameters
    ----------
    app : ASGI application
        What answers.
    tally : Tally
        Where they are counted.
    """

    def __init__(self, app: ASGIApp, tally: Tally) -> None:
        self._app = app
        self._tally = tally

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass everything on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def counting(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._tally.answered(message["status"])
            await send(message)

        await self._app(scope, receive, counting)
