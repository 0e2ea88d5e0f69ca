"""Offer: a page of what a profile says to other sites, as a small export.

Contract of this file: a page holds no text of words, no teachers and no scores.  The
reader of one trusts no byte of it: every word of a page can be learned, or it raises
with a sentence and nothing is learned.
"""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Final

from app.bayes.sparse import SparseCounts
from app.classifier.rule import CORRECTIONS
from app.errors import InvalidObservation, MalformedExport, OtherProfile
from app.exchange.format import (
    LEDGER,
    BlockReader,
    BlockWriter,
    ExportHeader,
    read_rows,
    write_rows,
)
from app.exchange.survey import require_feature_set, require_labels
from app.features.extract import VIEWS
from app.ledger.capacity import Amounts
from app.storage.follow import offer

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from app.ledger.entry import LedgerRow
    from app.storage.follow import Offer
    from app.storage.profiles import ProfileRow

MOST_BYTES: Final = 32 * 1024 * 1024
"""Bytes of a page, at most; one of the largest messages has 2 MB."""
_MEASURED: Final = "measurements"
# A million messages like it have to have room, so that no site can fill the counts by
# messages that are sound one by one.
_TIMES: Final = 2**20


def write_page(
    connection: Connection, profile: ProfileRow, *, after: str
) -> tuple[bytes, Offer]:
    """Return a page as bytes, and as `app.storage.follow.offer`, which raises as it."""
    found = offer(connection, profile, after=after)
    header = ExportHeader.of(
        profile,
        contents="ledger",
        words=False,
        revision=profile.revision,
        views={},
    )
    page = BytesIO()
    writer = BlockWriter(page, header.encode())
    writer.write(LEDGER, write_rows(found.words, words=False))
    writer.close()
    return page.getvalue(), found


def read_page(content: bytes, profile: ProfileRow) -> list[LedgerRow]:
    """Return the words of a page that another site wrote.

    Raises
    ------
    MalformedExport
        If it is no page, or says what no site offers.
    OtherProfile
        If the profile cannot learn it.
    """
    reader = BlockReader(BytesIO(content))
    header = ExportHeader.decode(reader.header)
    require_feature_set(header, profile.feature_set)
    require_labels(header, profile)
    if header.id_key != profile.id_key:
        msg = (
            "the feature ids of the other site are made with another key than those "
            "of this one, or only one of them has a key (POSTBAYES_KEY_FILE)"
        )
        raise OtherProfile(msg)
    blocks = list(zip(range(2), reader, strict=False))
    if len(blocks) != 1 or blocks[0][1].kind != LEDGER:
        msg = "a page is one block of rows, and this one is not"
        raise MalformedExport(msg)
    words = read_rows(blocks[0][1].content, header.labels, Amounts())
    for word in words:
        _require_word(word)
    return words


def _require_word(word: LedgerRow) -> None:
    """Raise unless a row is a word that a site offers."""
    plain = (word.kind, word.undo, word.encoded_names, word.scores, word.label_before)
    if plain != ("message", None, None, None, None) or word.kept == (
        word.label is None
    ):
        msg = f"a page holds a row on {word.digest.hex()} that no site offers"
        raise MalformedExport(msg)
    if word.vector is None:
        return
    views = word.views
    for view, x in views.items():
        measured = not isinstance(x, SparseCounts)
        if view not in {*VIEWS, CORRECTIONS} or measured != (view == _MEASURED):
            msg = f"a page has the unknown view {view!r:.80}"
            raise MalformedExport(msg)
    try:
        Amounts().add_message(views, times=_TIMES)
    except InvalidObservation as error:
        msg = f"a page has features that no message has: {error}"
        raise MalformedExport(msg) from error
