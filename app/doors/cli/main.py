"""The command `postbayes`: its subcommands, their errors and exit codes.

Contract of this file: a subcommand is imported only when it is called.  Importing all
takes more than a second of CPU, which `--help` does not need.
"""

from __future__ import annotations

import ast
import gc
import logging
import os
import signal
import sys
from functools import cache
from importlib import import_module
from keyword import iskeyword
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer._click.exceptions import ClickException, NoArgsIsHelpError, UsageError
from typer.core import TyperCommand, TyperGroup

from app import __version__, errors
from app.doors import described
from app.doors.cli import Complaints, complain, ended_by_ctrl_c

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# File names are bytes, which need not be valid text.
_FILES: Final = {"file", "paths", "database_url"}


_VALUES: Final = {
    bool: "",
    str: "TEXT",
    int: "NUMBER",
    float: "NUMBER",
    Path: "PATH",
    list[str]: "TEXT",
    list[Path]: "PATH...",
}


def word_of(parameter: Any) -> str:
    """Return the word for the value of a parameter that has none of its own.

    For an option, it is that of its type; for an argument or a choice, its name.
    """
    name: str = parameter.name.upper()
    if parameter.param_type_name == "argument":
        return name
    return _VALUES.get(parameter.type_descriptor.annotation, name)


class _PlainValues:
    """Help that names the values of parameters as the reference does."""

    def get_params(self, ctx: Any) -> Any:
        """Return the parameters of a command."""
        parameters: Any = super().get_params(ctx)  # type: ignore[misc]
        for each in parameters:
            each.metavar = each.metavar or word_of(each)
        return parameters


class CheckedCommand(_PlainValues, TyperCommand):
    """A command with error messages for users.

    typer passes on the messages of pydantic, which are for programmers, and accepts any
    bytes as text.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments; report the first invalid one."""
        try:
            rest: list[str] = super().parse_args(ctx, args)
        except UsageError as error:
            # The error of an option without its value does not know the command.
            error.ctx = error.ctx or ctx
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
            problem = f"{value!r} is not a whole number."
        case "int_parsing_size":
            problem = "the number has too many digits."
        case "float_parsing":
            problem = f"{value!r} is not a number."
        case "greater_than_equal" | "less_than_equal" if isnan(float(value)):
            problem = f"{value!r} is not a number."
        case "greater_than_equal":
            problem = f"{value} is too small: {more['ge']} or more."
        case "less_than_equal":
            problem = f"{value} is too large: {more['le']} or less."
        case "value_error":
            # For a choice: the possible values.
            problem = str(more["error"])
        case _:
            problem = otherwise
    return problem


FILES: Final = {
    "serve": ("serve",),
    "learn": ("learn",),
    "classify": ("classify", "why", "feedback"),
    "upkeep": ("undo", "fold", "prune", "audit", "backup", "migrate"),
    "figures": ("figures", "teachers", "word"),
    "evaluate": ("evaluate",),
    "lab": ("lab",),
    "profiles": ("profiles", "policy"),
    "access": ("lists", "keys", "people", "correspondents", "events"),
    "imap": ("imap",),
    "forwarded": ("forwarded",),
    "digest": ("digest",),
    "transfer": ("export", "import"),
}
"""The commands of each module, in the order of `--help`.

A command is the function with its name.  `import` is a keyword of Python, so its
function ends in an underscore.
"""
GROUPS: Final = {
    "profiles": "List, create, rename and delete profiles.",
    "lists": "Show, set and remove the allow and deny entries of a profile.",
    "keys": "List, create and revoke API keys.",
    "people": "List, add and remove the people who may sign in to the pages, and set "
    "their passwords.",
    "correspondents": "Show the number of correspondents of users, and forget one of "
    "them.",
}
"""The commands with actions: the functions that begin with their names."""
_FIRST: Final = "list"
"""The action that is done if none is named."""
COMMANDS: Final = {name: file for file, names in FILES.items() for name in names}
"""The module of each command."""


def _function(name: str) -> str:
    """Return the name of a command's function."""
    return f"{name}_" if iskeyword(name) else name


@cache
def _docstrings(file: str) -> dict[str, str]:
    """Return the docstrings of the functions of a module, without importing it."""
    source = Path(__file__).with_name(f"{file}.py").read_text("utf-8")
    functions = (e for e in ast.parse(source).body if isinstance(e, ast.FunctionDef))
    return {each.name: ast.get_docstring(each) or "" for each in functions}


def summary(name: str) -> str:
    """Return the first paragraph of a command's help, without importing the command."""
    if name in GROUPS:
        return GROUPS[name]
    docstring = _docstrings(COMMANDS[name])[_function(name)]
    return " ".join(docstring.partition("\n\n")[0].split())


class Commands(_PlainValues, TyperGroup):
    """A group that lists all commands, and imports the one that is called."""

    def __init__(self, **given: Any) -> None:
        lines = {name: TyperCommand(name, callback=None) for name in COMMANDS}
        super().__init__(**given | {"commands": lines})

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help, with a line for each command."""
        for name, command in self.commands.items():
            command.help = summary(name)
        super().format_help(ctx, formatter)

    def invoke(self, ctx: Any) -> Any:
        """Call a command; the reader of its output may stop early, as `head` does."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            _discard_output()
            sys.exit(128 + signal.SIGPIPE)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the name of the command, the command, and its arguments."""
        name, _, rest = super().resolve_command(ctx, args)
        return name, load(args[0]), rest


class ActionGroup(_PlainValues, TyperGroup):
    """A group with the actions of a command."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Read the name of the action and its arguments."""
        if not args or (args[0].startswith("-") and args != ["--help"]):
            args = [_FIRST, *args]
        return super().parse_args(ctx, args)


@cache
def load(name: str) -> Any:
    """Return a command, or a group with its actions."""
    # Objects of modules are permanent.  Python's collector would traverse them again
    # and again, which takes a sixth of the CPU time of importing the service.
    gc.disable()
    try:
        with ended_by_ctrl_c():
            module = import_module(f"app.doors.cli.{COMMANDS[name]}")
    finally:
        gc.enable()
    if name not in GROUPS:
        return _command(name, getattr(module, _function(name)))
    actions = {
        function.removeprefix(f"{name}_"): getattr(module, function)
        for function in _docstrings(COMMANDS[name])
        if function.startswith(f"{name}_")
    }
    return ActionGroup(
        name=name,
        commands={action: _command(action, each) for action, each in actions.items()},
        help=f"{GROUPS[name]}\n\nWithout an action, it is `{name} {_FIRST}`.",
        subcommand_metavar="ACTION ...",
    )


def _command(name: str, function: Any) -> Any:
    """Return the typer command for a function."""
    says, meanings = described(function)
    one = typer.Typer(
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",
    )
    one.command(name, cls=CheckedCommand, help=says)(function)
    command: Any = typer.main.get_command(one)
    for each in command.params:
        each.help = each.help or meanings.get(each.name)
        # Of `--x/--no-x`: a flag is off unless it is named.
        each.secondary_opts = []
    return command


# The codes of sysexits.h, which mail servers understand: EX_TEMPFAIL keeps a message in
# the queue for another try.
EXIT: Final[dict[type[errors.PostbayesError], int]] = {
    errors.InvalidSetting: os.EX_CONFIG,
    errors.InvalidInput: os.EX_DATAERR,
    errors.NotFound: os.EX_DATAERR,
    errors.Conflict: os.EX_DATAERR,
    errors.Unavailable: os.EX_TEMPFAIL,
    errors.TooManyRequests: os.EX_TEMPFAIL,
    errors.Unauthenticated: os.EX_NOPERM,
    errors.Forbidden: os.EX_NOPERM,
    errors.UnwritableFile: os.EX_IOERR,
    errors.PostbayesError: os.EX_SOFTWARE,
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
        message = " ".join(error.format_message().split()).rstrip(".")
        end = "" if message.endswith("?") else "."
        complain(f"{message[:1].lower()}{message[1:]}{end} See `{where} --help`.")
        sys.exit(error.exit_code)
    except typer.Abort:
        # A no, or the end of the input.
        complain("stopped at the question")
        sys.exit(1)
    except KeyboardInterrupt:
        # Only outside of commands, which report themselves what they leave undone.
        sys.exit(130)
    except errors.PostbayesError as error:
        way_out = (
            " docs/troubleshooting.md shows how to repair it (Damaged features)."
            if isinstance(error, errors.CorruptVector)
            else ""
        )
        complain(f"{error}{way_out}")
        sys.exit(exit_code(error))
    except (MemoryError, OSError, ImportError, RuntimeError) as error:
        if _is_lack(error):
            complain(
                "there is not enough memory, or no room for another thread; try again "
                "with higher limits, or while less else runs"
            )
            sys.exit(os.EX_TEMPFAIL)
        if not isinstance(error, OSError):
            raise
        complain(f"input or output failed: {errors.reason(error)}")
        try:
            sys.stdout.flush()
        except OSError:
            _discard_output()
        sys.exit(os.EX_IOERR)


def _discard_output() -> None:
    """Discard what is left to write: at the end, Python would fail at it once more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _is_lack(error: BaseException | None) -> bool:
    """Return whether memory or a thread was refused, in the words of whoever asked.

    Examples
    --------
    >>> _is_lack(OSError("libz.so: failed to map segment from shared object"))
    True
    >>> _is_lack(RuntimeError("can't start new thread"))
    True
    >>> _is_lack(OSError("no such file"))
    False
    """
    # The loader of libraries, and Python's threads, have no error of their own for it;
    # and numba reports only that it cannot find its library.
    while error is not None:
        if isinstance(error, MemoryError) or any(
            words in str(error)
            for words in ("failed to map segment", "can't start new thread")
        ):
            return True
        error = error.__cause__ or error.__context__
    return False
