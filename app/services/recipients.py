"""Which profile answers for a recipient? The most personal one that there is.

Contract of this file: names in, a name out.  Any text is a recipient, and every
recipient has a profile, the site's at last: a door never fails for an address.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

# RFC 5321 section 4.5.3.1: a local part of 64 octets, "@", a domain of 255.
MAX_ADDRESS: Final = 64 + 1 + 255
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
        is looked up in its place: a mapping, or `app.services.aliases.Aliases`.

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
