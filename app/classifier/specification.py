"""What is a profile made of? Its labels, its views and the rule of its verdict."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from app.bayes.bernoulli import Bernoulli
from app.bayes.categorical import Categorical
from app.bayes.discriminant import Discriminant
from app.bayes.gaussian import Gaussian
from app.bayes.multinomial import Multinomial
from app.bayes.prior import SmoothedPrior, UniformPrior
from app.bayes.smoothing import Lidstone
from app.errors import InvalidSetting

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from app.bayes.prior import Prior

EventModel = Multinomial | Bernoulli | Categorical | Gaussian | Discriminant
"""The naive Bayes family; each takes the statistics of one kind of view."""

LABELS: Final = ("ham", "spam")
"""The labels of a profile unless a site wants more."""

SPAM_LABELS: Final = ("spam",)
"""The labels that stand for unwanted mail unless a site wants more."""

SPAM_THRESHOLD: Final = math.log(9)
"""A lost ham costs nine times a missed spam: the ratio of the TREC-era cost
models (Androutsopoulos et al., 2000, lambda = 9).  Expected cost is least where
spam is nine times as probable as ham.  Unit: nats."""

MIN_LABELS: Final = 2

MAX_LABELS: Final = 64
"""POPFile's users kept a dozen buckets; each label is a column in memory."""

MAX_LABEL_LENGTH: Final = 32

_NAME: Final = re.compile(r"[A-Za-z0-9@._+-]{1,128}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewModel:
    """One naive Bayes classifier: an event model over one view.

    Parameters
    ----------
    view : str
        Name of the view whose features and statistics it takes.
    event_model : EventModel
        How those statistics become a likelihood.
    """

    view: str
    event_model: EventModel

    @property
    def measures(self) -> bool:
        """Whether the view holds measurements, not features."""
        return isinstance(self.event_model, Gaussian | Discriminant)

    @property
    def event_model_name(self) -> str:
        """Name of the event model, as answers give it."""
        return type(self.event_model).__name__.lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictRule:
    """How the evidence of a view becomes the log-odds of the verdict.

    Naive Bayes takes the words of a message for independent; they are not,
    so the plain sum of their contributions is far too sure of itself, the
    more so the longer the message.  The verdict divides the sum by the square
    root of the number of features, seen before or not, so that a message that
    is mostly new is judged with less confidence.

    Parameters
    ----------
    classifier : str
        Which of the specification's classifiers decides.
    scale : float
        Weight of the normalised sum.
    prior : Prior
        Class prior of the verdict.
    spam_threshold : float
        Decide *spam* from here up. Unit: nats of log-odds.
    ham_threshold : float
        Decide *ham* from here down; between the two lies *unsure*.
        Unit: nats of log-odds.
    one_sided_messages : int
        While no message of one side has been learned, stay *unsure* until
        there are this many of the other.

    Raises
    ------
    InvalidSetting
        If the thresholds are not in order or a number is not finite.
    """

    classifier: str = "words"
    scale: float = 1.0
    prior: Prior = field(default_factory=UniformPrior)
    spam_threshold: float = SPAM_THRESHOLD
    ham_threshold: float = 0.0
    one_sided_messages: int = 20

    def __post_init__(self) -> None:
        """Refuse a rule under which no verdict makes sense."""
        if not (math.isfinite(self.scale) and self.scale > 0):
            msg = f"the scale must be positive and finite, got {self.scale!r}"
            raise InvalidSetting(msg)
        low, high = self.ham_threshold, self.spam_threshold
        if not (math.isfinite(low) and math.isfinite(high) and low <= high):
            msg = (
                "the ham threshold must be finite and not above the spam "
                f"threshold, got {low!r} and {high!r}"
            )
            raise InvalidSetting(msg)


def _classifiers() -> dict[str, ViewModel]:
    """Return the shipped classifiers (experiments 0010 and 0011)."""
    smoothing = Lidstone(0.1)
    return {
        "words": ViewModel(
            view="words",
            event_model=Multinomial(smoothing=smoothing, counting="presence"),
        ),
        "words_bernoulli": ViewModel(
            view="words", event_model=Bernoulli(smoothing=smoothing)
        ),
        "structure": ViewModel(
            view="structure", event_model=Categorical(smoothing=Lidstone(0.5))
        ),
        "measurements": ViewModel(view="measurements", event_model=Gaussian()),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Specification:
    """Everything about a profile that is not learned.

    Parameters
    ----------
    labels : tuple of str
        What people may call a message; their order is that of the classes.
    spam_labels : tuple of str
        Those of the labels that stand for unwanted mail.
    classifiers : mapping of str to ViewModel
        The naive Bayes classifiers whose posteriors are returned.
    prior : Prior
        Class prior of each of them, by itself.
    verdict : VerdictRule
        How their evidence becomes a decision.

    Raises
    ------
    InvalidSetting
        If there are fewer than two labels, a label is listed twice or is not
        a short plain word, or the spam labels are none or all of the labels.
    """

    labels: tuple[str, ...] = LABELS
    spam_labels: tuple[str, ...] = SPAM_LABELS
    classifiers: Mapping[str, ViewModel] = field(default_factory=_classifiers)
    prior: Prior = field(default_factory=lambda: SmoothedPrior(1.0))
    verdict: VerdictRule = field(default_factory=VerdictRule)

    def __post_init__(self) -> None:
        """Refuse labels under which no filter makes sense."""
        check_labels(self.labels, self.spam_labels)

    @property
    def n_classes(self) -> int:
        """Number of classes K."""
        return len(self.labels)

    @property
    def views(self) -> dict[str, bool]:
        """The views whose statistics are kept, and which are measurements."""
        return {model.view: model.measures for model in self.classifiers.values()}

    @property
    def spam_mask(self) -> NDArray[np.bool_]:
        """Which of the classes stand for unwanted mail, shape (K,)."""
        # np.isin takes five times as long, and every score asks.
        return np.array([label in self.spam_labels for label in self.labels])


def check_name(name: str) -> None:
    """Raise if a profile cannot have this name.

    Raises
    ------
    InvalidSetting
        With a sentence that says which rule it breaks.
    """
    if not _NAME.fullmatch(name):
        msg = (
            "a profile is named by 1 to 128 ASCII letters, digits and any of "
            f"'@._+-', such as a domain or an address; got {name[:128]!r}"
        )
        raise InvalidSetting(msg)


def check_labels(labels: tuple[str, ...], spam_labels: tuple[str, ...]) -> None:
    """Raise if a profile cannot have these labels.

    Raises
    ------
    InvalidSetting
        With a sentence that says which rule they break.
    """
    if not MIN_LABELS <= len(labels) <= MAX_LABELS or len(set(labels)) < len(labels):
        msg = f"a profile has 2 to {MAX_LABELS} different labels, got {list(labels)}"
        raise InvalidSetting(msg)
    for label in labels:
        plain = label.replace("-", "").replace("_", "")
        if not (plain.isalnum() and plain.isascii() and label == label.lower()):
            msg = (
                f"a label is of lower-case letters, digits, '-' and '_', got {label!r}"
            )
            raise InvalidSetting(msg)
        if len(label) > MAX_LABEL_LENGTH:
            msg = f"a label has at most {MAX_LABEL_LENGTH} characters, got {label!r}"
            raise InvalidSetting(msg)
    strangers = [label for label in spam_labels if label not in labels]
    if strangers:
        msg = f"the spam labels {strangers} are not among the labels {list(labels)}"
        raise InvalidSetting(msg)
    if not 0 < len(set(spam_labels)) < len(labels):
        msg = (
            "at least one label must stand for spam and one for wanted mail, "
            f"got labels {list(labels)} and spam labels {list(spam_labels)}"
        )
        raise InvalidSetting(msg)
