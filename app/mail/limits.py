"""Limits on the part of a message that is read.

Hitting a limit is a defect of the Message and never an error: content within the
limits is used, and the rest is left out.  Together, the limits bound the time of
`app.mail.parse.parse` on any input to a second or less (``benchmarks/bombs.py``), and
its memory to some 150 MB.

If a message can have many of a kind (parts, headers, encoded words), the limit is on
all of them together and a `Budget` counts it, because a limit on each bounds nothing.
"""

from __future__ import annotations

from typing import Final, Literal

MAX_BYTES: Final = 4 * 1024 * 1024
"""Bytes of a message that are parsed.

Precedent: spamc does not scan messages over 500 kB (spamc.pod, -s); rspamd takes
50 MB (cfg_utils, DEFAULT_MAX_MESSAGE).  In nearly all mail, the text comes before
large attachments, so only the end of an attachment is cut off.
"""
MAX_DEPTH: Final = 30
"""Multiparts and messages around a part.

Precedent: Sendmail's MAXMIMENESTING of 20 (conf.h), Postfix's
mime_nesting_limit of 100 (mail_params.h).
"""
MAX_NESTED_CHARS: Final = 8 * MAX_BYTES
"""Characters of all containers of a message that are parsed, level by level.

The parser goes over a text once for each container around it: 4 MB take 25 ms.  In
39,762 messages, the bodies of all containers are at most twice as long as the message.
"""
MAX_PARTS: Final = 1_000
"""Leaves and containers of the MIME tree.

Precedent: Haraka's mime_parts of 1,000 (connection.ini), and Go's
multipartmaxparts of 1,000 (mime/multipart/formdata.go).
"""
MAX_FORWARDED: Final = 100
"""Messages that are taken out of a forwarded one."""
MAX_FORWARDED_BYTES: Final = 4 * MAX_BYTES
"""Bytes of a forwarded message that are read, with as many times more lines.

Precedent: Postfix's message_size_limit of 10,240,000 (mail_params.h).
"""
MAX_HEADERS: Final = 1_000
"""Header fields of one message or part.

Precedent: Haraka's max_lines of 1,000 in a header (connection.ini); Exim bounds
the bytes of all (HEADER_MAXSIZE, 1 MiB), Postfix those of each
(header_size_limit, 100 kB).
"""
MAX_HEADER_CHARS: Final = 10_000
"""Characters of one header's value.

A To field of 200 recipients has about 8,000.
"""
MAX_HEADERS_CHARS: Final = 256 * 1024
"""Characters of all headers of a message; further ones are left out.

Precedent: Sendmail's MaxHeadersLength of 32,768 (conf.h), Exim's HEADER_MAXSIZE of
1 MiB.  The maximum in 39,762 messages is 10,763.
"""
MAX_PARAMETERS_CHARS: Final = 2_000
"""Characters of a Content-Type or Content-Disposition that are read.

Precedent: Postfix's header_size_limit allows 102,400 for a whole header;
Sendmail's MaxMimeHeaderLength is off by default; OpenBSD's configurations set it to
256, with 128 for each parameter.
"""
MAX_TEXT_CHARS: Final = 200_000
"""Characters of all texts of a message.

Precedent: SpamAssassin's body_part_scan_size of 50,000 for each part
(Mail::SpamAssassin::Conf).
"""
MAX_HTML_CHARS: Final = 500_000
"""Characters of the HTML parts of a message that are parsed, all together.

Precedent: SpamAssassin's rawbody_part_scan_size of 500,000, in the same place, for
each part.  The maximum in 39,762 messages (SpamAssassin's public corpus and
Enron-Spam) is 82,349, in one part.
"""
MAX_HTML_TAGS: Final = 5_000
"""Tags of an HTML part that are parsed to a tree.

The HTML standard's tree construction is quadratic in the nesting: 5,000 nested
elements take 25 ms, 200,000 take 76 s (lexbor in selectolax 1.0).
"""
MAX_HTML_ELEMENTS: Final = 2 * MAX_HTML_TAGS
"""Elements of an HTML part that may hide text.

More elements than tags are copies, caused by open formatting elements.
"""
MAX_HTML_WORK: Final = 200_000_000
"""Work of the HTML parts of a message that are parsed to trees, all together.

`app.mail.html` estimates the work of a part before parsing it.  The maximum in 39,762
messages is 158 million, and the 99.99th percentile 76 million.  Unit: about a
nanosecond.
"""
MAX_ENCODED_WORDS: Final = 1_000
"""Encoded words (RFC 2047) of a message that are decoded.

They occur in headers, in the parameters of parts and in the subjects of attached
messages; pieces of parameters (RFC 2231) count as well.  A To field of 200 recipients
has 400; the maximum in 39,762 messages is 41.
"""
MAX_DETECTIONS: Final = 16
"""Runs of bytes of a message whose charset is detected.

Further ones are read as Windows-1252.  These are texts and headers with no charset or a
wrong one.  The maximum in 39,762 messages is 3; each takes up to 3 ms.
"""
MAX_TITLE_CHARS: Final = 100
"""Characters of the titles of an HTML part that are read as its text.

No mail program shows them.  Two of 706 titles in 17,218 messages are longer.
"""
MAX_MEMBERS: Final = 200
"""Names of an archive that are listed.

Precedent: ClamAV unpacks MaxFiles of 10,000 (default.h); here only names are listed,
and an archive in mail has a handful.
"""
MAX_MEMBER_NAME_BYTES: Final = 200
"""Bytes of a name in an archive."""
MAX_UUENCODED: Final = 100
"""Uuencoded files that are taken out of one text."""
MAX_LINKS: Final = 1_000
"""Links of one message that are kept."""
MAX_LINK_CHARS: Final = 2_048
"""Characters of one link; all browsers and servers support as many."""
MAX_DETECTION_BYTES: Final = 8_192
"""Bytes that the charset detector sees: more does not change its answer."""
MAX_EVENT_CHARS: Final = 1_000
"""Characters of the events of a message that are read.

Not all mail programs show them beside another text, where words of ham would let spam
pass (experiment 0127).
"""
Work = Literal[
    "containers", "html", "html tree", "encoded words", "detections", "events"
]
"""The kinds of work that a message has a budget for."""
BUDGET: Final[dict[Work, tuple[int, str]]] = {
    "containers": (MAX_NESTED_CHARS, "too-deep"),
    "html": (MAX_HTML_CHARS, "html-too-long"),
    "html tree": (MAX_HTML_WORK, "html-too-complex"),
    "encoded words": (MAX_ENCODED_WORDS, "too-many-encoded-words"),
    "detections": (MAX_DETECTIONS, "too-many-charsets"),
    "events": (MAX_EVENT_CHARS, "events-too-long"),
}
"""The budget of each kind of work for one message, and the defect beyond it."""


class Budget:
    """The remaining work of one message, and its defects.

    Attributes
    ----------
    defects : set of str
        Names of the limits that were hit, and other defects.
    left : dict of str to int
        Remaining amount of each kind of work.

    Examples
    --------
    >>> budget = Budget()
    >>> budget.take("html", 400_000), budget.take("html", 400_000)
    (400000, 100000)
    >>> budget.allows("encoded words", 1), budget.defects
    (True, {'html-too-long'})
    """

    def __init__(self) -> None:
        self.defects: set[str] = set()
        self.left = {work: limit for work, (limit, _) in BUDGET.items()}

    def take(self, work: Work, wanted: int) -> int:
        """Spend as much of the wanted amount as is left; return the amount spent."""
        taken = min(wanted, self.left[work])
        if taken < wanted:
            self.defects.add(BUDGET[work][1])
        self.left[work] -= taken
        return taken

    def allows(self, work: Work, wanted: int) -> bool:
        """Spend the whole amount, or nothing if less is left."""
        if wanted > self.left[work]:
            self.defects.add(BUDGET[work][1])
            return False
        self.left[work] -= wanted
        return True
