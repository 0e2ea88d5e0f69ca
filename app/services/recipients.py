"""Recipients: the profiles of the recipients of a message, and aliases in a file.

Contract of this file: any text is a recipient, and every recipient has a profile, in
the end the site's: a door never fails for an address.  The profile that learns is the
most personal one; the one that answers is the most personal that has learned enough
and can be had: a new profile does not switch the filter off for its recipients, nor
does one that is not in memory while the database is away.  A changed file
of aliases is read within a second or so, whole or not at all: where it cannot be read,
the aliases stay as they were.
"""

from __future__ import annotations

import logging
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Final, Protocol

from app.classifier.specification import check_name
from app.errors import InvalidSetting, reason

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping
    from pathlib import Path

log = logging.getLogger(__name__)
# RFC 5321 section 4.5.3.1: a local part of 64 octets, "@", a domain of 255.
MAX_ADDRESS: Final = 64 + 1 + 255
# Postfix takes as many of a message at once (smtpd_recipient_limit).
MAX_RECIPIENTS: Final = 1_000
# Precedent: what Postfix's recipient_delimiter, Gmail and Fastmail have; RFC 5233
# calls what follows it the detail.
DELIMITER: Final = "+"


class Names(Protocol):
    """Aliases: the name that is looked up in place of another."""

    def get(self, name: str, /) -> str | None:
        """Return the alias of a name in lower case; None if it has none."""
        ...


@dataclass(eq=False)
class Recipients:
    """Finds the profile that answers for the recipients of a message.

    Parameters
    ----------
    names : container of str
        The names of the profiles that there are, asked at each call: a
        profile that is made later counts from then on.
    site : str
        The profile that answers where no other does.
    aliases : Names
        From an address, a user or ``@domain``, in lower case, to the name that
        is looked up in its place: a mapping, or `Aliases`.
    ready : callable, optional
        Returns whether the profile of a name has learned enough, and can be had.

    Examples
    --------
    >>> names = {"default", "example.org", "ann@example.org"}
    >>> recipients = Recipients(names, site="default", aliases={})
    >>> recipients.profile("Ann+news@Example.org")
    'ann@example.org'
    >>> recipients.profile("bob@example.org"), recipients.profile("bob@example.net")
    ('example.org', 'default')
    >>> recipients.shared(["ann@example.org", "bob@example.org"])
    'example.org'
    """

    names: Container[str]
    _: KW_ONLY
    site: str
    aliases: Names
    ready: Callable[[str], bool] = lambda _: True

    def line(self, user: str) -> tuple[str, ...]:
        """Return the profiles of a user, the most personal one first."""
        return tuple(self._profiles(user))

    def profile(self, recipient: str) -> str:
        """Return the profile of one recipient: an address, or a user's name."""
        return next(self._profiles(recipient))

    def levels(self, profile: str) -> list[str]:
        """Return a profile and those above it, the most personal one first.

        Examples
        --------
        >>> names = {"default", "example.org", "ann@example.org"}
        >>> recipients = Recipients(names, site="default", aliases={})
        >>> recipients.levels("ann@example.org")
        ['ann@example.org', 'example.org', 'default']
        """
        return list(dict.fromkeys((profile, *self._profiles(profile))))

    def answering(self, recipients: Iterable[str]) -> str:
        """Return the profile that answers about a message with some recipients.

        It is the one that they share, or the next one above it that has learned
        enough.
        """
        return self._common(recipients, self.ready)

    def shared(self, recipients: Iterable[str]) -> str:
        """Return the profile of a message with several recipients, which learns it.

        It is the most personal one that could answer for each of them: the
        recipient's own if there is but one, the domain's if they share it, else
        the site's.

        Notes
        -----
        A protocol with one answer per message has to choose.  The strictest
        verdict of all would let one user's training lose another's mail; the
        most lenient would let a spammer add a recipient who trains little.
        What the recipients have in common has learned from the mail of all of
        them, and no single one can train it against the others.
        """
        return self._common(recipients, lambda _: True)

    def _common(self, recipients: Iterable[str], chosen: Callable[[str], bool]) -> str:
        lines = [tuple(self._profiles(each)) for each in recipients]
        if not lines:
            return self.site
        others = [frozenset(line) for line in lines[1:]]
        return next(
            name
            for name in lines[0]
            if all(name in other for other in others)
            and (name == self.site or chosen(name))
        )

    def _profiles(self, recipient: str) -> Iterator[str]:
        """Yield the profiles that could answer, the most personal one first."""
        for name in self._candidates(recipient):
            if name in self.names and name != self.site:
                yield name
        yield self.site

    def _candidates(self, recipient: str) -> Iterator[str]:
        if len(recipient) > MAX_ADDRESS + len("<>"):
            return
        for name in candidates(recipient):
            alias = self.aliases.get(name.lower())
            if alias is not None:
                yield from (each.removeprefix("@") for each in candidates(alias))
            yield name.removeprefix("@")


def candidates(recipient: str) -> list[str]:
    """Return the possible names of a recipient's profile, most personal first.

    Parameters
    ----------
    recipient : str
        An address, with or without angle brackets, or a user's name.

    Returns
    -------
    list of str
        The recipient as it is spelt, in lower case, without its detail, and
        ``@domain``.

    Examples
    --------
    >>> candidates("<Bob+lists@Example.org>")
    ['Bob+lists@Example.org', 'bob+lists@example.org', 'bob@example.org',
    '@example.org']
    >>> candidates("bob")
    ['bob']
    """
    spelt = recipient.strip().removeprefix("<").removesuffix(">").strip()
    local, at, domain = spelt.lower().rpartition("@")
    # "example.org." is the same domain, written to its root.
    domain = domain.removesuffix(".")
    if not at:
        local, domain = domain, ""
    base = local.partition(DELIMITER)[0] or local
    found = [spelt, f"{local}{at}{domain}", f"{base}{at}{domain}"]
    if at:
        found.append(f"@{domain}")
    return [name for name in dict.fromkeys(found) if name.strip("@")]


def above(name: str, site: str) -> list[str]:
    """Return the names of the profiles that one backs off to, most personal first.

    A profile that is named neither like an address nor like a domain is one for a
    purpose of its own, and has none above it.

    Examples
    --------
    >>> above("ann@example.org", "default"), above("example.org", "default")
    (['example.org', 'default'], ['default'])
    >>> above("comments", "default"), above("default", "default")
    ([], [])
    """
    _, at, domain = name.rpartition("@")
    if name == site or not (at or "." in name):
        return []
    return [each for each in dict.fromkeys((domain, site)) if each not in {"", name}]


class Aliases:
    """The aliases of a file, by name.

    Parameters
    ----------
    file : Path or None
        Of lines ``alias: profile``, see `parse_aliases`; None has none.

    Raises
    ------
    InvalidSetting
        If the file cannot be read, or a line of it is not an alias.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._version: tuple[int, int, int] | None = None
        self._found: dict[str, str] = {}
        if file is not None:
            self._version = _version(file)
            self._found = _read(file)

    def get(self, name: str) -> str | None:
        """Return the alias of a name in lower case; None if it has none."""
        return self._found.get(name)

    def become(self, other: Aliases) -> None:
        """Take over the file and the content of other aliases."""
        self._file, self._version = other._file, other._version
        self._found = other._found

    def refresh(self) -> None:
        """Read the file again if it has changed."""
        if self._file is None:
            return
        version = _version(self._file)
        if version == self._version:
            return
        self._version = version
        try:
            found = _read(self._file)
        except InvalidSetting as error:
            log.error(  # noqa: TRY400
                "the aliases were not read again, and the old ones still apply: %s",
                error,
            )
            return
        self._found = found
        log.info("%s changed: %d aliases are in force", self._file, len(found))


def _version(file: Path) -> tuple[int, int, int] | None:
    """Return values that change with a file; None if there is no file."""
    try:
        found = file.stat()
    except OSError:
        return None
    # The size as well, because two writes may have one time, and the number of
    # the file, because another one may have been put in its place with an older.
    return found.st_mtime_ns, found.st_size, found.st_ino


def _read(file: Path) -> dict[str, str]:
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        named = f"POSTBAYES_ALIASES names {str(file)!r}"
        msg = f"{named}, which cannot be read: {reason(error)}"
        raise InvalidSetting(msg) from error
    return parse_aliases(text, str(file))


def parse_aliases(text: str, file: str) -> dict[str, str]:
    r"""Return the aliases that a file holds.

    Parameters
    ----------
    text : str
        One alias per line, ``alias: profile``: an address, a user's name or
        ``@domain``, and what is looked up in its place.  Blank lines and those
        that begin with ``#`` say nothing.
    file : str
        Name of the file, for errors.

    Returns
    -------
    dict of str to str
        By the alias in lower case.

    Raises
    ------
    InvalidSetting
        If a line is not of that form, an alias stands twice, or aliases lead back to
        themselves.

    Examples
    --------
    >>> parse_aliases("# the shop\nSales@example.org: bob@example.org\n", "aliases")
    {'sales@example.org': 'bob@example.org'}
    """
    aliases: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        content = line.strip()
        if not content or content.startswith("#"):
            continue
        alias, colon, profile = (part.strip() for part in content.partition(":"))
        if not (alias and colon and profile):
            msg = (
                f"line {number} of {file} must be 'alias: profile', "
                f"got {content[:128]!r}"
            )
            raise InvalidSetting(msg)
        try:
            check_name(profile)
        except InvalidSetting as error:
            raise InvalidSetting(f"line {number} of {file}: {error}") from error
        alias = alias.lower()
        if alias in aliases:
            msg = f"line {number} of {file} names the alias {alias!r} again; keep one"
            raise InvalidSetting(msg)
        aliases[alias] = profile
        # Only one alias is looked up for a recipient: a loop does no harm, but means
        # nothing that its author can have wanted.
        way = _way(aliases, alias)
        if way[-1] == alias:
            msg = (
                f"line {number} of {file} makes a loop of aliases, "
                f"{' -> '.join((alias, *way))}; give one of them the name of a profile"
            )
            raise InvalidSetting(msg)
    return aliases


def _way(aliases: Mapping[str, str], alias: str) -> list[str]:
    """Return the chain of aliases from one, up to itself at most."""
    way = [aliases[alias].lower()]
    while way[-1] != alias and way[-1] in aliases:
        way.append(aliases[way[-1]].lower())
    return way
