"""Verdict rule: how the log-likelihoods of the views become one decision."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from app.bayes.prior import FadingPrior
from app.classifier.verdict import SPAM_THRESHOLD
from app.errors import InvalidSetting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class FusionRule:
    """Schedule and sample of the fit of the verdict's weights.

    Parameters
    ----------
    every : int
        At each revision that is a multiple of it.
    window : int
        From the messages that the last so many rows learned first.
    weight_deviation, bias_deviation : float
        How far a weight and a bias may be expected from the shipped ones
        (`app.bayes.models.logistic.GaussianPull`).
    mislabelled : float
        The share of the labels that may be any.
    least : float
        A weight stays between so many times the shipped one and the inverse of that.
    lopsided : float
        The examples of one side count as those of the other so many times, at most.
    fair : float
        The weights stay as shipped while the side that the log-odds were on was
        the right one in a smaller share of the messages.

    Raises
    ------
    InvalidSetting
        If a number is not positive, or no share of labels.
    """

    # Experiment 0051: from 20 to 200, and from 1,000 to 5,000, all is within the
    # noise. A fit of 2,000 messages takes 1.4 ms.
    every: int = 50
    window: int = 2000
    # The difference of two biases then deviates by 0.4 (experiment 0051).
    weight_deviation: float = 0.5
    bias_deviation: float = 0.28
    # Fitted as if no label could be wrong, 5 % of wrong ones at the end of 3,000 took
    # the weights from 5 to between 0 and 2 and left 26 to 65 % of the ham unsure, and
    # with 0.1 up to 6 %; with right labels all is within the noise (experiment 0076).
    mislabelled: float = 0.1
    # The weights of five streams stay within it.  After 150 wrong labels in a row they
    # left it, and 62 % of the ham was unsure instead of 11 (experiment 0087).
    least: float = 0.6
    # What people teach is no sample of what comes: a thousand spam beside three ham
    # moved the bias by a nat (experiment 0086).
    lopsided: float = 4.0
    # Errors alone are no fair sample: fitted to a site that teaches only its
    # filter's errors, the weights would call spam ham. All the corpora are above 0.9
    # after the first hundred messages.
    fair: float = 0.75

    def __post_init__(self) -> None:
        """Refuse a rule that cannot be carried out."""
        if min(self.every, self.window) < 1:
            msg = (
                "the fusion is fitted every so many rows, from so many, at least 1; "
                f"got {self.every} and {self.window}"
            )
            raise InvalidSetting(msg)
        if not 0.0 < self.least <= 1.0:
            msg = f"the least share of a weight is above 0, up to 1, got {self.least}"
            raise InvalidSetting(msg)
        if not 0.0 <= self.mislabelled < 1.0:
            msg = (
                "the share of labels that may be wrong is from 0 to 1, got "
                f"{self.mislabelled}"
            )
            raise InvalidSetting(msg)

        if not self.lopsided >= 1.0:
            msg = (
                "the examples of one side count as those of the other so many times, "
                f"at least once, got {self.lopsided}"
            )
            raise InvalidSetting(msg)

    def counts(self, spam: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return as how many examples each counts, by whether it is spam."""
        sides = np.array([np.count_nonzero(~spam), np.count_nonzero(spam)])
        most = self.lopsided * sides.min()
        found: NDArray[np.float64] = np.minimum(1.0, most / np.maximum(sides, 1))
        return found[spam.astype(np.intp)]


# Without grams 1-ROCA is 0.093 % instead of 0.100 on spamassassin and 0.062
# instead of 0.060 as the mean of enron1 to 6, and a message has 644 features
# instead of 1,660 to look up, learn and store (experiment 0025).
CORRECTIONS: Final = "corrections"
"""The view of the messages that its own classifier had wrong, or nearly so.

Its features are those of other views (`app.classifier.specification.MADE_OF`)."""
# With corrections 1-ROCA falls by a sixth as the geometric mean of twelve streams,
# and by something on each (experiment 0078).
SHIPPED_VIEWS: Final = ("words", "headers", "pairs", CORRECTIONS)
"""The text views of a profile unless a site wants others."""


class Normaliser(Protocol):
    """The factor of the sum of a view's contributions."""

    @property
    def name(self) -> str:
        """Its name in the ledger."""
        ...

    def factor(self, features: int, said: Sequence[float], /) -> float:
        """Return the factor for a message.

        Parameters
        ----------
        features : int
            How many features it has, seen or not.
        said : sequence of float, length K
            The sum for each class.  Unit: nats.
        """
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
    >>> ShrunkenMean(20.0).factor(80, [0.0, 0.0])
    0.01
    """

    strength: float = 20.0

    def __post_init__(self) -> None:
        """Refuse a mean that is undefined for a message without features."""
        if not (math.isfinite(self.strength) and self.strength > 0):
            msg = f"the strength must be positive and finite, got {self.strength!r}"
            raise InvalidSetting(msg)

    @property
    def name(self) -> str:
        """Its name in the ledger."""
        return f"mean{self.strength:g}"

    def factor(self, features: int, said: Sequence[float], /) -> float:  # noqa: ARG002
        """Return one over the number of features plus the strength."""
        return 1.0 / (features + self.strength)


@dataclass(frozen=True, slots=True)
class Bounded:
    r"""The sum over a root of the number of features, bounded: at most 1.

    Parameters
    ----------
    strength : float
        How many features that say nothing are added to those of the message.
    scale : float
        The sum over the root that becomes :math:`1 / \sqrt{2}`.  Unit: nats.

    Raises
    ------
    InvalidSetting
        If one of them is not positive and finite.

    Notes
    -----
    With *d* the difference of the largest and the smallest sum of a class, which for
    two classes are the log-odds, and :math:`s = d / \sqrt{n + m}` for *n* features and
    a strength of *m*, the difference becomes :math:`s / \sqrt{\sigma^2 + s^2}`.  It is
    a factor all the same, so that each feature still has its share.

    Examples
    --------
    >>> round(1000.0 * Bounded().factor(80, [-1000.0, 0.0]), 3)
    0.999
    """

    strength: float = 20.0
    scale: float = 5.4

    def __post_init__(self) -> None:
        """Refuse a factor that is undefined for a message without features."""
        least, most = min(self.strength, self.scale), max(self.strength, self.scale)
        if not (least > 0 and math.isfinite(most)):
            msg = (
                "the strength and the scale must be positive and finite, got "
                f"{self.strength!r} and {self.scale!r}"
            )
            raise InvalidSetting(msg)

    @property
    def name(self) -> str:
        """Its name in the ledger."""
        return f"bounded{self.strength:g}-{self.scale:g}"

    def factor(self, features: int, said: Sequence[float], /) -> float:
        """Return the factor that bounds the sum."""
        spread = max(said) - min(said)
        # What is impossible stays so.
        if not math.isfinite(spread):
            spread = 0.0
        return 1.0 / math.hypot(
            self.scale * math.sqrt(features + self.strength), spread
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One summand of the verdict: the sum of a classifier, times a weight.

    Parameters
    ----------
    classifier : str
        Which of the specification's classifiers.
    normaliser : Normaliser
        What brings the sum to the common scale.
    weight : float
        Unit: nats of the verdict per nat of the normalised sum.  What it is
        worth before the fusion has learned what it is worth here.

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
            raise InvalidSetting(f"a weight must be finite, got {self.weight!r}")

    @property
    def name(self) -> str:
        """Its name in the ledger, such as ``words/mean20``."""
        return f"{self.classifier}/{self.normaliser.name}"


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
# to 6 for the three shipped views (experiment 0025); the fusion starts from it
# and comes to weights from 3 to 8 (experiment 0051).
VIEW_STRENGTH: Final = 20.0
VIEW_WEIGHT: Final = 5.0
CORRECTIONS_WEIGHT: Final = 3.0
"""Its sum is bounded by 1, so it moves the verdict by 3 nats at most
(experiment 0078)."""


def terms_of(text_views: tuple[str, ...]) -> tuple[Term, ...]:
    """Return the summands of a verdict over some of the text views.

    That of the corrections is the last: the first is of a view that learns every
    message.
    """
    terms = tuple(
        Term(
            classifier=name,
            normaliser=ShrunkenMean(VIEW_STRENGTH),
            weight=VIEW_WEIGHT,
        )
        for name in text_views
        if name != CORRECTIONS
    )
    if CORRECTIONS not in text_views:
        return terms
    corrections = Term(
        classifier=CORRECTIONS, normaliser=Bounded(), weight=CORRECTIONS_WEIGHT
    )
    return (*terms, corrections)


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
        The summands, of different names.
    prior : FadingPrior
        Class prior of the verdict, by the mail that came
        (`app.classifier.fusion.Arrivals`).
    fusion : FusionRule
        How the weights of the terms, and a bias of each class, are fitted to what
        was taught.
    spam_threshold : float
        Decide *spam* from here up. Unit: nats of log-odds.
    ham_threshold : float
        Decide *ham* from here down; between the two lies *unsure*.
        Unit: nats of log-odds.

    Attributes
    ----------
    names : tuple of str
        What the ledger calls the terms.
    classifiers : frozenset of str
        The classifiers that decide.

    Raises
    ------
    InvalidSetting
        If there is no term, two have one name, the thresholds are not in order
        or a number is not finite.
    """

    terms: tuple[Term, ...] = field(default_factory=lambda: terms_of(SHIPPED_VIEWS))
    prior: FadingPrior = field(default_factory=FadingPrior)
    fusion: FusionRule = field(default_factory=FusionRule)
    spam_threshold: float = SPAM_THRESHOLD
    ham_threshold: float = -SPAM_THRESHOLD
    names: tuple[str, ...] = field(init=False, repr=False, compare=False)
    classifiers: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse a rule under which no verdict makes sense."""
        if not self.terms:
            msg = "a verdict needs at least one term to go by, got none"
            raise InvalidSetting(msg)
        names = tuple(term.name for term in self.terms)
        if len(set(names)) < len(names):
            msg = f"no two terms of a verdict may be the same, got {list(names)}"
            raise InvalidSetting(msg)
        low, high = self.ham_threshold, self.spam_threshold
        if not (math.isfinite(low) and math.isfinite(high) and low <= high):
            msg = (
                "the ham threshold must be finite and not above the spam "
                f"threshold, got {low!r} and {high!r}"
            )
            raise InvalidSetting(msg)
        # Kept, because every row that is written and every example that is read
        # asks for them.
        object.__setattr__(self, "names", names)
        deciding = frozenset(term.classifier for term in self.terms)
        object.__setattr__(self, "classifiers", deciding)
