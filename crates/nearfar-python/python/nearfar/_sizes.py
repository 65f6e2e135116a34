"""Sizes of memory, as they are written."""

from __future__ import annotations

import re

Size = int | str
"""Bytes, as a number or as a text such as ``"64MiB"``."""

_UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}


def size_in_bytes(size: Size) -> int:
    """The bytes of a size: a number of them, or a text such as 512GiB."""
    if isinstance(size, int):
        return size
    match = re.fullmatch(r"\s*([0-9.]+)\s*([KMGT]?)(?:iB)?\s*", size)
    if match is None:
        raise ValueError(f"{size!r} is no size: write bytes, or 512GiB")
    return int(float(match[1]) * (1 << _UNITS[match[2]]))
