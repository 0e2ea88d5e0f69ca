"""The command `postbayes`: arguments in, use cases called, exit codes out."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Annotated, Final

import typer

from app import __version__, errors
from app.adapters.cli.commands import Commands
from app.adapters.cli.complaint import Complaints, complain

if TYPE_CHECKING:
    from collections.abc import Sequence

# The codes of sysexits.h, which mail servers read: 75 keeps a message in the
# queue for another try.
EXIT: Final[dict[type[errors.PostbayesError], int]] = {
    errors.InvalidSetting: 78,  # EX_CONFIG
    errors.InvalidInput: 65,  # EX_DATAERR
    errors.NotFound: 65,
    errors.Conflict: 65,
    errors.Unavailable: 75,  # EX_TEMPFAIL
    errors.PostbayesError: 70,  # EX_SOFTWARE
}
"""The nearest class in the line of ancestors decides."""

cli = typer.Typer(
    name="postbayes",
    cls=Commands,
    help="A spam filter that learns online with naive Bayes, explains every score, "
    "and forgets exactly.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


def _version(asked: bool) -> None:  # noqa: FBT001  typer calls it so
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
    """Take the options that stand before the command."""


def exit_code(error: errors.PostbayesError) -> int:
    """Return the exit code of an error."""
    return next(EXIT[cls] for cls in type(error).__mro__ if cls in EXIT)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command, and turn an error into one line and its exit code."""
    # Where nothing else is set up: `serve` and `imap` keep a log.
    logging.lastResort = Complaints(logging.WARNING)
    try:
        cli(arguments)
    except KeyboardInterrupt:
        # Around the command. One that is at work says what is kept.
        sys.exit(130)
    except errors.PostbayesError as error:
        complain(str(error))
        sys.exit(exit_code(error))
    except OSError as error:
        complain(f"the system refused: {error}")
        sys.exit(74)  # EX_IOERR
