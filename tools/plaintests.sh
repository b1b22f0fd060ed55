#!/usr/bin/env bash
# As root: the tests whose outcome can depend on the user, by a plain user that is made for them and removed afterwards.
#
#   tools/plaintests.sh [TEST...]     # folders or files; those chosen below if none is given
#
# The user gets a copy of this tree in a home of its own and types what the README says: `make build`, then tests. So what
# needs root, or what root left in the folder, is found. The environment is made anew: an installation knows its place,
# and root's may be where a plain user cannot look. The gate (tools/testgate) decides; its result is left in build/gate-plain.
# Not here: `make check` and what only computes (both are the same for everybody), and tests/clients, whose 1.7 GB of
# programs of others see the same commands as tests/e2e. Of folders of which a part only computes, a file is here if one of
# WORDS is in it: it starts a process, a daemon or a controller, or asks who the user is, or for rights to a file.
# All files of OF_CLUSTERS start daemons, so one is here if one of USER_WORDS is in it: users, rights, modes, control groups.
# What the others are about (a database, a network, the queue) is the same for everybody; how their jobs are started,
# signalled and ended is not, and that is what WHOLE and tests/node show.
set -euo pipefail
cd "$(dirname "$0")/.."
WHOLE=(tests/e2e/test_e2e_lifecycle.py tests/e2e/test_e2e_stepwaits.py tests/gpu/test_gpu_care.py)
OF_CLUSTERS=(tests/e2e tests/gpu)
USER_WORDS='getuid|geteuid|getpwuid|getpwnam|getuser|OWN\b|NOBODY|nobody|PRIVATE|chown|st_mode|0o[0-7]*00\b|uid=|run_as|as_user|mark\.root|cgroup'
IN_PART=(tests/auth tests/cli tests/node tests/rest tests/rpc tests/runtime tests/security tests/store)
WORDS='subprocess|Popen|fork\(|signal\.|LiveCluster|LiveRest|Launched|start_daemon|Process\(|Noded|fakectl|Site\(|StateFolder'
WORDS+='|new_cluster|new_rest|[(, ](cluster|rest|live)[,):]|getuid|geteuid|getpwuid|getuser|OWN\b|PRIVATE|chmod|chown|st_mode|mark\.root'
WORKERS=${WORKERS:-4}

if [ "$(id -u)" != 0 ]; then
    echo "$0: only root can make a user; a plain user runs make test" >&2
    exit 2
fi
user=
for name in pstest{1..9}; do # short: names of sockets have 107 bytes at most, and pytest's folders have the user's name
    useradd --create-home --shell /bin/bash --comment "tests of Penstock" "$name" 2>/dev/null && user=$name && break
done
[ -n "$user" ] || { echo "$0: no user could be made" >&2; exit 2; }
uid=$(id -u "$user")
home=$(getent passwd "$user" | cut -d: -f6)

remove() {
    local status
    for status in /proc/[0-9]*/status; do # all that this user still runs is a test's
        if grep -qs "^Uid:[[:space:]]*$uid[[:space:]]" "$status"; then
            kill -KILL "$(basename "$(dirname "$status")")" 2>/dev/null || true
        fi
    done
    find /tmp /var/tmp /dev/shm -mindepth 1 -maxdepth 1 -user "$uid" -exec rm -rf {} + 2>/dev/null || true
    userdel --remove "$user" 2>/dev/null || true
    rm -rf "$home"
}
trap remove EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

mkdir "$home/penstock"
tar -c --exclude=./.venv --exclude=./build --exclude=./bench/out --exclude='*.so' --exclude=__pycache__ --exclude='.*_cache' \
    --exclude=./.hypothesis . | tar -x -C "$home/penstock" --no-same-owner
chown -R "$user:" "$home/penstock"

kept=(PATH=/usr/local/bin:/usr/bin:/bin HOME="$home" USER="$user" LOGNAME="$user" SHELL=/bin/bash LANG="${LANG:-C.UTF-8}")
for name in $(compgen -e); do # where packages come from, and what the machine must have
    case $name in PIP_* | PENSTOCK_NEED_* | *_proxy | *_PROXY | SSL_CERT_*) kept+=("$name=${!name}") ;; esac
done
as_user() { # without root's files, groups and limits of rights
    (cd "$home/penstock" && exec env -i "${kept[@]}" setpriv --reuid "$uid" --regid "$user" --init-groups "$@" </dev/null)
}
as_user make build
if [ $# = 0 ]; then
    mapfile -t parts < <({
        grep -rlE --include='test_*.py' "$WORDS" "${IN_PART[@]}"
        grep -rlE --include='test_*.py' "$USER_WORDS" "${OF_CLUSTERS[@]}"
    } | sort)
    set -- "${WHOLE[@]}" "${parts[@]}"
fi
as_user .venv/bin/python -m tools.testgate.compiled "$@"
status=0
as_user .venv/bin/python -m tools.testgate --workers "$WORKERS" -- -m "not slow" "$@" || status=$?
# The user reads its files, and root writes what it says.
rm -rf build/gate-plain
mkdir -p build/gate-plain
as_user cat build/gate/result.json >build/gate-plain/result.json || true
as_user sh -c 'if [ -e build/unsteady.jsonl ]; then cat build/unsteady.jsonl; fi' >>build/unsteady.jsonl
exit "$status"
