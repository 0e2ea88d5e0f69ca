"""Words: what is known of one word, month by month; its twin is `/words/{word}`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Final

from anyio import to_thread
from fastapi import APIRouter, Query, Request, Response
from markupsafe import Markup

from app.access.rights import Right
from app.doors.http.guard import asking
from app.doors.http.page.environment import LARGE, render
from app.doors.http.profiles import MAX_WORD
from app.doors.http.query import ProfileName  # noqa: TC001  read at run time
from app.doors.http.routes import DATABASE_THREADS, ApplicationDep
from app.doors.serving.process import computing
from app.drawing.svg import Axis, Linear, Months, Plot, legend
from app.services.log import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from app.services.inspection import WordInView

page = APIRouter(prefix="/ui", route_class=asking(Right.READ), include_in_schema=False)
_HEIGHT: Final = 240
_SERIES: Final = ("s0", "s1", "s2", "s3", "s4", "s5")


@page.get("/words")
async def words_page(
    request: Request,
    app: ApplicationDep,
    profile: ProfileName = None,
    word: Annotated[str, Query(max_length=MAX_WORD)] = "",
) -> Response:
    """Show one word; without one, the form that asks for it."""
    # As features are written; what a person types may begin with a capital.
    asked = word.replace("\0", "").strip().casefold()
    name = profile or app.settings.profile
    # Apart from what computes: the database may be away.
    state = None
    if asked:
        look_up = partial(app.words, name, asked)
        state = await to_thread.run_sync(look_up, limiter=DATABASE_THREADS)
    views = state.views if state else {}
    return await computing(
        lambda: render(
            request,
            "words.html",
            here="words",
            profile=profile,
            word=asked,
            state=state,
            drawings={
                view: drawn(found, title=f"{shown(asked)} in {view}")
                for view, found in views.items()
            },
        ),
        LARGE,
    )


def drawn(found: WordInView, *, title: str) -> Markup:
    """Return the share of each label's messages that held a word, month by month."""
    labels = list(found.learned)
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
    lines = [_line(plot, label, at, shares, months) for at, label in enumerate(labels)]
    described = "; ".join(_described(label, shares, months) for label in labels)
    named = [(label, _class(label, at)) for at, label in enumerate(labels)]
    picture = plot.drawn(*lines, title=title, description=described)
    # Made by `app.drawing`, which escapes what it is given.
    return Markup(picture + legend(named))  # noqa: S704


def _line(
    plot: Plot,
    label: str,
    at: int,
    shares: dict[tuple[str, int], float],
    months: Sequence[int],
) -> str:
    """Return the line of a label and its dots; a month without mail breaks the line."""
    every = range(months[0], months[-1] + 1)
    points = [
        (float(month), shares[label, month]) if (label, month) in shares else None
        for month in every
    ]
    class_ = _class(label, at)
    dots = (
        plot.dot(
            *point,
            class_=class_,
            says=f"{label}, {_written(int(point[0]))}: {point[1]:.1f} %",
        )
        for point in points
        if point is not None
    )
    return plot.line(points, class_=class_) + "".join(dots)


def _described(
    label: str, shares: dict[tuple[str, int], float], months: Sequence[int]
) -> str:
    def said() -> Iterator[str]:
        for month in months:
            if (label, month) in shares:
                yield f"{shares[label, month]:.0f} % in {_written(month)}"

    return f"{label}: {', '.join(said()) or 'none'}"


def _class(label: str, at: int) -> str:
    return label if label in {"ham", "spam"} else _SERIES[at % len(_SERIES)]


def _number(epoch: int) -> int:
    """Return a month YYYYMM as it is counted on the axis."""
    return epoch // 100 * 12 + epoch % 100 - 1


def _written(month: int) -> str:
    return f"{month // 12:04}-{month % 12 + 1:02}"
