"""Experiment: several configurations on several streams."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np

import app
from app.corpora.source import survey
from app.errors import UnreadableSource
from app.evaluation.corpus import Corpus, months_by_dates, months_evenly
from app.evaluation.outcome import Outcome, run
from app.evaluation.plan import told
from app.evaluation.processes import carry_out
from app.evaluation.run import Run
from app.evaluation.subject import EVERYTHING, Subject, Training, require_known

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from app.classifier.specification import Specification
    from app.corpora.source import Source, Survey
    from app.evaluation.plan import Part, Plan


@dataclass(frozen=True, slots=True)
class Configuration:
    """One of those that are compared.

    Parameters
    ----------
    specification : Specification
        What the filter is made of.
    training : Training
        What it learns.
    """

    specification: Specification
    training: Training = EVERYTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """What is done with every stream.

    Parameters
    ----------
    plan : Plan
        Which message is scored when, and learned when.
    shuffle : int or None
        Seed by which the messages are put in another order; None: as they
        arrived.
    noise : float
        Share of the labels that users get wrong.
    seed : int
        Of everything else that is left to chance.
    months : int or None
        How many months a stream takes, where counts decay; None: the dates of its
        messages say it.
    """

    plan: Plan
    shuffle: int | None = None
    noise: float = 0.0
    seed: int = 1
    months: int | None = None

    @property
    def in_time(self) -> bool:
        """Whether messages are scored one after the other."""
        return self.plan.in_time

    def order(self, arrived: Sequence[int]) -> tuple[int, ...]:
        """Return the messages in the order in which they are taken."""
        if self.shuffle is None:
            return tuple(arrived)
        mixed = np.random.default_rng(self.shuffle).permutation(len(arrived))
        return tuple(arrived[at] for at in mixed)

    def months_of(self, seen: Survey, name: str) -> tuple[int, ...]:
        """Return in which month each message arrives, by its number.

        In another order the messages come, but time goes on as it did.

        Raises
        ------
        UnreadableSource
            If the dates are to say it and there are none.
        """
        months = (
            months_by_dates([seen.moments[at] for at in seen.order], name)
            if self.months is None
            else months_evenly(len(seen.order), self.months)
        )
        by_number = dict(zip(self.order(seen.order), months, strict=True))
        return tuple(by_number[number] for number in range(len(months)))

    def sentences(self) -> tuple[str, ...]:
        """Return what is done, for people."""
        said = [self.plan.sentence()]
        if self.shuffle is not None:
            said.append(f"The messages are shuffled, seed {self.shuffle}.")
        if self.noise:
            said.append(f"{self.noise:.3g} of the labels that are learned are wrong.")
        if self.months is not None:
            said.append(f"Each stream takes {self.months:,} months.")
        return tuple(said)


@dataclass(frozen=True, slots=True)
class _Read:
    """Reads and parses a stream into a folder."""

    source: Source
    views: Mapping[str, bool]
    folder: Path

    def __call__(self, tick: Callable[[], None], /) -> None:
        """Leave a `Corpus` there."""
        raws = (entry.raw for entry in self.source.entries())
        read = Corpus.read(raws, self.views, tick=tick, clock=time.perf_counter)
        self.folder.mkdir()
        read.save(self.folder)


@dataclass(frozen=True, slots=True, kw_only=True)
class _RunPart:
    """Runs one part of a plan with one configuration, and keeps what comes of it."""

    key: tuple[int, int, int]
    part: Part
    configuration: Configuration
    corpus: Path
    told: tuple[str, ...]
    is_spam: tuple[bool, ...]
    months: tuple[int, ...]
    kept: Path

    def __call__(self, tick: Callable[[], None], /) -> tuple[int, int, int]:
        """Write an `Outcome`, and return whose it is."""
        corpus = Corpus.load(self.corpus)
        outcome = run(
            self.part,
            subject=Subject(
                self.configuration.specification, self.configuration.training
            ),
            messages=corpus,
            told=self.told,
            is_spam=self.is_spam,
            months=self.months,
            tick=tick,
            clock=time.perf_counter,
        )
        replace(outcome, seconds=outcome.seconds + corpus.seconds).save(self.kept)
        return self.key


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """Some streams, some configurations, one protocol.

    Parameters
    ----------
    sources : sequence of Source
        The streams.
    configurations : mapping of str to Configuration
        By the name that people give them; the first is the one that the
        others are compared with.
    protocol : Protocol
        What is done.
    """

    sources: Sequence[Source]
    configurations: Mapping[str, Configuration]
    protocol: Protocol

    def carry_out(
        self,
        *,
        processes: int,
        kept: Path | None = None,
        show: Callable[[str, int], Callable[[int], object]],
    ) -> tuple[Run, ...]:
        """Run everything that was not run before.

        Parameters
        ----------
        processes : int
            How many may work at a time.
        kept : Path or None
            A folder where every finished part is kept, and not run again; None
            keeps nothing.
        show : callable
            Given a stage's name and its number of steps, returns what is told
            of steps that are done; 0 steps are a number that is not known.

        Returns
        -------
        tuple of Run
            Stream by stream, and within each configuration by configuration.

        Raises
        ------
        PostbayesError
            If a stream cannot be read, or does not fit the protocol.
        """
        advance = show("looking through", 0)
        dated = self.decays and self.protocol.months is None
        surveys = [
            survey(source, dated=dated, tick=lambda: advance(1))
            for source in self.sources
        ]
        for seen in surveys:
            for configuration in self.configurations.values():
                for label in sorted(seen.labels):
                    require_known(label, configuration.specification)
        with TemporaryDirectory(prefix="postbayes-") as folder:
            tasks = self._tasks(surveys, Path(folder), kept)
            open_tasks = [task for task in tasks if not task.kept.exists()]
            self._read(open_tasks, surveys, processes, show)
            # The longest first: the last to end should not have begun last.
            open_tasks.sort(key=lambda task: -len(task.part))
            advance = show("evaluating", sum(len(task.part) for task in open_tasks))
            for _ in carry_out(open_tasks, processes=processes, advance=advance):
                pass
            return self._runs(tasks, surveys)

    @property
    def decays(self) -> bool:
        """Whether any configuration asks which month it is."""
        return any(
            configuration.specification.decay is not None
            for configuration in self.configurations.values()
        )

    def _read(
        self,
        tasks: Sequence[_RunPart],
        surveys: Sequence[Survey],
        processes: int,
        show: Callable[[str, int], Callable[[int], object]],
    ) -> None:
        """Parse the streams that something is still to be run on."""
        views: dict[str, bool] = {}
        for configuration in self.configurations.values():
            views |= configuration.specification.views
        wanted = {task.key[0]: task.corpus for task in tasks}
        reads = [_Read(self.sources[at], views, path) for at, path in wanted.items()]
        advance = show("reading", sum(len(surveys[at].labels) for at in wanted))
        for _ in carry_out(reads, processes=processes, advance=advance):
            pass

    def _tasks(
        self, surveys: Sequence[Survey], folder: Path, kept: Path | None
    ) -> list[_RunPart]:
        """Return all parts of all runs, with the files where they are kept."""
        if kept is not None:
            try:
                kept.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                msg = f"{kept} cannot be made a folder: {error.strerror}"
                raise UnreadableSource(msg) from error
        tasks = []
        for s, seen in enumerate(surveys):
            months = (
                self.protocol.months_of(seen, self.sources[s].name)
                if self.decays
                else ()
            )
            parts = self.protocol.plan.parts(
                self.protocol.order(seen.order), seen.labels, seed=self.protocol.seed
            )
            for c, configuration in enumerate(self.configurations.values()):
                specification = configuration.specification
                spam = specification.spam_labels
                said = told(
                    seen.labels,
                    known=specification.labels,
                    spam_labels=spam,
                    noise=self.protocol.noise,
                    seed=self.protocol.seed,
                )
                tasks += [
                    _RunPart(
                        key=(s, c, p),
                        part=part,
                        configuration=configuration,
                        corpus=folder / f"stream-{s}",
                        told=said,
                        is_spam=tuple(label in spam for label in seen.labels),
                        months=months,
                        kept=(kept or folder)
                        / f"{self._name(seen, configuration, p)}.npz",
                    )
                    for p, part in enumerate(parts)
                ]
        return tasks

    def _name(self, seen: Survey, configuration: Configuration, part: int) -> str:
        """Return a name that changes with all that an outcome depends on."""
        depends = (
            code(),
            seen.digest,
            seen.order,
            seen.labels,
            seen.moments if configuration.specification.decay else (),
            repr(configuration),
            repr(self.protocol),
            part,
        )
        return sha256(json.dumps(depends).encode()).hexdigest()[:32]

    def _runs(
        self, tasks: Sequence[_RunPart], surveys: Sequence[Survey]
    ) -> tuple[Run, ...]:
        """Return what came of all parts, put together."""
        runs = []
        for s, seen in enumerate(surveys):
            for c, (name, configuration) in enumerate(self.configurations.items()):
                of_run = [task for task in tasks if task.key[:2] == (s, c)]
                runs.append(
                    Run(
                        stream=self.sources[s].name,
                        configuration=name,
                        specification=configuration.specification,
                        survey=seen,
                        in_time=self.protocol.in_time,
                        outcomes=tuple(Outcome.load(task.kept) for task in of_run),
                    )
                )
        return tuple(runs)


def code() -> str:
    """Return a digest of the program itself: other code, other outcomes."""
    digest = sha256()
    for path in sorted(Path(app.__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()
