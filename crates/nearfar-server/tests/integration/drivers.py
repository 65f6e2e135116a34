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


def sqlalchemy_orm(port):
    """An engine as it comes: tables from classes, rows as objects, and what the inspector tells of them."""
    import sqlalchemy as sa
    from sqlalchemy import orm

    class Base(orm.DeclarativeBase):
        pass

    class Customer(Base):
        __tablename__ = "customers"
        id = orm.mapped_column(sa.Integer, primary_key=True)
        name = orm.mapped_column(sa.String(40), unique=True, nullable=False)
        orders = orm.relationship("Order", back_populates="customer", cascade="all, delete-orphan")

    class Order(Base):
        __tablename__ = "orders"
        id = orm.mapped_column(sa.BigInteger, sa.Identity(always=True, start=100), primary_key=True)
        customer_id = orm.mapped_column(sa.ForeignKey("customers.id", ondelete="CASCADE"), index=True)
        total = orm.mapped_column(sa.Numeric(12, 2), sa.CheckConstraint("total >= 0", name="sane"))
        customer = orm.relationship("Customer", back_populates="orders")

    engine = sa.create_engine(f"postgresql://{USER}@{HOST}:{port}/{USER}")
    Base.metadata.create_all(engine)
    Base.metadata.create_all(engine)
    with orm.Session(engine) as session:
        ann = Customer(name="ann", orders=[Order(total=12.5), Order(total=1)])
        session.add_all([ann, Customer(name="bob")])
        session.commit()
        assert [order.id for order in ann.orders] == [100, 101]
        of_ann = sa.select(sa.func.sum(Order.total)).join(Customer).where(Customer.name == "ann")
        assert float(session.scalar(of_ann)) == 13.5
        ann.name = "anna"
        session.commit()
        session.delete(ann)
        session.commit()
        assert session.scalar(sa.select(sa.func.count()).select_from(Order)) == 0
    told = sa.inspect(engine)
    assert told.get_table_names() == ["customers", "orders"]
    columns = {column["name"]: column for column in told.get_columns("orders")}
    assert list(columns) == ["id", "customer_id", "total"]
    assert columns["id"]["identity"]["always"] and columns["id"]["identity"]["start"] == 100
    assert columns["total"]["type"].precision == 12
    assert told.get_pk_constraint("orders")["constrained_columns"] == ["id"]
    foreign_key = told.get_foreign_keys("orders")[0]
    assert foreign_key["referred_table"] == "customers"
    assert foreign_key["options"] == {"ondelete": "CASCADE"}
    assert told.get_indexes("orders")[0]["column_names"] == ["customer_id"]
    assert told.get_unique_constraints("customers")[0]["column_names"] == ["name"]
    assert told.get_check_constraints("orders")[0]["name"] == "sane"
    reflected = sa.MetaData()
    reflected.reflect(engine)
    assert sorted(reflected.tables) == ["customers", "orders"]
    Base.metadata.drop_all(engine)
    assert sa.inspect(engine).get_table_names() == []
    engine.dispose()


def pandas(port):
    import pandas
    import sqlalchemy

    engine = sqlalchemy.create_engine(f"postgresql://{USER}@{HOST}:{port}/{USER}")
    days = pandas.to_datetime(["2024-01-02", "2024-02-03", None])
    frame = pandas.DataFrame({"a": [1, 2, 3], "b": ["x", None, "z"], "c": [0.5, 1.5, None], "d": days})
    frame.to_sql("frame", engine, index=False, if_exists="replace")
    frame.to_sql("frame", engine, index=False, if_exists="append", method="multi")
    read = pandas.read_sql("SELECT * FROM frame ORDER BY a", engine)
    assert read["a"].tolist() == [1, 1, 2, 2, 3, 3]
    assert read["c"].isna().sum() == 2
    assert len(pandas.read_sql_table("frame", engine)) == 6
    frame.to_sql("frame", engine, index=False, if_exists="replace")
    assert len(pandas.read_sql_table("frame", engine)) == 3
    engine.dispose()


def adbc(port):
    """PostgreSQL's driver of ADBC, whose rows go by COPY in binary form."""
    import datetime

    import adbc_driver_postgresql.dbapi as driver
    import pyarrow

    day, time = datetime.date(2024, 1, 2), datetime.datetime(2024, 1, 2, 3, 4, 5)
    rows = pyarrow.table(
        {
            "a": pyarrow.array([1, 2, None], pyarrow.int64()),
            "b": ["x", None, "z"],
            "c": [0.5, 1.5, 2.5],
            "d": pyarrow.array([day, None, day], pyarrow.date32()),
            "e": pyarrow.array([time, time, None], pyarrow.timestamp("us")),
            "f": [True, False, None],
            "g": [b"\0\xff", b"", None],
            "h": pyarrow.array([1, 2, 3], pyarrow.int32()),
        }
    )
    with driver.connect(f"postgresql://{USER}@{HOST}:{port}/{USER}") as connection:
        with connection.cursor() as cursor:
            assert cursor.adbc_ingest("ingested", rows, mode="create") == 3
            connection.commit()
            cursor.execute("SELECT * FROM ingested ORDER BY c")
            assert cursor.fetch_arrow_table().to_pydict() == rows.to_pydict()
            cursor.execute("SELECT h + 1 FROM ingested WHERE c > $1 ORDER BY h", parameters=(0.7,))
            assert cursor.fetchall() == [(3,), (4,)]
            assert cursor.adbc_ingest("ingested", rows, mode="append") == 3
            connection.commit()
            cursor.execute("SELECT count(*) FROM ingested")
            assert cursor.fetchone() == (6,)
        assert connection.adbc_get_table_schema("ingested").names == rows.column_names


if __name__ == "__main__":
    driver, port = sys.argv[1], int(sys.argv[2])
    try:
        globals()[driver](port)
    except ModuleNotFoundError:
        sys.exit(MISSING)
