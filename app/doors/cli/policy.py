"""`postbayes policy`: what a profile decides by, shown and changed."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.text import Text

from app.bayes.posterior import probability_of
from app.classifier.policy import DEFAULT, SAYS, Policy, value_of
from app.doors.cli.console import OUT, Json, Profile, print_json, this_user
from app.services import profiles as policies
from app.services.application import opened_database, specification
from app.settings import load_settings

if TYPE_CHECKING:
    from app.classifier.specification import Specification

_COLUMN: Final = 44


def policy(
    profile: Profile = None,
    ham_cost: Annotated[
        str | None,
        typer.Option(
            help="How many missed spam a lost ham is worth: where spam begins, and on "
            f"the other side of even odds where ham ends; or {DEFAULT}.",
            metavar="NUMBER",
        ),
    ] = None,
    ham_threshold: Annotated[
        str | None,
        typer.Option(
            help=f"Where ham ends, if elsewhere: {SAYS}, or {DEFAULT}.",
            metavar="WHERE",
        ),
    ] = None,
    quarantine_from: Annotated[
        str | None,
        typer.Option(
            help=f"From where on spam is held: {SAYS}, never, or {DEFAULT}.",
            metavar="WHERE",
        ),
    ] = None,
    reject_from: Annotated[
        str | None,
        typer.Option(
            help=f"From where on spam is rejected: {SAYS}, never, or {DEFAULT}.",
            metavar="WHERE",
        ),
    ] = None,
    reset: Annotated[
        bool,
        typer.Option("--reset", help="First leave everything to the settings again."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Show what a profile decides by, or change it.

    What is not given stays as it is. A running service decides by it within a
    second, in all of its workers and doors.
    """
    settings = load_settings()
    service = specification(settings)
    name = profile or settings.profile
    changes = dict.fromkeys(_NAMES) if reset else {}
    changes |= {
        option: value_of(option, text, named=f"--{option.replace('_', '-')}")
        for option, text in (
            ("ham_cost", ham_cost),
            ("ham_threshold", ham_threshold),
            ("quarantine_from", quarantine_from),
            ("reject_from", reject_from),
        )
        if text is not None
    }
    with opened_database(settings) as engine:
        if changes:
            changed = policies.change(engine, name, service, changes, who=this_user())
        else:
            changed = policies.current(engine, name, service)
    own = changed.after
    was = _thresholds(changed.specification_before)
    now = _thresholds(changed.specification_after)
    if as_json:
        print_json(_document(name, own, now))
        return
    for row, value in now.items():
        line = Text(f"{row:17}{_shown(row, value)}")
        if was[row] != value:
            line.pad_right(_COLUMN - len(line))
            line.append(f"was {_shown(row, was[row])}", style="bold")
        elif row in own.document():
            line.pad_right(_COLUMN - len(line))
            line.append("its own", style="dim")
        OUT.print(line)


_NAMES: Final = tuple(field.name for field in fields(Policy))


def _thresholds(made_of: Specification) -> dict[str, float | None]:
    """Return the cost and the thresholds, in the order of the log-odds."""
    return {
        "ham_cost": math.exp(made_of.verdict.spam_threshold),
        "ham_threshold": made_of.verdict.ham_threshold,
        "spam_threshold": made_of.verdict.spam_threshold,
        "quarantine_from": made_of.action.quarantine_from,
        "reject_from": made_of.action.reject_from,
    }


def _document(
    name: str, own: Policy, now: dict[str, float | None]
) -> dict[str, object]:
    """Return the names and values of the HTTP door's document."""
    thresholds = {
        row: None
        if value is None
        else {"log_odds": value, "probability": probability_of(value)}
        for row, value in now.items()
        if row != "ham_cost"
    }
    return {"name": name, **thresholds, "policy": own.document()}


def _shown(row: str, value: float | None) -> str:
    if value is None:
        return "never"
    if row == "ham_cost":
        return f"{value:.6g} missed spam"
    return f"{value:+.3f}  {percent(value)}"


def percent(log_odds: float) -> str:
    """Return a probability with as many digits as tell it from 0 and from 1.

    Examples
    --------
    >>> percent(0.0), percent(2.1972), percent(12.0), percent(-800.0)
    ('50 %', '90 %', '99.99939 %', '0 %')
    """
    rest = 100.0 * probability_of(-abs(log_odds))
    if rest < 1e-9:  # noqa: PLR2004  a float has no more digits below 100
        return "100 %" if log_odds > 0 else "0 %"
    digits = max(0, 1 - math.floor(math.log10(rest)))
    shown = 100.0 - rest if log_odds > 0 else rest
    text = f"{shown:.{digits}f}"
    return (text.rstrip("0").rstrip(".") if digits else text) + " %"
