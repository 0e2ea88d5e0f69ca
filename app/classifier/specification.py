"""What is a profile made of? Its labels, its views and the rule of its verdict."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

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

TEXT_VIEWS: Final = ("words", "headers", "pairs", "grams")
"""The views that `app.features.extract` makes of a message's text."""

# Without grams 1-ROCA is 0.093 % instead of 0.100 on spamassassin and 0.062
# instead of 0.060 as the mean of enron1 to 6, and a message has 644 features
# instead of 1,660 to look up, learn and store (experiment 0025).
SHIPPED_VIEWS: Final = ("words", "headers", "pairs")
"""The text views of a profile unless a site wants others."""

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


class Normaliser(Protocol):
    """What the sum of a view's contributions is multiplied by, for its length."""

    def factor(self, features: int, /) -> float:
        """Return the factor for a message of so many features, seen or not."""
        ...


@dataclass(frozen=True, slots=True)
class ShrunkenMean:
    """The mean over the features, and over some more that say nothing.

    Parameters
    ----------
    strength : float
        How many features that say nothing are added to those of the message.

    Raises
    ------
    InvalidSetting
        If the strength is not positive and finite.

    Examples
    --------
    >>> ShrunkenMean(20.0).factor(80)
    0.01
    """

    strength: float = 20.0

    def __post_init__(self) -> None:
        """Refuse a mean that is undefined for a message without features."""
        if not (math.isfinite(self.strength) and self.strength > 0):
            msg = f"the strength must be positive and finite, got {self.strength!r}"
            raise InvalidSetting(msg)

    def factor(self, features: int, /) -> float:
        """Return one over the features and the strength."""
        return 1.0 / (features + self.strength)


@dataclass(frozen=True, slots=True)
class Root:
    """The sum over the root of the number of features.

    Examples
    --------
    >>> Root().factor(100)
    0.1
    """

    def factor(self, features: int, /) -> float:
        """Return one over the root of the features."""
        return 1.0 / math.sqrt(max(1, features))


@dataclass(frozen=True, slots=True)
class Whole:
    """The sum as it is: with weight 1, a plain naive Bayes product of views.

    Examples
    --------
    >>> Whole().factor(100)
    1.0
    """

    def factor(self, features: int, /) -> float:  # noqa: ARG002
        """Return 1, whatever the features."""
        return 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One summand of the verdict: what a classifier says, times a weight.

    Parameters
    ----------
    classifier : str
        Which of the specification's classifiers.
    normaliser : Normaliser
        What is made of the number of the message's features.
    weight : float
        Unit: nats of the verdict per nat of the normalised sum.

    Raises
    ------
    InvalidSetting
        If the weight is not finite.
    """

    classifier: str
    normaliser: Normaliser = ShrunkenMean()
    weight: float = 1.0

    def __post_init__(self) -> None:
        """Refuse a weight under which no sum makes sense."""
        if not math.isfinite(self.weight):
            msg = f"a weight must be finite, got {self.weight!r}"
            raise InvalidSetting(msg)


# One strength and one weight for all views and all corpora (experiment 0022;
# 1-ROCA in per cent, lam at the threshold ln 9):
#
#     sum of the four views'    spamassassin          enron, mean of six
#     sum / root of n           0.163   lam 1.51      0.087   lam 1.10
#     mean                      0.101       1.38      0.206       1.94
#     mean with 20 more         0.101       1.35      0.064       1.02
#
# A mean alone takes a message of five features for as well known as one of
# 500. From 10 to 50 more are alike. The weight is the best calibrated one of 3
# to 6 for the three shipped views (experiment 0025). Look again with the fusion
# that learns the weights.
VIEW_STRENGTH: Final = 20.0
VIEW_WEIGHT: Final = 5.0


def terms_of(text_views: tuple[str, ...]) -> tuple[Term, ...]:
    """Return the summands of a verdict over some of the text views."""
    return tuple(
        Term(
            classifier=name,
            normaliser=ShrunkenMean(VIEW_STRENGTH),
            weight=VIEW_WEIGHT,
        )
        for name in text_views
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictRule:
    """How the evidence of the views becomes the log-odds of the verdict.

    Naive Bayes takes the words of a message for independent; they are not,
    so the plain sum of their contributions is far too sure of itself, the
    more so the longer the message, and two views of one message say much the
    same.  The verdict is a weighted sum of the views' sums, each brought to a
    common scale by the number of its features, seen before or not, so that a
    message that is mostly new is judged with less confidence.

    Parameters
    ----------
    terms : tuple of Term
        The summands.
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
        If there is no term, the thresholds are not in order or a number is
        not finite.
    """

    terms: tuple[Term, ...] = field(default_factory=lambda: terms_of(SHIPPED_VIEWS))
    prior: Prior = field(default_factory=UniformPrior)
    spam_threshold: float = SPAM_THRESHOLD
    ham_threshold: float = 0.0
    one_sided_messages: int = 20

    def __post_init__(self) -> None:
        """Refuse a rule under which no verdict makes sense."""
        if not self.terms:
            msg = "a verdict needs at least one term to go by, got none"
            raise InvalidSetting(msg)
        low, high = self.ham_threshold, self.spam_threshold
        if not (math.isfinite(low) and math.isfinite(high) and low <= high):
            msg = (
                "the ham threshold must be finite and not above the spam "
                f"threshold, got {low!r} and {high!r}"
            )
            raise InvalidSetting(msg)


def classifiers_of(text_views: tuple[str, ...]) -> dict[str, ViewModel]:
    """Return the classifiers over some of the text views, and those beside them.

    Raises
    ------
    InvalidSetting
        If there is no view, or one that does not exist or is there twice.
    """
    strangers = [view for view in text_views if view not in TEXT_VIEWS]
    if strangers or not text_views or len(set(text_views)) < len(text_views):
        msg = (
            f"the text views are some of {', '.join(TEXT_VIEWS)}, each once, "
            f"got {list(text_views)}"
        )
        raise InvalidSetting(msg)
    smoothing = Lidstone(0.1)
    multinomial = Multinomial(smoothing=smoothing, counting="presence")
    classifiers = {
        view: ViewModel(view=view, event_model=multinomial) for view in text_views
    }
    if "words" in text_views:
        classifiers["words_bernoulli"] = ViewModel(
            view="words", event_model=Bernoulli(smoothing=smoothing)
        )
    classifiers["structure"] = ViewModel(
        view="structure", event_model=Categorical(smoothing=Lidstone(0.5))
    )
    classifiers["measurements"] = ViewModel(view="measurements", event_model=Gaussian())
    return classifiers


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
        a short plain word, the spam labels are none or all of the labels, or
        the verdict names a classifier that is not there.
    """

    labels: tuple[str, ...] = LABELS
    spam_labels: tuple[str, ...] = SPAM_LABELS
    classifiers: Mapping[str, ViewModel] = field(
        default_factory=lambda: classifiers_of(SHIPPED_VIEWS)
    )
    prior: Prior = field(default_factory=lambda: SmoothedPrior(1.0))
    verdict: VerdictRule = field(default_factory=VerdictRule)

    def __post_init__(self) -> None:
        """Refuse labels under which no filter makes sense."""
        check_labels(self.labels, self.spam_labels)
        for term in self.verdict.terms:
            if term.classifier not in self.classifiers:
                msg = (
                    f"the verdict names the classifier {term.classifier!r}, which is "
                    f"not among {list(self.classifiers)}"
                )
                raise InvalidSetting(msg)

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
