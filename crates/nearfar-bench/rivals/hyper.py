# Hyper as a contender: requests come as JSON objects, one per line, on standard input, and each is
# answered by one on standard output. What they mean is documented in src/bench/protocol.rs.
import glob
import json
import os
import sys
import tempfile
import time

# Replies have standard output to themselves; what the library prints goes to standard error.
replies = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)


def answer(reply):
    replies.write(json.dumps(reply) + "\n")
    replies.flush()


try:
    from importlib.metadata import version

    from tableauhyperapi import Connection, CreateMode, HyperProcess, Telemetry
except ImportError as error:
    reason = f"the Python package tableauhyperapi is not installed ({error})"
    answer({"reply": "absent", "reason": reason})
    sys.exit(0)

# Its tables are in a file, which the page cache holds; the folder goes with this process.
folder = tempfile.TemporaryDirectory(prefix="nearfar-hyper-")
process = None
connection = None


def start(threads):
    global process, connection
    process = HyperProcess(
        Telemetry.DO_NOT_SEND_USAGE_DATA_TO_TABLEAU,
        parameters={"log_config": "", "hard_concurrent_query_thread_limit": str(threads)},
    )
    database = os.path.join(folder.name, "bench.hyper")
    connection = Connection(process.endpoint, database, CreateMode.CREATE_AND_REPLACE)


def engine_process():
    # The engine is a child of this process.
    for status in glob.glob("/proc/[0-9]*/status"):
        try:
            with open(status) as lines:
                if f"PPid:\t{os.getpid()}\n" in lines:
                    return os.path.dirname(status)
        except OSError:
            continue
    raise RuntimeError("the process of the engine is not found below /proc")


def status_bytes(process_folder, key):
    with open(os.path.join(process_folder, "status")) as status:
        for line in status:
            if line.startswith(key + ":"):
                return int(line.split()[1]) * 1024
    raise RuntimeError(f"{process_folder}/status does not tell {key}")


def reset_peak(process_folder):
    # A sandbox may refuse it, and the peak would be one of before.
    try:
        with open(os.path.join(process_folder, "clear_refs"), "w") as clear_refs:
            clear_refs.write("5")
        return True
    except OSError:
        return False


def quoted(text):
    return "'" + text.replace("'", "''") + "'"


def load(request):
    start(int(request["threads"]))
    engine = engine_process()
    before_bytes = status_bytes(engine, "VmRSS")
    started = time.perf_counter()
    for table in request["tables"]:
        files = sorted(glob.glob(os.path.join(request["directory"], table, "*.parquet")))
        files = ", ".join(quoted(file) for file in files)
        rows = f"select * from external(array[{files}], format => 'parquet')"
        connection.execute_command(f"create table {table} as ({rows})")
    return {
        "reply": "loaded",
        "seconds": time.perf_counter() - started,
        "before_bytes": before_bytes,
        "peak_bytes": status_bytes(engine, "VmHWM"),
        "after_bytes": status_bytes(engine, "VmRSS"),
        "kept_bytes": {},
    }


def run(sql):
    # To its end, without turning rows into Python objects.
    with connection.execute_query(sql) as result:
        while result.next_row():
            pass


def query(request):
    started = time.perf_counter()
    run(request["sql"])
    return {"reply": "ran", "seconds": time.perf_counter() - started}


def measure(request):
    engine = engine_process()
    has_reset = reset_peak(engine)
    before_bytes = status_bytes(engine, "VmRSS")
    run(request["sql"])
    peak_bytes = status_bytes(engine, "VmHWM") if has_reset else None
    return {"reply": "measured", "before_bytes": before_bytes, "peak_bytes": peak_bytes}


def save(request):
    path = quoted(request["path"])
    connection.execute_command(f"copy ({request['sql']}) to {path} with (format => 'parquet')")
    return {"reply": "saved"}


ACTIONS = {"load": load, "query": query, "measure": measure, "save": save}
answer({"reply": "ready", "version": f"Hyper {version('tableauhyperapi')}"})
for line in sys.stdin:
    request = json.loads(line)
    try:
        answer(ACTIONS[request["request"]](request))
    except Exception as error:
        answer({"reply": "failed", "reason": str(error)})
if connection is not None:
    connection.close()
if process is not None:
    process.close()
