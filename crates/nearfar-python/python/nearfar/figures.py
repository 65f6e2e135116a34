"""Tiers of the machine, and measurements of them."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import _nearfar

if TYPE_CHECKING:
    import pandas


_SHOWN = 20


class Figures(Sequence[dict[str, Any]]):
    """Figures in Nearfar's schema of results.

    Each has ``metric``, ``value`` (or why there is none), ``unit`` and ``kind``: ``measured``,
    ``modelled``, ``published`` and ``estimated`` figures are never mixed.
    """

    def __init__(self, figures: Sequence[dict[str, Any]]) -> None:
        self._figures = list(figures)

    def __getitem__(self, index: Any) -> Any:
        found = self._figures[index]
        return Figures(found) if isinstance(index, slice) else found

    def __len__(self) -> int:
        return len(self._figures)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._figures)

    def of(self, metric: str) -> Figures:
        """Those of one metric."""
        return Figures([figure for figure in self if figure["metric"] == metric])

    def df(self) -> pandas.DataFrame:
        """As a data frame of pandas: one row per figure; ``reason`` says why there is no value."""
        import pandas

        return pandas.DataFrame([_flat(figure) for figure in self])

    def plot(self, metric: str, x: str, by: str | None = None) -> Any:
        """A figure of matplotlib: one metric over one of its dimensions, with the kind in its title."""
        try:
            from matplotlib import pyplot
        except ImportError as error:
            raise ImportError("plots need matplotlib: pip install matplotlib") from error
        chosen = [figure for figure in self.of(metric) if isinstance(figure["value"], int | float)]
        kinds = sorted({figure["kind"] for figure in chosen})
        if len(kinds) > 1:
            raise ValueError(f"{metric} has figures of several kinds ({', '.join(kinds)}): choose those of one")
        _, axes = pyplot.subplots()
        series: dict[str, list[tuple[Any, float]]] = {}
        for figure in chosen:
            name = str(figure.get(by)) if by else metric
            series.setdefault(name, []).append((figure.get(x), figure["value"]))
        for name, points in series.items():
            points.sort()
            axes.plot([point[0] for point in points], [point[1] for point in points], marker="o", label=name)
        axes.set_xlabel(x)
        axes.set_ylabel(f"{metric} ({chosen[0]['unit']})" if chosen else metric)
        axes.set_title(", ".join(kinds))
        axes.legend()
        return axes

    def _repr_html_(self) -> str:
        """The figures as a table, for notebooks."""
        names = ("metric", "value", "kind", "run", "task", "tier", "percentile")
        used = [name for name in names if any(name in figure for figure in self)]
        head = "".join(f"<th>{name}</th>" for name in used)

        def row(figure: Mapping[str, Any]) -> str:
            cells = [_value(figure) if name == "value" else str(figure.get(name, "")) for name in used]
            return "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>"

        body = "".join(row(figure) for figure in self._figures[:_SHOWN])
        rest = f"<p>and {len(self) - _SHOWN} more</p>" if len(self) > _SHOWN else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{rest}"

    def __repr__(self) -> str:
        lines = [f"{figure['metric']}: {_value(figure)} ({figure['kind']})" for figure in self._figures[:_SHOWN]]
        rest = len(self) - len(lines)
        return "\n".join(lines + ([f"... and {rest} more"] if rest else []))


def _value(figure: Mapping[str, Any]) -> str:
    value = figure["value"]
    if isinstance(value, Mapping):
        return f"unavailable: {value.get('unavailable')}"
    return f"{value:g} {figure['unit']}"


def _flat(figure: Mapping[str, Any]) -> dict[str, Any]:
    value = figure["value"]
    if isinstance(value, Mapping):
        return {**figure, "value": None, "reason": value.get("unavailable")}
    return dict(figure)


def tiers(
    profile: str | None = None,
    *,
    probe: bool = False,
    sysfs: str | os.PathLike[str] | None = None,
    threads: int | None = None,
) -> list[dict[str, Any]]:
    """The memory of this machine as tiers, near to far.

    With ``profile``, the far memory of that machine is added, modelled. With ``probe``, latency and
    bandwidth of each tier are taken: its ``figures``.

    >>> nearfar.tiers()[0]["name"]
    'near'
    """
    found = json.loads(_nearfar.tiers(profile, probe, sysfs, threads))
    listed: list[dict[str, Any]] = found["topology"]["tiers"]
    for tier in listed:
        of_tier = [figure for figure in found["metrics"] if figure.get("tier") == tier["name"]]
        tier["figures"] = Figures(of_tier)
    return listed


def presets() -> dict[str, str]:
    """The specifications that come with Nearfar, and what they are for."""
    return dict(_nearfar.presets())


def measure(
    specification: str | os.PathLike[str] | None = None,
    *,
    preset: str | None = None,
    settings: Mapping[str, object] | None = None,
    profile: str | None = None,
) -> Figures:
    """Measures this machine's memory, as a specification says (docs/measure.md).

    ``specification`` is a file in TOML or YAML, or a text in TOML of several lines; ``settings`` replace single fields
    of it, where a list makes a run of each. With ``profile``, far memory is emulated, and the figures are modelled.

    >>> quick = {"size": "8MiB", "pages": "base", "time": "10ms", "repetitions": 1, "pin": "none"}
    >>> nearfar.measure(settings=quick | {"operation": ["read", "chase"]}).of("latency_ns")[0]["kind"]
    'measured'
    """
    return _run(specification, preset, settings, profile, is_virtual=False, lines=None)


def _run(
    specification: str | os.PathLike[str] | None,
    preset: str | None,
    settings: Mapping[str, object] | None,
    profile: str | None,
    is_virtual: bool,
    lines: int | None,
) -> Figures:
    named = None
    if isinstance(specification, str) and "\n" in specification:
        named = ("the specification", specification)
    elif specification is not None:
        with open(specification, encoding="utf-8") as file:
            named = (os.fspath(specification), file.read())
    written = {path: _texts(value) for path, value in (settings or {}).items()}
    return Figures(json.loads(_nearfar.measure(named, preset, written, profile, is_virtual, lines)))


def _texts(value: object) -> list[str]:
    if isinstance(value, list | tuple):
        return [str(one) for one in value]
    return [str(value)]
