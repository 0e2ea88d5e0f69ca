"""Plan: the order in which messages are scored and learned, and the errors of labels.

Contract: within a part no message is scored after it was learned, so no figure
is of a filter that has seen the message.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

import numpy as np

from app.errors import InvalidObservation

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

FEWEST_FOLDS = 2
"""With one fold, nothing is left to learn from."""


class Action(NamedTuple):
    """One thing that a filter is asked to do."""

    kind: Literal["score", "learn"]
    message: int


Part = tuple[Action, ...]
"""What one filter does, from nothing; parts can be run side by side."""


class Plan(Protocol):
    """A way to evaluate a filter on a stream."""

    @property
    def in_time(self) -> bool:
        """Whether messages are scored in the order of the stream."""
        ...

    def parts(
        self, order: Sequence[int], labels: Sequence[str], *, seed: int
    ) -> tuple[Part, ...]:
        """Return the parts over messages in the order of their arrival.

        Parameters
        ----------
        order : sequence of int
            The messages.
        labels : sequence of str
            The gold label of each message, by its number.
        seed : int
            Of what is left to chance.
        """
        ...

    def sentence(self) -> str:
        """Return what is done, for people."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Online:
    """Score, then learn, as a filter lives at a site whose users correct it.

    Parameters
    ----------
    delay : int, default 0
        So many messages are scored after a message before it is learned.
    first : int or None
        Users say what the first so many messages are, and nothing thereafter;
        None: they never stop.
    share : float, default 1.0
        Of how many messages users say what they are, chosen by chance.

    Raises
    ------
    InvalidObservation
        If a number is out of its range.

    Notes
    -----
    The feedback of the TREC spam track [1]_: immediate; delayed, "sometime
    later (or potentially never)" (`delay` and `first`: the delayed task of 2007
    had feedback for the first 10,000 messages only); and partial, for a subset
    of the recipients.  A stream may not tell its recipients apart, so `share`
    takes messages by chance.

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

    delay: int = 0
    first: int | None = None
    share: float = 1.0

    def __post_init__(self) -> None:
        """Refuse feedback that cannot be."""
        if self.delay < 0 or (self.first is not None and self.first < 1):
            msg = (
                "feedback comes 0 or more messages later and for 1 or more of them, "
                f"got delay {self.delay} and first {self.first}"
            )
            raise InvalidObservation(msg)
        if not 0 < self.share <= 1:
            msg = f"the share with feedback is above 0, to 1, got {self.share}"
            raise InvalidObservation(msg)

    @property
    def in_time(self) -> bool:
        """Messages are scored as they arrive."""
        return True

    def parts(
        self,
        order: Sequence[int],
        labels: Sequence[str],  # noqa: ARG002  feedback does not ask what it says
        *,
        seed: int,
    ) -> tuple[Part, ...]:
        """Return one part: a filter that sees all messages."""
        told = np.random.default_rng(seed).random(len(order)) < self.share
        # Not told[self.first:]: from None on is from the first message on.
        told[len(order) if self.first is None else self.first :] = False
        return (tuple(self._actions(order, told)),)

    def _actions(
        self, order: Sequence[int], told: NDArray[np.bool_]
    ) -> Iterator[Action]:
        waiting: deque[tuple[int, int]] = deque()
        for time, message in enumerate(order):
            yield Action("score", message)
            if told[time]:
                waiting.append((time + self.delay, message))
            if waiting and waiting[0][0] <= time:
                yield Action("learn", waiting.popleft()[1])

    def sentence(self) -> str:
        """Return what is done, for people."""
        said = "Every message is scored, then learned"
        if self.delay:
            said += f" after {self.delay:,} more have been scored"
        if self.first is not None:
            said += f"; the first {self.first:,} only are learned"
        if self.share < 1:
            said += f"; {self.share:.3g} of the messages are learned, by chance"
        return said + "."


@dataclass(frozen=True, slots=True, kw_only=True)
class Folds:
    """Each message is scored by a filter that has learned all other folds.

    Parameters
    ----------
    folds : int
        How many parts the messages are dealt into, alike in their labels.

    Raises
    ------
    InvalidObservation
        If there are fewer than two.

    Examples
    --------
    >>> [here, there] = Folds(folds=2).parts([0, 1], ["ham", "ham"], seed=1)
    >>> here
    (Action(kind='learn', message=1), Action(kind='score', message=0))
    """

    folds: int

    def __post_init__(self) -> None:
        """Refuse folds that leave nothing to learn."""
        if self.folds < FEWEST_FOLDS:
            msg = f"there must be at least {FEWEST_FOLDS} folds, got {self.folds}"
            raise InvalidObservation(msg)

    @property
    def in_time(self) -> bool:
        """Later messages teach what is said of earlier ones."""
        return False

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
            msg = f"{len(order)} messages cannot be dealt into {self.folds} folds"
            raise InvalidObservation(msg)
        # A shuffle, then a sort by label that keeps it: dealing the rows round
        # the table leaves folds that differ by one message of a label at most.
        shuffled = np.random.default_rng(seed).permutation(len(order))
        dealt = sorted(shuffled.tolist(), key=lambda at: labels[order[at]])
        fold = np.empty(len(order), np.int64)
        fold[dealt] = np.arange(len(order)) % self.folds
        return tuple(
            (
                *(
                    Action("learn", m)
                    for m, f in zip(order, fold, strict=True)
                    if f != k
                ),
                *(
                    Action("score", m)
                    for m, f in zip(order, fold, strict=True)
                    if f == k
                ),
            )
            for k in range(self.folds)
        )

    def sentence(self) -> str:
        """Return what is done, for people."""
        return (
            f"Each message is scored by a filter that has learned the other folds, "
            f"of {self.folds}."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainFirst:
    """The first messages are learned, and the rest scored; nothing more is learned.

    Parameters
    ----------
    messages : int
        How many are learned.

    Raises
    ------
    InvalidObservation
        If nothing is learned.
    """

    messages: int

    def __post_init__(self) -> None:
        """Refuse to learn nothing."""
        if self.messages < 1:
            msg = f"at least one message must be learned, got {self.messages}"
            raise InvalidObservation(msg)

    @property
    def in_time(self) -> bool:
        """Messages are scored as they arrive."""
        return True

    def parts(
        self,
        order: Sequence[int],
        labels: Sequence[str],  # noqa: ARG002
        *,
        seed: int,  # noqa: ARG002
    ) -> tuple[Part, ...]:
        """Return one part: learn, then score.

        Raises
        ------
        InvalidObservation
            If no message is left to score.
        """
        if len(order) <= self.messages:
            msg = (
                f"to learn the first {self.messages} of {len(order)} messages leaves "
                "none to score"
            )
            raise InvalidObservation(msg)
        learned = [Action("learn", message) for message in order[: self.messages]]
        scored = [Action("score", message) for message in order[self.messages :]]
        return ((*learned, *scored),)

    def sentence(self) -> str:
        """Return what is done, for people."""
        return (
            f"The first {self.messages:,} messages are learned, the rest scored and "
            "not learned."
        )


def told(
    labels: Sequence[str],
    *,
    known: Sequence[str],
    spam_labels: Sequence[str],
    noise: float,
    seed: int,
) -> tuple[str, ...]:
    """Return what users say of each message, who now and then are wrong.

    Parameters
    ----------
    labels : sequence of str
        Gold labels.
    known : sequence of str
        All labels that there are.
    spam_labels : sequence of str
        Those of them that stand for spam.
    noise : float
        The chance that a user takes spam for ham, or ham for spam.
    seed : int
        Of that chance.

    Raises
    ------
    InvalidObservation
        If the chance is not from 0 to 1.

    Notes
    -----
    A label is turned into the first one of the other side.
    """
    if not 0 <= noise <= 1:
        msg = f"the share of wrong labels is from 0 to 1, got {noise}"
        raise InvalidObservation(msg)
    other = {
        side: next(label for label in known if (label in spam_labels) is not side)
        for side in (True, False)
    }
    # A stream of its own: which messages get feedback must not change with it.
    wrong = np.random.default_rng([seed, 1]).random(len(labels)) < noise
    return tuple(
        other[label in spam_labels] if turned else label
        for label, turned in zip(labels, wrong.tolist(), strict=True)
    )
