"""Console: shared options, output, progress and files of the commands."""

from __future__ import annotations

import json
import os
import pwd
import shlex
import signal
import sys
import threading
from collections.abc import Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Final

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text
from typer import Option

from app.doors.cli import complain
from app.errors import (
    InvalidInput,
    InvalidSetting,
    UnreadableSource,
    UnwritableFile,
    reason,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Sequence

    from pydantic import BaseModel
    from rich.console import JustifyMethod, RenderableType


class _Output(Console):
    """Standard output to a reader that may stop early."""

    def on_broken_pipe(self) -> None:
        """Let `app.doors.cli.main` end the command."""
        raise BrokenPipeError


# Names of files and profiles are printed without markup.  The width is that of any
# table: cells that were cut to the width of the terminal would mislead.
OUT = _Output(highlight=False, soft_wrap=True, markup=False, emoji=False, width=100_000)
ERR = Console(stderr=True, highlight=False, soft_wrap=True, markup=False, emoji=False)
ENDING: Final = (signal.SIGTERM, signal.SIGHUP)
"""The signals that end a process at once unless it handles them."""
STANDARD: Final = "-"
"""The name of standard input or output in place of a file's."""
EXAMPLE: Final = "http://127.0.0.1:8025"


# Parameters that several commands have. The others are described in the docstring of
# their command: see `app.doors.cli.main.load`.
Profile = Annotated[str | None, Option(help="Name of the profile. [POSTBAYES_PROFILE]")]
OneProfile = Annotated[
    str | None, Option(help="Name of one profile; all if not given.")
]
Url = Annotated[
    str | None,
    Option(help=f"Use a running service instead of the database, such as {EXAMPLE}."),
]
TaughtUrl = Annotated[
    str | None,
    Option(
        help="The service to teach; by default the one at POSTBAYES_HOST and "
        "POSTBAYES_PORT."
    ),
]
Processes = Annotated[
    int | None,
    Option(min=1, max=256, help="Number of processes; one per core if not given."),
]
AsJson = Annotated[bool, Option("--json", help="Print one JSON object.")]
AsDocument = Annotated[
    bool, Option("--json", help="Print the JSON document of the HTTP API.")
]


def this_user() -> str:
    """Return the user who runs the command, for the events."""
    try:
        return f"cli:{pwd.getpwuid(os.geteuid()).pw_name}"
    # A container may run as a user id without a name.
    except KeyError:
        return f"cli:{os.geteuid()}"


def this_command() -> str:
    """Return the command that runs."""
    return shlex.join(["postbayes", *sys.argv[1:]])


def show(
    document: BaseModel | Mapping[str, object],
    lines: Iterable[RenderableType],
    *,
    as_json: bool,
    to: Console = OUT,
    otherwise: str = "",
) -> None:
    """Print a document as JSON, or as lines for people without control characters.

    Without a line, people get a sentence on standard error, where it is no line of a
    list to a program.
    """
    if as_json:
        from pydantic_core import to_jsonable_python  # noqa: PLC0415  only for --json

        to.print(
            json.dumps(to_jsonable_python(document, inf_nan_mode="null"))
            if isinstance(document, Mapping)
            else document.model_dump_json()
        )
        return
    for line in lines:
        to.print(plain(line) if isinstance(line, str) else line)
        otherwise = ""
    if otherwise:
        ERR.print(plain(otherwise))


def fields_of(thing: object, *names: str) -> dict[str, Any]:
    """Return some attributes of an object, for a document."""
    return {name: getattr(thing, name) for name in names}


def plain(words: str | Text, style: str = "") -> Text:
    """Return text from a file, without terminal control characters."""
    if isinstance(words, Text):
        return words
    return Text("".join(c if c.isprintable() else "\ufffd" for c in words), style)


def grid(
    header: Iterable[str | Text],
    rows: Iterable[Iterable[str | Text]],
    *,
    numbers: Container[int] = (),
) -> Table:
    """Return a table in full width.

    Parameters
    ----------
    header : iterable of str or Text
        The names of the columns.
    rows : iterable of iterable of str or Text
        The cells of each row.
    numbers : container of int
        The columns that are aligned on the right.
    """
    found = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for at, name in enumerate(header):
        justify: JustifyMethod = "right" if at in numbers else "left"
        found.add_column(plain(name), justify=justify, no_wrap=True)
    for row in rows:
        found.add_row(*map(plain, row))
    return found


@contextmanager
def interruptible(
    sentence: str, *, ending: Sequence[signal.Signals] = ENDING
) -> Iterator[None]:
    """Let Ctrl-C and other signals end a command with a sentence, and clean up.

    After Ctrl-C the exit code is that of the signal.  Other signals still kill the
    process, because its parent may check for that.

    Parameters
    ----------
    sentence : str
        Describes the state in which the work is left.
    ending : sequence of Signals, optional
        The other signals; ignored or already handled ones stay so.
    """
    received: list[int] = []
    usual = [each for each in ending if signal.getsignal(each) == signal.SIG_DFL]
    if threading.current_thread() is not threading.main_thread():
        # Only the main thread has signals.
        usual = []

    def handle(number: int, _: object) -> None:
        # `timeout` sends the signal twice; the second must not interrupt the clean-up.
        for each in usual:
            signal.signal(each, signal.SIG_IGN)
        received.append(number)
        raise KeyboardInterrupt

    try:
        for number in usual:
            signal.signal(number, handle)
        yield
    except KeyboardInterrupt:
        complain(sentence)
        if not received:
            raise typer.Exit(130) from None
    finally:
        for number in usual:
            signal.signal(number, signal.SIG_DFL)
        if received:
            os.kill(os.getpid(), received[0])


def progress() -> Progress:
    """Return a progress bar on standard error, shown only on terminals."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        console=ERR,
        transient=True,
        disable=not ERR.is_terminal,
    )


def stage(bar: Progress, name: str, total: int | None = None) -> Callable[[int], None]:
    """Show a stage of the work in place of the previous one.

    Returns
    -------
    callable
        Takes the number of steps done since its last call.
    """
    for task in bar.task_ids:
        bar.update(task, visible=False)
    task = bar.add_task(name, total=total or None, rate="")
    return lambda steps: bar.advance(task, steps)


def run_stage(bar: Progress, name: str, steps: Iterable[int]) -> None:
    """Show a stage while its steps are done."""
    show = stage(bar, name)
    for done in steps:
        show(done)


def located_stage(
    bar: Progress, name: str, total: int | None = None
) -> Callable[[int], None]:
    """Show a stage like `stage`; the callable takes the total steps done."""
    stage(bar, name, total)
    task = bar.task_ids[-1]
    return lambda done: bar.update(task, completed=done)


def confirm_forgetting(name: str, revision: int, *, option: str, end: str) -> None:
    """Ask whether to forget what a profile has learned, and end the command if not.

    Raises
    ------
    InvalidInput
        If nobody can be asked; the `end` of the sentence says how to continue.
    """
    learned = f"{name!r} has learned in {number_of(revision, 'revision')}"
    if not sys.stdin.isatty():
        raise InvalidInput(f"{option} forgets what the profile {learned}{end}")
    typer.confirm(f"Forget what {learned}?", abort=True, err=True)


def number_of(number: int, thing: str) -> str:
    """Return a number of things in words.

    Examples
    --------
    >>> number_of(1, "message"), number_of(2, "address")
    ('1 message', '2 addresses')
    """
    plural = "es" if thing.endswith("s") else "s"
    return f"{number:,} {thing}{'' if number == 1 else plural}"


def undo_of(source: str, *, profile: str) -> str:
    """Return the shell command that takes back the rows of a source.

    Examples
    --------
    >>> undo_of("undo:1", profile="default")
    'postbayes undo --profile default --source undo:1'
    """
    return shlex.join(["postbayes", "undo", "--profile", profile, "--source", source])


def read_standard(most: int) -> bytes:
    """Return at most so many bytes of standard input, and read the rest of it.

    A program that writes to a closed pipe ends with an error, and a mail server then
    takes the delivery for a failed one.
    """
    content = sys.stdin.buffer.read(most)
    while sys.stdin.buffer.read(most):
        pass
    return content


@contextmanager
def opened(file: str | Path) -> Iterator[BinaryIO]:
    """Open a file, or standard input, to read.

    Raises
    ------
    UnreadableSource
        If it cannot be read.
    """
    if str(file) == STANDARD:
        yield sys.stdin.buffer
        return
    with ExitStack() as stack:
        try:
            source = stack.enter_context(Path(file).open("rb"))
        except OSError as error:
            msg = f"{file} cannot be read: {error.strerror}"
            raise UnreadableSource(msg) from error
        yield source


@contextmanager
def complete_or_absent(path: Path) -> Iterator[Path]:
    """Give a path to write to, which is renamed to `path` on success, else removed.

    A device, a pipe or a link is written to as it is.

    Raises
    ------
    UnwritableFile
        If it cannot be written.
    """
    if not path.name or str(path) == STANDARD:
        raise UnwritableFile(f"{str(path)!r} is not the name of a file to write")
    part = path.with_name(path.name + ".part")
    try:
        # A rename would replace /dev/stdout for the whole machine.
        if path.is_symlink() or (path.exists() and not path.is_file()):
            yield path
            return
        # An older temporary file may belong to another user, who must not read the
        # copy.
        part.unlink(missing_ok=True)
        # Learned data is as private as the mail.
        part.touch(mode=0o600, exist_ok=False)
        yield part
        # Else a power cut might leave an empty file under the name.
        with part.open("rb") as written:
            os.fsync(written.fileno())
        part.replace(path)
    except OSError as error:
        msg = f"{path} cannot be written: {error.strerror or error}"
        raise UnwritableFile(msg) from error
    finally:
        # What prevents it has prevented the writing too, whose error says so.
        with suppress(OSError):
            part.unlink()


def new(file: Path) -> Path:
    """Check that a file does not exist yet, and return it.

    Raises
    ------
    InvalidInput
        If it exists: it may be the database in use, or the only good copy.
    """
    # This includes the log of an open database.
    if os.path.lexists(file):
        raise InvalidInput(f"{file} exists and is not replaced: give another name")
    return file


@contextmanager
def written(file: str) -> Iterator[BinaryIO]:
    """Open a new file or standard output to write; a file appears when complete."""
    if file == STANDARD:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with complete_or_absent(new(Path(file))) as part, part.open("wb") as target:
        yield target


def _open_no_link(path: str, flags: int) -> int:
    """Open a file in a folder of another user, whose link root must not follow."""
    return os.open(path, flags | os.O_NOFOLLOW)


@dataclass(frozen=True, slots=True)
class StateFile:
    """A file with the state of a command for the next run.

    Parameters
    ----------
    path : Path
        Path of the file; its folder is created.
    variable : str
        The setting that names it.
    """

    path: Path
    variable: str

    def read(self) -> str | None:
        """Return the text of the file; None if there is no file yet.

        Raises
        ------
        InvalidSetting
            If it cannot be read.
        """
        try:
            return self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            msg = f"{self.variable}, {self.path}, cannot be read: {reason(error)}"
            raise InvalidSetting(msg) from error

    def write(self, text: str) -> None:
        """Replace the file atomically: after a crash it has the old or the new text.

        Raises
        ------
        InvalidSetting
            If it cannot be written.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with (
                complete_or_absent(self.path.resolve()) as part,
                open(part, "w", encoding="utf-8", opener=_open_no_link) as file,
            ):
                file.write(text)
                # What root runs by hand, the service's user continues.
                if os.geteuid() == 0:
                    owner = part.parent.stat()
                    os.fchown(file.fileno(), owner.st_uid, owner.st_gid)
        except (OSError, UnwritableFile) as error:
            cause = reason(error.__cause__ or error)
            msg = f"{self.variable}, {self.path}, cannot be written: {cause}"
            raise InvalidSetting(msg) from error
