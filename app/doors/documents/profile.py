"""Documents of profiles, their policies, and the settings of the service."""

from __future__ import annotations

import math
from datetime import datetime  # noqa: TC003  pydantic reads it at run time
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import (
    Field,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
)
from pydantic_core import PydanticCustomError

from app import __version__
from app.bayes.posterior import probability_of
from app.classifier.policy import MAX_COST, value_of
from app.classifier.specification import KINDS
from app.classifier.verdict import MAX_NATS
from app.doors.documents import AnswerDocument, RequestDocument
from app.doors.documents.verdict import by_label
from app.errors import InvalidInput
from app.services.profiles import learned
from app.services.startup import in_force

if TYPE_CHECKING:
    from app.classifier.specification import Specification
    from app.services.application import Application

# openapi-python-client takes a number for the one text that a `const` allows.
_Never = Annotated[
    Literal["never"], WithJsonSchema({"enum": ["never"], "type": "string"})
]


class ViewStateOut(AnswerDocument):
    """The counts of one view."""

    features: int
    """Distinct features seen in any class."""
    occurrences: dict[str, int]
    """Occurrences of features per label."""


class ThresholdOut(AnswerDocument):
    """Where a decision begins, on two scales."""

    log_odds: float
    """Log-odds of spam against the rest, in nats."""
    probability: float
    """The same as a probability of spam."""

    @classmethod
    def of(cls, log_odds: float) -> Self:
        """Return the document of a threshold in nats."""
        return cls(log_odds=log_odds, probability=probability_of(log_odds))

    @property
    def percent(self) -> str:
        """The probability, with enough digits to distinguish it from 0 and 1.

        Examples
        --------
        >>> [ThresholdOut.of(nats).percent for nats in (0.0, 2.1972, 12.0, -800.0)]
        ['50 %', '90 %', '99.99939 %', '0 %']
        """
        rest = 100.0 * probability_of(-abs(self.log_odds))
        if rest < 1e-9:  # noqa: PLR2004  a float has no more digits below 100
            return "100 %" if self.log_odds > 0 else "0 %"
        digits = max(0, 1 - math.floor(math.log10(rest)))
        text = f"{100.0 - rest if self.log_odds > 0 else rest:.{digits}f}"
        return (text.rstrip("0").rstrip(".") if digits else text) + " %"


def thresholds_of(specification: Specification) -> dict[str, ThresholdOut | None]:
    """Return the thresholds of a profile by name, in the order of the log-odds."""
    nats = {
        "ham_threshold": specification.verdict.ham_threshold,
        "spam_threshold": specification.verdict.spam_threshold,
        "quarantine_from": specification.action.quarantine_from,
        "reject_from": specification.action.reject_from,
    }
    return {
        name: None if value is None else ThresholdOut.of(value)
        for name, value in nats.items()
    }


class FusionOut(AnswerDocument):
    """The weights of the views."""

    weights: dict[str, float]
    """Weight of each view, by its normaliser."""
    bias: dict[str, float]
    """Added for each label, in nats; with more than two, for all of ham and of spam."""
    fitted_revision: int
    """The latest ledger row that they were fitted to."""
    fitted_messages: int
    """Number of messages that they were fitted to; 0: the shipped weights."""


class DecayOut(AnswerDocument):
    """The decay of old mail."""

    half_life: float
    """Months after which a message counts half."""
    epoch: int | None
    """The month from which ages are counted, YYYYMM: that of the newest ledger row;
    null before the first.
    """


class ListedOut(AnswerDocument):
    """One profile of many."""

    name: str
    """The profile's name."""
    revision: int
    """Its newest ledger row that this process has learned."""
    messages: dict[str, int]
    """Messages learned, per label."""


class ProfilesOut(AnswerDocument):
    """Some profiles, in the order of their names."""

    profiles: list[ListedOut]
    """The profiles."""
    next: str | None
    """The `after` of the next request; null: these are the last."""


class ProfileOut(AnswerDocument):
    """One profile: its specification and its counts."""

    name: str
    """The profile's name."""
    labels: list[str]
    """The labels of its messages."""
    spam_labels: list[str]
    """The labels of unwanted mail."""
    feature_set: int
    """Version of the rules by which features are extracted."""
    created_at: datetime
    """When it was created, in UTC."""
    revision: int
    """Its newest ledger row that this process has learned."""
    messages: dict[str, int]
    """Messages learned, per label."""
    views: dict[str, ViewStateOut]
    """What each view has learned."""
    spam_threshold: ThresholdOut
    """The decision is spam from here up."""
    ham_threshold: ThresholdOut
    """The decision is ham from here down, and unsure in between."""
    quarantine_from: ThresholdOut | None
    """The doors that can quarantine do so from here up; null: never."""
    reject_from: ThresholdOut | None
    """The doors that can reject do so from here up; null: never."""
    policy: dict[str, float | _Never]
    """Where the profile differs from the settings of the service: `ham_cost`, and
    `ham_threshold`, `quarantine_from` and `reject_from` in nats.
    """
    fusion: FusionOut
    """The weights of the views, fitted to the feedback."""
    undo_days: float | None
    """Days during which feedback can be undone, changed or forgotten; null: for ever.
    """
    decay: DecayOut | None
    """Decay of old mail; null if old mail weighs as much as new mail. With decay,
    counts are current weights in whole messages.
    """

    @classmethod
    def of(cls, application: Application, name: str) -> Self:
        """Return the document of a profile as it is in memory now.

        Raises
        ------
        UnknownProfile
            If there is no such profile.
        Inconsistent
            If its stored policy cannot be read.
        """
        live = application.live.get(name)
        row, snapshot = live.row, live.snapshot
        specification, fusion = snapshot.specification, snapshot.fusion
        terms = [term.name for term in specification.verdict.terms]
        return cls.describing(
            row,
            revision=snapshot.revision,
            messages=learned(snapshot),
            views={
                view: ViewStateOut(
                    features=table.vocabulary,
                    occurrences=specification.by_label(table.totals("occurrences")),
                )
                for view, table in snapshot.tables.items()
            },
            **thresholds_of(specification),
            policy=row.read_policy().document(),
            fusion=FusionOut.describing(
                fusion,
                weights=by_label(terms, fusion.weights),
                bias=by_label(specification.sides.labels, fusion.bias),
            ),
            undo_days=application.settings.vector_days or None,
            decay=specification.decay,
        )


class ProfileIn(RequestDocument):
    """A profile that is to be made."""

    name: str = Field(max_length=128)
    """Its name: the address or domain of the recipients whose mail it decides about, or
    any other name.
    """
    kind: Literal["mail"] | None = None
    """A named set of labels, instead of both lists. `mail`: ham, newsletter,
    notification, phishing and spam; the last two count as spam.
    """
    labels: list[str] = Field(default=[])
    """The labels of its messages. Empty: POSTBAYES_LABELS."""
    spam_labels: list[str] = Field(default=[])
    """The labels of unwanted mail. Empty: POSTBAYES_SPAM_LABELS."""

    def of_labels(
        self, labels: tuple[str, ...], spam_labels: tuple[str, ...]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return its labels and its spam labels; the arguments are the defaults.

        Raises
        ------
        InvalidInput
            If they are given twice.
        """
        if self.kind is None:
            return tuple(self.labels) or labels, tuple(self.spam_labels) or spam_labels
        if self.labels or self.spam_labels:
            msg = "`kind` has its own labels; leave out `labels` and `spam_labels`"
            raise InvalidInput(msg)
        return KINDS[self.kind]


def _threshold(
    given: object, numbers: ValidatorFunctionWrapHandler, about: ValidationInfo
) -> Any:
    """Read a threshold, which may be a text as in the settings and on the pages."""
    name = about.field_name or ""
    if isinstance(given, str):
        return value_of(name, given, named=name)
    # Not true and false, which pydantic reads as 1 and 0.
    if given is not None and type(given) not in {int, float}:
        raise PydanticCustomError(
            "threshold",
            "Input should be log-odds in nats such as 6.9, or a text such as '99.9%'",
        )
    return numbers(given)


_Where = Annotated[
    Annotated[float, Field(ge=-MAX_NATS, le=MAX_NATS)] | None,
    WrapValidator(_threshold),
    WithJsonSchema({"anyOf": [{"type": t} for t in ("number", "string", "null")]}),
]


class PolicyIn(RequestDocument):
    """A change of a policy: null resets a field to the settings of the service."""

    ham_cost: Annotated[float, Field(strict=True, ge=1, le=MAX_COST)] | None = None
    """Number of missed spam messages that one lost ham is worth. It sets where spam
    begins and, on the other side of even odds, where ham ends.
    """
    ham_threshold: _Where = None
    """The decision is ham from here down, and unsure up to spam: a number of nats, or a
    probability as a text such as `10%`. If not given, it is as far from even odds as
    the spam threshold.
    """
    quarantine_from: _Where = None
    """The doors that can quarantine do so from here up: nats, or a text such as
    `99.9%`; `never` overrides the settings of the service.
    """
    reject_from: _Where = None
    """The doors that can reject do so from here up: nats, or a text such as `99.9%`;
    `never` overrides the settings of the service.
    """

    def changes(self) -> dict[str, Any]:
        """Return the given fields, thresholds in nats."""
        return {name: getattr(self, name) for name in self.model_fields_set}


class SettingOut(AnswerDocument):
    """One setting in force."""

    variable: str
    """Its variable, `POSTBAYES_…`."""
    value: str | None
    """Its value as text; null: unset. Secrets are `(hidden)`."""
    default: str | None
    """Its default as text; null: unset."""
    description: str
    """What it does."""


class SettingsOut(AnswerDocument):
    """Facts about a service."""

    version: str
    """Version of Postbayes."""
    database: str
    """`sqlite` or `postgresql`."""
    database_url: str
    """Its location, without the password."""
    workers: int
    """Number of processes of the service."""
    profiles: int
    """Number of profiles in the database."""
    memory_bytes: int
    """Bytes that the counts of profiles take in the memory of the process that answers.
    """
    settings: list[SettingOut]
    """All settings."""

    @classmethod
    def of(cls, application: Application) -> Self:
        """Return the document of a service."""
        settings = application.settings
        return cls.describing(
            application,
            version=__version__,
            workers=settings.workers,
            profiles=sum(1 for _ in application.live),
            memory_bytes=application.live.nbytes,
            settings=in_force(settings),
        )
