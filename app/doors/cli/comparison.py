"""Comparison of configurations: the trials of `evaluate` and their figures."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from app.errors import InvalidSetting
from app.evaluation.experiment import Configuration
from app.evaluation.subject import Training
from app.figures.bootstrap import interval, roca_replicates
from app.figures.metrics import Errors
from app.services.startup import specification
from app.settings import Settings, load_settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console

    from app.evaluation.run import Comparison, Run

TRAIN: Final = "train"
"""The training: not a setting, since a service learns all feedback."""
AS_SET: Final = "as set"
"""The name of the configuration of the settings."""


def configurations(
    settings: Settings, trials: Sequence[str]
) -> dict[str, Configuration]:
    """Return the configurations by name; first that of the settings, which learns all.

    Parameters
    ----------
    settings : Settings
        What the operator set.
    trials : sequence of str
        Settings to try, as ``name=value`` with blanks between; ``train`` is the
        training (`app.evaluation.subject.Training.parse`).

    Raises
    ------
    InvalidSetting
        If a trial names no settings, or its filter is that of another trial.
    """
    found = {AS_SET: Configuration(specification(settings))}
    for trial in trials:
        name = " ".join(trial.split())
        values = _parsed(name)
        training = Training.parse(values.pop(TRAIN, "everything"))
        tried = Configuration(specification(load_settings(**values)), training)
        same = [other for other, each in found.items() if each == tried]
        if same:
            msg = (
                f"--try {name!r} makes the same filter as {same[0]!r}; try settings "
                "that a verdict depends on, such as text_views or ham_cost, or train"
            )
            raise InvalidSetting(msg)
        found[name] = tried
    return found


def _parsed(trial: str) -> dict[str, str]:
    """Return the settings of a trial by name."""
    values = {}
    for part in trial.split():
        name, equals, value = part.partition("=")
        name = name.lower().removeprefix("postbayes_")
        if not equals or name not in (TRAIN, *Settings.model_fields):
            msg = (
                f"--try takes settings, such as text_views=words,headers, got {part!r}"
            )
            raise InvalidSetting(msg)
        values[name] = value
    if not values:
        msg = "--try takes settings, such as text_views=words,headers, got nothing"
        raise InvalidSetting(msg)
    return values


HEADINGS: Final = {
    "messages": "messages",
    "learned": "learned",
    "roca_pct": "1-ROCA %",
    "ham_lost_pct": "lost %",
    "spam_missed_pct": "missed %",
    "lam_pct": "lam %",
    "spam_missed_at_0_1_pct": "at 0.1 %",
    "ece_pct": "ece %",
}
"""The figures of the table that several runs make."""
# Columns that hold names.
_WORDS: Final = 2


@dataclass(frozen=True, slots=True)
class RunFigures:
    """The figures of all runs.

    Parameters
    ----------
    runs : tuple of Run
        The results of each configuration on each stream.
    comparisons : tuple of Comparison
        Each configuration but the first against the first.
    seed : int
        The seed of the intervals.
    """

    runs: tuple[Run, ...]
    comparisons: tuple[Comparison, ...]
    seed: int

    def as_json(self) -> dict[str, object]:
        """Return one object: the figures of one run, or a list of several.

        Contract: one run's figures stand at the top, under the names of
        `app.evaluation.run.EvaluationReport`.
        """
        found: list[dict[str, object]] = [
            {
                **asdict(run.report()),
                "roca_interval_pct": interval(
                    roca_replicates(run.log_odds, run.is_spam, seed=self.seed)
                ),
                "data_sha256": run.survey.digest,
            }
            for run in self.runs
        ]
        if len(found) == 1:
            return found[0]
        names = [
            {"stream": run.stream, "configuration": run.configuration}
            for run in self.runs
        ]
        return {
            "runs": [
                {**name, **figures} for name, figures in zip(names, found, strict=True)
            ],
            "comparisons": [asdict(comparison) for comparison in self.comparisons],
        }

    def show(self, console: Console) -> None:
        """Print the figures of one run one by one, those of several in a table."""
        if len(self.runs) == 1:
            for line in _of_one(self.runs[0], seed=self.seed):
                console.print(line)
            return
        for line in self._lines():
            console.print(line)
        for comparison in self.comparisons:
            console.print(sentence(comparison))

    def _lines(self) -> Iterator[str]:
        """Yield a table of all runs.

        Not one of rich, which cuts names to the width of the terminal: names of
        configurations often differ at their ends.
        """
        headings = dict(HEADINGS)
        if any(run.several for run in self.runs):
            headings["macro_f1_pct"] = "F1 %"
        rows = [("stream", "configuration", *headings.values())]
        for run in self.runs:
            figures = asdict(run.report())
            cells = [_shown(figures[name]) for name in headings]
            rows.append((run.stream, run.configuration, *cells))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            yield "  ".join(
                cell.ljust(width) if at < _WORDS else cell.rjust(width)
                for at, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()


def _of_one(run: Run, *, seed: int) -> Iterator[str]:
    """Yield the figures of one run, with their units and what they mean."""
    report = run.report()
    errors = Errors.of(run.is_spam, run.decided_spam)
    yield (
        f"It would have lost {errors.ham_lost:,} of {report.ham:,} ham"
        f"{_per_cent(report.ham_lost_pct)}, and missed {errors.spam_missed:,} of "
        f"{report.spam:,} spam{_per_cent(report.spam_missed_pct)}; it was unsure of "
        f"{report.unsure:,}, and learned {report.learned:,} of {report.messages:,}."
    )
    ends = interval(roca_replicates(run.log_odds, run.is_spam, seed=seed))
    between = "" if ends is None else f" ({ends[0]:.3f} to {ends[1]:.3f})"
    figures = (
        ("1-ROCA", report.roca_pct, f" %{between}", "pairs ranked wrongly"),
        ("lam", report.lam_pct, " %", "the two error rates as one"),
        (
            "missed at 0.1 %",
            report.spam_missed_at_0_1_pct,
            " %",
            "spam missed at 0.1 % of ham lost",
        ),
        ("calibration", report.ece_pct, " %", "how far the probabilities are off"),
        ("Brier score", report.brier, "", "mean square of their errors"),
        ("speed", report.messages_per_second, "/s", "messages scored and learned"),
    )
    several = (
        (
            "macro-F1",
            report.macro_f1_pct,
            " %",
            "F1, the mean over the labels; higher is better",
        ),
    )
    for name, value, unit, meaning in figures + several * run.several:
        shown = "-" if value is None else f"{value:.3f}{unit}"
        yield f"{name:16} {shown:26} {meaning}"


def _per_cent(value: float | None) -> str:
    return "" if value is None else f" ({value:.2f} %)"


def sentence(comparison: Comparison) -> str:
    """Return a comparison in words.

    Notes
    -----
    Differences are new minus old: less than 0 is better.
    """
    undefined = "is not defined"
    return (
        f"{comparison.configuration} against {comparison.against}: "
        f"1-ROCA {comparison.roca.written(undefined)}, "
        f"lam {comparison.lam.written(undefined)}; "
        f"won {comparison.won}, tied {comparison.tied}, lost {comparison.lost}."
    )


def _shown(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" if isinstance(value, float) else f"{value}"
