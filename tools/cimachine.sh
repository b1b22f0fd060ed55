# What .ci/run does with the machine before the tests; sourced by it and by tests/ci.
# shellcheck shell=bash

missing=() # what could not be installed: named in the closing lines

# Waits until little else runs, three minutes at most, and says what does: tests that wait in real time fail by chance beside it.
wait_until_quiet() {
    local load left_s=${QUIET_WAIT_S:-180} file=${LOADAVG:-/proc/loadavg}
    while load=$(cut -d' ' -f1 "$file") && [ "${load%%.*}" -ge 1 ] && [ "$left_s" -gt 0 ]; do
        sleep 5
        left_s=$((left_s - 5))
    done
    printf 'load %s on %s processors; what takes most time:\n' "$load" "$(nproc)"
    ps -eo pcpu,etimes,user:12,args --sort=-pcpu --no-headers | head -n 5 | cut -c1-120 || true
}

# Installs Debian packages: what for, packages. Does nothing for who may not. A mirror that does not answer is asked three times.
install_packages() {
    local purpose=$1 try
    shift
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        for try in 1 2 3; do
            [ "$try" = 1 ] || sleep "${APT_PAUSE_S:-10}"
            if DEBIAN_FRONTEND=noninteractive apt-get update -qq &&
                DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null; then
                return 0
            fi
            echo "apt-get failed, try $try of 3: $*" >&2
        done
    fi
    missing+=("$* ($purpose)")
    return 1
}

# Installs the first of these packages that can be had: what for, packages. Names all of them where none can.
install_one_of() {
    local purpose=$1 package before=("${missing[@]}")
    shift
    for package in "$@"; do
        if install_packages "$purpose" "$package"; then
            missing=("${before[@]}")
            return 0
        fi
    done
    return 1
}

# Names the environments of others' programs that were not made: what needs them, their folder, files of requirements.
name_missing_environments() {
    local needed_by=$1 folder=$2 file name
    shift 2
    for file in "$@"; do
        name=$(basename "$file" .txt)
        name=${name#requirements-}
        [ -e "$folder/$name/.done" ] || missing+=("$name ($needed_by)")
    done
}
