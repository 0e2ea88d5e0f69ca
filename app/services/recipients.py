"""Recipients: the profiles of the recipients of a message, and aliases in a file.

Contract of this file: any text is a valid recipient, and every recipient has a profile,
at least the site's, so a door never fails because of an address.  The most personal
profile learns; the most personal profile that is available and has learned enough
answers.  A new profile, or one that cannot be loaded, therefore does not switch the
filter off for its recipients.  A changed file of aliases is read within about a second,
whole or not at all: if it is invalid, the old aliases stay.
"""

from __future__ import annotations

import logging
from dataclasses import KW_ONLY, dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from app.classifier.specification import check_name
from app.errors import InvalidSetting
from app.mail.headers import ascii_domain
from app.settings import read_named

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping
    from pathlib import Path

log = logging.getLogger(__name__)
# RFC 5321 section 4.5.3.1: a local part of 64 octets, "@", a domain of 255.
MAX_ADDRESS: Final = 64 + 1 + 255
# A message looks each of its addresses up some five times.  With domains of the longest
# labels in other scripts, which take 1 ms or more, 1,000 recipients took 11 s.
_REMEMBERED: Final = 2_000
# Postfix accepts as many recipients of a message (smtpd_recipient_limit).
MAX_RECIPIENTS: Final = 1_000
# Precedent: Postfix's recipient_delimiter, Gmail and Fastmail.  RFC 5233 calls the part
# after it the detail.
DELIMITER: Final = "+"


@dataclass(eq=False)
class Recipients:
    """Finds the profile that answers for the recipients of a message.

    Parameters
    ----------
    names : container of str
        The names of the existing profiles.  It is consulted at each call, so a new
        profile counts at once.
    site : str
        The profile that answers if no other does.
    aliases : mapping of str to str, or Aliases
        From an address, a user or ``@domain``, in lower case, to the name to look up in
        its place.
    ready : callable, optional
        Returns whether the profile of a name is available and has learned enough.

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
    aliases: Mapping[str, str] | Aliases
    ready: Callable[[str], bool] = lambda _: True

    def line(self, recipient: str) -> tuple[str, ...]:
        """Return the profiles of an address or a user, the most personal one first."""
        names = (
            name
            for name in self._candidates(recipient)
            if name in self.names and name != self.site
        )
        return (*names, self.site)

    def profile(self, recipient: str) -> str:
        """Return the most personal profile of an address or a user."""
        return self.line(recipient)[0]

    def levels(self, profile: str) -> list[str]:
        """Return a profile and those above it, the most personal one first.

        Examples
        --------
        >>> names = {"default", "example.org", "ann@example.org"}
        >>> recipients = Recipients(names, site="default", aliases={})
        >>> recipients.levels("ann@example.org")
        ['ann@example.org', 'example.org', 'default']
        """
        return list(dict.fromkeys((profile, *self.line(profile))))

    def answering(self, recipients: Iterable[str]) -> str:
        """Return the profile that answers about a message with some recipients.

        It is the profile that they share, or the next one above it that is ready.
        """
        return self._common(recipients, self.ready)

    def shared(self, recipients: Iterable[str]) -> str:
        """Return the profile of a message with several recipients, which learns it.

        It is the most personal profile common to all: the recipient's own if there is
        only one recipient, the domain's if they share the domain, and the site's
        otherwise.

        Notes
        -----
        A protocol with one answer per message has to choose.  With the strictest
        verdict, one user's training could lose another's mail; with the most lenient, a
        spammer could add a recipient who trains little.  The common profile has learned
        from the mail of all recipients, and no single one can train it against the
        others.
        """
        return self._common(recipients, lambda _: True)

    def _common(self, recipients: Iterable[str], chosen: Callable[[str], bool]) -> str:
        lines = [self.line(each) for each in recipients]
        if not lines:
            return self.site
        others = [frozenset(line) for line in lines[1:]]
        return next(
            name
            for name in lines[0]
            if all(name in other for other in others)
            and (name == self.site or chosen(name))
        )

    def _candidates(self, recipient: str) -> Iterator[str]:
        if len(recipient.encode(errors="replace")) > MAX_ADDRESS + len("<>"):
            return
        for name in candidates(recipient):
            alias = self.aliases.get(name.lower())
            if alias is not None:
                yield from (each.removeprefix("@") for each in candidates(alias))
            yield name.removeprefix("@")


@lru_cache(_REMEMBERED)
def candidates(recipient: str) -> tuple[str, ...]:
    """Return the possible names of a recipient's profile, most personal first.

    Parameters
    ----------
    recipient : str
        An address, with or without angle brackets, or a user's name.

    Returns
    -------
    tuple of str
        The recipient as spelt, in lower case, without its detail, and ``@domain``; the
        domain in ASCII, as names of profiles are.

    Examples
    --------
    >>> candidates("<Bob+lists@Example.org>")
    ('Bob+lists@Example.org', 'bob+lists@example.org', 'bob@example.org',
    '@example.org')
    >>> candidates("bob")
    ('bob',)
    >>> candidates("bob@bücher.example")[1:]
    ('bob@xn--bcher-kva.example', '@xn--bcher-kva.example')
    """
    spelt = recipient.strip().removeprefix("<").removesuffix(">").strip()
    local, at, domain = spelt.lower().rpartition("@")
    if not at:
        local, domain = domain, ""
    # "example.org." with the dot of the root is the same domain.
    domain = ascii_domain(domain)
    base = local.partition(DELIMITER)[0] or local
    found = [spelt, f"{local}{at}{domain}", f"{base}{at}{domain}"]
    if at:
        found.append(f"@{domain}")
    return tuple(name for name in dict.fromkeys(found) if name.strip("@"))


def above(name: str, site: str) -> list[str]:
    """Return the names of the profiles to which one backs off, most personal first.

    A profile whose name is neither an address nor a domain has a purpose of its own,
    and does not back off.

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

    Only one alias is looked up for a recipient, so a loop of aliases is harmless.

    Parameters
    ----------
    file : Path or None
        Lines ``alias: profile``, see `parse_aliases`; None means no aliases.

    Raises
    ------
    InvalidSetting
        If the file cannot be read, or a line is not an alias.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._version = None if file is None else _version(file)
        self._found = {} if file is None else _read(file)

    def get(self, name: str) -> str | None:
        """Return the alias of a name in lower case; None if it has none."""
        return self._found.get(name)

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
    """Return values that change whenever the file does; None if there is no file."""
    try:
        found = file.stat()
    except OSError:
        return None
    # Size, because two writes may have the same time; inode, because an older file may
    # have replaced it.
    return found.st_mtime_ns, found.st_size, found.st_ino


def _read(file: Path) -> dict[str, str]:
    return parse_aliases(read_named(file, "POSTBAYES_ALIASES"), str(file))


def parse_aliases(text: str, file: str) -> dict[str, str]:
    r"""Return the aliases that a file holds.

    Parameters
    ----------
    text : str
        One alias per line, ``alias: profile``: an address, a user's name or
        ``@domain``, and the name to look up in its place.  Blank lines and lines that
        begin with ``#`` are ignored.
    file : str
        Name of the file, for errors.

    Returns
    -------
    dict of str to str
        By the alias in lower case, with its domain in ASCII.

    Raises
    ------
    InvalidSetting
        If a line is malformed, an alias occurs twice, or aliases form a loop.

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
            raise InvalidSetting(
                f"line {number} of {file} must be 'alias: profile', "
                f"got {content[:128]!r}"
            )
        try:
            check_name(profile)
        except InvalidSetting as error:
            raise InvalidSetting(f"line {number} of {file}: {error}") from error
        user, at, domain = alias.lower().rpartition("@")
        alias = f"{user}@{ascii_domain(domain)}" if at else domain
        if alias in aliases:
            msg = f"line {number} of {file} names the alias {alias!r} again; keep one"
            raise InvalidSetting(msg)
        aliases[alias] = profile
    return aliases
