"""Nearfar: an in-memory data engine for machines with unequal memory.

>>> import nearfar
>>> db = nearfar.connect()
>>> db.sql("SELECT 40 + 2 AS answer").fetchall()
[(42,)]
"""

from __future__ import annotations

from . import model, plan
from ._connection import Connection, connect
from ._nearfar import (
    DatabaseError,
    DataError,
    Error,
    ExistsError,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotFoundError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    TierMemoryError,
    TransactionError,
    __version__,
)
from ._progress import progress
from ._relation import Relation
from .advise import advise
from .figures import Figures, measure, presets, tiers
from .tree import Tree

__all__ = [
    "Connection",
    "DataError",
    "DatabaseError",
    "Error",
    "ExistsError",
    "Figures",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotFoundError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "Relation",
    "TierMemoryError",
    "TransactionError",
    "Tree",
    "__version__",
    "advise",
    "connect",
    "measure",
    "model",
    "plan",
    "presets",
    "progress",
    "tiers",
]
