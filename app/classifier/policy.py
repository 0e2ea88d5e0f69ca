"""Policy: the thresholds of a profile.

Contract of this file: a policy is never stricter than stated.  If a profile's
thresholds and the service's settings contradict each other, a threshold moves up, never
down, so later changes of settings do not make a profile reject more mail.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from app.classifier.verdict import ActionRule, require_threshold
from app.errors import InvalidPolicy, InvalidSetting

if TYPE_CHECKING:
    from app.classifier.specification import Specification

Never = Literal["never"]
"""No threshold, even if the service's settings have one."""
MAX_COST: Final = 1e12
"""The limit of POSTBAYES_HAM_COST."""


SAYS: Final = "log-odds in nats such as 6.9, a probability such as 99.9%"


def threshold_of(text: str) -> float | None:
    """Parse a threshold in nats; None for ``never``.

    Raises
    ------
    ValueError
        If the text is not a threshold.

    Examples
    --------
    >>> threshold_of("6.9"), round(threshold_of("99.9 %"), 3), threshold_of("never")
    (6.9, 6.907, None)
    """
    given = text.strip().lower()
    if given == "never":
        return None
    number = given.removesuffix("%").strip()
    value = float(number)
    if number == given:
        return value
    if not 0 < value < 100:  # noqa: PLR2004  per cent
        raise ValueError(text)
    return math.log(value) - math.log(100.0 - value)


DEFAULT: Final = "default"
"""The text that leaves a value to the settings of the service."""


def value_of(field: str, text: str, *, named: str) -> float | Never | None:
    """Parse the value of a field of a policy.

    Parameters
    ----------
    named : str
        Name of the field for the user.

    Raises
    ------
    InvalidPolicy
        If the input is invalid.

    Examples
    --------
    >>> value_of("ham_cost", "99", named="it"), value_of("reject_from", "never",
    ... named="it"), value_of("reject_from", "default", named="it")
    (99.0, 'never', None)
    """
    given = text.strip().lower()
    if given == DEFAULT:
        return None
    with suppress(ValueError):
        value = float(given) if field == "ham_cost" else threshold_of(given)
        if value is None and field != "ham_threshold":
            return "never"
        if value is not None and math.isfinite(value):
            return value
    if field == "ham_cost":
        raise InvalidPolicy(
            f"{named} must be a number of missed spam messages such as 9, got "
            f"{text[:64]!r}"
        )
    never = "" if field == "ham_threshold" else ", never"
    raise InvalidPolicy(
        f"{named} must be {SAYS}{never}, or {DEFAULT}; got {text[:64]!r}"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The thresholds of a profile; the default is the service's settings.

    Parameters
    ----------
    ham_cost : float or None
        Cost of a lost ham in missed spam, at least 1.  It determines where spam begins
        and, on the other side of 0, where ham ends.
    ham_threshold : float or None
        Where ham ends, if different; *unsure* lies between the two.  Unit: nats.
    quarantine_from, reject_from : float, 'never' or None
        Log-odds from which spam is quarantined and rejected.  Unit: nats.

    Raises
    ------
    InvalidPolicy
        If a value is not a number, or out of its range.

    Examples
    --------
    >>> Policy(ham_cost=0.5)
    Traceback (most recent call last):
    ...
    app.errors.InvalidPolicy: ham_cost is 0.5; it is the number of missed spam messages
    that one lost ham is worth, from 1 to 1e+12
    """

    ham_cost: float | None = None
    ham_threshold: float | None = None
    quarantine_from: float | Never | None = None
    reject_from: float | Never | None = None

    def __post_init__(self) -> None:
        """Check the thresholds."""
        cost = self.ham_cost
        if cost is not None and not 1 <= cost <= MAX_COST:
            raise InvalidPolicy(
                f"ham_cost is {cost:g}; it is the number of missed spam "
                f"messages that one lost ham is worth, from 1 to {MAX_COST:g}"
            )
        for name in ("ham_threshold", "quarantine_from", "reject_from"):
            value: float | Never | None = getattr(self, name)
            if isinstance(value, float):
                try:
                    require_threshold(name, value)
                except InvalidSetting as error:
                    raise InvalidPolicy(str(error)) from error

    @classmethod
    def read(cls, document: object) -> Policy:
        """Return the policy from the result of `document`.

        Raises
        ------
        InvalidPolicy
            If it is not one.

        Examples
        --------
        >>> Policy.read({"reject_from": 12, "quarantine_from": "never"})
        Policy(ham_cost=None, ham_threshold=None, quarantine_from='never',
        reject_from=12.0)
        """
        if not isinstance(document, Mapping):
            raise InvalidPolicy(
                f"a policy must be an object of names and values, got {document!r:.64}"
            )
        known = [field.name for field in fields(cls)]
        strangers = [name for name in document if name not in known]
        if strangers:
            raise InvalidPolicy(
                f"a policy has no field {strangers[0]!r:.64}; the fields are "
                f"{', '.join(known)}"
            )
        return cls(**{name: _value(name, given) for name, given in document.items()})

    def document(self) -> dict[str, float | Never]:
        """Return the given values, for JSON."""
        values = ((field.name, getattr(self, field.name)) for field in fields(self))
        return {name: value for name, value in values if value is not None}

    def applied_to(self, service: Specification) -> Specification:
        """Return the specification with the thresholds of this policy.

        Parameters
        ----------
        service : Specification
            The specification under the service's settings.
        """
        verdict, action = service.verdict, service.action
        spam, ham = verdict.spam_threshold, verdict.ham_threshold
        if self.ham_cost is not None:
            spam = math.log(self.ham_cost)
            ham = -spam
        if self.ham_threshold is not None:
            ham = min(self.ham_threshold, spam)
        quarantine = _chosen(self.quarantine_from, action.quarantine_from, spam)
        reject = _chosen(self.reject_from, action.reject_from, spam)
        if quarantine is not None and reject is not None and reject < quarantine:
            # The profile's own thresholds are kept; of two that contradict each other,
            # the milder one.
            if self.quarantine_from is None and self.reject_from is not None:
                quarantine = None
            else:
                reject = quarantine
        return replace(
            service,
            verdict=replace(verdict, spam_threshold=spam, ham_threshold=ham),
            action=ActionRule(
                spam_from=spam, quarantine_from=quarantine, reject_from=reject
            ),
        )

    def require_kept(self, service: Specification) -> None:
        """Raise if a given value would not take effect.

        Raises
        ------
        InvalidPolicy
            If a threshold lies on the wrong side of another one.
        """
        applied = self.applied_to(service)
        spam = applied.verdict.spam_threshold
        if self.ham_threshold not in {None, applied.verdict.ham_threshold}:
            raise InvalidPolicy(
                f"ham_threshold is {self.ham_threshold:.4g} nats, above the spam "
                f"threshold of {spam:.4g} nats; mail that is spam cannot be ham"
            )
        thresholds = {
            name: value
            for name in ("quarantine_from", "reject_from")
            if isinstance(value := getattr(self, name), float)
        }
        try:
            replace(applied.action, **thresholds)
        except InvalidSetting as error:
            raise InvalidPolicy(str(error)) from error


def _chosen(
    own: float | Never | None, service: float | None, spam: float
) -> float | None:
    """Return the threshold of an action, at least that of spam."""
    chosen = service if own is None else own
    return max(chosen, spam) if isinstance(chosen, float) else None


def _value(name: str, given: object) -> Any:
    """Normalise a value of a policy."""
    if isinstance(given, int | float) and not isinstance(given, bool):
        try:
            return float(given)
        except OverflowError:
            return math.inf
    if given in get_args(Never) and name in {"quarantine_from", "reject_from"}:
        return given
    raise InvalidPolicy(f"{name} must be a number of nats, got {given!r:.64}")
