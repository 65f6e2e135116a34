# DuckDB as a contender: requests come as JSON objects, one per line, on standard input, and each is
# answered by one on standard output. What they mean is documented in src/bench/protocol.rs.
import json
import os
import sys
import time

# Replies have standard output to themselves; what the library prints goes to standard error.
replies = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)


def answer(reply):
    replies.write(json.dumps(reply) + "\n")
    replies.flush()


try:
    import duckdb
except ImportError as error:
    answer({"reply": "absent", "reason": f"the Python package duckdb is not installed ({error})"})
    sys.exit(0)

connection = duckdb.connect(":memory:")
if not hasattr(connection, "complete"):
    answer({
        "reply": "absent",
        "reason": f"the Python package duckdb is {duckdb.__version__}, and 2.0 or later is needed",
    })
    sys.exit(0)


def run(sql):
    # To its end, without turning rows into Python objects.
    connection.execute(sql)
    connection.complete()


def status_bytes(key):
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith(key + ":"):
                return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status does not tell {key}")


def reset_peak():
    # A sandbox may refuse it, and the peak would be one of before.
    try:
        with open("/proc/self/clear_refs", "w") as clear_refs:
            clear_refs.write("5")
        return True
    except OSError:
        return False


def peak_bytes(has_reset):
    return status_bytes("VmHWM") if has_reset else None


def load(request):
    run("set enable_progress_bar = false")
    run(f"set threads = {int(request['threads'])}")
    has_reset = reset_peak()
    before_bytes = status_bytes("VmRSS")
    started = time.perf_counter()
    for table in request["tables"]:
        files = os.path.join(request["directory"], table, "*.parquet").replace("'", "''")
        run(f"create table {table} as select * from read_parquet('{files}')")
    return {
        "reply": "loaded",
        "seconds": time.perf_counter() - started,
        "before_bytes": before_bytes,
        "peak_bytes": peak_bytes(has_reset),
        "after_bytes": status_bytes("VmRSS"),
        "kept_bytes": {},
    }


# Statements that are prepared, by their texts: a text that comes again is not planned again.
prepared = {}


def prepared_name(sql):
    if sql not in prepared:
        name = f"query_{len(prepared)}"
        run(f"prepare {name} as {sql}")
        prepared[sql] = name
    return prepared[sql]


def query(request):
    name = prepared_name(request["sql"])
    started = time.perf_counter()
    run(f"execute {name}")
    return {"reply": "ran", "seconds": time.perf_counter() - started}


def measure(request):
    name = prepared_name(request["sql"])
    has_reset = reset_peak()
    before_bytes = status_bytes("VmRSS")
    run(f"execute {name}")
    return {"reply": "measured", "before_bytes": before_bytes, "peak_bytes": peak_bytes(has_reset)}


def save(request):
    path = request["path"].replace("'", "''")
    run(f"copy ({request['sql']}) to '{path}' (format parquet)")
    return {"reply": "saved"}


ACTIONS = {"load": load, "query": query, "measure": measure, "save": save}
answer({"reply": "ready", "version": f"DuckDB {duckdb.__version__}"})
for line in sys.stdin:
    request = json.loads(line)
    try:
        answer(ACTIONS[request["request"]](request))
    except Exception as error:
        answer({"reply": "failed", "reason": str(error)})
