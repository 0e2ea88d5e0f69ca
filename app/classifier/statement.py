"""Statements: evidence about a message beyond its features.

Earlier messages to a verified author are evidence of ham.  Only a verified author has
it, and it only lowers the log-odds of spam, by a bounded number of nats.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol

import numpy as np

from app.bayes.posterior import log_posterior, probability_of
from app.mail.headers import ascii_domain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from app.classifier.specification import Specification
    from app.classifier.verdict import Verdict
    from app.features.id_key import IdKey
    from app.mail.authentication import VerifiedSender
    from app.mail.message import Message

    Testimony = Callable[[str], Sequence["Statement"]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """Evidence about a message beyond its features.

    Parameters
    ----------
    kind : {'list', 'people'}
        An entry of a list, or a correspondent of the recipient; it is a family in
        explanations.
    name : str
        Subject of the statement, such as ``example.org``.
    nats : float
        Contribution to the log-odds; positive is evidence of spam.  Unit: nats.
    text : str
        The reason as one line of text for people.
    """

    kind: Literal["list", "people"]
    name: str
    nats: float
    text: str


def stated(
    verdict: Verdict, statements: Sequence[Statement], specification: Specification
) -> Verdict:
    r"""Return a verdict with statements added.

    Parameters
    ----------
    verdict : Verdict
        The verdict by the features alone.

    Notes
    -----
    The sum *s* is a log-likelihood ratio of the spam labels against the others.  It is
    added to the joint of every spam label, so the log-odds rise by *s* for any number
    of labels, and labels on the same side keep their odds relative to each other.  The
    scores of the views, the evidence and the prior stay those of the features, because
    the fusion is fitted to them.

    If no feature is known, the verdict stays *unsure* unless the statements alone reach
    a threshold on their side.
    """
    nats = math.fsum(each.nats for each in statements)
    rule = specification.verdict
    log_odds = verdict.log_odds + nats
    decided = verdict.known or (
        nats != 0 and rule.decide(nats) == ("spam" if nats > 0 else "ham")
    )
    posterior = log_posterior(
        verdict.log_posterior + np.where(specification.spam_mask, nats, 0.0)
    )
    return replace(
        verdict,
        decision=rule.decide(log_odds) if decided else "unsure",
        label=int(posterior.argmax()),
        probability=probability_of(log_odds),
        log_odds=log_odds,
        log_posterior=posterior,
    )


class Origin(NamedTuple):
    """The origin of a message, as far as the door knows it.

    Parameters
    ----------
    sender : str
        Sender of the SMTP envelope; empty if unknown.
    client : str
        Address of the client that sent the message; empty if unknown.
    """

    sender: str = ""
    client: str = ""


UNKNOWN: Final = Origin()


class Witness(Protocol):
    """Makes statements about messages."""

    def __call__(self, message: Message, origin: Origin) -> Testimony | None:
        """Return the statements about a message, by the name of a profile.

        None if there are none for any profile, which saves work.
        """
        ...


def testimony(
    witnesses: Iterable[Witness], message: Message, origin: Origin
) -> Testimony | None:
    """Combine the statements of all witnesses; None if there are none."""
    found = [
        each for witness in witnesses if (each := witness(message, origin)) is not None
    ]
    if not found:
        return None
    return lambda profile: [one for each in found for one in each(profile)]


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
    local, at, domain = name.rpartition("@")
    # In ASCII, as the stored ones are.
    return blake2b(
        f"{local}{at}{ascii_domain(domain)}".encode(),
        digest_size=DIGEST_BYTES,
        key=b"" if key is None else key.secret,
        person=b"correspondent",
    ).digest()
