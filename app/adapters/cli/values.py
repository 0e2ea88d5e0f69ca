"""What is said of a value that an option cannot take? What it would have to be."""

from __future__ import annotations

import os
from math import isnan
from typing import TYPE_CHECKING, Any, Final

import typer
from typer.core import TyperCommand

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Given as text, and names of files: those are bytes, and whatever they are the file
# is found by them.
_FILES: Final = {"file", "database_url"}


class Command(TyperCommand):
    """A command that says what is wrong with a value in words of its own.

    typer hands on those of pydantic, which are for programmers, and takes any bytes
    as text.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments; complain of the first that cannot be used."""
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
    """Return what is wrong with what is no text, None where nothing is.

    Python gives a byte of an argument that it cannot decode as half a surrogate pair,
    which no database takes.
    """
    for each in value if isinstance(value, (list, tuple)) else (value,):
        if isinstance(each, str) and not each.isascii():
            try:
                each.encode()
            except UnicodeEncodeError:
                return f"{os.fsencode(each)!r} is no text in UTF-8."
    return None


def _wrong(found: Mapping[str, Any], otherwise: str) -> str:
    """Return what is wrong with a value, from what pydantic found."""
    value, more = found["input"], found.get("ctx", {})
    match found["type"]:
        case "int_parsing" | "int_from_float":
            said = f"{value!r} is no whole number."
        case "int_parsing_size":
            said = "a number of so many digits is too large."
        case "float_parsing":
            said = f"{value!r} is no number."
        case "greater_than_equal" | "less_than_equal" if isnan(float(value)):
            said = f"{value!r} is no number."
        case "greater_than_equal":
            said = f"{value} is too small: {more['ge']} or more."
        case "less_than_equal":
            said = f"{value} is too large: {more['le']} or less."
        case "value_error":
            # Of a choice: what there is to choose from.
            said = str(more["error"])
        case _:
            said = otherwise
    return said
