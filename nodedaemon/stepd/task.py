"""The path from a forked stepd to the user's program: the part of a launch that runs in the task's own process.

Most tasks are started without a fork, by native/starttask.c, which takes the same path from instructions
(instructions.py): a change here is a change there. A fork is for what only Python can do (instructions.NEEDS_FORK) and
for nodes without that program.

Order matters. As root: join the groups, raise hard limits, no_new_privs, then become the user and verify that root
cannot be regained. As the user: folder, files, soft limits, exec. Root opens no path of the user's; a path that the
user may not open fails here with their own rights, and is reported as the step's failure. Every error is fatal, except
a missing work folder (as in Slurm: /tmp and a message).

Nor does root write to files that a user has opened (`be_user`): some check the rights of the writer, not of the opener.
Kernel files are refused as input and output (`proctree.acts_on_writing`), by descriptor, so that links are covered.

On the status socket it reports that its files are open (a batch script's process: with the descriptor of its error
file), or the text of the failure; a successful exec closes the socket, which shows that the program runs.

A batch script that cannot be executed is a failure of the step. A program of srun that cannot be is a task that ran
and ended with the error's number, as with Slurm.
"""

import _signal  # type: ignore[import-not-found]  # typeshed knows only its form in `signal`
import contextlib
import errno
import fcntl
import os
import pwd
import resource
import signal
import socket
import termios

from nodedaemon.base import orders, proctree
from nodedaemon.stepd import taskhooks
from nodedaemon.stepd.account import account_of
from nodedaemon.stepd.context import LauncherContext
from penstock.oom import allow_oom_kill
from penstock.values.packing import unpack
from penstock.values.rlimits import RLIMITS

TYPE_CHECKING = False  # avoids importing `typing`, which every fork would pay for
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from nodedaemon.cgroups.cgroup import StepGroups

FAILURE_BYTES_MAX = 8192
#: Prefixes of the late variables, and of the reason why there are none.
LATE_VARIABLES, LATE_FAILURE = b"e", b"f"
_LATE_READ_BYTES = 64 * 1024
#: Message of a task when its files are open.
FILES_OPEN = b"files"
FALLBACK_DIR = b"/tmp"
DEFAULT_PATH = b"/usr/local/bin:/usr/bin:/bin"
#: Message for a task that runs unbound; the reason follows.
NOT_BOUND = b"slurmstepd: error: cannot bind the task"
#: Ignored by Python, by the launcher, or by the process that started the daemon (nohup); an ignored signal stays
#: ignored across an exec.
SIGNALS_TO_RESTORE = (
    signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1,
    signal.SIGUSR2, signal.SIGCHLD,
)  # fmt: skip


#: The kernel's calls without the enumerations of `signal` for their results: those would be half of the memory that a
#: task touches, and so copies, on its way.
_set_signal: "Callable[[int, int], object]" = _signal.signal
_set_mask: "Callable[[int, tuple[int, ...]], object]" = _signal.pthread_sigmask
_DEFAULT = int(signal.SIG_DFL)


class TaskError(Exception):
    """The task cannot be started; the text is the step's failure."""


class Start:
    """The inputs of one task beside the step's order. Descriptors are -1 for a file or for nothing."""

    __slots__ = (
        "appends", "environment", "groups", "is_script", "keep_fds", "late_fd", "nofile", "order", "std_err", "std_in", "std_out",
        "terminal",
    )  # fmt: skip

    def __init__(self, order: orders.TaskOrder, is_script: bool = False) -> None:
        self.order = order
        self.is_script = is_script
        self.std_in = -1
        self.std_out = -1
        self.std_err = -1
        self.terminal = -1  # becomes the controlling terminal of a new session
        self.environment: dict[bytes, bytes] = {}  # added to the order's
        self.keep_fds: list[int] = []
        self.groups: StepGroups | None = None  # that it joins
        self.late_fd = -1  # source of variables that become known late: see read_late
        self.appends = False  # its files were opened by an earlier task of the step
        self.nofile = 0  # the soft limit that stepd has raised for itself; 0 = it has not


def become(order: orders.LaunchOrder, context: LauncherContext, start: Start, status: socket.socket) -> "NoReturn":
    """Turns the calling, freshly forked process into the user's program; never returns."""
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
            log_in(order)
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


def _enter_job_context(order: orders.LaunchOrder, context: LauncherContext) -> None:
    """Enters the job's private /tmp and opens a PAM session, where configured."""
    if order.private_tmp:
        from nodedaemon.stepd import namespace  # loaded only where needed

        try:
            namespace.join(order.key, context.steps_fd)
        except namespace.NamespaceError as error:
            raise TaskError(str(error)) from None
    if order.use_pam:
        from nodedaemon.stepd import pam
        from penstock.libpam import PamError

        try:
            pam.open_session(order.user_name)
        except PamError as error:
            raise TaskError(str(error)) from None


def become_user(order: orders.LaunchOrder, context: LauncherContext) -> None:
    """Becomes the order's user, or raises TaskError."""
    allow_oom_kill()
    if context.is_root:
        _enter_job_context(order, context)
        drop_root(order)
    elif os.getuid() != order.user_id:
        raise TaskError(other_user(order))


def other_user(order: orders.LaunchOrder) -> str:
    """The failure of another user's step where stepd is not root."""
    return f"this node daemon runs as uid {os.getuid()}, not as root: it cannot run jobs of uid {order.user_id}"


def unknown_user(order: orders.LaunchOrder) -> str:
    """The failure of a step whose user the node does not know."""
    return f"user unknown on this node: uid {order.user_id} ({order.user_name})"


def not_become(uid: int, gid: int) -> str:
    """The failure of a process that has other ids than it has set."""
    return f"could not become uid {uid}, gid {gid}"


def not_given_up(uid: int) -> str:
    """The failure of a process that could become root again."""
    return f"could not give up root for uid {uid}"


def drop_root(order: orders.LaunchOrder) -> None:
    """Becomes the user irrevocably."""
    try:
        name = pwd.getpwuid(order.user_id).pw_name
    except KeyError:
        raise TaskError(unknown_user(order)) from None
    if not order.use_pam:  # limits that PAM has set are the site's: submitted limits stay below them
        _raise_hard_limits(order.rlimits)
    if order.no_new_privs:
        proctree.prctl(proctree.PR_SET_NO_NEW_PRIVS, 1)
    uid, gid = order.user_id, order.group_id
    os.initgroups(name, gid)  # present group memberships on this node
    os.setgid(gid)
    os.setuid(uid)
    if os.getresuid() != (uid, uid, uid) or os.getresgid() != (gid, gid, gid):
        raise TaskError(not_become(uid, gid))
    if uid != 0:
        try:
            os.setuid(0)
        except PermissionError:
            return
        raise TaskError(not_given_up(uid))


def change_folder(work_dir: bytes) -> bytes:
    """Enters the work folder, or /tmp; returns the message for the error file."""
    try:
        os.chdir(work_dir)
    except OSError as error:
        os.chdir(FALLBACK_DIR)
        before, after = folder_note(work_dir)
        return before + (error.strerror or "").encode() + after
    return b""


def folder_note(work_dir: bytes) -> tuple[bytes, bytes]:
    """The message about a work folder that cannot be entered: before and after the reason."""
    return b"slurmstepd: error: couldn't chdir to `" + work_dir + b"': ", b": going to /tmp instead\n"


def _open_files(order: orders.LaunchOrder, start: Start) -> None:
    """Opens standard input, output and error: a file, a descriptor of stepd's, or nothing."""
    task = start.order
    write = write_flags(order, start)
    _open_as(0, "stdin", task.std_in, os.O_RDONLY, start.std_in)
    if order.make_folders:
        for path in (task.std_out, task.std_err):
            _make_folder(path)
    _open_as(1, "stdout", task.std_out, write, start.std_out)
    if shares_output(start):
        os.dup2(1, 2)
    else:
        _open_as(2, "stderr", task.std_err, write, start.std_err)


def write_flags(order: orders.LaunchOrder, start: Start) -> int:
    """How the task's output files are opened."""
    flags = os.O_WRONLY | os.O_CREAT
    if not start.is_script:  # several tasks may write to one file
        flags |= os.O_APPEND
    return flags | (os.O_APPEND if order.open_append or start.appends else os.O_TRUNC)


def shares_output(start: Start) -> bool:
    """True when standard error is standard output."""
    one = start.order
    return bool(one.std_out) and one.std_err in (b"", one.std_out) and start.std_err < 0


def _make_folder(path: bytes) -> None:
    """Makes the folder of a file. An error is reported when the file is opened."""
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
        raise TaskError(f"{cannot_open(what, path)}: {error.strerror}") from None
    if proctree.acts_on_writing(fd):
        raise TaskError(of_kernel(what, path))
    os.dup2(fd, number)
    os.close(fd)


def cannot_open(what: str, path: bytes) -> str:
    """The failure of a file that cannot be opened, without the reason."""
    return f"cannot open {what}: {path.decode('utf-8', 'backslashreplace')}"


def of_kernel(what: str, path: bytes) -> str:
    """The failure of a file on which writing has the kernel act."""
    return f"{cannot_open(what, path)}: files of the kernel (/proc, /sys) take no input and output of jobs"


def be_user(user_id: int, group_id: int) -> None:
    """Becomes the user irrevocably, without the rest of the user's environment: enough to write to files that a user
    has opened.
    """
    os.setgroups([])
    os.setresgid(group_id, group_id, group_id)
    os.setresuid(user_id, user_id, user_id)


def close_all_but(*keep: int) -> None:
    """Closes all other descriptors. All are close-on-exec already; this covers inherited ones."""
    at = 3
    for fd in sorted(keep):
        os.closerange(at, fd)
        at = fd + 1
    os.closerange(at, 1 << 20)


def _bind(task: orders.TaskOrder) -> None:
    """Binds the process to its cpus and to the memory near them. A refusal of the kernel is reported, and the task runs
    unbound."""
    try:
        if task.cpus:
            os.sched_setaffinity(0, task.cpus)
        if task.mem_mode:
            proctree.bind_memory(task.mem_mode, task.mem_nodes)
    except OSError as error:
        os.write(2, NOT_BOUND + b": " + (error.strerror or "").encode() + b"\n")
    for note in task.bind_notes:
        os.write(2, note.replace("{pid}", str(os.getpid())).encode() + b"\n")


def read_late(fd: int) -> dict[bytes, bytes]:
    """Reads variables that become known only after the fork; or why there are none."""
    data = b""
    while part := os.read(fd, _LATE_READ_BYTES):
        data += part
    if data[:1] != LATE_VARIABLES:
        raise TaskError(data[1:].decode("utf-8", "replace") or "what prepares the task's environment has ended")
    parts = unpack(data[1:])
    return dict(zip(parts[::2], parts[1::2], strict=True))


def restore_signals() -> None:
    """Restores the default signal handling; from here on this process may have children of its own."""
    signal.set_wakeup_fd(-1)
    for signum in SIGNALS_TO_RESTORE:
        _set_signal(signum, _DEFAULT)
    _set_mask(signal.SIG_SETMASK, ())


def known_limits(rlimits: dict[str, int]) -> list[tuple[int, int]]:
    """Returns the known limits as (resource, soft value)."""
    found = []
    for name, value in rlimits.items():
        word = name.removeprefix("RLIMIT_")
        number = getattr(resource, f"RLIMIT_{word}", None) if word in RLIMITS else None
        if isinstance(number, int):
            found.append((number, resource.RLIM_INFINITY if value < 0 else value))
    return found


def _exceeds(value: int, limit: int) -> bool:
    if limit == resource.RLIM_INFINITY:
        return False
    return value == resource.RLIM_INFINITY or value > limit


def _raise_hard_limits(rlimits: dict[str, int]) -> None:
    """Raises the hard limits, as root, for the submitted soft limits. These follow last: a low one would hamper us."""
    for number, value in known_limits(rlimits):
        soft, hard = resource.getrlimit(number)
        if _exceeds(value, hard):
            try:
                resource.setrlimit(number, (soft, value))
            except (OSError, ValueError):  # beyond the kernel's own limit (NOFILE): use the maximum
                continue


def _set_soft_limits(rlimits: dict[str, int], nofile: int) -> None:
    """Sets the submitted limits, at most the hard ones. `nofile`: in place of stepd's raised limit; PAM's may be
    lower."""
    if nofile:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft if _exceeds(nofile, soft) else nofile, hard))
    for number, value in known_limits(rlimits):
        hard = resource.getrlimit(number)[1]
        resource.setrlimit(number, (hard if _exceeds(value, hard) else value, hard))


def log_in(order: orders.LaunchOrder) -> None:
    """Adds the variables of the user's login shell below the submitted ones. The job runs even if that fails."""
    from nodedaemon.stepd import loginenv  # loaded only where needed

    try:
        order.environment = loginenv.login_environment(os.getuid()) | order.environment
    except loginenv.LoginError as error:
        os.write(2, f"slurmstepd: error: no login environment: {error}\n".encode("utf-8", "backslashreplace"))


def environment(order: orders.LaunchOrder, start: Start) -> dict[bytes, bytes]:
    """Adds the variables that only this process knows, and those that a shell needs when they were not submitted
    (--export=NONE)."""
    env = {**order.environment, **start.order.environment, **start.environment}
    env[b"SLURM_TASK_PID"] = str(os.getpid()).encode()
    env.setdefault(b"PATH", DEFAULT_PATH)
    if all(name in env for name in (b"HOME", b"USER", b"LOGNAME", b"SHELL")):
        return env
    with contextlib.suppress(KeyError):  # without root, the one user need not be in the user database
        account = account_of(order.user_id)
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
    """Executes the program. A failure is the task's own: a message, and the error's number as its exit code."""
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
    """The paths to try for a program: its own, or in the folders of PATH (relative ones are in the work folder)."""
    if b"/" in name:
        return [name]
    folders = env.get(b"PATH", DEFAULT_PATH).split(b":")
    return [(folder or b".") + b"/" + name for folder in folders] if name else []
