"""Runs the site's programs (Prolog, Epilog, health check, reboot, ...): as the daemon, usually root, with a deadline.

Rules
    - The environment is the caller's and nothing else; it never contains a name that a user chose
      (core/scriptenv.py makes it).
    - The OOM killer may end it: the daemon's exemption is not inherited.
    - It runs in its own session. At the deadline the whole process group and all its descendants are killed. A
      program that ends in time may leave processes running: that is the site's business (an MPS daemon, say).
    - Standard input is empty. The end of the output is kept, for the log.
    - The paths are the configuration's: absolute, or patterns; several programs run in the order of their names,
      up to the first that fails.

stepd imports this, so it imports as little as possible. Deliberately absent: the consequences of a failure.
"""

import contextlib
import fcntl
import glob
import os
import select
import signal
import time

from nodedaemon.base import proctree
from penstock.oom import allow_oom_kill

TYPE_CHECKING = False  # avoids importing `typing`, which every fork would pay for
if TYPE_CHECKING:
    from collections.abc import Callable

#: Bytes of a program's output that are kept, from its end.
OUTPUT_BYTES_MAX = 4096
_READ_BYTES = 64 * 1024
#: Time to wait for a killed group.
KILLED_WAIT_S = 5.0
#: Programs that one pattern may match.
PROGRAMS_MAX = 256
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class ScriptOutcome:
    """The outcome of a program. `failure` "" = success, else a description that names the program."""

    __slots__ = ("failure", "output", "status", "timed_out")

    def __init__(self, status: int, timed_out: bool, output: bytes, failure: str) -> None:
        self.status = status  # a wait status
        self.timed_out = timed_out
        self.output = output
        self.failure = failure


GOOD = ScriptOutcome(0, False, b"", "")


def expand(patterns: list[str]) -> list[str]:
    """The programs that the patterns match, those of one pattern in the order of their names.

    A plain path is returned unchanged, so that a missing one fails; a pattern that matches nothing adds no program.
    """
    found: list[str] = []
    for pattern in patterns:
        found += sorted(glob.glob(pattern)) if glob.has_magic(pattern) else [pattern]
    return found[:PROGRAMS_MAX]


def run_all(
    patterns: list[str], environment: dict[str, str], timeout_s: float, before: "Callable[[], None] | None" = None
) -> ScriptOutcome:
    """Runs all programs one after the other; returns the outcome of the first that fails, or of the last. Blocks.

    `timeout_s` is for each of them, 0 = none. `before` runs in the child before the program does (single-threaded
    callers only: it makes this a fork).
    """
    for path in expand(patterns):
        outcome = run([path], environment, timeout_s, before)
        if outcome.failure:
            return outcome
    return GOOD


def run(
    argv: list[str], environment: dict[str, str], timeout_s: float, before: "Callable[[], None] | None" = None
) -> ScriptOutcome:
    """Runs one program to its end or its deadline. Blocks. Never raises for errors of the program."""
    name = argv[0]
    env = {os.fsencode(key): os.fsencode(value) for key, value in {"PATH": PATH, **environment}.items()}
    try:
        out_read, out_write = os.pipe2(os.O_CLOEXEC)
    except OSError as error:
        return _not_started(name, error)
    fcntl.fcntl(out_read, fcntl.F_SETFL, os.O_NONBLOCK)
    try:
        pid = _fork(argv, env, out_write, before) if before else _spawn(argv, env, out_write)
        pidfd = _watched(pid)
    except OSError as error:
        os.close(out_read)
        return _not_started(name, error)
    finally:
        os.close(out_write)
    try:
        output, in_time = _await(pidfd, out_read, timeout_s)
        if not in_time:
            _kill(pid)
        status = _reap(pid, pidfd)
    finally:
        os.close(pidfd)
        os.close(out_read)
    if not in_time:
        return ScriptOutcome(status, True, output, f"{name}: killed, it did not end within {timeout_s:g} s")
    return ScriptOutcome(status, False, output, _words(name, status))


def _watched(pid: int) -> int:
    """Opens a descriptor of a program that has just begun. Ends it and raises OSError if there is none left."""
    try:
        return os.pidfd_open(pid)
    except OSError:
        os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):  # then it has no group of its own yet, and no children
            os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise


def _not_started(name: str, error: OSError) -> ScriptOutcome:
    return ScriptOutcome(127 << 8, False, b"", f"{name}: {error.strerror}")


def _words(name: str, status: int) -> str:
    if os.WIFSIGNALED(status):
        return f"{name}: ended by signal {os.WTERMSIG(status)}"
    code = os.WEXITSTATUS(status)
    return f"{name}: exit status {code}" if code else ""


def _spawn(argv: list[str], env: dict[bytes, bytes], out_fd: int) -> int:
    """Starts a program without forking this process, which may have threads. Raises OSError when it cannot be
    executed."""
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, out_fd, 1),
        (os.POSIX_SPAWN_DUP2, out_fd, 2),
    ]
    pid = os.posix_spawn(
        argv[0], argv, env, file_actions=actions, setsid=True, setsigmask=(), setsigdef=_DEFAULT_SIGNALS
    )
    allow_oom_kill(pid)  # it has just begun, and is the site's program
    return pid


#: An ignored signal stays ignored across an exec.
_DEFAULT_SIGNALS = (
    signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1,
    signal.SIGUSR2,
)  # fmt: skip


def _fork(argv: list[str], env: dict[bytes, bytes], out_fd: int, before: "Callable[[], None]") -> int:
    """Starts a program that runs `before` between fork and exec. A failure there is an exit status of 127, with the reason
    as its output.
    """
    pid = os.fork()
    if pid:
        return pid
    try:
        os.dup2(out_fd, 2)  # from here on there is a place for a reason
        os.dup2(out_fd, 1)
        os.setsid()
        allow_oom_kill()
        before()
        os.dup2(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), 0)
        os.closerange(3, 1 << 16)
        for signum in _DEFAULT_SIGNALS:
            signal.signal(signum, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.chdir("/")
        os.execve(argv[0], argv, env)  # noqa: S606 (the site's own program)
    except Exception as error:  # noqa: BLE001 (whatever `before` raises: this process can only report it)
        reason = (error.strerror if isinstance(error, OSError) else "") or str(error) or type(error).__name__
        os.write(2, f"{argv[0]}: {reason}\n".encode("utf-8", "backslashreplace"))
    finally:
        os._exit(127)


def _await(pidfd: int, out_fd: int, timeout_s: float) -> tuple[bytes, bool]:
    """Reads its output until it has ended; False when the deadline came first."""
    end_s = time.monotonic() + timeout_s if timeout_s else None
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    poll.register(out_fd, select.POLLIN)
    output = b""
    while True:
        left_ms = None if end_s is None else max(0.0, end_s - time.monotonic()) * 1000
        ready = dict(poll.poll(left_ms))
        if out_fd in ready:
            piece = _read(out_fd)
            output = (output + piece)[-OUTPUT_BYTES_MAX:]
            if not piece:
                poll.unregister(out_fd)
        if pidfd in ready:
            return (output + _read(out_fd))[-OUTPUT_BYTES_MAX:], True
        if not ready:
            return output, False


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, _READ_BYTES)
    except BlockingIOError:  # processes that it left running may keep the pipe open
        return b""


def _kill(pid: int) -> None:
    """Kills the group and its descendants; the leader is not reaped yet, so its number is still its own."""
    os.killpg(pid, signal.SIGSTOP)  # so that none of them forks in the meantime
    proctree.signal_descendants(pid, signal.SIGKILL)
    os.killpg(pid, signal.SIGKILL)


def _reap(pid: int, pidfd: int) -> int:
    """Returns the wait status; for a process that even SIGKILL does not end, that of a killed one."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    poll.poll(KILLED_WAIT_S * 1000)
    done, status = os.waitpid(pid, os.WNOHANG)
    return status if done else signal.SIGKILL
