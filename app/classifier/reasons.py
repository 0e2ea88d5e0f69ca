"""Reasons: the features of a message that a person takes as one.

A header is one reason, whatever its words are; so are the links to one domain, and so
are words that stand side by side, with their pairs.  Contract of this file: each
feature is in one reason and in one family, and the cost is that of sorting them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Literal, NotRequired, TypedDict

import numpy as np

from app.features.hashing import FeatureNames, ids_of, names_at
from app.kernels import reasons as kernel

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from app.classifier.snapshot import Scorer
    from app.features.observation import Observation

# With single words and their pairs, ten reasons of each side show a median of 45 to
# 54 % of the log-odds, and with up to six words 55 to 76 (experiment 0075). Eight show
# little more, and are too many to read at a glance.
MOST_WORDS: Final = 6
"""Words of one reason, at most."""
# A row of six words has five joins. With 10 for each reason the median share of
# experiment 0075 is as with any number.
JOINS: Final = 10
"""Pairs that may put words side by side, for each reason of a side that is listed."""
# Most words have two pairs; more of a header than its strongest words is rarely read.
PARTS: Final = 3
"""Features that are listed of a reason, at most."""
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
_HOW: Final = {"headers": kernel.TAGGED, "words": kernel.WORDS, "pairs": kernel.PAIRS}
"""How the names of a view are grouped; those of any other view are by themselves."""


# An answer has some fifty: as dataclasses they take three times as long to be made and
# to be written as JSON.
class ListedFeature(TypedDict):
    """One feature that is listed, as documents have it.

    Parameters
    ----------
    feature : str
        Its text; ``"#"`` and its id in hex where the text is not kept.
    view : str
        Its view.
    log_odds : float
        What it adds.  Unit: nats; positive speaks for spam.
    places : int
        In how many places of the text it is, where that is shaded: each adds as much
        as any other.
    messages : mapping of str to int
        In how many learned messages of each label it was; empty for measurements.
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
        The class prior with the bias of the fusion, features that a person takes as
        one or a `Statement`, or all features of the other reasons.
    text : str
        The words, the header, the domain of the links, or the text of a statement; the
        kind in brackets for the prior and the rest.
    family : str or None
        Family of the reason, or kind of the statement; None for the prior and the
        rest.
    log_odds : float
        What it adds. Unit: nats; positive speaks for spam.
    features : int
        How many features stand behind it.
    messages : mapping of str to int
        For the prior, how many messages of each label were learned; else empty.
    parts : tuple of ListedFeature
        The strongest features of a reason that speak for its side.
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
        """The text as a person reads it."""
        return title(self.text, self.family, [part["feature"] for part in self.parts])


def title(text: str, family: str | None, features: Sequence[str]) -> str:
    """Return the text of a reason, and of a header or of links the strongest words.

    Examples
    --------
    >>> title("from", "headers", ["from:bob", "from:bank.example"])
    'from: bob bank.example'
    >>> title("free money", "words", ["free", "free money"])
    'free money'
    """
    tagged = [feature.partition(":") for feature in features]
    if family == "words" or not tagged or not all(colon for _, colon, _ in tagged):
        return text
    return f"{text}: {' '.join(word for _, _, word in tagged)}"


def reasons_of(
    contributions: Mapping[str, NDArray[np.float64]],
    seen: Mapping[str, NDArray[np.bool_]],
    prior: float,
    snapshot: Scorer,
    observation: Observation,
    *,
    strongest: int,
) -> tuple[dict[str, float], tuple[Summand, ...]]:
    """Return the log-odds of a verdict by family, and by reason.

    Parameters
    ----------
    contributions, seen, prior
        The log-odds as a sum, as `app.classifier.explain.Attribution` has it.
    snapshot, observation, strongest
        See `app.classifier.explain.explain`.  With 0 reasons of each side, each pair
        is a reason of its own, too.

    Returns
    -------
    families : dict of str to float
        What each family adds, and the prior.  Unit: nats.
    summands : tuple of Summand
        The prior, the strongest reasons of the side that decides, those of the other,
        and the rest.
    """
    n = sum(map(np.count_nonzero, seen.values()))
    keys = np.empty((kernel.OTHER + 1, n), np.int64)
    values, totals = np.empty((2, n))
    starts = {}
    size = begin = end = 0
    for number, (view, added) in enumerate(contributions.items()):
        how = _HOW.get(view, kernel.WORDS)
        alone = view not in _HOW or (view == "pairs" and not strongest)
        names = () if alone else observation.names.get(view, ())
        of_view = FeatureNames.of(names, 1 + (view == "pairs"))
        source = np.frombuffer(of_view.text, np.uint8), of_view.bounds, of_view.at, how
        known = len(_KINDS) + number, _OF_TAGS, seen[view], added
        starts[view], size = size, kernel.keyed(*source, *known, size, keys, values)
        if view == "pairs":
            begin, end = starts[view], size
    room = np.empty((kernel.LINES, max(n + end - begin, 256)), np.int64)
    sums = np.empty((2, len(_KINDS) + len(starts)))
    listed = np.empty((2 * strongest, MOST_WORDS + PARTS), np.int64)
    most = JOINS * strongest, MOST_WORDS
    rest, left, size = kernel.grouped(
        keys, values, begin, end, *most, prior, sums, totals, listed, room
    )
    called = [*_KINDS, *starts]
    columns = [*zip(called, *sums.tolist(), strict=True)]
    families = {
        family: total
        for family, total, features in columns[len(_KINDS) :] + columns[: len(_KINDS)]
        if features or family in starts
    }
    chosen = room[kernel.CHOSEN, :size]
    parts: list[ListedFeature] = []
    bounds = np.searchsorted(chosen, [*starts.values(), n]).tolist()
    for view, (start, stop) in zip(starts, pairwise(bounds), strict=True):
        if start < stop:
            here = chosen[start:stop]
            at, added = keys[kernel.PLACE].take(here), values.take(here)
            parts += _listed(snapshot, observation, view, at, added)
    learned = snapshot.specification.by_label(snapshot.learned)
    summands = [Summand("prior", "(prior)", None, prior, 0, learned)]
    listed = listed[listed[:, 0] >= 0]
    first = chosen.take(listed[:, 0])
    for row, family, adds, features in zip(
        listed.tolist(),
        keys[kernel.FAMILY].take(first).tolist(),
        totals.take(first).tolist(),
        room[kernel.SIZE].take(first).tolist(),
        strict=True,
    ):
        words = [parts[at]["feature"] for at in row[:MOST_WORDS] if at >= 0]
        of = tuple([parts[at] for at in row[MOST_WORDS:] if at >= 0])
        text = _text(called[family], words)
        summands.append(Summand("reason", text, called[family], adds, features, {}, of))
    summands.append(Summand("rest", "(rest)", None, rest, left))
    return families | {"prior": prior}, tuple(summands)


def _text(family: str, names: Sequence[str]) -> str:
    """Return the text of a reason by the names of its words, or of the first feature.

    Examples
    --------
    >>> _text("links", ["link:.shop.example.com"])
    'example.com'
    """
    if family in _OTHERS:
        return family
    if family not in {"headers", _LINKS}:
        return " ".join(names)
    tag, _, word = names[0].partition(":")
    if family == "headers":
        return tag
    # Paths and marks belong to any link.
    labels = word.strip(".").rsplit(".", 2)[-2:]
    return ".".join(labels) if len(labels) > 1 else "paths"


def _listed(
    snapshot: Scorer,
    observation: Observation,
    view: str,
    at: NDArray[np.int64],
    added: NDArray[np.float64],
) -> Iterator[ListedFeature]:
    """Yield some features of a view, by their places in it."""
    texts = texts_at(observation, view, at)
    counts = snapshot.in_messages(view, observation.views[view].ids.take(at))
    for text, adds, messages in zip(texts, added.tolist(), counts, strict=True):
        yield {"feature": text, "view": view, "log_odds": adds, "messages": messages}


def texts_at(
    observation: Observation, view: str, at: NDArray[np.intp]
) -> Iterable[str]:
    """Return the texts of some features of a view, by their places in it."""
    names = observation.names.get(view)
    if names:
        return names_at(names, at)
    return map(anonymous, observation.views[view].ids.take(at).tolist())


def anonymous(number: int) -> str:
    """Return the text of a feature whose text is not kept."""
    return f"#{number % 2**64:016x}"
