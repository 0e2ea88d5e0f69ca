"""`postbayes export`: what a profile has learned, as a file."""

from __future__ import annotations

import json
from typing import Annotated, Literal

import typer

from app.doors.cli.console import (
    ERR,
    OUT,
    STANDARD,
    Json,
    Profile,
    interruptible,
    progress,
    run_stage,
    stage,
    written,
)
from app.services.application import opened_database
from app.services.clock import now
from app.services.transfer import Transfer
from app.settings import load_settings


def export(
    file: Annotated[
        str, typer.Argument(help="Where it goes; - is standard output.", metavar="FILE")
    ],
    profile: Profile = None,
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
    as_json: Json = False,
) -> None:
    """Write what a profile has learned to a file, for `postbayes import`.

    The service goes on meanwhile. The file is there whole or not at all.
    """
    settings = load_settings()
    contents: Literal["ledger", "counts"] = "ledger" if with_ledger else "counts"
    with opened_database(settings) as engine:
        transfer = Transfer(engine, now, store_words=settings.store_words)
        row = transfer.require_profile(profile or settings.profile)
        with (
            interruptible("interrupted; nothing was exported"),
            progress() as bar,
            written(file) as target,
        ):
            run_stage(bar, "folding", transfer.fold(row))
            done = transfer.export(
                row.name,
                target,
                contents=contents,
                words=not without_words,
                progress=stage(bar, "exporting", transfer.size(row, contents)),
            )
            size = None if file == STANDARD else target.tell()
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
            "bytes": size,
        }
        out.print(json.dumps(result))
        return
    counted = ", ".join(f"{n:,} {label}" for label, n in header.messages.items())
    length = "" if size is None else f" in {size:,} bytes"
    out.print(
        f"{file}: {header.contents} of the profile {header.profile!r} at revision "
        f"{header.revision}, {counted}{length}."
    )
