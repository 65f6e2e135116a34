"""Queries that have not run yet, and what their rows can become."""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from . import _nearfar
from ._rows import as_stream

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    from ._connection import Connection

_SHOWN_ROWS = 20
_FETCHED_ROWS = 1 << 16


class Relation:
    """A query. Each time that its rows are asked for as a whole, it runs.

    :meth:`fetchone` and :meth:`fetchmany` go on with the rows of one run.
    """

    def __init__(
        self,
        connection: Connection,
        statement: _nearfar.Statement,
        values: list[Any] | None,
        objects: dict[str, object],
        columns: list[tuple[str, str]],
    ) -> None:
        self._connection = connection
        self._statement = statement
        self._values = values
        self._objects = objects
        self._columns = columns
        self._reading: _nearfar.Rows | None = None
        self._tag: tuple[str, int | None] | None = None

    @classmethod
    def of_result(
        cls,
        connection: Connection,
        statement: _nearfar.Statement,
        result: _nearfar.Rows | tuple[str, int | None],
    ) -> Relation:
        """What a statement gave that is no query: it has run, and does not run again."""
        if isinstance(result, _nearfar.Rows):
            relation = cls(connection, statement, None, {}, result.columns)
            relation._reading = result
            relation._tag = ("ROWS", None)
            return relation
        relation = cls(connection, statement, None, {}, [])
        relation._tag = result
        return relation

    @property
    def columns(self) -> list[str]:
        """The columns' names.

        >>> db.sql("SELECT 1 AS a, 'x' AS b").columns
        ['a', 'b']
        """
        return [name for name, _ in self._columns]

    @property
    def types(self) -> list[str]:
        """The columns' types, as Arrow names them."""
        return [kind for _, kind in self._columns]

    @property
    def rowcount(self) -> int:
        """Rows that a command has changed; -1 for a query."""
        count = self._tag[1] if self._tag else None
        return -1 if count is None else count

    def _start(self) -> _nearfar.Rows:
        if self._tag is not None:
            rows = self._reading
            if rows is None:
                raise _nearfar.ProgrammingError(f"{self._tag[0]} gives no rows")
            self._reading = None
            return rows
        from ._connection import _attached

        connection = self._connection
        connection._check()
        with connection._watch, connection._lock, _attached(connection._session, self._objects):
            rows = connection._session.run(self._statement, self._values)
        assert isinstance(rows, _nearfar.Rows)
        return rows

    def _finish(self) -> None:
        if self._tag is None or self._reading is not None:
            with self._connection._watch:
                rows = self._start()
                while rows.fetchmany(_FETCHED_ROWS):
                    pass

    def _read(self, reads: Any) -> Any:
        with self._connection._watch:
            rows = self._start()
            try:
                return reads(rows)
            except Exception:
                rows.reraise()
                raise

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows as a stream of Arrow's, for every library that reads one."""
        return self._start().__arrow_c_stream__(requested_schema)

    def arrow(self) -> pyarrow.Table:
        """The rows as a table of pyarrow.

        >>> db.sql("SELECT 1 AS one").arrow().to_pydict()
        {'one': [1]}
        """
        import pyarrow

        return self._read(lambda rows: pyarrow.RecordBatchReader.from_stream(rows).read_all())

    def reader(self) -> pyarrow.RecordBatchReader:
        """The rows as they come."""
        import pyarrow

        return pyarrow.RecordBatchReader.from_stream(self._start())

    def polars(self) -> polars.DataFrame:
        """The rows as a data frame of polars."""
        import polars

        return self._read(polars.DataFrame)

    def df(self) -> pandas.DataFrame:
        """The rows as a data frame of pandas."""
        import pyarrow

        def read(rows: _nearfar.Rows) -> pandas.DataFrame:
            table = pyarrow.RecordBatchReader.from_stream(rows).read_all()
            return table.to_pandas(split_blocks=True, self_destruct=True)

        return self._read(read)

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows, as tuples; those that are left, after :meth:`fetchone`."""
        with self._connection._watch:
            rows = self._reading or self._start()
            self._reading = None
            fetched: list[tuple[Any, ...]] = []
            while batch := rows.fetchmany(_FETCHED_ROWS):
                fetched += batch
        return fetched

    def fetchmany(self, count: int = 1) -> list[tuple[Any, ...]]:
        """The next rows."""
        with self._connection._watch:
            if self._reading is None:
                self._reading = self._start()
            return self._reading.fetchmany(count)

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row, or None at the end.

        >>> numbers = db.sql("SELECT value FROM generate_series(1, 2)")
        >>> numbers.fetchone(), numbers.fetchone(), numbers.fetchone()
        ((1,), (2,), None)
        """
        rows = self.fetchmany(1)
        return rows[0] if rows else None

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        yield from self._start()

    def create(self, table: str) -> int:
        """Makes a table of the rows."""
        return self._connection.ingest(table, as_stream(self))

    def show(self, rows: int = _SHOWN_ROWS) -> None:
        """Prints the first rows."""
        print(self._text(rows))

    def _first(self, count: int) -> tuple[list[tuple[Any, ...]], bool]:
        with self._connection._watch:
            rows = self._start().fetchmany(count + 1)
        return rows[:count], len(rows) > count

    def _text(self, count: int) -> str:
        if self._tag is not None and self._reading is None:
            return self._tag[0]
        rows, has_more = self._first(count)
        cells = [self.columns, *([_shown(value) for value in row] for row in rows)]
        widths = [max(len(row[index]) for row in cells) for index in range(len(self.columns))]
        lines = [" | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in cells]
        lines.insert(1, "-+-".join("-" * width for width in widths))
        if has_more:
            lines.append("...")
        return "\n".join(line.rstrip() for line in lines)

    def __repr__(self) -> str:
        if self._tag is not None:
            return f"<nearfar.Relation: {self._tag[0]}>"
        return self._text(_SHOWN_ROWS)

    def _repr_html_(self) -> str:
        """The first rows as a table, for notebooks."""
        if self._tag is not None:
            return f"<pre>{html.escape(self._tag[0])}</pre>"
        rows, has_more = self._first(_SHOWN_ROWS)
        names = "".join(f"<th>{html.escape(name)}<br><small>{html.escape(kind)}</small></th>" for name, kind in self._columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(_shown(value))}</td>" for value in row) + "</tr>" for row in rows
        )
        more = "<p>more rows follow</p>" if has_more else ""
        return f"<table><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>{more}"


def _shown(value: object) -> str:
    return "NULL" if value is None else str(value)
