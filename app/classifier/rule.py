"""Verdict rule: combines the log-likelihoods of the views into one decision."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from app.bayes.prior import FadingPrior
from app.classifier.verdict import ROUNDING, SPAM_THRESHOLD
from app.errors import InvalidSetting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.classifier.verdict import Decision
    from app.kernels import Floats, Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class FusionRule:
    """When the verdict's weights are fitted, and to how many rows.

    Parameters
    ----------
    every : int
        A fit takes place at each revision that is a multiple of this.
    window : int
        Number of last rows; the examples are messages that were first learned in them.
    """

    # Experiment 0051: differences between 20 and 200, and between 1,000 and 5,000, are
    # within the noise. A fit of 2,000 messages takes 1.4 ms.
    every: int = 50
    window: int = 2000


# Without grams, 1-ROCA is 0.093 % instead of 0.100 on spamassassin, and 0.062 instead
# of 0.060 as the mean of enron1 to 6, while a message has only 644 features instead of
# 1,660 to look up, learn and store (experiment 0025).
CORRECTIONS: Final = "corrections"
"""The view that learns messages which its own classifier decided wrongly or nearly so.

Its features are those of other views (`app.classifier.specification.TEXT_VIEWS`)."""
# A message has some 70 features of headers and 450 of text, so the headers count little
# in the sum.  A term of their own, with the same counts, ranks mail with headers better
# (experiment 0095).
HEADER_CORRECTIONS: Final = "header_corrections"
"""The classifier of the headers alone, with the counts of the corrections."""
# With corrections, the geometric mean of 1-ROCA over twelve streams falls by a sixth,
# and it falls on every stream (experiment 0078).
GRAMS: Final = "grams"
"""The view of runs of symbols, which learns what its own classifier decided wrongly or
nearly so."""
# With grams, it falls by a ninth once more, and on eleven of twelve streams (experiment
# 0097).
SHIPPED_VIEWS: Final = ("words", "headers", "pairs", CORRECTIONS, GRAMS)
"""The default text views of a profile."""


class Normaliser(Protocol):
    """The factor for the sum of a view's contributions."""

    @property
    def name(self) -> str:
        """Its name in the ledger."""
        ...

    def factor(self, features: int, sums: Sequence[float], /) -> float:
        """Return the factor for a message.

        Parameters
        ----------
        features : int
            Number of its features, seen before or not.
        sums : sequence of float, length K
            The sum for each class.  Unit: nats.
        """
        ...


@dataclass(frozen=True, slots=True)
class ShrunkenMean:
    """The mean over the features and some neutral ones.

    Parameters
    ----------
    strength : float
        Number of neutral features added to those of the message.

    Examples
    --------
    >>> ShrunkenMean(20.0).factor(80, [0.0, 0.0])
    0.01
    """

    strength: float = 20.0

    @property
    def name(self) -> str:
        """Its name in the ledger."""
        return f"mean{self.strength:g}"

    def factor(self, features: int, sums: Sequence[float], /) -> float:  # noqa: ARG002
        """Return 1 / (number of features + strength)."""
        return 1.0 / (features + self.strength)


@dataclass(frozen=True, slots=True)
class Bounded:
    r"""The mean, or the sum over the root of the number of features, bounded by 1.

    Parameters
    ----------
    strength : float
        Number of neutral features added to those of the message.
    scale : float
        The quotient that is mapped to :math:`1 / \sqrt{2}`.  Unit: nats.
    mean : bool, default False
        Whether the sum is divided by the number of features, not by its root.

    Notes
    -----
    Let *d* be the difference of the largest and the smallest sum over the classes (for
    two classes, the log-odds), and :math:`s = d / \sqrt{n + m}` for *n* features and a
    strength of *m*, or :math:`s = d / (n + m)` for the mean.  The difference becomes
    :math:`s / \sqrt{\sigma^2 + s^2}`.  This is applied as a factor, so each feature
    keeps its share.

    Examples
    --------
    >>> round(1000.0 * Bounded().factor(80, [-1000.0, 0.0]), 3)
    0.999
    """

    strength: float = 20.0
    scale: float = 5.4
    mean: bool = False

    @property
    def name(self) -> str:
        """Its name in the ledger."""
        kind = "bounded-mean" if self.mean else "bounded"
        return f"{kind}{self.strength:g}-{self.scale:g}"

    def factor(self, features: int, sums: Sequence[float], /) -> float:
        """Return the factor that bounds the sum."""
        spread = max(sums) - min(sums)
        # An infinite difference stays infinite.
        if not math.isfinite(spread):
            spread = 0.0
        size = features + self.strength
        return 1.0 / math.hypot(
            self.scale * (size if self.mean else math.sqrt(size)), spread
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One summand of the verdict: the normalised sum of a classifier, times a weight.

    Parameters
    ----------
    classifier : str
        Name of one of the specification's classifiers.
    normaliser : Normaliser
        Brings the sum to the common scale.
    weight : float
        Initial weight, before the fusion has fitted one.  Unit: nats of the verdict per
        nat of the normalised sum.
    """

    classifier: str
    normaliser: Normaliser = ShrunkenMean()
    weight: float = 1.0

    @property
    def name(self) -> str:
        """Its name in the ledger, such as ``words/mean20``."""
        return f"{self.classifier}/{self.normaliser.name}"


def raised(messages: Ints) -> float:
    r"""Return the factor of all terms that compensates for views with few messages.

    Parameters
    ----------
    messages : ndarray of int64, shape (T,)
        Number of messages learned by the view of each term.

    Returns
    -------
    float
        At least 1; exactly 1 if all views have learned the same messages, or none.

    Notes
    -----
    .. math:: \sqrt{\frac{T \max_t \log (1 + n_t)}{\sum_t \log (1 + n_t)}}

    The weights are fitted to views with much the same evidence on a message
    (`VerdictRule`).  If one of them has none, as after an import
    from another filter without such a view, the others have to stand in for it.  If the
    views were identical, the others would have to take over its whole weight; if they
    were independent, nothing.  The root is a compromise.  As the view learns, it gets
    its weight back: its first hundred messages teach it more than the next.

    Examples
    --------
    >>> [round(raised(np.array([1000, 1000, n])), 2) for n in (0, 50, 1000)]
    [1.22, 1.08, 1.0]
    """
    # Experiment 0056, expected cost after the import of a list, sum of five streams:
    # 1,477 without a factor, 1,353 with the root, 1,334 with the quotient itself; if
    # only words were imported, 2,492, 1,967 and 2,633.
    most = int(messages.max(initial=0))
    if not most or bool((messages == most).all()):
        return 1.0
    taught = np.log1p(messages)
    return math.sqrt(taught.size * taught.max() / taught.sum())


# A view that has learned ten spam and three ham has seen most words of any message in
# spam alone.  By the messages of both sides together, after a thousand spam and three
# ham, 29, 18, 19 and 29 % of the ham of four corpora was lost at ln 9, instead of 14,
# 3, 3 and 2.  The price is spam caught so early: 93, 44, 78 and 59 % instead of 97, 87,
# 98 and 93.  Over twelve whole streams, 1-ROCA is 0.0363 instead of 0.0371 and lam
# 0.824 instead of 0.829 (experiment 0100).
FEW: Final = 7
"""Messages of the side that has learned fewer after which a term has half of its
weight, if its view learns only errors."""


def lowered(messages: Ints) -> Floats:
    """Return the factor of terms by the messages of the side with fewer lessons.

    Examples
    --------
    >>> lowered(np.array([0, 7, 93])).tolist()
    [0.0, 0.5, 0.93]
    """
    return messages / (messages + FEW)


# One strength and one weight for all views and all corpora (experiment 0022;
# 1-ROCA in per cent, lam at the threshold ln 9):
#
#     sum of the four views'    spamassassin          enron, mean of six
#     sum / root of n           0.163   lam 1.51      0.087   lam 1.10
#     mean                      0.101       1.38      0.206       1.94
#     mean with 20 more         0.101       1.35      0.064       1.02
#
# A plain mean gives a message of five features as much confidence as one of 500. Values
# from 10 to 50 give similar results.  Of the weights from 3 to 6, 5 is the best
# calibrated for the views alone (experiment 0025), and 4.5 with the header corrections
# (experiment 0095).  Beside grams, 3.5 ranks better than 4 on ten of twelve streams;
# with 3, which ranks better still, wrong labels leave more ham unsure (experiment
# 0100).
VIEW_STRENGTH: Final = 20.0
VIEW_WEIGHT: Final = 4.5
VIEW_WEIGHT_BESIDE_GRAMS: Final = 3.5
# The corrections are bounded by 1, so they move the verdict by at most 3 and 2 nats
# (experiment 0078).  With a weight of 3, the grams would rank mail in date order worse
# than without them (experiment 0097).
ERROR_TERMS: Final = (
    Term(classifier=CORRECTIONS, normaliser=Bounded(), weight=3.0),
    Term(classifier=HEADER_CORRECTIONS, normaliser=Bounded(), weight=2.0),
    Term(classifier=GRAMS, normaliser=Bounded(scale=0.09, mean=True), weight=2.0),
)


def terms_of(text_views: tuple[str, ...]) -> tuple[Term, ...]:
    """Return the summands of a verdict for some text views.

    The summands of the corrections and of the grams are last, because the first must be
    of a view that learns every message.
    """
    terms = tuple(
        Term(
            classifier=name,
            normaliser=ShrunkenMean(VIEW_STRENGTH),
            weight=VIEW_WEIGHT_BESIDE_GRAMS if GRAMS in text_views else VIEW_WEIGHT,
        )
        for name in text_views
        if name not in {CORRECTIONS, GRAMS}
    )
    found = {*text_views}
    if {CORRECTIONS, "headers"} <= found:
        found.add(HEADER_CORRECTIONS)
    return (*terms, *[term for term in ERROR_TERMS if term.classifier in found])


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictRule:
    """Combines the evidence of the views into the log-odds of the verdict.

    Naive Bayes assumes that the words of a message are independent.  They are not, so
    the plain sum of their contributions is far too confident, and the more so the
    longer the message; and two views of a message have much the same evidence.  The
    verdict is therefore a weighted sum of the views' sums, each scaled by the number of
    its features, seen before or not.  A message with mostly new features thus gets less
    confidence.

    Parameters
    ----------
    terms : tuple of Term
        The summands, with different names.
    prior : FadingPrior
        Class prior of the verdict, from the mail that arrived
        (`app.classifier.fusion.Arrivals`).
    fusion : FusionRule
        How the weights of the terms and a bias for each class are fitted.
    spam_threshold : float
        Least log-odds of *spam*.  Unit: nats.
    ham_threshold : float
        Largest log-odds of *ham*; *unsure* lies between the two.  Unit: nats.

    Attributes
    ----------
    names : tuple of str
        Names of the terms in the ledger.
    classifiers : frozenset of str
        The classifiers that decide.

    Raises
    ------
    InvalidSetting
        If there is no term, two terms have the same name, the thresholds are not in
        order, or a number is not finite.
    """

    terms: tuple[Term, ...] = field(default_factory=lambda: terms_of(SHIPPED_VIEWS))
    prior: FadingPrior = field(default_factory=FadingPrior)
    fusion: FusionRule = field(default_factory=FusionRule)
    spam_threshold: float = SPAM_THRESHOLD
    ham_threshold: float = -SPAM_THRESHOLD
    names: tuple[str, ...] = field(init=False, repr=False, compare=False)
    classifiers: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the terms and thresholds."""
        names = tuple(term.name for term in self.terms)
        if len(set(names)) < len(names):
            msg = f"no two terms of a verdict may be the same, got {list(names)}"
            raise InvalidSetting(msg)
        low, high = self.ham_threshold, self.spam_threshold
        if not (math.isfinite(low) and math.isfinite(high) and low <= high):
            raise InvalidSetting(
                "the ham threshold must be finite and not above the spam "
                f"threshold, got {low!r} and {high!r}"
            )
        # Stored, because each written row and each example needs them.
        object.__setattr__(self, "names", names)
        deciding = frozenset(term.classifier for term in self.terms)
        object.__setattr__(self, "classifiers", deciding)

    def decide(self, log_odds: float) -> Decision:
        """Return the decision for log-odds by the thresholds."""
        if log_odds >= self.spam_threshold - ROUNDING:
            return "spam"
        if log_odds <= self.ham_threshold + ROUNDING:
            return "ham"
        return "unsure"
