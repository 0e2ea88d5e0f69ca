"""When was a header's date, in seconds?"""

from __future__ import annotations

import re
from calendar import timegm
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

# RFC 5322 section 3.3, with the obsolete two-digit years of section 4.3. The
# name of the day says nothing new; comments and odd zones are left out.
_DATE: Final = re.compile(
    r"\b(\d{1,2}) +([A-Za-z]{3}) +(\d{4}|\d{2}) +(\d{1,2}):(\d{2})(?::(\d{2}))?"
    r"(?: +([+-])(\d{2})(\d{2}))?",
    re.ASCII,
)
_MONTHS: Final = "jan feb mar apr may jun jul aug sep oct nov dec"
# RFC 5322 section 4.3: 00 to 49 are of this century, 50 to 99 of the last.
_PIVOT: Final = 50


@dataclass(frozen=True, slots=True)
class Moment:
    """A date as it is written in a header.

    Parameters
    ----------
    seconds : int
        Since 1970 in UTC; a missing zone is taken for UTC.
    hour : int
        On the clock of the sender, 0 to 23.
    """

    seconds: int
    hour: int


# Two views ask for the date of a message.
@lru_cache(maxsize=16)
def read_date(text: str) -> Moment | None:
    """Return the first date in a header value; None if there is none.

    Examples
    --------
    >>> read_date("Fri, 6 Nov 2026 09:30:00 +0100")
    Moment(seconds=1793953800, hour=9)
    >>> read_date("yesterday") is None
    True
    """
    match = _DATE.search(text)
    if match is None:
        return None
    day, name, year, hour, minute, second, sign, zone_hours, zone_minutes = (
        match.groups(default="0")
    )
    month, between = divmod(_MONTHS.find(name.lower()), 4)
    written = int(year)
    if month < 0 or between or int(hour) > 23 or not (1 <= int(day) <= 31):  # noqa: PLR2004
        return None
    if len(year) == 2:  # noqa: PLR2004
        written += 2000 if written < _PIVOT else 1900
    if not written:
        return None
    zone = 60 * int(zone_hours) + int(zone_minutes)
    here = timegm((written, month + 1, int(day), int(hour), int(minute), int(second)))
    return Moment(here - 60 * (-zone if sign == "-" else zone), int(hour))
