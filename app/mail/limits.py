"""Limits on the part of a message that is read.

Hitting a limit is a defect on the Message and never an error: what lies within
the limits is used.  Together they bound the time of `app.mail.parse.parse` on
any input whatever to about a second, and its memory to some tens of megabytes.
"""

from __future__ import annotations

from typing import Final

MAX_BYTES: Final = 4 * 1024 * 1024
"""Bytes of a message that are parsed.

Precedent: spamc passes messages over 500 kB by unscanned (spamc.pod, -s);
rspamd takes 50 MB (cfg_utils, DEFAULT_MAX_MESSAGE).  The text of nearly all mail
comes before its large attachments, so what is cut is the end of an attachment.
"""
MAX_LINES: Final = 65_536
"""Lines that are parsed, because the parser's time goes with lines.

`MAX_BYTES` of base64 in lines of 76 characters, as RFC 2045 has them, are
54,000 lines.
"""
MAX_DEPTH: Final = 30
"""Multiparts and messages around a part.

Precedent: Sendmail's MAXMIMENESTING of 20 (conf.h), Postfix's
mime_nesting_limit of 100 (mail_params.h).
The standard parser recurses at each level, and Python's stack allows 1,000.
"""
MAX_PARTS: Final = 1_000
"""Leaves and containers of the MIME tree.

Precedent: Haraka's mime_parts of 1,000 (connection.ini), and Go's
multipartmaxparts of 1,000 (mime/multipart/formdata.go).
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
MAX_PARAMETERS_CHARS: Final = 2_000
"""Characters of a Content-Type or Content-Disposition that are looked at.

Precedent: Postfix's header_size_limit allows 102,400 for a whole header;
Sendmail's MaxMimeHeaderLength is off by default, and 256 with 128 for each
parameter where it is set (OpenBSD's configurations).
"""
MAX_TEXT_CHARS: Final = 200_000
"""Characters of text that the message's texts may have together.

Precedent: SpamAssassin's body_part_scan_size of 50,000 for each part
(Mail::SpamAssassin::Conf).
"""
MAX_HTML_CHARS: Final = 500_000
"""Characters of one HTML part that are parsed.

Precedent: SpamAssassin's rawbody_part_scan_size of 500,000, in the same place.
"""
MAX_HTML_TREE_CHARS: Final = 128 * 1024
"""Characters of an HTML part that is parsed to a tree.

The parser compares each attribute with all others of its tag: 70,000 in one tag
take 6 s, as many as fit in here 1 s (lexbor in selectolax 1.0).
Precedent: Gmail clips HTML at about 102 kB (as senders report: no document of
its own says so), so that newsletters stay below.
"""
MAX_HTML_TAGS: Final = 5_000
"""Tags of an HTML part that is parsed to a tree.

The HTML standard's tree construction is quadratic in the nesting: 5,000 nested
elements take 25 ms, 200,000 take 76 s (lexbor in selectolax 1.0).
"""
MAX_HTML_FORMATTING: Final = 1_000_000
"""Formatting tags times all tags of an HTML part that is parsed to a tree.

Open formatting elements (font, b, a ...) are opened again in each block after
them, so this product bounds the number of nodes that the tree can have.
"""
MAX_HIDDEN: Final = 200
"""Elements of an HTML part that are taken out as hidden."""
MAX_ANCESTORS: Final = 30
"""Elements above a text that are asked for the colour behind it."""
MAX_MEMBERS: Final = 200
"""Names of an archive that are listed.

Precedent: ClamAV's MaxFiles of 10,000 (default.h), to be unpacked; here names
alone, and an archive by mail has a handful.
"""
MAX_MEMBER_NAME_BYTES: Final = 200
"""Bytes of a name in an archive."""
MAX_UUENCODED: Final = 100
"""Uuencoded files of one text that are taken out of it."""
MAX_LINKS: Final = 1_000
"""Links of one message that are kept."""
MAX_LINK_CHARS: Final = 2_048
"""Characters of one link: what browsers and servers agree to support."""
MAX_DETECTION_BYTES: Final = 8_192
"""Bytes that the charset detector sees: more does not change its answer."""
