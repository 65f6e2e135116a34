#!/usr/bin/env bash
# The wheel, tested where nothing of this repository is:
#
#   crates/nearfar-python/build.sh [wheel|test|bench]...     all three by default
#   crates/nearfar-python/build.sh driver                    the driver of ADBC for programs without Python
#   crates/nearfar-python/build.sh notebook                  runs the notebook of the docs, and renders it again
#
# wheel: builds it, stripped, below ${CARGO_TARGET_DIR:-target}/wheels. driver: takes libnearfar_driver.so out of it,
# beside it. test: installs it with pandas, polars, pyarrow and DuckDB into a virtual environment of its own, and runs
# the tests there, with every Python from 3.10 on that is found. bench: prints python_fetch_ratio_duckdb there, as a
# line of JSON.
#
# Needs cargo, a C compiler and Python 3.10 or later with venv; maturin and the packages that it is tested
# beside come from the registry that pip is configured with. PYTHON names another Python, and PYTHONS those to test
# with; by default the former and what pyenv has.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

readonly MATURIN_VERSION=1.16.0
# The most that the wheel may have, in bytes.
readonly WHEEL_BYTES_MAX=45000000
readonly PYTHON=${PYTHON:-python3}
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$(realpath ../..)/target}
readonly WHEELS=$CARGO_TARGET_DIR/wheels
readonly TOOLS=$CARGO_TARGET_DIR/wheel-tools
readonly CLEAN=$CARGO_TARGET_DIR/wheel-test

wheel() {
    if [[ $("$TOOLS/bin/maturin" --version 2>/dev/null) != "maturin $MATURIN_VERSION" ]]; then
        "$PYTHON" -m venv "$TOOLS"
        "$TOOLS/bin/pip" install --quiet "maturin==$MATURIN_VERSION"
    fi
    rm -rf "$WHEELS"
    "$TOOLS/bin/maturin" build --release --locked --strip --interpreter "$PYTHON" --out "$WHEELS"
    local built
    built=$(echo "$WHEELS"/*.whl)
    "$PYTHON" weaken.py "$built" "$built.weak"
    mv "$built.weak" "$built"
    check_size
}

driver() {
    compgen -G "$WHEELS/*.whl" >/dev/null || wheel
    "$PYTHON" - "$WHEELS" <<'PYTHON'
import pathlib, sys, zipfile
[wheel] = pathlib.Path(sys.argv[1]).glob("*.whl")
with zipfile.ZipFile(wheel) as files:
    [name] = [name for name in files.namelist() if name.endswith(".so")]
    path = wheel.with_name("libnearfar_driver.so")
    path.write_bytes(files.read(name))
print(path)
PYTHON
}

check_size() {
    "$PYTHON" - "$WHEELS" "$WHEEL_BYTES_MAX" <<'PYTHON'
import pathlib, sys, zipfile
[wheel] = pathlib.Path(sys.argv[1]).glob("*.whl")
[entry] = [entry for entry in zipfile.ZipFile(wheel).infolist() if entry.filename.endswith(".so")]
packed, limit = wheel.stat().st_size, int(sys.argv[2])
print(f"{wheel.name}: {packed} bytes as it is downloaded, of {limit} at most")
print(f"{entry.filename}: {entry.file_size} bytes as it is installed, stripped, which is not limited")
if packed > limit:
    sys.exit(f"error: {wheel.name} has more than {limit} bytes")
PYTHON
}

# The Pythons to test with: PYTHONS, or the newest of each version, of the default one and those that pyenv has.
pythons() {
    if [[ -n ${PYTHONS:-} ]]; then
        printf '%s\n' $PYTHONS
        return
    fi
    local found
    for found in "$(command -v "$PYTHON")" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.*/bin/python; do
        "$found" -c 'import sys; v = sys.version_info; v >= (3, 10) and print(v.minor, v.micro, sys.executable)' \
            2>/dev/null || true
    done | sort -k1,1n -k2,2nr | awk '!seen[$1]++ { print $3 }'
}

install() {
    "$1" -m venv --clear "$CLEAN"
    "$CLEAN/bin/pip" install --quiet "$(echo "$WHEELS"/*.whl)" -r tests/requirements.txt
}

run_tests() {
    local python
    while read -r python; do
        echo "== $("$python" --version)"
        install "$python"
        run_tests_of_one
    done <<<"$(pythons)"
}

# Away from the sources, so that what is imported is what was installed.
run_tests_of_one() {
    local tests=$PWD/tests package
    package=$(cd / && "$CLEAN/bin/python" -c 'import nearfar, pathlib; print(pathlib.Path(nearfar.__file__).parent)')
    (cd / && "$CLEAN/bin/python" -m pytest -q -p no:cacheprovider -c "$tests/pytest.ini" --rootdir "$tests" \
        "$tests" --doctest-modules "$package")
}

notebook() {
    install "$PYTHON"
    "$CLEAN/bin/pip" install --quiet nbclient==0.11.0 nbconvert==7.17.2 ipykernel==7.4.0 matplotlib==3.11.2
    local page
    page=$(realpath ../../docs/notebooks/tour.ipynb)
    (cd / && "$CLEAN/bin/python" "$OLDPWD/notebook.py" "$page")
}

bench() {
    install "$PYTHON"
    (cd / && "$CLEAN/bin/python" "$OLDPWD/tests/bench_fetch.py" --format json)
}

[[ $# -gt 0 ]] || set -- wheel test bench
for step in "$@"; do
    case $step in
        wheel | driver | notebook | bench) "$step" ;;
        test) run_tests ;;
        *)
            sed -n '2,15s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
            exit 2
            ;;
    esac
done
