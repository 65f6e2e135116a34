"""Machines of others: their profiles, runs on them in virtual time, and profiles of machines of your own.

>>> "cxl-blades-4" in nearfar.model.profiles()
True
>>> nearfar.model.profile("cxl-blades-4")["name"]
'cxl-blades-4'
"""

from __future__ import annotations

import html
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from . import _nearfar
from .figures import Figures, _run

Points = str | os.PathLike[str] | Figures
"""Points of a machine: a file (CSV or JSON lines), or what :func:`nearfar.measure` gave."""


def profiles() -> list[str]:
    """The names of the built-in profiles."""
    return list(_nearfar.builtin_profiles())


def profile(name: str) -> dict[str, Any]:
    """A profile: its numbers, and the source of each. ``name`` is a built-in one's, or a file."""
    found: dict[str, Any] = json.loads(_nearfar.profile(name))
    return found


def run(
    profile: str | os.PathLike[str],
    specification: str | os.PathLike[str] | None = None,
    *,
    preset: str | None = None,
    settings: Mapping[str, object] | None = None,
    lines: int | None = None,
) -> Figures:
    """Runs an access benchmark on the machine of a profile, in virtual time: no memory is read.

    ``profile`` is the name of a built-in one, or a file, such as one of :meth:`Calibration.save`. All figures are
    modelled but the time that the run itself has taken, which is measured. ``lines`` bounds how many cache lines of
    each repetition are followed.

    >>> settings = {"operation": "chase", "placement": ["near", "far"], "repetitions": 1}
    >>> near, far = nearfar.model.run("cxl-blades-4", settings=settings, lines=2000).of("latency_ns")
    >>> near["kind"], far["value"] > 1.5 * near["value"]
    ('modelled', True)
    """
    return _run(specification, preset, settings, os.fspath(profile), is_virtual=True, lines=lines)


class Calibration:
    """A profile that was fitted to points, and what it is worth."""

    def __init__(self, found: Mapping[str, Any]) -> None:
        self.profile: dict[str, Any] = found["profile"]
        """The new profile, as :func:`profile` gives one."""
        self.text: str = found["text"]
        """The same in TOML."""
        self.parameters: dict[str, dict[str, float]] = found["parameters"]
        """What was fitted, by its key: ``before_ns``, ``value_ns``, and the standard error as
        ``uncertainty_percent``."""
        self.figures = Figures(found["figures"])
        """The mean errors, the parameters, and the error of every point. All of it is modelled."""

    @property
    def fitted_error_percent(self) -> float:
        """The mean absolute error of the points that were fitted."""
        return self._error("fitted_error_percent")

    @property
    def held_out_error_percent(self) -> float:
        """The mean absolute error of the points that took no part: what to expect of others of their kinds."""
        return self._error("held_out_error_percent")

    def _error(self, metric: str) -> float:
        value: float = self.figures.of(metric)[0]["value"]
        return value

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the profile to a file, which other functions take in the place of a profile's name."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.text)

    def __repr__(self) -> str:
        lines = [
            f"{key}: {one['before_ns']:g} ns, fitted {one['value_ns']:g} ns (+- {one['uncertainty_percent']:.1f} %)"
            for key, one in self.parameters.items()
        ]
        return "\n".join([*lines, self._errors()])

    def _errors(self) -> str:
        return (
            f"mean error: {self.fitted_error_percent:.1f} % of points that were fitted, "
            f"{self.held_out_error_percent:.1f} % of others"
        )

    def _repr_html_(self) -> str:
        """The parameters as a table, for notebooks."""
        rows = "".join(
            f"<tr><td>{html.escape(key)}</td><td>{one['before_ns']:g} ns</td><td>{one['value_ns']:g} ns</td>"
            f"<td>{one['uncertainty_percent']:.1f} %</td></tr>"
            for key, one in self.parameters.items()
        )
        head = "<tr><th>parameter</th><th>before</th><th>fitted</th><th>standard error</th></tr>"
        return f"<table><thead>{head}</thead><tbody>{rows}</tbody></table><p>{self._errors()}</p>"


def calibrate(
    points: Points | Sequence[Points],
    *,
    profile: str | os.PathLike[str] = "cxl-blades-4",
    fit: Sequence[str] | None = None,
    hold_out: float = 0.25,
    seed: int = 0,
    rounds: int = 200,
    name: str = "calibrated",
) -> Calibration:
    """Fits a profile to points of a machine, so that the model predicts others (docs/calibration.md).

    ``points`` are figures of the presets ``calibrate`` and ``latency``, or files: results of ``nearfar measure`` as
    JSON lines (``.jsonl``), or CSV. The search begins with ``profile``, and changes the parameters ``fit``, by default
    the latency and rates of far memory. ``hold_out`` is the share of the points that takes no part, drawn by
    ``seed``, and ``rounds`` the most simulations of all others. Ctrl-C ends it.

    >>> settings = {"operation": "chase", "placement": "far", "repetitions": 1, "threads": 1}
    >>> def latency(seed):
    ...     return nearfar.model.run("cxl-fpga", settings=settings | {"seed": seed}, lines=2000)
    >>> found = nearfar.model.calibrate([latency(1), latency(2), latency(3)], fit=["far.read_latency_ns"])
    >>> found.parameters["far.read_latency_ns"]["uncertainty_percent"] < 5
    True
    """
    each = [points] if isinstance(points, str | os.PathLike | Figures) else list(points)
    read = [_read(one, index) for index, one in enumerate(each, start=1)]
    keys = None if fit is None else list(fit)
    return Calibration(
        json.loads(_nearfar.calibrate(read, os.fspath(profile), keys, hold_out, seed, rounds, name))
    )


def _read(points: Points, index: int) -> tuple[str, str, str]:
    """The name, format and text of points."""
    if isinstance(points, Figures):
        return f"figures {index}", "figures", json.dumps(list(points))
    path = os.fspath(points)
    with open(path, encoding="utf-8") as file:
        return path, "jsonl" if path.endswith(".jsonl") else "csv", file.read()
