"""Transfer of a profile: export, import, and dumps of other filters.

Contract of this file: an imported file was checked to its last byte.  Its contents are
written step by step into a hidden profile (`app.exchange.staging`), verified there, and
made visible in one short transaction.  An import is therefore complete or absent, and
feedback continues meanwhile.  Only the messages of a ledger that is added to another
are made visible some at a time, each whole; if that is interrupted, a service goes on.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Final, Literal

from app.bayes.state import History
from app.errors import (
    InconsistentCounts,
    InvalidObservation,
    MalformedDump,
    MalformedExport,
    OtherProfile,
    ProfileReplaced,
    UnknownLabel,
    UnknownProfile,
    explaining,
)
from app.exchange import dumps
from app.exchange.export import export
from app.exchange.staging import Staging, fault_of, fill, hidden_profile
from app.exchange.survey import (
    id_key_of,
    policy_of,
    require_feature_set,
    require_key,
    require_labels,
    survey,
)
from app.features.extract import FEATURE_SET
from app.ledger.entry import epoch_of
from app.ledger.sums import FEATURES_PER_ROW, Amounts, encode_sums, redacted_sums
from app.services import undo
from app.services.upkeep import Folding
from app.storage import fold, hidden, profiles
from app.storage.database.engine import reading, writing
from app.storage.fold import replayed
from app.storage.ledger import append_sums
from app.storage.undo_records import sums_in_force

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from datetime import datetime
    from typing import BinaryIO

    from sqlalchemy import Connection, Engine

    from app.exchange.dumps import DumpTally
    from app.exchange.format import Contents, ExportHeader
    from app.exchange.staging import HiddenProfile
    from app.exchange.survey import Survey
    from app.features.id_key import IdKey
    from app.storage.profiles import ProfileRow

    Progress = Callable[[int], object]

Program = Literal["bogofilter", "spamassassin", "spambayes", "rspamd"]
"""The filters whose dumps can be read."""
# Bytes of a dump hashed at once.
_CHUNK: Final = 1024 * 1024


def read_export(file: BinaryIO, *, progress: Progress) -> Survey:
    """Check an export to its last byte, and rewind it.

    Parameters
    ----------
    file : binary file
        The export; must be seekable.
    progress : callable
        Called with the number of bytes read.

    Raises
    ------
    MalformedExport
        If the file is not an export, or is damaged or truncated.
    """
    file.seek(0)
    found = survey(file, progress=progress)
    file.seek(0)
    return found


def read_dump(
    file: BinaryIO, program: Program, words: Iterable[str] | None = None
) -> DumpTally:
    """Read the dump of another filter.

    Parameters
    ----------
    file : binary file
        The dump; must be seekable.
    program : str
        The filter that wrote it.
    words : iterable of str or None
        Texts with the words to look for in a dump that has only hashes.

    Raises
    ------
    MalformedDump
        If it is not a dump of that filter, or dumps of that filter have no words.
    """
    if program == "rspamd":
        # Pairs cannot be restored without the messages.
        raise MalformedDump(
            "rspamd has counts of no words, only of hashes of two stems up to four "
            "words apart. Learn from the mail folders instead: postbayes learn "
            "--label ham --junk spam Maildir"
        )
    digest = sha256()
    while chunk := file.read(_CHUNK):
        digest.update(chunk)
    file.seek(0)
    readers: dict[Program, Callable[[BinaryIO], DumpTally]] = {
        "bogofilter": dumps.read_bogofilter,
        "spamassassin": partial(dumps.read_spamassassin, words=words),
        "spambayes": dumps.read_spambayes,
    }
    tally = readers[program](file)
    tally.digest = digest.hexdigest()
    return tally


Outcome = Literal["added", "replaced", "unchanged"]
"""Results of an import."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """The result of an import.

    Parameters
    ----------
    outcome : str
        See `Outcome`; ``unchanged`` if everything was learned before.
    source : str
        Source of its rows in the ledger, by which it can be undone.
    messages : mapping of str to int
        Messages behind the file, per label.
    summed : bool
        Whether the file has only counts, not single messages.
    rows : int
        Ledger rows added.
    known : int
        Ledger rows skipped, because the profile knows their messages.
    tally : DumpTally or None
        The counts of a dump; None for an export.
    """

    outcome: Outcome
    profile: ProfileRow
    source: str
    messages: Mapping[str, int]
    summed: bool
    rows: int = 0
    known: int = 0
    tally: DumpTally | None = None


@dataclass(frozen=True, slots=True)
class Transfer:
    """Export and import profiles."""

    engine: Engine
    clock: Callable[[], datetime]
    _: KW_ONLY
    store_words: bool
    key: IdKey | None = None

    def profile(self, name: str) -> ProfileRow:
        """Return the profile of a name.

        Raises
        ------
        UnknownProfile
            If there is none.
        """
        with reading(self.engine) as connection:
            return profiles.find(connection, name)

    def export(
        self,
        name: str,
        file: BinaryIO,
        *,
        contents: Contents,
        words: bool,
        progress: Progress,
    ) -> tuple[ExportHeader, str]:
        """Write the content of a profile, while it goes on learning.

        Returns
        -------
        (ExportHeader, str)
            The header, and the digest of the contents.

        Raises
        ------
        UnknownProfile
            If there is no profile of that name.
        DatabaseUnavailable
            If the ledger is requested while an undo is carried out.
        """
        with reading(self.engine) as connection:
            return export(
                connection,
                profiles.find(connection, name),
                file,
                contents=contents,
                words=words,
                progress=progress,
            )

    def add(
        self, name: str, file: BinaryIO, survey: Survey, *, progress: Progress
    ) -> Imported:
        """Add an export to a profile, which is created if it does not exist.

        Raises
        ------
        OtherProfile
            If the profile does not fit, or the export is from the same profile, whose
            messages would be counted twice.
        MalformedExport
            If the ledger of the export contradicts itself, or the file was changed.
        DatabaseUnavailable, ProfileReplaced
            If it could not be stored; then nothing is learned, or the error says that a
            part is.

        Notes
        -----
        Counts are added only once: the ledger has the digest of the export as the
        source.  From a ledger, each message unknown to the profile is added with its
        whole history; known messages keep their labels.
        """
        header = survey.header
        staging = self._staging(file, survey, progress)
        profile = learned = None
        with reading(self.engine) as connection:
            with suppress(UnknownProfile):
                profile = profiles.find(connection, name)
            id_key = id_key_of(header, profile, self.key, words=self.store_words)
            if profile is not None:
                require_feature_set(header, profile.feature_set)
                require_labels(header, profile)
                learned = _counts_are_learned(connection, profile, survey)
                if learned:
                    return _imported(survey, profile, "unchanged")
        if profile is not None and profile.revision:
            _require_joinable(survey, profile, taken_back=learned is False)
            return self._join(profile, staging)
        created_at = header.created
        # Otherwise a profile that has learned nothing was created for this import, and
        # the export becomes its origin.
        if profile is not None and (profile.labels, profile.spam_labels) != (
            header.labels,
            header.spam_labels,
        ):
            created_at = profile.created_at
        return self._place(
            profile,
            staging,
            self._hidden(name, like=profile or header, id_key=id_key),
            created_at=created_at,
            policy=lambda old: old.policy or policy_of(header, old),
        )

    def replace(
        self, profile: ProfileRow, file: BinaryIO, survey: Survey, *, progress: Progress
    ) -> Imported:
        """Replace a profile by an export; its own ledger and counts are deleted.

        Parameters
        ----------
        profile : ProfileRow
            The profile at the time of the decision to replace it.  Feedback after its
            revision is given to the new profile.
        progress : callable
            Called with the position of reading.  Unit: bytes.

        Raises
        ------
        OtherProfile
            If the export has a different feature set, or feedback given meanwhile
            cannot be taught to the new profile.
        MalformedExport, DatabaseUnavailable, ProfileReplaced
            As `add`; then nothing is changed.
        """
        header = survey.header
        staging = self._staging(file, survey, progress)
        id_key = id_key_of(header, profile, self.key, words=self.store_words)
        return self._place(
            profile,
            staging,
            self._hidden(profile.name, like=header, id_key=id_key),
            created_at=header.created,
            policy=lambda old: policy_of(header, old),
            outcome="replaced",
        )

    def add_dump(
        self, name: str, tally: DumpTally, *, ham: str, spam: str, progress: Progress
    ) -> Imported:
        """Add the counts of another filter to a profile, once.

        A dump has no times of messages, so they count in the present month.

        Parameters
        ----------
        ham, spam : str
            The labels for the two kinds of mail; "" means the profile's first label of
            that side.
        progress : callable
            Called with the number of features written.

        Raises
        ------
        UnknownProfile, UnknownLabel
            If a name does not exist, or is a label of the other side.
        MalformedDump
            If the dump has nothing to learn, or counts that are too large.
        OtherProfile
            If its counts and those of the profile together are too large, or the
            profile has another key.
        DatabaseUnavailable, ProfileReplaced
            If it could not be stored; then nothing is learned.
        """
        profile = self.profile(name)
        require_key(f"the profile {name!r}", profile.id_key, self.key)
        state, names = tally.taken(profile.labels, **_labels(profile, ham, spam))
        source = f"import:{tally.program.lower()}:{tally.digest[:16]}"
        imported = partial(
            Imported,
            source=source,
            messages=tally.messages._asdict(),
            summed=True,
            tally=tally,
        )
        with reading(self.engine) as connection:
            if sums_in_force(connection, profile.id, source):
                return imported(outcome="unchanged", profile=profile)
        now = self.clock()
        epoch = epoch_of(now)
        if self.key is not None and profile.id_key is not None:
            state = redacted_sums(state, self.key)
            names = {view: self.key.names(some) for view, some in names.items()}
        amounts = Amounts()
        try:
            amounts.add(state)
        except InvalidObservation as error:
            msg = f"the counts of the dump are too large: {error}"
            raise MalformedDump(msg) from error
        self._require_room(
            profile, amounts, what="the dump", way_out="Import it into another profile"
        )
        parts = [*state.pieces(at_most=FEATURES_PER_ROW)]
        with self._hidden(name, like=profile, id_key=profile.id_key) as new:
            written = 0
            for part in parts:
                texts = names if self.store_words else None
                sums = encode_sums({epoch: part}, profile.labels, texts)
                with new.step() as connection:
                    append_sums(connection, new.row, sums, source=source, time=now)
                written += part.size
                progress(written)
            if profile.revision:
                with writing(self.engine) as connection:
                    profiles.lock(connection, profile)
                    hidden.renew(connection, new.row, now=self.clock())
                    if sums_in_force(connection, profile.id, source):
                        return imported(outcome="unchanged", profile=profile)
                    hidden.join_at_once(connection, new.row.id, profile)
            else:
                # The profile is empty, so the counts need no fold.
                fill(new, History({epoch: state}))
                profile = new.take_place(
                    profile,
                    created_at=profile.created_at,
                    policy=lambda old: old.policy,
                )
        return imported(outcome="added", profile=profile, rows=len(parts))

    def fold(self, profile: ProfileRow) -> Iterator[int]:
        """Finish the undos of a profile and fold its ledger; yield rows of steps."""
        for rows in undo.steps(self.engine, profile):
            yield len(rows)
        yield from Folding(self.engine).all(profile)

    def _staging(self, file: BinaryIO, survey: Survey, progress: Progress) -> Staging:
        require_feature_set(survey.header, FEATURE_SET)
        words, key = self.store_words, self.key
        return Staging(file, survey, words=words, key=key, progress=progress)

    def _hidden(
        self, name: str, *, like: ProfileRow | ExportHeader, id_key: str | None
    ) -> AbstractContextManager[HiddenProfile]:
        return hidden_profile(
            self.engine, name, like=like, clock=self.clock, id_key=id_key
        )

    def _place(
        self,
        profile: ProfileRow | None,
        staging: Staging,
        hidden: AbstractContextManager[HiddenProfile],
        *,
        created_at: datetime,
        policy: Callable[[ProfileRow], object],
        outcome: Outcome = "added",
    ) -> Imported:
        """Import an export into a profile that takes the place of another, if any.

        Raises
        ------
        MalformedExport
            If the export contradicts itself.
        """
        with hidden as new:
            staging.write(new)
            epochs, fault = _proven(new)
            if fault:
                raise MalformedExport(fault)
            fill(new, epochs)
            made = new.take_place(profile, created_at=created_at, policy=policy)
        return _imported(staging.survey, made, outcome, rows=staging.rows)

    def _join(self, profile: ProfileRow, staging: Staging) -> Imported:
        """Add an export to a profile that has learned something."""
        survey = staging.survey
        self._require_room(
            profile,
            survey.amounts,
            what="this export",
            way_out="Import it into a profile of its own with --profile NEWNAME",
        )
        with self._hidden(profile.name, like=profile, id_key=profile.id_key) as new:
            staging.write(new, joins=profile)
            _, fault = _proven(new)
            if fault and survey.header.contents == "counts":
                raise MalformedExport(fault)
            # Each message is valid without the others, unless a sum has taken counts of
            # it away.
            whole = fault or staging.summed or survey.header.contents == "counts"
            with writing(self.engine) as connection:
                profiles.lock(connection, profile)
                hidden.renew(connection, new.row, now=self.clock())
                if _counts_are_learned(connection, profile, survey):
                    return _imported(survey, profile, "unchanged")
                if not whole:
                    hidden.begin_to_join(connection, new.row, profile)
                else:
                    left_out = hidden.join_at_once(connection, new.row.id, profile)
                    # An export that is valid by itself is valid in any profile. Another
                    # may still be valid in this one: it may prune counts that only the
                    # profile has.
                    if fault or left_out:
                        both = fold.load_by_epoch(connection, profile)
                        fault = fault_of(connection, profile, both)
                    if fault:
                        raise MalformedExport(fault)
            if not whole:
                with explaining(
                    "only a part of the ledger was added so far; a service goes on "
                    "with it, or import it again"
                ):
                    left_out = self._join_in_steps(new, profile)
        known = staging.known + left_out
        rows = staging.rows - left_out
        return _imported(survey, profile, "added", rows=rows, known=known)

    def _join_in_steps(self, new: HiddenProfile, profile: ProfileRow) -> int:
        """Have the messages of a hidden profile join another; return what was known."""
        try:
            return hidden.join(self.engine, new.row, profile)
        # The step says that nothing was learned.
        except ProfileReplaced as error:
            raise ProfileReplaced(
                f"the profile {profile.name!r} was renamed, replaced or deleted while "
                "the ledger was added to it, so only a part was added; a service adds "
                "the rest if it was renamed. Otherwise, import it again"
            ) from error

    def _require_room(
        self, profile: ProfileRow, amounts: Amounts, *, what: str, way_out: str
    ) -> None:
        """Raise if import and profile together exceed the limits of the tables."""
        try:
            with reading(self.engine) as connection:
                before = fold.held(connection, profile)
            amounts.beside(before)
        except InvalidObservation as error:
            raise OtherProfile(
                f"{what} and the counts of the profile {profile.name!r} are too large "
                f"together: {error}. {way_out}"
            ) from error


def _imported(
    survey: Survey,
    profile: ProfileRow,
    outcome: Outcome,
    *,
    rows: int = 0,
    known: int = 0,
) -> Imported:
    """Return the result of the import of an export."""
    return Imported(
        outcome="unchanged" if outcome == "added" and not rows else outcome,
        profile=profile,
        source=survey.source,
        messages=survey.header.messages,
        summed=survey.header.contents == "counts",
        rows=rows,
        known=known,
    )


def _labels(profile: ProfileRow, ham: str, spam: str) -> dict[str, str]:
    """Return the labels for the two kinds of mail of a dump."""
    wanted = next(x for x in profile.labels if x not in profile.spam_labels)
    chosen = {"ham": ham or wanted, "spam": spam or profile.spam_labels[0]}
    for label in chosen.values():
        profile.require_label(label)
    # Otherwise one side of the dump would be learned as the other.
    if chosen["ham"] in profile.spam_labels:
        raise UnknownLabel(
            f"{ham!r} is a spam label of the profile {profile.name!r}; name a label "
            "of ham"
        )
    if chosen["spam"] not in profile.spam_labels:
        msg = f"{spam!r} is not a spam label of the profile {profile.name!r}"
        raise UnknownLabel(msg)
    return chosen


def _proven(new: HiddenProfile) -> tuple[History, str | None]:
    """Return the sums of a hidden profile, and any fault of its ledger."""
    with reading(new.engine) as connection:
        try:
            epochs = replayed(connection, new.row)
        except InconsistentCounts as error:
            return History(), f"the ledger of this export is contradictory: {error}"
        return epochs, fault_of(connection, new.row, epochs)


def _counts_are_learned(
    connection: Connection, profile: ProfileRow, survey: Survey
) -> bool | None:
    """Return whether an export's counts are in force; None if never learned."""
    if survey.header.contents != "counts":
        return None
    return sums_in_force(connection, profile.id, survey.source)


def _require_joinable(survey: Survey, profile: ProfileRow, *, taken_back: bool) -> None:
    """Raise if a message may be in both export and profile without being noticed.

    Counts that were learned and taken back cannot be: a profile that began with them
    has the origin of the export.
    """
    header = survey.header
    if survey.dropped:
        raise OtherProfile(
            f"in {survey.dropped:,} ledger rows of this export, the features were "
            "dropped for their age or forgotten, or are in a sum, so their messages "
            "could be learned twice. Import it into a new profile with --profile "
            "NEWNAME, replace this one with --replace, or export the counts"
        )
    copied = header.contents == "counts" and header.created == profile.created_at
    if copied and not taken_back:
        raise OtherProfile(
            f"this export is of the profile {profile.name!r} itself, or of a copy: "
            "its messages would count twice. Use --replace to return to the export; "
            "or, if this profile has its whole ledger, export --with-ledger to add "
            "only new messages"
        )
