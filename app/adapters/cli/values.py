"""What is said of a value that an option cannot take? What it would have to be."""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Command(TyperCommand):
    """A command that says what is wrong with a value in words of its own.

    typer hands on those of pydantic, which are for programmers.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments; complain of the first that cannot be used."""
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            cause: Any = error.__cause__
            found: Sequence[Mapping[str, Any]] = getattr(cause, "errors", list)()
            if found:
                error.message = _wrong(found[0], str(error.message))
            raise


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
