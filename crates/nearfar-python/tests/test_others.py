"""SQLAlchemy by its dialect, and expressions of ibis."""

import datetime
import decimal

import nearfar
import pandas
import pyarrow
import pytest

sqlalchemy = pytest.importorskip("sqlalchemy")
from sqlalchemy import orm  # noqa: E402


@pytest.fixture
def engine():
    made = sqlalchemy.create_engine("nearfar://?threads=2")
    yield made
    made.dispose()


@pytest.fixture
def fruit(engine):
    metadata = sqlalchemy.MetaData()
    table = sqlalchemy.Table(
        "fruit",
        metadata,
        sqlalchemy.Column("id", sqlalchemy.BigInteger, primary_key=True, autoincrement=False),
        sqlalchemy.Column("name", sqlalchemy.String(40), unique=True, nullable=False),
        sqlalchemy.Column("price", sqlalchemy.Numeric(12, 2)),
        sqlalchemy.Column("picked", sqlalchemy.Date),
        sqlalchemy.Index("by_price", "price", "name"),
    )
    metadata.create_all(engine)
    metadata.create_all(engine)
    day = datetime.date(2026, 11, 26)
    rows = [{"id": n, "name": f"kind {n}", "price": decimal.Decimal(n) / 2, "picked": day} for n in range(5)]
    with engine.begin() as connection:
        connection.execute(table.insert(), rows)
        connection.execute(table.insert().values(id=9, name="plum"))
    return table


def test_the_dialect_is_found_by_its_name():
    from nearfar.sqlalchemy import NearfarDialect

    assert sqlalchemy.make_url("nearfar://").get_dialect() is NearfarDialect


def test_statements_have_parameters_and_results(engine, fruit):
    with engine.connect() as connection:
        query = sqlalchemy.select(fruit).where(fruit.c.name.in_(["kind 1", "kind 3"])).order_by(fruit.c.id.desc())
        day = datetime.date(2026, 11, 26)
        assert [tuple(row) for row in connection.execute(query.limit(1))] == [
            (3, "kind 3", decimal.Decimal("1.50"), day)
        ]
        null = sqlalchemy.select(fruit.c.price).where(fruit.c.name == "plum")
        assert connection.execute(null).scalar_one() is None


def test_transactions_are_those_of_the_database(engine, fruit):
    count = sqlalchemy.select(sqlalchemy.func.count()).select_from(fruit)
    with engine.connect() as one, engine.connect() as other:
        one.execute(fruit.delete().where(fruit.c.id < 3))
        assert (one.execute(count).scalar_one(), other.execute(count).scalar_one()) == (3, 6)
        one.rollback()
        assert one.execute(count).scalar_one() == 6
    with pytest.raises(sqlalchemy.exc.DBAPIError), engine.begin() as connection:
        connection.execute(fruit.insert().values(id=1, name="again"))


def test_what_is_there_is_told(engine, fruit):
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text("CREATE VIEW dear AS SELECT name FROM fruit WHERE price > 1"))
    found = sqlalchemy.inspect(engine)
    assert found.get_table_names() == ["fruit"] and found.get_view_names() == ["dear"]
    assert "public" in found.get_schema_names()
    assert found.has_table("fruit") and not found.has_table("nowhere")
    columns = {column["name"]: (str(column["type"]), column["nullable"]) for column in found.get_columns("fruit")}
    assert columns == {
        "id": ("BIGINT", False),
        "name": ("VARCHAR", False),
        "price": ("NUMERIC(12, 2)", True),
        "picked": ("DATE", True),
    }
    assert found.get_pk_constraint("fruit")["constrained_columns"] == ["id"]
    indexes = {index["name"]: (index["column_names"], index["unique"]) for index in found.get_indexes("fruit")}
    assert indexes == {"by_price": (["price", "name"], False), "fruit_name_key": (["name"], True)}
    for ask in (found.get_columns, found.get_pk_constraint, found.get_indexes):
        with pytest.raises(sqlalchemy.exc.NoSuchTableError):
            ask("nowhere")
    reflected = sqlalchemy.MetaData()
    reflected.reflect(engine)
    assert list(reflected.tables["fruit"].primary_key.columns.keys()) == ["id"]


class Base(orm.DeclarativeBase):
    pass


class Customer(Base):
    __tablename__ = "customers"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    name: orm.Mapped[str] = orm.mapped_column(sqlalchemy.String(40))
    orders: orm.Mapped[list["Order"]] = orm.relationship(back_populates="customer")


class Order(Base):
    __tablename__ = "orders"
    id: orm.Mapped[int] = orm.mapped_column(sqlalchemy.BigInteger, sqlalchemy.Identity(), primary_key=True)
    customer_id: orm.Mapped[int] = orm.mapped_column(sqlalchemy.ForeignKey("customers.id"))
    total: orm.Mapped[decimal.Decimal] = orm.mapped_column(sqlalchemy.Numeric(12, 2))
    customer: orm.Mapped[Customer] = orm.relationship(back_populates="orders")


def test_objects_are_kept(engine):
    Base.metadata.create_all(engine)
    with orm.Session(engine) as session:
        ann = Customer(name="ann", orders=[Order(total=12.5), Order(total=1)])
        session.add_all([ann, Customer(name="bob")])
        session.commit()
        assert session.scalar(sqlalchemy.select(sqlalchemy.func.sum(Order.total))) == decimal.Decimal("13.5")
        ann.name = "anna"
        session.delete(ann.orders[0])
        session.commit()
        joined = sqlalchemy.select(Customer.name, Order.total).join(Order.customer)
        assert [tuple(row) for row in session.execute(joined)] == [("anna", decimal.Decimal("1.00"))]


def test_pandas_reads_and_writes_by_an_engine(engine, fruit):
    assert pandas.read_sql_table("fruit", engine).shape == (6, 4)
    frame = pandas.DataFrame({"a": [1, 2], "b": ["x", None]})
    assert frame.to_sql("frame", engine, index=False) == 2
    with pytest.raises(ValueError, match="exists"):
        frame.to_sql("frame", engine)
    frame.to_sql("frame", engine, index=False, if_exists="append")
    assert pandas.read_sql("SELECT sum(a) AS a FROM frame", engine)["a"][0] == 6


def test_a_database_that_is_open_or_on_disk_has_engines(tmp_path):
    with nearfar.connect() as db:
        db.execute("CREATE TABLE t AS SELECT 7 AS n")
        engine = sqlalchemy.create_engine("nearfar://", creator=db.dbapi)
        with engine.connect() as connection:
            assert connection.execute(sqlalchemy.text("SELECT n FROM t")).scalar_one() == 7
        engine.dispose()
    engine = sqlalchemy.create_engine(f"nearfar:///{tmp_path / 'kept'}")
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text("CREATE TABLE t AS SELECT 8 AS n"))
    engine.dispose()
    engine.dialect.close()
    with nearfar.connect(tmp_path / "kept") as db:
        assert db.table("t").fetchall() == [(8,)]


def test_expressions_of_ibis_run_as_sql(db):
    ibis = pytest.importorskip("ibis")
    db.ingest("fruit", pyarrow.table({"name": ["plum", "pear", "plum"], "cents": [20, 30, 40]}))
    fruit = ibis.table({"name": "string", "cents": "int64"}, name="fruit")
    dear = fruit.filter(fruit.cents > 20).group_by("name").agg(total=fruit.cents.sum()).order_by("name")
    rows = db.sql(str(ibis.to_sql(dear, dialect="datafusion")))
    assert rows.fetchall() == [("pear", 30), ("plum", 40)]
