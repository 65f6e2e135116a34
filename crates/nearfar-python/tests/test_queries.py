"""Statements, parameters, and rows in all their forms."""

import datetime
import decimal
import pathlib
import shutil
import tempfile
import threading

import nearfar
import pandas
import polars
import pyarrow
import pytest


def test_rows_in_every_form(db):
    db.execute("CREATE TABLE t AS SELECT value AS n, 'row ' || value AS name FROM generate_series(1, 100000)")
    rows = db.sql("SELECT n, name FROM t ORDER BY n")
    assert rows.columns == ["n", "name"]
    arrow, frame, pandas_frame = rows.arrow(), rows.polars(), rows.df()
    assert isinstance(frame, polars.DataFrame) and isinstance(pandas_frame, pandas.DataFrame)
    assert arrow.num_rows == len(frame) == len(pandas_frame) == 100000
    expected = ("row 1", "row 100000")
    assert (arrow["name"][0].as_py(), arrow["name"][-1].as_py()) == expected
    assert (frame["name"][0], frame["name"][-1]) == expected
    assert (pandas_frame["name"].iloc[0], pandas_frame["name"].iloc[-1]) == expected
    assert rows.fetchall()[-1] == (100000, "row 100000")
    assert sum(n for n, _ in rows) == 100000 * 100001 // 2
    assert pyarrow.table(rows).num_rows == 100000


def test_values_have_the_types_of_python(db):
    moment = datetime.datetime(2026, 11, 25, 1, 2, 3, 456789)
    values = [None, True, -7, 2.5, "ü", decimal.Decimal("-12.340"), datetime.date(1969, 12, 31), moment]
    row = db.sql("SELECT ?, ?, ?, ?, ?, ?, ?, ?", values).fetchone()
    assert list(row) == values
    zoned = moment.replace(tzinfo=datetime.timezone.utc)
    assert db.sql("SELECT ? AS z", [zoned]).fetchone() == (zoned,)
    assert db.sql("SELECT make_array(1, 2) AS a, X'00ff' AS b").fetchone() == ([1, 2], b"\x00\xff")


def test_marks_in_texts_and_comments_are_no_parameters(db):
    sql = """SELECT '?', "?", $$?$$, ? /* ? /* ? */ */ -- ?
        FROM (SELECT 1 AS "?")"""
    assert db.sql(sql, [5]).fetchone() == ("?", 1, "?", 5)


def test_objects_in_scope_are_tables(db):
    frame = polars.DataFrame({"a": [1, 2, 3], "s": ["x", "y", None]})
    pandas_frame = pandas.DataFrame({"a": [1, 2, 2]})
    lazy = frame.lazy().filter(polars.col("a") > 1)
    Mixed = pyarrow.table({"a": [3]})
    assert db.sql("SELECT sum(a) FROM frame").fetchone() == (6,)
    assert db.sql("SELECT count(*) FROM frame JOIN pandas_frame USING (a)").fetchone() == (3,)
    assert db.sql("SELECT count(*) FROM lazy").fetchone() == (2,)
    assert db.sql("SELECT a FROM Mixed").fetchone() == (3,)
    db.execute("CREATE TABLE kept AS SELECT * FROM frame")
    db.execute("INSERT INTO kept SELECT a, 'z' FROM pandas_frame")
    assert db.sql("SELECT count(*), max(s) FROM kept").fetchone() == (6, "z")
    with pytest.raises(nearfar.NotFoundError, match="nowhere"):
        db.sql("SELECT * FROM nowhere")


def test_a_query_keeps_the_object_that_its_name_was(db):
    frame = polars.DataFrame({"a": [1]})
    rows = db.sql("SELECT a FROM frame")
    frame = polars.DataFrame({"a": [2]})
    assert rows.fetchall() == [(1,)]
    assert db.sql("SELECT a FROM frame").fetchall() == [(2,)]


def test_registered_rows_are_read_where_they_are(db):
    numbers = pyarrow.table({"n": pyarrow.array(range(100_000))})
    before = pyarrow.total_allocated_bytes()
    db.register("numbers", numbers)
    assert db.sql("SELECT sum(n) FROM numbers").fetchone() == (sum(range(100_000)),)
    # The description of the columns is copied, the values are not.
    assert pyarrow.total_allocated_bytes() < before + 10_000
    with pytest.raises(nearfar.Error):
        db.execute("INSERT INTO numbers VALUES (1)")
    db.unregister("numbers")
    with pytest.raises(nearfar.NotFoundError):
        db.unregister("numbers")


def test_ingest_and_append(db):
    table = pyarrow.table({"id": [1, 2], "name": ["a", "b"]})
    assert db.ingest("people", table) == 2
    with pytest.raises(nearfar.ExistsError):
        db.ingest("people", table)
    assert db.append("people", polars.DataFrame({"name": ["c"], "id": [3]})) == 1
    assert db.ingest("people", table.to_reader(), mode="append") == 2
    assert db.sql("SELECT id, name FROM people ORDER BY id, name").fetchall() == [
        (1, "a"), (1, "a"), (2, "b"), (2, "b"), (3, "c")
    ]
    assert db.ingest("people", table, mode="replace") == 2
    with pytest.raises(nearfar.NotFoundError, match="other"):
        db.append("people", pyarrow.table({"other": [1]}))
    assert db.ingest("Mixed Case", table) == db.append("Mixed Case", table) == 2
    assert db.sql('SELECT count(*) FROM "Mixed Case"').fetchone() == (4,)
    with pytest.raises(TypeError, match="gives no rows"):
        db.ingest("people", 42)
    with pytest.raises(nearfar.InterfaceError, match="mode"):
        db.ingest("people", table, mode="sideways")


def test_an_error_among_the_rows_leaves_nothing(db):
    def batches():
        yield pyarrow.record_batch({"n": [1, 2]})
        raise RuntimeError("the source is gone")

    schema = pyarrow.schema([("n", pyarrow.int64())])
    reader = pyarrow.RecordBatchReader.from_batches(schema, batches())
    with pytest.raises(nearfar.Error, match="the source is gone"):
        db.ingest("part", reader)
    with pytest.raises(nearfar.NotFoundError):
        db.table("part")


def test_transactions(db):
    db.execute("CREATE TABLE account (id BIGINT PRIMARY KEY, cents BIGINT)")
    db.execute("INSERT INTO account VALUES (1, 100)")
    other = db.cursor()
    db.begin()
    db.execute("UPDATE account SET cents = 50")
    assert other.sql("SELECT cents FROM account").fetchone() == (100,)
    db.rollback()
    assert db.sql("SELECT cents FROM account").fetchone() == (100,)
    with pytest.raises(nearfar.IntegrityError):
        db.execute("INSERT INTO account VALUES (1, 0)")
    changed = db.sql("UPDATE account SET cents = 7 WHERE id = 1")
    assert changed.rowcount == 1
    with pytest.raises(nearfar.ProgrammingError, match="no rows"):
        changed.fetchall()
    other.close()


def test_what_is_kept_is_there_again(tmp_path):
    path = tmp_path / "shop"
    with nearfar.connect(path) as db:
        db.execute("CREATE TABLE t AS SELECT 1 AS one")
        with pytest.raises(nearfar.OperationalError):
            nearfar.connect(path)
    with nearfar.connect(path) as db:
        assert db.table("t").fetchall() == [(1,)]


def test_columns_move_to_an_emulated_tier():
    with nearfar.connect(profile="cxl-blades-4", near_budget="256MiB") as db:
        db.execute("CREATE TABLE t AS SELECT value AS a, value AS b FROM generate_series(1, 100000)")
        db.place("t", "far", columns=["b"])
        far = {tier["name"]: tier for tier in db.tiers()}["far"]
        assert far["is_emulated"] and far["used_bytes"] > 0
        assert db.sql("SELECT sum(b) FROM t").fetchone() == (5000050000,)
        [near] = [one for one in nearfar.advise(db, "128MiB", table="t") if one.tablespace == "near"]
        assert near.column == "b"


def test_a_budget_that_is_too_small_is_told():
    with nearfar.connect(near_budget="1MiB") as db, pytest.raises(nearfar.TierMemoryError):
        db.ingest("t", pyarrow.table({"n": list(range(3_000_000))}))


def test_budgets_of_tiers_and_memory_of_queries_are_kept():
    with nearfar.connect(profile="cxl-blades-4", budgets={"near": "256MiB", "far": "8MiB"}) as db:
        far = {tier["name"]: tier for tier in db.tiers()}["far"]
        assert far["budget_bytes"] == 8 << 20
        db.execute("CREATE TABLE t AS SELECT value AS n, sqrt(value) AS r FROM generate_series(1, 4000000)")
        with pytest.raises(nearfar.TierMemoryError, match="far"):
            db.place("t", "far")
        assert db.sql("SELECT count(*) FROM t").fetchone() == (4000000,)
    with nearfar.connect(memory_limit="16MiB") as db:
        query = "SELECT length(CAST(array_agg(value) AS VARCHAR)) FROM generate_series(1, 10000000)"
        with pytest.raises(nearfar.TierMemoryError):
            db.sql(query).fetchall()
        assert db.sql("SELECT 1").fetchone() == (1,)


def test_a_pool_keeps_tables_for_the_next_connection(tmp_path):
    shared = pathlib.Path("/dev/shm")
    folder = tempfile.mkdtemp(dir=shared) if shared.is_dir() else tmp_path
    try:
        pool = pathlib.Path(folder) / "pool"
        with nearfar.connect(pool=pool, pool_bytes="64MiB", near_budget="64MiB") as db:
            db.execute("CREATE TABLE t AS SELECT value AS n FROM generate_series(1, 1000)")
        with nearfar.connect(pool=pool, near_budget="64MiB") as db:
            assert db.sql("SELECT sum(n) FROM t").fetchone() == (500500,)
            with pytest.raises(nearfar.Error):
                nearfar.connect(pool=pool)
    finally:
        shutil.rmtree(folder)


def test_wrong_use_is_told(db):
    for wrong, kind in [
        ("SELEC 1", nearfar.ProgrammingError),
        ("", nearfar.ProgrammingError),
        ("SELECT $1", nearfar.Error),
    ]:
        with pytest.raises(kind):
            db.sql(wrong).fetchall()
    with pytest.raises(TypeError, match="parameter"):
        db.sql("SELECT ?", [object()]).fetchall()
    with pytest.raises(nearfar.Error, match="no size"):
        nearfar.connect(near_budget="lots")
    with pytest.raises(nearfar.Error):
        nearfar.connect(profile="no-such-machine")
    closed = db.cursor()
    rows = closed.sql("SELECT 1")
    closed.close()
    closed.close()
    for use in (lambda: closed.sql("SELECT 1"), rows.fetchall, lambda: closed.cursor()):
        with pytest.raises(nearfar.InterfaceError, match="closed"):
            use()


def test_rows_are_given_once_per_run(db):
    stream = db.sql("SELECT 1 AS one").reader()
    assert stream.read_all().num_rows == 1
    with pytest.raises(nearfar.Error, match="Divide by zero"):
        db.sql("SELECT 1 / (value - 70000) FROM generate_series(1, 100000)").arrow()


def test_it_is_shown(db, capsys):
    rows = db.sql("SELECT value AS n, '<b>' AS s FROM generate_series(1, 30)")
    rows.show(2)
    assert capsys.readouterr().out.splitlines() == ["n | s", "--+----", "1 | <b>", "2 | <b>", "..."]
    assert "&lt;b&gt;" in rows._repr_html_() and "more rows" in rows._repr_html_()
    assert repr(rows).splitlines()[0].startswith("n")


def test_threads_share_a_connection(db):
    db.execute("CREATE TABLE t (n BIGINT)")
    failures = []

    def work(number):
        try:
            for _ in range(20):
                db.execute("INSERT INTO t VALUES (?)", [number])
                frame = pyarrow.table({"n": [number]})
                assert db.sql("SELECT n FROM frame").fetchone() == (number,)
        except Exception as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert db.sql("SELECT count(*) FROM t").fetchone() == (80,)
