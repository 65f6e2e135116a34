"""Objects with rows of other libraries."""

from __future__ import annotations

from typing import Any


def gives_rows(found: object) -> bool:
    """Whether an object has rows that can be read."""
    if found is None or isinstance(found, type):
        return False
    return (
        hasattr(found, "__arrow_c_stream__")
        or _is_lazy_frame(found)
        or _is_dataset(found)
        or isinstance(found, dict)
    )


def as_stream(found: Any) -> Any:
    """The object, or one with the same rows, that gives a stream of Arrow's."""
    if _is_lazy_frame(found):
        return found.collect()
    if _is_dataset(found):
        return found.scanner().to_reader()
    if isinstance(found, dict):
        import pyarrow

        return pyarrow.table(found)
    if not hasattr(found, "__arrow_c_stream__") and hasattr(found, "__arrow_c_array__"):
        import pyarrow

        return pyarrow.Table.from_batches([pyarrow.record_batch(found)])
    return found


def _kind(found: object) -> str:
    kind = type(found)
    return f"{kind.__module__}.{kind.__qualname__}"


def _is_lazy_frame(found: object) -> bool:
    return _kind(found).startswith("polars.") and type(found).__name__ == "LazyFrame"


def _is_dataset(found: object) -> bool:
    return _kind(found).startswith("pyarrow._dataset.") and hasattr(found, "scanner")
