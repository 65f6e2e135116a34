"""How fast rows come to data frames, beside DuckDB's package, in one run.

    bench_fetch.py [--rows N] [--runs N] [--format json]

Both engines have the same table in memory, and the same query gives all of its rows to polars and to pandas; runs
of the two take turns. python_fetch_ratio_duckdb is DuckDB's median time through ours: above 1, ours is faster.
"""

import argparse
import json
import os
import statistics
import time

import duckdb
import nearfar

TABLE = """CREATE TABLE fetched AS
    SELECT {n} AS id, CAST({n} % 1000 AS DOUBLE) / 8 AS price, {n} % 97 AS kind FROM {source}"""
QUERY = "SELECT id, price, kind FROM fetched"


def seconds(take, check):
    began = time.perf_counter()
    frame = take()
    elapsed = time.perf_counter() - began
    assert len(frame) == check, len(frame)
    return elapsed


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--rows", type=int, default=10_000_000)
    arguments.add_argument("--runs", type=int, default=5)
    arguments.add_argument("--format", choices=["text", "json"], default="text")
    given = arguments.parse_args()
    threads = os.cpu_count() or 1
    ours = nearfar.connect(threads=threads)
    theirs = duckdb.connect(config={"threads": threads})
    ours.execute(TABLE.format(n="value", source=f"generate_series(1, {given.rows})"))
    theirs.execute(TABLE.format(n="range", source=f"range(1, {given.rows + 1})"))
    for form, of_ours, of_theirs in [
        ("polars", lambda: ours.sql(QUERY).polars(), lambda: theirs.sql(QUERY).pl()),
        ("pandas", lambda: ours.sql(QUERY).df(), lambda: theirs.sql(QUERY).df()),
        ("arrow", lambda: ours.sql(QUERY).arrow(), lambda: theirs.sql(QUERY).arrow().read_all()),
    ]:
        seconds(of_ours, given.rows)
        seconds(of_theirs, given.rows)
        times = [(seconds(of_ours, given.rows), seconds(of_theirs, given.rows)) for _ in range(given.runs)]
        mine, other = (statistics.median(side) for side in zip(*times, strict=True))
        figure = {
            "metric": "python_fetch_ratio_duckdb",
            "value": round(other / mine, 3),
            "unit": "ratio",
            "kind": "measured",
            "above_1": "ours is faster",
            "form": form,
            "rows": given.rows,
            "runs": given.runs,
            "threads": threads,
            "nearfar_seconds": round(mine, 4),
            "duckdb_seconds": round(other, 4),
            "duckdb_version": duckdb.__version__,
        }
        if given.format == "json":
            print(json.dumps(figure), flush=True)
        else:
            print(
                f"{form}: {given.rows} rows in {mine:.3f} s, DuckDB {duckdb.__version__} in {other:.3f} s: "
                f"ratio {other / mine:.2f} (above 1: ours is faster)",
                flush=True,
            )


if __name__ == "__main__":
    main()
