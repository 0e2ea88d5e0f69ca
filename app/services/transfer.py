"""Transfer of a profile: an export, an import, and the dump of another filter."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Final, Literal

from app.errors import UnknownLabel, UnknownProfile
from app.exchange import dumps, learn
from app.exchange.export import export, size
from app.exchange.survey import Source, survey
from app.services import undo
from app.services.upkeep import Folding
from app.storage import profiles
from app.storage.database.engine import reading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from datetime import datetime
    from typing import BinaryIO

    from sqlalchemy import Engine

    from app.exchange.dumps import DumpTally
    from app.exchange.export import Exported
    from app.exchange.format import Contents
    from app.exchange.survey import Imported, Survey
    from app.features.id_key import IdKey
    from app.storage.profiles import ProfileRow

    Progress = Callable[[int], object]

Program = Literal["bogofilter", "spamassassin", "spambayes", "rspamd"]
"""The filters whose dumps are known."""
# Bytes of a dump that are hashed at once.
_CHUNK: Final = 1024 * 1024


def read_export(file: BinaryIO, *, progress: Progress) -> Survey:
    """Check an export to its last byte, and go back to its beginning.

    Parameters
    ----------
    file : binary file
        The export; it can seek.
    progress : callable
        Is given the bytes that are read.

    Raises
    ------
    MalformedExport
        If the file is not an export, is damaged or cut short.
    """
    file.seek(0)
    found = survey(file, progress=progress)
    file.seek(0)
    return found


@dataclass(frozen=True, slots=True)
class Dump:
    """The counts of another filter.

    Parameters
    ----------
    tally : DumpTally
        What was read.
    digest : str
        SHA-256 of the dump, in hexadecimal.
    """

    tally: DumpTally
    digest: str


def read_dump(
    file: BinaryIO, program: Program, words: Iterable[str] | None = None
) -> Dump:
    """Read the dump of another filter.

    Parameters
    ----------
    file : binary file
        The dump; it can seek.
    program : str
        The filter that wrote it.
    words : iterable of str or None
        Text with the words to look for in a dump that has only hashes.

    Raises
    ------
    MalformedDump
        If it is not a dump of that filter, or of one whose dumps have no words.
    """
    digest = sha256()
    while chunk := file.read(_CHUNK):
        digest.update(chunk)
    file.seek(0)
    match program:
        case "bogofilter":
            tally = dumps.read_bogofilter(file)
        case "spambayes":
            tally = dumps.read_spambayes(file)
        case "rspamd":
            tally = dumps.refuse_rspamd(file)
        case "spamassassin":
            tally = dumps.read_spamassassin(file, words)
    return Dump(tally, digest.hexdigest())


@dataclass(frozen=True, slots=True)
class ImportedFile:
    """The outcome of an import, and what was imported.

    Parameters
    ----------
    learned : Imported
        The outcome.
    messages : mapping of str to int
        Messages that the file was learned from, per label.
    summed : bool
        Whether the file has counts, and not every message.
    tally : DumpTally or None
        What was read from a dump; None for an export.
    """

    learned: Imported
    messages: Mapping[str, int]
    summed: bool
    tally: DumpTally | None = None


@dataclass(frozen=True, slots=True)
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
    key : IdKey or None
        The key of the database, which an import into keyed ids needs.
    """

    engine: Engine
    clock: Callable[[], datetime]
    _: KW_ONLY
    store_words: bool
    key: IdKey | None = None

    def profile(self, name: str) -> ProfileRow | None:
        """Return the profile of a name, or None if there is none."""
        with suppress(UnknownProfile), reading(self.engine) as connection:
            return profiles.find(connection, name)
        return None

    def require_profile(self, name: str) -> ProfileRow:
        """Return the profile of a name.

        Raises
        ------
        UnknownProfile
            If there is none.
        """
        with reading(self.engine) as connection:
            return profiles.find(connection, name)

    def size(self, profile: ProfileRow, contents: Contents) -> int:
        """Return how many steps of progress an export has."""
        with reading(self.engine) as connection:
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
            If a ledger is asked for while an undo is carried out.
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
        """Add an export to a profile, which is created if there is none.

        Raises
        ------
        OtherProfile
            If it does not fit, or is an export of this profile itself.
        DatabaseUnavailable
            If it could not be stored; then nothing is learned.
        """
        return learn.add(self.engine, name, self._source(file, survey, progress))

    def replace(
        self, profile: ProfileRow, file: BinaryIO, survey: Survey, *, progress: Progress
    ) -> Imported:
        """Replace a profile by an export; what the profile had learned is lost.

        Raises
        ------
        OtherProfile
            If the export has another feature set, or feedback that came meanwhile
            cannot be taught to the new profile.
        ProfileReplaced
            If another import was faster.
        DatabaseUnavailable
            If it could not be stored; then all is as it was.
        """
        return learn.replace(self.engine, profile, self._source(file, survey, progress))

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
            The counts of the dump.
        digest : str
            Of the dump, in hexadecimal.
        ham, spam : str
            The labels that the two kinds of mail get; "" for the first of the
            profile that is not, or is, a spam label.
        progress : callable
            Is given how many of the features are written.

        Raises
        ------
        UnknownProfile, UnknownLabel
            If a name does not exist, or is a label of the other side.
        MalformedDump
            If there is nothing to learn in the dump, or more than can be counted.
        OtherProfile
            If there is more than fits beside what the profile has learned.
        DatabaseUnavailable, ProfileReplaced
            If it could not be stored; then nothing is learned.
        """
        with reading(self.engine) as connection:
            profile = profiles.find(connection, name)
        wanted = next(x for x in profile.labels if x not in profile.spam_labels)
        chosen = {"ham": ham or wanted, "spam": spam or profile.spam_labels[0]}
        for label in chosen.values():
            profile.require_label(label)
        # Otherwise one side of the dump would be learned as the other.
        if chosen["ham"] in profile.spam_labels:
            msg = (
                f"{ham!r} is a spam label of the profile {name!r}; name a label of ham"
            )
            raise UnknownLabel(msg)
        if chosen["spam"] not in profile.spam_labels:
            raise UnknownLabel(f"{spam!r} is not a spam label of the profile {name!r}")
        return learn.add_counts(
            self.engine,
            profile,
            tally.taken(profile.labels, **chosen),
            program=tally.program,
            digest=digest,
            clock=self.clock,
            words=self.store_words,
            progress=progress,
            key=self.key,
        )

    def _source(self, file: BinaryIO, survey: Survey, progress: Progress) -> Source:
        return Source(
            file=file,
            survey=survey,
            clock=self.clock,
            words=self.store_words,
            progress=progress,
            key=self.key,
        )

    def fold(self, profile: ProfileRow) -> Iterator[int]:
        """Finish the undos of a profile and fold its ledger; yield rows of steps."""
        for rows in undo.steps(self.engine, profile):
            yield len(rows)
        yield from Folding(self.engine).all(profile)
