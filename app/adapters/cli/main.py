"""The command `postbayes`: arguments in, use cases called, exit codes out."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Final

import typer

from app import __version__, errors
from app.adapters.cli.backup import backup
from app.adapters.cli.console import complain
from app.adapters.cli.evaluate import evaluate
from app.adapters.cli.export import export
from app.adapters.cli.fold import fold
from app.adapters.cli.imap import imap
from app.adapters.cli.importing import import_
from app.adapters.cli.insight import figures, word
from app.adapters.cli.lab import lab
from app.adapters.cli.learn import learn
from app.adapters.cli.mail import classify, feedback
from app.adapters.cli.policy import policy
from app.adapters.cli.profiles import audit, profiles
from app.adapters.cli.prune import prune
from app.adapters.cli.serve import serve
from app.adapters.cli.undo import undo

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


for command in (
    serve,
    learn,
    classify,
    feedback,
    undo,
    fold,
    prune,
    figures,
    word,
    evaluate,
    lab,
    audit,
    profiles,
    policy,
    imap,
    backup,
    export,
):
    cli.command()(command)
cli.command("import")(import_)


def exit_code(error: errors.PostbayesError) -> int:
    """Return the exit code of an error."""
    return next(EXIT[cls] for cls in type(error).__mro__ if cls in EXIT)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command, and turn an error into one line and its exit code."""
    try:
        cli(arguments)
    except errors.PostbayesError as error:
        complain(str(error))
        sys.exit(exit_code(error))
    except OSError as error:
        complain(f"the system refused: {error}")
        sys.exit(74)  # EX_IOERR
