#!/usr/bin/env bash
# The C interface, installed, and its examples:
#
#   crates/nearfar-capi/build.sh install PREFIX [--release]    libraries, headers and nearfar.pc below PREFIX
#   crates/nearfar-capi/build.sh examples                      builds and runs them under AddressSanitizer
#   crates/nearfar-capi/build.sh adbc                          builds and runs the one that is of ADBC
#
# Needs cargo, a C and a C++ compiler and binutils, and pkg-config for the examples; CC and CXX name others.
# The example of ADBC needs the shared object of nearfar-python, which is looked for where cargo puts it, or is
# NEARFAR_DRIVER; it is skipped where there is none.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}

install_to() {
    local prefix=$1 profile=debug
    [[ ${2:-} == --release ]] && profile=release
    cargo build --locked -p nearfar-capi ${2:+"$2"}
    mkdir -p "$prefix/lib/pkgconfig" "$prefix/include"
    prefix=$(realpath "$prefix")
    local built=$CARGO_TARGET_DIR/$profile version
    version=$(cargo metadata --locked --no-deps --format-version 1 \
        | grep -o '"name":"nearfar-capi","version":"[^"]*"' | cut -d'"' -f8)
    link_shared "$built/libnearfar_capi.a" "$prefix/lib/libnearfar.so.0"
    check_versions "$prefix/lib/libnearfar.so.0"
    ln -sf libnearfar.so.0 "$prefix/lib/libnearfar.so"
    cp "$built/libnearfar_capi.a" "$prefix/lib/libnearfar.a"
    cp crates/nearfar-capi/include/nearfar.h crates/nearfar-capi/include/nearfar.hpp "$prefix/include/"
    sed -e "s|@PREFIX@|$prefix|" -e "s|@VERSION@|$version|" crates/nearfar-capi/nearfar.pc.in \
        >"$prefix/lib/pkgconfig/nearfar.pc"
}

# Of the static library, because rustc gives cdylibs a script of its own, without versions.
link_shared() {
    local libraries
    read -ra libraries <<<"$(sed -n 's/^Libs.private: //p' crates/nearfar-capi/nearfar.pc.in)"
    "${CC:-cc}" -shared -o "$2" -Wl,-soname,libnearfar.so.0 \
        -Wl,--version-script=crates/nearfar-capi/nearfar.map -Wl,--gc-sections -Wl,-z,defs \
        -Wl,--whole-archive "$1" -Wl,--no-whole-archive "${libraries[@]}"
}

# What the library has for others is what the header declares, each with the version of the map.
check_versions() {
    local declared exported
    declared=$(grep -o '\bnearfar_[a-z_]*(' crates/nearfar-capi/include/nearfar.h | tr -d '(' | sort -u)
    exported=$(readelf --dyn-syms --wide "$1" \
        | awk '$5 == "GLOBAL" && $7 != "UND" && $4 != "OBJECT" { print $8 }' | sort -u)
    diff <(sed 's/$/@@NEARFAR_0/' <<<"$declared") <(echo "$exported") \
        || { echo "error: $1 exports something else (>) than nearfar.h declares (<)" >&2; return 1; }
}

readonly warnings=(-Wall -Wextra -Werror -g -fsanitize=address,undefined)
export ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=halt_on_error=1

# Each with the shared library and with the static one.
examples() {
    local prefix=$CARGO_TARGET_DIR/capi
    install_to "$prefix"
    export PKG_CONFIG_PATH=$prefix/lib/pkgconfig LD_LIBRARY_PATH=$prefix/lib
    local flags shared static source=crates/nearfar-capi/examples
    read -ra flags <<<"$(pkg-config --cflags nearfar)"
    read -ra shared <<<"$(pkg-config --libs nearfar)"
    read -ra static <<<"$(pkg-config --variable=libdir nearfar)/libnearfar.a $(pkg-config --libs --static nearfar \
        | sed 's/-lnearfar//')"
    local kind program
    for kind in shared static; do
        local -n libraries=$kind
        for program in tour figures; do
            "${CC:-cc}" -std=c11 "${warnings[@]}" "${flags[@]}" "$source/$program.c" "${libraries[@]}" \
                -o "$prefix/$program-$kind"
        done
        "${CXX:-c++}" -std=c++17 "${warnings[@]}" "${flags[@]}" "$source/containers.cpp" "${libraries[@]}" \
            -o "$prefix/containers-$kind"
        for program in tour figures containers; do
            "$prefix/$program-$kind"
        done
    done
}

# SQL by the driver, of which nothing is linked.
adbc() {
    local driver=${NEARFAR_DRIVER:-} profile found
    for profile in release debug; do
        found=$CARGO_TARGET_DIR/$profile/libnearfar_python.so
        [[ -n $driver || ! -e $found ]] || driver=$found
    done
    if [[ -z $driver ]]; then
        echo "skipped: adbc.c needs the driver: cargo build -p nearfar-python makes it, or NEARFAR_DRIVER names one"
        return
    elif ! command -v python3 >/dev/null; then
        echo "skipped: adbc.c needs python3, which makes a driver of the shared object of nearfar-python"
        return
    fi
    mkdir -p "$CARGO_TARGET_DIR/capi"
    python3 crates/nearfar-python/weaken.py "$driver" "$CARGO_TARGET_DIR/capi/driver.so"
    "${CC:-cc}" -std=c11 "${warnings[@]}" -Icrates/nearfar-capi/vendor crates/nearfar-capi/examples/adbc.c -ldl \
        -o "$CARGO_TARGET_DIR/capi/adbc"
    "$CARGO_TARGET_DIR/capi/adbc" "$CARGO_TARGET_DIR/capi/driver.so"
}

case ${1:-} in
    install) install_to "${2:?a folder}" "${@:3}" ;;
    examples)
        examples
        adbc
        ;;
    adbc) adbc ;;
    *)
        sed -n '2,10s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
        exit 2
        ;;
esac
