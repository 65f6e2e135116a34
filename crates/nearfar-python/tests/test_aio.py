"""The interface for asyncio."""

import asyncio
import threading
import time

import nearfar
import nearfar.aio
import pytest

LONG = "SELECT sum(sqrt(a.a * b.b)) FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b"


def test_the_loop_goes_on_during_a_query():
    async def counting():
        counted = 0
        async with nearfar.aio.connect(threads=2) as db:
            query = "SELECT sum(sqrt(value)) FROM generate_series(1, 20000000)"
            running = asyncio.create_task(db.fetchall(query))
            while not running.done():
                counted += 1
                await asyncio.sleep(0.001)
            assert len(await running) == 1
        return counted

    assert asyncio.run(counting()) > 10


@pytest.mark.parametrize("take", ["fetchall", "arrow", "execute"])
def test_a_task_that_is_cancelled_has_its_query_given_up(take):
    async def cancelled():
        async with nearfar.aio.connect(threads=2) as db:
            running = asyncio.create_task(getattr(db, take)(LONG))
            await asyncio.sleep(0.5)
            began = time.monotonic()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            assert time.monotonic() - began < 10
            return await db.fetchall("SELECT 1")

    assert asyncio.run(cancelled()) == [(1,)]


def test_statements_of_a_cursor_run_concurrently():
    async def both():
        async with nearfar.aio.connect(threads=2) as db, db.cursor() as other:
            await db.execute("CREATE TABLE t AS SELECT value AS n FROM generate_series(1, 1000)")
            sums = [session.fetchall("SELECT sum(n) FROM t") for session in (db, other)]
            return await asyncio.gather(*sums)

    assert asyncio.run(both()) == [[(500500,)], [(500500,)]]


def test_a_connection_that_is_not_open_is_told():
    async def used():
        db = nearfar.aio.connect()
        with pytest.raises(nearfar.InterfaceError, match="async with"):
            await db.fetchall("SELECT 1")

    asyncio.run(used())


def test_another_thread_interrupts_a_query(db):
    rows = db.sql(LONG)
    threading.Timer(0.5, db.interrupt).start()
    began = time.monotonic()
    with pytest.raises(nearfar.OperationalError, match="interrupt"):
        rows.fetchall()
    assert time.monotonic() - began < 10
    db.interrupt()
    assert db.sql("SELECT 1").fetchone() == (1,)
