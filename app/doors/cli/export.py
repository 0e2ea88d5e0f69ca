"""`postbayes export`: what a profile has learned, as a file."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from app.doors.cli.console import ERR, OUT, interruptible, progress, whole
from app.errors import UnknownProfile
from app.services.application import now, open_database
from app.services.transfer import Transfer
from app.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from rich.progress import Progress

    from app.exchange.format.header import Contents
    from app.storage.profiles import ProfileRow

STANDARD: Final = "-"
"""What stands for standard input or output where a file is asked for."""


def export(
    file: Annotated[
        str, typer.Argument(help="Where it goes; - is standard output.", metavar="FILE")
    ],
    profile: Annotated[
        str | None, typer.Option(help="Which profile. [POSTBAYES_PROFILE]")
    ] = None,
    with_ledger: Annotated[
        bool,
        typer.Option(
            "--with-ledger",
            help="Write every feedback instead of the counts that they come to, so "
            "that undo and what is known of each message go with it.",
        ),
    ] = False,
    without_words: Annotated[
        bool,
        typer.Option("--without-words", help="Leave out the text of the features."),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object.")
    ] = False,
) -> None:
    """Write what a profile has learned to a file, for `postbayes import`.

    The service goes on meanwhile. The file is there whole or not at all.
    """
    settings = load_settings()
    contents: Contents = "ledger" if with_ledger else "counts"
    engine = open_database(settings)
    transfer = Transfer(engine, now, store_words=settings.store_words)
    row = require_profile(transfer, profile or settings.profile)
    told = "interrupted; nothing was exported"
    with interruptible(told), progress() as bar, _target(file) as target:
        show_folding(transfer, row, bar)
        task = bar.add_task("exporting", total=transfer.size(row, contents), rate="")
        done = transfer.export(
            row.name,
            target,
            contents=contents,
            words=not without_words,
            progress=lambda steps: bar.advance(task, steps),
        )
        written = None if file == STANDARD else target.tell()
    engine.dispose()
    header = done.header
    # Standard output has the export itself.
    out = ERR if file == STANDARD else OUT
    if as_json:
        result = {
            "profile": header.profile,
            "contents": header.contents,
            "revision": header.revision,
            "messages": header.messages,
            "content": done.content,
            "bytes": written,
        }
        out.print(json.dumps(result), markup=False)
        return
    counted = ", ".join(f"{n:,} {label}" for label, n in header.messages.items())
    length = "" if written is None else f" in {written:,} bytes"
    out.print(
        f"{file}: {header.contents} of the profile {header.profile!r} at revision "
        f"{header.revision}, {counted}{length}.",
        markup=False,
    )


def require_profile(transfer: Transfer, name: str) -> ProfileRow:
    """Return the profile of that name.

    Raises
    ------
    UnknownProfile
        If there is none.
    """
    row = transfer.profile(name)
    if row is None:
        raise UnknownProfile.named(name)
    return row


def show_folding(transfer: Transfer, profile: ProfileRow, bar: Progress) -> None:
    """Fold what is not folded yet, and show how far it is."""
    task = bar.add_task("folding", total=None, rate="")
    for rows in transfer.fold(profile):
        bar.advance(task, rows)
    bar.remove_task(task)


@contextmanager
def _target(file: str) -> Iterator[BinaryIO]:
    """Give the file to write to; it has its name once it is whole."""
    if file == STANDARD:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with whole(Path(file)) as part, part.open("wb") as target:
        yield target
