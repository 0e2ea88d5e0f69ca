"""Shading: the log-odds of a verdict at the places of the text that they come from.

Contract of this file: the segments of a passage are its text, and what all segments
add, what the features without a place add, and the prior sum to the log-odds, but for
the rounding of the sum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from app.classifier.reasons import texts_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from app.classifier.explain import Attribution
    from app.classifier.reasons import ListedFeature
    from app.features.id_key import IdKey
    from app.features.observation import Observation
    from app.features.places import Kind, Passage, Placed

    Count = Callable[[str, NDArray[np.int64]], Sequence[Mapping[str, int]]]

STEPS: Final = (0.05, 0.25, 0.5)
"""From which share of the strongest piece on a piece has the shade 1, 2 and 3."""
FAINT: Final = 1e-3
"""Where the strongest piece adds less, nothing is shaded.  Unit: nats."""
MOST_SEGMENTS: Final = 2_000
"""Pieces that are shaded, at most: the strongest.

A page of so many is as long as a book's chapter, and takes 1 MB.
"""
MOST_FEATURES: Final = 4
"""Features that are listed of a segment, at most; most words are one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A run of text with its contribution.

    Parameters
    ----------
    text : str
        The text.
    log_odds : float
        What its features add here.  Unit: nats; positive speaks for spam.
    shade : int
        -3 to 3: how strong its features are beside the strongest of the message,
        with the sign of the side; 0 for what hardly counts.
    features : tuple of ListedFeature
        The strongest of its features; none of a segment without a shade.
    """

    text: str
    log_odds: float
    shade: int = 0
    features: tuple[ListedFeature, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadedPassage:
    """A passage of a message in segments; `kind` and `name` as of a `Passage`."""

    kind: Kind
    name: str
    segments: tuple[Segment, ...]

    @property
    def log_odds(self) -> float:
        """Contribution of the passage.  Unit: nats."""
        return math.fsum(segment.log_odds for segment in self.segments)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shading:
    """The log-odds of a verdict by place.

    Parameters
    ----------
    passages : tuple of ShadedPassage
        Headers, texts, links and files, in the order of the message.
    elsewhere : mapping of str to float
        View by view, what the features without a place add.  Unit: nats.
    prior : float
        What the class prior and the bias of the fusion add.  Unit: nats.
    """

    passages: tuple[ShadedPassage, ...]
    elsewhere: Mapping[str, float]
    prior: float

    @property
    def log_odds(self) -> float:
        """The sum.  Unit: nats."""
        here = [passage.log_odds for passage in self.passages]
        return math.fsum([*here, *self.elsewhere.values(), self.prior])


@dataclass(frozen=True, slots=True)
class _View:
    """The features of one view at their places, as numbers of the observation's."""

    name: str
    piece: NDArray[np.int64]
    feature: NDArray[np.int64]
    added: NDArray[np.float64]
    places: NDArray[np.int64]


def shade(
    found: Sequence[Passage],
    places: Mapping[str, Placed],
    observation: Observation,
    attribution: Attribution,
    count: Count,
    *,
    key: IdKey | None = None,
    most: int = MOST_SEGMENTS,
) -> Shading:
    """Return the contribution of each place of a message to the log-odds.

    Parameters
    ----------
    found : sequence of Passage
        The passages of the message, from `app.features.places`.
    places : mapping of str to Placed
        Their features, from there, too.
    observation : Observation
        What was seen of the message, with the ids of the profile.
    attribution : Attribution
        What each feature adds.
    count : callable
        Returns in how many learned messages of each label features of a view were, by
        their ids.
    key : IdKey, optional
        The key of the ids, where they are keyed.
    most : int
        How many pieces may be segments of their own: the strongest.

    Notes
    -----
    A feature that stands in several places adds the same part of its contribution in
    each.  The shade goes by the whole contribution, so that a word is as dark in its
    tenth place as it would be in its only one.
    """
    size = sum(len(passage.pieces) for passage in found)
    views = list(_views(places, observation, attribution, key))
    here, strength = np.zeros(size), np.zeros(size)
    elsewhere = {
        view: math.fsum(added.tolist())
        for view, added in attribution.contributions.items()
    }
    for view in views:
        share = view.added / np.maximum(view.places, 1)
        here += np.bincount(view.piece, share.take(view.feature), minlength=size)
        # A word that a piece has twice is no stronger for that.
        once = np.unique(view.piece * view.added.size + view.feature)
        piece, feature = np.divmod(once, max(view.added.size, 1))
        strength += np.bincount(piece, view.added.take(feature), minlength=size)
        elsewhere[view.name] = math.fsum(view.added[view.places == 0].tolist())
    shades = _shades(strength, most)
    listed: dict[int, list[ListedFeature]] = {
        at: [] for at in shades.nonzero()[0].tolist()
    }
    for view in views:
        _list(listed, view, observation, count)
    return Shading(
        passages=tuple(_segmented(found, here, shades, listed)),
        elsewhere=elsewhere,
        prior=attribution.prior,
    )


def _views(
    places: Mapping[str, Placed],
    observation: Observation,
    attribution: Attribution,
    key: IdKey | None,
) -> Iterator[_View]:
    """Yield the places of the features that the message has, by view."""
    for name, each in places.items():
        if name not in attribution.contributions or name not in observation.views:
            continue
        known = observation.views[name].ids
        ids = each.ids if key is None else key.ids(name, each.ids)
        at = np.searchsorted(known, ids)
        # What the rules of a whole message leave out, as words beyond the most.
        there = at < known.size
        there[there] = known[at[there]] == ids[there]
        at = at[there]
        yield _View(
            name=name,
            piece=each.piece[there],
            feature=at,
            added=attribution.contributions[name],
            places=np.bincount(at, minlength=known.size),
        )


def _shades(strength: NDArray[np.float64], most: int) -> NDArray[np.int64]:
    """Return the shade of each piece."""
    dark = np.abs(strength)
    strongest = float(dark.max(initial=0.0))
    if strongest < FAINT:
        return np.zeros(strength.size, np.int64)
    shades = np.searchsorted(np.array(STEPS) * strongest, dark, side="right")
    shades[(-dark).argsort(kind="stable")[most:]] = 0
    return np.where(strength < 0, -shades, shades)


def _list(
    listed: dict[int, list[ListedFeature]],
    view: _View,
    observation: Observation,
    count: Count,
) -> None:
    """Add the features of a view to those of the pieces that list them."""
    wanted_pieces = np.zeros(max(listed, default=-1) + 1, np.bool_)
    wanted_pieces[list(listed)] = True
    near = np.flatnonzero(view.piece < wanted_pieces.size)
    near = near[wanted_pieces[view.piece[near]] & (view.added[view.feature[near]] != 0)]
    here = zip(view.piece[near].tolist(), view.feature[near].tolist(), strict=True)
    kept = sorted(set(here))
    if not kept:
        return
    wanted = np.unique([at for _, at in kept])
    columns = (
        texts_at(observation, view.name, wanted),
        view.added.take(wanted).tolist(),
        view.places.take(wanted).tolist(),
        count(view.name, observation.views[view.name].ids.take(wanted)),
    )
    features: dict[int, ListedFeature] = {
        at: {
            "feature": text,
            "view": view.name,
            "log_odds": added,
            "places": places,
            "messages": messages,
        }
        for at, text, added, places, messages in zip(
            wanted.tolist(), *columns, strict=True
        )
    }
    for piece, at in kept:
        listed[piece].append(features[at])


def _segmented(
    found: Sequence[Passage],
    here: NDArray[np.float64],
    shades: NDArray[np.int64],
    listed: Mapping[int, Sequence[ListedFeature]],
) -> Iterator[ShadedPassage]:
    """Yield the passages; pieces without a shade are one segment with those beside."""
    at = 0
    for passage in found:
        segments: list[Segment] = []
        texts: list[str] = []
        added: list[float] = []
        for piece in passage.pieces:
            shade_here = int(shades[at])
            if shade_here and texts:
                segments.append(_plain(texts, added))
                texts, added = [], []
            if shade_here:
                strongest = sorted(listed[at], key=lambda x: -abs(x["log_odds"]))
                segments.append(
                    Segment(
                        text=piece.text,
                        log_odds=float(here[at]),
                        shade=shade_here,
                        features=tuple(strongest[:MOST_FEATURES]),
                    )
                )
            else:
                texts.append(piece.text)
                added.append(float(here[at]))
            at += 1
        if texts:
            segments.append(_plain(texts, added))
        yield ShadedPassage(
            kind=passage.kind, name=passage.name, segments=tuple(segments)
        )


def _plain(texts: list[str], added: list[float]) -> Segment:
    return Segment(text="".join(texts), log_odds=math.fsum(added))
