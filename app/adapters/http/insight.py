"""The routes that tell what a profile knows, and how well it does."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Path, Query

from app.adapters.http.parameters import Strict
from app.adapters.http.query import ProfileName  # noqa: TC001  read at run time
from app.adapters.http.routes import ApplicationDep, problems
from app.adapters.insight import FiguresOut, WordOut

# 5,000 messages tell an error rate of 1 % to within 0.3 points.
WINDOW: Final = 5_000
# The interval of 100,000 takes 0.6 s, and no more memory than that of 5,000.
MAX_WINDOW: Final = 100_000
# Longer than any feature (`app.features.tokens` cuts them), and two of them.
MAX_WORD: Final = 512

router = APIRouter(route_class=Strict)


@router.get(
    "/profiles/{name}/figures", tags=["profiles"], responses=problems(404, 422, 503)
)
def figures(
    name: Annotated[str, Path(max_length=128)],
    app: ApplicationDep,
    window: Annotated[
        int,
        Query(
            ge=1,
            le=MAX_WINDOW,
            description="How many of the newest labelled messages to look at.",
        ),
    ] = WINDOW,
) -> FiguresOut:
    """Tell how well the filter does on the mail that people labelled.

    Each of these messages was scored before it was learned, so these are error
    rates on mail that the filter had not seen. A label that was corrected since
    counts as it is now.
    """
    return FiguresOut.of_figures(app.figures(name, window=window))


@router.get("/words/{word}", tags=["profiles"], responses=problems(404, 422, 503))
def word(
    word: Annotated[
        str,
        Path(
            max_length=MAX_WORD,
            description="As explanations write it: `money`, `subject:money`, or two "
            "words with a blank.",
        ),
    ],
    app: ApplicationDep,
    profile: ProfileName = None,
) -> WordOut:
    """Tell how often a word was learned, month by month, and what it says.

    A word that was never learned is in no view.
    """
    state = app.words(profile or app.settings.profile, word)
    return WordOut.model_validate(state, from_attributes=True)
