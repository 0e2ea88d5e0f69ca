"""Correspondents: evidence of ham from earlier messages to a verified author.

Contract of this file: only a verified author has evidence, and it only lowers the
log-odds of spam, by a bounded number of nats.
"""

from __future__ import annotations

import math
import re
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.features.id_key import IdKey
    from app.mail.authentication import VerifiedSender

DIGEST_BYTES: Final = 16
"""Size of the digest of an address or a domain.  Unit: bytes."""
HALF_LIFE: Final = 180
"""Half-life of the last message.  Unit: days.

Chosen, not measured: no corpus includes sent mail.  A correspondence of a year ago is
evidence, and one of five years ago hardly any.  Revisit with the figures of a site.
"""
LEAST_ADDRESSES: Final = 3
"""Least number of known addresses at a domain for which the domain is evidence."""
SITE_SHARE: Final = 0.5
"""Weight of messages by others at the site, relative to those by the recipient."""
# The domain of a provider is no evidence about its customers, however many of them were
# written to.  These providers are the largest; a domain missing here adds at most 1
# nat.
_PROVIDER: Final = re.compile(
    r"(?:126|163|aol|daum|fastmail|gmail|gmx|googlemail|hotmail|icloud|live|mac|mail"
    r"|me|msn|naver|outlook|pm|proton|protonmail|qq|rambler|rediffmail|rocketmail|sina"
    r"|tutanota|yahoo|yandex|ymail|zoho)(?:\.[a-z]{2,3}){1,2}"
    r"|(?:att|comcast|cox|sbcglobal|verizon)\.net|(?:bigpond|btinternet)\.com"
    r"|(?:freenet|posteo|t-online|web)\.de|(?:free|laposte|orange|sfr|wanadoo)\.fr"
    r"|bluewin\.ch|(?:libero|virgilio)\.it|seznam\.cz|uol\.com\.br|wp\.pl|ya\.ru"
)


class Correspondence(NamedTuple):
    """How often users have written to an author.

    Parameters
    ----------
    times : int
        Number of messages to an address, or of known addresses of a domain.
    day : int
        Day of the last message, as in `datetime.date.toordinal`.
    """

    times: int
    day: int


class Rung(NamedTuple):
    """One way in which an author is known.

    Parameters
    ----------
    kind : str
        `address` or `domain`.
    name : str
        The address or the domain.
    slope, most : float
        Factor of the logarithm of the count, and the upper bound.  Unit: nats.
    least : int
        The least count that is evidence.
    """

    kind: str
    name: str
    slope: float
    most: float
    least: int

    def nats(self, written: Correspondence, *, today: int) -> float:
        r"""Return the contribution to the log-odds: 0 or less.

        Notes
        -----
        .. math:: -\min\bigl(m,\; s \ln(1 + n\, 2^{-t/h})\bigr)

        with the count *n*, the days *t* since the last message, the half-life *h*, the
        slope *s* and the bound *m*.

        Examples
        --------
        >>> address = Rung("address", "ann@example.org", 2.0, 4.0, 1)
        >>> known = [Correspondence(times, 0) for times in (0, 1, 4, 99)]
        >>> [round(address.nats(each, today=0), 2) for each in known]
        [0.0, -1.39, -3.22, -4.0]
        >>> round(address.nats(Correspondence(1, 0), today=HALF_LIFE), 2)
        -0.81
        """
        if written.times < self.least:
            return 0.0
        # If the clock went back, the age is 0.
        age = max(0, today - written.day) / HALF_LIFE
        return -min(self.most, self.slope * math.log1p(written.times * 2.0**-age))

    def sentence(self, count: int, *, who: str = "you have") -> str:
        """Return the evidence as a sentence.

        Examples
        --------
        >>> Rung("address", "ann@example.org", 2.0, 4.0, 1).sentence(4)
        'you have written to this address 4 times'
        """
        if self.kind == "domain":
            return f"{who} written to {count} addresses of {self.name}"
        often = "once" if count == 1 else f"{count} times"
        return f"{who} written to this address {often}"


def ladder(sender: VerifiedSender) -> Iterator[Rung]:
    """Yield the ways in which a verified author may be known, most specific first."""
    yield Rung("address", sender.address, 2.0, 4.0, 1)
    for domain in dict.fromkeys((sender.domain, sender.organisation)):
        if _PROVIDER.fullmatch(domain) is None:
            yield Rung("domain", domain, 0.5, 1.0, LEAST_ADDRESSES)


def identity_digest(name: str, key: IdKey | None) -> bytes:
    """Return the digest of an address or a domain, keyed if feature ids are."""
    return blake2b(
        name.encode(),
        digest_size=DIGEST_BYTES,
        key=b"" if key is None else key.secret,
        person=b"correspondent",
    ).digest()
