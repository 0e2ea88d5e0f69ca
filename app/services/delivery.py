"""Delivery: the verdict on a message for its recipients.

Each profile answers for its own recipients, and the action is the one on which all
agree.  A verdict is logged, noted for the history, and posted to the webhook.
"""

from __future__ import annotations

import logging
import time
from dataclasses import KW_ONLY, dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Self

from app.bayes.posterior import finite
from app.classifier.explain import strongest_reason
from app.classifier.statement import UNKNOWN, Origin
from app.classifier.verdict import agreed
from app.errors import Unavailable
from app.mail.encoding import shown
from app.services.log import Event

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from app.access.rights import Principal
    from app.classifier.verdict import Action
    from app.services.classify import Classified, Classify
    from app.services.history import VerdictRecorder
    from app.services.recipients import Recipients
    from app.services.webhook import Webhook

log = logging.getLogger(__name__)
MOST_NAMED: Final = 5
"""Most recipients that a line of the log names; it gives the number of further ones."""
_NO_RECIPIENTS: Final[Mapping[str, Classified]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Addressed:
    """The profiles that answer about a message.

    Parameters
    ----------
    name : str
        The profile that answers for all recipients together.
    recipients : mapping of str to str
        The profile that answers for each recipient.
    taught : frozenset of str
        The profiles that feedback about the message will teach; others may answer in
        their place.
    profile : str or None
        The profile that the request names; no other answers for it.
    principal : Principal or None
        Who asks, if limited to some profiles.
    """

    name: str
    recipients: Mapping[str, str]
    taught: frozenset[str] = frozenset()
    profile: str | None = None
    principal: Principal | None = None

    @property
    def profiles(self) -> set[str]:
        """All of them, each once."""
        return {self.name, *self.recipients.values()}


@dataclass(frozen=True, slots=True)
class Delivered:
    """The answer of the profile that recipients share, and those of each if asked for.

    The action is for all of them.
    """

    classified: Classified
    recipients: Mapping[str, Classified]
    action: Action

    @classmethod
    def of(
        cls,
        classified: Classified,
        recipients: Mapping[str, Classified] = _NO_RECIPIENTS,
    ) -> Self:
        """Return the answer with the action on which all recipients agree."""
        theirs = (answer.action for answer in recipients.values())
        return cls(classified, recipients, agreed(classified.action, theirs))


@dataclass(eq=False)
class Delivery:
    """Classifies messages for their recipients.

    Parameters
    ----------
    words : bool
        Whether the log may hold the text of a word.

    Notes
    -----
    Each verdict is one line of the log, with the name of the `door` that asked.
    """

    classify: Classify
    recipients: Recipients
    recorder: VerdictRecorder | None = None
    _: KW_ONLY
    words: bool = True
    webhook: Webhook | None = None

    def address(
        self,
        recipients: Sequence[str],
        *,
        profile: str | None = None,
        principal: Principal | None = None,
    ) -> Addressed:
        """Return the profiles of some recipients, and `profile` for all of them.

        Raises
        ------
        Forbidden
            If the principal may not use one of them.

        Notes
        -----
        If a profile above the recipient's would answer and the principal may not use
        it, the recipient's own profile answers.
        """
        own = {self.recipients.profile(each) for each in recipients}
        if profile is None:
            own.add(self.recipients.shared(recipients))
        found = Addressed(
            profile or self._answering(recipients, principal),
            {each: self._answering([each], principal) for each in recipients},
            frozenset(own),
            profile,
            principal,
        )
        if principal is not None:
            for name in sorted(found.profiles | own):
                principal.require(name)
        return found

    def _answering(self, recipients: Sequence[str], principal: Principal | None) -> str:
        name = self.recipients.answering(recipients)
        if principal is None or principal.may_use(name):
            return name
        return self.recipients.shared(recipients)

    def together(
        self,
        recipients: Sequence[str],
        raw: bytes,
        *,
        strongest: int,
        door: str,
        queue: str = "",
        origin: Origin = UNKNOWN,
    ) -> Delivered:
        """Return one answer for all recipients.

        The recipients' own profiles are asked only if the message would be held or
        refused.

        Parameters
        ----------
        strongest : int
            How many of the strongest reasons of each side the explanation names.
        queue : str
            The mail server's own id of the message.
        origin : Origin
            Where the message comes from, as far as the door knows it.

        Raises
        ------
        EmptyMessage
            If the message has not a single byte.
        """
        begun = time.perf_counter()
        shared = self.recipients.shared(recipients)
        with self.classify.tally.delivering(door):
            asked, answered = self._answered(
                self.address(recipients),
                lambda chosen: self.classify.each(
                    (chosen.name,),
                    raw,
                    strongest=strongest,
                    taught={shared},
                    others=chosen.profiles - {chosen.name},
                    origin=origin,
                ),
            )
            classified = answered[asked.name].stated_for(shared)
            action = classified.action
            if action in {"quarantine", "reject"}:
                if others := asked.profiles - {asked.name}:
                    answered |= self.classify.each(
                        others, raw, strongest=0, origin=origin
                    )
                theirs = (
                    answered[name].stated_for(self.recipients.profile(each))
                    for each, name in asked.recipients.items()
                )
                action = agreed(action, (each.action for each in theirs))
        self._tell(classified, recipients, action, begun, door=door, queue=queue)
        if self.recorder is not None:
            for profile in {asked.name, shared}:
                self.recorder(
                    profile, classified, door=door, recipients=recipients, origin=origin
                )
        return Delivered(classified, {}, action)

    def answer(
        self,
        addressed: Addressed,
        raw: bytes,
        *,
        strongest: int,
        door: str,
        origin: Origin = UNKNOWN,
    ) -> Delivered:
        """Return the answers of profiles; one is of all recipients.

        Parameters
        ----------
        strongest : int
            How many of the strongest reasons of each side an explanation names.
        origin : Origin
            Where the message comes from, as far as the door knows it.

        Raises
        ------
        UnknownProfile
            If there is no such profile.
        EmptyMessage
            If the message has not a single byte.
        """
        begun = time.perf_counter()
        people = [*addressed.recipients]
        with self.classify.tally.delivering(door):
            addressed, answers = self._answered(
                addressed,
                lambda chosen: self.classify.each(
                    chosen.profiles,
                    raw,
                    strongest=strongest,
                    taught=chosen.taught,
                    origin=origin,
                ),
            )
        shared = addressed.profile or self.recipients.shared(people)
        delivered = Delivered.of(
            answers[addressed.name].stated_for(shared),
            {
                each: answers[name].stated_for(self.recipients.profile(each))
                for each, name in addressed.recipients.items()
            },
        )
        # One line for all that got the same answer.
        every = [(None, delivered.classified), *delivered.recipients.items()]
        by_answer: dict[object, tuple[Classified, list[str]]] = {}
        for each, classified in every:
            same = classified.profile, classified.statements
            _, own = by_answer.setdefault(same, (classified, []))
            if each is not None:
                own.append(each)
        for classified, own in by_answer.values():
            action, by = classified.action, addressed.principal
            self._tell(classified, own, action, begun, door=door, by=by)
        self._note(addressed, delivered, door=door, origin=origin)
        return delivered

    def _answered(
        self, addressed: Addressed, ask: Callable[[Addressed], dict[str, Classified]]
    ) -> tuple[Addressed, dict[str, Classified]]:
        """Ask profiles; those that are chosen next where these cannot be loaded now."""
        try:
            return addressed, ask(addressed)
        except Unavailable:
            others = self.address(
                [*addressed.recipients],
                profile=addressed.profile,
                principal=addressed.principal,
            )
            if others == addressed:
                raise
        return others, ask(others)

    def _note(
        self, addressed: Addressed, delivered: Delivered, *, door: str, origin: Origin
    ) -> None:
        """Note the answers for the history of each profile, with its recipients alone.

        A profile for which another one answered, since it knows too little, gets that
        answer: its owner teaches it from there.
        """
        record = self.recorder
        if record is None:
            return
        everybody = [*addressed.recipients]
        names = (*addressed.profiles, *addressed.taught)
        whose: dict[str, list[str]] = {name: [] for name in names}
        for each, name in addressed.recipients.items():
            for profile in {name, self.recipients.profile(each)} & whose.keys():
                whose[profile].append(each)
        for profile, own in whose.items():
            shared = profile == addressed.name or not own
            answered = [each for each in own if addressed.recipients[each] == profile]
            record(
                profile,
                delivered.classified
                if shared
                else delivered.recipients[(answered or own)[0]],
                door=door,
                recipients=everybody if shared else own,
                origin=origin,
            )

    def _tell(
        self,
        classified: Classified,
        recipients: Sequence[str],
        action: Action,
        begun: float,
        *,
        door: str,
        queue: str = "",
        by: Principal | None = None,
    ) -> None:
        """Log a verdict, and post it.

        Parameters
        ----------
        recipients : sequence of str
            The recipients for whom the profile answered.
        by : Principal or None
            Who asked; the line names the key or the person.
        """
        seconds = time.perf_counter() - begun
        decided = classified.verdict

        def fields() -> dict[str, str | float | None]:
            people = [bare for each in recipients if (bare := each.strip("<>"))]
            named = [shown(each, 100) for each in people[:MOST_NAMED]]
            if len(people) > MOST_NAMED:
                named.append(f"and {len(people) - MOST_NAMED} more")
            return {
                "id": classified.observation.id,
                "message_id": classified.head.message_id or None,
                "queue": queue or None,
                "door": door,
                "by": None if by is None or by.kind == "local" else by.name,
                "profile": classified.profile,
                "recipients": ",".join(named) or None,
                "decision": decided.decision,
                "action": action if action in {"quarantine", "reject"} else None,
                "log_odds": finite(round(decided.log_odds, 3)),
                "reason": strongest_reason(
                    classified.attribution,
                    classified.observation,
                    classified.statements,
                    spam=decided.log_odds > 0,
                    named=self.words,
                ),
                "ms": round(1000 * seconds, 1),
            }

        event = Event("verdict", fields)
        log.info(event)
        if self.webhook and self.webhook.wants(decided.decision):
            self.webhook(event)
