"""Commands of profiles: `profiles` and `policy`."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from rich.text import Text
from typer import Option

from app.classifier.policy import Policy, value_of
from app.classifier.specification import KINDS, check_name
from app.doors.cli.console import (
    AsJson,
    Profile,
    confirm_forgetting,
    fields_of,
    interruptible,
    progress,
    run_stage,
    show,
    this_user,
)
from app.doors.documents.profile import ThresholdOut, thresholds_of
from app.errors import InvalidInput
from app.services import profiles as policies
from app.services.clock import now
from app.services.profiles import (
    count_messages,
    create_profile,
    delete_profile,
    id_key_of_new,
    list_profiles,
    rename_profile,
)
from app.services.startup import opened_database, specification
from app.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Engine

    from app.classifier.specification import Specification


def profiles_list(as_json: AsJson = False) -> None:
    """List the profiles, with the number of messages that each has learned."""
    with opened_database(load_settings()) as engine:
        _show(engine, as_json=as_json)


def profiles_create(
    name: str,
    labels: str | None = None,
    spam_labels: str | None = None,
    kind: Literal["mail"] | None = None,
    as_json: AsJson = False,
) -> None:
    """Create a profile; a running service serves it within a second.

    Parameters
    ----------
    name
        The name of the profile, such as ann@example.org.
    labels
        Its labels, separated by commas. [POSTBAYES_LABELS]
    spam_labels
        Those of them that count as spam. [POSTBAYES_SPAM_LABELS]
    kind
        A set of labels, instead of the two options above. mail: ham, newsletter,
        notification, phishing and spam; the last two count as spam.
    """
    check_name(name)
    if kind is not None:
        if labels or spam_labels:
            raise InvalidInput(
                "--kind gives a profile its labels: leave --labels and --spam-labels "
                "out"
            )
        labels, spam_labels = (",".join(names) for names in KINDS[kind])
    settings = load_settings(labels=labels, spam_labels=spam_labels)
    with opened_database(load_settings(), make=True) as engine:
        create_profile(
            engine,
            name,
            labels=settings.labels,
            spam_labels=settings.spam_labels,
            time=now(),
            id_key=id_key_of_new(engine, settings),
            actor=this_user(),
        )
        _show(engine, as_json=as_json)


def profiles_rename(old: str, new: str, as_json: AsJson = False) -> None:
    """Rename a profile, but not that of the site (POSTBAYES_PROFILE).

    Parameters
    ----------
    old
        The name of the profile.
    new
        Its new name.
    """
    _require_other(old)
    with opened_database(load_settings()) as engine:
        rename_profile(engine, old, new)
        _show(engine, as_json=as_json)


def profiles_delete(name: str, yes: bool = False, as_json: AsJson = False) -> None:
    """Delete a profile, but not that of the site (POSTBAYES_PROFILE).

    All that it has learned is deleted too.

    Parameters
    ----------
    name
        The name of the profile.
    yes
        Do not ask before deleting.
    """
    _require_other(name)
    with opened_database(load_settings()) as engine:
        (row,) = list_profiles(engine, name)
        if not yes:
            end = ", and cannot be undone; give --yes as well"
            confirm_forgetting(name, row.revision, option="`profiles delete`", end=end)
        left = (
            "interrupted; the profile is gone, and a running service removes the rest"
        )
        with interruptible(left), progress() as bar:
            run_stage(bar, "deleting", delete_profile(engine, name, actor=this_user()))
        _show(engine, as_json=as_json)


def _require_other(name: str) -> None:
    """Raise if a profile is that of the site."""
    if name == load_settings().profile:
        raise InvalidInput(
            f"the profile {name!r} is that of the site; name another one in "
            "POSTBAYES_PROFILE first"
        )


def _show(engine: Engine, *, as_json: bool) -> None:
    """Show all profiles."""
    rows = list_profiles(engine)
    documents = [
        {
            **fields_of(row, "name", "labels", "spam_labels", "revision"),
            "messages": {label: messages[label] for label in row.labels},
            **fields_of(row, "feature_set", "created_at", "id_key"),
        }
        for row, messages in zip(rows, count_messages(engine, rows), strict=True)
    ]
    show({"profiles": documents}, map(_line, documents), as_json=as_json)


def _line(profile: Mapping[str, Any]) -> str:
    """Return a profile as a line."""
    spam = [*profile["spam_labels"]]
    kinds = {} if spam == ["spam"] else dict.fromkeys(spam, " (spam)")
    labelled = ", ".join(
        f"{messages:,} {label}{kinds.get(label, '')}"
        for label, messages in profile["messages"].items()
    )
    return (
        f"{profile['name']}  revision {profile['revision']}  learned {labelled}  "
        f"feature set {profile['feature_set']}  "
        f"created {profile['created_at']:%Y-%m-%d}"
        + (f"  key {profile['id_key']}" if profile["id_key"] else "")
    )


_COLUMN: Final = 44


def policy(
    profile: Profile = None,
    ham_cost: Annotated[str | None, Option(metavar="NUMBER")] = None,
    ham_threshold: Annotated[str | None, Option(metavar="WHERE")] = None,
    quarantine_from: Annotated[str | None, Option(metavar="WHERE")] = None,
    reject_from: Annotated[str | None, Option(metavar="WHERE")] = None,
    reset: bool = False,
    as_json: AsJson = False,
) -> None:
    """Show or change the policy of a profile.

    Thresholds that are not given do not change. All workers of a running service apply
    the policy within a second.

    Parameters
    ----------
    ham_cost
        How many missed spam messages one lost ham message is worth, which sets where
        spam begins and where ham ends; or default.
    ham_threshold
        Threshold below which mail is ham: log-odds in nats such as 6.9, a probability
        such as 99.9%, or default.
    quarantine_from
        Threshold from which spam is held: log-odds in nats such as 6.9, a probability
        such as 99.9%, never, or default.
    reject_from
        Threshold from which spam is rejected: log-odds in nats such as 6.9, a
        probability such as 99.9%, never, or default.
    reset
        First reset everything to the settings.
    """
    settings = load_settings()
    service = specification(settings)
    name = profile or settings.profile
    changes = dict.fromkeys(_NAMES) if reset else {}
    given = (ham_cost, ham_threshold, quarantine_from, reject_from)
    changes |= {
        option: value_of(option, text, named=f"--{option.replace('_', '-')}")
        for option, text in zip(_NAMES, given, strict=True)
        if text is not None
    }
    with opened_database(settings) as engine:
        if changes:
            before, own = policies.change(
                engine, name, service, changes, actor=this_user()
            )
        else:
            (stored,) = list_profiles(engine, name)
            before = own = stored.read_policy()
    after = own.applied_to(service)
    was, now = _rows(before.applied_to(service)), _rows(after)
    lines = []
    for row, value in now.items():
        says = ("its own", "dim") if row in own.document() else ("", "")
        if was[row] != value:
            says = f"was {_shown(was[row])}", "bold"
        line = Text.assemble(f"{f'{row:17}{_shown(value)}':{_COLUMN}}", says)
        line.rstrip()
        lines.append(line)
    document = {"name": name, **thresholds_of(after), "policy": own.document()}
    show(document, lines, as_json=as_json)


_NAMES: Final = tuple(field.name for field in fields(Policy))


def _rows(specification: Specification) -> dict[str, float | ThresholdOut | None]:
    """Return the cost and the thresholds, in the order of the log-odds."""
    ham_cost = math.exp(specification.verdict.spam_threshold)
    return {"ham_cost": ham_cost, **thresholds_of(specification)}


def _shown(value: float | ThresholdOut | None) -> str:
    if value is None:
        return "never"
    if isinstance(value, float):
        return f"{value:.6g} missed spam"
    return f"{value.log_odds:+.3f}  {value.percent}"
