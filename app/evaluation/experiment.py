"""Experiment: plans, and several configurations on streams in several processes."""

from __future__ import annotations

import json
import time
from collections import deque
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

import app
from app.corpora.parallel import carry_out
from app.corpora.source import survey
from app.errors import InvalidObservation, UnreadableSource
from app.evaluation.run import Action, PartOutcome, Run, run
from app.evaluation.subject import (
    EVERYTHING,
    Corpus,
    Subject,
    Training,
    months_by_dates,
    months_evenly,
    require_known,
)
from app.figures import deal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from app.classifier.specification import Specification
    from app.corpora.parallel import Readers
    from app.corpora.source import MailSource, StreamSurvey
    from app.evaluation.run import Part
    from app.kernels import Bools


@dataclass(frozen=True, slots=True, kw_only=True)
class Online:
    """Score, then learn: the life of a filter at a site whose users correct it.

    Parameters
    ----------
    delay : int, default 0
        Messages that are scored between scoring a message and learning it.
    first : int or None
        Number of messages at the start that get feedback; None: all.
    share : float, default 1.0
        Share of the messages that get feedback, chosen at random.

    Raises
    ------
    InvalidObservation
        If the share is not above 0 and at most 1.

    Notes
    -----
    The feedback of the TREC spam track [1]_: immediate; delayed, "sometime
    later (or potentially never)" (`delay` and `first`: the delayed task of 2007
    had feedback for the first 10,000 messages only); and partial, for a subset
    of the recipients.  A stream may not distinguish its recipients, so `share`
    chooses messages at random.

    References
    ----------
    .. [1] G. V. Cormack, "TREC 2007 spam track overview", *Proceedings of the
       Sixteenth Text REtrieval Conference*, 2007, section 1.

    Examples
    --------
    >>> [part] = Online(delay=1).parts([7, 8, 9], [], seed=1)
    >>> " ".join(f"{action.kind} {action.message}" for action in part)
    'score 7 score 8 learn 7 score 9 learn 8'
    """

    in_time: ClassVar[bool] = True

    delay: int = 0
    first: int | None = None
    share: float = 1.0

    def __post_init__(self) -> None:
        """Refuse an impossible share."""
        if not 0 < self.share <= 1:
            raise InvalidObservation(
                "the share with feedback must be above 0 and at most 1, got "
                f"{self.share}"
            )

    def parts(
        self, order: Sequence[int], _: Sequence[str], *, seed: int
    ) -> tuple[Part, ...]:
        """Return one part: a filter that sees all messages, whatever their labels."""
        labelled = np.random.default_rng(seed).random(len(order)) < self.share
        # Not labelled[self.first:]: from None on is from the first message on.
        labelled[len(order) if self.first is None else self.first :] = False
        return (tuple(self._actions(order, labelled)),)

    def _actions(self, order: Sequence[int], labelled: Bools) -> Iterator[Action]:
        waiting: deque[tuple[int, int]] = deque()
        for now, message in enumerate(order):
            yield Action("score", message)
            if labelled[now]:
                waiting.append((now + self.delay, message))
            if waiting and waiting[0][0] <= now:
                yield Action("learn", waiting.popleft()[1])

    def sentence(self) -> str:
        """Return the plan in a sentence."""
        text = "Every message is scored, then learned"
        if self.delay:
            text += f" after {self.delay:,} more have been scored"
        if self.first is not None:
            text += f"; only the first {self.first:,} are learned"
        if self.share < 1:
            text += f"; a random {self.share:.3g} of the messages are learned"
        return text + "."


@dataclass(frozen=True, slots=True, kw_only=True)
class Folds:
    """Each message is scored by a filter that has learned all other folds.

    Parameters
    ----------
    folds : int
        Number of parts, two or more, with similar shares of the labels.

    Examples
    --------
    >>> [here, there] = Folds(folds=2).parts([0, 1], ["ham", "ham"], seed=1)
    >>> here
    (Action(kind='learn', message=1), Action(kind='score', message=0))
    """

    # Later messages decide the verdicts on earlier ones.
    in_time: ClassVar[bool] = False

    folds: int

    def parts(
        self, order: Sequence[int], labels: Sequence[str], *, seed: int
    ) -> tuple[Part, ...]:
        """Return a part for each fold.

        Raises
        ------
        InvalidObservation
            If there are fewer messages than folds.
        """
        if len(order) < self.folds:
            msg = f"{len(order)} messages cannot be split into {self.folds} folds"
            raise InvalidObservation(msg)
        dealt = deal([labels[m] for m in order], folds=self.folds, seed=seed)
        placed = [*zip(order, dealt.tolist(), strict=True)]
        return tuple(
            (
                *(Action("learn", m) for m, f in placed if f != k),
                *(Action("score", m) for m, f in placed if f == k),
            )
            for k in range(self.folds)
        )

    def sentence(self) -> str:
        """Return the plan in a sentence."""
        return (
            "Each message is scored by a filter that has learned the other of "
            f"{self.folds} folds."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainFirst:
    """The first messages are learned, and the rest scored; nothing more is learned.

    Parameters
    ----------
    messages : int
        Messages that are learned, one or more.
    """

    in_time: ClassVar[bool] = True

    messages: int

    def parts(
        self, order: Sequence[int], _: Sequence[str], **_seed: int
    ) -> tuple[Part, ...]:
        """Return one part: learn, then score.

        Raises
        ------
        InvalidObservation
            If no message is left to score.
        """
        if len(order) <= self.messages:
            raise InvalidObservation(
                f"learning the first {self.messages} of {len(order)} messages leaves "
                "none to score"
            )
        learned = [Action("learn", message) for message in order[: self.messages]]
        scored = [Action("score", message) for message in order[self.messages :]]
        return ((*learned, *scored),)

    def sentence(self) -> str:
        """Return the plan in a sentence."""
        return (
            f"The first {self.messages:,} messages are learned; the rest are scored "
            "and not learned."
        )


Plan = Online | Folds | TrainFirst
"""A way to evaluate a filter on a stream.

`in_time` is whether messages are scored in the order of the stream.  `parts` takes the
messages in the order of their arrival, the gold label of each message by its number,
and a seed; `sentence` describes the plan to people.
"""


def noisy_labels(
    labels: Sequence[str], specification: Specification, *, noise: float, seed: int
) -> tuple[str, ...]:
    """Return the label that users give to each message, some of them wrong.

    Parameters
    ----------
    noise : float
        Probability that a user takes spam for ham, or ham for spam.

    Raises
    ------
    InvalidObservation
        If the probability is not from 0 to 1.

    Notes
    -----
    A wrong label is the first one of the other side.
    """
    if not 0 <= noise <= 1:
        msg = f"the share of wrong labels must be from 0 to 1, got {noise}"
        raise InvalidObservation(msg)
    every, spam_labels = specification.labels, specification.spam_labels
    other = {
        side: next(label for label in every if (label in spam_labels) is not side)
        for side in (True, False)
    }
    # A separate random stream, so the choice of messages with feedback does not change.
    wrong = np.random.default_rng([seed, 1]).random(len(labels)) < noise
    return tuple(
        other[label in spam_labels] if turned else label
        for label, turned in zip(labels, wrong.tolist(), strict=True)
    )


class Configuration(NamedTuple):
    """A filter and its training."""

    specification: Specification
    training: Training = EVERYTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """The treatment of every stream.

    Parameters
    ----------
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
        lines = [self.plan.sentence()]
        if self.shuffle is not None:
            lines.append(f"The messages are shuffled, seed {self.shuffle}.")
        if self.noise:
            lines.append(f"{self.noise:.3g} of the labels that are learned are wrong.")
        if self.months is not None:
            lines.append(f"Each stream takes {self.months:,} months.")
        return tuple(lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class _RunPart:
    """Runs one part of a plan with one configuration, and stores the outcome."""

    stream: int
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

    def __call__(self, tick: Callable[[], object], /) -> None:
        """Write a `PartOutcome`."""
        corpus = Corpus.load(self.corpus)
        outcome = run(
            self.part,
            subject=Subject(*self.configuration),
            messages=corpus,
            labels=self.labels,
            is_spam=self.is_spam,
            months=self.months,
            tick=tick,
            clock=time.perf_counter,
        )
        replace(outcome, seconds=outcome.seconds + corpus.seconds).save(self.outcome)


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """Some streams, some configurations, one protocol.

    Parameters
    ----------
    configurations : mapping of str to Configuration
        Configurations by name; the others are compared with the first.
    """

    sources: Sequence[MailSource]
    configurations: Mapping[str, Configuration]
    protocol: Protocol

    def carry_out(
        self,
        readers: Readers | None = None,
        *,
        cache: Path | None = None,
        show: Callable[[str, int], Callable[[int], object]],
        on_unreadable: Callable[[str, str], object] = lambda *_: None,
    ) -> tuple[Run, ...]:
        """Run all parts that have no stored outcome.

        Parameters
        ----------
        readers : Readers or None
            Processes that parse the mail and evaluate (`app.corpora.parallel`).
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
            every = chain.from_iterable(tasks.values())
            open_tasks = [task for task in every if not task.outcome.exists()]
            self._read(open_tasks, surveys, readers, show, on_unreadable)
            # The longest task first, so that no long one starts last.
            open_tasks.sort(key=lambda task: -len(task.part))
            advance = show("evaluating", sum(task.messages for task in open_tasks))
            for _ in carry_out(open_tasks, readers, advance=advance):
                pass
            return tuple(
                Run(
                    stream=self.sources[s].name,
                    configuration=name,
                    specification=self.configurations[name].specification,
                    survey=surveys[s],
                    in_time=self.protocol.plan.in_time,
                    outcomes=tuple(PartOutcome.load(task.outcome) for task in parts),
                )
                for (s, name), parts in tasks.items()
            )

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
        views = {v for c in self.configurations.values() for v in c.specification.views}
        wanted = {task.stream: task.corpus for task in tasks}
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
    ) -> dict[tuple[int, str], list[_RunPart]]:
        """Return a task for each part of each run, with the file of its outcome.

        By the number of the stream, and the name of the configuration.
        """
        if cache is not None:
            try:
                cache.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                msg = f"the folder {cache} cannot be created: {error.strerror}"
                raise UnreadableSource(msg) from error
        protocol = self.protocol
        tasks = {}
        for s, seen in enumerate(surveys):
            months: tuple[int, ...] = ()
            if self.decays:
                months = protocol.months_of(seen, self.sources[s].name)
            order = protocol.order(seen.order)
            parts = protocol.plan.parts(order, seen.labels, seed=protocol.seed)
            for name, configuration in self.configurations.items():
                specification = configuration.specification
                spam = specification.spam_labels
                labels = noisy_labels(
                    seen.labels, specification, noise=protocol.noise, seed=protocol.seed
                )
                tasks[s, name] = [
                    _RunPart(
                        stream=s,
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


def code() -> str:
    """Return a digest of the program, because other code may have other outcomes."""
    digest = sha256()
    for path in sorted(Path(app.__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()
