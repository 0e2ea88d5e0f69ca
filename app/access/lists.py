"""Lists: allow and deny entries for senders, and their look-up for a message.

Contract of this file: entries and the identities of a message are normalised before
comparison: lower case, with domains decoded from IDNA (`app.mail.headers`).  The cost
of a look-up does not depend on the number of entries.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import IPv6Network, ip_address, ip_network
from itertools import zip_longest
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Self

from app.access.networks import address_of
from app.access.rights import check_expiry
from app.classifier.statement import Statement
from app.classifier.verdict import MAX_NATS
from app.errors import InvalidInput
from app.mail.headers import normal_domain, normal_local

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from app.mail.message import Message

ListKind = Literal["address", "domain", "list-id", "network"]
"""The kinds of subjects of entries, the most specific first."""
MAX_ENTRIES: Final = 100_000
"""Most entries of a profile; each takes some 0.5 kB of memory."""
MAX_NOTE: Final = 200
"""Most characters of a note."""
# A local part of 64 octets, "@", and a domain of 255 (RFC 5321 section 4.5.3.1).
MAX_VALUE: Final = 64 + 1 + 255
# A factor of 148: it outweighs the evidence of a normal message, but not that of a
# forged one with tens of nats.
DEFAULT_NATS: Final = 5.0
"""Default strength of an entry, for spam or against it.  Unit: nats."""
LIST_ID: Final = "list-id:"
"""Prefix of a List-Id in an entry as people write it."""
SAYS: Final = (
    "an address (ann@example.org), a domain (example.org, or .example.org with its "
    f"subdomains), a mailing list ({LIST_ID}news.example.org), or an address or "
    "network of a client (192.0.2.7, 192.0.2.0/24)"
)
# Most addresses in a From field or envelope; real mail has one.
_MOST_IDENTITIES: Final = 10
_MOST_CHARS: Final = 2_000
# Bits before an IPv4 address mapped into IPv6 (RFC 4291 section 2.5.5.2).
_MAPPED: Final = 96
_BRACKETED: Final = re.compile(r"<([^<>\s]{1,320})>")
# If there are several before a comma, the last is the address.  Mail programs show the
# others as a name, and DMARC passes for the domain of the last.
_LAST: Final = re.compile(rf"{_BRACKETED.pattern}(?![^<,;]*<)")
_ASIDE: Final = re.compile(r'\\.|"(?>(?:[^"\\]|\\.)*)"|\((?>(?:[^()\\]|\\.)*)\)')
_BARE: Final = re.compile(r"[^\s<>()\[\],;:\"@]{1,64}@[^\s<>()\[\],;:\"@]{1,255}")
_LOCAL: Final = re.compile(r"[^\s<>()\[\],;:\"\\@]{1,64}\Z")
# Beyond ASCII not only word characters: vowels in Thai and Hindi are marks.
_LABEL: Final = "[\\w\u0080-\U0010ffff-]{1,63}"
_DOMAIN: Final = re.compile(rf"(?=.{{1,255}}\Z)(?>(?:{_LABEL}\.)*){_LABEL}\Z")
_LIST: Final = re.compile(r"[^\s<>\"@]{1,255}\Z")


class ListSubject(NamedTuple):
    """The subject of an entry.

    Parameters
    ----------
    value : str
        Normalised for comparison; a domain with its subdomains begins with a dot.
    """

    kind: ListKind
    value: str

    def __str__(self) -> str:
        """Return the subject as people write it."""
        return f"{LIST_ID}{self.value}" if self.kind == "list-id" else self.value

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a subject.

        Raises
        ------
        InvalidInput
            If the text is not a subject.

        Examples
        --------
        >>> for text in ("Ann@Xn--Bcher-Kva.example", "@example.org", "*.example.org",
        ...              "list-id:<News.example.org>", "192.0.2.7"):
        ...     print(*ListSubject.parse(text))
        address ann@bücher.example
        domain example.org
        domain .example.org
        list-id news.example.org
        network 192.0.2.7/32
        """
        bare = text.strip()
        found = None
        if len(bare) <= MAX_VALUE and bare.isprintable():
            found = cls._list(bare) or cls._network(bare) or cls._sender(bare)
        if found is None:
            raise InvalidInput(f"{bare[:64]!r} is not a list entry; write {SAYS}")
        return found

    @classmethod
    def _list(cls, text: str) -> Self | None:
        if not text.lower().startswith(LIST_ID):
            return None
        value = _list_id(text[len(LIST_ID) :])
        return None if value is None else cls("list-id", value)

    @classmethod
    def _network(cls, text: str) -> Self | None:
        try:
            network = ip_network(text, strict=False)
        except ValueError:
            return None
        given = text.partition("/")[0]
        if ip_address(given) != network.network_address:
            raise InvalidInput(
                f"{text!r} is an address with a length; write {network} for the "
                f"network, or {given} for the address"
            )
        if isinstance(network, IPv6Network) and network.prefixlen >= _MAPPED:
            first = network.network_address.ipv4_mapped
            if first is not None:
                network = ip_network(f"{first}/{network.prefixlen - _MAPPED}")
        # Without a zone, because the addresses of clients are compared without theirs.
        return cls("network", re.sub("%[^/]*", "", str(network)))

    @classmethod
    def _sender(cls, text: str) -> Self | None:
        text = text.removeprefix("<").removesuffix(">")
        local, at, domain = text.rpartition("@")
        if local:
            address = _address(text)
            return None if address is None else cls("address", address)
        bare = domain if at else re.sub(r"\A\*?\.", "", domain)
        found = _domain(bare)
        # A single label is more likely a slip than a domain, and a number is not a
        # domain.
        if found is None or "." not in found or found.rpartition(".")[2].isdigit():
            return None
        return cls("domain", found if bare == domain else f".{found}")


def _domain(text: str) -> str | None:
    found = normal_domain(text)
    return found if _DOMAIN.match(found) else None


def _address(text: str) -> str | None:
    """Return a normalised address; None if it is not one."""
    local, _, domain = text.rpartition("@")
    local = normal_local(local)
    found = _domain(domain)
    return f"{local}@{found}" if found and _LOCAL.match(local) else None


def _list_id(text: str) -> str | None:
    """Return the list in a List-Id (RFC 2919); None if there is none."""
    text = text[:_MOST_CHARS]
    bracketed = _BRACKETED.findall(text)
    found = normal_domain(bracketed[-1] if bracketed else text.strip())
    return found if _LIST.match(found) else None


def addresses_in(text: str) -> Iterator[str]:
    """Yield the addresses of a field.

    If there are addresses in angle brackets, only they count: a name, quotation or
    comment that looks like an address is ignored.
    """
    text = text[:_MOST_CHARS]
    plain = _ASIDE.sub(" ", text)
    found = _LAST.findall(plain) or _BARE.findall(plain) or _BARE.findall(text)
    for each in found[:_MOST_IDENTITIES]:
        address = _address(each)
        if address is not None:
            yield address


@dataclass(frozen=True, slots=True, kw_only=True)
class Identities:
    """The sender of a message, according to the message and the mail server.

    Parameters
    ----------
    addresses : tuple of str
        Addresses in the header From and the envelope.
    """

    addresses: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()
    client: str | None = None

    @classmethod
    def of(cls, message: Message, *, sender: str = "", client: str = "") -> Self:
        r"""Return the identities of a message with its SMTP sender and client.

        Examples
        --------
        >>> from app.mail.parse import parse
        >>> message = parse(b'From: "ann@example.org" <x@EXAMPLE.net>\n\nhi')
        >>> Identities.of(message, sender="<b@example.com>").addresses
        ('x@example.net', 'b@example.com')
        """
        fields = (*message.header_values("from")[:_MOST_IDENTITIES], sender)
        lists = map(_list_id, message.header_values("list-id")[:_MOST_IDENTITIES])
        return cls(
            addresses=tuple(
                dict.fromkeys(x for field in fields for x in addresses_in(field))
            ),
            lists=tuple(each for each in lists if each is not None),
            client=address_of(client) if client else None,
        )

    def subjects(self) -> Iterator[list[ListSubject]]:
        """Yield possible subjects of entries except networks, the most specific first.

        Subjects in one yielded list are equally specific.
        """
        yield [ListSubject("address", each) for each in self.addresses]
        ladders = [_ladder(each.rpartition("@")[2]) for each in self.addresses]
        for rung in zip_longest(*ladders):
            yield [ListSubject("domain", each) for each in rung if each is not None]
        yield [ListSubject("list-id", each) for each in self.lists]


def _ladder(domain: str) -> list[str]:
    """Return the domains in entries that match a domain, the most specific first.

    Examples
    --------
    >>> _ladder("mail.example.org")
    ['mail.example.org', '.mail.example.org', '.example.org']
    """
    labels = domain.split(".")
    above = [f".{'.'.join(labels[at:])}" for at in range(len(labels) - 1)]
    return [domain, *above]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListEntry:
    """An entry of a list.

    Parameters
    ----------
    nats : float
        Contribution to the log-odds: negative allows, positive denies.  Unit: nats.
    expires_at : datetime or None
        When it expires; None means never.

    Raises
    ------
    InvalidInput
        If the nats or the expiry are out of range, or the note is too long.
    """

    subject: ListSubject
    nats: float
    source: str
    created_at: datetime
    expires_at: datetime | None = None
    note: str = ""

    def __post_init__(self) -> None:
        """Check the ranges."""
        if not 0 < abs(self.nats) <= MAX_NATS:
            raise InvalidInput(
                f"an entry adds at most {MAX_NATS:g} nats and not 0, got "
                f"{self.nats:g} for {self.subject}; negative nats allow, and "
                "positive ones deny"
            )
        check_expiry(f"the entry {self.subject}", self.expires_at, now=self.created_at)
        if len(self.note) > MAX_NOTE or not self.note.isprintable():
            raise InvalidInput(
                f"the note of {self.subject} must be one line of {MAX_NOTE} "
                f"characters at most, got {self.note[:40]!r}"
            )

    @property
    def verb(self) -> Literal["allow", "deny"]:
        """Its effect."""
        return "allow" if self.nats < 0 else "deny"

    def counts(self, now: datetime) -> bool:
        """Return whether it has not expired."""
        return self.expires_at is None or now < self.expires_at

    def statement(self) -> Statement:
        """Return its statement about a message."""
        did = "allowed" if self.nats < 0 else "denied"
        return Statement(
            kind="list",
            name=str(self.subject),
            nats=self.nats,
            text=f"{did} by {self.source} on {self.created_at:%Y-%m-%d}: "
            f"{self.subject}",
        )

    def line(self) -> str:
        """Return the entry as a line of a file.

        Examples
        --------
        >>> time = datetime(2026, 3, 1, tzinfo=UTC)
        >>> subject = ListSubject.parse("ann@example.org")
        >>> ListEntry(subject=subject, nats=-5, source="cli:bob", created_at=time,
        ...           note="a friend").line()
        "allow ann@example.org nats=5 note='a friend'  # by cli:bob on 2026-03-01"
        """
        parts = [self.verb, shlex.quote(str(self.subject)), f"nats={abs(self.nats):g}"]
        if self.expires_at is not None:
            parts.append(
                f"expires={self.expires_at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
            )
        if self.note:
            parts.append(f"note={shlex.quote(self.note)}")
        return f"{' '.join(parts)}  # by {self.source} on {self.created_at:%Y-%m-%d}"


class ListTable:
    """The entries of a profile, by subject."""

    def __init__(self, entries: Iterable[ListEntry]) -> None:
        self._found: dict[ListSubject, ListEntry] = {}
        self._lengths: dict[int, set[int]] = {4: set(), 6: set()}
        for each in entries:
            self._found[each.subject] = each
            if each.subject.kind == "network":
                network = ip_network(each.subject.value)
                self._lengths[network.version].add(network.prefixlen)

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self._found)

    def find(self, who: Identities, now: datetime) -> ListEntry | None:
        """Return the entry that applies to a message; None if there is none.

        It is the most specific unexpired one: address before domain, longer domain
        before shorter, then mailing list, then network.  Among equally specific ones,
        as for two addresses in From, it is the one with the most evidence of spam.
        """
        for subjects in (*who.subjects(), *self._networks(who.client)):
            found = [
                entry
                for each in subjects
                if (entry := self._found.get(each)) is not None and entry.counts(now)
            ]
            if found:
                return max(found, key=lambda each: each.nats)
        return None

    def _networks(self, client: str | None) -> Iterator[list[ListSubject]]:
        if client is None:
            return
        lengths = self._lengths[ip_address(client).version]
        for length in sorted(lengths, reverse=True):
            network = ip_network(f"{client}/{length}", strict=False)
            yield [ListSubject("network", str(network))]


def expiry_of(text: str, now: datetime) -> datetime:
    """Return when something expires: after some days, or at a time.

    Raises
    ------
    InvalidInput
        If the text is neither.

    Examples
    --------
    >>> now = datetime(2026, 3, 1, tzinfo=UTC)
    >>> print(expiry_of("30", now), expiry_of("2026-12-31", now))
    2026-03-31 00:00:00+00:00 2026-12-31 00:00:00+00:00
    """
    try:
        if re.fullmatch(r"\d{1,6}(?:\.\d{1,6})?", text.strip(), re.ASCII):
            return now + timedelta(days=float(text))
        found = datetime.fromisoformat(text.strip())
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise InvalidInput(
            f"{text[:40]!r} is not an expiry; write a number of days such as "
            "30, or a date such as 2026-12-31"
        ) from error


def read_entry(
    verb: str,
    subject: str,
    *,
    source: str,
    now: datetime,
    nats: str | float | None = None,
    expires: str | None = None,
    note: str = "",
) -> ListEntry:
    """Return an entry as a person writes it: in a file, as options or in a form.

    Raises
    ------
    InvalidInput
        If a part of it is invalid.
    """
    try:
        strength = DEFAULT_NATS if nats is None else float(nats)
    except ValueError as error:
        msg = f"the nats of an entry must be a number such as 5, got {str(nats)[:40]!r}"
        raise InvalidInput(msg) from error
    if verb not in {"allow", "deny"}:
        raise InvalidInput(f"an entry can allow or deny, got {verb[:40]!r}")
    if not 0 < strength <= MAX_NATS:
        raise InvalidInput(
            "the strength of an entry must be above 0 and at most "
            f"{MAX_NATS:g} nats, got {strength:g}"
        )
    return ListEntry(
        subject=ListSubject.parse(subject),
        nats=-strength if verb == "allow" else strength,
        source=source,
        created_at=now,
        expires_at=None if expires is None else expiry_of(expires, now),
        note=note,
    )


def parse_lists(text: str, file: str, *, source: str, now: datetime) -> list[ListEntry]:
    r"""Parse the entries of a file; the last one of a subject counts.

    Parameters
    ----------
    text : str
        An entry per line: ``allow`` or ``deny``, the subject, and optional fields:
        ``nats=8``, ``expires=2026-12-31``, ``note='a friend'``.  Text after ``#`` is a
        comment.
    file : str
        Name of the file, for errors.

    Raises
    ------
    InvalidInput
        If a line is not an entry (the message has its number), or there are too many.

    Examples
    --------
    >>> text = "# friends\nallow ann@example.org nats=8\ndeny 192.0.2.0/24"
    >>> for each in parse_lists(text, "list", source="cli:bob",
    ...                         now=datetime(2026, 3, 1, tzinfo=UTC)):
    ...     print(each.verb, each.subject, each.nats)
    allow ann@example.org -8.0
    deny 192.0.2.0/24 5.0
    """
    entries: dict[ListSubject, ListEntry] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        try:
            found = _parsed(line, source, now)
        except InvalidInput as error:
            raise InvalidInput(f"line {number} of {file}: {error}") from error
        if found is not None:
            entries[found.subject] = found
    require_few(len(entries))
    return list(entries.values())


def require_few(entries: int) -> None:
    """Raise `InvalidInput` if a profile would have too many entries."""
    if entries > MAX_ENTRIES:
        raise InvalidInput(
            f"a profile has {MAX_ENTRIES:,} entries at most, and would have "
            f"{entries:,}; write .example.org for a domain with its subdomains, or a "
            "network for its addresses"
        )


def _parsed(line: str, source: str, now: datetime) -> ListEntry | None:
    """Parse the entry in a line; None if it has none."""
    try:
        words = shlex.split(line, comments=True)
    except ValueError as error:
        msg = f"a quotation mark is not closed in {line.strip()[:64]!r}"
        raise InvalidInput(msg) from error
    if not words:
        return None
    verb, *rest = words
    if verb not in {"allow", "deny"} or not rest:
        raise InvalidInput(
            f"write 'allow ann@example.org' or 'deny 192.0.2.0/24', got "
            f"{line.strip()[:64]!r}"
        )
    subject, *options = rest
    given: dict[str, str] = {}
    for each in options:
        name, equals, value = each.partition("=")
        if not equals or name not in {"nats", "expires", "note"} or name in given:
            raise InvalidInput(
                f"{each[:40]!r} is not valid; an entry can be followed by "
                "nats=8, expires=2026-12-31 and note='a friend', each once"
            )
        given[name] = value
    return read_entry(verb, subject, source=source, now=now, **given)
