"""What surrounds a database: signals, forks, and the end of the interpreter."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time

import nearfar
import pytest

LONG = "SELECT sum(sqrt(a.a * b.b)) FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b"


@pytest.fixture
def interruptible():
    """Ctrl-C as in a terminal: programs that a script starts in the background ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("take", [lambda rows: rows.fetchall(), lambda rows: rows.arrow()])
def test_ctrl_c_ends_a_query(db, take):
    rows = db.sql(LONG)
    threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        take(rows)
    assert time.monotonic() - began < 10
    assert db.sql("SELECT 1").fetchone() == (1,)


def test_other_threads_go_on_during_a_query(db):
    counted, done = 0, threading.Event()

    def query():
        db.sql("SELECT sum(sqrt(value)) FROM generate_series(1, 20000000)").fetchall()
        done.set()

    thread = threading.Thread(target=query)
    thread.start()
    while not done.is_set():
        counted += 1
        time.sleep(0.001)
    thread.join()
    assert counted > 10


def test_a_forked_process_is_told(db):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            db.sql("SELECT 1")
        except nearfar.InterfaceError as error:
            os.write(writer, str(error).encode())
        os._exit(0)
    os.close(writer)
    told = os.read(reader, 1000).decode()
    os.waitpid(child, 0)
    assert "forked" in told
    assert db.sql("SELECT 1").fetchone() == (1,)


def test_the_interpreter_may_end_during_a_query():
    script = f"""
import nearfar, threading, time
db = nearfar.connect()
rows = db.sql({LONG!r})
threading.Thread(target=rows.fetchall, daemon=True).start()
time.sleep(0.5)
"""
    ended = subprocess.run([sys.executable, "-c", script], timeout=60, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr


def test_two_copies_of_the_module_live_in_one_process(tmp_path):
    # As two versions of it would, which a program and a plug-in bring.
    shutil.copytree(pathlib.Path(nearfar.__file__).parent, tmp_path / "nearfar")
    script = f"""
import sys, nearfar as one
for name in [name for name in sys.modules if name.split(".")[0] == "nearfar"]:
    del sys.modules[name]
sys.path.insert(0, {str(tmp_path)!r})
import nearfar as other
assert one._nearfar.__file__ != other._nearfar.__file__
with one.connect(threads=1) as first, other.connect(threads=1) as second:
    assert second.ingest("t", first.sql("SELECT 40 + 2 AS n")) == 1
    assert second.sql("SELECT n FROM t").fetchall() == [(42,)]
    try:
        second.sql("SELECT * FROM nowhere").fetchall()
    except other.NotFoundError as error:
        assert not isinstance(error, one.Error)
"""
    ended = subprocess.run([sys.executable, "-c", script], timeout=60, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr


def test_import_is_fast():
    script = "import time; t = time.perf_counter(); import nearfar; print(time.perf_counter() - t)"
    times = [
        float(subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout)
        for _ in range(5)
    ]
    print(f"import nearfar: {min(times):.3f} s at best of 5")
    assert min(times) < 0.2
    loaded = "import sys, nearfar; print([m for m in ('pandas', 'polars', 'pyarrow', 'numpy') if m in sys.modules])"
    told = subprocess.run([sys.executable, "-c", loaded], check=True, capture_output=True, text=True)
    assert told.stdout.strip() == "[]"
