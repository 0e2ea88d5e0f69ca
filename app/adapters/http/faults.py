"""What is wrong with what was sent? Said in the words of whoever sent it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple, get_args

from pydantic import BaseModel

from app.adapters.schemas.source import PRINTABLE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

# Of a document with many things wrong, and of a name that somebody made up.
_SHOWN: Final = 5
_LONGEST: Final = 64

# That a value is of another kind than one of those that a field takes.
_OF_ANOTHER_KIND: Final = ("model_type", "literal_error")


class Fault(NamedTuple):
    """One thing that is wrong.

    Parameters
    ----------
    place : tuple of str or int
        Names and indexes on the way to it, as the sender wrote them.
    kind : str
        What the reader calls it.
    sentence : str
        What the reader says, without naming the place.
    choice : tuple of str or int, or None
        The place of a value that may be of several kinds, where it is in one of them.
    """

    place: tuple[str | int, ...]
    kind: str
    sentence: str
    choice: tuple[str | int, ...] | None

    @classmethod
    def of(cls, error: Mapping[str, Any]) -> Fault:
        """Return what an error of the reader is about.

        Examples
        --------
        >>> loc = "reject_from", "function-after[_in_one_way(), ThresholdIn]", "p"
        >>> Fault.of({"loc": loc, "type": "extra_forbidden", "msg": "No"}).place
        ('reject_from', 'p')
        """
        kind, way = error["type"], error["loc"]
        # An unknown name is the sender's, whatever it looks like.
        steps = way[:-1] if kind == "extra_forbidden" else way
        marks = [n for n, step in enumerate(steps) if "[" in str(step)]
        place = tuple(step for n, step in enumerate(way) if n not in marks)
        return cls(place, kind, _said(error), way[: marks[0]] if marks else None)


def told(
    errors: Sequence[Mapping[str, Any]],
    names: type[BaseModel] | Sequence[str],
    *,
    of: str,
) -> str:
    """Return what is wrong, in words.

    Parameters
    ----------
    errors : sequence of mapping
        What pydantic found.
    names : type of BaseModel, or sequence of str
        The document that was to be read, or the names that there are.
    of : str
        What such a name is one of: a field, a parameter.

    Examples
    --------
    >>> told(
    ...     [{"loc": ("labell",), "type": "extra_forbidden", "msg": "No"}],
    ...     ["label", "source"],
    ...     of="parameter",
    ... )
    'unknown parameter `labell`; there are `label`, `source`'
    """
    # Two of each place, where a value may be of two kinds.
    faults = [Fault.of(error) for error in errors[: 2 * _SHOWN]]
    # Of a value that may be of several kinds, the others are no matter where it was
    # meant as one of them.
    meant = {fault.choice for fault in faults if fault.kind not in _OF_ANOTHER_KIND}
    said: dict[tuple[str | int, ...], str] = {}
    for place, kind, sentence, choice in faults:
        if kind == "extra_forbidden":
            said[place] = _unknown(place, names, of)
        elif kind not in _OF_ANOTHER_KIND or choice is None:
            said[place] = f"{_written(place)}{sentence}"
        elif choice not in meant:
            other = sentence.removeprefix(" should be")
            said[place] = (
                f"{said[place]} or{other}"
                if place in said
                else f"{_written(place)}{sentence}"
            )
    return "; ".join([*said.values()][:_SHOWN])


def _said(error: Mapping[str, Any]) -> str:
    """Return what is wrong, to follow the name of the place.

    Examples
    --------
    >>> _said({"type": "string_type", "msg": "Input should be a valid string"})
    ' should be a valid string'
    """
    if error["type"] == "missing":
        return " is missing"
    if error["type"] == "timezone_aware":
        return " needs a time zone, as in 2026-03-01T14:30:00+01:00"
    if error["type"] == "string_pattern_mismatch" and (
        error["ctx"]["pattern"] == PRINTABLE
    ):
        return " should be printable text of one line"
    sentence = error["msg"].replace(" after validation", "")
    should, found = re.subn(r"^\w+ should", " should", sentence)
    return should if found else f": {sentence.removeprefix('Value error, ')}"


def _written(place: Sequence[str | int]) -> str:
    """Return a place as the sender would write it.

    Examples
    --------
    >>> _written(("ids", 0)), _written(())
    ('`ids[0]`', 'it')
    """
    steps = (f"[{each}]" if isinstance(each, int) else f".{each}" for each in place)
    return f"`{''.join(steps)[1:][:_LONGEST]}`" if place else "it"


def _unknown(
    place: tuple[str | int, ...], names: type[BaseModel] | Sequence[str], of: str
) -> str:
    """Return that there is no such name, and those that there are."""
    if isinstance(names, type):
        names = [*_names(names, place[:-1])]
    listed = ", ".join(f"`{name}`" for name in names)
    sentence = f"unknown {of} {_written(place)}"
    return f"{sentence}; there are {listed}" if listed else f"{sentence}; there is none"


def _names(model: type[BaseModel], place: Sequence[str | int]) -> Iterator[str]:
    """Yield the names of the fields at a place in a document."""
    fields = {field.alias or name: field for name, field in model.model_fields.items()}
    if not place:
        yield from fields
        return
    for inner in _documents(fields[str(place[0])].annotation):
        yield from _names(inner, place[1:])


def _documents(annotation: object) -> Iterator[type[BaseModel]]:
    """Yield the documents that a field may hold."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for each in get_args(annotation):
        yield from _documents(each)
