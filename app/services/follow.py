"""Follow: other sites whose labels are learned, pulled over HTTP page by page.

Contract of this file: a page is learned whole or not at all, together with the cursor
behind it, whatever is cut off, asked twice, or asked by several processes.  A failure
is logged once, and tried again after 1 to 60 seconds.  Feedback waits for no site.
"""

from __future__ import annotations

import logging
import random
import re
import time
from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from app.errors import InvalidSetting, PostbayesError, SiteUnavailable
from app.exchange.export import MOST_BYTES, read_page, write_page
from app.mail.encoding import MAX_FIELD, shown
from app.services.client import NoAnswer, ask
from app.services.clock import Failures
from app.settings import is_web_address, read_named
from app.storage import follow, profiles
from app.storage.database.engine import reading, writing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime

    import httpx2
    from sqlalchemy import Engine

    from app.ledger.entry import LedgerRow
    from app.services.client import Answer
    from app.settings import Settings
    from app.storage.profiles import ProfileRow

log = logging.getLogger(__name__)
CURSOR: Final = "Postbayes-Cursor"
"""Header of a page: the cursor to ask for next."""
LEFT: Final = "Postbayes-Left"
"""Header of a page: number of rows and undos of the ledger after it."""
TIMEOUT: Final = 5.0
"""How long a site may be silent.  Unit: seconds."""
_LONGEST: Final = 60.0
"""How long it may take for a page, and a stopping service may wait.  Unit: seconds."""
# Each page holds the write lock for some 50 ms.
_SECONDS_BETWEEN_PAGES: Final = 0.1
_SKEW: Final = timedelta(seconds=60)
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9.-]{0,31}")
_CURSOR: Final = re.compile(r"[0-9a-f.]{1,80}")


def offered_page(
    engine: Engine, name: str, *, after: str
) -> tuple[bytes, dict[str, str]]:
    """Return what a profile offers to other sites after a cursor, and the headers.

    Raises
    ------
    UnknownProfile, OtherProfile
        As `app.storage.follow.offer`.
    """
    with reading(engine) as connection:
        profile = profiles.find(connection, name)
        content, page = write_page(connection, profile, after=after)
    return content, {CURSOR: page.cursor, LEFT: str(page.left)}


@dataclass(slots=True, kw_only=True)
class Followed:
    """How a site is followed by this process.

    Parameters
    ----------
    name : str
        Name of the site; the source of its rows is `site:NAME`.
    words : int
        New labels learned since the start.
    left : int or None
        Rows of its ledger that are still to be read; None before the first answer.
    failure : str or None
        Why the last attempt failed; None if it did not.
    """

    name: str
    words: int = 0
    left: int | None = None
    failure: str | None = None


@dataclass(eq=False)
class SiteFollower:
    """Pulls the labels of other sites into a profile of this one.

    Parameters
    ----------
    settings : Settings
        The sites, and the profile that learns from them.
    transport : httpx2.AsyncBaseTransport or None
        How sites are reached; None for the network.
    """

    engine: Engine
    settings: Settings
    clock: Callable[[], datetime]
    transport: httpx2.AsyncBaseTransport | None = None

    def __post_init__(self) -> None:
        """Begin without a page of any site."""
        self._urls = followed_sites(self.settings)
        self._states = {name: Followed(name=name) for name in self._urls}
        for name in _keys(self.settings).keys() - self._urls.keys():
            log.warning(
                "%s has a key for the site %r, which POSTBAYES_FOLLOW does not name",
                self.settings.follow_key_file,
                name,
            )
        self._due = dict.fromkeys(self._urls, 0.0)
        self._failures = Failures()

    def __iter__(self) -> Iterator[Followed]:
        """Give the state of each site."""
        yield from self._states.values()

    def __call__(self) -> float:
        """Ask each site whose time has come for a page.

        Returns
        -------
        float
            0 if nothing is left to be asked for now, else the time until the next page.
            Unit: seconds.
        """
        more = False
        for name in self._urls:
            if time.monotonic() >= self._due[name] and not self._failures.pausing(name):
                left = self.attempt(name)
                # Every worker asks, so each asks less often, and at a different moment.
                every = self.settings.follow_seconds * self.settings.workers
                wait = 0.0 if left else every * random.uniform(0.8, 1.2)  # noqa: S311
                self._due[name] = time.monotonic() + wait
                more |= left
        return _SECONDS_BETWEEN_PAGES if more else 0.0

    def attempt(self, name: str) -> bool:
        """Ask a site for a page, learn it, and return whether more is left."""
        try:
            more = self._pull(name)
        except PostbayesError as error:
            self._states[name].failure = str(error)
            if self._failures.report(name, error):
                log.warning("the site %r is not followed: %s", name, error)
            return False
        if self._failures.resolve(name):
            log.info("the site %r is followed again", name)
        return more

    def _pull(self, name: str) -> bool:
        """Learn the next page of a site, and return whether more is left."""
        with reading(self.engine) as connection:
            profile = profiles.find(connection, self.settings.profile)
            known = follow.cursor_of(connection, profile.id, name)
        answer = self._ask(name, after=known)
        if answer.status == HTTPStatus.CONFLICT and known:
            self._restart(name, profile)
            return False
        cursor, left = _position(answer)
        words, now = read_page(answer.content, profile), self.clock()
        # Labels slightly in the future wait until their time has come.  They are not
        # asked for at once: a site that is ahead for ever would keep a core busy.
        if _latest(words, now) > now:
            return False
        with writing(self.engine) as connection:
            new = follow.take(
                connection, profile, name, words, known=known, cursor=cursor, time=now
            )
        if known:
            self._failures.resolve((name, "restart"))
        state = self._states[name]
        state.words += new or 0
        state.left, state.failure = left, None
        # A site that repeats its cursor would be asked for ever.
        return left > 0 and cursor != known

    def _restart(self, name: str, profile: ProfileRow) -> None:
        """Read a site that does not know its cursor from its first row, the next time.

        It is logged once until the site knows a cursor again: an address that leads to
        two ledgers in turn refuses every other one.
        """
        with writing(self.engine) as connection:
            follow.restart(connection, profile, name)
        if self._failures.report((name, "restart"), "another ledger"):
            log.warning(
                "the ledger of the site %r was restored or replaced: it is read from "
                "its first row, and what is known already counts once",
                name,
            )

    def _ask(self, name: str, *, after: str) -> Answer:
        """Return the answer with a page.

        Raises
        ------
        SiteUnavailable
            If the site does not answer, or with more than a page.
        """
        key = _keys(self.settings).get(name)
        try:
            return ask(
                "GET",
                self._urls[name],
                params={"after": after},
                headers={} if key is None else {"Authorization": f"Bearer {key}"},
                most_bytes=MOST_BYTES,
                silent=TIMEOUT,
                within=_LONGEST,
                transport=self.transport,
            )
        except NoAnswer as error:
            raise SiteUnavailable(f"it does not answer: {error}") from error


def followed_sites(settings: Settings) -> dict[str, str]:
    """Return the address of the ledger of each site that is followed, by name.

    Raises
    ------
    InvalidSetting
        If the address of a site is invalid.
    """
    found: dict[str, str] = {}
    for each in settings.follow:
        name, _, url = each.partition("=")
        if (
            not _NAME.fullmatch(name)
            or name in found
            or not is_web_address(url)
            or "/profiles/" not in urlsplit(url).path
            or urlsplit(url).query
        ):
            raise InvalidSetting(
                f"POSTBAYES_FOLLOW has {each!r}; write each site once, with a name of "
                "at most 32 small letters, digits, dots and hyphens, and the address "
                "of its profile, like "
                "berlin=https://filter.berlin.example/profiles/default"
            )
        found[name] = f"{url.rstrip('/')}/ledger"
    _keys(settings)
    return found


def _keys(settings: Settings) -> Mapping[str, str]:
    """Return the key for each site, read at each request because it may have changed.

    Raises
    ------
    InvalidSetting
        If the file cannot be read, or a line is malformed.
    """
    file = settings.follow_key_file
    if file is None:
        return {}
    lines = read_named(file, "POSTBAYES_FOLLOW_KEY_FILE").splitlines()
    found = {}
    for number, line in enumerate(lines, 1):
        name, colon, key = (part.strip() for part in line.partition(":"))
        if not line.strip() or line.startswith("#"):
            continue
        if not (colon and key.isascii() and key.isprintable() and key):
            msg = f"{file}, line {number}, is not of the form `berlin: KEY`"
            raise InvalidSetting(msg)
        found[name] = key
    return found


def _position(page: Answer) -> tuple[str, int]:
    """Return the cursor behind a page, and the number of rows left after it.

    Raises
    ------
    SiteUnavailable
        If the answer is no page.
    """
    cursor, left = page.headers.get(CURSOR, ""), page.headers.get(LEFT, "")
    if (
        page.status != HTTPStatus.OK
        or not _CURSOR.fullmatch(cursor)
        or not re.fullmatch(r"[0-9]{1,18}", left)
    ):
        answer = shown(page.content[: 4 * MAX_FIELD].decode(errors="replace"))
        raise SiteUnavailable(
            f"it answered {page.status} instead of a page of its ledger: {answer}"
        )
    return cursor, int(left)


def _latest(words: Sequence[LedgerRow], now: datetime) -> datetime:
    """Return the time of the latest label, or `now` without one.

    Raises
    ------
    SiteUnavailable
        If it is further in the future than clocks differ.
    """
    latest = max((word.time for word in words), default=now)
    if latest > now + _SKEW:
        raise SiteUnavailable(
            f"it has taught something at {latest:%Y-%m-%d %H:%M} UTC, which is in the "
            "future: none of this page is learned until then. Compare the clocks of "
            "both sites"
        )
    return latest
