"""`postbayes forwarded`: teaches messages that users forward to an address.

Contract of this file: a mail server runs it for mail of anybody, so it exits with 0, or
with 75 for another try.  With any other code, the mail server would bounce the message,
and so send mail to strangers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.doors.cli import complain
from app.doors.cli.console import OUT, Profile, TaughtUrl, read_standard
from app.errors import (
    OF_ONE_MESSAGE,
    InvalidInput,
    NotFound,
    PostbayesError,
    Unavailable,
    reading_one_of_many,
)
from app.mail.limits import MAX_FORWARDED_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping


def forwarded(
    label: str = "", sender: str = "", profile: Profile = None, url: TaughtUrl = None
) -> None:
    """Teach the messages attached to a forwarded message.

    A mail server runs this command for addresses such as spam@example.org, with the
    message on standard input. It teaches attached messages, and a message whose
    X-Postbayes-Id the text quotes, in the profile of the sender. The exit code is 0,
    or 75 if the mail server should try again.

    Parameters
    ----------
    label
        The label of the messages, one of the profile's labels.
    sender
        The authenticated sender, from the mail server; kept in the ledger. Without it,
        nothing is taught.
    """
    raw = read_standard(MAX_FORWARDED_BYTES)
    source = "".join(c for c in sender if c.isprintable()).strip()
    if not source:
        complain("nothing was taught: the sender is not authenticated")
        return
    whose = {"recipient": sender} if profile is None else {"profile": profile}
    try:
        if not label:
            raise InvalidInput("give the label of the messages with --label")
        taught = _teach(url, raw, label, source, whose)
    except PostbayesError as error:
        raise Unavailable(str(error)) from error
    if taught is None:
        complain(
            f"nothing was taught: {source} forwarded no message; it must be "
            "attached, because the text alone is another message"
        )
    else:
        OUT.print(f"{source}: {taught} taught as {label}")


def _teach(
    url: str | None, raw: bytes, label: str, source: str, whose: Mapping[str, str]
) -> int | None:
    """Return how many messages were taught; None if there are none.

    A message that an earlier try taught is counted too, and does not change.
    """
    # Imported here, since strangers write to such an address too: without a known
    # sender the command takes less than a third of the CPU time (0.28 s), which is
    # mostly imports.
    from app.doors.cli.client import ask, url_of  # noqa: PLC0415
    from app.doors.documents.message import FeedbackOut  # noqa: PLC0415
    from app.ledger.entry import MAX_SOURCE  # noqa: PLC0415
    from app.mail.parse import forwarded as inside  # noqa: PLC0415
    from app.settings import load_settings  # noqa: PLC0415

    if url is None:
        url = url_of(load_settings())
    query = {"label": label, "source": source[:MAX_SOURCE], **whose}
    with reading_one_of_many():
        found = inside(raw)
    if not (found.messages or found.ids):
        return None
    asked: list[tuple[bytes | None, dict[str, str | None] | None]] = [
        (each, None) for each in found.messages
    ]
    asked += [(None, {"id": each}) for each in found.ids]
    taught = 0
    for message, document in asked:
        try:
            ask(FeedbackOut, url, "/feedback", message, query, document)
        except (*OF_ONE_MESSAGE, NotFound) as error:
            # Without an id in the message, a 404 means that the address is wrong.
            if document is None and isinstance(error, NotFound):
                raise
            complain(f"a message was skipped: {error}")
        else:
            taught += 1
    return taught
