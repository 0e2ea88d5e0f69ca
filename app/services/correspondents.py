"""Correspondents: people to whom users write, as evidence about their mail.

Contract of this file: a verdict does not query the database.  Memory holds 24 bytes for
each address and as many for each domain.  A change is known here at once, and is stored
and known to other processes within about a minute.  Nothing is counted or looked up
unless the settings name a mail server whose results are believed: without one, no
sender is verified.
"""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import KW_ONLY, InitVar, dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from app.classifier.statement import (
    SITE_SHARE,
    Correspondence,
    Statement,
    identity_digest,
    ladder,
)
from app.errors import InvalidInput, InvalidSetting
from app.mail.authentication import is_server_name, normal_address, verified_sender
from app.services.access import note
from app.services.profiles import key_for
from app.services.recipients import candidates
from app.storage import lists, profiles
from app.storage.database.engine import reading, with_short_timeout, writing
from app.storage.lists import CorrespondentFigures, CorrespondentRow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from sqlalchemy import Engine

    from app.access.rights import Principal
    from app.classifier.statement import Origin, Testimony
    from app.kernels import Ints
    from app.mail.authentication import VerifiedSender
    from app.mail.message import Message
    from app.services.cache import LiveProfiles
    from app.services.recipients import Recipients
    from app.settings import Settings
    from app.storage.profiles import ProfileRow

MOST_RECIPIENTS: Final = 20
"""A message to more recipients is a circular, and is no evidence about them."""
MOST_NEW: Final = 100
"""New correspondents of a login on a day, in UTC; further ones do not count.

This bounds the correspondents that somebody with a stolen password can add.
"""
MOST_KNOWN: Final = 50_000
"""Correspondents of a profile; the oldest go first."""
# Messages that wait to be written; further ones are lost while the database is away.
CAPACITY: Final = 10_000
_NEVER: Final = Correspondence(0, 0)


class _Counts:
    """Counts and days by key: sorted arrays, and the changes since."""

    def __init__(self, keys: Ints, counts: Ints, days: Ints) -> None:
        order = np.argsort(keys)
        self._keys, self._counts, self._days = keys[order], counts[order], days[order]
        self._changed: dict[int, Correspondence] = {}

    def get(self, key: int) -> Correspondence:
        changed = self._changed.get(key)
        if changed is not None:
            return changed
        at = int(np.searchsorted(self._keys, key))
        if at == self._keys.size or self._keys[at] != key:
            return _NEVER
        return Correspondence(int(self._counts[at]), int(self._days[at]))

    def put(self, key: int, written: Correspondence) -> None:
        self._changed[key] = written


class _Known:
    """The known addresses, and their number in each domain."""

    def __init__(self, parts: Iterable[Sequence[CorrespondentRow]]) -> None:
        none = np.empty((0, 4), np.int64)
        arrays = (np.array([*map(_numbers, part)], np.int64) for part in parts)
        rows = np.concatenate([none, *arrays])
        addresses, of, counts, days = rows.T
        self.size = len(addresses)
        self.addresses = _Counts(addresses, counts, days)
        domains, where, n = np.unique(of, return_inverse=True, return_counts=True)
        last = np.zeros(domains.size, np.int64)
        np.maximum.at(last, where, days)
        self.domains = _Counts(domains, n, last)

    def put(self, row: CorrespondentRow) -> bool:
        """Store the counts of an address; return whether it is new."""
        address, domain, messages, day = _numbers(row)
        new = self.addresses.get(address).times == 0
        self.addresses.put(address, Correspondence(messages, day))
        others = self.domains.get(domain)
        self.domains.put(
            domain, Correspondence(others.times + new, max(others.day, day))
        )
        self.size += new
        return new


def _numbers(row: CorrespondentRow) -> tuple[int, int, int, int]:
    """Return the key of the address, that of the domain, messages and day of a row."""
    address, domain = (_key(row.profile_id, x) for x in (row.address, row.domain))
    return address, domain, row.messages, row.last.toordinal()


def _key(profile_id: int, digest: bytes) -> int:
    """Return the key of a digest in memory."""
    return int.from_bytes(digest[:8], "little", signed=True) ^ profile_id


@dataclass(eq=False)
class Correspondents:
    """Counts whom users write to, and recognises their mail.

    Parameters
    ----------
    believed : iterable of str
        Names of the servers whose Authentication-Results count.

    Raises
    ------
    InvalidSetting
        If one of the servers has no name.
    DatabaseUnavailable
        If the stored correspondents cannot be read.
    """

    live: LiveProfiles
    recipients: Recipients
    _: KW_ONLY
    believed: InitVar[Iterable[str]]
    clock: Callable[[], datetime]

    def __post_init__(self, believed: Iterable[str]) -> None:
        """Load the rows."""
        self._believed = frozenset(each.lower() for each in believed)
        for name in sorted(self._believed):
            if not is_server_name(name):
                raise InvalidSetting(
                    f"POSTBAYES_AUTHSERV_ID contains {name!r}; give a name such as "
                    "mx.example.org, of letters, digits, dots and hyphens"
                )
        self._lock = threading.Lock()
        # Without the lock, two threads would store the waiting counts twice, and counts
        # read during a store would lack them or have them twice.
        self._storing = threading.RLock()
        self._known = _Known(())
        self._waiting: dict[tuple[int, bytes], CorrespondentRow] = {}
        self._touched: set[int] = set()
        self._new: Counter[str] = Counter()
        self._day = date.min
        self.load()

    def __len__(self) -> int:
        """Return the number of correspondents of all profiles."""
        return self._known.size

    @property
    def on(self) -> bool:
        """Whether anybody is counted and known."""
        return bool(self._believed)

    def __call__(
        self,
        message: Message,
        origin: Origin,  # noqa: ARG002  a client's own claims prove nothing
    ) -> Testimony | None:
        """State that users have written to the author of a message; see `Witness`."""
        sender = verified_sender(message.raw, self._believed)
        return None if sender is None else partial(self.statements, sender)

    def statements(self, sender: VerifiedSender, profile: str) -> Sequence[Statement]:
        """Return the evidence for a message that users have written to its author.

        Returns
        -------
        sequence of Statement
            Empty if nothing is known about the author, or the profile was just deleted
            or lacks its key.

        Notes
        -----
        The most specific match decides: the address, then its domain, then the domain
        of its organisation.  Messages sent by other users of the site count half.
        """
        today = self.clock().toordinal()
        shares = {profile: 1.0}
        shares.setdefault(self.recipients.site, SITE_SHARE)
        known, lives = self._known, self.live.among(shares)
        if len(lives) < len(shares):
            return ()
        for rung in ladder(sender):
            counts = known.addresses if rung.kind == "address" else known.domains
            found = []
            for live, share in zip(lives, shares.values(), strict=True):
                digest = identity_digest(rung.name, live.specification.key)
                written = counts.get(_key(live.row.id, digest))
                nats = share * rung.nats(written, today=today)
                if nats:
                    who = self._writers(live.row.name)
                    text = rung.sentence(written.times, who=who)
                    found.append(
                        Statement(kind="people", name=rung.name, nats=nats, text=text)
                    )
            if found:
                return (min(found, key=lambda each: each.nats),)
        return ()

    def _writers(self, profile: str) -> str:
        """Return the words for the users of a profile, for the sentence."""
        if profile == self.recipients.site:
            return "this site has"
        of_domain = "." in profile and "@" not in profile
        return f"{profile} has" if of_domain else "you have"

    def sent(
        self,
        sender: str,
        recipients: Sequence[str],
        *,
        login: str = "",
        principal: Principal | None = None,
    ) -> int:
        """Count a message that a user has sent; return the number of people it went to.

        Parameters
        ----------
        recipients : sequence of str
            Of the SMTP envelope.
        login : str
            Login of the user.  Its profiles count the message if it has one of its own,
            and those of the sender otherwise.
        principal : Principal or None
            Who reports it, if limited to some profiles.

        Raises
        ------
        Forbidden
            If the principal may use none of these profiles, or may teach only some
            labels.
        """
        owners = self.recipients.line(login)
        if owners == (self.recipients.site,):
            owners = self.recipients.line(sender)
        if principal is not None:
            principal.require_every_label("report mail that was sent")
            allowed = tuple(name for name in owners if principal.may_use(name))
            owners = allowed or (principal.require(owners[0]),)
        # An empty sender means an automatic reply (RFC 3834 section 3.3).
        if not self.on or len(recipients) > MOST_RECIPIENTS or not sender.strip("<> "):
            return 0
        found = {normal_address(each) for each in recipients}
        found -= {None, normal_address(sender)}
        user = login or sender
        # One user, however it is spelt: each spelling would have a limit of its own.
        names = [each for each in candidates(user) if not each.startswith("@")]
        user = names[-1] if names else user
        with self._lock:
            addresses = sorted(filter(None, found))
            return sum(self._count(user, owners, each) for each in addresses)

    def _count(self, user: str, owners: Sequence[str], address: str) -> bool:
        """Count a message to an address; return whether it counts."""
        domain = address.rpartition("@")[2]
        now = self.clock()
        today = datetime.combine(now, time(), UTC)
        rows = []
        for live in self.live.among(owners):
            key = live.specification.key
            whom, where = (identity_digest(each, key) for each in (address, domain))
            rows.append(CorrespondentRow(live.row.id, whom, where, 1, today))
        if not rows or len(self._waiting) + len(rows) > CAPACITY:
            return False
        before = [self._known.addresses.get(_key(*row[:2])).times for row in rows]
        if not before[0] and not self._may_be_new(user, now.date()):
            return False
        for row, messages in zip(rows, before, strict=True):
            self._known.put(row._replace(messages=messages + 1))
            waiting = self._waiting.get(row[:2])
            more = 0 if waiting is None else waiting.messages
            self._waiting[row[:2]] = row._replace(messages=more + 1)
        return True

    def _may_be_new(self, user: str, today: date) -> bool:
        """Return whether a user may have one more new correspondent today."""
        if today != self._day:
            self._day = today
            self._new.clear()
        self._new[user] += 1
        return self._new[user] <= MOST_NEW

    def load(self) -> None:
        """Read the stored correspondents.

        Raises
        ------
        DatabaseUnavailable
            If they cannot be read; memory stays unchanged.
        """
        if not self.on:
            return
        with self._storing:
            with reading(self.live.engine) as connection:
                known = _Known(lists.correspondents_in_parts(connection))
            with self._lock:
                for row in self._waiting.values():
                    before = known.addresses.get(_key(*row[:2])).times
                    known.put(row._replace(messages=before + row.messages))
                self._known = known

    def flush(self) -> None:
        """Store the counts since the last call.

        Raises
        ------
        DatabaseUnavailable
            If they cannot be stored; they wait for the next call.
        """
        with self._storing:
            with self._lock:
                waiting = dict(self._waiting)
            if not waiting:
                return
            with writing(with_short_timeout(self.live.engine)) as connection:
                there = {row.id for row in profiles.list_all(connection)}
                found = (row for row in waiting.values() if row.profile_id in there)
                lists.add_correspondents(connection, found)
            with self._lock:
                for key, row in waiting.items():
                    more = self._waiting[key].messages - row.messages
                    if more:
                        self._waiting[key] = row._replace(messages=more)
                    else:
                        del self._waiting[key]
                self._touched |= there & {row.profile_id for row in waiting.values()}

    def follow(self) -> None:
        """Read the changes of other processes, and drop the oldest of too many.

        Raises
        ------
        DatabaseUnavailable
            If the database does not answer.
        """
        if not self.on:
            return
        short = with_short_timeout(self.live.engine)
        with self._storing:
            for profile_id in sorted(self._touched):
                with writing(short) as connection:
                    lists.drop_oldest_correspondents(
                        connection, profile_id, most=MOST_KNOWN
                    )
                self._touched.remove(profile_id)
            with self._lock:
                stored = self._known.size - sum(
                    self._known.addresses.get(_key(*key)).times == row.messages
                    for key, row in self._waiting.items()
                )
            # The clocks of two machines may show different days.
            yesterday = datetime.combine(self.clock(), time(), UTC) - timedelta(days=1)
            with reading(short) as connection:
                parts = [*lists.correspondents_in_parts(connection, since=yesterday)]
                there = lists.count_correspondents(connection)
            for part in parts:
                with self._lock:
                    for row in part:
                        waiting = self._waiting.get(row[:2])
                        more = 0 if waiting is None else waiting.messages
                        written = row._replace(messages=row.messages + more)
                        stored += self._known.put(written)
            # Other processes have forgotten some.
            if there != stored:
                self.load()


def list_correspondents(
    engine: Engine,
    settings: Settings,
    *,
    address: str | None = None,
    profile: str | None = None,
) -> list[tuple[str, CorrespondentFigures]]:
    """Return the number of correspondents, by the names of the profiles that have any.

    Parameters
    ----------
    address : str or None
        The only correspondent to count; None counts all.
    profile : str or None
        The only profile; None means all.

    Raises
    ------
    InvalidInput
        If it is no address.
    UnknownProfile
        If there is no such profile.
    """
    name = None if address is None else _required(address)
    with reading(engine) as connection:
        rows = {row.id: row for row in profiles.list_all(connection, profile)}
        digests = None
        if name is not None:
            digests = {_digest(row, name, settings) for row in rows.values()}
        found = lists.correspondent_figures(connection, rows, digests)
    return sorted((rows[each.profile_id].name, each) for each in found)


def forget_correspondent(
    engine: Engine, settings: Settings, address: str, *, profile: str | None, actor: str
) -> list[str]:
    """Forget a correspondent; return the names of the profiles that had it.

    The events name these profiles, but not the address.

    Parameters
    ----------
    address : str
        Address of the correspondent.
    profile : str or None
        The only profile that forgets it; None means all.

    Raises
    ------
    InvalidInput
        If it is no address.
    UnknownProfile
        If there is no such profile.
    """
    name = _required(address)
    with writing(engine) as connection:
        forgot = [
            row.name
            for row in profiles.list_all(connection, profile)
            if lists.forget_correspondent(
                connection, row.id, _digest(row, name, settings)
            )
        ]
        for each in forgot:
            note(connection, "correspondent forgotten", each, actor=actor)
    return sorted(forgot)


def _required(address: str) -> str:
    name = normal_address(address)
    if name is None:
        msg = f"{address[:64]!r} is not an address; give one such as ann@example.org"
        raise InvalidInput(msg)
    return name


def _digest(row: ProfileRow, name: str, settings: Settings) -> bytes:
    return identity_digest(name, key_for(row, settings))
