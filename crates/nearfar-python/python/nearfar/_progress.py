"""What statements that take long show while they run."""

from __future__ import annotations

import contextlib
import html
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from . import _nearfar

_QUIET_S = 0.5
_is_wanted: bool | None = None


def progress(show: bool | None = None) -> None:
    """Says whether statements that take longer than half a second show how far they are.

    By default, they do in notebooks, and where standard error is a terminal. What is shown is the time, the rows that
    were read or given, and what all statements of the database have read of the tiers meanwhile. Nothing is shown for
    statements of other threads than the main one.

    >>> nearfar.progress(False)
    >>> nearfar.progress()
    """
    global _is_wanted
    _is_wanted = show


class _Line(Protocol):
    def show(self, text: str) -> None: ...
    def end(self) -> None: ...


class _Terminal:
    """The last line of a terminal."""

    def __init__(self, out: Any) -> None:
        self._out = out

    def show(self, text: str) -> None:
        # A line that can't be shown is no loss.
        with contextlib.suppress(OSError, ValueError):
            self._out.write(f"\r{text}\x1b[K")
            self._out.flush()

    def end(self) -> None:
        self.show("")


class _Cell:
    """A bar below a cell of a notebook."""

    def __init__(self, display: Any) -> None:
        self._display = display
        self._handle: Any = None

    def show(self, text: str) -> None:
        self._update(f"<progress></progress> {html.escape(text)}")

    def end(self) -> None:
        self._update("")

    def _update(self, shown: str) -> None:
        shown = self._display.HTML(shown)
        if self._handle is None:
            self._handle = self._display.display(shown, display_id=True)
        else:
            self._handle.update(shown)


def _notebook() -> Any:
    """What displays something in a notebook, if this is one. IPython is there then already."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    if type(shell).__name__ != "ZMQInteractiveShell":
        return None
    from IPython import display

    return display


def _line() -> _Line | None:
    if _is_wanted is False:
        return None
    if display := _notebook():
        return _Cell(display)
    out = sys.stderr
    if out is not None and (_is_wanted or out.isatty()):
        return _Terminal(out)
    return None


class Watch:
    """Shows how far the statements of a session are, by ``with``, which may be nested."""

    def __init__(self, session: _nearfar.Session) -> None:
        self._session = session
        self._depth = 0
        self._line: _Line | None = None
        self._is_shown = False
        self._began = 0.0

    def __enter__(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        self._depth += 1
        if self._depth > 1:
            return
        self._line = _line()
        if self._line is not None:
            self._is_shown = False
            self._began = time.monotonic()
            self._session.watch(self._tell)

    def __exit__(self, *_: object) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        self._depth -= 1
        if self._depth > 0 or self._line is None:
            return
        self._session.watch(None)
        line, self._line = self._line, None
        if self._is_shown:
            line.end()

    def _tell(self, rows: int, bytes_read: int) -> None:
        elapsed_s = time.monotonic() - self._began
        if elapsed_s < _QUIET_S or threading.current_thread() is not threading.main_thread():
            return
        if self._line is not None:
            self._is_shown = True
            self._line.show(_text(elapsed_s, rows, bytes_read))


def _text(elapsed_s: float, rows: int, bytes_read: int) -> str:
    parts = [f"{elapsed_s:.1f} s"]
    if rows:
        parts.append(f"{rows:,} rows")
    if bytes_read:
        parts.append(f"{_size(bytes_read)} read")
    return ", ".join(parts)


def _size(count: int) -> str:
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.1f} {unit}" if unit != "B" else f"{count} B"
        size /= 1024
    return f"{size:.1f} TiB"
