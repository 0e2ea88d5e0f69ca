"""Undo: teachings taken back by source, time or revision."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from app.errors import DatabaseUnavailable, InvalidSelection, Unconfirmed, explaining
from app.figures import Errors
from app.services.access import note
from app.services.clock import now
from app.services.profiles import learned
from app.storage import scored as scores
from app.storage import undo_records, undo_work
from app.storage.database.engine import pause, reading, writing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sqlalchemy import Engine

    from app.ledger.entry import LedgerRow
    from app.ledger.undo import Selection
    from app.services.cache import LiveProfiles
    from app.services.live import CachedProfile
    from app.storage.profiles import ProfileRow
    from app.storage.undo_work import Plan

# An undo must be confirmed if it is of more messages than this, and of more than this
# share of the learned messages.  One person takes back about twenty at a time, and less
# than 1 % of the mail moves no figure noticeably.
UNCONFIRMED: Final = 20
UNCONFIRMED_SHARE: Final = 0.01
_TOKEN: Final = re.compile(r"(\d{1,18})-[0-9a-f]{16}", re.ASCII)
# How often an earlier undo may have to be finished first.
_TRIES: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Undone:
    """The outcome of an undo, or of a dry run of one.

    Parameters
    ----------
    plan : Plan
        The rows and undos that it takes back.
    name : str or None
        The source of the rows that it wrote, by which it can be undone; None if it
        wrote none.
    revision : int
        Revision of the newest ledger row after it.
    finished : tuple of str, default ()
        Sources of earlier unfinished undos that were carried out first.
    features : int or None
        Features whose counts would change; as the error figures, of a dry run only.
    figures_before, figures_after : Errors or None
        The live error figures of all scored messages, before and after the undo.
    confirm : str or None
        The value that confirms the undo, if a dry run says that it has to be.
    """

    profile: str
    plan: Plan
    name: str | None
    revision: int
    finished: tuple[str, ...] = ()
    features: int | None = None
    figures_before: Errors | None = None
    figures_after: Errors | None = None
    confirm: str | None = None


@dataclass(frozen=True, slots=True)
class Undo:
    """Takes back teachings exactly; an undo can itself be undone."""

    live: LiveProfiles

    def __call__(
        self,
        profile: str,
        selection: Selection,
        *,
        source: str,
        confirm: str | None = None,
    ) -> Undone:
        """Record an undo and carry it out, as `begin` and `finish` do."""
        undone = self.begin(profile, selection, source=source, confirm=confirm)
        *_, revision = self.finish(undone)
        return replace(undone, revision=revision)

    def forecast(self, profile: str, selection: Selection) -> Undone:
        """Return what an undo would change, without changing anything.

        Raises
        ------
        InvalidSelection, UnknownProfile, UnknownMessage, UnknownSource
            If the selection is empty, or names what does not exist.
        Expired, Irreversible, CorruptVector
            If it cannot be undone.
        DatabaseUnavailable
            If the ledger cannot be read.
        """
        require_something(selection)
        live = self.live.find(profile)
        with reading(self.live.engine) as connection:
            plan = undo_work.plan(
                connection, live.row, selection, source="", time=now()
            )
            confirm = None
            if _is_large(plan, live):
                confirm = undo_work.token(
                    connection, live.row, selection, revision=plan.revision
                )
            features = undo_records.features_of(connection, live.row, plan.vectors)
            scored = scores.count(connection, live.row.id)
        after = Counter(scored)
        for (decision, old, new), messages in plan.moved.items():
            for label, n in ((old, -messages), (new, messages)):
                if decision is not None and label is not None:
                    after[decision, label] += n
        return Undone(
            profile=live.row.name,
            plan=plan,
            name=None,
            revision=live.revision,
            features=features,
            figures_before=_errors(scored, live.row.spam_labels),
            figures_after=_errors(after, live.row.spam_labels),
            confirm=confirm,
        )

    def begin(
        self,
        profile: str,
        selection: Selection,
        *,
        source: str,
        confirm: str | None = None,
    ) -> Undone:
        """Record an undo; `finish` or the maintenance carries it out.

        Once recorded, it is carried out whatever happens to this process.

        Parameters
        ----------
        confirm : str or None
            The value from a forecast; later teachings are then left alone.

        Raises
        ------
        Unconfirmed
            If it would take back much, and `confirm` does not belong to it.
        InvalidSelection, UnknownProfile, UnknownMessage, UnknownSource
            If the selection is empty, or names what does not exist.
        Expired, Irreversible, CorruptVector
            If it cannot be undone; nothing is changed.
        DatabaseUnavailable
            If it could not be recorded; then nothing is undone, except perhaps an
            earlier undo that had to be finished first, which the error mentions.
        """
        require_something(selection)
        live = self.live.find(profile)
        finished: set[str] = set()
        for _ in range(_TRIES):
            plan = self._plan(live, selection, source, confirm)
            if plan is None:
                finished |= self._finish_earlier(live)
            elif self._record(live, plan):
                return Undone(
                    profile=live.row.name,
                    plan=plan,
                    name=None if plan.empty else plan.undo.name,
                    revision=live.revision,
                    finished=tuple(sorted(finished)),
                )
        raise DatabaseUnavailable("another undo is running; try again in a moment")

    def _plan(
        self,
        live: CachedProfile,
        selection: Selection,
        source: str,
        confirm: str | None,
    ) -> Plan | None:
        """Return the plan of an undo; None while an earlier one is unfinished."""
        given = _TOKEN.fullmatch(confirm or "")
        upto = None if given is None else int(given[1])
        # A read transaction: it may take a while for many rows, and blocks nobody.
        with reading(self.live.engine) as connection:
            if undo_work.pending(connection, live.row.id):
                return None
            plan = undo_work.plan(
                connection,
                live.row,
                replace(selection, upto=upto),
                source=source,
                time=now(),
            )
            if _is_large(plan, live) and (
                upto is None
                or confirm
                != undo_work.token(connection, live.row, selection, revision=upto)
            ):
                raise Unconfirmed(_unconfirmed(plan, live, confirm))
            undo_records.require_readable(connection, live.row, plan.vectors)
            return plan

    def _record(self, live: CachedProfile, plan: Plan) -> bool:
        """Record a plan; return whether it was still valid."""
        with writing(self.live.engine) as connection:
            begun = undo_work.begin(connection, live.row, plan)
            if begun and not plan.empty:
                who, undo = plan.undo.source, plan.undo.name
                note(connection, "undo", live.row.name, actor=who, undo=undo)
        return begun

    def _finish_earlier(self, live: CachedProfile) -> set[str]:
        """Carry out earlier undos of any process, and return their sources."""
        finished = set()
        # It may be a repeated request for the same undo.
        with explaining(
            "an earlier undo must be finished first; a running service does so once "
            "the database is back. This undo was not recorded"
        ):
            for rows in steps(self.live.engine, live.row):
                live.apply(rows)
                finished |= {row.source for row in rows}
        return finished

    def finish(self, undone: Undone) -> Iterator[int]:
        """Carry out a recorded undo, yielding the newest revision after each step.

        At the last revision the undo is complete, also in memory.

        Raises
        ------
        ProfileReplaced
            If an import has replaced the profile; the undo is void.
        DatabaseUnavailable
            If the database became unavailable: the maintenance completes the undo, and
            the error says so.
        """
        stored = (
            f"{undone.name} is recorded but not finished; a running service finishes "
            "it once the database is back, or repeat the same undo"
        )
        with nullcontext() if undone.name is None else explaining(stored):
            live = self.live.find(undone.profile)
            for rows in steps(self.live.engine, live.row):
                # Added to memory if no row is missing before them; otherwise the
                # maintenance follows the ledger and adds them within a second.
                live.apply(rows)
                yield rows[-1].revision
            # The maintenance or another process may have done some or all steps.
            self.live.refresh()
        yield self.live.find(undone.profile).revision


def steps(engine: Engine, profile: ProfileRow) -> Iterator[list[LedgerRow]]:
    """Carry out recorded undos, yielding the rows that each step appended.

    Raises
    ------
    DatabaseUnavailable, ProfileReplaced, InconsistentCounts
        If a step fails; the steps before it are done.
    """
    left = True
    while left:
        rows, left = carry_out(engine, profile)
        if rows:
            yield rows
        if left:
            pause()


def carry_out(engine: Engine, profile: ProfileRow) -> tuple[list[LedgerRow], bool]:
    """Do one step of a recorded undo; return its rows and whether more is left.

    No row is appended if a later teaching has the same effect.
    """
    with writing(engine) as connection:
        rows = undo_work.step(connection, profile, limit=undo_work.STEP)
        return rows, undo_work.pending(connection, profile.id)


def require_something(selection: Selection) -> None:
    """Raise unless a selection says what to take back.

    Raises
    ------
    InvalidSelection
        If it would take back everything, or its time ends before it begins.
    """
    if (
        not selection.ids
        and selection.source is None
        and not (selection.since or selection.until)
    ):
        raise InvalidSelection(
            "select what to undo by ids of messages, a source, or a time with from "
            "and until; a row must match all that are given"
        )
    if selection.since and selection.until and selection.since >= selection.until:
        raise InvalidSelection(
            f"the time ends before it begins: from {selection.since.isoformat()}, "
            f"until {selection.until.isoformat()}"
        )


def _is_large(plan: Plan, live: CachedProfile) -> bool:
    """Return whether a plan has to be confirmed."""
    return plan.size > max(UNCONFIRMED, UNCONFIRMED_SHARE * sum(learned(live).values()))


def _unconfirmed(plan: Plan, live: CachedProfile, confirm: str | None) -> str:
    """Return the sentence for an undo that is not confirmed."""
    wrong = "the token is of another undo, or an undo was made since the dry run: "
    return (
        f"{'' if confirm is None else wrong}this would take back {plan.size} messages; "
        f"{live.row.name!r} has learned {sum(learned(live).values())}. Request a dry "
        "run (`dry_run`, `--dry-run`), check what would change, and repeat the undo "
        "with its token (`confirm`, `--confirm`); nothing was undone"
    )


def _errors(
    scored: Mapping[tuple[str, str], int], spam_labels: tuple[str, ...]
) -> Errors:
    """Return the error figures of messages that were counted by decision and label."""
    sides = [(label in spam_labels, decision == "spam") for decision, label in scored]
    kinds = np.array(sides, bool).reshape(-1, 2)
    return Errors.of(*np.repeat(kinds, [*scored.values()], axis=0).T)
