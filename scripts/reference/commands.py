"""Page docs/reference/commands.md: the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from app.doors.cli.main import COMMANDS, EXIT, GROUPS, load, word_of
from scripts.reference.markdown import block, document, paragraphs, sentences, table

if TYPE_CHECKING:
    from collections.abc import Iterator

_INTRODUCTION: Final = """
Results go to standard output, progress and errors to standard error. An error is one
line that begins with `postbayes:`. Every command takes `--help`. The settings come from
the environment or a file: see [settings.md](settings.md). Commands can run while
services use the same database.
"""

CODES: Final = {
    0: "Done; or `serve` was interrupted with Ctrl-C, or with several workers, was "
    "stopped by SIGTERM.",
    1: "`audit` or `backup --audit` found a difference, or `backup` damaged features; "
    "the question of `import "
    "--replace` or `profiles delete` was answered with no, or that of `people` for "
    "a password not at all; or Postbayes has a defect, and prints a traceback.",
    2: "The command line is wrong: an unknown command or option, "
    "or a value out of range.",
    3: "`serve` could not start: its port is in use, its address does not belong to "
    "this machine, or a worker failed to start.",
    65: "The input cannot be used, for the reason in the error (EX_DATAERR).",
    70: "Stored data are contradictory, the database is of a newer version, or a "
    "message was skipped because of a defect of Postbayes (EX_SOFTWARE).",
    74: "The system could not read or write, for example because the disk is full "
    "(EX_IOERR).",
    75: "The database, or the service at `--url`, is unavailable; or a table or right "
    "is missing in the database; or its tables are of an older version; or memory is "
    "too small. Try again later, as mail servers do (EX_TEMPFAIL).",
    77: "The service at `--url` requires a key (POSTBAYES_API_KEY), or the key lacks "
    "the right (EX_NOPERM).",
    78: "A setting cannot be used; or the database cannot, because of its encoding, "
    "or because its user may not create tables (EX_CONFIG).",
    130: "Interrupted with Ctrl-C, `serve` only before it serves. Committed work is "
    "kept.",
    141: "The reader of the output stopped reading, as `head` does.",
    143: "Stopped by SIGTERM: `serve` has answered all accepted requests, and `imap` "
    "remembers the mail that it taught; other commands keep committed work, as "
    "after Ctrl-C.",
}
"""Meaning of each exit code."""

_COMMON: Final = (2, 70, 74, 75, 78, 130)
EXITS: Final[dict[str, tuple[int, ...]]] = {
    "serve": (0, 2, 3, 70, 75, 78, 130, 143),
    "learn": (*_COMMON, 0, 65),
    "classify": (*_COMMON, 0, 65, 77),
    "feedback": (*_COMMON, 0, 65, 77),
    "undo": (*_COMMON, 0, 65),
    "fold": (*_COMMON, 0, 65),
    "prune": (*_COMMON, 0, 65),
    "figures": (*_COMMON, 0, 65),
    "teachers": (*_COMMON, 0, 65),
    "why": (*_COMMON, 0, 65),
    "word": (*_COMMON, 0, 65),
    "evaluate": (*_COMMON, 0, 65),
    "lab": (0, 2, 65, 74, 75, 130),
    "audit": (*_COMMON, 0, 1, 65),
    "profiles": (*_COMMON, 0, 1, 65),
    "policy": (*_COMMON, 0, 65),
    "lists": (*_COMMON, 0, 65),
    "keys": (*_COMMON, 0, 65),
    "people": (*_COMMON, 0, 1, 65),
    "correspondents": (*_COMMON, 0, 65),
    "events": (*_COMMON, 0),
    "digest": (*_COMMON, 0, 65),
    "forwarded": (0, 2, 74, 75, 130),
    "imap": (0, 2, 65, 70, 74, 75, 78, 130, 143),
    "migrate": (0, *_COMMON),
    "backup": (*_COMMON, 0, 1, 65),
    "export": (*_COMMON, 0, 65),
    "import": (*_COMMON, 0, 1, 65),
}
"""With which codes each command may end."""


def runnable(name: str) -> dict[str, Any]:
    """Return a command by its name, or each action of a group by both words."""
    command = load(name)
    actions: dict[str, Any] = getattr(command, "commands", {})
    return {f"{name} {word}": each for word, each in actions.items()} or {name: command}


def page() -> str:
    """Return the page."""
    missing = (set(EXIT.values()) | {0, 1, 2, 130}) - CODES.keys()
    if missing:
        msg = f"CODES lacks the meaning of the exit codes {sorted(missing)}"
        raise LookupError(msg)
    codes = table(
        ("code", "meaning"), ((f"{code}", CODES[code]) for code in sorted(CODES))
    )
    top = block("text", "postbayes [--version] [--help] COMMAND ...")
    index = table(
        ("command", "purpose"),
        (
            (f"[`{name}`](#{name})", load(name).help.split("\n\n")[0])
            for name in COMMANDS
        ),
    )
    return document(
        "Commands",
        sentences(_INTRODUCTION),
        top,
        index,
        *map(_section, COMMANDS),
        f"## Exit codes\n\n{_CODES_NOTE}\n\n{codes}",
    )


_CODES_NOTE: Final = (
    "The codes from 64 up are those of `sysexits.h`, which mail servers read.\n"
    "[errors.md](errors.md) has the code of each error."
)


def _section(name: str) -> str:
    parts = [f"## {name}"]
    if name in GROUPS:
        parts.append(paragraphs(load(name).help))
    for words, command in runnable(name).items():
        if name in GROUPS:
            parts.append(f"### {words}")
        parts += _command(words, command)
    codes = ", ".join(f"{code}" for code in sorted(EXITS[name]))
    parts.append(f"Exit codes: {codes}; see [below](#exit-codes).")
    return "\n\n".join(parts)


def _command(name: str, command: Any) -> Iterator[str]:
    yield paragraphs(command.help)
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option"]
    usage = [f"postbayes {name}", *map(in_usage, (*options, *arguments))]
    yield block("text", _wrapped(usage))
    if arguments:
        meanings = [(f"`{value_of(p)}`", p.help) for p in arguments]
        yield table(("argument", "meaning"), meanings)
    rows = [
        (f"`{written(p)}`", _range(p.help, p.min, p.max), _default(p)) for p in options
    ]
    if rows:
        yield table(("option", "meaning", "default"), rows)


def in_usage(parameter: Any) -> str:
    """Return a parameter as a line of usage has it: in brackets unless required."""
    return written(parameter) if parameter.required else f"[{written(parameter)}]"


def written(parameter: Any) -> str:
    """Return a parameter as one writes it."""
    if parameter.param_type_name == "argument":
        return value_of(parameter)
    names = "/".join((*parameter.opts, *parameter.secondary_opts))
    return names if parameter.is_flag else f"{names} {value_of(parameter)}"


def value_of(parameter: Any) -> str:
    """Return a word for the value of a parameter."""
    name = str(parameter.metavar or word_of(parameter))
    return f"{name}..." if parameter.nargs < 0 else name


def _range(meaning: str, low: int | None, high: int | None) -> str:
    if low is None:
        return meaning
    bounds = f"{low} or more" if high is None else f"{low} to {high}"
    return f"{meaning} {bounds}."


def _default(parameter: Any) -> str:
    value = parameter.default
    if parameter.required:
        return "required"
    return "" if value is None or value == "" or value is False else f"`{value}`"


def _wrapped(words: list[str]) -> str:
    """Return words in lines of a width that no terminal decides."""
    lines = words[:1]
    for word in words[1:]:
        if len(lines[-1]) + len(word) < 78:  # noqa: PLR2004
            lines[-1] += " " + word
        else:
            lines.append("    " + word)
    return "\n".join(lines)
