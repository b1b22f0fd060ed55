#!/bin/sh
# Checks what `make build` needs from the machine and prints the Python to use. Each thing that is missing is named with
# the Debian package that has it; exit 1 then. The first argument, when not empty, is the Python to take. Otherwise it is
# the first that was built for production (penstock.interpreter), which is 10 to 20 % faster, or else the first one.
# With --postgresql it says instead whether there is a PostgreSQL server for the tests, which are skipped without.
set -u

if [ "${1:-}" = --postgresql ]; then
    command -v initdb && exit
    for binary in /usr/lib/postgresql/*/bin/initdb; do
        [ -x "$binary" ] && echo "$binary" && exit
    done
    echo "penstock: a PostgreSQL server is missing: install the Debian package postgresql" >&2
    exit 1
fi

missing=""
lack() { # what, package
    echo "penstock: $1 is missing: install the Debian package $2" >&2
    missing="$missing $2"
}

can_run() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }
can_make_optimised() { # an environment, and extensions for it
    (cd "$(dirname "$0")/.." && "$1" - 2>/dev/null) <<'EOF'
import ensurepip, os, sys, sysconfig, venv
sys.path.insert(0, os.getcwd())
from penstock.interpreter import running_build
sys.exit(not (os.path.exists(sysconfig.get_path("include") + "/Python.h") and running_build().is_optimised))
EOF
}

python=""
for candidate in ${1:+"$1"} ${1:-python3 python3.14 python3.13 python3.12 python3.11 /usr/bin/python3}; do
    can_run "$candidate" || continue
    python=${python:-$candidate}
    if can_make_optimised "$candidate"; then
        python=$candidate
        break
    fi
done

if [ -z "$python" ]; then
    lack "${1:-python3} 3.11 or newer" "python3"
    lack "venv (ensurepip) of python3" "python3-venv"
    lack "Python.h of python3" "python3-dev"
else
    # Debian's default Python has python3-venv and python3-dev; another one has pythonX.Y-venv and so on.
    name=python3
    case $(basename "$python") in python3.*) name=$(basename "$python") ;; esac
    "$python" -c 'import ensurepip, venv' 2>/dev/null || lack "venv (ensurepip) of $python" "$name-venv"
    headers=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
    [ -f "$headers/Python.h" ] || lack "Python.h of $python" "$name-dev"
fi

compiler=${CC:-gcc}
[ -n "${CC:-}" ] || command -v gcc >/dev/null || compiler=cc
if ! command -v "${compiler%% *}" >/dev/null; then
    lack "a C compiler ($compiler)" "gcc"
    lack "the C library's headers" "libc6-dev"
elif ! echo '#include <stdio.h>' | $compiler -E -x c - >/dev/null 2>&1; then
    lack "the C library's headers" "libc6-dev"
fi
command -v make >/dev/null || lack "make" "make"

if [ -n "$missing" ]; then
    echo "penstock: for example: sudo apt-get install$missing" >&2
    exit 1
fi
echo "$python"
