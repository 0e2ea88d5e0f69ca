"""Shading: the log-odds of a verdict by their places in the text.

Contract of this file: the segments of a passage make up its text.  The contributions of
all segments, of the features without a place, and of the prior sum to the log-odds,
except for rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Final

import numpy as np

from app.classifier.explain import texts_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from app.classifier.explain import Attribution, ListedFeature
    from app.features.id_key import IdKey
    from app.features.observation import Observation
    from app.features.places import Kind, Passage, Placed
    from app.kernels import Floats, Ints

    Count = Callable[[str, Ints], Sequence[Mapping[str, int]]]

STEPS: Final = (0.05, 0.25, 0.5)
"""Least shares of the strongest piece for the shades 1, 2 and 3."""
FAINT: Final = 1e-3
"""Least contribution of the strongest piece for any shading.  Unit: nats."""
MOST_SEGMENTS: Final = 2_000
"""Most shaded pieces; the strongest ones count.

A page with this many is as long as a chapter of a book, and takes 1 MB.
"""
MOST_FEATURES: Final = 4
"""Most listed features of a segment; most words are one feature."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A run of text with its contribution.

    Parameters
    ----------
    log_odds : float
        Contribution of its features here; positive is evidence of spam.  Unit: nats.
    shade : int
        -3 to 3: strength relative to the strongest piece of the message, with the sign
        of the side; 0 if it hardly counts.
    features : tuple of ListedFeature
        Its strongest features; empty for a segment without a shade.
    """

    text: str
    log_odds: float
    shade: int = 0
    features: tuple[ListedFeature, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadedPassage:
    """A passage of a message in segments; `kind` and `name` as in `Passage`."""

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
        Contribution of the features without a place, by view.  Unit: nats.
    prior : float
        Contribution of the class prior and the bias of the fusion.  Unit: nats.
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
    """The features of one view with places, as indexes into the observation."""

    name: str
    piece: Ints
    feature: Ints
    added: Floats
    places: Ints


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
        Their features, from the same file.
    count : callable
        Returns the numbers of learned messages per label with each of some features of
        a view, by their ids.
    most : int
        Most pieces that become separate segments; the strongest ones count.

    Notes
    -----
    The contribution of a feature is divided equally among its places.  The shade
    depends on the whole contribution, so a word is as dark in each of ten places as in
    a single one.
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
        # A word twice in a piece is not stronger.
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
        ids = each.ids if key is None else key.ids(each.ids)
        at = np.searchsorted(known, ids)
        # Features that extraction leaves out, such as words beyond the limit.
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


def _shades(strength: Floats, most: int) -> Ints:
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
    """Add the features of a view to the lists of the pieces."""
    near = np.isin(view.piece, list(listed)) & (view.added[view.feature] != 0)
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
    here: Floats,
    shades: Ints,
    listed: Mapping[int, Sequence[ListedFeature]],
) -> Iterator[ShadedPassage]:
    """Yield the passages; neighbouring pieces without a shade form one segment."""
    first = 0
    for passage in found:
        segments = []
        places = range(first, first + len(passage.pieces))
        # A piece with a shade is alone.
        for _, run in groupby(places, lambda at: at if shades[at] else -1):
            members = [*run]
            at = members[0]
            strongest = sorted(listed.get(at, ()), key=lambda x: -abs(x["log_odds"]))
            segments.append(
                Segment(
                    text="".join([passage.pieces[i - first].text for i in members]),
                    log_odds=math.fsum(here[members].tolist()),
                    shade=int(shades[at]),
                    features=tuple(strongest[:MOST_FEATURES]),
                )
            )
        first = places.stop
        yield ShadedPassage(
            kind=passage.kind, name=passage.name, segments=tuple(segments)
        )
