"""The shared object in programs that have no interpreter."""

import base64
import csv
import ctypes
import hashlib
import io
import pathlib
import runpy
import shutil
import subprocess
import zipfile

import pytest
from nearfar import _nearfar

PACKAGE = pathlib.Path(__file__).parents[1]
EXAMPLE = PACKAGE.parent / "nearfar-capi" / "examples" / "adbc.c"
HEADERS = PACKAGE.parent / "nearfar-capi" / "vendor"
COMPILER = shutil.which("cc")


def weaken(source, target):
    script = runpy.run_path(str(PACKAGE / "weaken.py"))
    script["main"](source, target)


@pytest.mark.skipif(COMPILER is None, reason="needs a C compiler")
def test_a_c_program_runs_sql(tmp_path):
    driver, program = tmp_path / "driver.so", tmp_path / "program"
    weaken(pathlib.Path(_nearfar.__file__), driver)
    subprocess.run(
        [COMPILER, "-std=c11", f"-I{HEADERS}", EXAMPLE, "-ldl", "-o", program], check=True, text=True
    )
    done = subprocess.run([program, driver], check=True, text=True, capture_output=True)
    assert done.stdout.startswith("30 cents\n40 cents\nstatus "), done


def test_a_wheel_knows_the_sum_of_its_changed_object(tmp_path):
    wheel, weak = tmp_path / "a.whl", tmp_path / "weak.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_STORED) as files:
        files.write(_nearfar.__file__, "nearfar/_nearfar.abi3.so")
        files.writestr("nearfar/__init__.py", "")
        record = "nearfar/_nearfar.abi3.so,sha256=x,1\nnearfar/__init__.py,sha256=y,0\na.dist-info/RECORD,,\n"
        files.writestr("a.dist-info/RECORD", record)
    weaken(wheel, weak)
    with zipfile.ZipFile(weak) as files:
        content = files.read("nearfar/_nearfar.abi3.so")
        rows = list(csv.reader(io.StringIO(files.read("a.dist-info/RECORD").decode())))
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
    assert rows == [
        ["nearfar/_nearfar.abi3.so", f"sha256={digest}", str(len(content))],
        ["nearfar/__init__.py", "sha256=y", "0"],
        ["a.dist-info/RECORD", "", ""],
    ]
    # It is what it was in an interpreter.
    path = tmp_path / "_nearfar.abi3.so"
    path.write_bytes(content)
    assert ctypes.CDLL(str(path)).AdbcDriverInit
