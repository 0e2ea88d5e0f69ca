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

from sqlalchemy import Insert, Select, Update, text

from app.storage.database.dialect import dialect_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from sqlalchemy import CTE, Connection, Dialect, Table, TextClause
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
        The order of the values; None where the driver takes them by name.
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


def materialized(query: Select[Any], name: str) -> CTE:
    """Return a query as a common table expression that is computed once."""
    # SQLite computes one with GROUP BY once by itself, and knows the word since 3.35.
    return query.cte(name).prefix_with("MATERIALIZED", dialect="postgresql")


class BulkInsert:
    """An INSERT of many rows that are given column by column, in one statement.

    SQLAlchemy's handling of one dictionary per row costs as much as SQLite's upsert
    (3.6 µs): 16,000 rows of two numbers took 63 ms as dictionaries, and 11 ms as the
    driver takes them.

    Parameters
    ----------
    table : Table
        Where the rows go.
    shared : sequence of str
        Columns that have one value for all rows.
    given : sequence of str
        Columns that differ.
    conflict : str
        What becomes of a row that is there already: ``ON CONFLICT ...``.
    """

    def __init__(
        self,
        table: Table,
        *,
        shared: Sequence[str],
        given: Sequence[str],
        conflict: str = "",
    ) -> None:
        self._table = table
        self._shared = shared
        self._given = given
        self._conflict = conflict
        self._texts: dict[str, TextClause] = {}

    def run(
        self,
        connection: Connection,
        shared: Mapping[str, object],
        *given: Sequence[object],
    ) -> None:
        """Insert rows, whose columns are in the order of `given`."""
        columns = dict(zip(self._given, given, strict=True))
        rows = dialect_of(connection).given_rows([self._table.c[x] for x in columns])
        if rows not in self._texts:
            values = (f":{name}" for name in self._shared)
            # WHERE: or ON could be that of a join (https://sqlite.org/lang_upsert.html).
            self._texts[rows] = text(
                f"INSERT INTO {self._table.name}"
                f" ({', '.join([*self._shared, *self._given])})"
                f" SELECT {', '.join(values)}, given.*"
                f" FROM {rows} WHERE TRUE {self._conflict}"
            )
        connection.execute(
            self._texts[rows],
            {**shared, **dialect_of(connection).given_values(columns)},
        )


class BulkLookup:
    """A query for those of many values that a table has a row of.

    Parameters
    ----------
    table : Table
        Where to look.
    shared : sequence of str
        Columns of the key that have one value.
    given : str
        The last column of the key.
    """

    def __init__(self, table: Table, *, shared: Sequence[str], given: str) -> None:
        self._table = table
        self._given = given
        self._key = " AND ".join(f"stored.{name} = :{name}" for name in shared)

    def run(
        self,
        connection: Connection,
        shared: Mapping[str, object],
        values: Sequence[int],
    ) -> set[int]:
        """Return the values that have a row."""
        dialect = dialect_of(connection)
        # OFFSET keeps PostgreSQL from rewriting the lookup into a join, which is a walk
        # of all rows while a young table has no statistics (`postgresql.py`).
        found = connection.execute(
            text(
                f"SELECT given.{self._given}"
                f" FROM {dialect.given_rows([self._table.c[self._given]])}"
                f" WHERE EXISTS (SELECT 1 FROM {self._table.name} AS stored"
                f" WHERE {self._key} AND stored.{self._given} = given.{self._given}"
                " LIMIT 1 OFFSET 0)"
            ),
            {**shared, **dialect.given_values({self._given: values})},
        )
        return set(found.scalars())


PER_QUERY: Final = 512
"""Values in one query: below the 999 variables that SQLite allowed before 3.32."""


def chunks(values: Iterable[T]) -> Iterator[list[T]]:
    """Give values in lists that fit into one query."""
    left = iter(values)
    while chunk := list(islice(left, PER_QUERY)):
        yield chunk
