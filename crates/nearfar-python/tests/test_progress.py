"""What long statements show, in terminals and in notebooks."""

import io
import sys
import threading
import time
import types

import nearfar
import pyarrow
import pytest
from nearfar import _progress

SLOW = "SELECT pg_sleep(0.3)"


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def immediately(monkeypatch):
    monkeypatch.setattr(_progress, "_QUIET_S", 0)
    yield
    nearfar.progress()


@pytest.fixture
def terminal(monkeypatch):
    """Makes something standard error, within the test: pytest has its own before."""

    def use(out=None):
        out = out or Terminal()
        monkeypatch.setattr(sys, "stderr", out)
        return out

    return use


def slow_rows(then=None):
    """Batches that take a while each; `then` is what becomes of the last one."""
    batch = pyarrow.record_batch({"n": [1.0, 2.0, 3.0]})

    def batches():
        for _ in range(3):
            time.sleep(0.12)
            yield batch
        if then:
            raise then

    return pyarrow.RecordBatchReader.from_batches(batch.schema, batches())


def test_a_terminal_has_a_line_that_goes_away(db, terminal):
    out = terminal()
    db.sql(SLOW).fetchall()
    lines = out.getvalue().split("\r")
    assert len(lines) > 2 and lines[1].endswith(" s\x1b[K")
    assert lines[-1] == "\x1b[K"


@pytest.mark.parametrize("run", [
    lambda db: db.sql(SLOW).arrow(),
    lambda db: db.execute(SLOW),
    lambda db: db.execute(f"SELECT 1; {SLOW}; SELECT 2"),
    lambda db: db.execute(f"CREATE TABLE t AS {SLOW} AS slept"),
    lambda db: repr(db.sql(SLOW)),
    lambda db: db.sql(SLOW).fetchone(),
])
def test_all_ways_to_run_something_have_it(db, terminal, run):
    out = terminal()
    run(db)
    assert out.getvalue().endswith("\r\x1b[K")


def test_nothing_is_shown_elsewhere_or_where_it_is_not_wanted(db, terminal):
    out = terminal()
    nearfar.progress(False)
    db.sql(SLOW).fetchall()
    nearfar.progress()
    thread = threading.Thread(target=lambda: db.sql(SLOW).fetchall())
    thread.start()
    thread.join()
    assert out.getvalue() == ""
    no_terminal = terminal(io.StringIO())
    db.sql(SLOW).fetchall()
    assert no_terminal.getvalue() == ""
    nearfar.progress(True)
    db.sql(SLOW).fetchall()
    assert no_terminal.getvalue() != ""


def test_what_is_short_is_over_before(db, terminal, monkeypatch):
    monkeypatch.setattr(_progress, "_QUIET_S", 10)
    out = terminal()
    db.sql(SLOW).fetchall()
    assert out.getvalue() == ""


def test_rows_that_are_read_and_bytes_of_tiers_are_told(db, terminal):
    out = terminal()
    assert db.ingest("t", slow_rows()) == 9
    assert " s, 6 rows\x1b[K" in out.getvalue()
    assert db.append("t", slow_rows()) == 9
    out = terminal()
    assert len(db.sql("SELECT pg_sleep(n / 20) FROM t").fetchall()) == 18
    assert " B read\x1b[K" in out.getvalue()
    # Rows and bytes of before are not those of the next statement.
    out = terminal()
    db.sql(SLOW).fetchall()
    assert "rows" not in out.getvalue() and "read" not in out.getvalue()


def test_an_error_takes_the_line_away(db, terminal):
    out = terminal()
    with pytest.raises(nearfar.Error, match="no more"):
        db.ingest("t", slow_rows(then=RuntimeError("no more")))
    assert out.getvalue().endswith("\r\x1b[K")


def test_what_fails_to_show_does_not_fail_the_statement(db, terminal, monkeypatch):
    class Broken(Terminal):
        def write(self, text):
            raise OSError("no terminal any more")

    terminal(Broken())
    assert len(db.sql(SLOW).fetchall()) == 1
    told = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    monkeypatch.setattr(_progress._Terminal, "show", lambda *_: 1 / 0)
    monkeypatch.setattr(_progress._Terminal, "end", lambda _: None)
    assert len(db.sql(SLOW).fetchall()) == 1
    assert isinstance(told[0].exc_value, ZeroDivisionError)


def test_notebooks_have_a_bar(db, monkeypatch):
    shown = []

    class ZMQInteractiveShell:
        pass

    class Handle:
        def update(self, what):
            shown.append(what)

    def display(what, display_id):
        assert display_id
        shown.append(what)
        return Handle()

    ipython = types.ModuleType("IPython")
    ipython.get_ipython = ZMQInteractiveShell
    ipython.display = types.ModuleType("IPython.display")
    ipython.display.HTML = lambda text: text
    ipython.display.display = display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", ipython.display)
    db.sql(SLOW).fetchall()
    assert len(shown) > 1 and shown[0].startswith("<progress></progress> ") and shown[-1] == ""


def test_sizes_are_readable():
    assert [_progress._size(size) for size in (12, 1536, 5 << 20, 3 << 30, 2 << 40)] == [
        "12 B", "1.5 KiB", "5.0 MiB", "3.0 GiB", "2.0 TiB"
    ]
