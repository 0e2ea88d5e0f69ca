"""Explanation: the log-odds of a verdict by feature, by family and by reason.

A reason is a group of features that people perceive as one: a header with all its
words, the links to one domain, adjacent words with their pairs, or all grams.  Contract
of this file: each feature belongs to exactly one reason and one family, and the cost is
that of sorting the features.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, NotRequired, TypedDict

import numpy as np

from app.features.grams import shown
from app.features.observation import FeatureNames, ids_of, names_at
from app.features.tokens import without_overlaps
from app.kernels import likelihood
from app.kernels import reasons as kernel

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Self

    from numpy.typing import NDArray

    from app.classifier.snapshot import Scorer
    from app.classifier.statement import Statement
    from app.classifier.verdict import Verdict
    from app.features.observation import Observation
    from app.kernels import Bools, Floats, Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribution:
    """The log-odds of a verdict as a sum.

    Parameters
    ----------
    prior : float
        Contribution of the class prior and the bias of the fusion, and of the constants
        of the event models.  Unit: nats.
    contributions : mapping of str to ndarray of float64, shape (n,)
        By view, the contribution of each feature, in the order of the view's features.
        Together with `prior` they sum to the log-odds.  A view made of others has none
        of its own: its contributions are added to those of the other views.  Unit:
        nats.
    seen : mapping of str to ndarray of bool, shape (n,)
        By view, which of the features were seen before.
    """

    prior: float
    contributions: Mapping[str, Floats]
    seen: Mapping[str, Bools]


def attribute(verdict: Verdict, snapshot: Scorer) -> Attribution:
    """Return the contribution of each feature to the log-odds of a verdict.

    Notes
    -----
    A verdict is between two sides, so its log-odds are the difference of their joints
    (`app.classifier.snapshot.score`), which is a sum with one contribution per feature.
    """
    snapshot = snapshot.sides
    specification = snapshot.specification
    weights = np.where(specification.spam_mask, 1.0, -1.0)
    constant = snapshot.verdict_log_prior + snapshot.fusion.bias
    contributions: dict[str, Floats] = {}
    seen: dict[str, Bools] = {}
    sizes = {
        specification.classifiers[name].view: parts.seen.size
        for name, parts in verdict.parts.items()
    }
    for worth, term, factor in zip(
        (snapshot.fusion.weights * snapshot.raised).tolist(),
        specification.verdict.terms,
        verdict.factors,
        strict=True,
    ):
        parts = verdict.parts[term.classifier]
        model = specification.classifiers[term.classifier]
        weight = worth * factor
        constant += parts.constant * weight
        start = 0
        # Contributions of a view made of others are added to the features of those, and
        # several terms may use one view, but each feature has one entry.
        for view in model.made_of or (model.view,):
            if view not in contributions:
                contributions[view] = np.zeros(sizes[view])
                seen[view] = np.zeros(sizes[view], np.bool_)
            start = likelihood.attribute(
                parts.terms,
                parts.seen,
                start,
                weights * weight,
                contributions[view],
                seen[view],
            )
    return Attribution(
        prior=float(constant @ weights),
        contributions=contributions,
        seen=seen,
    )


_NOTHING: Final = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The log-odds of a verdict, split in two ways.

    Parameters
    ----------
    strongest : int
        Requested number of reasons of each side.
    families : mapping of str to float
        Contributions of each family of features, each kind of statement, and the prior,
        strongest first.  They sum to the log-odds.  Unit: nats.
    summands : tuple of Summand
        The prior, all statements, the strongest reasons of the winning side, those of
        the other side, and the rest.  They sum to the log-odds too.
    """

    strongest: int
    families: Mapping[str, float]
    summands: tuple[Summand, ...]

    @property
    def reasons(self) -> tuple[Summand, ...]:
        """The listed reasons."""
        return tuple(each for each in self.summands if each.kind == "reason")

    @property
    def share(self) -> float | None:
        """Share of the listed reasons in the log-odds.

        It is more than 1 if the rest is evidence for the other side, and None if the
        log-odds are within a thousandth of 0.
        """
        total = math.fsum(self.families.values())
        if abs(total) < _NOTHING:
            return None
        return math.fsum(each.log_odds for each in self.reasons) / total

    def stated(self, statements: Sequence[Statement]) -> Self:
        """Return the explanation with statements added."""
        families = dict(self.families)
        for each in statements:
            families[each.kind] = families.get(each.kind, 0.0) + each.nats
        prior, *reasons, rest = self.summands
        spam = math.fsum(families.values()) >= 0
        # The sort is stable: on each side the strongest reason stays first.
        reasons.sort(key=lambda each: (each.log_odds > 0) != spam)
        of_statements = [
            Summand("reason", x.text, x.kind, x.nats, 0) for x in statements
        ]
        return replace(
            self,
            families=_strongest_first(families),
            summands=(prior, *of_statements, *reasons, rest),
        )


def _strongest_first(families: Mapping[str, float]) -> dict[str, float]:
    return dict(sorted(families.items(), key=lambda item: -abs(item[1])))


def strongest_reason(
    attribution: Attribution,
    observation: Observation,
    statements: Iterable[Statement] = (),
    *,
    spam: bool,
    named: bool,
) -> str | None:
    """Return the view and the text of the strongest feature of one side.

    If a statement is stronger, its kind and name are returned.

    Parameters
    ----------
    named : bool
        Whether to return the text of the feature, or else its id.

    Returns
    -------
    str or None
        None if there is no evidence for that side.
    """
    strongest, found, statement = 0.0, None, None
    for view, added in attribution.contributions.items():
        if added.size:
            at = int(added.argmax() if spam else added.argmin())
            adds = float(added[at]) if spam else -float(added[at])
            if adds > strongest:
                strongest, found = adds, (view, at)
    for each in statements:
        if (each.nats if spam else -each.nats) > strongest:
            strongest = abs(each.nats)
            statement = f"{each.kind}:{each.name}" if named else each.kind
    if statement is not None or found is None:
        return statement
    view, at = found
    payload = observation.views.get(view)
    if payload is None:
        return view
    if not named:
        return f"{view}:{anonymous(int(payload.ids[at]))}"
    (text,) = texts_at(observation, view, np.array([at]))
    return f"{view}:{text}"


# With single words and pairs, ten reasons of each side explain a median of 45 to 54 %
# of the log-odds; with up to six words, 55 to 76 % (experiment 0075). Eight words
# explain little more, and are too many to read at a glance.
MOST_WORDS: Final = 6
"""Most words of a reason."""
# A row of six words has five joins. With 10 for each reason, the median share of
# experiment 0075 is the same as without a limit.
JOINS: Final = 10
"""Most pairs that may join words, per listed reason of a side."""
# Most words have two pairs, and only the strongest words of a header are read.
PARTS: Final = 3
"""Most listed features of a reason."""
# Grams are of the beginning of a text, before which the words have those of headers.
_READ: Final = 8_000
"""Most bytes of words in which the letters of grams are looked up."""
_TAGS: Final = {
    "link": "links",
    "file": "files",
    "alt": "images",
    "hidden": "hidden",
    "trick": "tricks",
    "random": "tricks",
}
"""The family of a word by its tag (`app.features.words`)."""
_LINKS, *_OTHERS = _KINDS = list(dict.fromkeys(_TAGS.values()))
_OF_TAGS: Final = np.array(
    [ids_of(list(_TAGS)), [_KINDS.index(kind) for kind in _TAGS.values()]]
)
_HOW: Final = {
    "headers": kernel.TAGGED,
    "words": kernel.WORDS,
    "pairs": kernel.PAIRS,
    "grams": kernel.TOGETHER,
}
"""The grouping of features by view; those of other views are not grouped."""


# An answer has some fifty.  Dataclasses would take three times as long to create and to
# write as JSON.
class ListedFeature(TypedDict):
    """One listed feature, in the form of documents.

    Parameters
    ----------
    feature : str
        Its text; ``"#"`` and its id in hex if the text is not stored.  A gram has one
        character for all bytes of a kind.
    log_odds : float
        Its contribution; positive is evidence of spam.  Unit: nats.
    places : int
        Number of its places in a shaded text, which contribute equally.
    messages : mapping of str to int
        Number of learned messages with it, by label.
    """

    feature: str
    view: str
    log_odds: float
    places: NotRequired[int]
    messages: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Summand:
    """One summand of the log-odds.

    Parameters
    ----------
    kind : {'prior', 'reason', 'rest'}
        The class prior with the bias of the fusion; a reason or a `Statement`; or all
        features of other reasons.
    text : str
        The words, the header, the domain of the links, ``"grams"``, or the text of a
        statement.  For the prior and the rest, the kind in brackets.
    family : str or None
        Family of the reason, or kind of the statement; None for the prior and the
        rest.
    log_odds : float
        Its contribution; positive is evidence of spam.  Unit: nats.
    features : int
        Number of its features.
    messages : mapping of str to int
        For the prior, the number of learned messages by label; otherwise empty.
    parts : tuple of ListedFeature
        The strongest features of a reason on its side.
    """

    kind: Literal["prior", "reason", "rest"]
    text: str
    family: str | None
    log_odds: float
    features: int
    messages: Mapping[str, int] = field(default_factory=dict)
    parts: tuple[ListedFeature, ...] = ()

    @property
    def title(self) -> str:
        """The text for people."""
        return title(self.text, self.family, [part["feature"] for part in self.parts])


def title(text: str, family: str | None, features: Sequence[str]) -> str:
    """Return the text of a reason; of many features, with the strongest ones.

    Examples
    --------
    >>> title("from", "headers", ["from:bob", "from:bank.example"])
    'from: bob bank.example'
    >>> title("free money", "words", ["free", "free money"])
    'free money'
    >>> title("grams", "grams", ["|Buy", "y_no"])
    'grams: |Buy y_no'
    """
    if family == "grams":
        return " ".join([f"{text}:", *features])
    tagged = [feature.partition(":") for feature in features]
    if family == "words" or not tagged or not all(colon for _, colon, _ in tagged):
        return text
    return f"{text}: {' '.join(word for _, _, word in tagged)}"


def explain(
    attribution: Attribution,
    snapshot: Scorer,
    observation: Observation,
    *,
    strongest: int,
) -> Explanation:
    """Split the log-odds of a verdict by family, and by reason.

    Parameters
    ----------
    strongest : int
        Number of strongest reasons to list for spam and against it.  A reason without a
        contribution is on neither side.  With 0, each pair is a separate reason.
    """
    seen = _seen_features(attribution, observation, split_pairs=not strongest)
    first_pair, after_pairs = seen.range_of("pairs")
    n = seen.values.size
    room = np.empty((kernel.LINES, max(n + after_pairs - first_pair, 256)), np.int64)
    totals = np.empty(n)
    families = [*_KINDS, *seen.starts]
    sums = np.empty((2, len(families)))
    listed = np.empty((2 * strongest, MOST_WORDS + PARTS), np.int64)
    rest, left, size = kernel.grouped(
        seen.keys,
        seen.values,
        first_pair,
        after_pairs,
        JOINS * strongest,
        MOST_WORDS,
        attribution.prior,
        sums,
        totals,
        listed,
        room,
    )
    chosen = room[kernel.CHOSEN, :size]
    features = _listed(chosen, seen, snapshot, observation)
    learned = snapshot.specification.by_label(snapshot.learned)
    summands = [Summand("prior", "(prior)", None, attribution.prior, 0, learned)]
    listed = listed[listed[:, 0] >= 0]
    # Totals, sizes and families of reasons are stored at their first features.
    reasons = chosen.take(listed[:, 0])
    for row, number, total, n_features in zip(
        listed.tolist(),
        seen.keys[kernel.FAMILY].take(reasons).tolist(),
        totals.take(reasons).tolist(),
        room[kernel.SIZE].take(reasons).tolist(),
        strict=True,
    ):
        words = [features[at]["feature"] for at in row[:MOST_WORDS] if at >= 0]
        parts = tuple([features[at] for at in row[MOST_WORDS:] if at >= 0])
        family = families[number]
        text = _text(family, words)
        summands.append(Summand("reason", text, family, total, n_features, {}, parts))
    summands.append(Summand("rest", "(rest)", None, rest, left))
    columns = [*zip(families, *sums.tolist(), strict=True)]
    by_family = {
        family: total
        for family, total, n_features in columns[len(_KINDS) :] + columns[: len(_KINDS)]
        # A view is listed even if none of its features was seen.
        if n_features or family in seen.starts
    }
    by_family["prior"] = attribution.prior
    return Explanation(
        strongest=strongest,
        families=_strongest_first(by_family),
        summands=tuple(summands),
    )


class _SeenFeatures(NamedTuple):
    """The features that were seen before, view by view.

    Parameters
    ----------
    keys : ndarray of int64, shape (4, n)
        See `app.kernels.reasons.keyed`.
    values : ndarray of float64, shape (n,)
        Their contributions.  Unit: nats.
    starts : dict of str to int
        First feature of each view.
    """

    keys: Ints
    values: Floats
    starts: dict[str, int]

    def range_of(self, view: str) -> tuple[int, int]:
        """Return the first feature of a view and the one after its last."""
        bounds = [*self.starts.values(), self.values.size]
        at = [*self.starts].index(view) if view in self.starts else len(self.starts)
        return bounds[at], bounds[min(at + 1, len(self.starts))]


def _seen_features(
    attribution: Attribution, observation: Observation, *, split_pairs: bool
) -> _SeenFeatures:
    """Return the features that were seen before, with what groups them.

    Parameters
    ----------
    split_pairs : bool
        Whether each pair is a reason of its own.
    """
    n = sum(map(np.count_nonzero, attribution.seen.values()))
    seen = _SeenFeatures(np.empty((kernel.OTHER + 1, n), np.int64), np.empty(n), {})
    size = 0
    for family, (view, added) in enumerate(
        attribution.contributions.items(), start=len(_KINDS)
    ):
        seen.starts[view] = size
        alone = view not in _HOW or (view == "pairs" and split_pairs)
        names = () if alone else observation.names.get(view, ())
        of_view = FeatureNames.of(names, 1 + (view == "pairs"))
        size = kernel.keyed(
            np.frombuffer(of_view.text, np.uint8),
            of_view.bounds,
            of_view.at,
            _HOW.get(view, kernel.WORDS),
            family,
            _OF_TAGS,
            attribution.seen[view],
            added,
            size,
            seen.keys,
            seen.values,
        )
    return seen


def _listed(
    chosen: Ints, seen: _SeenFeatures, snapshot: Scorer, observation: Observation
) -> list[ListedFeature]:
    """Return the features of reasons that are listed, for documents."""
    found: list[ListedFeature] = []
    bounds = np.searchsorted(chosen, [*seen.starts.values(), seen.values.size])
    for view, (start, stop) in zip(seen.starts, pairwise(bounds.tolist()), strict=True):
        if start == stop:
            continue
        here = chosen[start:stop]
        at = seen.keys[kernel.PLACE].take(here)
        found += [
            {"feature": text, "view": view, "log_odds": added, "messages": messages}
            for text, added, messages in zip(
                texts_at(observation, view, at),
                seen.values.take(here).tolist(),
                snapshot.in_messages(view, observation.views[view].ids.take(at)),
                strict=True,
            )
        ]
    return found


def _text(family: str, names: Sequence[str]) -> str:
    """Return the text of a reason from the names of its words or its first feature.

    Examples
    --------
    >>> _text("links", ["link:.shop.example.com"])
    'example.com'
    >>> _text("words", ["代开", "开发", "发票", "free"])
    '代开发票 free'
    """
    if family in {*_OTHERS, "grams"}:
        return family
    if family not in {"headers", _LINKS}:
        return without_overlaps(" ".join(names))
    tag, _, word = names[0].partition(":")
    if family == "headers":
        return tag
    # Any link may have these paths and marks.
    labels = word.strip(".").rsplit(".", 2)[-2:]
    return ".".join(labels) if len(labels) > 1 else "paths"


def texts_at(
    observation: Observation, view: str, at: NDArray[np.intp]
) -> Iterable[str]:
    """Return the texts of some features of a view, by their places in it."""
    names = observation.names.get(view)
    if names:
        return names_at(names, at)
    ids = observation.views[view].ids.take(at).tolist()
    if view != "grams":
        return map(anonymous, ids)
    named = FeatureNames.of(observation.names.get("words", ()))
    words = named.text[:_READ].decode(errors="ignore")
    if not words.isascii():
        # The words are in small letters.
        words = without_overlaps(words)
        words = f"{words} {words.title()} {words.upper()}"
    return shown(ids, words)


def anonymous(number: int) -> str:
    """Return a substitute for text that is not stored."""
    return f"#{number % 2**64:016x}"
