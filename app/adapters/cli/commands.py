"""Which commands are there?

Contract of this file: it imports none of them before it is called.  All of them
together take more than a second of CPU, and `--help` needs none of that.
"""

from __future__ import annotations

import gc
from importlib import import_module
from typing import Any, Final, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from app.adapters.cli.loading import EndedByCtrlC
from app.adapters.cli.values import Command


class Place(NamedTuple):
    """Where the function of a command is, and the line that lists have of it."""

    module: str
    function: str
    summary: str


COMMANDS: Final[dict[str, Place]] = {
    "serve": Place(
        "serve",
        "serve",
        "Serve HTTP. An empty or older database is migrated first.",
    ),
    "learn": Place("learn", "learn", "Learn labelled mail, one transaction per batch."),
    "classify": Place(
        "mail",
        "classify",
        "Score messages without learning from them, and say why.",
    ),
    "feedback": Place(
        "mail", "feedback", "Teach one message, durably; or take one back."
    ),
    "undo": Place(
        "undo", "undo", "Take back what was taught, as if it had never been."
    ),
    "fold": Place(
        "fold",
        "fold",
        "Add to the counts what was taught since they were last brought up to date.",
    ),
    "prune": Place(
        "prune",
        "prune",
        "Take features out that say next to nothing, all of it long ago.",
    ),
    "figures": Place(
        "insight",
        "figures",
        "Tell how well the filter does on the mail that people labelled.",
    ),
    "word": Place(
        "insight",
        "word",
        "Tell how often a word was learned, month by month, and what it says.",
    ),
    "evaluate": Place(
        "evaluate",
        "evaluate",
        "Score labelled mail by a filter that learns it, and print the figures.",
    ),
    "lab": Place(
        "lab",
        "lab",
        "Fit naive Bayes to a table, print what it learned, and predict rows.",
    ),
    "audit": Place(
        "profiles",
        "audit",
        "Prove that the count tables and the ledger agree, to the last message.",
    ),
    "profiles": Place(
        "profiles",
        "profiles",
        "List the profiles, or make one. A running service notices within a second.",
    ),
    "policy": Place(
        "policy", "policy", "Show what a profile decides by, or change it."
    ),
    "imap": Place(
        "imap",
        "imap",
        "Follow Junk and the inbox of a mailbox, and teach what is moved between them.",
    ),
    "backup": Place(
        "backup",
        "backup",
        "Copy an SQLite database to a file, while the service goes on.",
    ),
    "export": Place(
        "export",
        "export",
        "Write what a profile has learned to a file, for `postbayes import`.",
    ),
    "import": Place(
        "importing",
        "import_",
        "Learn an export of Postbayes, or the dump of another filter.",
    ),
}
"""The commands, in the order in which lists have them."""


class Commands(TyperGroup):
    """A group that knows a line of each command, and imports what is called."""

    def __init__(self, **given: Any) -> None:
        lines = {
            name: TyperCommand(name, callback=None, help=place.summary)
            for name, place in COMMANDS.items()
        }
        super().__init__(**given | {"commands": lines})

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the name of what is called, the whole of it, and its arguments."""
        name, _, rest = super().resolve_command(ctx, args)
        return name, load(args[0]), rest


def load(name: str) -> Any:
    """Return a command as typer makes it from its function."""
    place = COMMANDS[name]
    # What modules make stays.  Python's collector would walk it again and again, which
    # is a sixth of the CPU that it takes to import what serves.
    gc.disable()
    try:
        with EndedByCtrlC():
            module = import_module(f"app.adapters.cli.{place.module}")
    finally:
        gc.enable()
    one = typer.Typer(
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",
    )
    one.command(name, cls=Command)(getattr(module, place.function))
    return typer.main.get_command(one)
