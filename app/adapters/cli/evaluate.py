"""`postbayes evaluate`: score, then learn, a labelled stream."""

from __future__ import annotations

import json
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.adapters.cli.console import OUT, interruptible, progress
from app.bootstrap import specification
from app.classifier.learn import delta
from app.classifier.score import Verdict, score
from app.classifier.snapshot import Snapshot
from app.errors import UnreadableSource
from app.evaluation.index import count_index, read_index
from app.evaluation.progressive import evaluate as evaluate_stream
from app.features.extract import extract
from app.mail.parse import parse
from app.services.feedback import require_known
from app.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator
    from typing import TextIO

    from rich.progress import Progress

    from app.classifier.specification import Specification
    from app.evaluation.progressive import Result
    from app.features.observation import Observation


class Filter:
    """The filter that is evaluated: the served code, without a database."""

    def __init__(self, specification: Specification) -> None:
        self._labels = specification.labels
        self.views = specification.views
        self._snapshot = Snapshot.empty(specification)

    def score(self, observation: Observation, /) -> Verdict:
        """Return the verdict on a message."""
        return score(self._snapshot, observation.views)

    def learn(self, observation: Observation, label: str, /) -> None:
        """Learn a message."""
        require_known(label, self._labels, "the evaluation")
        self._snapshot = self._snapshot.learn(
            delta(
                observation.views,
                before=None,
                after=self._labels.index(label),
                n_classes=len(self._labels),
            ),
            revision=self._snapshot.revision + 1,
        )


def evaluate(
    index: Annotated[
        Path,
        typer.Option(help="TREC-style index of the stream: LABEL PATH per line."),
    ],
    limit: Annotated[
        int | None, typer.Option(min=1, help="Take the first messages only.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object.")
    ] = False,
    jsonl: Annotated[
        Path | None,
        typer.Option(
            help="Write one line per message: gold, decision, log_odds, probability."
        ),
    ] = None,
) -> None:
    """Score every message of a stream, then learn it, and print the figures.

    Nothing is stored: the same classifier runs in memory, from nothing.
    """
    subject = Filter(specification(load_settings()))
    total = min(count_index(index), limit or 2**63)
    told = "interrupted; an evaluation stores nothing"
    with interruptible(told), ExitStack() as stack:
        bar = stack.enter_context(progress())
        record: Callable[[Result], object] = _nothing
        if jsonl is not None:
            record = _Lines(stack.enter_context(_opened(jsonl)))
        report = evaluate_stream(
            _observations(index, total, subject.views, bar),
            score=subject.score,
            learn=subject.learn,
            spam_labels=load_settings().spam_labels,
            record=record,
        )
    figures = report.as_json()
    if as_json:
        OUT.print(json.dumps(figures), markup=False)
        return
    for name, value in figures.items():
        shown = f"{value:.3f}" if isinstance(value, float) else str(value)
        OUT.print(f"{name:24} {shown:>12}")


def _nothing(_: Result) -> None:
    """Record nothing."""


class _Lines:
    """Records results in a file, a line each."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def __call__(self, result: Result) -> None:
        try:
            self._file.write(result.json_line() + "\n")
        except OSError as error:
            msg = f"{self._file.name} cannot be written: {error.strerror}"
            raise UnreadableSource(msg) from error


def _opened(path: Path) -> TextIO:
    try:
        return path.open("w", encoding="utf-8")
    except OSError as error:
        msg = f"{path} cannot be written: {error.strerror}"
        raise UnreadableSource(msg) from error


def _observations(
    index: Path, total: int, views: Container[str], bar: Progress
) -> Iterator[tuple[str | None, Observation]]:
    task = bar.add_task("evaluating", total=total, rate="")
    for entry in islice(read_index(index), total):
        yield entry.label, extract(parse(entry.raw), views)
        bar.advance(task)
