"""Plan: the order in which messages are scored and learned, and errors in labels.

Contract: within a part, no message is scored after it was learned, so no figure
includes a verdict of a filter that knows the message.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

import numpy as np

from app.errors import InvalidObservation

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

FEWEST_FOLDS = 2
"""Smallest number of folds; with one, nothing would be left to learn from."""


class Action(NamedTuple):
    """One step of a filter."""

    kind: Literal["score", "learn"]
    message: int


Part = tuple[Action, ...]
"""All steps of one filter, from an empty start; parts can run in parallel."""


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
        If a number is out of its range.

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
        """Refuse impossible feedback."""
        if self.delay < 0 or (self.first is not None and self.first < 1):
            msg = (
                "the delay of feedback must be 0 or more messages, and the number "
                f"with feedback 1 or more, got delay {self.delay} and first "
                f"{self.first}"
            )
            raise InvalidObservation(msg)
        if not 0 < self.share <= 1:
            msg = (
                "the share with feedback must be above 0 and at most 1, got "
                f"{self.share}"
            )
            raise InvalidObservation(msg)

    def parts(
        self,
        order: Sequence[int],
        labels: Sequence[str],  # noqa: ARG002  feedback comes for every label
        *,
        seed: int,
    ) -> tuple[Part, ...]:
        """Return one part: a filter that sees all messages."""
        labelled = np.random.default_rng(seed).random(len(order)) < self.share
        # Not labelled[self.first:]: from None on is from the first message on.
        labelled[len(order) if self.first is None else self.first :] = False
        return (tuple(self._actions(order, labelled)),)

    def _actions(
        self, order: Sequence[int], labelled: NDArray[np.bool_]
    ) -> Iterator[Action]:
        waiting: deque[tuple[int, int]] = deque()
        for time, message in enumerate(order):
            yield Action("score", message)
            if labelled[time]:
                waiting.append((time + self.delay, message))
            if waiting and waiting[0][0] <= time:
                yield Action("learn", waiting.popleft()[1])

    def sentence(self) -> str:
        """Return the plan in a sentence."""
        said = "Every message is scored, then learned"
        if self.delay:
            said += f" after {self.delay:,} more have been scored"
        if self.first is not None:
            said += f"; only the first {self.first:,} are learned"
        if self.share < 1:
            said += f"; a random {self.share:.3g} of the messages are learned"
        return said + "."


@dataclass(frozen=True, slots=True, kw_only=True)
class Folds:
    """Each message is scored by a filter that has learned all other folds.

    Parameters
    ----------
    folds : int
        Number of parts, with similar shares of the labels.

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

    # Later messages decide the verdicts on earlier ones.
    in_time: ClassVar[bool] = False

    folds: int

    def __post_init__(self) -> None:
        """Refuse folds that leave nothing to learn."""
        if self.folds < FEWEST_FOLDS:
            msg = f"there must be at least {FEWEST_FOLDS} folds, got {self.folds}"
            raise InvalidObservation(msg)

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
        # A shuffle, then a stable sort by label: dealing the messages in turn gives
        # folds that differ by at most one message of each label.
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
        Messages that are learned.

    Raises
    ------
    InvalidObservation
        If nothing is learned.
    """

    in_time: ClassVar[bool] = True

    messages: int

    def __post_init__(self) -> None:
        """Refuse to learn nothing."""
        if self.messages < 1:
            msg = f"at least one message must be learned, got {self.messages}"
            raise InvalidObservation(msg)

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
                f"learning the first {self.messages} of {len(order)} messages leaves "
                "none to score"
            )
            raise InvalidObservation(msg)
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
    labels: Sequence[str],
    *,
    all_labels: Sequence[str],
    spam_labels: Sequence[str],
    noise: float,
    seed: int,
) -> tuple[str, ...]:
    """Return the label that users give to each message, some of them wrong.

    Parameters
    ----------
    labels : sequence of str
        Gold labels.
    all_labels : sequence of str
        All labels of the profile.
    spam_labels : sequence of str
        Those of them that stand for spam.
    noise : float
        Probability that a user takes spam for ham, or ham for spam.
    seed : int
        Seed of the errors.

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
    other = {
        side: next(label for label in all_labels if (label in spam_labels) is not side)
        for side in (True, False)
    }
    # A separate random stream, so the choice of messages with feedback does not change.
    wrong = np.random.default_rng([seed, 1]).random(len(labels)) < noise
    return tuple(
        other[label in spam_labels] if turned else label
        for label, turned in zip(labels, wrong.tolist(), strict=True)
    )
