"""Commands that move profiles: `export` and `import`."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Annotated, BinaryIO, Literal

from typer import Option

from app.classifier.specification import check_name
from app.doors.cli import complain
from app.doors.cli.console import (
    ERR,
    OUT,
    STANDARD,
    AsJson,
    Profile,
    confirm_forgetting,
    fields_of,
    grid,
    interruptible,
    located_stage,
    number_of,
    opened,
    progress,
    run_stage,
    show,
    stage,
    undo_of,
    written,
)
from app.errors import InvalidInput, Unavailable, UnknownProfile
from app.services.clock import now
from app.services.profiles import key_of
from app.services.startup import opened_database
from app.services.transfer import Program, Transfer, read_dump, read_export
from app.settings import load_settings

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterator

    from rich.progress import Progress
    from rich.table import Table

    from app.services.transfer import Imported


def export(
    file: str,
    profile: Profile = None,
    with_ledger: bool = False,
    without_words: bool = False,
    as_json: AsJson = False,
) -> None:
    """Export a profile to a file, for `postbayes import`.

    The service can run meanwhile. The file is written completely or not at all, and
    an existing file is never replaced.

    Parameters
    ----------
    file
        Where it goes; - is standard output.
    with_ledger
        Write all feedback instead of only the counts, so that undo and the state of
        each message are kept.
    without_words
        Leave out the words, and the runs of letters from which text can be read.
    """
    settings = load_settings()
    contents: Literal["ledger", "counts"] = "ledger" if with_ledger else "counts"
    with opened_database(settings) as engine:
        transfer = Transfer(engine, now, store_words=settings.store_words)
        row = transfer.profile(profile or settings.profile)
        with (
            interruptible("interrupted; nothing was exported"),
            progress() as bar,
            written(file) as target,
        ):
            run_stage(bar, "folding", transfer.fold(row))
            header, content = transfer.export(
                row.name,
                target,
                contents=contents,
                words=not without_words,
                progress=stage(bar, "exporting", row.revision if with_ledger else None),
            )
            size = None if file == STANDARD else target.tell()
    result = {
        **fields_of(header, "profile", "contents", "revision", "messages"),
        "content": content,
        "bytes": size,
    }
    counted = ", ".join(f"{n:,} {label}" for label, n in header.messages.items())
    length = "" if size is None else f" in {size:,} bytes"
    line = (
        f"{file}: {header.contents} of the profile {header.profile!r} at revision "
        f"{header.revision}, {counted}{length}."
    )
    # Standard output may be the export itself.
    show(result, [line], as_json=as_json, to=ERR if file == STANDARD else OUT)


def import_(
    file: str,
    profile: str | None = None,
    from_: Annotated[Program | None, Option("--from", metavar="PROGRAM")] = None,
    words: Annotated[Path | None, Option(metavar="FILE")] = None,
    ham_label: str = "",
    spam_label: str = "",
    replace: bool = False,
    yes: bool = False,
    as_json: AsJson = False,
) -> None:
    """Import an export of Postbayes, or the dump of another filter.

    The whole file is checked first, and then learned completely or not at all. Only
    the messages of a ledger that is added to another are learned some at a time; if
    that is interrupted, a service goes on with it. Nothing is learned twice: known
    messages are left out, and sums that were imported before are refused.

    Parameters
    ----------
    file
        The file to read; - is standard input.
    profile
        The profile that learns it. If not given, the one that the export names, which
        is created if there is none; for a dump [POSTBAYES_PROFILE].
    from_
        FILE is a dump of bogofilter, spamassassin or spambayes.
    words
        A file with the words to look for in a dump that has only hashes.
    ham_label
        Label for the ham of a dump; the first such label if not given.
    spam_label
        Label for the spam of a dump; the first such label if not given.
    replace
        Forget all that the profile has learned first.
    yes
        Do not ask before replacing.
    """
    if from_ is None and (words or ham_label or spam_label):
        msg = "--words, --ham-label and --spam-label are for dumps: add --from PROGRAM"
        raise InvalidInput(msg)
    if from_ is not None and replace:
        raise InvalidInput(
            "a dump is added to what the profile has learned; to begin with the dump "
            "alone, create a profile for it: postbayes profiles create NAME"
        )
    if profile is not None:
        check_name(profile)
    left = "interrupted; run the same command again to see whether it was imported"
    with interruptible(left), progress() as bar, _source(file) as source:
        settings = load_settings()
        if from_ is not None:
            labels = {"ham": ham_label, "spam": spam_label}
            name = profile or settings.profile
            add = _read_dump(bar, source, from_, words, name, labels)
        else:
            agree = partial(_agree, bar, yes=yes) if replace else None
            add = _read_export(bar, source, profile, agree)
        with opened_database(settings, make=True) as engine:
            key = key_of(engine, settings, make=not settings.store_words)
            transfer = Transfer(engine, now, store_words=settings.store_words, key=key)
            learned = add(transfer)
            try:
                run_stage(bar, "folding", transfer.fold(learned.profile))
            except Unavailable:
                complain(
                    f"{file} is imported, but the counts could not be brought "
                    "up to date; a running service or `postbayes fold` does that"
                )
                raise
    lines: list[str | Table] = [*_sentences(learned)]
    document = {
        **fields_of(learned, "outcome", "source", "rows", "known"),
        "profile": learned.profile.name,
        "messages": learned.messages,
    }
    if (tally := learned.tally) is not None:
        lines.insert(0, _table(tally.program, tally.carried, tally.left))
        document |= fields_of(tally, "carried", "left")
    show(document, lines, as_json=as_json)


def _read_dump(
    bar: Progress,
    source: BinaryIO,
    program: Program,
    words: Path | None,
    name: str,
    labels: dict[str, str],
) -> Callable[[Transfer], Imported]:
    """Read the dump of another filter; return what adds it to a profile."""
    stage(bar, "reading")
    with ExitStack() as stack:
        texts = None
        if words is not None:
            raw = stack.enter_context(opened(words))
            texts = stack.enter_context(TextIOWrapper(raw, "utf-8", "replace"))
        tally = read_dump(source, program, texts)

    def add(transfer: Transfer) -> Imported:
        try:
            transfer.profile(name)
        except UnknownProfile as error:
            msg = f"{error}. Create it first: postbayes profiles create {name}"
            raise UnknownProfile(msg) from error
        show = located_stage(bar, "importing", sum(tally.features.values()))
        return transfer.add_dump(name, tally, **labels, progress=show)

    return add


def _read_export(
    bar: Progress,
    source: BinaryIO,
    profile: str | None,
    agree: Callable[[str, int], None] | None,
) -> Callable[[Transfer], Imported]:
    """Check an export; return what adds it, or replaces a profile, if agreed."""
    size = source.seek(0, 2)
    found = read_export(source, progress=located_stage(bar, "checking", size))

    def add(transfer: Transfer) -> Imported:
        name, row = profile or found.header.profile, None
        if agree is not None:
            with suppress(UnknownProfile):
                row = transfer.profile(name)
                if row.revision:
                    agree(name, row.revision)
        show = _import_stage(bar, size)
        if row is not None:
            return transfer.replace(row, source, found, progress=show)
        return transfer.add(name, source, found, progress=show)

    return add


def _sentences(learned: Imported) -> Iterator[str]:
    """Yield the outcome as lines for people."""
    name = learned.profile.name
    if learned.outcome == "unchanged":
        yield f"Nothing to do: the profile {name!r} learned all of this before."
        return
    counted = ", ".join(f"{n:,} {label}" for label, n in learned.messages.items())
    forgot = "forgot what it knew, and " if learned.outcome == "replaced" else ""
    left_out = ""
    if learned.known:
        left_out = f", without {number_of(learned.known, 'row')} of known messages"
    yield (
        f"The profile {name!r} {forgot}learned {counted}: "
        f"{number_of(learned.rows, 'ledger row')}{left_out}."
    )
    # Rows of an imported ledger are undone by their original sources.
    if learned.summed and learned.outcome == "added":
        yield f"To take that back: {undo_of(learned.source, profile=name)}"


def _agree(bar: Progress, name: str, revision: int, *, yes: bool) -> None:
    """Ask whether to replace a profile; end the command if not."""
    if yes:
        return
    bar.stop()
    end = "; give --yes as well, or import without --replace"
    confirm_forgetting(name, revision, option="--replace", end=end)
    bar.start()


def _import_stage(bar: Progress, size: int) -> Callable[[int], None]:
    """Show the progress of an import by bytes, and then that it is being counted."""
    show = located_stage(bar, "importing", size)
    counting = False

    def advance(at: int) -> None:
        nonlocal counting
        if at < size:
            show(at)
        elif not counting:
            counting = True
            stage(bar, "counting")

    return advance


def _table(program: str, carried: Counter[str], left: Counter[str]) -> Table:
    """Return the table of imported and skipped tokens of a dump."""
    rows = [(kind, f"{number:,}", "") for kind, number in carried.most_common()]
    rows += [(reason, "", f"{number:,}") for reason, number in left.most_common()]
    rows.append(("all", f"{carried.total():,}", f"{left.total():,}"))
    return grid((f"tokens of {program}", "carried over", "left"), rows, numbers={1, 2})


@contextmanager
def _source(file: str) -> Iterator[BinaryIO]:
    """Open a file that is read twice; one that is not seekable is copied."""
    with opened(file) as source:
        if source.seekable():
            yield source
            return
        with TemporaryFile() as copy:
            copyfileobj(source, copy)
            copy.seek(0)
            yield copy
