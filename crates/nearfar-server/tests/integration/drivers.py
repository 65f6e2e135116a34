"""What drivers of PostgreSQL send by themselves, against a server: drivers.py DRIVER PORT.

The exit code is 77 where the driver is not installed.
"""

import asyncio
import sys

MISSING = 77
HOST, USER = "127.0.0.1", "me"


def psycopg3(port):
    import psycopg

    dsn = f"host={HOST} port={port} user={USER}"
    with psycopg.connect(dsn, prepare_threshold=0) as connection:
        # Once something is prepared, a rollback is followed by DEALLOCATE ALL.
        for number in range(3):
            connection.execute("select %s::int", (number,))
            connection.rollback()
        try:
            connection.execute("select nothing")
        except psycopg.Error:
            connection.rollback()
        assert connection.execute("select %s::int + 1", (41,)).fetchone() == (42,)
        connection.commit()
        # Those beyond the most are deallocated one by one.
        connection.prepared_max = 1
        for number in range(3):
            connection.execute(f"select %s::int + {number}", (1,))
        connection.commit()
    with psycopg.connect(dsn) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        connection.execute("select 1")
    given = "-c statement_timeout=5s -c memory_limit=1GiB"
    with psycopg.connect(dsn, options=given, autocommit=True) as connection:
        assert connection.execute("show statement_timeout").fetchone() == ("5000ms",)
        connection.execute("discard all")
        connection.execute("select %s::int", (1,), prepare=True)
        connection.execute("deallocate all")


def psycopg2(port):
    import psycopg2

    connection = psycopg2.connect(f"host={HOST} port={port} user={USER}")
    cursor = connection.cursor()
    cursor.execute("select 1")
    connection.rollback()
    connection.set_session(isolation_level="REPEATABLE READ", readonly=True)
    cursor.execute("select 1")
    connection.rollback()
    connection.reset()
    cursor.execute("select 1")
    connection.rollback()
    connection.set_session(isolation_level="READ COMMITTED", readonly=False, autocommit=True)
    cursor.execute("select 1")
    connection.close()


def sqlalchemy(port):
    import psycopg  # noqa: F401
    import sqlalchemy

    address = f"postgresql+psycopg://{USER}@{HOST}:{port}/{USER}"
    engine = sqlalchemy.create_engine(address, use_native_hstore=False, pool_size=1)
    for _ in range(3):
        with engine.connect() as connection:
            for number in range(7):
                connection.execute(sqlalchemy.text("select :a + 1"), {"a": number})
            connection.rollback()
    for level in ["REPEATABLE READ", "AUTOCOMMIT"]:
        with engine.connect().execution_options(isolation_level=level) as connection:
            assert connection.execute(sqlalchemy.text("select 1")).scalar() == 1
    engine.dispose()


def asyncpg(port):
    import asyncpg

    async def use():
        settings = {"jit": "off", "application_name": "drivers"}
        pool = await asyncpg.create_pool(
            host=HOST, port=port, user=USER, min_size=1, max_size=1, server_settings=settings
        )
        for number in range(3):
            # A connection that is given back is reset.
            async with pool.acquire() as connection:
                assert await connection.fetchval("select $1::int + 1", number) == number + 1
                async with connection.transaction():
                    await connection.fetch("select 1")
        await pool.close()

    asyncio.run(use())


if __name__ == "__main__":
    driver, port = sys.argv[1], int(sys.argv[2])
    try:
        globals()[driver](port)
    except ModuleNotFoundError:
        sys.exit(MISSING)
