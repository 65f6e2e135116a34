"""An ordered map whose nodes lie on tiers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from . import _nearfar
from ._sizes import Size, size_in_bytes

if TYPE_CHECKING:
    import numpy


class Tree:
    """An ordered map from integers of 64 bits to integers of 64 bits: a B+tree.

    With ``tiers``, a mapping of tier names to sizes from near to far, such as ``{"near": "64MiB", "far": "1GiB"}``,
    its upper nodes are near as far as they fit. Any number of threads may use it, and none waits for Python's lock within it.

    >>> tree = nearfar.Tree()
    >>> tree[7] = 700
    >>> tree[7], 8 in tree, len(tree)
    (700, False, 1)
    """

    def __init__(self, tiers: Mapping[str, Size] | None = None) -> None:
        self._tiers = list(tiers) if tiers else []
        sizes = [(name, size_in_bytes(size)) for name, size in tiers.items()] if tiers else None
        self._tree = _nearfar.Tree(sizes)

    def __len__(self) -> int:
        return len(self._tree)

    def __getitem__(self, key: int) -> int:
        value = self._tree.get(key)
        if value is None:
            raise KeyError(key)
        return value

    def get(self, key: int, default: int | None = None) -> int | None:
        """The value of a key, or the default."""
        value = self._tree.get(key)
        return default if value is None else value

    def __contains__(self, key: int) -> bool:
        return self._tree.get(key) is not None

    def __setitem__(self, key: int, value: int) -> None:
        self._tree.insert(key, value)

    def __delitem__(self, key: int) -> None:
        if self._tree.remove(key) is None:
            raise KeyError(key)

    def insert_many(self, keys: Iterable[int], values: Iterable[int]) -> None:
        """Sets many, from arrays of NumPy, pyarrow or anything that NumPy takes.

        >>> import numpy
        >>> tree = nearfar.Tree()
        >>> tree.insert_many(numpy.arange(1000), numpy.arange(1000) * 2)
        >>> len(tree)
        1000
        """
        self._tree.insert_many(_bytes(keys), _bytes(values))

    def get_many(self, keys: Iterable[int]) -> numpy.ma.MaskedArray[Any, Any]:
        """Looks many keys up together. Values of keys that are not there are masked."""
        import numpy

        values, found = self._tree.get_many(_bytes(keys))
        mask = numpy.frombuffer(found, dtype=numpy.uint8) == 0
        return numpy.ma.MaskedArray(numpy.frombuffer(values, dtype="<u8"), mask=mask)

    def range(
        self, start: int = 0, stop: int | None = None, limit: int | None = None
    ) -> tuple[numpy.ndarray[Any, Any], numpy.ndarray[Any, Any]]:
        """The keys from ``start`` on and below ``stop``, ascending, and their values."""
        import numpy

        keys, values = self._tree.range(start, stop, limit)
        return numpy.frombuffer(keys, dtype="<u8"), numpy.frombuffer(values, dtype="<u8")

    def tier_bytes(self) -> dict[str, int]:
        """Bytes of the nodes on each tier; on ``memory``, where it was given no tiers."""
        return dict(zip(self._tiers or ["memory"], self._tree.tier_bytes(), strict=False))


def _bytes(numbers: Iterable[int]) -> bytes:
    import numpy

    array = numpy.asarray(numbers)
    if array.dtype.kind == "i" and array.size and int(array.min()) < 0:
        raise OverflowError("keys and values are at least 0 and below 2**64")
    if array.dtype.kind not in "iu":
        raise TypeError(f"keys and values are integers, and not {array.dtype}")
    return array.astype("<u8", copy=False).tobytes()
