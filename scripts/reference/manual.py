"""Page deploy/man/postbayes.1: the command line as a manual page, in roff."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from app import __version__
from app.doors.cli.main import COMMANDS, GROUPS, cli, load
from app.settings import Settings
from scripts.reference.commands import CODES, in_usage, runnable, value_of, written
from scripts.reference.settings import variable

if TYPE_CHECKING:
    from collections.abc import Iterator

_NOTICE: Final = '.\\" Written by `python scripts/reference` from the code.'
_CODE: Final = re.compile(r"`([^`]+)`")
_FILES: Final = {
    "/etc/postbayes/postbayes.env": "The settings of the service of a Debian package.",
    "postbayes.env": "The settings, in the working directory, unless "
    "`POSTBAYES_SETTINGS_FILE` names another file.",
    "var/postbayes.db": "The database, unless `POSTBAYES_DATABASE_URL` names another.",
}


def page() -> str:
    """Return the page."""
    return "\n".join((_NOTICE, *_lines())) + "\n"


def _lines() -> Iterator[str]:
    yield f'.TH POSTBAYES 1 "" "Postbayes {__version__}" "User Commands"'
    yield ".SH NAME"
    yield r"postbayes \- spam filter that learns online and explains every score"
    yield ".SH SYNOPSIS"
    yield r".B postbayes"
    yield r"[\fB\-\-version\fR] [\fB\-\-help\fR] \fICOMMAND\fR ..."
    yield ".SH DESCRIPTION"
    yield _text(str(cli.info.help))
    yield ".PP"
    yield _text(
        "Results go to standard output, progress and errors to standard error. "
        "Commands can run while services use the same database."
    )
    yield ".SH COMMANDS"
    for name in COMMANDS:
        if name in GROUPS:
            yield f".SS postbayes {name}"
            yield _text(load(name).help)
        for words, command in runnable(name).items():
            yield from _command(words, command)
    yield ".SH EXIT STATUS"
    for code in sorted(CODES):
        yield from _entry(f"{code}", CODES[code])
    yield ".SH ENVIRONMENT"
    yield from _entry("POSTBAYES_SETTINGS_FILE", "A file of settings, one per line.")
    for name, described in Settings.model_json_schema()["properties"].items():
        yield from _entry(variable(name), described["description"])
    yield ".SH FILES"
    for name, meaning in _FILES.items():
        yield from _entry(name, meaning)
    yield ".SH SEE ALSO"
    yield r".BR spamc (1),"
    yield r".BR rspamc (1),"
    yield r".BR systemctl (1)"


def _command(name: str, command: Any) -> Iterator[str]:
    words = [_text(in_usage(each)) for each in command.params]
    yield f".SS postbayes {name}"
    yield rf"\fBpostbayes {name}\fR " + " ".join(words)
    for part in re.split(r"\n\s*\n", command.help.strip()):
        yield ".PP"
        yield _text(part)
    for each in command.params:
        argument = each.param_type_name == "argument"
        yield from _entry(value_of(each) if argument else written(each), each.help)


def _entry(name: str, meaning: str) -> Iterator[str]:
    yield ".TP"
    yield rf"\fB{_text(name)}\fR"
    yield _text(meaning)


def _text(text: str) -> str:
    """Return a text that roff prints as it stands; code is bold."""
    said = " ".join(text.split()).replace("\\", r"\e").replace("-", r"\-")
    said = _CODE.sub(r"\\fB\1\\fR", said)
    # A dot or an apostrophe begins a request.
    return rf"\&{said}" if said.startswith((".", "'")) else said
