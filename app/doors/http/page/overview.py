"""Overview: page and JSON of verdicts, error figures and waiting work.

It costs one grouped query of the history, 0.2 s for 50,000 verdicts, and the live
figures, 0.2 s if something was taught since they were last computed.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Final, get_args

from fastapi import APIRouter, Depends, Query, Request, Response
from markupsafe import Markup

from app.access.rights import Right
from app.doors.documents.figures import (
    BacklogOut,
    DatabaseOut,
    DoorOut,
    FiguresOut,
    OverviewOut,
    verdicts_of,
)
from app.doors.documents.history import Door
from app.doors.http.guard import asking
from app.doors.http.page import LARGE, pages, render, render_table
from app.doors.http.page.profiles import MAX_WORD, WINDOW
from app.doors.http.routes import App, Queried, problems
from app.doors.serving.threads import computing, in_database
from app.drawing import (
    Axis,
    Linear,
    Months,
    Plot,
    Times,
    legend,
    number,
    series,
    table,
    written_month,
)
from app.evaluation.page import reliability_figure
from app.figures import Bin, wilson
from app.services.profiles import learned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.doors.documents.figures import VerdictsOut
    from app.services.application import Application
    from app.services.inspection import WordInView

router = APIRouter(route_class=asking(Right.READ), tags=["history"])
page = pages(asking(Right.READ))
HOUR: Final = 3_600
HOURLY: Final = 7
"""Most days that are shown by the hour; more are shown by the day."""
DAYS: Final = 7
FEWEST: Final = 11
"""Most periods that are shown before the first verdict."""
_HEIGHT: Final = 240
# From the top down: each bar covers what is below the one before it.
_STACKED: Final = ("ham", "unsure", "spam")
Days = Annotated[float, Query(ge=0.05, le=366)]


@router.get("/overview", responses=problems(404, 422, 503))
async def overview(app: App, name: Queried, days: Days = DAYS) -> OverviewOut:
    """Return verdicts over time, live error figures, and waiting work.

    Verdicts are counted per hour for up to 7 days, otherwise per day.

    Parameters
    ----------
    days
        Number of days of verdicts, up to now.
    """
    return await in_database(_overview, app, name, days)


@page.get("/overview")
async def overview_page(
    request: Request,
    found: Annotated[OverviewOut, Depends(overview)],
    days: Days = DAYS,
) -> Response:
    """Show the overview."""
    return await computing(lambda: _shown(request, found, days), LARGE)


def _shown(request: Request, found: OverviewOut, days: float) -> Response:
    figures = found.figures
    bins = [Bin(**each.model_dump(exclude={"share"})) for each in figures.reliability]
    return render(
        request,
        "overview.html",
        found=found,
        days=days,
        interval=_interval,
        drawings=[
            verdicts_figure(found.verdicts, found.step, days),
            learning_figure(figures),
            reliability_figure(bins, height=_HEIGHT) if bins else Markup(),
        ],
    )


def _overview(app: Application, profile: str, days: float) -> OverviewOut:
    live = app.live.find(profile)
    step = HOUR if days <= HOURLY else 24 * HOUR
    counts = app.history.over_time(profile, days=days, step=step)
    newest, folded = app.revisions(live.row)
    backlog = app.backlog
    verdicts = dict.fromkeys(get_args(Door), 0)
    for each in counts:
        verdicts[each.door] = verdicts.get(each.door, 0) + each.lines
    failure = app.write_failure
    return OverviewOut(
        profile=live.row.name,
        step=step,
        verdicts=verdicts_of(counts),
        doors={
            name: DoorOut(
                open=name == "http" or getattr(app.settings, name, None) is not None,
                verdicts=n,
            )
            for name, n in verdicts.items()
        },
        learned=learned(live),
        figures=FiguresOut.of_figures(app.figures(profile, window=WINDOW)),
        backlog=BacklogOut(
            feedback=backlog["feedback"],
            look_ups=backlog["look-up"],
            scored=backlog["scored"],
            unfolded=max(0, newest - folded),
        ),
        database=DatabaseOut(
            kind=app.database, writable=failure is None, failure=failure
        ),
    )


def _interval(wrong: int, messages: int) -> tuple[float, float] | None:
    """Return the 95 % interval of an error rate, in per cent."""
    if not messages:
        return None
    low, high = wilson(wrong, messages)
    return 100 * low, 100 * high


def verdicts_figure(verdicts: list[VerdictsOut], step: int, days: float) -> Markup:
    """Return the verdicts over time as stacked bars."""
    if not verdicts:
        return Markup()
    now = int(time.time())
    end = now - now % step + step
    # Leaves out the days before the start of a new service.
    first = int(verdicts[0].begin.timestamp())
    begin = max(int(end - days * 24 * HOUR) // step * step, first - FEWEST * step)
    begin = min(begin, first)
    # At least so many that the marks of the axis are whole numbers.
    most = max(5, *(each.spam + each.unsure + each.ham for each in verdicts))
    plot = Plot(
        x=Axis(Times(begin, end), "time, in UTC"),
        y=Axis(Linear(0, most), "verdicts"),
        height=_HEIGHT,
    )
    bars = [
        plot.bar(
            at := each.begin.timestamp(),
            at + step,
            sum(getattr(each, name) for name in _STACKED[place:]),
            class_=class_,
        )
        for each in verdicts
        for place, class_ in enumerate(_STACKED)
        if getattr(each, class_)
    ]
    stretch = "hour" if step == HOUR else "day"
    rows = [
        (f"{each.begin:%Y-%m-%d %H:%M}", *map(str, (each.spam, each.unsure, each.ham)))
        for each in reversed(verdicts)
    ]
    return plot.figure(
        "Verdicts over time",
        f"For each {stretch}, from bottom to top: spam, unsure, ham.",
        bars,
        [(name, f"bar {name}") for name in reversed(_STACKED)],
        table(
            f"Verdicts by the {stretch}, newest first",
            ("from", "spam", "unsure", "ham"),
            rows,
        ),
    )


def learning_figure(figures: FiguresOut) -> Markup:
    """Return the error rates of each part of the labelled messages."""
    curve = figures.learning_curve
    if not curve:
        return Markup()
    shares = {
        "ham": ("ham lost", [each.ham_lost_pct for each in curve]),
        "spam": ("spam missed", [each.spam_missed_pct for each in curve]),
    }
    top = max(1.0, *(share or 0.0 for _, line in shares.values() for share in line))
    plot = Plot(
        x=Axis(
            Linear(1, max(2, len(curve))),
            "part of the labelled messages, the oldest first",
        ),
        y=Axis(Linear(0, top), "errors, per cent"),
        height=_HEIGHT,
    )
    marks = [
        _course(plot, [(at, share, name) for at, share in enumerate(line, 1)], class_)
        for class_, (name, line) in shares.items()
    ]
    rows = [
        (
            f"{each.first_revision:,} to {each.last_revision:,}",
            number(each.ham_lost_pct, 2),
            number(each.spam_missed_pct, 2),
            number(each.messages),
        )
        for each in curve
    ]
    return plot.figure(
        "Learning curve",
        "The errors of the filter on these messages before it learned them, oldest "
        "first.",
        marks,
        [(name, class_) for class_, (name, _) in shares.items()],
        table(
            "Errors, in per cent",
            ("ledger rows", "ham lost", "spam missed", "messages"),
            rows,
        ),
    )


@page.get("/words")
async def words_page(
    request: Request,
    app: App,
    name: Queried,
    word: Annotated[str, Query(max_length=MAX_WORD)] = "",
) -> Response:
    """Show one word; without one, the form that asks for it."""
    # Features are in lower case, but people may type a capital.
    asked = word.replace("\0", "").strip().casefold()
    # Not in `computing`, because the database may be unavailable.
    state = await in_database(app.words, name, asked) if asked else None
    return await render_table(
        request, "words.html", word=asked, state=state, drawn=drawn
    )


def drawn(found: WordInView, *, title: str) -> Markup:
    """Return the chart of the share of messages with a word, by label and month."""
    months = sorted({_number(each.epoch) for each in found.epochs})
    shares = {
        (each.label, _number(each.epoch)): 100 * each.messages / each.learned
        for each in found.epochs
        if each.learned
    }
    if not shares:
        return Markup()
    plot = Plot(
        x=Axis(Months(months[0], months[-1]), "Month"),
        y=Axis(Linear(0, max(1.0, *shares.values())), "Messages with it, %"),
        height=_HEIGHT,
    )
    named = [
        (label, label if label in {"ham", "spam"} else series(at))
        for at, label in enumerate(found.learned)
    ]
    lines = [
        _course(
            plot,
            [
                (month, shares.get((label, month)), f"{label}, {written_month(month)}")
                for month in range(months[0], months[-1] + 1)
            ],
            class_,
        )
        for label, class_ in named
    ]
    picture = plot.drawn(*lines, title=title)
    # Made by `app.drawing`, which escapes what it is given.
    return Markup(f"{picture}{legend(named)}")  # noqa: S704


def _course(
    plot: Plot, points: Sequence[tuple[float, float | None, str]], class_: str
) -> Markup:
    """Return a line of shares with a dot at each; where there is none, it breaks."""
    line = plot.line(
        (None if y is None else (x, y) for x, y, _ in points), class_=class_
    )
    dots = (
        plot.dot(x, y, class_=class_, says=f"{name}: {y:.2f} %")
        for x, y, name in points
        if y is not None
    )
    # Not `line + "".join(dots)`, which escapes the dots.
    return Markup("").join([line, *dots])


def _number(epoch: int) -> int:
    """Return the position of a month YYYYMM on the axis."""
    return epoch // 100 * 12 + epoch % 100 - 1
