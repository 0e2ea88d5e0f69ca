"""The whole exception tree.

PostbayesError
├── InvalidInput            the caller's fault; the sentence says what to do
│   ├── EmptyMessage
│   ├── MessageTooLarge
│   ├── BatchTooLarge
│   ├── SlowRequest
│   ├── MalformedRequest
│   ├── InvalidSelection
│   ├── UnsupportedContentType
│   ├── MissingLabel
│   ├── UnknownLabel
│   ├── InvalidObservation
│   ├── UnreadableSource
│   ├── MalformedIndex
│   ├── MalformedTable
│   ├── MalformedDump
│   ├── MalformedExport
│   ├── InvalidPolicy
│   └── InvalidSetting
├── Unauthenticated         the request does not say who makes it
├── Forbidden               the request may not be made, whatever is in it
├── TooManyRequests         the client has to wait
├── NotFound
│   ├── UnknownProfile
│   ├── UnknownMessage
│   ├── UnknownSource
│   ├── UnknownKey
│   ├── UnknownPerson
│   └── UnknownEntry
├── Conflict
│   ├── ProfileExists
│   ├── NameTaken
│   ├── OtherProfile
│   ├── Expired
│   ├── Irreversible
│   └── Unconfirmed
├── Unavailable             try again later; nothing was lost or half-done
│   ├── DatabaseUnavailable
│   │   └── DatabaseUnprepared
│   ├── ProfileReplaced
│   ├── ProfileLoading
│   ├── MailboxUnavailable
│   ├── MailServerUnavailable
│   ├── ClusterUnavailable
│   ├── SiteUnavailable
│   └── SignInUnavailable
├── UnwritableFile
├── UnreadableMessage       Postbayes fails on a message: a defect
└── Inconsistent            stored data contradict each other: a defect
    ├── InconsistentCounts
    ├── CorruptVector
    ├── DatabaseDamaged
    └── DatabaseTooNew

Every message is one or two plain sentences with the offending value and the
way out.  Doors map the classes to their protocol in one table each.
"""

from __future__ import annotations

import math
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from concurrent.futures import Future

# Of a name that somebody gave.
_SHOWN: Final = 64


def reason(error: BaseException) -> str:
    """Return what an error of the system says, without its number.

    Examples
    --------
    >>> reason(FileNotFoundError(2, "No such file or directory", "aliases"))
    "No such file or directory: 'aliases'"
    """
    return re.sub(r"\[Errno -?\d+\] ?", "", str(error)) or type(error).__name__


class PostbayesError(Exception):
    """Base of every error that Postbayes raises on purpose.

    Attributes
    ----------
    confidential : bool
        Whether the sentence has hosts, paths or the text of a driver, which are for the
        operator and the log, and not for strangers.
    """

    def __init__(self, *args: object, confidential: bool = False) -> None:
        super().__init__(*args)
        self.confidential = confidential

    @property
    def public(self) -> str:
        """Its sentence for strangers."""
        if not self.confidential:
            return str(self)
        return (
            "the database cannot be used at the moment; try again in a minute. The log "
            "of the service has the reason"
        )


class InvalidInput(PostbayesError):
    """The input cannot be used."""


class EmptyMessage(InvalidInput):
    """A message is empty, or a request has no body."""


class MessageTooLarge(InvalidInput):
    """A request body is larger than the limit in the settings."""


class BatchTooLarge(InvalidInput):
    """A batch has more messages than the limit."""


class SlowRequest(InvalidInput):
    """A request body did not arrive in time."""


class MalformedRequest(InvalidInput):
    """A request does not have the form that the door expects."""


class InvalidSelection(InvalidInput):
    """An undo selects nothing, or its selection is impossible."""


class UnsupportedContentType(InvalidInput):
    """The media type or encoding of a request body is not supported."""


class MissingLabel(InvalidInput):
    """The feedback has no label."""


class UnknownLabel(InvalidInput):
    """A label is not one of the profile's labels."""


class InvalidObservation(InvalidInput):
    """A statistic, a label index or a model parameter is out of range."""


class UnreadableSource(InvalidInput):
    """A file or folder of mail cannot be read, or contains no mail."""


class UnwritableFile(PostbayesError):
    """A file cannot be written."""


class MalformedIndex(InvalidInput):
    """A line of a stream's index is not a label and a path."""


class MalformedTable(InvalidInput):
    """A file is not a table, or lacks a requested column."""


class MalformedDump(InvalidInput):
    """A dump of another filter cannot be read, or contains nothing usable."""


class MalformedExport(InvalidInput):
    """A file is not an export, or is damaged, cut short or of a newer version."""


class InvalidPolicy(InvalidInput):
    """The thresholds of a policy are invalid or contradictory."""


class InvalidSetting(InvalidInput):
    """The value of a setting is invalid."""


class Unauthenticated(PostbayesError):
    """A request needs a valid key, and has none."""


class TooManyRequests(PostbayesError):
    """A client sends requests too often.

    Parameters
    ----------
    message : str
        The sentence.
    seconds : float
        How long it has to wait.
    """

    def __init__(self, message: str, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds

    @classmethod
    def until(cls, what: str, seconds: float, otherwise: str = "") -> Self:
        """Return the error about what came too often, with the time to wait.

        Examples
        --------
        >>> str(TooManyRequests.until("too many wrong keys came", 0.0002))
        'too many wrong keys came; wait 1 s'
        """
        # Rounded first, since 30.000000000000004 are 30.
        wait = max(1, math.ceil(round(seconds, 3)))
        return cls(f"{what}; wait {wait} s{otherwise}", wait)


class Forbidden(PostbayesError):
    """A right is missing, or a request is from another site or for another host."""


class NotFound(PostbayesError):
    """A named object does not exist."""


class UnknownProfile(NotFound):
    """There is no profile with this name."""

    @classmethod
    def named(cls, name: str) -> Self:
        """Return the error about a name that somebody gave, of any length.

        Examples
        --------
        >>> str(UnknownProfile.named("ann"))
        "there is no profile 'ann'; `postbayes profiles` lists the profiles"
        """
        shown = name if len(name) <= _SHOWN else name[:_SHOWN] + "…"
        return cls(
            f"there is no profile {shown!r}; `postbayes profiles` lists the profiles"
        )


class UnknownMessage(NotFound):
    """Nothing is stored about a message with this id."""


class UnknownSource(NotFound):
    """No feedback in the profile is from this source."""


class UnknownKey(NotFound):
    """There is no key with this name, or it is revoked."""


class UnknownPerson(NotFound):
    """There is no person with this name."""


class UnknownEntry(NotFound):
    """The lists of the profile do not have this entry."""


class Conflict(PostbayesError):
    """The request contradicts the stored data."""


class ProfileExists(Conflict):
    """A profile with this name exists, with other labels."""


class NameTaken(Conflict):
    """A key or person with this name already exists."""


class OtherProfile(Conflict):
    """An export does not fit the profile that it is imported into."""


class Expired(Conflict):
    """A message cannot be changed, because its features are no longer stored."""


class Irreversible(Conflict):
    """Later changes depend on the feedback to undo."""


class Unconfirmed(Conflict):
    """A large undo needs the token of its dry run."""


class Unavailable(PostbayesError):
    """An external service is unavailable; try again later."""


class Overloaded(Unavailable):
    """The service is answering as many requests as it can."""


class DatabaseUnavailable(Unavailable):
    """The database refused a transaction, or did not confirm it."""


STOPPING: Final = "the service is stopping; send the request again in a moment"
"""The sentence of work that comes after the end has begun."""


class DatabaseUnprepared(DatabaseUnavailable):
    """The database lacks the tables of this version, or its user lacks a right."""


class ProfileReplaced(Unavailable):
    """An import replaced the profile a moment ago."""


class ProfileLoading(Unavailable):
    """The counts of a profile are still being loaded.

    Attributes
    ----------
    ended : Future
        Done as soon as they are, or cannot be had.
    patience : float
        How long it is worth waiting for that.  Unit: seconds.
    """

    def __init__(self, message: str, ended: Future[Any], patience: float) -> None:
        super().__init__(message)
        self.ended = ended
        self.patience = patience

    @classmethod
    def named(cls, name: str, ended: Future[Any], patience: float) -> Self:
        """Return the error about a profile by its name."""
        sentence = f"the profile {name!r} is being loaded; try again in a few seconds"
        return cls(sentence, ended, patience)


class MailboxUnavailable(Unavailable):
    """The IMAP server does not answer."""


class MailServerUnavailable(Unavailable):
    """The mail server did not accept a digest."""


class ClusterUnavailable(Unavailable):
    """The Dask cluster does not answer, or was lost."""


class SiteUnavailable(Unavailable):
    """A site that is followed does not answer, or not with a page of its ledger."""


class SignInUnavailable(Unavailable):
    """The sign-in provider is unavailable, or its answer is invalid."""


class UnreadableMessage(PostbayesError):
    """A message cannot be read, because of a defect of Postbayes."""


OF_ONE_MESSAGE: Final = (Conflict, EmptyMessage, MessageTooLarge, UnreadableMessage)
"""The errors that are the matter with one message.

Such as that it was learned too long ago to be moved, or that the service fails on it.
Sent again and again, it would keep all that come after it waiting.
"""


@contextmanager
def reading_one_of_many() -> Iterator[None]:
    """Raise whatever the reading of one message raises as `UnreadableMessage`.

    For commands that read many messages: it is their outermost loop, and a
    message that shows a defect must not stand before those after it.
    """
    try:
        yield
    except (PostbayesError, MemoryError):
        raise
    except Exception as error:
        raise UnreadableMessage(
            "the message cannot be read, which is a defect of Postbayes "
            f"({type(error).__name__}: {error})"
        ) from error


class Inconsistent(PostbayesError):
    """Stored data contradict each other."""


class InconsistentCounts(Inconsistent):
    """A count would become negative: something is taken back that was not learned."""


class CorruptVector(Inconsistent):
    """A stored feature vector cannot be decoded."""


class DatabaseDamaged(Inconsistent):
    """The database is damaged, or its file is not a database."""


class DatabaseTooNew(Inconsistent):
    """The database was written by a newer version of Postbayes."""


T = TypeVar("T")


def answer_to(error: PostbayesError, table: Mapping[type[PostbayesError], T]) -> T:
    """Return what a table has for the nearest class in an error's line of ancestors."""
    return next(table[cls] for cls in type(error).__mro__ if cls in table)


@contextmanager
def explaining(stored: str) -> Iterator[None]:
    """Put what is stored in front of the error of a later step that fails.

    The step reports that nothing of it was stored, which a reader would take to be
    about the whole.

    Parameters
    ----------
    stored : str
        A sentence without its full stop.

    Raises
    ------
    DatabaseUnavailable
        If the database went away in the block.
    """
    try:
        yield
    except DatabaseUnavailable as error:
        msg = f"{stored}. The failed step reported: {error}"
        raise DatabaseUnavailable(msg, confidential=error.confidential) from error
