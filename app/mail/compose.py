"""Composition of a message from the fields of a form.

A contact form or a comment has no RFC 5322 message.  It is composed into one
and then parsed like any other, so that there is one path from bytes to
features.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def compose(headers: Mapping[str, str], text: str, html: str | None = None) -> bytes:
    """Return the raw message of some headers and a body.

    Parameters
    ----------
    headers : mapping of str to str
        Header values by name. A value is one line: line ends in it become
        spaces, so that no text of a form can add a header.
    text : str
        The plain body.
    html : str, optional
        The same in HTML; the message is then a multipart/alternative.

    Returns
    -------
    bytes
        A message in UTF-8 with LF line ends.

    Examples
    --------
    >>> compose({"Subject": "Hello"}, "How are you?").splitlines()[0]
    b'Subject: Hello'
    """
    lines = [f"{name}: {' '.join(value.split())}" for name, value in headers.items()]
    lines.append("MIME-Version: 1.0")
    if html is None:
        lines += ["Content-Type: text/plain; charset=utf-8", "", text]
    else:
        # A digest of the bodies cannot stand in them, save by a break of the
        # hash; a search for a free boundary could be led on and on.
        digest = hashlib.blake2b((text + html).encode("utf-8", "replace"))
        boundary = f"=_{digest.hexdigest()[:32]}"
        lines += [
            f'Content-Type: multipart/alternative; boundary="{boundary}"',
            "",
            f"--{boundary}",
            "Content-Type: text/plain; charset=utf-8",
            "",
            text,
            f"--{boundary}",
            "Content-Type: text/html; charset=utf-8",
            "",
            html,
            f"--{boundary}--",
            "",
        ]
    # A lone surrogate cannot be encoded, but JSON can carry it.
    return "\n".join(lines).encode("utf-8", "replace")
