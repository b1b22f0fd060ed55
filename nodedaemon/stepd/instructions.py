"""Instructions that turn a new process into a task's program: written here, executed by native/starttask.c.

The program is started through posix_spawn, which copies nothing of this process, and does in the same order what
task.become does in a fork of this process. NEEDS_FORK lists the features that only the fork has. The two must stay
equal: tests/node/test_starttask.py runs the same tasks through both.

The instructions pass through a memory file, so that neither arguments nor the environment of the program show them. An
instruction is its number, the length of its operands, and the operands: 64-bit numbers, then texts that end with a zero
byte; the next one begins at a multiple of eight bytes. native/starttask.c has the same numbers and layouts.
"""

import errno
import functools
import os
import resource
import socket
import struct

from nodedaemon.base import orders, proctree
from nodedaemon.stepd import task
from nodedaemon.stepd.account import account_of, groups_of

TYPE_CHECKING = False  # avoids importing `typing`, which every fork would pay for
if TYPE_CHECKING:
    from collections.abc import Iterable

    from nodedaemon.stepd.context import LauncherContext
    from nodedaemon.stepd.task import Start

_NAME = "starttask"
PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), _NAME)
#: Its exit status when it has no arguments.
_WITHOUT_ARGUMENTS = 1

#: Features of an order that only task.become has; each runs site or user code, or a library, before the program.
NEEDS_FORK = ("use_pam", "login_environment", "task_prolog")

(
    SESSION, OOM_SCORE, JOIN, NAMESPACE, HARD_LIMIT, NO_NEW_PRIVS, IDENTITY, UMASK, FOLDER, FOLDER_NOTE, PARENTS, KERNEL_TYPES,
    OPEN, DUPLICATE, WRITE, NOTE, FILES_OPEN, CLOSE, SIGNALS, AFFINITY, MEMORY_POLICY, LOWER_LIMIT, SOFT_LIMIT, EXECUTE,
) = range(24)  # fmt: skip

NO_NAMESPACE = b"private /tmp: cannot enter the namespace"  # as namespace.enter has it
_HEAD = struct.Struct("=QQ")
_WORD_BITS = 64
_ALIGNED = 8


class Identity:
    """The step's user on this node: looked up once for all of its tasks."""

    __slots__ = ("groups",)

    def __init__(self, order: orders.LaunchOrder, is_root: bool) -> None:
        self.groups: list[int] = []
        if is_root:
            try:
                name = account_of(order.user_id).pw_name
            except KeyError:
                raise task.TaskError(task.unknown_user(order)) from None
            self.groups = groups_of(name, order.group_id)  # present group memberships on this node
        elif os.getuid() != order.user_id:
            raise task.TaskError(task.other_user(order))


def can_execute(order: orders.LaunchOrder, start: "Start") -> bool:
    """True when the program can start the task; otherwise a fork of this process does."""
    return start.late_fd < 0 and not any(getattr(order, name) for name in NEEDS_FORK)


def open_program() -> int:
    """Opens the program for as long as this process lives, so that an upgrade does not exchange it; -1 = it is missing, or
    cannot be executed here. That is tried: a file system without programs or another machine's build must fail no task.
    """
    try:
        fd = os.open(PROGRAM, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return -1
    try:
        pid = os.posix_spawn(f"/proc/self/fd/{fd}", [_NAME], {})
        runs = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == _WITHOUT_ARGUMENTS
    except OSError:
        runs = False
    if runs:
        return fd
    os.close(fd)
    return -1


def spawn(
    order: orders.LaunchOrder, context: "LauncherContext", start: "Start", identity: Identity, status: socket.socket
) -> int:
    """Starts a task's process; returns its pid. `status`: its end of the status socket. Raises OSError."""
    namespace_fd = _namespace(order, context)
    orders_fd = -1
    try:
        passed = [status.fileno(), *start.keep_fds]
        passed += [fd for fd in (start.std_in, start.std_out, start.std_err, start.terminal, namespace_fd) if fd >= 0]
        orders_fd = _memory_file(compose(order, context, start, identity, namespace_fd))
        passed.append(orders_fd)
        argv = [_NAME, str(status.fileno()), str(orders_fd)]
        actions = [(os.POSIX_SPAWN_DUP2, fd, fd) for fd in dict.fromkeys(passed)]
        program = f"/proc/self/fd/{context.starter_fd}"
        if start.terminal >= 0:  # SESSION makes its group
            return os.posix_spawn(program, argv, {}, file_actions=actions)
        return os.posix_spawn(program, argv, {}, file_actions=actions, setpgroup=0)
    finally:
        for fd in (namespace_fd, orders_fd):
            if fd >= 0:
                os.close(fd)


def _namespace(order: orders.LaunchOrder, context: "LauncherContext") -> int:
    """The job's mount namespace, open; -1 = it has none of its own."""
    if not (order.private_tmp and context.is_root):
        return -1
    from nodedaemon.stepd import namespace  # loaded only where needed

    try:
        return namespace.find(order.key, context.steps_fd)
    except namespace.NamespaceError as error:
        raise task.TaskError(str(error)) from None


def _memory_file(data: bytes) -> int:
    fd = os.memfd_create("task", os.MFD_CLOEXEC)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
    except OSError:
        os.close(fd)
        raise
    return fd


def instruction(kind: int, numbers: "Iterable[int]" = (), texts: "Iterable[bytes]" = ()) -> bytes:
    """Encodes one instruction. Raises TaskError for a text with a zero byte."""
    words = list(numbers)
    parts = list(texts)
    tail = b"\0".join([*parts, b""])
    if tail.count(0) != len(parts):
        raise task.TaskError(f"cannot start the task: {os.strerror(errno.EINVAL)}")
    head = _HEAD.pack(kind, _ALIGNED * len(words) + len(tail))
    return head + struct.pack(f"={len(words)}q", *words) + tail + bytes(-len(tail) % _ALIGNED)


#: For instructions that many tasks of one user share.
_shared = functools.lru_cache(maxsize=256)(instruction)

#: The same for every task.
_RESTORE_SIGNALS = instruction(SIGNALS, [len(task.SIGNALS_TO_RESTORE), *task.SIGNALS_TO_RESTORE])
_REFUSE_KERNEL_FILES = instruction(KERNEL_TYPES, [len(proctree.ACTING), *sorted(proctree.ACTING)])


def compose(
    order: orders.LaunchOrder, context: "LauncherContext", start: "Start", identity: Identity, namespace_fd: int = -1
) -> bytes:
    """All instructions for a task, in their order."""
    keep = sorted(start.keep_fds)
    hard, soft = _limits(tuple(order.rlimits.items()))
    return b"".join(
        [
            *_as_root(order, context, start, identity, namespace_fd, hard),
            *_files(order, start),
            _shared(CLOSE, (len(keep), *keep)),
            _RESTORE_SIGNALS,
            *_binding(start.order),
            _shared(LOWER_LIMIT, (resource.RLIMIT_NOFILE, start.nofile)) if start.nofile else b"",
            soft,
            _execute(order, start),
        ]
    )


def _as_root(
    order: orders.LaunchOrder,
    context: "LauncherContext",
    start: "Start",
    identity: Identity,
    namespace_fd: int,
    hard_limits: bytes,
) -> list[bytes]:
    """Everything up to the change of the user."""
    found = [instruction(SESSION, [start.terminal])] if start.terminal >= 0 else []
    if start.groups is not None:
        found += [instruction(JOIN, (), [os.fsencode(path)]) for path in start.groups.join_files(start.order.rank)]
    found.append(_shared(OOM_SCORE))
    uid, gid = order.user_id, order.group_id
    if context.is_root:
        if namespace_fd >= 0:
            found.append(instruction(NAMESPACE, [namespace_fd], [NO_NAMESPACE]))
        found.append(hard_limits)
        if order.no_new_privs:
            found.append(_shared(NO_NEW_PRIVS))
    texts = (task.not_become(uid, gid).encode(), task.not_given_up(uid).encode())
    groups = identity.groups
    found.append(_shared(IDENTITY, (uid, gid, int(context.is_root), len(groups), *groups), texts))
    return found


def _files(order: orders.LaunchOrder, start: "Start") -> list[bytes]:
    """Folder, standard input, output and error, and the messages for the error output."""
    one = start.order
    note = task.folder_note(order.work_dir)
    found = [
        _shared(UMASK, (order.umask & 0o777,)),
        _shared(FOLDER, (), (order.work_dir, task.FALLBACK_DIR)),
        _REFUSE_KERNEL_FILES,
        _open_as(0, "stdin", one.std_in, os.O_RDONLY, start.std_in),
    ]
    if order.make_folders:
        found += [instruction(PARENTS, (), [path]) for path in (one.std_out, one.std_err) if b"/" in path]
    write = task.write_flags(order, start)
    found.append(_open_as(1, "stdout", one.std_out, write, start.std_out))
    if task.shares_output(start):
        found.append(_shared(DUPLICATE, (1, 2)))
    else:
        found.append(_open_as(2, "stderr", one.std_err, write, start.std_err))
    found.append(_shared(FOLDER_NOTE, (), note))
    if order.message:
        found.append(instruction(WRITE, (), [order.message.encode() + b"\n"]))
    found.append(_shared(FILES_OPEN, (int(start.is_script),), (task.FILES_OPEN,)))
    return found


def _open_as(number: int, what: str, path: bytes, flags: int, made: int) -> bytes:
    if not path and made >= 0:
        return _shared(DUPLICATE, (made, number))
    return _opened(number, what, path or os.devnull.encode(), flags)


@functools.lru_cache(maxsize=16)
def _opened(number: int, what: str, path: bytes, flags: int) -> bytes:
    texts = (task.cannot_open(what, path), task.of_kernel(what, path))
    return instruction(OPEN, [number, flags], [path, *[one.encode("utf-8", "backslashreplace") for one in texts]])


def _binding(one: orders.TaskOrder) -> list[bytes]:
    found = []
    if one.cpus:
        mask = _mask(one.cpus)
        found.append(instruction(AFFINITY, [len(mask), *mask], [task.NOT_BOUND]))
    if one.mem_mode:
        mask = _mask(one.mem_nodes)
        found.append(instruction(MEMORY_POLICY, [one.mem_mode, len(mask), *mask], [task.NOT_BOUND]))
    return found + [instruction(NOTE, (), [note.encode() + b"\n"]) for note in one.bind_notes]


def _mask(numbers: list[int]) -> list[int]:
    """A set of small numbers as words of bits, signed as `instruction` packs them."""
    words = [0] * (max(numbers, default=-1) // _WORD_BITS + 1)
    for number in numbers:
        words[number // _WORD_BITS] |= 1 << (number % _WORD_BITS)
    return [word - (1 << _WORD_BITS) if word >> (_WORD_BITS - 1) else word for word in words]


@functools.lru_cache(maxsize=16)
def _limits(rlimits: tuple[tuple[str, int], ...]) -> tuple[bytes, bytes]:
    """The submitted limits, as root and as the user."""
    known = task.known_limits(dict(rlimits))
    hard, soft = (b"".join([instruction(kind, limit) for limit in known]) for kind in (HARD_LIMIT, SOFT_LIMIT))
    return hard, soft


def _execute(order: orders.LaunchOrder, start: "Start") -> bytes:
    """The program, its arguments and its environment, to which the number of its process is added there."""
    argv = start.order.argv
    if not argv:
        raise task.TaskError("the task could not be started")
    env = task.environment(order, start)
    env.pop(b"SLURM_TASK_PID", None)
    variables = [name + b"=" + value for name, value in env.items()]
    if start.is_script:
        paths, what = [argv[0]], b"cannot execute the script"
    else:
        paths, what = task.program_paths(argv[0], env), b"slurmstepd: error: execve(): " + argv[0]
    numbers = [int(start.is_script), len(argv), len(variables), len(paths)]
    return instruction(EXECUTE, numbers, [*argv, *variables, *paths, what])
