"""Transfer of a profile: export, import, and dumps of other filters."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from functools import partial
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


@dataclass(frozen=True, slots=True)
class Dump:
    """The counts of another filter.

    Parameters
    ----------
    tally : DumpTally
        Its counts.
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
    digest = sha256()
    while chunk := file.read(_CHUNK):
        digest.update(chunk)
    file.seek(0)
    readers: dict[Program, Callable[[BinaryIO], DumpTally]] = {
        "bogofilter": dumps.read_bogofilter,
        "spamassassin": partial(dumps.read_spamassassin, words=words),
        "spambayes": dumps.read_spambayes,
        "rspamd": dumps.refuse_rspamd,
    }
    return Dump(readers[program](file), digest.hexdigest())


@dataclass(frozen=True, slots=True)
class ImportedFile:
    """The outcome of an import, and what was imported.

    Parameters
    ----------
    learned : Imported
        The outcome.
    messages : mapping of str to int
        Messages behind the file, per label.
    summed : bool
        Whether the file has only counts, not single messages.
    tally : DumpTally or None
        The counts of a dump; None for an export.
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
        The key of the database, needed to import into a profile with keyed ids.
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
        """Return the number of progress steps of an export."""
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
        """Write the content of a profile, while it goes on learning.

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
            If it does not fit the profile, or is an export of the same profile.
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
            If the export has a different feature set, or feedback given meanwhile
            cannot be taught to the new profile.
        ProfileReplaced
            If another import was faster.
        DatabaseUnavailable
            If it could not be stored; then nothing is changed.
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
            Name of the profile.
        tally : DumpTally
            The counts of the dump.
        digest : str
            Digest of the dump, in hexadecimal.
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
            If its counts and those of the profile together are too large.
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
