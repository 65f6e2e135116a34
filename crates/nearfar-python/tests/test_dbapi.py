"""DB-API 2.0, and what others do with an ADBC driver."""

import os
import signal
import threading
import time

import nearfar
import nearfar.dbapi
import pandas
import polars
import pyarrow
import pytest

LONG = "SELECT sum(sqrt(a.a * b.b)) FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b"


@pytest.fixture
def connection():
    with nearfar.dbapi.connect() as connection:
        yield connection


def test_a_cursor(connection):
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE t (n BIGINT, s VARCHAR)")
        cursor.executemany("INSERT INTO t VALUES (?, ?)", [(1, "a"), (2, "b")])
        connection.rollback()
        cursor.execute("SELECT count(*) FROM t")
        assert cursor.fetchone() == (0,)
        connection.rollback()
        cursor.executemany("INSERT INTO t VALUES (?, ?)", [(1, "a"), (2, None)])
        connection.commit()
        cursor.execute("SELECT n, s FROM t WHERE n >= ? ORDER BY n", (1,))
        assert [column[0] for column in cursor.description] == ["n", "s"]
        assert cursor.fetchall() == [(1, "a"), (2, None)]


def test_rows_in_bulk(connection):
    with connection.cursor() as cursor:
        table = pyarrow.table({"n": [1, 2, 3]})
        assert cursor.adbc_ingest("t", table, mode="create") == 3
        assert cursor.adbc_ingest("t", table, mode="append") == 3
        cursor.execute("SELECT sum(n) AS s FROM t")
        assert cursor.fetch_arrow_table().to_pydict() == {"s": [12]}


def test_it_says_what_it_is(connection):
    info = connection.adbc_get_info()
    assert info["vendor_name"] == "Nearfar"
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE t (n BIGINT, s VARCHAR)")
    objects = connection.adbc_get_objects(depth="columns", table_name_filter="t").read_all().to_pylist()
    schemas = {schema["db_schema_name"]: schema for schema in objects[0]["catalog_db_schemas"]}
    [table] = schemas["public"]["db_schema_tables"]
    assert [column["column_name"] for column in table["table_columns"]] == ["n", "s"]
    assert connection.adbc_get_table_schema("t").names == ["n", "s"]
    assert "BASE TABLE" in connection.adbc_get_table_types()


def test_pandas_and_polars_use_it(connection):
    frame = pandas.DataFrame({"n": [1, 2], "s": ["a", "b"]})
    assert frame.to_sql("t", connection, index=False) == 2
    assert pandas.read_sql("SELECT n FROM t ORDER BY n", connection)["n"].tolist() == [1, 2]
    assert polars.read_database("SELECT s FROM t ORDER BY n", connection)["s"].to_list() == ["a", "b"]


def test_it_shares_the_database_of_a_connection(db):
    db.execute("CREATE TABLE t AS SELECT 7 AS n")
    with db.dbapi(autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT n FROM t")
        assert cursor.fetchone() == (7,)


def test_ctrl_c_ends_a_query(connection):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with connection.cursor() as cursor:
            threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
            began = time.monotonic()
            # What ends rows is pyarrow's own error.
            with pytest.raises((KeyboardInterrupt, nearfar.dbapi.OperationalError, pyarrow.ArrowInvalid)):
                cursor.execute(LONG)
                cursor.fetchall()
            assert time.monotonic() - began < 10
        connection.rollback()
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            assert cursor.fetchone() == (1,)
    finally:
        signal.signal(signal.SIGINT, before)


def test_errors_have_their_classes(connection):
    with connection.cursor() as cursor:
        with pytest.raises(nearfar.dbapi.ProgrammingError, match="nowhere"):
            cursor.execute("SELECT * FROM nowhere")
    with pytest.raises(nearfar.dbapi.Error):
        nearfar.dbapi.connect(profile="no-such-machine")
