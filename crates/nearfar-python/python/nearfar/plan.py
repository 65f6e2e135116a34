"""What to buy.

>>> nearfar.plan.cheapest("1TiB")["currency"]
'USD'
"""

from __future__ import annotations

import json
from typing import Any

from . import _nearfar
from ._sizes import Size, size_in_bytes


def cheapest(
    capacity: Size,
    *,
    devices_min: int = 0,
    devices_max: int | None = None,
    prices: str | None = None,
) -> dict[str, Any]:
    """The cheapest machine with so much memory, by a list of prices (TOML), or by the published one.

    The price is estimated: it is computed from the list, which has a date.
    """
    found: dict[str, Any] = json.loads(
        _nearfar.cheapest(size_in_bytes(capacity), devices_min, devices_max, prices)
    )
    return found
