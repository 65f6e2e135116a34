"""Connections for asyncio: statements run on threads, and the event loop goes on.

>>> import asyncio, nearfar.aio
>>> async def answer():
...     async with nearfar.aio.connect() as db:
...         await db.execute("CREATE TABLE t AS SELECT 42 AS n")
...         return await db.fetchall("SELECT n FROM t WHERE n > ?", [1])
>>> asyncio.run(answer())
[(42,)]
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from . import _connection

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    from ._connection import Connection
    from ._relation import Relation

_T = TypeVar("_T")

_ASK_AGAIN_S = 0.05


def connect(*arguments: Any, **options: Any) -> AsyncConnection:
    """A database, opened where it is entered; the arguments are those of :func:`nearfar.connect`."""
    return AsyncConnection(lambda: _connection.connect(*arguments, **options))


class AsyncConnection:
    """A session of a database, by ``async with``. Its statements run one after another.

    A task that is cancelled has its statement given up: the session can be used again when the task ends. Variables
    of the caller are not looked at for tables: :meth:`register` makes them known.
    """

    def __init__(self, opening: Callable[[], Connection]) -> None:
        self._opening = opening
        self._opened: Connection | None = None
        self._lock = asyncio.Lock()

    async def __aenter__(self) -> AsyncConnection:
        self._opened = await asyncio.to_thread(self._opening)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends the session; the last one of a database closes it."""
        async with self._lock:
            opened, self._opened = self._opened, None
            if opened is not None:
                await asyncio.to_thread(opened.close)

    def cursor(self) -> AsyncConnection:
        """Another session of the same database, for statements that run concurrently."""
        return AsyncConnection(self._connection().cursor)

    def _connection(self) -> Connection:
        if self._opened is None:
            raise _connection._nearfar.InterfaceError("the connection is not open: enter it by `async with`")
        return self._opened

    async def _run(self, work: Callable[[Connection], _T]) -> _T:
        async with self._lock:
            connection = self._connection()
            # No task: whoever cancels all tasks would have this one forget the thread.
            running = asyncio.get_running_loop().run_in_executor(None, work, connection)
            try:
                return await asyncio.shield(running)
            except asyncio.CancelledError:
                # The thread may be between two waits, where nobody hears.
                while not running.done():
                    connection.interrupt()
                    await asyncio.wait([running], timeout=_ASK_AGAIN_S)
                running.exception()
                raise

    async def _read(
        self, query: str, parameters: Sequence[Any] | None, take: Callable[[Relation], _T]
    ) -> _T:
        return await self._run(lambda connection: take(connection.sql(query, parameters)))

    async def execute(self, query: str, parameters: Sequence[Any] | None = None) -> None:
        """Runs statements to their end, whose rows nobody wants."""
        await self._run(lambda connection: connection.execute(query, parameters))

    async def fetchall(
        self, query: str, parameters: Sequence[Any] | None = None
    ) -> list[tuple[Any, ...]]:
        """All rows of a query, as tuples."""
        return await self._read(query, parameters, lambda rows: rows.fetchall())

    async def arrow(self, query: str, parameters: Sequence[Any] | None = None) -> pyarrow.Table:
        """All rows of a query, as a table of pyarrow."""
        return await self._read(query, parameters, lambda rows: rows.arrow())

    async def polars(self, query: str, parameters: Sequence[Any] | None = None) -> polars.DataFrame:
        """All rows of a query, as a data frame of polars."""
        return await self._read(query, parameters, lambda rows: rows.polars())

    async def df(self, query: str, parameters: Sequence[Any] | None = None) -> pandas.DataFrame:
        """All rows of a query, as a data frame of pandas."""
        return await self._read(query, parameters, lambda rows: rows.df())

    async def register(self, name: str, rows: object) -> None:
        """Makes an object's rows known as a table of this connection."""
        await self._run(lambda connection: connection.register(name, rows))

    async def ingest(self, table: str, rows: object, mode: str = "create") -> int:
        """Gives rows to a table, and says how many they were; ``mode`` as :meth:`nearfar.Connection.ingest`."""
        return await self._run(lambda connection: connection.ingest(table, rows, mode))
