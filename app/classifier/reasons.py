"""Reasons: features of a message that people perceive as one.

A reason is a header with all its words, the links to one domain, adjacent words with
their pairs, or all grams.  Contract of this file: each feature belongs to exactly one
reason and one family, and the cost is that of sorting the features.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Literal, NotRequired, TypedDict

import numpy as np

from app.features.grams import shown
from app.features.hashing import FeatureNames, ids_of, names_at
from app.features.tokens import without_overlaps
from app.kernels import reasons as kernel

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from app.classifier.snapshot import Scorer
    from app.features.observation import Observation

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


def reasons_of(
    contributions: Mapping[str, NDArray[np.float64]],
    seen: Mapping[str, NDArray[np.bool_]],
    prior: float,
    snapshot: Scorer,
    observation: Observation,
    *,
    strongest: int,
) -> tuple[dict[str, float], tuple[Summand, ...]]:
    """Split the log-odds of a verdict by family, and by reason.

    Parameters
    ----------
    contributions, seen, prior
        The log-odds as a sum, as in `app.classifier.explain.Attribution`.
    snapshot, observation, strongest
        See `app.classifier.explain.explain`.  With 0 reasons of each side, each pair is
        a separate reason too.

    Returns
    -------
    families : dict of str to float
        Contributions of each family and of the prior.  Unit: nats.
    summands : tuple of Summand
        The prior, the strongest reasons of the winning side, those of the other side,
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
            at, added = keys[kernel.PLACE].take(here), values.take(here).tolist()
            texts = texts_at(observation, view, at)
            counts = snapshot.in_messages(view, observation.views[view].ids.take(at))
            parts += [
                {"feature": text, "view": view, "log_odds": adds, "messages": messages}
                for text, adds, messages in zip(texts, added, counts, strict=True)
            ]
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
