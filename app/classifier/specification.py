"""Specification: the labels, views, event models and verdict rule of a profile.

All estimates of the family are quotients of counts, so they do not depend on the unit
if pseudo-counts have the same unit as the counts.  Weights of counts by their age are
integers, so weighted counts can be added and subtracted exactly.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from app.bayes.models.chain import Chain
from app.bayes.models.discrete import Bernoulli, Differential, Multinomial
from app.bayes.prior import SmoothedPrior
from app.bayes.smoothing import Interpolation, Lidstone
from app.bayes.sparse import SparseCounts
from app.classifier.rule import (
    CORRECTIONS,
    GRAMS,
    HEADER_CORRECTIONS,
    SHIPPED_VIEWS,
    VerdictRule,
)
from app.classifier.verdict import ActionRule
from app.errors import InvalidSetting, UnknownLabel

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from app.bayes.prior import Prior
    from app.bayes.smoothing import Smoothing
    from app.bayes.state import State
    from app.features.id_key import IdKey
    from app.kernels import Bools, Ints


def in_parts(model: EventModel) -> EventModel:
    """Return an event model for counts in parts.

    Examples
    --------
    >>> in_parts(Multinomial(smoothing=Lidstone(0.5))).smoothing
    Lidstone(alpha=512.0)
    """
    match model:
        case Multinomial(smoothing=smoothing, interpolation=interpolation):
            return replace(
                model,
                smoothing=_smoothing(smoothing),
                interpolation=None
                if interpolation is None
                else Interpolation(interpolation.messages * PARTS),
            )
        case Bernoulli(smoothing=smoothing):
            return replace(model, smoothing=_smoothing(smoothing))
        case Differential(kappa=kappa):
            return Differential(kappa=kappa * PARTS)
        case Chain(strength=strength):
            return Chain(strength=strength * PARTS)


def prior_in_parts(prior: Prior) -> Prior:
    """Return a class prior for counts in parts.

    Examples
    --------
    >>> prior_in_parts(SmoothedPrior(1.0))
    SmoothedPrior(alpha=1024.0)
    """
    match prior:
        case SmoothedPrior(alpha=alpha):
            return SmoothedPrior(alpha * PARTS)
        case _:
            # Shares, or priors that the operator states, have no unit.
            return prior


def _smoothing(smoothing: Smoothing) -> Smoothing:
    """Return a rule of smoothing for counts in parts."""
    if isinstance(smoothing, Lidstone):
        return Lidstone(smoothing.alpha * PARTS)
    return smoothing


EventModel = Multinomial | Bernoulli | Chain | Differential
"""The members of the naive Bayes family that read text."""
LABELS: Final = ("ham", "spam")
"""The default labels of a profile."""
SPAM_LABELS: Final = ("spam",)
"""The default labels for unwanted mail."""
KINDS: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "mail": (
        ("ham", "newsletter", "notification", "phishing", "spam"),
        ("phishing", "spam"),
    )
}
"""Named sets of labels, each with its labels for unwanted mail."""
TEXT_VIEWS: Final = ("words", "headers", "pairs")
"""The views of a message's text that learn every message.

The corrections are made of them."""
# Pseudo-count and messages of the text views (experiment 0050; 1-ROCA in per cent,
# and lam, with weights fitted to what was learned before):
#
#     alpha   spamassassin    shuffled    enron, mean of six
#     0.1     0.098  1.44     0.052       0.058
#     0.03    0.079  1.29     0.049       0.058
#     0.01    0.076  1.32     0.046       0.065
#
# 0.02 lies between the best for each.  A class with few messages is mixed with all
# mail: after 1,000 spam and 10 ham of three corpora, at ln 9, 22, 15 and 7 % of the ham
# are lost instead of 75, 48 and 44, and 98, 92 and 98 % of the spam caught instead of
# 99, 94 and 98 (experiment 0053).  Its pseudo-counts are proportional to the
# frequencies of features: after 1,000 spam and 3 ham, 21, 15 and 12 % are lost instead
# of 60, 28 and 22, and 95, 84 and 94 % caught instead of 98, 86 and 95; whole streams
# are ranked as before (experiment 0090).
TEXT_SMOOTHING: Final = Lidstone(0.02)
TEXT_INTERPOLATION: Final = Interpolation(3.0)
MIN_LABELS: Final = 2
MAX_LABELS: Final = 64
"""Most labels.  POPFile's users had a dozen buckets; each label is a column in
memory."""
MAX_LABEL_LENGTH: Final = 32
# Clients treat a path of one or two dots as a folder, even if escaped.
_NAME: Final = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9@._+-]{1,128}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewModel:
    """One naive Bayes classifier: an event model over one view.

    Parameters
    ----------
    view : str
        Name of the view with its features and statistics.
    event_model : EventModel
        Converts these statistics to a likelihood.
    made_of : tuple of str
        The views that its features are of; empty if the view is extracted from the
        message.

    Attributes
    ----------
    learns_errors : bool
        Whether the view learns only messages that the classifier of its name decided
        wrongly or nearly so (`app.classifier.learn.taught`): a view made of others, or
        grams.
    event_model_name : str
        Name of the event model in answers.
    """

    view: str
    event_model: EventModel
    made_of: tuple[str, ...] = ()
    # Stored, because each message that is scored or learned needs them.
    learns_errors: bool = field(init=False, repr=False, compare=False)
    event_model_name: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Derive what the view learns."""
        errors = bool(self.made_of) or isinstance(self.event_model, Chain)
        object.__setattr__(self, "learns_errors", errors)
        name = type(self.event_model).__name__.lower()
        object.__setattr__(self, "event_model_name", name)

    def features(self, views: Mapping[str, SparseCounts]) -> SparseCounts:
        """Return the features of a message that the classifier uses.

        In a view made of others, the features of the first view come first, so the
        place of a feature shows its origin (`app.classifier.explain.attribute`).
        """
        if not self.made_of:
            return views.get(self.view) or _NOTHING
        ids = np.concatenate([views.get(view, _NOTHING).ids for view in self.made_of])
        return SparseCounts.of_sorted(ids, np.ones_like(ids))


# A message learned before a view existed is not in that view.
_NOTHING: Final = SparseCounts.of({})


def classifiers_of(text_views: tuple[str, ...]) -> dict[str, ViewModel]:
    """Return the classifiers for some text views.

    Raises
    ------
    InvalidSetting
        If no view is given, or a view is unknown or repeated.
    """
    every = (*TEXT_VIEWS, GRAMS, CORRECTIONS)
    strangers = [view for view in text_views if view not in every]
    if strangers or not text_views or len(set(text_views)) < len(text_views):
        raise InvalidSetting(
            f"the text views can be {', '.join(every)}, each once, got "
            f"{list(text_views)}"
        )
    made_of = tuple(view for view in TEXT_VIEWS if view in text_views)
    if CORRECTIONS in text_views and not made_of:
        raise InvalidSetting(
            f"the text view {CORRECTIONS} uses the features of "
            f"{', '.join(TEXT_VIEWS)}; add one of these views, got {list(text_views)}"
        )
    if not made_of:
        raise InvalidSetting(
            f"a profile needs one of the text views {', '.join(TEXT_VIEWS)}, which "
            f"learn every message, got {list(text_views)}"
        )
    multinomial = Multinomial(
        smoothing=TEXT_SMOOTHING, counting="presence", interpolation=TEXT_INTERPOLATION
    )
    classifiers = {
        view: ViewModel(view=view, event_model=multinomial)
        for view in text_views
        if view in TEXT_VIEWS
    }
    if CORRECTIONS in text_views:
        classifiers[CORRECTIONS] = ViewModel(
            view=CORRECTIONS, event_model=Differential(), made_of=made_of
        )
        if "headers" in made_of:
            classifiers[HEADER_CORRECTIONS] = ViewModel(
                view=CORRECTIONS, event_model=Differential(), made_of=("headers",)
            )
    if GRAMS in text_views:
        classifiers[GRAMS] = ViewModel(view=GRAMS, event_model=Chain())
    return classifiers


@dataclass(frozen=True, slots=True, kw_only=True)
class Specification:
    """Everything about a profile that is not learned.

    Parameters
    ----------
    classifiers : mapping of str to ViewModel
        The naive Bayes classifiers whose posteriors are returned.
    decay : Decay or None
        Weight of old messages; None means that all count the same.  Use `decaying`,
        which converts everything else to the same unit.
    key : IdKey or None
        The key of feature ids; None if they are not keyed.

    Attributes
    ----------
    views : tuple of str
        The views with statistics.
    unconditional : tuple of str
        Those of them that learn every message, even one that is not scored.
    deciding : tuple of str
        The classifiers of the verdict's terms, and those of views of which theirs are
        made, in the order of `classifiers`.
    places : ndarray of int64, shape (T,), read-only
        The place of each term's classifier among them.
    spam_mask : ndarray of bool, shape (K,), read-only
        Which classes are unwanted mail.
    sides : Specification
        The same for two classes, wanted mail and spam, between which verdicts decide;
        this specification itself where it has two labels.
    side_of : mapping of str to int
        The class of each label among those of `sides`.

    Raises
    ------
    InvalidSetting
        If there are fewer than two labels, a label is repeated or is not a short plain
        word, no label or every label is a spam label, the verdict begins with a view
        that learns only errors, or a view is made of one without a classifier.
    """

    labels: tuple[str, ...] = LABELS
    spam_labels: tuple[str, ...] = SPAM_LABELS
    classifiers: Mapping[str, ViewModel] = field(
        default_factory=lambda: classifiers_of(SHIPPED_VIEWS)
    )
    prior: Prior = field(default_factory=lambda: SmoothedPrior(1.0))
    verdict: VerdictRule = field(default_factory=VerdictRule)
    action: ActionRule = field(default_factory=ActionRule)
    decay: Decay | None = None
    key: IdKey | None = None
    # Stored, because each message that is parsed or scored needs them.
    views: tuple[str, ...] = field(init=False, repr=False, compare=False)
    unconditional: tuple[str, ...] = field(init=False, repr=False, compare=False)
    deciding: tuple[str, ...] = field(init=False, repr=False, compare=False)
    places: Ints = field(init=False, repr=False, compare=False)
    spam_mask: Bools = field(init=False, repr=False, compare=False)
    sides: Specification = field(init=False, repr=False, compare=False)
    side_of: Mapping[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check labels, classifiers and terms."""
        check_labels(self.labels, self.spam_labels)
        views = tuple(dict.fromkeys(m.view for m in self.classifiers.values()))
        errors = {m.view for m in self.classifiers.values() if m.learns_errors}
        made = {m.view for m in self.classifiers.values() if m.made_of}
        for name, model in self.classifiers.items():
            strange = [v for v in model.made_of if v in made or v not in views]
            if strange:
                raise InvalidSetting(
                    f"the classifier {name!r} is made of {strange}, which are not "
                    "views of features with a classifier of their own"
                )
        if self.classifiers[self.verdict.terms[0].classifier].learns_errors:
            raise InvalidSetting(
                "the first term of a verdict is over a view of its own, which learns "
                f"every message; got {self.verdict.names[0]!r}"
            )
        spam = np.array([label in self.spam_labels for label in self.labels])
        spam.flags.writeable = False
        terms = self.verdict.classifiers
        models = [self.classifiers[name] for name in terms]
        others = {view for model in models for view in model.made_of}
        others -= {model.view for model in models}
        deciding = tuple(
            name
            for name, model in self.classifiers.items()
            if name in terms or model.view in others
        )
        places = np.array([deciding.index(t.classifier) for t in self.verdict.terms])
        places.flags.writeable = False
        object.__setattr__(self, "views", views)
        unconditional = tuple(view for view in views if view not in errors)
        object.__setattr__(self, "unconditional", unconditional)
        object.__setattr__(self, "deciding", deciding)
        object.__setattr__(self, "places", places)
        object.__setattr__(self, "spam_mask", spam)
        sides, side_of = self, {label: c for c, label in enumerate(self.labels)}
        if len(self.labels) > MIN_LABELS:
            sides = replace(self, labels=LABELS, spam_labels=SPAM_LABELS)
            side_of = dict(zip(self.labels, map(int, spam), strict=True))
        object.__setattr__(self, "sides", sides)
        object.__setattr__(self, "side_of", side_of)

    def decaying(self, half_life: float) -> Specification:
        """Return the specification with decaying counts.

        Parameters
        ----------
        half_life : float
            Months after which a message counts half.

        Raises
        ------
        InvalidSetting
            If the half-life is not positive and finite.
        """
        return replace(
            self,
            classifiers={
                name: replace(model, event_model=in_parts(model.event_model))
                for name, model in self.classifiers.items()
            },
            prior=prior_in_parts(self.prior),
            verdict=replace(self.verdict, prior=self.verdict.prior.in_parts(PARTS)),
            decay=Decay(half_life),
        )

    def deciding_as(self, other: Specification) -> Specification:
        """Return the specification with the thresholds and actions of another."""
        return replace(
            self,
            verdict=replace(
                self.verdict,
                spam_threshold=other.verdict.spam_threshold,
                ham_threshold=other.verdict.ham_threshold,
            ),
            action=other.action,
        )

    def as_of(self, epoch: int | None) -> Specification:
        """Return the specification with ages counted from a month, YYYYMM."""
        if self.decay is None:
            return self
        return replace(self, decay=replace(self.decay, epoch=epoch))

    @property
    def unit(self) -> int:
        """The weight of a newly learned message."""
        return 1 if self.decay is None else PARTS

    def in_messages(self, counts: Ints) -> Ints:
        """Return counts as numbers of messages.

        Decayed counts are rounded to whole messages, halves up.
        """
        if self.decay is None:
            return counts
        return (counts + PARTS // 2) // PARTS

    def by_label(self, counts: Ints) -> dict[str, int]:
        """Return counts of messages, shape (K,), by label; see `in_messages`."""
        return dict(zip(self.labels, self.in_messages(counts).tolist(), strict=True))

    @property
    def n_classes(self) -> int:
        """Number of classes K."""
        return len(self.labels)


def check_name(name: str) -> None:
    """Raise unless a name is valid for a profile.

    Raises
    ------
    InvalidSetting
        The message names the broken rule.
    """
    if not _NAME.fullmatch(name):
        raise InvalidSetting(
            "the name of a profile must have 1 to 128 ASCII letters, digits "
            "and any of '@._+-', as a domain or an address has, and not be "
            f"one or two dots; got {name[:128]!r}"
        )


def require_label(label: str, labels: Collection[str], *, of: str) -> None:
    """Raise unless a label is one of some labels.

    Parameters
    ----------
    of : str
        Their owner in the message, such as ``the profile 'default'``.

    Raises
    ------
    UnknownLabel
        The message has the existing labels.
    """
    if label not in labels:
        msg = f"{of} has no label {label[:64]!r}; its labels are: {', '.join(labels)}"
        raise UnknownLabel(msg)


def check_labels(labels: tuple[str, ...], spam_labels: tuple[str, ...]) -> None:
    """Raise unless labels are valid for a profile.

    Raises
    ------
    InvalidSetting
        The message names the broken rule.
    """
    if not MIN_LABELS <= len(set(labels)) == len(labels) <= MAX_LABELS:
        raise InvalidSetting(
            f"a profile must have {MIN_LABELS} to {MAX_LABELS} different labels, got "
            f"{', '.join(labels) or 'none'}"
        )
    for label in labels:
        plain = label.replace("-", "").replace("_", "")
        if not (plain.isalnum() and plain.isascii() and label == label.lower()):
            raise InvalidSetting(
                "a label must consist of lower-case ASCII letters, digits, '-' and "
                f"'_', got {label!r}"
            )
        if len(label) > MAX_LABEL_LENGTH:
            raise InvalidSetting(
                f"a label must have at most {MAX_LABEL_LENGTH} characters, got "
                f"{label!r}"
            )
    strangers = [label for label in spam_labels if label not in labels]
    if strangers:
        msg = f"the spam labels {strangers} are not among the labels {list(labels)}"
        raise InvalidSetting(msg)
    if not 0 < len(set(spam_labels)) < len(labels):
        raise InvalidSetting(
            "at least one label must be for spam and one for wanted mail, got "
            f"labels {list(labels)} and spam labels {list(spam_labels)}"
        )


PARTS: Final = 1024
"""Weight of a message of the newest month.

A power of two, so that quotients of counts and pseudo-counts in parts equal those in
messages bit for bit (`app.classifier.specification`).  After more than eleven
half-lives a message counts 0.
"""


@dataclass(frozen=True, slots=True)
class Decay:
    """Weight of a message, by the month in which it was learned.

    Parameters
    ----------
    half_life : float
        Months after which a message counts half.
    epoch : int or None, default None
        The month from which ages count, YYYYMM; None before anything was learned.

    Examples
    --------
    >>> decay = Decay(6.0, 202603)
    >>> [decay.weight(epoch) for epoch in (202603, 202602, 202509, 202503, 201503)]
    [1024, 912, 512, 256, 0]
    """

    half_life: float
    epoch: int | None = None

    def weight(self, epoch: int) -> int:
        """Return the weight of a message of a month.  Unit: parts.

        A future month counts as the newest: it may come from an import from a machine
        with a fast clock.
        """
        if self.epoch is None:
            return PARTS
        age = max(0, _months(self.epoch) - _months(epoch))
        # The value is never half-way between two integers unless exactly representable,
        # so a last bit that differs between processors does not change a weight.
        return round(PARTS * math.exp2(-age / self.half_life))


def weighted(history: Mapping[int, State], decay: Decay | None) -> list[State]:
    """Return the weighted state of each month; without decay, all weigh the same.

    Raises
    ------
    InvalidObservation
        If a count is too large to be weighted.
    """
    if decay is None:
        return list(history.values())
    return [state * decay.weight(month) for month, state in history.items()]


def _months(epoch: int) -> int:
    """Return the ordinal number of a month."""
    year, month = divmod(epoch, 100)
    return 12 * year + month
