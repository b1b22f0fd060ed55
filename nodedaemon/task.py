"""From a forked stepd to the user's program: the part of a launch that runs in the task's own process.

Order matters. As root: join the groups, raise hard limits, no_new_privs, then become the user and prove that there is
no way back. As the user: folder, files, soft limits, exec. Root opens no path of the user's; a path that the user may
not open fails here with his own rights, and is told as the step's failure. Nothing is "continued on error", but a
missing work folder (as Slurm: /tmp and a message).

What it says on the status socket: its error file's descriptor when the files are open, or the text of the failure; a
successful exec closes the socket, which is the sign that the program runs.
"""

import contextlib
import os
import pwd
import resource
import signal
import socket

from nodedaemon import orders, proctree
from nodedaemon.context import Context

TYPE_CHECKING = False  # `typing` itself would be one more thing in every fork
if TYPE_CHECKING:
    from typing import NoReturn

FAILURE_BYTES_MAX = 8192
FALLBACK_DIR = b"/tmp"
DEFAULT_PATH = b"/usr/local/bin:/usr/bin:/bin"
#: Ignored by Python, by the launcher, or by whoever started the daemon (nohup); an ignored signal stays so over an
#: exec.
_SIGNALS_TO_RESTORE = (
    signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1,
    signal.SIGUSR2,
)  # fmt: skip


class TaskError(Exception):
    """The task cannot be started; the text is the step's failure."""


def become(order: orders.LaunchOrder, context: Context, script_path: str, status: socket.socket) -> "NoReturn":
    """Turn the calling, freshly forked process into the user's program; never returns."""
    try:
        os.setpgid(0, 0)
        context.cgroups.join(order.key)
        if context.is_root:
            _enter_surroundings(order, context)
            _drop_root(order)
        elif os.getuid() != order.user_id:
            raise TaskError(
                f"this node daemon runs as uid {os.getuid()}, not as root: it cannot run jobs of uid {order.user_id}"
            )
        os.umask(order.umask & 0o777)
        message = _change_folder(order.work_dir)
        _open_files(order)
        if message:
            os.write(2, message)
        socket.send_fds(status, [b"files"], [2])
        _close_all_but(status)
        _restore_signals()
        env = _environment(order)
        argv = [os.fsencode(script_path), *order.argv]
        _set_soft_limits(order.rlimits)
        _exec(argv, env)
    except TaskError as error:
        text = str(error)
    except OSError as error:
        text = f"cannot start the task: {error.strerror}"
    status.send(text.encode("utf-8", "backslashreplace")[:FAILURE_BYTES_MAX])
    os._exit(1)


def _enter_surroundings(order: orders.LaunchOrder, context: Context) -> None:
    """The job's own /tmp, and a PAM session; both only where the configuration asks for them."""
    if order.private_tmp:
        from nodedaemon import namespace  # not paid for by others

        try:
            namespace.join(order.key, context.steps_fd)
        except namespace.NamespaceError as error:
            raise TaskError(str(error)) from None
    if order.use_pam:
        from nodedaemon import pam

        try:
            pam.open_session(order.user_name)
        except pam.PamError as error:
            raise TaskError(str(error)) from None


def _drop_root(order: orders.LaunchOrder) -> None:
    """Become the user for good."""
    try:
        name = pwd.getpwuid(order.user_id).pw_name
    except KeyError:
        raise TaskError(f"user unknown on this node: uid {order.user_id} ({order.user_name})") from None
    _raise_hard_limits(order.rlimits)
    _allow_oom_kill()
    if order.no_new_privs:
        proctree.prctl(proctree.PR_SET_NO_NEW_PRIVS, 1)
    uid, gid = order.user_id, order.group_id
    os.initgroups(name, gid)  # groups as they are now, on this node
    os.setgid(gid)
    os.setuid(uid)
    if os.getresuid() != (uid, uid, uid) or os.getresgid() != (gid, gid, gid):
        raise TaskError(f"could not become uid {uid}, gid {gid}")
    if uid != 0:
        try:
            os.setuid(0)
        except PermissionError:
            return
        raise TaskError(f"could not give up root for uid {uid}")


def _allow_oom_kill() -> None:
    """The daemon may be exempt from the kernel's memory killer; its jobs are not."""
    with contextlib.suppress(OSError):  # a container may forbid it; then the daemon could not exempt itself either
        fd = os.open("/proc/self/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
        os.write(fd, b"0")
        os.close(fd)


def _change_folder(work_dir: bytes) -> bytes:
    """Enter the work folder, or /tmp; returns the message for the error file."""
    try:
        os.chdir(work_dir)
    except OSError as error:
        os.chdir(FALLBACK_DIR)
        why = (error.strerror or "").encode()
        return b"slurmstepd: error: couldn't chdir to `" + work_dir + b"': " + why + b": going to /tmp instead\n"
    return b""


def _open_files(order: orders.LaunchOrder) -> None:
    mode = os.O_APPEND if order.open_append else os.O_TRUNC
    write = os.O_WRONLY | os.O_CREAT | mode
    _open_as(0, "stdin", order.std_in or os.devnull.encode(), os.O_RDONLY)
    _open_as(1, "stdout", order.std_out, write)
    if order.std_err and order.std_err != order.std_out:
        _open_as(2, "stderr", order.std_err, write)
    else:
        os.dup2(1, 2)


def _open_as(number: int, what: str, path: bytes, flags: int) -> None:
    try:
        fd = os.open(path, flags | os.O_NOCTTY | os.O_CLOEXEC, 0o666)
    except OSError as error:
        shown = path.decode("utf-8", "backslashreplace")
        raise TaskError(f"cannot open {what}: {shown}: {error.strerror}") from None
    os.dup2(fd, number)
    os.close(fd)


def _close_all_but(status: socket.socket) -> None:
    """Everything is close-on-exec already; this holds also for what is not ours to trust."""
    keep = status.fileno()
    os.closerange(3, keep)
    os.closerange(keep + 1, 1 << 20)


def _restore_signals() -> None:
    for signum in _SIGNALS_TO_RESTORE:
        signal.signal(signum, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _limits(rlimits: dict[str, int]) -> list[tuple[int, int]]:
    """Known limits as (resource, soft value)."""
    found = []
    for name, value in rlimits.items():
        number = getattr(resource, f"RLIMIT_{name.removeprefix('RLIMIT_')}", None)
        if isinstance(number, int):
            found.append((number, resource.RLIM_INFINITY if value < 0 else value))
    return found


def _exceeds(value: int, limit: int) -> bool:
    if limit == resource.RLIM_INFINITY:
        return False
    return value == resource.RLIM_INFINITY or value > limit


def _raise_hard_limits(rlimits: dict[str, int]) -> None:
    """Root's part: make room for the submitted soft limits. The soft ones follow last: a low one would hamper us."""
    for number, value in _limits(rlimits):
        soft, hard = resource.getrlimit(number)
        if _exceeds(value, hard):
            try:
                resource.setrlimit(number, (soft, value))
            except (OSError, ValueError):  # beyond the kernel's own limit (NOFILE): as much as there is
                continue


def _set_soft_limits(rlimits: dict[str, int]) -> None:
    for number, value in _limits(rlimits):
        hard = resource.getrlimit(number)[1]
        resource.setrlimit(number, (hard if _exceeds(value, hard) else value, hard))


def _environment(order: orders.LaunchOrder) -> dict[bytes, bytes]:
    """What only this process knows, and what no shell can do without when it was not submitted (--export=NONE)."""
    env = dict(order.environment)
    env[b"SLURM_TASK_PID"] = str(os.getpid()).encode()
    env.setdefault(b"PATH", DEFAULT_PATH)
    if all(name in env for name in (b"HOME", b"USER", b"LOGNAME", b"SHELL")):
        return env
    with contextlib.suppress(KeyError):  # without root, the one user need not be in the list of users
        account = pwd.getpwuid(order.user_id)
        env.setdefault(b"HOME", os.fsencode(account.pw_dir))
        env.setdefault(b"USER", os.fsencode(account.pw_name))
        env.setdefault(b"LOGNAME", os.fsencode(account.pw_name))
        env.setdefault(b"SHELL", os.fsencode(account.pw_shell))
    return env


def _exec(argv: list[bytes], env: dict[bytes, bytes]) -> "NoReturn":
    try:
        os.execve(argv[0], argv, env)  # noqa: S606 (the user's own script, as the user)
    except OSError as error:
        raise TaskError(f"cannot execute the script: {error.strerror}") from None
