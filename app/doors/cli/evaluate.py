"""`postbayes evaluate`: accuracy on labelled mail, and a comparison of trials."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from typer import Option

from app.corpora.parallel import readers
from app.corpora.source import FolderSource, IndexSource
from app.doors.cli import complain, raise_for
from app.doors.cli.console import (
    ERR,
    OUT,
    STANDARD,
    AsJson,
    Processes,
    complete_or_absent,
    grid,
    interruptible,
    number_of,
    plain,
    progress,
    show,
    stage,
    this_command,
    written,
)
from app.drawing import number
from app.errors import InvalidInput, InvalidSetting, UnwritableFile
from app.evaluation.experiment import (
    Configuration,
    Experiment,
    Folds,
    Online,
    Protocol,
    TrainFirst,
)
from app.evaluation.page import named, page
from app.evaluation.run import compare
from app.evaluation.subject import Training
from app.figures import Errors, in_brackets, roca_interval
from app.services.startup import specification
from app.settings import Settings, load_settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.console import RenderableType

    from app.corpora.source import MailSource
    from app.evaluation.experiment import Plan
    from app.evaluation.run import Comparison, Run


TRAIN: Final = "train"
"""Name of the training, which is not a setting: a service learns all feedback."""
AS_SET: Final = "as set"
"""The name of the configuration of the settings."""
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
"""The figures in the table of several runs."""
_SPREAD: Final = "No message has a date, so those of each label were spread evenly."


_FEEDBACK: Final = ("--delay", "--feedback-first", "--feedback-share")
_APART: Final = {
    "--folds": ("--train-first", *_FEEDBACK, "--shuffle"),
    "--train-first": _FEEDBACK,
}
"""The plans other than score-then-learn, and the options that say otherwise."""


def plan_of(given: Mapping[str, Any]) -> Plan:
    """Return the plan for the options by their names.

    Raises
    ------
    InvalidInput
        If options contradict each other.
    """
    for plan, others in _APART.items():
        other = next((name for name in others if given[name] is not None), None)
        if other is not None and given[plan] is not None:
            raise InvalidInput(
                f"give {plan} or {other}, not both: {plan} decides what is learned, "
                "and when; --seed varies what is random"
            )
    if given["--folds"] is not None:
        return Folds(folds=given["--folds"])
    if given["--train-first"] is not None:
        return TrainFirst(messages=given["--train-first"])
    names = ("delay", "first", "share")
    feedback = {x: given[y] for x, y in zip(names, _FEEDBACK, strict=True)}
    return Online(**{x: value for x, value in feedback.items() if value is not None})


def sources_of(
    indexes: Sequence[Path],
    ham: Sequence[Path],
    spam: Sequence[Path],
    limit: int | None,
    settings: Settings,
) -> list[MailSource]:
    """Return the streams for the options.

    Raises
    ------
    InvalidInput
        If they name no stream, or two kinds.
    """
    if bool(indexes) == bool(ham or spam):
        raise InvalidInput(
            "give the mail with --ham PATH and --spam PATH, or with --index "
            "FILE, which has a label for each message"
        )
    if indexes:
        return [IndexSource(index=index, limit=limit) for index in indexes]
    if limit is not None:
        msg = "--limit applies to an index; leave it out with --ham and --spam"
        raise InvalidInput(msg)
    wanted = [label for label in settings.labels if label not in settings.spam_labels]
    return [
        FolderSource(
            ham=tuple(ham),
            spam=tuple(spam),
            ham_label=wanted[0],
            spam_label=settings.spam_labels[0],
        )
    ]


def evaluate(
    index: Annotated[list[Path] | None, Option(metavar="FILE")] = None,
    ham: Annotated[list[Path] | None, Option(metavar="PATH")] = None,
    spam: Annotated[list[Path] | None, Option(metavar="PATH")] = None,
    limit: Annotated[int | None, Option(min=1)] = None,
    shuffle: Annotated[int | None, Option(metavar="SEED")] = None,
    folds: Annotated[int | None, Option(min=2, max=1000)] = None,
    train_first: Annotated[int | None, Option(min=1)] = None,
    delay: Annotated[int | None, Option(min=1)] = None,
    feedback_first: Annotated[int | None, Option(min=1)] = None,
    feedback_share: Annotated[float | None, Option(metavar="SHARE")] = None,
    noise: Annotated[float, Option(metavar="SHARE")] = 0.0,
    seed: Annotated[int, Option(min=0)] = 1,
    months: Annotated[int | None, Option(min=1, max=1200)] = None,
    trial: Annotated[list[str] | None, Option("--try", metavar="NAME=VALUE")] = None,
    report: Path | None = None,
    resume: Path | None = None,
    processes: Processes = None,
    as_json: AsJson = False,
    jsonl: Path | None = None,
) -> None:
    """Measure the accuracy of the filter on labelled mail.

    Every message is scored, then learned, in the order of arrival, unless options
    change that. Nothing is stored: a new filter runs in memory.

    Parameters
    ----------
    index
        TREC-style index of a stream: LABEL PATH per line. May be repeated.
    ham
        Wanted mail: a message, mbox, Maildir or folder of them. Junk and Spam folders
        in a Maildir count as spam. May be repeated.
    spam
        Unwanted mail, likewise. May be repeated.
    limit
        Use only the first messages of each index.
    shuffle
        Shuffle the messages with this seed.
    folds
        Cross-validate with this number of folds, instead of score-then-learn.
    train_first
        Learn this number of messages first, then score the rest without learning them.
    delay
        Learn each message only after this number of later messages has been scored.
    feedback_first
        Score all messages, but learn only the first ones.
    feedback_share
        Learn only this share of the messages, such as 0.1, chosen at random.
    noise
        Learn this share of the messages, such as 0.05, with a wrong label.
    seed
        Random seed for folds, shares, noise and intervals.
    months
        Duration of the stream in months, for counts with a half-life; by default from
        the dates of its messages.
    trial
        Settings to compare with the current ones, such as text_views=words,grams;
        separate several by blanks. Also what to learn: train=errors, near:NATS or
        auto:NATS. May be repeated.
    report
        Write figures and diagrams to one HTML page.
    resume
        Store finished parts in this folder, and do not repeat them.
    jsonl
        Write one line per message: gold, decision, log_odds, probability, and the label
        if there are more than two.
    """
    settings = load_settings()
    plan = plan_of(
        {
            "--folds": folds,
            "--train-first": train_first,
            "--delay": delay,
            "--feedback-first": feedback_first,
            "--feedback-share": feedback_share,
            "--shuffle": shuffle,
        }
    )
    experiment = Experiment(
        sources=sources_of(index or [], ham or [], spam or [], limit, settings),
        configurations=configurations(settings, trial or []),
        protocol=Protocol(
            plan=plan, shuffle=shuffle, noise=noise, seed=seed, months=months
        ),
    )
    if months is not None and not experiment.decays:
        raise InvalidInput(
            "--months sets how fast counts with a half-life decay, but there "
            "is no half-life: add --try half_life_months=6, or leave --months "
            "out"
        )
    # An unwritable file is reported before an hour's work, not after it.
    standard = Path(STANDARD)
    for path in (report, jsonl):
        if path not in {None, standard}:
            _require_writable(path)
    left = "interrupted; an evaluation stores nothing"
    if resume is not None:
        left = (
            f"interrupted; the finished parts are stored in {resume}: run the "
            "same command again to continue"
        )
    unreadable: list[tuple[str, str]] = []
    with readers(processes) as executor, interruptible(left), progress() as bar:
        runs = experiment.carry_out(
            executor,
            cache=resume,
            show=lambda name, steps: stage(bar, name, steps),
            on_unreadable=lambda *of: unreadable.append(of),
        )
    for place, reason in unreadable:
        complain(f"{place} is treated as a message without features: {reason}")
    notes = (_SPREAD,) if any(run.survey.spread for run in runs) else ()
    first, *others = (
        [run for run in runs if run.configuration == name]
        for name in experiment.configurations
    )
    comparisons = tuple(compare(other, first, seed=seed) for other in others)
    if jsonl is not None:
        _write(jsonl, "".join(_lines(runs)))
    if report is not None:
        html = page(
            runs,
            comparisons,
            command=this_command(),
            protocol=(*experiment.protocol.sentences(), *notes),
            reasons=named(experiment.sources, runs),
            seed=seed,
        )
        _write(report, html)
    to = ERR if standard in {report, jsonl} else OUT
    document = _document(runs, comparisons, seed)
    lines = (
        _of_one(*runs, document) if len(runs) == 1 else _of_several(runs, comparisons)
    )
    show(document, [*lines, *notes], as_json=as_json, to=to)
    if report not in {None, standard} and not as_json:
        to.print(plain(f"The diagrams are in {report}"))
    raise_for(len(unreadable))


def _lines(runs: Sequence[Run]) -> Iterator[str]:
    """Yield a line for each message; with several runs, the line names its run."""
    for run in runs:
        several = {"stream": run.stream, "configuration": run.configuration}
        yield from run.json_lines(**(several if len(runs) > 1 else {}))


def _require_writable(path: Path) -> None:
    """Raise if a file cannot be written; a new one is not left behind."""
    try:
        is_new = not os.path.lexists(path)
        path.open("a").close()
        if is_new:
            path.unlink()
    except OSError as error:
        raise UnwritableFile(f"{path} cannot be written: {error.strerror}") from error


def _write(path: Path, text: str) -> None:
    # Names of files in it need not be text.
    content = text.encode("utf-8", "replace")
    if str(path) == STANDARD:
        with written(STANDARD) as target:
            target.write(content)
        return
    with complete_or_absent(path) as part:
        part.write_bytes(content)


def configurations(
    settings: Settings, trials: Sequence[str]
) -> dict[str, Configuration]:
    """Return the configurations by name; the first has the settings and learns all.

    Parameters
    ----------
    trials : sequence of str
        Settings to try, as ``name=value`` with blanks between; ``train`` is the
        training (`app.evaluation.subject.Training.parse`).

    Raises
    ------
    InvalidSetting
        If a trial names no settings, or equals another trial.
    """
    found = {AS_SET: Configuration(specification(settings))}
    for trial in trials:
        name = " ".join(trial.split())
        values = _parsed(name)
        training = Training.parse(values.pop(TRAIN, "everything"))
        tried = Configuration(specification(load_settings(**values)), training)
        same = [other for other, each in found.items() if each == tried]
        if same:
            raise InvalidSetting(
                f"--try {name!r} makes the same filter as {same[0]!r}; try settings "
                "that a verdict depends on, such as text_views or ham_cost, or train"
            )
        found[name] = tried
    return found


def _parsed(trial: str) -> dict[str, str]:
    """Return the settings of a trial by name."""
    values = {}
    for part in trial.split():
        name, equals, value = part.partition("=")
        name = name.lower().removeprefix("postbayes_")
        if not equals or name not in (TRAIN, *Settings.model_fields):
            raise InvalidSetting(
                f"--try takes settings, such as text_views=words,headers, got {part!r}"
            )
        values[name] = value
    if not values:
        msg = "--try takes settings, such as text_views=words,headers, got nothing"
        raise InvalidSetting(msg)
    return values


def _document(
    runs: Sequence[Run], comparisons: Sequence[Comparison], seed: int
) -> dict[str, Any]:
    """Return one object: the figures of one run, or a list of several.

    Contract: the figures of one run are at the top level, under the names of
    `app.evaluation.run.EvaluationReport`.
    """
    found: list[dict[str, Any]] = [
        {
            **asdict(run.report()),
            "roca_interval_pct": roca_interval(run.log_odds, run.is_spam, seed=seed),
            "data_sha256": run.survey.digest,
        }
        for run in runs
    ]
    if len(found) == 1:
        return found[0]
    return {
        "runs": [
            {"stream": run.stream, "configuration": run.configuration, **figures}
            for run, figures in zip(runs, found, strict=True)
        ],
        "comparisons": [asdict(comparison) for comparison in comparisons],
    }


def _of_several(
    runs: Sequence[Run], comparisons: Sequence[Comparison]
) -> Iterator[RenderableType]:
    """Yield the figures of several runs as a table, and their comparisons."""
    headings = dict(HEADINGS)
    if any(run.several for run in runs):
        headings["macro_f1_pct"] = "F1 %"
    rows = []
    for run in runs:
        figures = asdict(run.report())
        cells = [number(figures[name]) for name in headings]
        rows.append((run.stream, run.configuration, *cells))
    header = ("stream", "configuration", *headings.values())
    yield grid(header, rows, numbers=range(2, len(header)))
    yield from map(sentence, comparisons)


def _of_one(run: Run, document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the figures of one run, with units and meaning."""
    report = run.report()
    errors = Errors.of(run.is_spam, run.decided_spam)
    yield (
        f"It would have lost {errors.ham_lost:,} of {report.ham:,} ham"
        f"{_per_cent(report.ham_lost_pct)}, and missed {errors.spam_missed:,} of "
        f"{report.spam:,} spam{_per_cent(report.spam_missed_pct)}; it was unsure of "
        f"{report.unsure:,}, and learned {number_of(report.learned, 'message')}."
    )
    between = in_brackets(document["roca_interval_pct"])
    at_0_1 = report.spam_missed_at_0_1_pct
    figures = [
        ("1-ROCA", report.roca_pct, 3, f" %{between}", "pairs ranked wrongly"),
        ("lam", report.lam_pct, 3, " %", "the two error rates as one"),
        ("missed at 0.1 %", at_0_1, 3, " %", "spam missed at 0.1 % of ham lost"),
        ("calibration", report.ece_pct, 3, " %", "how far the probabilities are off"),
        ("Brier score", report.brier, 4, "", "mean square of their errors"),
        ("speed", report.messages_per_second, 0, "/s", "messages scored and learned"),
    ]
    if run.several:
        meaning = "F1, the mean over the labels; higher is better"
        figures.append(("macro-F1", report.macro_f1_pct, 3, " %", meaning))
    for name, value, digits, unit, meaning in figures:
        shown = number(value, digits) + ("" if value is None else unit)
        yield f"{name:16} {shown:26} {meaning}"


def _per_cent(value: float | None) -> str:
    return "" if value is None else f" ({value:.2f} %)"


def sentence(comparison: Comparison) -> str:
    """Return a comparison in words.

    Notes
    -----
    Differences are new minus old, so a negative one is better.
    """
    undefined = "is not defined"
    return (
        f"{comparison.configuration} against {comparison.against}: "
        f"1-ROCA {comparison.roca.written(undefined)}, "
        f"lam {comparison.lam.written(undefined)}; "
        f"won {comparison.won}, tied {comparison.tied}, lost {comparison.lost}."
    )
