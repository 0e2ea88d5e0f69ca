"""How are the probabilities and the scores of a run spread?"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from app.evaluation.calibration import reliability
from app.evaluation.report_page.frame import figure, series
from app.evaluation.report_page.scales import Linear, Logarithmic, Logit
from app.evaluation.report_page.svg import Axis, Plot
from app.evaluation.report_page.tables import number, table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from app.evaluation.run import Run

_BARS: Final = 40
_NARROWEST: Final = 1e-9


def reliability_figure(run: Run, whose: str) -> str:
    """Return the share of spam against the probability that was promised."""
    bins = reliability(run.is_spam, run.probability)
    scale = Logit()
    plot = Plot(
        x=Axis(scale=scale, title="probability of spam that was said, per cent"),
        y=Axis(scale=scale, title="spam that there was, per cent"),
    )
    marks = [plot.line([(0, 0), (100, 100)], class_="ideal")]
    rows = []
    for each in bins:
        low, high = wilson(each.spam, each.messages)
        share, mean = 100 * each.share, 100 * each.mean
        says = f"{mean:.2f} % said, {share:.2f} % spam of {each.messages:,}"
        marks += [
            plot.upright(mean, 100 * low, 100 * high, class_="interval"),
            plot.dot(mean, share, class_=series(0), says=says),
        ]
        rows.append(
            (
                f"{100 * each.low:.2f} to {100 * each.high:.2f}",
                number(mean, 2),
                number(share, 2),
                f"{100 * low:.2f} to {100 * high:.2f}",
                number(each.messages),
            )
        )
    return figure(
        f"Does the probability mean what it says?{whose}",
        "On the dashed line it does; the bars are 95 % intervals.",
        plot.drawn(
            *marks,
            title="Reliability diagram",
            description="The share of spam in groups of messages of like probability, "
            "against that probability, both on log-odds scales.",
        ),
        [],
        table(
            "Groups of equally many messages, in per cent",
            ("probability", "mean", "spam", "95 % interval", "messages"),
            rows,
            text=1,
        ),
    )


def histogram_figure(run: Run, whose: str) -> str:
    """Return how many ham and how many spam have which score."""
    scores, gold = run.log_odds, run.is_spam
    finite = scores[np.isfinite(scores)]
    edge = float(np.ceil(np.quantile(np.abs(finite), 0.999))) if finite.size else 1.0
    edges = np.linspace(-max(edge, 1.0), max(edge, 1.0), _BARS + 1)
    ham, spam = (_counts(scores[side], edges) for side in (~gold, gold))
    top = max(10.0, float(max(ham.max(), spam.max())))
    rule = run.specification.verdict
    panels = []
    for name, class_, counts in (("ham", "ham", ham), ("spam", "spam", spam)):
        plot = Plot(
            x=Axis(
                scale=Linear(edges[0], edges[-1]),
                title="log-odds of spam, nats" if class_ == "spam" else "",
            ),
            y=Axis(scale=Logarithmic(0.5, top, zero=True), title=name),
            height=200,
        )
        panels.append(
            plot.drawn(
                *(
                    plot.bar(low, high, count, class_=class_)
                    for low, high, count in zip(
                        edges.tolist(),
                        edges[1:].tolist(),
                        counts.tolist(),
                        strict=False,
                    )
                    if count
                ),
                *(
                    plot.upright(at, 0, top, class_="threshold")
                    for at in (rule.ham_threshold, rule.spam_threshold)
                ),
                *(
                    (
                        plot.note(rule.ham_threshold, "ham", side="left"),
                        plot.note(rule.spam_threshold, "spam", side="right"),
                    )
                    if class_ == "ham"
                    else ()
                ),
                title=f"Scores of the {name}",
                description=f"How many {name} have which log-odds, on a logarithmic "
                "scale.",
            )
        )
    rows = [
        (f"{low:+.1f} to {high:+.1f}", f"{h:,}", f"{s:,}")
        for low, high, h, s in zip(
            edges.tolist(),
            edges[1:].tolist(),
            ham.tolist(),
            spam.tolist(),
            strict=False,
        )
        if h or s
    ]
    return figure(
        f"Scores{whose}",
        "Where it decides ham and spam is marked; between the two it is unsure.",
        "".join(panels),
        [],
        table("Messages by score", ("log-odds", "ham", "spam"), rows, text=1),
    )


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """Return the 95 % interval of a share.

    References
    ----------
    .. [1] E. B. Wilson, "Probable inference, the law of succession, and
       statistical inference", *Journal of the American Statistical
       Association* 22, 1927, 209-212.

    Examples
    --------
    >>> [round(end, 3) for end in wilson(0, 100)]
    [0.0, 0.037]
    """
    z = 1.959964
    share = successes / trials
    middle = share + z * z / (2 * trials)
    half = z * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials**2))
    whole = 1 + z * z / trials
    return max(0.0, (middle - half) / whole), min(1.0, (middle + half) / whole)


def _counts(
    scores: NDArray[np.float64], edges: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Return the messages in each bar; those beyond the ends are in the last ones."""
    inside = np.clip(scores, edges[0], edges[-1] - _NARROWEST)
    return np.histogram(inside, edges)[0].astype(np.int64)
