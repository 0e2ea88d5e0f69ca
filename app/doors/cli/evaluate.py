"""`postbayes evaluate`: accuracy on labelled mail."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from app.corpora.parallel import readers
from app.corpora.source import FolderSource, IndexSource
from app.doors.cli.comparison import RunFigures, configurations
from app.doors.cli.console import (
    OUT,
    Json,
    Processes,
    interruptible,
    progress,
    show,
    stage,
)
from app.doors.cli.errors import complain, raise_for
from app.errors import InvalidInput, UnreadableSource
from app.evaluation.experiment import Experiment, Protocol
from app.evaluation.page import Document, named, page
from app.evaluation.plan import Folds, Online, TrainFirst
from app.evaluation.run import compare
from app.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import TextIO

    from app.corpora.source import MailSource
    from app.evaluation.plan import Plan
    from app.evaluation.run import Comparison, Run
    from app.settings import Settings


def plan_of(
    *,
    folds: int | None,
    train_first: int | None,
    delay: int | None,
    first: int | None,
    share: float | None,
    shuffle: int | None,
) -> Plan:
    """Return the plan that the options ask for.

    Raises
    ------
    InvalidInput
        If they ask for two that contradict each other.
    """
    feedback = [
        name
        for name, value in (
            ("--delay", delay),
            ("--feedback-first", first),
            ("--feedback-share", share),
        )
        if value is not None
    ]
    batch = "--folds" if folds is not None else "--train-first"
    if folds is not None and train_first is not None:
        msg = "give --folds or --train-first, not both: each decides what is learned"
        raise InvalidInput(msg)
    if feedback and (folds is not None or train_first is not None):
        msg = (
            f"{feedback[0]} applies to feedback that comes while mail arrives; "
            f"with {batch}, everything is learned beforehand. Leave one of the "
            "two out"
        )
        raise InvalidInput(msg)
    if folds is not None and shuffle is not None:
        msg = "folds are already random: leave --shuffle out, or vary --seed"
        raise InvalidInput(msg)
    if folds is not None:
        return Folds(folds=folds)
    if train_first is not None:
        return TrainFirst(messages=train_first)
    return Online(delay=delay or 0, first=first, share=1.0 if share is None else share)


def sources_of(
    indexes: Sequence[Path],
    ham: Sequence[Path],
    spam: Sequence[Path],
    limit: int | None,
    settings: Settings,
) -> list[MailSource]:
    """Return the streams that the options name.

    Raises
    ------
    InvalidInput
        If they name none, or two kinds.
    """
    if bool(indexes) == bool(ham or spam):
        msg = (
            "give the mail with --ham PATH and --spam PATH, or with --index "
            "FILE, which has a label for each message"
        )
        raise InvalidInput(msg)
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
    index: Annotated[
        list[Path] | None,
        typer.Option(
            help="TREC-style index of a stream: LABEL PATH per line. May be repeated.",
            metavar="FILE",
        ),
    ] = None,
    ham: Annotated[
        list[Path] | None,
        typer.Option(
            help="Wanted mail: a message, mbox, Maildir or folder of them. Junk "
            "and Spam folders in a Maildir count as spam. May be repeated.",
            metavar="PATH",
        ),
    ] = None,
    spam: Annotated[
        list[Path] | None,
        typer.Option(help="Unwanted mail, likewise. May be repeated.", metavar="PATH"),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(min=1, help="Use only the first messages of each index."),
    ] = None,
    shuffle: Annotated[
        int | None,
        typer.Option(help="Shuffle the messages with this seed.", metavar="SEED"),
    ] = None,
    folds: Annotated[
        int | None,
        typer.Option(
            min=2,
            max=1000,
            help="Cross-validate with this number of folds, instead of "
            "score-then-learn.",
        ),
    ] = None,
    train_first: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Learn this number of messages first, then score the rest "
            "without learning them.",
        ),
    ] = None,
    delay: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Learn each message only after this number of later "
            "messages has been scored.",
        ),
    ] = None,
    feedback_first: Annotated[
        int | None,
        typer.Option(min=1, help="Score all messages, but learn only the first ones."),
    ] = None,
    feedback_share: Annotated[
        float | None,
        typer.Option(
            help="Learn only this share of the messages, such as 0.1, chosen at "
            "random.",
            metavar="SHARE",
        ),
    ] = None,
    noise: Annotated[
        float,
        typer.Option(
            help="Learn this share of the messages, such as 0.05, with a wrong label.",
            metavar="SHARE",
        ),
    ] = 0.0,
    seed: Annotated[
        int,
        typer.Option(min=0, help="Random seed for folds, shares, noise and intervals."),
    ] = 1,
    months: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=1200,
            help="Duration of the stream in months, for counts with a half-life; "
            "by default from the dates of its messages.",
        ),
    ] = None,
    trial: Annotated[
        list[str] | None,
        typer.Option(
            "--try",
            help="Settings to compare with the current ones, such as "
            "text_views=words,grams; separate several by blanks. Also what "
            "to learn: train=errors, near:NATS or auto:NATS. May be repeated.",
            metavar="NAME=VALUE",
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(help="Write figures and diagrams to one HTML page."),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            help="Store finished parts in this folder, and do not repeat them."
        ),
    ] = None,
    processes: Processes = None,
    as_json: Json = False,
    jsonl: Annotated[
        Path | None,
        typer.Option(
            help="Write one line per message: gold, decision, log_odds, "
            "probability, and the label if there are more than two."
        ),
    ] = None,
) -> None:
    """Measure the accuracy of the filter on labelled mail.

    Every message is scored, then learned, in the order of arrival, unless options
    change that. Nothing is stored: a new filter runs in memory.
    """
    settings = load_settings()
    plan = plan_of(
        folds=folds,
        train_first=train_first,
        delay=delay,
        first=feedback_first,
        share=feedback_share,
        shuffle=shuffle,
    )
    experiment = Experiment(
        sources=sources_of(index or [], ham or [], spam or [], limit, settings),
        configurations=configurations(settings, trial or []),
        protocol=Protocol(
            plan=plan, shuffle=shuffle, noise=noise, seed=seed, months=months
        ),
    )
    if months is not None and not experiment.decays:
        msg = (
            "--months sets how fast counts with a half-life decay, but there "
            "is no half-life: add --try half_life_months=6, or leave --months "
            "out"
        )
        raise InvalidInput(msg)
    # A file that cannot be written is reported before an hour's work, not after.
    for path in (report, jsonl):
        if path is not None:
            _opened(path, "a").close()
    left = "interrupted; an evaluation stores nothing"
    if resume is not None:
        left = (
            f"interrupted; the finished parts are stored in {resume}: run the "
            "same command again to continue"
        )
    unreadable: list[tuple[str, str]] = []
    processes = processes or len(os.sched_getaffinity(0))
    with readers(processes) as executor, interruptible(left), progress() as bar:
        runs = experiment.carry_out(
            executor,
            processes=processes,
            cache=resume,
            show=lambda name, steps: stage(bar, name, steps),
            on_unreadable=lambda *of: unreadable.append(of),
        )
    for place, reason in unreadable:
        complain(f"{place} is treated as a message without features: {reason}")
    figures = RunFigures(runs, _comparisons(experiment, runs, seed), seed=seed)
    if jsonl is not None:
        _write(jsonl, "".join(_lines(runs)))
    if report is not None:
        document = Document(
            command=shlex.join(["postbayes", *sys.argv[1:]]),
            protocol=experiment.protocol.sentences(),
            runs=runs,
            comparisons=figures.comparisons,
            reasons=named(experiment.sources, runs),
            seed=seed,
        )
        _write(report, page(document))
    if as_json:
        show(figures.as_json(), (), as_json=True)
    else:
        figures.show(OUT)
        if report is not None:
            OUT.print(f"The diagrams are in {report}")
    raise_for(len(unreadable))


def _comparisons(
    experiment: Experiment, runs: Sequence[Run], seed: int
) -> tuple[Comparison, ...]:
    """Compare each configuration with the first."""
    first, *others = (
        [run for run in runs if run.configuration == name]
        for name in experiment.configurations
    )
    return tuple(compare(other, first, seed=seed) for other in others)


def _lines(runs: Sequence[Run]) -> Iterator[str]:
    """Yield a line for each message; with several runs, the line names its run."""
    for run in runs:
        several = {"stream": run.stream, "configuration": run.configuration}
        yield from run.json_lines(**(several if len(runs) > 1 else {}))


def _write(path: Path, text: str) -> None:
    with _opened(path, "w") as file:
        file.write(text)


def _opened(path: Path, mode: Literal["a", "w"]) -> TextIO:
    try:
        return path.open(mode, encoding="utf-8")
    except OSError as error:
        raise UnreadableSource(f"{path} cannot be written: {error.strerror}") from error
