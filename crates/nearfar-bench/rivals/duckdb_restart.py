# DuckDB as a process that starts: its only argument is a JSON object that says with what, and it says
# in lines of JSON on standard output when it has done what. What both mean is documented in
# src/restart/start.rs.
import json
import os
import sys

replies = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
order = json.loads(sys.argv[1])


def say(step):
    replies.write(json.dumps(step) + "\n")
    replies.flush()


try:
    import duckdb
except ImportError as error:
    say({"step": "absent", "reason": f"the Python package duckdb is not installed ({error})"})
    sys.exit(0)

try:
    connection = duckdb.connect(order["file"])
    connection.execute("set enable_progress_bar = false")
    connection.execute(f"set threads = {int(order['threads'])}")
    for table in order["tables"]:
        if order["parquet"] is not None:
            files = os.path.join(order["parquet"], table, "*.parquet").replace("'", "''")
            connection.execute(f"create table {table} as select * from read_parquet('{files}')")
        if order["load_all"]:
            # Every value is read; a count alone would be answered without.
            columns = [row[0] for row in connection.execute(f"describe {table}").fetchall()]
            hashes = ", ".join(f"bit_xor(hash({column}))" for column in columns)
            connection.execute(f"select {hashes} from {table}").fetchall()
    say({"step": "ready"})
    if order["query"] is not None:
        say({"step": "answer", "text": str(connection.execute(order["query"]).fetchone()[0])})
    connection.close()
except Exception as error:
    say({"step": "failed", "reason": str(error)})
