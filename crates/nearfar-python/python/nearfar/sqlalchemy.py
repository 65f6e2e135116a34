"""A dialect of SQLAlchemy 2: ``create_engine("nearfar:///folder")``, or ``"nearfar://"`` for a database in memory.

Options of :func:`nearfar.connect` are those of the URL, such as ``nearfar://?profile=cxl-blades-4``. All connections of an
engine are to one database, which is open as long as the engine is there, or until ``engine.dialect.close()``. A database
that is open already has an engine by ``create_engine("nearfar://", creator=connection.dbapi)``.

>>> import sqlalchemy
>>> engine = sqlalchemy.create_engine("nearfar://")
>>> with engine.begin() as connection:
...     connection.execute(sqlalchemy.text("SELECT :n + 1 AS n"), {"n": 41}).scalar_one()
42
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

from sqlalchemy import exc, text, types
from sqlalchemy.dialects.postgresql.base import PGDialect
from sqlalchemy.engine import default, reflection

import nearfar

_COLUMNS = text(
    "SELECT column_name, data_type, is_nullable, numeric_precision, numeric_scale FROM information_schema.columns "
    "WHERE table_schema = :schema AND table_name = :name ORDER BY ordinal_position"
)
_INDEXES = text(
    "SELECT index_name, columns, is_unique, is_primary FROM nearfar.indexes "
    "WHERE table_schema = :schema AND table_name = :name ORDER BY index_name"
)
_TABLES = text(
    "SELECT table_name FROM information_schema.tables WHERE table_schema = :schema AND table_type = :kind "
    "ORDER BY table_name"
)
_HAS_TABLE = text(
    "SELECT count(*) FROM information_schema.tables WHERE table_schema = :schema AND table_name = :name"
)
_SCHEMAS = text("SELECT schema_name FROM information_schema.schemata ORDER BY schema_name")

_TYPES: dict[str, types.TypeEngine[Any]] = {
    "Boolean": types.BOOLEAN(),
    "Int16": types.SMALLINT(),
    "Int32": types.INTEGER(),
    "Int64": types.BIGINT(),
    "Float32": types.REAL(),
    "Float64": types.DOUBLE(),
    "Utf8": types.VARCHAR(),
    "Utf8View": types.VARCHAR(),
    "Binary": types.LargeBinary(),
    "BinaryView": types.LargeBinary(),
    "Date32": types.DATE(),
    "Time64(ns)": types.TIME(),
    "Timestamp(ns)": types.TIMESTAMP(),
}


def _type(written: str, precision: int | None, scale: int | None) -> types.TypeEngine[Any]:
    if written.startswith("Decimal"):
        return types.NUMERIC(precision, scale)
    return _TYPES.get(written, types.NullType())


class NearfarDialect(PGDialect):
    """What PostgreSQL's dialect has, over the driver; what is there comes from ``information_schema``.

    Foreign keys, checks and defaults of tables that are there are not told.
    """

    name = "nearfar"
    driver = "adbc"
    default_paramstyle = "qmark"
    supports_statement_cache = True
    supports_sane_rowcount = False
    supports_sane_multi_rowcount = False

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._database: nearfar.Connection | None = None
        self._opening = threading.Lock()

    @classmethod
    def import_dbapi(cls) -> Any:
        from nearfar import dbapi

        return dbapi

    def create_connect_args(self, url: Any) -> Any:
        options = dict(url.query)
        if "threads" in options:
            options["threads"] = int(options["threads"])
        return [], {"path": url.database or None, **options}

    def connect(self, *_: Any, **options: Any) -> Any:
        with self._opening:
            if self._database is None:
                self._database = nearfar.connect(**options)
            return self._database.dbapi()

    def close(self) -> None:
        """Ends the database, where the engine is there still: after its ``dispose()``."""
        with self._opening:
            database, self._database = self._database, None
            if database is not None:
                database.close()

    def on_connect(self) -> None:
        return None

    def _get_server_version_info(self, connection: Any) -> tuple[int, ...]:
        return (17,)

    def _get_default_schema_name(self, connection: Any) -> str:
        return "public"

    def _set_backslash_escapes(self, connection: Any) -> None:
        self._backslash_escapes = False

    def get_default_isolation_level(self, dbapi_conn: Any) -> Any:
        return None

    def get_schema_names(self, connection: Any, **_: Any) -> list[str]:
        return list(connection.execute(_SCHEMAS).scalars())

    def get_table_names(self, connection: Any, schema: str | None = None, **_: Any) -> list[str]:
        return self._names(connection, schema or "public", "BASE TABLE")

    def get_temp_table_names(self, connection: Any, schema: str | None = None, **_: Any) -> list[str]:
        return self._names(connection, "temporary", "BASE TABLE")

    def get_view_names(self, connection: Any, schema: str | None = None, **_: Any) -> list[str]:
        return self._names(connection, schema or "public", "VIEW")

    def get_materialized_view_names(self, connection: Any, schema: str | None = None, **_: Any) -> list[str]:
        return []

    def get_temp_view_names(self, connection: Any, schema: str | None = None, **_: Any) -> list[str]:
        return []

    def _names(self, connection: Any, schema: str, kind: str) -> list[str]:
        return list(connection.execute(_TABLES, {"schema": schema, "kind": kind}).scalars())

    def has_table(self, connection: Any, table_name: str, schema: str | None = None, **_: Any) -> bool:
        named = {"schema": schema or "public", "name": table_name}
        return bool(connection.execute(_HAS_TABLE, named).scalar_one() > 0)

    def get_columns(self, connection: Any, table_name: str, schema: str | None = None, **_: Any) -> Any:
        rows = self._rows_of(connection, _COLUMNS, table_name, schema)
        if not rows:
            raise exc.NoSuchTableError(table_name)
        return [
            {
                "name": row.column_name,
                "type": _type(row.data_type, row.numeric_precision, row.numeric_scale),
                "nullable": row.is_nullable == "YES",
                "default": None,
            }
            for row in rows
        ]

    def get_pk_constraint(self, connection: Any, table_name: str, schema: str | None = None, **_: Any) -> Any:
        for row in self._indexes(connection, table_name, schema):
            if row.is_primary:
                return {"name": row.index_name, "constrained_columns": _columns(row.columns)}
        return reflection.ReflectionDefaults.pk_constraint()

    def get_indexes(self, connection: Any, table_name: str, schema: str | None = None, **_: Any) -> Any:
        return [
            {"name": row.index_name, "column_names": _columns(row.columns), "unique": row.is_unique}
            for row in self._indexes(connection, table_name, schema)
            if not row.is_primary
        ]

    def get_foreign_keys(self, connection: Any, table_name: str, schema: str | None = None, **_: Any) -> Any:
        return []

    def get_unique_constraints(self, connection: Any, table_name: str, schema: str | None = None, **_: Any) -> Any:
        return []

    def get_check_constraints(self, connection: Any, table_name: str, schema: str | None = None, **_: Any) -> Any:
        return []

    def get_table_comment(self, connection: Any, table_name: str, schema: str | None = None, **_: Any) -> Any:
        return {"text": None}

    def get_table_options(self, connection: Any, table_name: str, schema: str | None = None, **_: Any) -> Any:
        return {}

    def _indexes(self, connection: Any, table_name: str, schema: str | None) -> Iterable[Any]:
        if not self.has_table(connection, table_name, schema):
            raise exc.NoSuchTableError(table_name)
        return self._rows_of(connection, _INDEXES, table_name, schema)

    def _rows_of(self, connection: Any, query: Any, table_name: str, schema: str | None) -> list[Any]:
        return list(connection.execute(query, {"schema": schema or "public", "name": table_name}))


# Each table is asked for by itself: PostgreSQL's dialect asks for many together, by pg_catalog.
for _name in dir(default.DefaultDialect):
    if _name.startswith(("get_multi_", "has_multi_")):
        setattr(NearfarDialect, _name, getattr(default.DefaultDialect, _name))


def _columns(written: str) -> list[str]:
    """The names of ``(price, name)``."""
    return [name.strip().strip('"') for name in written.strip("()").split(",")]
