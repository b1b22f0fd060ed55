"""--get-user-env: reads the environment of the user's login shell, for a batch script.

The shell runs in the task's own process, as the user, after all rights are dropped: `-bash -c 'printf MARK; env -0;
printf END'` with an environment of four variables, in a session of its own. Output of profiles comes before the mark
and is ignored; processes that they leave are ended. The output is limited by DEADLINE_S and OUTPUT_BYTES_MAX; if the
shell fails or hangs it is ended, the job starts without its login environment, and the reason is written to the job's
error file. Our own names (SLURM_*, PENSTOCK_*) are ignored.

Imported only for jobs with --get-user-env.
"""

import contextlib
import os
import pwd
import select
import signal
import subprocess
import time

DEADLINE_S = 10.0
#: Between SIGTERM and SIGKILL. A profile's program may hold a lock (`pyenv rehash` does): killed at once it leaves the
#: lock behind, and each later login of the user waits for it.
TERM_WAIT_S = 2.0
OUTPUT_BYTES_MAX = 1024 * 1024
#: No profile prints this: it begins and ends with a byte that no variable can contain.
MARK = b"\0penstock login environment\0"
END = b"\0penstock end\0"
_COMMAND = r"printf '\0penstock login environment\0'; /usr/bin/env -0; printf '\0penstock end\0'"
_OURS = (b"SLURM_", b"SLURMD_", b"PENSTOCK_")
#: Variables that describe the shell that was run, not the login.
_SHELLS_OWN = frozenset((b"_", b"SHLVL", b"PWD", b"OLDPWD"))


class LoginError(Exception):
    """The shell's environment could not be read; the text is for the job's error file."""


def login_environment(uid: int) -> dict[bytes, bytes]:
    """Reads the environment of the login shell; the process already runs as the user. Raises LoginError."""
    try:
        account = pwd.getpwuid(uid)
    except KeyError:
        raise LoginError(f"uid {uid} is not known on this node") from None
    shell = account.pw_shell or "/bin/sh"
    env = {"HOME": account.pw_dir, "USER": account.pw_name, "LOGNAME": account.pw_name, "SHELL": shell}
    folder = account.pw_dir if os.access(account.pw_dir, os.X_OK) else "/"
    try:
        process = subprocess.Popen(
            [f"-{os.path.basename(shell)}", "-c", _COMMAND], executable=shell, env=env, cwd=folder,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        raise LoginError(f"{shell}: {error.strerror}") from None
    try:
        return _parsed(_output(process))
    finally:
        _end(process)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Ends the shell and the processes that profiles have left running."""
    # Not reaped before the second signal: until then no other group can have its number.
    try:
        ended = os.pidfd_open(process.pid)
    except OSError:
        pass  # no descriptor is left: without one there is no waiting, so it is killed at once
    else:
        _signal_group(process.pid, signal.SIGTERM)
        select.select([ended], [], [], TERM_WAIT_S)
        os.close(ended)
    _signal_group(process.pid, signal.SIGKILL)
    process.wait()


def _signal_group(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)


def _output(process: "subprocess.Popen[bytes]") -> bytes:
    assert process.stdout is not None
    found, end = bytearray(), time.monotonic() + DEADLINE_S
    while len(found) <= OUTPUT_BYTES_MAX:
        ready, _, _ = select.select([process.stdout], [], [], max(0.0, end - time.monotonic()))
        if not ready:
            raise LoginError(f"the login shell did not answer within {DEADLINE_S:g} s")
        piece = os.read(process.stdout.fileno(), 65536)
        found += piece
        if not piece or END in found[-len(piece) - len(END) :]:
            return bytes(found)
    raise LoginError(f"the login shell prints more than {OUTPUT_BYTES_MAX} bytes")


def _parsed(output: bytes) -> dict[bytes, bytes]:
    _, mark, answer = output.partition(MARK)
    if not mark:
        raise LoginError("the login shell ended without an answer")
    env = {}
    for entry in answer.partition(END)[0].split(b"\0"):
        name, equals, value = entry.partition(b"=")
        if name and equals and name not in _SHELLS_OWN and not name.startswith(_OURS):
            env[name] = value
    return env
