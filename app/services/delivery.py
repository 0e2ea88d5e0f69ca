"""The use case of a mail server: what is to be done with a message for some people?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from app.classifier.action import agreed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from app.classifier.action import Action
    from app.services.classify import Classified
    from app.services.recipients import Recipients


class Classifies(Protocol):
    """Classifies one message against several profiles."""

    def each(
        self, profiles: Iterable[str], raw: bytes, *, strongest: int
    ) -> Mapping[str, Classified]:
        """Return the answers by the name of the profile."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """The answer about a message for some recipients.

    Parameters
    ----------
    classified : Classified
        That of the profile which they share.
    action : Action
        What is done with it for all of them.
    recipients : mapping of str to Classified
        That for each of them, of the profile that is theirs, where it was asked
        for.
    """

    classified: Classified
    action: Action
    recipients: Mapping[str, Classified]


class Delivery:
    """Answer mail servers.

    Parameters
    ----------
    classify : Classifies
        What classifies.
    recipients : Recipients
        Which profile is whose.
    """

    def __init__(self, classify: Classifies, recipients: Recipients) -> None:
        self._classify = classify
        self._recipients = recipients

    def together(
        self, recipients: Sequence[str], raw: bytes, *, strongest: int
    ) -> Delivered:
        """Return one answer for all recipients.

        The profiles of their own are asked only where the message would be held
        or refused.

        Raises
        ------
        EmptyMessage
            If there is not a single byte.
        """
        name = self._recipients.shared(recipients)
        classified = self._classify.each((name,), raw, strongest=strongest)[name]
        action = classified.action
        own = {self._recipients.profile(each) for each in recipients} - {name}
        if own and action in {"quarantine", "reject"}:
            answers = self._classify.each(own, raw, strongest=0)
            action = agreed(action, (each.action for each in answers.values()))
        return Delivered(classified=classified, action=action, recipients={})

    def apart(
        self, recipients: Sequence[str], raw: bytes, *, strongest: int
    ) -> Delivered:
        """Return one answer for all recipients, and one for each of them.

        Raises
        ------
        EmptyMessage
            If there is not a single byte.
        """
        name = self._recipients.shared(recipients)
        own = {each: self._recipients.profile(each) for each in recipients}
        answers = self._classify.each({name, *own.values()}, raw, strongest=strongest)
        classified = answers[name]
        theirs = {each: answers[profile] for each, profile in own.items()}
        return Delivered(
            classified=classified,
            action=agreed(classified.action, (each.action for each in theirs.values())),
            recipients=theirs,
        )
