"""Digest: a mail that lists the held and unsure messages of a profile.

Contract of this file: the links of a digest are signed names of one message in one
profile.  Until a link expires, anybody who has it may see the reasons and teach that
message to that profile.  Of a mail, a digest contains only what the history keeps, as
text.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import timedelta
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import default
from email.utils import make_msgid
from functools import partial
from typing import TYPE_CHECKING, Final

from itsdangerous import BadData, URLSafeTimedSerializer

from app.classifier.verdict import HistoryFilter
from app.drawing import template
from app.errors import Forbidden, InvalidSetting
from app.mail.headers import ascii_domain
from app.services.clock import now
from app.settings import is_web_address, read_secret

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from app.classifier.verdict import Place
    from app.services.history import HistoryEntry, VerdictHistory
    from app.settings import Settings

MOST_LISTED: Final = 200
"""Most messages that one digest lists; it gives the number of further ones."""
HELD: Final = ("spam", "unsure")
"""The decisions that a digest lists."""
_SALT: Final = "postbayes-digest"


class DigestLinks:
    """Signs and opens the links of digests.

    Examples
    --------
    >>> links = DigestLinks(b"0123456789abcdef", days=7)
    >>> links.open(links.token("ann@example.org", bytes(16)))[0]
    'ann@example.org'
    """

    def __init__(self, secret: bytes, *, days: float) -> None:
        self._days = days
        self._signer = URLSafeTimedSerializer(
            secret, salt=_SALT, signer_kwargs={"digest_method": hashlib.sha256}
        )

    def token(self, profile: str, digest: bytes) -> str:
        """Return the signed name of a message in a profile."""
        return str(self._signer.dumps([profile, digest.hex()]))

    def open(self, token: str) -> tuple[str, bytes]:
        """Return the profile and the message that a token names.

        Raises
        ------
        Forbidden
            If its signature is wrong or has expired.
        """
        try:
            (profile, digest), signed = self._signer.loads(token, return_timestamp=True)
        except BadData as error:
            raise Forbidden(
                "this link is incomplete, or belongs to another service; copy the "
                "whole link"
            ) from error
        # max_age would refuse links from a host whose clock is ahead.
        if abs(now() - signed) > timedelta(days=self._days):
            raise Forbidden(
                f"this link was valid for {self._days:g} days and has expired; the "
                "next digest has new links"
            )
        return str(profile), bytes.fromhex(digest)


def links_of(settings: Settings) -> DigestLinks:
    """Return the links of the settings.

    Raises
    ------
    InvalidSetting
        If the settings have no secret to sign them with.
    """
    secret = read_secret(
        settings.digest_secret_file,
        "POSTBAYES_DIGEST_SECRET_FILE",
        purpose="the links of a digest need a secret that signs them",
    )
    return DigestLinks(secret, days=settings.digest_days)


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    """The content of one digest.

    Parameters
    ----------
    since, until : datetime
        The messages were scored in this time.
    entries : tuple of HistoryEntry
        Newest first: messages decided as spam or unsure that were not taught.
    more : int
        Number of further messages.
    """

    profile: str
    since: datetime
    until: datetime
    entries: tuple[HistoryEntry, ...]
    more: int


def collect(
    history: VerdictHistory, profile: str, *, since: datetime, until: datetime
) -> Digest:
    """Return the digest of a period.

    Raises
    ------
    UnknownProfile
        If there is no such profile.
    DatabaseUnavailable
        If the history cannot be read.
    """
    held = partial(HistoryFilter, since=since, until=until, taught=False)
    found = [
        entry
        for decision in HELD
        for entry in _entries(history, profile, held(decision=decision))
    ]
    found.sort(key=lambda entry: entry.line.time)
    newest = {entry.line.digest: entry for entry in found}
    untaught = sorted(newest.values(), key=lambda each: each.line.time, reverse=True)
    return Digest(
        profile=profile,
        since=since,
        until=until,
        entries=tuple(untaught[:MOST_LISTED]),
        more=max(0, len(untaught) - MOST_LISTED),
    )


def _entries(
    history: VerdictHistory, profile: str, criteria: HistoryFilter
) -> Iterator[HistoryEntry]:
    before: Place | None = None
    while True:
        entries, before = history.page(profile, criteria, before=before, limit=500)
        yield from entries
        if before is None:
            return


def mail(
    digest: Digest, links: DigestLinks, *, sender: str, recipient: str, url: str
) -> EmailMessage:
    """Return a digest as a mail, in text and in HTML.

    Raises
    ------
    InvalidSetting
        If an address cannot stand in a header.
    """
    rows = [
        (entry, f"{url}/ui/digest/{links.token(digest.profile, entry.line.digest)}")
        for entry in digest.entries
    ]
    # In seven bits, which every mail server takes (RFC 6152 is an extension).
    made = EmailMessage(policy=default.clone(cte_type="7bit"))
    # In `ann@`, Python 3.11 looks for what comes after the "@", and fails; 3.13 reads
    # an empty address.
    try:
        made["From"], made["To"] = _in_ascii(sender), _in_ascii(recipient)
        addresses = *made["From"].addresses, *made["To"].addresses
        problem = "" if all(each.username for each in addresses) else "not an address"
    except (ValueError, IndexError) as error:
        problem = str(error)
    if problem:
        msg = f"a digest from {sender!r} to {recipient!r} cannot be sent: {problem}"
        raise InvalidSetting(msg)
    count = len(digest.entries) + digest.more
    made["Subject"] = f"Postbayes: {count:,} held or unsure"
    made["Date"] = digest.until
    made["Message-ID"] = make_msgid(domain=addresses[0].domain or "localhost")
    # No automatic replies, such as holiday notices (RFC 3834).
    made["Auto-Submitted"] = "auto-generated"
    shown = {"digest": digest, "rows": rows, "count": count}
    made.set_content(template("services/digest.txt").render(shown))
    html = template("services/digest.html").render(shown)
    made.add_alternative(html, subtype="html")
    return made


def _in_ascii(line: str) -> list[Address]:
    """Return addresses with their domains in ASCII, which every mail server takes."""
    _, header = default.header_store_parse("To", line)
    return [
        Address(each.display_name, each.username, ascii_domain(each.domain))
        for each in header.addresses
    ]


def sending_of(settings: Settings) -> tuple[str, str]:
    """Return the sender of digests, and the address of the page without a last slash.

    Raises
    ------
    InvalidSetting
        If a setting is missing.
    """
    if settings.digest_from is None or settings.digest_url is None:
        raise InvalidSetting(
            "POSTBAYES_DIGEST_FROM and POSTBAYES_DIGEST_URL must give the sender of "
            "the digest and the address of its links, such as postbayes@example.org "
            "and https://filter.example.org"
        )
    if not is_web_address(settings.digest_url):
        raise InvalidSetting(
            f"POSTBAYES_DIGEST_URL is {settings.digest_url!r}, which is not an "
            "address; write one like https://filter.example.org"
        )
    return settings.digest_from, settings.digest_url.rstrip("/")
