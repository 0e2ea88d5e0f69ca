"""Experiment: several configurations on several streams, in several processes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from hashlib import sha256
from multiprocessing import active_children, get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

import app
from app.corpora.parallel import follow_parent
from app.corpora.source import survey
from app.errors import UnreadableSource
from app.evaluation.run import PartOutcome, Run, noisy_labels, run
from app.evaluation.subject import (
    EVERYTHING,
    Corpus,
    Subject,
    Training,
    months_by_dates,
    months_evenly,
    require_known,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from app.classifier.specification import Specification
    from app.corpora.parallel import Readers
    from app.corpora.source import MailSource, StreamSurvey
    from app.evaluation.run import Part, Plan


@dataclass(frozen=True, slots=True)
class Configuration:
    """A filter and its training.

    Parameters
    ----------
    specification : Specification
        The specification of the filter.
    training : Training
        The choice of messages that it learns.
    """

    specification: Specification
    training: Training = EVERYTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """The treatment of every stream.

    Parameters
    ----------
    plan : Plan
        The order of scoring and learning.
    shuffle : int or None
        Seed of a random order of the messages; None keeps the order of arrival.
    noise : float
        Share of the labels that users get wrong.
    seed : int
        Seed of all other random choices.
    months : int or None
        Months over which a stream is spread, if counts decay; None uses the dates of
        its messages.
    """

    plan: Plan
    shuffle: int | None = None
    noise: float = 0.0
    seed: int = 1
    months: int | None = None

    def order(self, arrived: Sequence[int]) -> tuple[int, ...]:
        """Return the messages in the order of processing."""
        if self.shuffle is None:
            return tuple(arrived)
        mixed = np.random.default_rng(self.shuffle).permutation(len(arrived))
        return tuple(arrived[at] for at in mixed)

    def months_of(self, seen: StreamSurvey, name: str) -> tuple[int, ...]:
        """Return the month in which each message arrives, by its number.

        Shuffled messages come in another order, but the months keep theirs.

        Raises
        ------
        UnreadableSource
            If the months depend on dates, and no message has one.
        """
        months = (
            months_by_dates([seen.moments[at] for at in seen.order], name)
            if self.months is None
            else months_evenly(len(seen.order), self.months)
        )
        by_number = dict(zip(self.order(seen.order), months, strict=True))
        return tuple(by_number[number] for number in range(len(months)))

    def sentences(self) -> tuple[str, ...]:
        """Return the protocol in sentences."""
        said = [self.plan.sentence()]
        if self.shuffle is not None:
            said.append(f"The messages are shuffled, seed {self.shuffle}.")
        if self.noise:
            said.append(f"{self.noise:.3g} of the labels that are learned are wrong.")
        if self.months is not None:
            said.append(f"Each stream takes {self.months:,} months.")
        return tuple(said)


@dataclass(frozen=True, slots=True, kw_only=True)
class _RunPart:
    """Runs one part of a plan with one configuration, and stores the outcome."""

    key: tuple[int, int, int]
    part: Part
    configuration: Configuration
    corpus: Path
    labels: tuple[str, ...]
    is_spam: tuple[bool, ...]
    months: tuple[int, ...]
    outcome: Path

    @property
    def messages(self) -> int:
        """Number of messages that it scores, learns, or both."""
        return len({message for _, message in self.part})

    def __call__(self, tick: Callable[[], None], /) -> tuple[int, int, int]:
        """Write a `PartOutcome`, and return its key."""
        corpus = Corpus.load(self.corpus)
        outcome = run(
            self.part,
            subject=Subject(
                self.configuration.specification, self.configuration.training
            ),
            messages=corpus,
            labels=self.labels,
            is_spam=self.is_spam,
            months=self.months,
            tick=tick,
            clock=time.perf_counter,
        )
        replace(outcome, seconds=outcome.seconds + corpus.seconds).save(self.outcome)
        return self.key


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """Some streams, some configurations, one protocol.

    Parameters
    ----------
    sources : sequence of MailSource
        The streams.
    configurations : mapping of str to Configuration
        Configurations by name; the others are compared with the first.
    protocol : Protocol
        The treatment of every stream.
    """

    sources: Sequence[MailSource]
    configurations: Mapping[str, Configuration]
    protocol: Protocol

    def carry_out(
        self,
        readers: Readers | None = None,
        *,
        processes: int,
        cache: Path | None = None,
        show: Callable[[str, int], Callable[[int], object]],
        on_unreadable: Callable[[str, str], object] = lambda *_: None,
    ) -> tuple[Run, ...]:
        """Run all parts that have no stored outcome.

        Parameters
        ----------
        readers : Readers or None
            Processes that parse the mail (`app.corpora.parallel`).
        processes : int
            Number of processes that evaluate.
        cache : Path or None
            A folder for the outcomes of finished parts, which are not run again; None
            stores nothing.
        show : callable
            Gets the name of a stage and its number of steps (0 if unknown), and returns
            a callable that gets the number of steps done.
        on_unreadable : callable
            Gets the place of an unreadable message, and the reason. The message is
            scored and learned without features.

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
            tasks = self._tasks(surveys, Path(folder), cache)
            open_tasks = [task for task in tasks if not task.outcome.exists()]
            self._read(open_tasks, surveys, readers, show, on_unreadable)
            # The longest task first, so that no long one starts last.
            open_tasks.sort(key=lambda task: -len(task.part))
            advance = show("evaluating", sum(task.messages for task in open_tasks))
            for _ in carry_out(open_tasks, processes=processes, advance=advance):
                pass
            return self._runs(tasks, surveys)

    @property
    def decays(self) -> bool:
        """Whether the counts of any configuration decay by month."""
        return any(
            configuration.specification.decay is not None
            for configuration in self.configurations.values()
        )

    def _read(
        self,
        tasks: Sequence[_RunPart],
        surveys: Sequence[StreamSurvey],
        readers: Readers | None,
        show: Callable[[str, int], Callable[[int], object]],
        on_unreadable: Callable[[str, str], object],
    ) -> None:
        """Parse the streams of the tasks that are still open."""
        views: dict[str, bool] = {}
        for configuration in self.configurations.values():
            views |= configuration.specification.views
        wanted = {task.key[0]: task.corpus for task in tasks}
        advance = show("reading", sum(len(surveys[at].labels) for at in wanted))
        for at, folder in wanted.items():
            corpus = Corpus.read(
                (entry.raw for entry in self.sources[at].entries()),
                views,
                advance=advance,
                clock=time.perf_counter,
                readers=readers,
            )
            folder.mkdir()
            corpus.save(folder)
            for number, reason in corpus.unreadable.items():
                on_unreadable(surveys[at].where[number], reason)

    def _tasks(
        self, surveys: Sequence[StreamSurvey], folder: Path, cache: Path | None
    ) -> list[_RunPart]:
        """Return a task for each part of each run, with the file of its outcome."""
        if cache is not None:
            try:
                cache.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                msg = f"the folder {cache} cannot be created: {error.strerror}"
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
                labels = noisy_labels(
                    seen.labels,
                    all_labels=specification.labels,
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
                        labels=labels,
                        is_spam=tuple(label in spam for label in seen.labels),
                        months=months,
                        outcome=(cache or folder)
                        / f"{self._name(seen, configuration, p)}.npz",
                    )
                    for p, part in enumerate(parts)
                ]
        return tasks

    def _name(self, seen: StreamSurvey, configuration: Configuration, part: int) -> str:
        """Return a name that depends on everything that determines the outcome."""
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
        self, tasks: Sequence[_RunPart], surveys: Sequence[StreamSurvey]
    ) -> tuple[Run, ...]:
        """Return the runs, assembled from the outcomes of their parts."""
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
                        in_time=self.protocol.plan.in_time,
                        outcomes=tuple(
                            PartOutcome.load(task.outcome) for task in of_run
                        ),
                    )
                )
        return tuple(runs)


def code() -> str:
    """Return a digest of the program, because other code may have other outcomes."""
    digest = sha256()
    for path in sorted(Path(app.__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


T = TypeVar("T")
# Interval of progress reports.  Unit: seconds.
_EVERY: Final = 0.2


Task = Callable[[Callable[[], None]], T]
"""Work for another process; it calls `tick` after each message."""


class _Stopped(Exception):
    """Raised in a worker whose result is no longer needed."""


def carry_out(
    tasks: Sequence[Task[T]], *, processes: int, advance: Callable[[int], object]
) -> Iterator[T]:
    """Carry out all tasks, and yield each result as soon as it is ready.

    Parameters
    ----------
    tasks : sequence of Task
        The work; with several processes it is pickled.
    processes : int
        Number of processes.  With one process or one task, the caller works itself.
    advance : callable
        Gets, at intervals, the number of messages since the last call.

    Raises
    ------
    OSError
        If the system has killed one of the processes.
    """
    if min(processes, len(tasks)) < 2:  # noqa: PLR2004

        def tick() -> None:
            advance(1)

        yield from (task(tick) for task in tasks)
        return
    # Not fork: the progress bar has a thread, and a fork would copy its held locks.
    context = get_context("spawn")
    # Trap: no locks. A process that is killed while it holds one blocks all
    # others for ever. Each task counts in its own place, the last place is set
    # when the results are no longer needed, and writing an integer is atomic.
    shared = context.RawArray("q", len(tasks) + 1)
    reported = 0
    others = set(active_children())
    crew = ProcessPoolExecutor(
        min(processes, len(tasks)),
        mp_context=context,
        initializer=_begin,
        initargs=(shared,),
    )
    waiting = {crew.submit(_call, place, task) for place, task in enumerate(tasks)}
    members = set(active_children()) - others
    try:
        while waiting:
            finished, waiting = wait(
                waiting, timeout=_EVERY, return_when=FIRST_COMPLETED
            )
            # Trap: the executor does not watch a process that it started after
            # its own thread last looked, and then waits for it for ever.
            if any(member.exitcode for member in members):
                raise BrokenProcessPool  # noqa: TRY301  as the executor does
            now = sum(shared[: len(tasks)])
            advance(now - reported)
            reported = now
            for future in finished:
                yield future.result()
    except BrokenProcessPool as error:
        msg = (
            "a process of the evaluation died, perhaps for lack of memory; try again "
            "with --processes 1"
        )
        raise OSError(msg) from error
    finally:
        shared[len(tasks)] = 1
        crew.shutdown(cancel_futures=True)


# The array that the processes share; set once in each of them.
_shared: list[Any] = []


def _begin(shared: Any) -> None:
    """Set a worker up."""
    follow_parent()
    _shared[:] = [shared]


def _call(place: int, task: Task[T]) -> T:
    [shared] = _shared

    def tick() -> None:
        if shared[-1]:
            raise _Stopped
        shared[place] += 1

    return task(tick)
