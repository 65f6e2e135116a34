"""What to buy.

>>> nearfar.plan.cheapest("1TiB")["currency"]
'USD'
"""

from __future__ import annotations

import json
import re
from typing import Any

from . import _nearfar

_UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}


def cheapest(
    capacity: int | str,
    *,
    devices_min: int = 0,
    devices_max: int | None = None,
    prices: str | None = None,
) -> dict[str, Any]:
    """The cheapest machine with so much memory, by a list of prices (TOML), or by the published one.

    The price is estimated: it is computed from the list, which has a date.
    """
    found: dict[str, Any] = json.loads(
        _nearfar.cheapest(_bytes(capacity), devices_min, devices_max, prices)
    )
    return found


def _bytes(size: int | str) -> int:
    if isinstance(size, int):
        return size
    match = re.fullmatch(r"\s*([0-9.]+)\s*([KMGT]?)(?:iB)?\s*", size)
    if match is None:
        raise ValueError(f"{size!r} is no size: write bytes, or 512GiB")
    return int(float(match[1]) * (1 << _UNITS[match[2]]))
