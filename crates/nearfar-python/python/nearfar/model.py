"""Machines of others: their profiles, and runs on them in virtual time.

>>> "cxl-blades-4" in nearfar.model.profiles()
True
>>> nearfar.model.profile("cxl-blades-4")["name"]
'cxl-blades-4'
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from . import _nearfar
from .figures import Figures, _run


def profiles() -> list[str]:
    """The names of the built-in profiles."""
    return list(_nearfar.builtin_profiles())


def profile(name: str) -> dict[str, Any]:
    """A profile: its numbers, and the source of each. ``name`` is a built-in one's, or a file."""
    found: dict[str, Any] = json.loads(_nearfar.profile(name))
    return found


def run(
    profile: str,
    specification: str | os.PathLike[str] | None = None,
    *,
    preset: str | None = None,
    settings: Mapping[str, object] | None = None,
    lines: int | None = None,
) -> Figures:
    """Runs an access benchmark on the machine of a profile, in virtual time: no memory is read.

    All figures are modelled but the time that the run itself has taken, which is measured. ``lines`` bounds how many cache lines of each repetition are followed.
    """
    return _run(specification, preset, settings, profile, is_virtual=True, lines=lines)
