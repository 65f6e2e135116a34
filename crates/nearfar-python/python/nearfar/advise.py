"""Which columns to keep near."""

from __future__ import annotations

from dataclasses import dataclass

from . import _nearfar
from ._connection import Connection
from ._sizes import Size, size_in_bytes


@dataclass(frozen=True)
class Advice:
    """One column, and where it is best."""

    table: str
    column: str
    bytes: int
    values_read: int
    tablespace: str


def advise(
    connection: Connection, near_bytes: Size, table: str | None = None, far: str = "far"
) -> list[Advice]:
    """Which columns fit near, by how often their values were read for each byte that they take.

    It knows only what was read since the engine was started (``nearfar.column_access``): run the queries
    first that the tables are to be fast for. The advice is carried out by :meth:`Connection.place`.

    >>> with nearfar.connect() as db:
    ...     db.execute("CREATE TABLE t AS SELECT value AS a, value * 2 AS b FROM generate_series(1, 1000)")
    ...     _ = db.sql("SELECT sum(a) FROM t").fetchall()
    ...     [(one.column, one.tablespace) for one in nearfar.advise(db, near_bytes=1)]
    [('a', 'far'), ('b', 'far')]
    """
    query = "SELECT table_name, column_name, total, bytes FROM nearfar.column_access"
    if table is None:
        rows = connection.sql(query)
    else:
        rows = connection.sql(query + " WHERE table_name = ?", [table])
    columns = rows.fetchall()
    if not columns:
        raise _nearfar.NotFoundError("there are no columns in memory to advise on: make tables first")
    left = size_in_bytes(near_bytes)
    advice = []
    for name, column, reads, size in sorted(columns, key=_density, reverse=True):
        is_near = reads > 0 and size <= left
        left -= size if is_near else 0
        advice.append(Advice(name, column, size, reads, "near" if is_near else far))
    return advice


def _density(column: tuple[str, str, int, int]) -> float:
    _, _, reads, size = column
    return reads / max(size, 1)
