"""Delivery: the verdict for the recipients of a message.

Contract of this file: names in, a name out.  Any text is a recipient, and every
recipient has a profile, the site's at last: a door never fails for an address.

Contract of this file: what a changed file holds counts within a second or so,
and never a part of it: one that cannot be read leaves the aliases as they were.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from app.classifier.specification import check_name
from app.classifier.verdict import agreed
from app.errors import InvalidSetting

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from app.classifier.verdict import Action
    from app.services.classify import Classified

# RFC 5321 section 4.5.3.1: a local part of 64 octets, "@", a domain of 255.
MAX_ADDRESS: Final = 64 + 1 + 255
# Postfix takes as many of a message at once (smtpd_recipient_limit).
MAX_RECIPIENTS: Final = 1_000
# Precedent: what Postfix's recipient_delimiter, Gmail and Fastmail have; RFC 5233
# calls what follows it the detail.
DELIMITER: Final = "+"


class Names(Protocol):
    """What is looked up in the place of a name."""

    def get(self, name: str, /) -> str | None:
        """Return it for a name in lower case; None for the name itself."""
        ...


class Recipients:
    """Finds the profile that answers for a message, by who receives it.

    Parameters
    ----------
    names : container of str
        The names of the profiles that there are, asked at each call: a
        profile that is made later counts from then on.
    site : str
        The profile that answers where no other does.
    aliases : Names
        From an address, a user or ``@domain``, in lower case, to the name that
        is looked up in its place: a mapping, or `app.services.delivery.Aliases`.

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

    def __init__(self, names: Container[str], *, site: str, aliases: Names) -> None:
        self._names = names
        self._site = site
        self._aliases = aliases

    def profile(self, recipient: str) -> str:
        """Return the profile of one recipient: an address, or a user's name."""
        return next(self._profiles(recipient))

    def shared(self, recipients: Iterable[str]) -> str:
        """Return the profile of a message with several recipients.

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
        lines = [tuple(self._profiles(each)) for each in recipients]
        if not lines:
            return self._site
        others = [frozenset(line) for line in lines[1:]]
        return next(name for name in lines[0] if all(name in other for other in others))

    def _profiles(self, recipient: str) -> Iterator[str]:
        """Yield the profiles that could answer, the most personal one first."""
        for name in self._candidates(recipient):
            if name in self._names and name != self._site:
                yield name
        yield self._site

    def _candidates(self, recipient: str) -> Iterator[str]:
        if len(recipient) > MAX_ADDRESS + len("<>"):
            return
        for name in candidates(recipient):
            alias = self._aliases.get(name.lower())
            if alias is not None:
                yield from (each.removeprefix("@") for each in candidates(alias))
            yield name.removeprefix("@")


def candidates(recipient: str) -> list[str]:
    """Return what a profile for a recipient may be called, most personal first.

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


class Classifies(Protocol):
    """Classifies one message against several profiles."""

    def each(
        self, profiles: Iterable[str], raw: bytes, *, strongest: int
    ) -> Mapping[str, Classified]:
        """Return the answers by the name of the profile."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """The answer about a message for some recipients.

    Parameters
    ----------
    classified : Classified
        That of the profile which they share.
    action : Action
        What is done with it for all of them.
    recipients : mapping of str to Classified
        That for each of them, of the profile that is theirs, where it was asked
        for.
    """

    classified: Classified
    action: Action
    recipients: Mapping[str, Classified]


class Delivery:
    """Answer mail servers.

    Parameters
    ----------
    classify : Classifies
        What classifies.
    recipients : Recipients
        Which profile is whose.
    """

    def __init__(self, classify: Classifies, recipients: Recipients) -> None:
        self._classify = classify
        self._recipients = recipients

    def together(
        self, recipients: Sequence[str], raw: bytes, *, strongest: int
    ) -> Delivered:
        """Return one answer for all recipients.

        The profiles of their own are asked only where the message would be held
        or refused.

        Raises
        ------
        EmptyMessage
            If there is not a single byte.
        """
        name = self._recipients.shared(recipients)
        classified = self._classify.each((name,), raw, strongest=strongest)[name]
        action = classified.action
        own = {self._recipients.profile(each) for each in recipients} - {name}
        if own and action in {"quarantine", "reject"}:
            answers = self._classify.each(own, raw, strongest=0)
            action = agreed(action, (each.action for each in answers.values()))
        return Delivered(classified=classified, action=action, recipients={})

    def apart(
        self, recipients: Sequence[str], raw: bytes, *, strongest: int
    ) -> Delivered:
        """Return one answer for all recipients, and one for each of them.

        Raises
        ------
        EmptyMessage
            If there is not a single byte.
        """
        name = self._recipients.shared(recipients)
        own = {each: self._recipients.profile(each) for each in recipients}
        answers = self._classify.each({name, *own.values()}, raw, strongest=strongest)
        classified = answers[name]
        theirs = {each: answers[profile] for each, profile in own.items()}
        return Delivered(
            classified=classified,
            action=agreed(classified.action, (each.action for each in theirs.values())),
            recipients=theirs,
        )


log = logging.getLogger(__name__)


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
        self._seen: tuple[int, int, int] | None = None
        self._found: dict[str, str] = {}
        if file is not None:
            self._seen = _state(file)
            self._found = _read(file)

    def get(self, name: str) -> str | None:
        """Return what is looked up in the place of a name in lower case."""
        return self._found.get(name)

    def refresh(self) -> None:
        """Read the file again if it is another one than before."""
        if self._file is None:
            return
        state = _state(self._file)
        if state == self._seen:
            return
        self._seen = state
        try:
            found = _read(self._file)
        except InvalidSetting as error:
            log.error("the aliases stay as they were: %s", error)  # noqa: TRY400
            return
        self._found = found
        log.info("%s: %d aliases are read anew", self._file, len(found))


def _state(file: Path) -> tuple[int, int, int] | None:
    """Return what tells a file from what it was; None where it is not there."""
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
        msg = f"POSTBAYES_ALIASES names {str(file)!r}, which cannot be read: {error}"
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
        If a line is not of that form, or an alias stands twice.

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
            msg = f"line {number} of {file}: {error}"
            raise InvalidSetting(msg) from error
        alias = alias.lower()
        if alias in aliases:
            msg = f"line {number} of {file} names the alias {alias!r} again; keep one"
            raise InvalidSetting(msg)
        aliases[alias] = profile
    return aliases
