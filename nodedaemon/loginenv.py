"""--get-user-env: what the user's login shell sets, for a batch script.

The shell is asked in the task's own process, as the user, after all rights are gone: `-bash -c 'printf MARK; env -0;
printf END'` with an environment of four variables, in a session of its own. What profiles print comes before the mark and is
not looked at, and what they leave running is not waited for. The answer has DEADLINE_S and OUTPUT_BYTES_MAX; a shell that
fails or hangs costs the job its login environment, and not its start: the reason stands in the job's error file. Names of
ours (SLURM_*, PENSTOCK_*) are not taken.

Imported only for jobs that ask.
"""

import contextlib
import os
import pwd
import select
import signal
import subprocess
import time

DEADLINE_S = 10.0
OUTPUT_BYTES_MAX = 1024 * 1024
#: No profile prints this: it begins and ends with a byte that no variable can hold.
MARK = b"\0penstock login environment\0"
END = b"\0penstock end\0"
_COMMAND = r"printf '\0penstock login environment\0'; /usr/bin/env -0; printf '\0penstock end\0'"
_OURS = (b"SLURM_", b"SLURMD_", b"PENSTOCK_")
#: Of the shell that was asked, not of the login.
_SHELLS_OWN = frozenset((b"_", b"SHLVL", b"PWD", b"OLDPWD"))


class LoginError(Exception):
    """The shell did not say; the text is for the job's error file."""


def login_environment(uid: int) -> dict[bytes, bytes]:
    """Ask the login shell of who we are already. Raises LoginError."""
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
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # what profiles have left running
        process.wait()


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
    raise LoginError(f"the login shell says more than {OUTPUT_BYTES_MAX} bytes")


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
