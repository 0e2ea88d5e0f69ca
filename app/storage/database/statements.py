"""Statements: prepared ones, and those of many rows or values at once.

SQLite takes 20 µs for an entry of the ledger and for what is asked before it.
Executed by SQLAlchemy the same statements took 109 µs of CPU, and take 43 so; with
the other steps of a feedback in between, all in one thread, 260 and 110.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, make_dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar
from weakref import WeakKeyDictionary

from sqlalchemy import Insert, Select, Update, literal, tuple_

from app.storage.database.dialect import dialect_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from sqlalchemy import (
        CTE,
        Column,
        ColumnElement,
        Connection,
        Delete,
        Dialect,
        Row,
        Table,
        Tuple,
    )
    from sqlalchemy.dialects import postgresql, sqlite

    Convert = Callable[[Any], Any]

T = TypeVar("T")


class Prepared:
    """A statement, and how each database wants it.

    The values are those that SQLAlchemy takes and gives, and it runs in the
    transaction of the connection.  What the driver raises comes as it is.

    Parameters
    ----------
    statement : Select, Insert or Update
        With a `bindparam` for each value that differs from call to call, of which
        none is expanding.
    """

    def __init__(self, statement: Select[Any] | Insert | Update) -> None:
        self._statement = statement
        self._plans: WeakKeyDictionary[Dialect, _Plan] = WeakKeyDictionary()

    def rows(self, connection: Connection, **values: object) -> list[Any]:
        """Return the rows that a query finds, with an attribute for each column."""
        plan = self._plan(connection.dialect)
        with closing(connection.connection.cursor()) as cursor:
            cursor.execute(plan.text, plan.bound(values))
            found = cursor.fetchall()
        return [plan.read(row) for row in found]

    def change(
        self, connection: Connection, each: Sequence[Mapping[str, object]]
    ) -> None:
        """Insert or update once for each of some values."""
        plan = self._plan(connection.dialect)
        bound = [plan.bound(values) for values in each]
        with closing(connection.connection.cursor()) as cursor:
            if len(bound) == 1:
                cursor.execute(plan.text, bound[0])
            elif bound:
                cursor.executemany(plan.text, bound)

    def _plan(self, dialect: Dialect) -> _Plan:
        plan = self._plans.get(dialect)
        if plan is None:
            plan = self._plans[dialect] = _planned(self._statement, dialect)
        return plan


@dataclass(frozen=True, slots=True)
class _Plan:
    """A statement as one database wants it.

    Parameters
    ----------
    text : str
        The statement.
    constant : mapping of str to Any
        The values that it brings along, as the driver takes them.
    convert : mapping of str to callable
        What becomes of the others on the way to the driver.
    order : sequence of str or None
        The order of the values; None if the driver takes them by name.
    row : type
        A data class with the names of the columns, in their order.
    receive : sequence of (int, callable)
        What becomes of the columns on the way back.
    """

    text: str
    constant: Mapping[str, Any]
    convert: Mapping[str, Convert]
    order: Sequence[str] | None
    row: type[Any]
    receive: Sequence[tuple[int, Convert]]

    def bound(self, values: Mapping[str, Any]) -> Any:
        """Return values as the driver takes them."""
        full = {**self.constant, **values}
        for name, convert in self.convert.items():
            full[name] = convert(full[name])
        return full if self.order is None else [full[name] for name in self.order]

    def read(self, found: Sequence[Any]) -> Any:
        """Return a row of the driver with its names."""
        values = list(found)
        for place, receive in self.receive:
            values[place] = receive(values[place])
        return self.row(*values)


def _planned(statement: Select[Any] | Insert | Update, dialect: Dialect) -> _Plan:
    """Compile a statement for a database."""
    compiled: Any = statement.compile(dialect=dialect)
    converted = {
        name: convert
        for name, value in compiled.binds.items()
        if (convert := value.type.dialect_impl(dialect).bind_processor(dialect))
    }
    own = {
        name: value.effective_value
        for name, value in compiled.binds.items()
        if not value.required
    }
    columns = (
        statement.selected_columns.items() if isinstance(statement, Select) else []
    )
    return _Plan(
        text=str(compiled),
        constant={
            name: converted.pop(name, lambda given: given)(value)
            for name, value in own.items()
        },
        convert=converted,
        order=compiled.positiontup if compiled.positional else None,
        # Of 14 columns one row took 0.34 µs so, a named tuple 0.40, a dictionary 0.90
        # and a simple namespace 1.21.
        row=make_dataclass("Row", [name for name, _ in columns], slots=True),
        receive=[
            (place, receive)
            for place, (_, column) in enumerate(columns)
            if (
                receive := column.type.dialect_impl(dialect).result_processor(
                    dialect, None
                )
            )
        ],
    )


def insert_into(
    connection: Connection, table: Table
) -> sqlite.Insert | postgresql.Insert:
    """Return an INSERT of the connection's dialect, to add ``on_conflict`` to.

    SQLite and PostgreSQL share the clause, but SQLAlchemy has one class for each.
    """
    return dialect_of(connection).insert(table)


def upsert(
    connection: Connection, table: Table, rows: Sequence[Mapping[str, object]]
) -> None:
    """Insert rows, each in the place of one that has its key."""
    if not rows:
        return
    new = insert_into(connection, table)
    key = [column.name for column in table.primary_key]
    others = [column.name for column in table.columns if column.name not in key]
    statement = new.on_conflict_do_update(
        index_elements=key, set_={name: new.excluded[name] for name in others}
    )
    connection.execute(statement, rows)


def tuple_of(columns: Iterable[Column[Any]], values: Iterable[object]) -> Tuple:
    """Return values as the database compares them with some columns."""
    pairs = zip(columns, values, strict=True)
    return tuple_(*(literal(value, column.type) for column, value in pairs))


def materialized(query: Select[Any], name: str) -> CTE:
    """Return a query as a common table expression that is computed once."""
    # SQLite computes one with GROUP BY once by itself, and knows the word since 3.35.
    return query.cte(name).prefix_with("MATERIALIZED", dialect="postgresql")


PER_QUERY: Final = 512
"""Values in one query: below the 999 variables that SQLite allowed before 3.32."""


def chunks(values: Iterable[T]) -> Iterator[list[T]]:
    """Give values in lists that fit into one query."""
    left = iter(values)
    while chunk := list(islice(left, PER_QUERY)):
        yield chunk


def where_in(
    connection: Connection,
    statement: Select[Any] | Delete,
    column: ColumnElement[Any],
    values: Iterable[object],
) -> list[Row[Any]]:
    """Execute a statement for those rows whose column has one of some values.

    Returns
    -------
    list of rows
        What a query has found, in no order; empty for a deletion.
    """
    found: list[Row[Any]] = []
    for chunk in chunks(values):
        done = connection.execute(statement.where(column.in_(chunk)))
        if done.returns_rows:
            found += done
    return found
