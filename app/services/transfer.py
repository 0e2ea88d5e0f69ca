"""Transfer of a profile: to a file, and from one."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from app.errors import DatabaseUnavailable, UnknownLabel, UnknownProfile
from app.exchange import learn
from app.exchange.export import export, size
from app.exchange.survey import Source
from app.services import undo
from app.services.fold import Folding
from app.storage import profiles
from app.storage.database.engine import reading
from app.storage.fold import state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime
    from typing import BinaryIO

    from sqlalchemy import Engine

    from app.exchange.dumps.tally import DumpTally
    from app.exchange.export import Exported
    from app.exchange.format.header import Contents
    from app.exchange.survey import Imported, Survey
    from app.storage.profiles import ProfileRow

    Progress = Callable[[int], object]

# A fold that is written in part is written to its end first; until the export begins,
# a service may have begun the next.
_TRIES: Final = 20


class Transfer:
    """Export and import profiles.

    Parameters
    ----------
    engine : Engine
        The database.
    clock : callable
        Returns the time now, in UTC.
    store_words : bool
        Whether the text of features is kept.
    """

    def __init__(
        self, engine: Engine, clock: Callable[[], datetime], *, store_words: bool
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._store_words = store_words
        self._folding = Folding(engine)

    def profile(self, name: str) -> ProfileRow | None:
        """Return the profile of a name, or None if there is none."""
        with suppress(UnknownProfile), reading(self._engine) as connection:
            return profiles.find(connection, name)
        return None

    def size(self, profile: ProfileRow, contents: Contents) -> int:
        """Return how many steps of progress an export has."""
        with reading(self._engine) as connection:
            return size(connection, profile, contents)

    def export(
        self,
        name: str,
        file: BinaryIO,
        *,
        contents: Contents,
        words: bool,
        progress: Progress,
    ) -> Exported:
        """Write what a profile has learned, while learning goes on.

        Raises
        ------
        UnknownProfile
            If there is none of that name.
        DatabaseUnavailable
            If an undo is carried out, or feedback comes faster than it is folded.
        """
        for _ in range(_TRIES):
            with reading(self._engine) as connection:
                profile = profiles.find(connection, name)
                if contents == "ledger" or not state.in_part(connection, profile.id):
                    return export(
                        connection,
                        profile,
                        file,
                        contents=contents,
                        words=words,
                        progress=progress,
                    )
            self._folding.finish(profile)
        msg = "feedback comes faster than it is folded; export in a quieter hour"
        raise DatabaseUnavailable(msg)

    def add(
        self, name: str, file: BinaryIO, survey: Survey, *, progress: Progress
    ) -> Imported:
        """Add an export to a profile, which is made if there is none.

        Raises
        ------
        OtherProfile
            If it does not fit, or is of this profile itself.
        DatabaseUnavailable
            If it could not be stored; then nothing is learned.
        """
        return learn.add(self._engine, name, self._source(file, survey, progress))

    def replace(
        self, profile: ProfileRow, file: BinaryIO, survey: Survey, *, progress: Progress
    ) -> Imported:
        """Make a profile what an export holds; what it had learned is gone.

        Raises
        ------
        OtherProfile
            If the export is of another feature set, or if what was taught meanwhile
            cannot be taught to the new profile.
        ProfileReplaced
            If another import was here first.
        DatabaseUnavailable
            If it could not be stored; then all is as it was.
        """
        return learn.replace(
            self._engine, profile, self._source(file, survey, progress)
        )

    def add_dump(
        self,
        name: str,
        tally: DumpTally,
        *,
        digest: str,
        ham: str,
        spam: str,
        progress: Progress,
    ) -> Imported:
        """Add the counts of another filter to a profile.

        Parameters
        ----------
        name : str
            Of the profile.
        tally : DumpTally
            What was read from the dump.
        digest : str
            Of the dump, in hexadecimal.
        ham, spam : str
            The labels that the two kinds of mail get; "" for the first of the
            profile that is not, or is, a spam label.
        progress : callable
            Told how many of the dump's features are written.

        Raises
        ------
        UnknownProfile, UnknownLabel
            If what is named does not exist, or is a label of the other side.
        MalformedDump
            If there is nothing to learn in the dump, or more than can be counted.
        OtherProfile
            If there is beside what the profile has learned.
        DatabaseUnavailable, ProfileReplaced
            If it could not be stored; then nothing is learned.
        """
        with reading(self._engine) as connection:
            profile = profiles.find(connection, name)
        wanted = next(x for x in profile.labels if x not in profile.spam_labels)
        chosen = {"ham": ham or wanted, "spam": spam or profile.spam_labels[0]}
        for label in chosen.values():
            profile.require_label(label)
        # Else one side of the dump would be taken for the other, or for nothing.
        if chosen["ham"] in profile.spam_labels:
            msg = (
                f"{ham!r} is a label of spam in the profile {name!r}, so ham is not it"
            )
            raise UnknownLabel(msg)
        if chosen["spam"] not in profile.spam_labels:
            msg = f"{spam!r} is no label of spam in the profile {name!r}"
            raise UnknownLabel(msg)
        return learn.add_counts(
            self._engine,
            profile,
            tally.taken(profile.labels, **chosen),
            program=tally.program,
            digest=digest,
            clock=self._clock,
            words=self._store_words,
            progress=progress,
        )

    def _source(self, file: BinaryIO, survey: Survey, progress: Progress) -> Source:
        return Source(
            file=file,
            survey=survey,
            clock=self._clock,
            words=self._store_words,
            progress=progress,
        )

    def fold(self, profile: ProfileRow) -> Iterator[int]:
        """Finish what is begun on a profile, and fold its ledger.

        Gives the rows of each step.
        """
        for rows in undo.steps(self._engine, profile):
            yield len(rows)
        yield from self._folding.all(profile)
