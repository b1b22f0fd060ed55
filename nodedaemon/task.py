"""From a forked stepd to the user's program: the part of a launch that runs in the task's own process.

Order matters. As root: join the groups, raise hard limits, no_new_privs, then become the user and prove that there is
no way back. As the user: folder, files, soft limits, exec. Root opens no path of the user's; a path that the user may
not open fails here with his own rights, and is told as the step's failure. Nothing is "continued on error", but a
missing work folder (as Slurm: /tmp and a message).

What it says on the status socket: that its files are open (a batch script's process: with the descriptor of its error
file), or the text of the failure; a successful exec closes the socket, which is the sign that the program runs.

A batch script that cannot be executed is a failure of the step. A program of srun that cannot be is a task that ran
and ended with the error's number, as with Slurm.
"""

import _signal  # type: ignore[import-not-found]  # typeshed knows only what `signal` makes of it
import contextlib
import errno
import fcntl
import os
import pwd
import resource
import signal
import socket
import termios

from nodedaemon import orders, proctree, taskhooks
from nodedaemon.context import Context
from penstock.values.packing import unpack

TYPE_CHECKING = False  # `typing` itself would be one more thing in every fork
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from nodedaemon.cgroup import StepGroups

FAILURE_BYTES_MAX = 8192
#: How variables begin that come late, and how the reason does why they do not.
LATE_VARIABLES, LATE_FAILURE = b"e", b"f"
_LATE_READ_BYTES = 64 * 1024
#: What a task says when its files are open.
FILES_OPEN = b"files"
FALLBACK_DIR = b"/tmp"
DEFAULT_PATH = b"/usr/local/bin:/usr/bin:/bin"
#: Ignored by Python, by the launcher, or by whoever started the daemon (nohup); an ignored signal stays so over an
#: exec.
_SIGNALS_TO_RESTORE = (
    signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1,
    signal.SIGUSR2, signal.SIGCHLD,
)  # fmt: skip


#: Limits that a submission may set (slurm.conf, PropagateResourceLimits). No others: with RTPRIO or NICE a job could
#: take the processors from the node's own daemons.
PROPAGATED = ("AS", "CORE", "CPU", "DATA", "FSIZE", "MEMLOCK", "NOFILE", "NPROC", "RSS", "STACK")


#: The kernel's calls without the enumerations that `signal` makes of what they return: those are half of what a task
#: touches, and so copies, on its way.
_set_signal: "Callable[[int, int], object]" = _signal.signal
_set_mask: "Callable[[int, tuple[int, ...]], object]" = _signal.pthread_sigmask
_DEFAULT = int(signal.SIG_DFL)


class TaskError(Exception):
    """The task cannot be started; the text is the step's failure."""


class Start:
    """What one task needs beside the step's order. Descriptors are -1 where a file or nothing is asked for."""

    __slots__ = (
        "appends", "environment", "groups", "is_script", "keep_fds", "late_fd", "nofile", "order", "std_err", "std_in", "std_out",
        "terminal",
    )  # fmt: skip

    def __init__(self, order: orders.TaskOrder, is_script: bool = False) -> None:
        self.order = order
        self.is_script = is_script
        self.std_in = self.std_out = self.std_err = -1
        self.terminal = -1  # becomes the controlling terminal of a session of its own
        self.environment: dict[bytes, bytes] = {}  # beside the order's
        self.keep_fds: list[int] = []
        self.groups: StepGroups | None = None  # that it joins
        self.late_fd = -1  # more of the environment comes here, once it is known: see read_late
        self.appends = False  # its files were opened by another task of the step before
        self.nofile = 0  # the soft limit that stepd has raised for itself; 0 = it has not


def become(order: orders.LaunchOrder, context: Context, start: Start, status: socket.socket) -> "NoReturn":
    """Turn the calling, freshly forked process into the user's program; never returns."""
    try:
        if start.terminal >= 0:
            os.setsid()
            fcntl.ioctl(start.terminal, termios.TIOCSCTTY, 0)
        else:
            os.setpgid(0, 0)
        if start.groups is not None:
            start.groups.join(start.order.rank)
        become_user(order, context)
        os.umask(order.umask & 0o777)
        message = change_folder(order.work_dir)
        _open_files(order, start)
        if order.message:
            message += order.message.encode() + b"\n"
        if message:
            os.write(2, message)
        socket.send_fds(status, [FILES_OPEN], [2] if start.is_script else [])
        if start.late_fd >= 0:
            start.environment |= read_late(start.late_fd)
        close_all_but(status.fileno(), *start.keep_fds)
        restore_signals()
        if order.login_environment and start.is_script:
            _log_in(order)
        env = environment(order, start)
        _bind(start.order)
        _set_soft_limits(order.rlimits, start.nofile)
        if order.task_prolog:
            taskhooks.run_prologs(order.task_prolog, env)
        for fd in start.keep_fds:
            os.set_inheritable(fd, True)
        argv = start.order.argv
        _exec_script(argv, env) if start.is_script else _exec_program(argv, env)
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


def become_user(order: orders.LaunchOrder, context: Context) -> None:
    """Be the order's user from here on, or raise TaskError."""
    if context.is_root:
        _enter_surroundings(order, context)
        drop_root(order)
    elif os.getuid() != order.user_id:
        raise TaskError(
            f"this node daemon runs as uid {os.getuid()}, not as root: it cannot run jobs of uid {order.user_id}"
        )


def drop_root(order: orders.LaunchOrder) -> None:
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


def change_folder(work_dir: bytes) -> bytes:
    """Enter the work folder, or /tmp; returns the message for the error file."""
    try:
        os.chdir(work_dir)
    except OSError as error:
        os.chdir(FALLBACK_DIR)
        why = (error.strerror or "").encode()
        return b"slurmstepd: error: couldn't chdir to `" + work_dir + b"': " + why + b": going to /tmp instead\n"
    return b""


def _open_files(order: orders.LaunchOrder, start: Start) -> None:
    """Standard input, output and error: a file, what stepd has made, or nothing."""
    task = start.order
    write = os.O_WRONLY | os.O_CREAT
    if not start.is_script:  # several tasks may write to one file
        write |= os.O_APPEND
    write |= os.O_APPEND if order.open_append or start.appends else os.O_TRUNC
    _open_as(0, "stdin", task.std_in, os.O_RDONLY, start.std_in)
    if order.make_folders:
        for path in (task.std_out, task.std_err):
            _make_folder(path)
    _open_as(1, "stdout", task.std_out, write, start.std_out)
    if task.std_out and task.std_err in (b"", task.std_out) and start.std_err < 0:
        os.dup2(1, 2)
    else:
        _open_as(2, "stderr", task.std_err, write, start.std_err)


def _make_folder(path: bytes) -> None:
    """What cannot be made is told when the file is opened."""
    folder = path.rpartition(b"/")[0]
    if folder:
        with contextlib.suppress(OSError):
            os.makedirs(folder, exist_ok=True)


def _open_as(number: int, what: str, path: bytes, flags: int, made: int) -> None:
    if not path and made >= 0:
        os.dup2(made, number)
        return
    path = path or os.devnull.encode()
    try:
        fd = os.open(path, flags | os.O_NOCTTY | os.O_CLOEXEC, 0o666)
    except OSError as error:
        shown = path.decode("utf-8", "backslashreplace")
        raise TaskError(f"cannot open {what}: {shown}: {error.strerror}") from None
    os.dup2(fd, number)
    os.close(fd)


def close_all_but(*keep: int) -> None:
    """Everything is close-on-exec already; this holds also for what is not ours to trust."""
    at = 3
    for fd in sorted(keep):
        os.closerange(at, fd)
        at = fd + 1
    os.closerange(at, 1 << 20)


def _bind(task: orders.TaskOrder) -> None:
    """To its processors and to the memory near them. What the kernel refuses is told, and the task runs unbound."""
    try:
        if task.cpus:
            os.sched_setaffinity(0, task.cpus)
        if task.mem_mode:
            proctree.bind_memory(task.mem_mode, task.mem_nodes)
    except OSError as error:
        os.write(2, b"slurmstepd: error: cannot bind the task: " + (error.strerror or "").encode() + b"\n")
    for note in task.bind_notes:
        os.write(2, note.replace("{pid}", str(os.getpid())).encode() + b"\n")


def read_late(fd: int) -> dict[bytes, bytes]:
    """Variables that somebody writes who had to learn them first; or why there are none."""
    data = b""
    while part := os.read(fd, _LATE_READ_BYTES):
        data += part
    if data[:1] != LATE_VARIABLES:
        raise TaskError(data[1:].decode("utf-8", "replace") or "what prepares the task's environment has ended")
    parts = unpack(data[1:])
    return dict(zip(parts[::2], parts[1::2], strict=True))


def restore_signals() -> None:
    """As a program expects to find them; from here on this process may have children of its own."""
    signal.set_wakeup_fd(-1)
    for signum in _SIGNALS_TO_RESTORE:
        _set_signal(signum, _DEFAULT)
    _set_mask(signal.SIG_SETMASK, ())


def _limits(rlimits: dict[str, int]) -> list[tuple[int, int]]:
    """Known limits as (resource, soft value)."""
    found = []
    for name, value in rlimits.items():
        word = name.removeprefix("RLIMIT_")
        number = getattr(resource, f"RLIMIT_{word}", None) if word in PROPAGATED else None
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


def _set_soft_limits(rlimits: dict[str, int], nofile: int) -> None:
    if nofile:
        resource.setrlimit(resource.RLIMIT_NOFILE, (nofile, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    for number, value in _limits(rlimits):
        hard = resource.getrlimit(number)[1]
        resource.setrlimit(number, (hard if _exceeds(value, hard) else value, hard))


def _log_in(order: orders.LaunchOrder) -> None:
    """What the user's login shell sets, below what was submitted. Without its answer the job runs all the same."""
    from nodedaemon import loginenv  # not paid for by others

    try:
        order.environment = loginenv.login_environment(os.getuid()) | order.environment
    except loginenv.LoginError as error:
        os.write(2, f"slurmstepd: error: no login environment: {error}\n".encode("utf-8", "backslashreplace"))


def environment(order: orders.LaunchOrder, start: Start) -> dict[bytes, bytes]:
    """What only this process knows, and what no shell can do without when it was not submitted (--export=NONE)."""
    env = order.environment  # this process is the task's own
    env.update(start.order.environment)
    env.update(start.environment)
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


def _exec_script(argv: list[bytes], env: dict[bytes, bytes]) -> "NoReturn":
    try:
        os.execve(argv[0], argv, env)  # noqa: S606 (the user's own script, as the user)
    except OSError as error:
        raise TaskError(f"cannot execute the script: {error.strerror}") from None


def _exec_program(argv: list[bytes], env: dict[bytes, bytes]) -> "NoReturn":
    """A program that cannot be executed is the task's own failure: a message, and the error's number as its exit code."""
    number = errno.ENOENT
    for path in program_paths(argv[0], env):
        try:
            os.execve(path, argv, env)  # noqa: S606 (the user's own program, as the user)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                number = error.errno or number
                if number != errno.EACCES:
                    break
    os.write(2, b"slurmstepd: error: execve(): " + argv[0] + b": " + os.strerror(number).encode() + b"\n")
    os._exit(number)


def program_paths(name: bytes, env: dict[bytes, bytes]) -> list[bytes]:
    """Where a program may be: its own path, or the folders of PATH (relative ones are in the work folder)."""
    if b"/" in name:
        return [name]
    folders = env.get(b"PATH", DEFAULT_PATH).split(b":")
    return [(folder or b".") + b"/" + name for folder in folders] if name else []
