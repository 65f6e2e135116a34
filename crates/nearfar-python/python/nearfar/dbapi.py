"""Python's database interface (DB-API 2.0), by ADBC's driver manager.

>>> import nearfar.dbapi
>>> with nearfar.dbapi.connect() as connection, connection.cursor() as cursor:
...     _ = cursor.execute("SELECT ? + 1 AS n", [41])
...     cursor.fetchall()
[(42,)]
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from . import _nearfar

try:
    from adbc_driver_manager import dbapi as _adbc
except ImportError as error:
    raise ImportError(
        "nearfar.dbapi needs adbc-driver-manager and pyarrow: pip install 'nearfar[dbapi]'"
    ) from error

from adbc_driver_manager.dbapi import (
    Connection,
    Cursor,
    DatabaseError,
    DataError,
    Date,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Time,
    Timestamp,
    Warning,
)

Binary = bytes
apilevel = "2.0"
threadsafety = 1
paramstyle = "qmark"

__all__ = [
    "Binary",
    "Connection",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Date",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "Time",
    "Timestamp",
    "Warning",
    "apilevel",
    "connect",
    "paramstyle",
    "threadsafety",
]


def connect(
    path: str | os.PathLike[str] | None = None,
    *,
    profile: str | None = None,
    near_budget: int | str | None = None,
    budgets: Mapping[str, int | str] | None = None,
    pool: str | os.PathLike[str] | None = None,
    autocommit: bool = False,
) -> Connection:
    """Opens a database by its driver. The arguments are those of :func:`nearfar.connect`.

    As the interface wants it, changes are kept by ``commit()``. Definitions such as ``CREATE TABLE`` stand
    outside of transactions: they are kept immediately, and refused while changes are not committed.
    """
    options: dict[str, str] = {}
    if path is not None:
        options["uri"] = os.fspath(path)
    if profile is not None:
        options["nearfar.profile"] = profile
    if near_budget is not None:
        options["nearfar.budget.near"] = str(near_budget)
    for tier, size in (budgets or {}).items():
        options[f"nearfar.budget.{tier}"] = str(size)
    if pool is not None:
        options["nearfar.pool"] = os.fspath(pool)
    return _connect(options, autocommit=autocommit)


def _connect(options: dict[str, str], autocommit: bool = False) -> Connection:
    arguments: dict[str, Any] = {"driver": _nearfar.__file__, "db_kwargs": options}
    return _adbc.connect(**arguments, autocommit=autocommit)
