"""Connections: sessions of a database."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

from . import _nearfar
from ._progress import Watch
from ._relation import Relation
from ._rows import as_stream, gives_rows
from ._sizes import Size

_open: weakref.WeakSet[_Shared] = weakref.WeakSet()


class _Shared:
    """A database and the connections that share it; the last one closes it."""

    def __init__(self, database: _nearfar.Database) -> None:
        self.database = database
        self.users = 0
        self.lock = threading.Lock()
        _open.add(self)

    def enter(self) -> None:
        with self.lock:
            self.users += 1

    def leave(self) -> None:
        with self.lock:
            self.users -= 1
            is_last = self.users == 0
        if is_last:
            self.database.close()


@atexit.register
def _close_all() -> None:
    # Threads that run queries end before the interpreter does.
    for shared in list(_open):
        shared.database.close()


def connect(
    path: str | os.PathLike[str] | None = None,
    *,
    profile: str | None = None,
    near_budget: Size | None = None,
    budgets: Mapping[str, Size] | None = None,
    pool: str | os.PathLike[str] | None = None,
    pool_bytes: Size | None = None,
    threads: int | None = None,
    memory_limit: Size | None = None,
) -> Connection:
    """Opens a database, and connects to it.

    Without a ``path`` everything is in memory only. ``profile`` names a machine whose far memory is
    emulated, ``near_budget`` and ``budgets`` say how many bytes of tables a tier may hold, and ``pool`` is a
    file on tmpfs or DAX in which main storage outlives the process.

    >>> with nearfar.connect(profile="cxl-blades-4", near_budget="64MiB") as db:
    ...     db.execute("CREATE TABLE t AS SELECT value AS n FROM generate_series(1, 3)")
    ...     db.execute("ALTER TABLE t SET TABLESPACE far")
    ...     db.sql("SELECT max(n) AS largest FROM t").fetchone()
    (3,)
    """
    sizes = {tier: str(size) for tier, size in (budgets or {}).items()}
    if near_budget is not None:
        sizes["near"] = str(near_budget)
    database = _nearfar.Database(
        path=path,
        profile=profile,
        budgets=sizes,
        pool=pool,
        pool_bytes=None if pool_bytes is None else str(pool_bytes),
        threads=threads,
        memory_limit=None if memory_limit is None else str(memory_limit),
    )
    return Connection(_Shared(database))


class Connection:
    """A session of a database: its settings, temporary tables and transaction.

    Any number of threads may use it; their statements run one after another. For statements that run
    concurrently, take a :meth:`cursor` for each thread.
    """

    def __init__(self, shared: _Shared) -> None:
        self._shared = shared
        self._session = shared.database.session()
        self._watch = Watch(self._session)
        self._lock = threading.RLock()
        self._registered: dict[str, object] = {}
        self._is_closed = False
        shared.enter()

    def cursor(self) -> Connection:
        """Another session of the same database.

        >>> other = db.cursor()
        >>> other.sql("SELECT 1 AS one").fetchall()
        [(1,)]
        >>> other.close()
        """
        self._check()
        return Connection(self._shared)

    def sql(self, query: str, parameters: Sequence[Any] | None = None) -> Relation:
        """A query, which runs when its rows are asked for; other statements run immediately.

        Names that are no tables are looked for among the caller's variables: objects of pandas, polars and
        pyarrow are read where they are. Parameters are ``?`` or ``$1``.

        >>> db.sql("SELECT ? * 2 AS twice", [21]).fetchone()
        (42,)
        """
        return self._sql(query, parameters, depth=2)

    def _sql(self, query: str, parameters: Sequence[Any] | None, depth: int) -> Relation:
        self._check()
        has_marks = parameters is not None and "$1" not in query
        statements = self._session.read(query, has_marks)
        if not statements:
            raise _nearfar.ProgrammingError("there is no statement in the text")
        scope = _Scope(sys._getframe(depth))
        *others, last = statements
        for statement in others:
            self._command(statement, None, scope)
        values = None if parameters is None else list(parameters)
        with self._lock:
            objects = self._objects(last, scope)
            with _attached(self._session, objects):
                columns = self._session.describe(last)
                if columns is None:
                    with self._watch:
                        result = self._session.run(last, values)
                    return Relation.of_result(self, last, result)
        return Relation(self, last, values, objects, columns)

    def execute(self, query: str, parameters: Sequence[Any] | None = None) -> None:
        """Runs statements to their end, whose rows nobody wants.

        >>> db.execute("CREATE TABLE fruit (name VARCHAR, cents BIGINT)")
        >>> db.execute("INSERT INTO fruit VALUES (?, ?)", ["plum", 20])
        """
        relation = self._sql(query, parameters, depth=2)
        relation._finish()

    def _command(
        self, statement: _nearfar.Statement, values: list[Any] | None, scope: _Scope
    ) -> None:
        with self._watch:
            with self._lock, _attached(self._session, self._objects(statement, scope)):
                result = self._session.run(statement, values)
            if isinstance(result, _nearfar.Rows):
                while result.fetchmany(1 << 16):
                    pass

    def _objects(self, statement: _nearfar.Statement, scope: _Scope) -> dict[str, object]:
        """What the statement names that is no table, by the name under which it is looked up."""
        objects: dict[str, object] = {}
        for written, name in self._session.missing_tables(statement).items():
            found = scope.find(written)
            if gives_rows(found):
                objects[name] = found
        return objects

    def register(self, name: str, rows: object) -> None:
        """Makes an object's rows known as a table of this connection, where they are.

        >>> import pyarrow
        >>> db.register("three", pyarrow.table({"n": [1, 2, 3]}))
        >>> db.sql("SELECT max(n) AS largest FROM three").fetchone()
        (3,)
        >>> db.unregister("three")
        """
        self._check()
        with self._lock:
            self._session.attach(name, as_stream(rows))
            self._registered[name] = rows

    def unregister(self, name: str) -> None:
        """Takes away what :meth:`register` made known."""
        with self._lock:
            self._registered.pop(name, None)
            if not self._session.detach(name):
                raise _nearfar.NotFoundError(f"nothing is registered as {name!r}")

    def ingest(self, table: str, rows: object, mode: str = "create") -> int:
        """Gives rows to a table, and says how many they were.

        ``mode`` is ``create``, ``append``, ``replace`` or ``create_append``.

        >>> import pyarrow
        >>> db.ingest("squares", pyarrow.table({"n": [1, 2], "square": [1, 4]}))
        2
        """
        self._check()
        with self._lock, self._watch:
            return self._session.ingest(table, as_stream(rows), mode)

    def append(self, table: str, rows: object) -> int:
        """Adds rows to a table that is there, by the names of their columns."""
        return self.ingest(table, rows, mode="append")

    def table(self, name: str) -> Relation:
        """All rows of a table.

        >>> db.table("fruit").fetchall()
        [('plum', 20)]
        """
        self._check()
        quoted = '"' + name.replace('"', '""') + '"'
        if self._session.columns_of(quoted) is None:
            raise _nearfar.NotFoundError(f"table {name!r} does not exist")
        return self._sql(f"SELECT * FROM {quoted}", None, depth=2)

    def place(self, table: str, tablespace: str, columns: Sequence[str] | None = None) -> None:
        """Moves a table, or some of its columns, to a tier or a placement, while queries run."""

        def quoted(text: str) -> str:
            return '"' + text.replace('"', '""') + '"'

        space = "'" + tablespace.replace("'", "''") + "'"
        if columns is None:
            self.execute(f"ALTER TABLE {quoted(table)} SET TABLESPACE {space}")
            return
        for column in columns:
            self.execute(
                f"ALTER TABLE {quoted(table)} ALTER COLUMN {quoted(column)} SET TABLESPACE {space}"
            )

    def tiers(self) -> list[dict[str, Any]]:
        """The tiers of the database, near to far: their budgets, and what is used of them.

        >>> [tier["name"] for tier in db.tiers()][0]
        'near'
        """
        self._check()
        names = ("name", "budget_bytes", "used_bytes", "is_emulated")
        return [dict(zip(names, tier, strict=True)) for tier in self._shared.database.tiers()]

    def dbapi(self, **options: Any) -> Any:
        """A connection of Python's database interface (DB-API 2.0) to the same database."""
        from . import dbapi

        self._check()
        return dbapi._connect({"nearfar.database": str(self._shared.database.id)}, **options)

    def begin(self) -> None:
        """Begins a transaction."""
        self.execute("BEGIN")

    def commit(self) -> None:
        """Commits it."""
        self.execute("COMMIT")

    def rollback(self) -> None:
        """Undoes it."""
        self.execute("ROLLBACK")

    def interrupt(self) -> None:
        """Gives up the statement that another thread waits for, which gets :class:`OperationalError`.

        A commit that has begun goes on. Nothing happens where no statement runs.
        """
        self._check()
        self._session.interrupt()

    def close(self) -> None:
        """Ends the session; the last one of a database closes it."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            self._registered.clear()
            self._session.close()
            self._shared.leave()

    def _check(self) -> None:
        if self._is_closed:
            raise _nearfar.InterfaceError("the connection is closed: make a new one")

    def __enter__(self) -> Connection:
        self._check()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if not getattr(self, "_is_closed", True):
            self.close()

    def __repr__(self) -> str:
        return "<nearfar.Connection, closed>" if self._is_closed else "<nearfar.Connection>"


class _Scope:
    """The variables that a caller sees."""

    def __init__(self, frame: Any) -> None:
        self._variables = (frame.f_locals, frame.f_globals)

    def find(self, name: str) -> object | None:
        for variables in self._variables:
            if name in variables:
                found: object = variables[name]
                return found
        return None


class _attached:
    """Objects that a statement names, for as long as it is planned."""

    def __init__(self, session: _nearfar.Session, objects: Mapping[str, object]) -> None:
        self._session = session
        self._objects = objects

    def __enter__(self) -> None:
        try:
            for name, rows in self._objects.items():
                self._session.attach(name, as_stream(rows))
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        for name in self._objects:
            self._session.detach(name)
