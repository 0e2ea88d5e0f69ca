"""The command `postbayes`: its subcommands, their errors and exit codes.

Contract of this file: a subcommand is imported only when it is called.  Importing all
takes more than a second of CPU, which `--help` does not need.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
from importlib import import_module
from keyword import iskeyword
from math import isnan
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer._click.exceptions import ClickException, NoArgsIsHelpError
from typer.core import TyperCommand, TyperGroup

from app import __version__, errors
from app.doors.cli.errors import Complaints, complain, ended_by_ctrl_c

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# File names are bytes, which need not be valid text.
_FILES: Final = {"file", "paths", "database_url"}


class CheckedCommand(TyperCommand):
    """A command with error messages for users.

    typer passes on the messages of pydantic, which are for programmers, and accepts any
    bytes as text.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments; report the first invalid one."""
        try:
            rest: list[str] = super().parse_args(ctx, args)
        except typer.BadParameter as error:
            cause: Any = error.__cause__
            found: Sequence[Mapping[str, Any]] = getattr(cause, "errors", list)()
            if found:
                error.message = _wrong(found[0], str(error.message))
            raise
        parameter: Any
        for parameter in self.params:
            wrong = _no_text(ctx.params.get(parameter.name))
            if wrong and parameter.name not in _FILES:
                raise typer.BadParameter(wrong, ctx=ctx, param=parameter)
        return rest


def _no_text(value: object) -> str | None:
    """Return why a value is not valid text; None if it is.

    Python represents an undecodable byte of an argument by a lone surrogate, which
    databases refuse.
    """
    for each in value if isinstance(value, (list, tuple)) else (value,):
        if isinstance(each, str) and not each.isascii():
            try:
                each.encode()
            except UnicodeEncodeError:
                return f"{os.fsencode(each)!r} is not valid UTF-8."
    return None


def _wrong(found: Mapping[str, Any], otherwise: str) -> str:
    """Return the error of pydantic about a value as a sentence."""
    value, more = found["input"], found.get("ctx", {})
    match found["type"]:
        case "int_parsing" | "int_from_float":
            said = f"{value!r} is not a whole number."
        case "int_parsing_size":
            said = "the number has too many digits."
        case "float_parsing":
            said = f"{value!r} is not a number."
        case "greater_than_equal" | "less_than_equal" if isnan(float(value)):
            said = f"{value!r} is not a number."
        case "greater_than_equal":
            said = f"{value} is too small: {more['ge']} or more."
        case "less_than_equal":
            said = f"{value} is too large: {more['le']} or less."
        case "value_error":
            # For a choice: the possible values.
            said = str(more["error"])
        case _:
            said = otherwise
    return said


COMMANDS: Final = {
    "serve": "Serve HTTP. An empty or older database is migrated first.",
    "learn": "Learn labelled mail.",
    "classify": "Score messages without learning them, and explain the verdict.",
    "why": "Show how a message was scored and taught, and explain it.",
    "feedback": "Teach one message, or forget one.",
    "undo": "Take back feedback exactly.",
    "fold": "Bring the counts up to date with the ledger.",
    "prune": "Remove old features that carry almost no information.",
    "figures": "Show the accuracy of the filter on labelled mail.",
    "teachers": "Show the sources of labels, and which of them contradict the "
    "filter or others.",
    "word": "Show how often a word was learned, month by month, and its evidence.",
    "evaluate": "Measure the accuracy of the filter on labelled mail.",
    "lab": "Fit a model to a table, print what it learned, and predict rows.",
    "audit": "Check that the counts agree exactly with the ledger.",
    "profiles": "List the profiles, or create, rename or delete one.",
    "policy": "Show or change the policy of a profile.",
    "lists": "Show, set and remove the allow and deny entries of a profile.",
    "keys": "Create, list and revoke API keys.",
    "people": "Add, list and remove the people who may sign in to the pages.",
    "correspondents": "Show the number of correspondents of users, and forget one "
    "of them.",
    "events": "Show the changes outside the ledger and who made them, newest first.",
    "imap": "Follow a mailbox, and teach the messages moved into and out of Junk.",
    "forwarded": "Teach the messages attached to a forwarded message.",
    "digest": "Send users a digest of their spam and unsure messages.",
    "migrate": "Migrate an older database to this version, as `serve` does.",
    "backup": "Copy an SQLite database to a file while the service runs.",
    "export": "Export a profile to a file, for `postbayes import`.",
    "import": "Import an export of Postbayes, or the dump of another filter.",
}
"""The line for each command in `--help`, in this order."""
FILES: Final = {
    "access": ("keys", "people", "events", "lists", "correspondents"),
    "classify": ("classify", "why", "feedback"),
    "figures": ("figures", "teachers", "word"),
    "profiles": ("profiles", "policy"),
    "transfer": ("export", "import"),
    "upkeep": ("fold", "prune", "undo", "audit", "backup", "migrate"),
}
"""The modules of several commands; any other command is in the module of its name.

A command is the function with its name.  `import` is a keyword of Python, so its
function ends in an underscore.
"""


class Commands(TyperGroup):
    """A group that lists all commands, and imports the one that is called."""

    def __init__(self, **given: Any) -> None:
        lines = {
            name: TyperCommand(name, callback=None, help=summary)
            for name, summary in COMMANDS.items()
        }
        super().__init__(**given | {"commands": lines})

    def invoke(self, ctx: Any) -> Any:
        """Call a command; the reader of its output may stop early, as `head` does."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # Discards buffered output, without an error message.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(128 + signal.SIGPIPE)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the name of the command, the command, and its arguments."""
        name, _, rest = super().resolve_command(ctx, args)
        return name, load(args[0]), rest


def load(name: str) -> Any:
    """Return the typer command for a function."""
    file = next((file for file, names in FILES.items() if name in names), name)
    # Objects of modules are permanent.  Python's collector would traverse them again
    # and again, which takes a sixth of the CPU time of importing the service.
    gc.disable()
    try:
        with ended_by_ctrl_c():
            module = import_module(f"app.doors.cli.{file}")
    finally:
        gc.enable()
    one = typer.Typer(
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",
    )
    function = getattr(module, f"{name}_" if iskeyword(name) else name)
    one.command(name, cls=CheckedCommand)(function)
    return typer.main.get_command(one)


# The codes of sysexits.h, which mail servers understand: 75 keeps a message in the
# queue for another try.
EXIT: Final[dict[type[errors.PostbayesError], int]] = {
    errors.InvalidSetting: 78,  # EX_CONFIG
    errors.InvalidInput: 65,  # EX_DATAERR
    errors.NotFound: 65,
    errors.Conflict: 65,
    errors.Unavailable: 75,  # EX_TEMPFAIL
    errors.TooManyRequests: 75,
    errors.Unauthenticated: 77,  # EX_NOPERM
    errors.Forbidden: 77,
    errors.PostbayesError: 70,  # EX_SOFTWARE
}
"""The nearest class in the line of ancestors decides."""
_NAME: Final = "postbayes"
cli = typer.Typer(
    name=_NAME,
    cls=Commands,
    help="A spam filter that learns online with naive Bayes, explains every score, "
    "and forgets exactly.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


def _version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"postbayes {__version__}\n")
        raise typer.Exit


@cli.callback()
def options(
    _: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_version,
            is_eager=True,
            help="Print the version and stop.",
        ),
    ] = False,
) -> None:
    """Handle the options before the command."""


def exit_code(error: errors.PostbayesError) -> int:
    """Return the exit code of an error."""
    return errors.answer_to(error, EXIT)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command, and turn an error into one line and its exit code."""
    # Only without another handler: `serve` and `imap` have a log.
    logging.lastResort = Complaints(logging.WARNING)
    try:
        sys.exit(cli(arguments, standalone_mode=False, prog_name=_NAME) or 0)
    except NoArgsIsHelpError as error:
        error.show()
        sys.exit(error.exit_code)
    except ClickException as error:
        context = getattr(error, "ctx", None)
        where = context.command_path if context else _NAME
        said = " ".join(error.format_message().split()).rstrip(".")
        end = "" if said.endswith("?") else "."
        complain(f"{said[:1].lower()}{said[1:]}{end} See `{where} --help`.")
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        # Only outside of commands, which report themselves what they leave undone.
        sys.exit(130)
    except errors.PostbayesError as error:
        complain(str(error))
        sys.exit(exit_code(error))
    except OSError as error:
        complain(f"the system refused: {errors.reason(error)}")
        sys.exit(74)  # EX_IOERR
