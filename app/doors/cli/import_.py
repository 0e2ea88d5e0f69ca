"""`postbayes import`: an export, or the dump of another filter."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from app.classifier.specification import check_name
from app.doors.cli.console import OUT, interruptible, progress, undo_of
from app.doors.cli.errors import complain
from app.doors.cli.export import STANDARD, require_profile, show_folding
from app.errors import InvalidInput, Unavailable, UnknownProfile, UnreadableSource
from app.exchange.dumps import bogofilter, rspamd, spamassassin, spambayes
from app.exchange.survey import survey
from app.services.application import now, open_database
from app.services.transfer import Transfer
from app.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from rich.progress import Progress

    from app.exchange.dumps.tally import DumpTally
    from app.exchange.survey import Imported, Survey

_CHUNK: Final = 1024 * 1024
Program = Literal["bogofilter", "spamassassin", "spambayes", "rspamd"]


def import_(
    file: Annotated[
        str, typer.Argument(help="What to read; - is standard input.", metavar="FILE")
    ],
    profile: Annotated[
        str | None,
        typer.Option(
            help="Which profile learns it. Else the one that the export names, which "
            "is made if there is none; for a dump [POSTBAYES_PROFILE]."
        ),
    ] = None,
    from_: Annotated[
        Program | None,
        typer.Option(
            "--from",
            help="FILE is a dump of bogofilter, spamassassin, spambayes or rspamd.",
            metavar="PROGRAM",
        ),
    ] = None,
    words: Annotated[
        Path | None,
        typer.Option(
            help="A text with the words to look for in a dump that has only hashes.",
            metavar="FILE",
        ),
    ] = None,
    ham_label: Annotated[
        str,
        typer.Option(help="What a dump's ham is here, unless the first such label."),
    ] = "",
    spam_label: Annotated[
        str,
        typer.Option(help="What a dump's spam is here, unless the first such label."),
    ] = "",
    replace: Annotated[
        bool,
        typer.Option(
            "--replace", help="Forget all that the profile has learned, learn this."
        ),
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask before replacing.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object.")
    ] = False,
) -> None:
    """Learn an export of Postbayes, or the dump of another filter.

    It is checked to the last byte before anything is learned, and learned
    whole or not at all. What was imported before changes nothing.
    """
    if from_ is None and (words or ham_label or spam_label):
        msg = "--words, --ham-label and --spam-label are for dumps: say --from PROGRAM"
        raise InvalidInput(msg)
    if from_ is not None and replace:
        msg = (
            "a dump is added to what is learned; to begin with it alone, make a "
            "profile for it: postbayes profiles --create NAME"
        )
        raise InvalidInput(msg)
    if profile is not None:
        check_name(profile)
    settings = load_settings()
    told = "interrupted; it was imported whole or not at all, and the same again tells"
    with interruptible(told), progress() as bar, _source(file) as source:
        if from_ is not None:
            digest = _digest(source)
            task = bar.add_task("reading", total=None, rate="")
            tally = _read_dump(source, from_, words)
            bar.remove_task(task)
            engine = open_database(settings)
            transfer = Transfer(engine, now, store_words=settings.store_words)
            name = _existing(transfer, profile or settings.profile)
            size = sum(tally.features.values())
            task = bar.add_task("importing", total=size, rate="")
            learned = transfer.add_dump(
                name,
                tally,
                digest=digest,
                ham=ham_label,
                spam=spam_label,
                progress=lambda at: bar.update(task, completed=at),
            )
            bar.remove_task(task)
            told_of = dict(tally.messages._asdict())
            summed = True
        else:
            found = _survey(source, bar)
            tally = None
            summed = found.header.contents == "counts"
            engine = open_database(settings)
            transfer = Transfer(engine, now, store_words=settings.store_words)
            name = profile or found.header.profile
            learned = _learn(
                transfer, name, source, found, bar, replace=replace, yes=yes
            )
            told_of = found.header.messages
        try:
            show_folding(transfer, learned.profile, bar)
        except Unavailable:
            complain(
                f"{file} is imported, and stays so; what fails is to bring the counts "
                "up to date, which a service does or `postbayes fold`"
            )
            raise
    engine.dispose()
    if as_json:
        OUT.print(json.dumps(_as_json(learned, told_of, tally)), markup=False)
        return
    if tally is not None:
        _show(tally)
    _say(learned, told_of, summed=summed)


def _existing(transfer: Transfer, name: str) -> str:
    """Return the name of the profile that learns a dump, which names none itself."""
    try:
        return require_profile(transfer, name).name
    except UnknownProfile as error:
        msg = f"{error}. For a dump make it first: postbayes profiles --create {name}"
        raise UnknownProfile(msg) from error


def _survey(source: BinaryIO, bar: Progress) -> Survey:
    """Read a whole export."""
    task = bar.add_task("checking", total=source.seek(0, 2), rate="")
    source.seek(0)
    found = survey(source, progress=lambda at: bar.update(task, completed=at))
    source.seek(0)
    bar.remove_task(task)
    return found


def _learn(
    transfer: Transfer,
    name: str,
    source: BinaryIO,
    found: Survey,
    bar: Progress,
    *,
    replace: bool,
    yes: bool,
) -> Imported:
    """Add an export to a profile, or put it in its place."""
    row = transfer.profile(name) if replace else None
    if row is not None and row.revision and not yes:
        bar.stop()
        if not sys.stdin.isatty():
            msg = (
                f"--replace forgets what the profile {name!r} has learned in "
                f"{row.revision} revisions; say --yes as well, or add without --replace"
            )
            raise InvalidInput(msg)
        typer.confirm(
            f"Forget what {name!r} has learned in {row.revision} revisions?",
            abort=True,
            err=True,
        )
        bar.start()
    size = source.seek(0, 2)
    task = bar.add_task("importing", total=size, rate="")
    source.seek(0)

    def show(at: int) -> None:
        if at < size:
            bar.update(task, completed=at)
        else:
            bar.reset(task, description="counting", total=None)

    if row is not None:
        learned = transfer.replace(row, source, found, progress=show)
    else:
        learned = transfer.add(name, source, found, progress=show)
    bar.remove_task(task)
    return learned


def _read_dump(source: BinaryIO, program: Program, words: Path | None) -> DumpTally:
    """Return what a dump says."""
    if program == "bogofilter":
        return bogofilter.read(source)
    if program == "spambayes":
        return spambayes.read(source)
    if program == "rspamd":
        return rspamd.refuse(source)
    if words is None:
        return spamassassin.read(source, None)
    try:
        with words.open(encoding="utf-8", errors="replace") as texts:
            return spamassassin.read(source, texts)
    except OSError as error:
        msg = f"{words} cannot be read: {error.strerror}"
        raise UnreadableSource(msg) from error


def _digest(source: BinaryIO) -> str:
    """Return what tells a dump from others, and go back to its beginning."""
    whole = sha256()
    while chunk := source.read(_CHUNK):
        whole.update(chunk)
    source.seek(0)
    return whole.hexdigest()


def _as_json(
    learned: Imported, messages: dict[str, int], tally: DumpTally | None
) -> dict[str, object]:
    """Return what became of an import, as scripts read it."""
    result: dict[str, object] = {
        "outcome": learned.outcome,
        "profile": learned.profile.name,
        "source": learned.source,
        "messages": messages,
        "rows": learned.rows,
        "known": learned.known,
    }
    if tally is not None:
        result |= {"carried": dict(tally.carried), "left": dict(tally.left)}
    return result


def _show(tally: DumpTally) -> None:
    """Print what of a dump carried over, and what could not."""
    grid = Table(box=SIMPLE_HEAD, pad_edge=False)
    grid.add_column(f"tokens of {tally.program}", overflow="fold")
    grid.add_column("carried over", justify="right")
    grid.add_column("left", justify="right")
    for what, number in tally.carried.most_common():
        grid.add_row(what, f"{number:,}", "")
    for why, number in tally.left.most_common():
        grid.add_row(why, "", f"{number:,}")
    grid.add_row("all", f"{tally.carried.total():,}", f"{tally.left.total():,}")
    OUT.print(grid)


def _say(learned: Imported, messages: dict[str, int], *, summed: bool) -> None:
    """Print what became of an import; of counts, how to take all of them back.

    What came as a ledger is taken back by who said it, as before.
    """
    name = learned.profile.name
    if learned.outcome == "unchanged":
        OUT.print(
            f"Nothing to do: the profile {name!r} has learned all of this before.",
            markup=False,
        )
        return
    counted = ", ".join(f"{n:,} {label}" for label, n in messages.items())
    before = "forgot what it knew, and " if learned.outcome == "replaced" else ""
    known = (
        f" {learned.known:,} rows were left out, since their messages are known."
        if learned.known
        else ""
    )
    OUT.print(
        f"The profile {name!r} {before}learned {counted}: {learned.rows:,} ledger "
        f"rows.{known}",
        markup=False,
    )
    if summed and learned.outcome == "added":
        back = undo_of(learned.source, profile=name)
        OUT.print(f"To take that back: {back}", markup=False)


@contextmanager
def _source(file: str) -> Iterator[BinaryIO]:
    """Give the file to read, twice if need be: what cannot go back is copied."""
    with ExitStack() as stack:
        if file == STANDARD:
            source: BinaryIO = sys.stdin.buffer
        else:
            try:
                source = stack.enter_context(Path(file).open("rb"))
            except OSError as error:
                msg = f"{file} cannot be read: {error.strerror}"
                raise UnreadableSource(msg) from error
        if not source.seekable():
            copy = stack.enter_context(TemporaryFile())
            copyfileobj(source, copy)
            copy.seek(0)
            source = copy
        yield source
