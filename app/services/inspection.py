"""Inspection: one message as the filter reads it, with what each place adds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from app.classifier.shading import shade
from app.classifier.statement import UNKNOWN, testimony
from app.features.extract import extract
from app.features.places import passages, placed
from app.services.classify import Head, classify_observation, read

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    import numpy as np
    from numpy.typing import NDArray

    from app.classifier.shading import Shading
    from app.classifier.statement import Witness
    from app.mail.message import Part
    from app.services.classify import Classified
    from app.services.memory.cache import LiveProfiles
    from app.services.memory.live import LiveProfile
    from app.services.memory.recent import RecentMessages


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspected:
    """The answer about one message, and where it comes from.

    Parameters
    ----------
    classified : Classified
        The answer.
    shading : Shading
        Its log-odds at the places of the text.
    attachments : tuple of Part
        The parts that mail programs offer as files.
    """

    classified: Classified
    shading: Shading
    attachments: tuple[Part, ...]

    @property
    def tricks(self) -> list[str]:
        """The tricks that are played on a filter, such as `invisible` characters."""
        names = self.classified.observation.names.get("words", ())
        tags = (name.partition(":") for name in names)
        return [trick for tag, _, trick in tags if tag == "trick"]


class Inspect:
    """Looks closely at single messages.

    A message that somebody looks at is no traffic: no counter counts it, no log line
    names it, and the filter does not learn it by itself.  It can be taught by its id.

    Parameters
    ----------
    live : LiveProfiles
        The profiles in memory.
    recent : RecentMessages or None
        The cache of observations for teaching by id; None stores none.
    clock : callable
        Returns the time now, in UTC.
    witnesses : sequence of Witness
        State evidence beside the features.
    """

    def __init__(
        self,
        live: LiveProfiles,
        recent: RecentMessages | None,
        clock: Callable[[], datetime],
        witnesses: Sequence[Witness] = (),
    ) -> None:
        self._live = live
        self._recent = recent
        self._clock = clock
        self._witnesses = witnesses

    def __call__(self, profile: str, raw: bytes, *, strongest: int) -> Inspected:
        """Read and score a message.

        Parameters
        ----------
        profile : str
            Name of the profile.
        raw : bytes
            The message, RFC 5322.
        strongest : int
            How many of the strongest reasons of each side the explanation names.

        Raises
        ------
        UnknownProfile
            If there is no such profile.
        ProfileLoading
            If it is not in memory yet.
        EmptyMessage
            If the message is blank.
        """
        live = self._live.get_all((profile,))[profile]
        message = read(raw)
        found = passages(message)
        known = live.specification
        places = placed(found)
        observation = extract(message, known.views).keyed(known.key)
        classified = classify_observation(
            live, observation, strongest=strongest, head=Head.of(message, len(raw))
        )
        # Not while the profile is held: of a long message it takes 0.2 s.
        shading = shade(
            found,
            places,
            observation,
            classified.attribution,
            partial(_counts, live),
            key=known.key,
        )
        heard = testimony(self._witnesses, message, UNKNOWN)
        if heard is not None:
            classified = replace(classified, testimony=heard).stated_for(profile)
            # What is stated has no place in the text.
            elsewhere = dict(shading.elsewhere)
            for each in classified.statements:
                elsewhere[each.kind] = elsewhere.get(each.kind, 0.0) + each.nats
            shading = replace(shading, elsewhere=elsewhere)
        if self._recent is not None:
            self._recent.add(live.row.id, observation, self._clock())
        return Inspected(
            classified=classified, shading=shading, attachments=message.attachments
        )


def _counts(
    live: LiveProfile, view: str, ids: NDArray[np.int64]
) -> list[Mapping[str, int]]:
    """Return in how many learned messages of each label features were."""
    with live.scoring() as snapshot:
        found = snapshot.feature_tables[view].look_up(ids, "presence")
        return [snapshot.specification.by_label(row) for row in found]
