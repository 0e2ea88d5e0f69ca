"""`postbayes learn`: labelled mail learned in batches."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from typer import Argument, Option

from app.corpora.mailbox import decoded
from app.corpora.parallel import cluster, readers
from app.corpora.source import (
    folder_parts,
    index_parts,
    mail_folders,
    mail_path,
    require_mail,
    summarise_index,
)
from app.doors.cli import complain, raise_for
from app.doors.cli.console import (
    OUT,
    STANDARD,
    AsJson,
    Processes,
    Profile,
    grid,
    interruptible,
    number_of,
    progress,
    run_stage,
    show,
)
from app.errors import InvalidInput, PostbayesError
from app.ledger.entry import check_source
from app.services.clock import now
from app.services.learn import BATCH, PART, Learn, LearnSums
from app.services.startup import load_profiles, opened_database
from app.settings import Settings, load_settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from app.corpora.mailbox import MailFolder
    from app.errors import UnreadableMessage

_OUTCOMES: Final = (
    *("learned", "relabelled", "unchanged"),
    *("expired", "empty", "unreadable"),
)
_SCORED: Final = (
    "Each message was scored before it was learned: `postbayes figures` includes them."
)
_NOT_SCORED: Final = (
    "They were learned as an archive, without scores: `postbayes figures` "
    "covers feedback from now on, and `postbayes evaluate` measures accuracy "
    "on an archive."
)


def learn(
    paths: Annotated[list[str] | None, Argument()] = None,
    label: str | None = None,
    junk: Annotated[str | None, Option(metavar="LABEL")] = None,
    index: Path | None = None,
    profile: Profile = None,
    batch: Annotated[
        int | None,
        Option(
            min=1,
            max=10_000,
            help=f"Messages per transaction: {BATCH}, or {PART} with --sums.",
        ),
    ] = None,
    sums: bool = False,
    processes: Processes = None,
    dask: Annotated[str | None, Option(metavar="ADDRESS")] = None,
    source: str = "learn",
    as_json: AsJson = False,
) -> None:
    """Learn labelled mail.

    In a Maildir or a folder of mailboxes, folders for sent and deleted mail, drafts
    and the outbox are skipped unless PATHS name them. A table first shows the label
    of each folder.

    An index with alternating labels is treated as a stream of mail: each message is
    scored before it is learned, and `postbayes figures` includes it. Any other mail,
    and all mail with --sums, is learned as an archive, without scores. To measure
    the accuracy on an archive, use `postbayes evaluate`.

    It can be interrupted and run again: nothing is learned twice. A service
    on the same database follows within a second.

    Parameters
    ----------
    paths
        Messages, mbox files, Maildirs, or folders of any of them; also URLs, such as
        s3://bucket/mail, with fsspec drivers.
    label
        Label of the messages at PATHS.
    junk
        Label of mail in junk folders, which are recognised in many languages; the rest
        gets --label.
    index
        Learn the messages in a TREC-style index: LABEL PATH per line.
    sums
        Store the sum of each batch instead of the features of each message: half the
        disk space, but single messages cannot be relabelled or forgotten, and an undo
        takes back whole batches.
    dask
        Address of a Dask scheduler, whose workers read the mail instead of local
        processes.
    source
        The source of the feedback, kept in the ledger.
    """
    if bool(paths) == (index is not None):
        raise InvalidInput("give either PATHS with --label, or --index FILE")
    if index is not None and (label or junk):
        raise InvalidInput("an index has its own labels; leave --label and --junk out")
    if STANDARD in (paths or ()):
        raise InvalidInput(
            "learn reads files and folders; `postbayes feedback --label LABEL` teaches "
            "a message on standard input"
        )
    check_source(source)
    settings = load_settings()
    folders = _folders_of(paths or (), label, junk, quiet=as_json)
    _doubt(folders, junk, settings)
    if index is None:
        total, in_order, parts_of = None, False, partial(folder_parts, folders)
    else:
        total, in_order = summarise_index(index)
        parts_of = partial(index_parts, index)
    in_order = in_order and not sums
    left = (
        "interrupted; the committed batches stay learned: run the same command again "
        "to learn the rest"
    )
    counted: Counter[str] = Counter()
    crew = cluster(dask) if dask else readers(processes)
    with crew as reading, opened_database(settings, make=True) as engine:
        taught = load_profiles(engine, settings).get(profile or settings.profile)
        kind = LearnSums if sums else partial(Learn, in_order=in_order)
        learner = kind(
            engine, taught, now, source=source, store_words=settings.store_words
        )
        most = batch or learner.MOST
        begun = time.perf_counter()
        with interruptible(left), _reporting_learned(counted), progress() as bar:
            task = bar.add_task("learning", total=total, rate="")
            for more in learner.batches(
                parts_of(most=most), most=most, readers=reading, on_unreadable=_name
            ):
                counted.update(more)
                done = counted.total()
                seconds = time.perf_counter() - begun
                bar.update(task, completed=done, rate=f"{done / seconds:,.0f}/s")
            seconds = time.perf_counter() - begun
            run_stage(bar, "folding", learner.fold())
        folding_seconds = time.perf_counter() - begun - seconds

    result = {
        "messages": counted.total(),
        **{kind: counted[kind] for kind in _OUTCOMES},
        "scored": in_order,
        "messages_per_second": counted.total() / seconds,
        "folding_seconds": folding_seconds,
        "profile": taught.row.name,
        "revision": learner.revision,
        "folders": [
            {
                "folder": decoded(str(folder.path)),
                "use": folder.use,
                "label": None if folder.left_out else folder.label,
                "files": len(folder.files),
            }
            for folder in folders
        ],
    }
    show(result, _sentences(result, seconds), as_json=as_json)
    raise_for(counted["unreadable"])


def _folders_of(
    paths: Sequence[str], label: str | None, junk: str | None, *, quiet: bool
) -> list[MailFolder]:
    """Return the folders of mail at some paths, and show their labels unless quiet."""
    places = [mail_path(path) for path in paths]
    if places:
        require_mail(places, tried=BATCH)
    folders = [
        folder
        for place in places
        for folder in mail_folders(place, label=label, junk_label=junk)
    ]
    if not quiet:
        # A named file has the label that was given, and may be one of thousands.
        named = {path for path in places if path.is_file()}
        _show([f for f in folders if f.label != label or f.path not in named])
    return folders


def _sentences(result: Mapping[str, Any], seconds: float) -> Iterator[str]:
    """Yield a result in words."""
    expired, passed = result["expired"], result["unreadable"]
    yield (
        f"{number_of(result['messages'], 'message')} in {seconds:.1f} s "
        f"({result['messages_per_second']:,.0f}/s): {result['learned']} learned, "
        f"{result['relabelled']} relabelled, {result['unchanged']} unchanged, "
        f"{result['empty']} empty"
        + (f", {expired} not changed because they are too old" if expired else "")
        + (f", {passed} skipped" if passed else "")
        + f"; folded into the counts in {result['folding_seconds']:.1f} s. "
        f"Profile {result['profile']!r} is at revision {result['revision']}."
    )
    if result["learned"]:
        yield _SCORED if result["scored"] else _NOT_SCORED


def _show(folders: Sequence[MailFolder]) -> None:
    """Show the label of each folder, if there are several."""
    if len(folders) < 2:  # noqa: PLR2004  a single folder is the one that was named
        return
    rows = [
        (
            f"left out: {folder.use}" if folder.left_out else folder.label or "-",
            f"{len(folder.files)}",
            decoded(str(folder.path)),
        )
        for folder in folders
    ]
    OUT.print(grid(("label", "files", "folder"), rows, numbers={1}))


def _doubt(folders: Sequence[MailFolder], junk: str | None, settings: Settings) -> None:
    """Report junk folders whose mail is learned as if it were wanted."""
    for folder in folders:
        if (
            folder.use == "junk"
            and junk is None
            and folder.label not in (None, *settings.spam_labels)
        ):
            complain(
                f"{decoded(str(folder.path))} is a junk folder by its name, and is "
                f"learned as {folder.label}; `--junk LABEL` sets another label"
            )


def _name(where: str, error: UnreadableMessage) -> None:
    """Report a skipped message."""
    complain(f"{where} was skipped: {error}")


@contextmanager
def _reporting_learned(counted: Counter[str]) -> Iterator[None]:
    """On an error, first report the batches that stay learned."""
    try:
        yield
    except PostbayesError:
        if learned := counted.total():
            complain(
                f"{number_of(learned, 'message')} learned before the error; run the "
                "same command again to learn the rest"
            )
        raise
