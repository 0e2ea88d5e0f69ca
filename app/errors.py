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
│   └── SignInUnavailable
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
    """Base of every error that Postbayes raises on purpose."""


class InvalidInput(PostbayesError):
    """What the caller sent cannot be used."""


class EmptyMessage(InvalidInput):
    """A message of zero bytes was sent."""


class MessageTooLarge(InvalidInput):
    """A request body is over the limit that the operator set."""


class BatchTooLarge(InvalidInput):
    """A batch has more messages than one call takes."""


class SlowRequest(InvalidInput):
    """A request body does not arrive in time."""


class MalformedRequest(InvalidInput):
    """A request is not of the shape that its door takes."""


class InvalidSelection(InvalidInput):
    """An undo does not say what to take back, or in a way that nothing can be."""


class UnsupportedContentType(InvalidInput):
    """A request body is of a media type that the door does not take."""


class MissingLabel(InvalidInput):
    """A feedback does not say what the message was."""


class UnknownLabel(InvalidInput):
    """A label is not one of the profile's labels."""


class InvalidObservation(InvalidInput):
    """A statistic, a label index or a model parameter is out of its range."""


class UnreadableSource(InvalidInput):
    """A file or folder of mail cannot be read, or holds none."""


class MalformedIndex(InvalidInput):
    """A line of a stream's index is not a label and a path."""


class MalformedTable(InvalidInput):
    """A table is not one, or has not the columns that it is asked for."""


class MalformedDump(InvalidInput):
    """A dump of another filter cannot be read, or holds nothing of use."""


class MalformedExport(InvalidInput):
    """A file is not an export, is damaged, cut short or of a newer version."""


class InvalidPolicy(InvalidInput):
    """A profile cannot decide by these thresholds."""


class InvalidSetting(InvalidInput):
    """A setting has a value that Postbayes cannot start with."""


class Unauthenticated(PostbayesError):
    """A request needs a key, and has none that counts."""


class TooManyRequests(PostbayesError):
    """A client asks more often than it may.

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


class Forbidden(PostbayesError):
    """A request comes from a web page of another site, or names another service."""


class NotFound(PostbayesError):
    """A thing that was named does not exist."""


class UnknownProfile(NotFound):
    """No profile of that name."""

    @classmethod
    def named(cls, name: str) -> Self:
        """Return the error about a name that somebody gave, of any length.

        Examples
        --------
        >>> str(UnknownProfile.named("ann"))
        "there is no profile 'ann'; `postbayes profiles` lists those that exist"
        """
        shown = name if len(name) <= _SHOWN else name[:_SHOWN] + "…"
        return cls(
            f"there is no profile {shown!r}; `postbayes profiles` lists the profiles"
        )


class UnknownMessage(NotFound):
    """No message of that id, or not any more."""


class UnknownSource(NotFound):
    """Nobody of that name has taught the profile."""


class UnknownKey(NotFound):
    """There is no key of that name, or it is revoked."""


class UnknownPerson(NotFound):
    """There is no person of that name."""


class UnknownEntry(NotFound):
    """The lists of a profile have no such entry."""


class Conflict(PostbayesError):
    """The request contradicts what is there."""


class ProfileExists(Conflict):
    """A profile of that name exists with other labels."""


class NameTaken(Conflict):
    """A key or a person of that name is there already."""


class OtherProfile(Conflict):
    """An export does not fit the profile that it is imported into."""


class Expired(Conflict):
    """What was learned is too old to be changed: its features are not kept."""


class Irreversible(Conflict):
    """What is to be undone is needed by what was done since."""


class Unconfirmed(Conflict):
    """An undo would take back much, and nobody has confirmed what it shows."""


class Unavailable(PostbayesError):
    """Something outside is away; the same call may succeed later."""


class DatabaseUnavailable(Unavailable):
    """The database did not take the transaction, or did not say that it did."""


class DatabaseUnprepared(DatabaseUnavailable):
    """The database lacks tables of this version or a schema, or its user a right."""


class ProfileReplaced(Unavailable):
    """An import has put another profile in the place of this one a moment ago."""


class ProfileLoading(Unavailable):
    """The counts of a profile are not in memory yet.

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
    """The IMAP server does not answer, or no longer."""


class MailServerUnavailable(Unavailable):
    """The mail server does not take a mail of ours."""


class ClusterUnavailable(Unavailable):
    """The cluster that reads mail does not answer, or is lost."""


class SignInUnavailable(Unavailable):
    """The provider that signs people in is away, or answers as none does."""


class UnreadableMessage(PostbayesError):
    """A message cannot be read, by a defect of Postbayes; others can."""


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
        msg = (
            "it cannot be read, which is a defect of Postbayes "
            f"({type(error).__name__}: {error})"
        )
        raise UnreadableMessage(msg) from error


class Inconsistent(PostbayesError):
    """Stored data contradict each other."""


class InconsistentCounts(Inconsistent):
    """A count would become negative: something is unlearned that was not learned."""


class CorruptVector(Inconsistent):
    """A stored feature vector cannot be decoded."""


class DatabaseDamaged(Inconsistent):
    """The database is damaged, or its file is no database."""


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
        raise DatabaseUnavailable(msg) from error
