"""The tasks of one step on this node: forked in the order of their ranks, supervised, reaped.

A batch script is one task with files, whose failure to start is the step's. Tasks of srun have a pipe or a terminal
wherever no file is asked for. All their pipes exist before the first fork, so that no task waits for a stream.

Files that several tasks share (a pattern without %t) are opened, and truncated, by the first of them; the others are
forked after that, and append.

Deliberately absent: reactions to the end or failure of a task (supervisor.py).
"""

import os
import resource
import socket

from nodedaemon.base import orders
from nodedaemon.stepd import instructions, task, taskhooks
from nodedaemon.stepd.streams import StreamHub, set_window
from nodedaemon.stepd.taskrecord import Task
from penstock.eventloop import READ, Loop

TYPE_CHECKING = False  # avoids importing `typing`, which every fork would pay for
if TYPE_CHECKING:
    from collections.abc import Callable

    from nodedaemon.cgroups.cgroup import StepGroups
    from nodedaemon.stepd.context import LauncherContext
    from nodedaemon.stepd.plugs import Plug

STDIN_FIRST, STDIN_ALL, STDIN_NONE, STDIN_ONE = range(4)
#: Descriptors that stepd itself has open; each task adds up to FDS_PER_TASK while it starts.
FDS_OWN = 200
FDS_PER_TASK = 8
_NULL = os.devnull.encode()
#: Mode of a user's terminal: others may write to it, as `wall` does, and not read.
_TERMINAL_MODE = 0o620


class Tasks:
    """All tasks of a step on this node. `on_failed` and `on_began` are called at most once each."""

    def __init__(
        self,
        order: orders.LaunchOrder,
        context: "LauncherContext",
        loop: Loop,
        hub: "StreamHub | None",  # a batch script has none
        plugs: "list[Plug]",
        groups: "StepGroups",
        on_began: "Callable[[], None]",
        on_failed: "Callable[[Task, str], None]",
    ) -> None:
        self._order = order
        self._context = context
        self._loop = loop
        self._hub = hub
        self._plugs = plugs
        self._on_began = on_began
        self._on_failed = on_failed
        self.all: list[Task] = []
        self.by_pid: dict[int, Task] = {}
        self._groups = groups
        self._to_fork: list[Task] = []
        self._to_begin = 0
        self._soft_nofile = 0
        self._identity: instructions.Identity | None = None  # until the first task is started
        self.has_failed = False
        self.error_fd = -1  # a batch script's own error output

    # -- the start

    def start(self, script_path: str) -> None:
        """Forks all tasks. Raises OSError when a pipe or a process cannot be created."""
        order = self._order
        is_script = order.kind == "batch"
        found = [_script_order(order, script_path)] if is_script else order.tasks
        self.all = [Task(one, is_script) for one in found]
        self._to_begin = len(self.all)
        if not is_script:
            self._raise_nofile()
            self._make_streams()
        if len(self.all) > 1:
            self._mark_shared()
        self._to_fork = self.all[::-1]
        self._fork_more()

    def _raise_nofile(self) -> None:
        wanted = FDS_OWN + FDS_PER_TASK * len(self.all)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != resource.RLIM_INFINITY and wanted > soft:
            self._soft_nofile = soft
            most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))

    def _make_streams(self) -> None:
        assert self._hub is not None
        for number, one in enumerate(self.all):
            one.start.nofile = self._soft_nofile
            if not one.order.argv:
                one.order.argv = self._order.argv
            if self._order.pty_rows:
                if number == 0 and one.rank == 0:
                    self._make_terminal(one)
                continue  # the others have neither input nor output, as in Slurm
            if not one.order.std_in and self._reads(one.rank):
                one.start.std_in, ours = os.pipe2(os.O_CLOEXEC)
                self._hub.add_input(ours, one.rank)
            if not one.order.std_out:
                ours, one.start.std_out = os.pipe2(os.O_CLOEXEC)
                self._hub.add_output(ours, one.rank, 1)
            if not one.order.std_err:
                ours, one.start.std_err = os.pipe2(os.O_CLOEXEC)
                self._hub.add_output(ours, one.rank, 2)

    def _reads(self, rank: int) -> bool:
        to = self._order.stdin_to
        return (
            to == STDIN_ALL or (to == STDIN_FIRST and rank == 0) or (to == STDIN_ONE and rank == self._order.stdin_task)
        )

    def _make_terminal(self, one: Task) -> None:
        assert self._hub is not None
        ours, theirs = os.openpty()
        os.set_inheritable(ours, False)
        set_window(ours, self._order.pty_rows, self._order.pty_columns)
        if self._context.is_root:
            os.fchmod(theirs, _TERMINAL_MODE)
            os.fchown(theirs, self._order.user_id, -1)  # last: what is the user's, root changes no more
        start = one.start
        start.std_in = start.std_out = start.std_err = start.terminal = theirs
        self._hub.add_terminal(ours, one.rank)

    def _mark_shared(self) -> None:
        """Marks files that an earlier task has opened, to which later tasks append."""
        seen: set[bytes] = set()
        for one in self.all:
            paths = {one.order.std_out, one.order.std_err} - {b"", _NULL}
            one.start.appends = not paths.isdisjoint(seen)
            seen |= paths

    def _fork_more(self) -> None:
        """Forks the tasks whose files are open or their own."""
        while self._to_fork and not self.has_failed:
            one = self._to_fork[-1]
            if one.start.appends and not all(other.has_files for other in self.all if other.pid):
                return
            self._to_fork.pop()
            try:
                self._fork(one)
            except OSError as error:
                self._fail(one, f"cannot start a process: {error.strerror}")
            except task.TaskError as error:
                self._fail(one, str(error))

    def _fork(self, one: Task) -> None:
        start = one.start
        start.groups = self._groups
        self._groups.create_task(one.rank)
        for plug in self._plugs:
            start.environment |= plug.child_environment(one)
            start.keep_fds += plug.child_fds(one)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            pid = self._process(start, ours, theirs)
        except (OSError, task.TaskError):
            ours.close()
            raise
        finally:
            theirs.close()
        one.pid = pid
        self.by_pid[pid] = one
        one.words = ours
        ours.setblocking(False)
        # Nothing waits for a script's files: one wake-up, when its program runs, is enough.
        self._loop.watch(ours.fileno(), lambda events: self.listen(one), 0 if start.is_script else READ)
        _close_ends(start)
        for plug in self._plugs:
            plug.forked(one)

    def _process(self, start: task.Start, ours: socket.socket, theirs: socket.socket) -> int:
        """Starts a task's process; returns its pid."""
        if self._context.starter_fd >= 0 and instructions.can_execute(self._order, start):
            if self._identity is None:
                self._identity = instructions.Identity(self._order, self._context.is_root)
            return instructions.spawn(self._order, self._context, start, self._identity, theirs)
        pid = os.fork()
        if pid == 0:
            try:
                ours.close()
                task.become(self._order, self._context, start, theirs)
            finally:
                os._exit(1)  # become() has reported the reason
        return pid

    # -- messages of tasks

    def listen(self, one: Task) -> None:
        """Reads a task's messages until its program runs."""
        while one.words is not None:
            try:
                text, fds, _, _ = socket.recv_fds(one.words, task.FAILURE_BYTES_MAX, 1)
            except BlockingIOError:
                return
            except ConnectionResetError:
                text, fds = b"", []
            if fds:
                self.error_fd = fds[0]
            if not text:
                self._reached(one)
            elif text == task.FILES_OPEN:
                one.has_files = True
                if self._to_fork:
                    self._fork_more()
            else:
                self._fail(one, text.decode("utf-8", "replace"))

    def _reached(self, one: Task) -> None:
        """Handles the end of a task's messages: its program runs, or it has ended before."""
        self._hang_up(one)
        if one.has_files and not self.has_failed:
            one.is_running = True
            self._to_begin -= 1
            if not self._to_begin:
                self._on_began()

    def _hang_up(self, one: Task) -> None:
        if one.words is not None:
            self._loop.forget(one.words.fileno())
            one.words.close()
            one.words = None

    def _fail(self, one: Task, text: str) -> None:
        self._hang_up(one)
        if not self.has_failed:
            self.has_failed = True
            self._on_failed(one, text)

    def error_output(self) -> int:
        """The descriptor of a batch script's error output; -1 = it is not open."""
        for one in self.all:
            self.listen(one)
        return self.error_fd

    # -- the end of a task

    def note_end(self, one: Task, status: int) -> None:
        """Records a task that has been reaped."""
        one.status = status
        if one.words is not None:
            self.listen(one)  # it may have ended before we read its messages
            self._hang_up(one)
        if not one.is_running and not self.has_failed:
            signum = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
            text = (
                f"ended by signal {signum} before its program was started"
                if signum
                else "the task could not be started"
            )
            self._fail(one, text)

    @property
    def have_ended(self) -> bool:
        """True when no task runs and none will."""
        return all(one.status is not None for one in self.all if one.pid or not self.has_failed)

    def signal(self, signum: int) -> None:
        """Signals the process group of each running task; its number cannot be reused before it is reaped."""
        for one in self.all:
            if one.pid and one.status is None:
                try:
                    os.killpg(one.pid, signum)
                except ProcessLookupError:  # it has not made its group yet, or all in it are dead
                    os.kill(one.pid, signum)
                except PermissionError:  # it has changed its user (sudo), and we are not root
                    continue

    def status(self) -> int:
        """The wait status of the step's part: the highest exit code, where a signal counts 128 and its number."""
        return max((one.status for one in self.all if one.status is not None), key=exit_code, default=0)

    def start_epilog(self, one: Task, program: bytes) -> int:
        """Runs a task's epilog as the user; returns its pid, which is to be reaped."""
        pid = os.fork()
        if pid == 0:
            try:
                self._become_epilog(one, program)
            finally:
                os._exit(1)
        return pid

    def _become_epilog(self, one: Task, program: bytes) -> None:
        os.setpgid(0, 0)
        self._groups.join(one.rank)
        task.become_user(self._order, self._context)
        task.change_folder(self._order.work_dir)
        for number in range(3):
            os.dup2(self._context.null_fd, number)
        os.closerange(3, 1 << 20)
        task.restore_signals()
        env = task.environment(self._order, one.start) | {taskhooks.CONTEXT: b"epilog_task"}
        env[b"SLURM_TASK_PID"] = str(one.pid).encode()
        os.execve(program, [program], env)  # noqa: S606 (the site's or the user's own program, as the user)

    def close(self) -> None:
        """Closes everything."""
        for one in self.all:
            self._hang_up(one)
            if not one.pid:
                _close_ends(one.start)
        if self.error_fd >= 0:
            os.close(self.error_fd)
            self.error_fd = -1
        if self._soft_nofile:
            hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            resource.setrlimit(resource.RLIMIT_NOFILE, (self._soft_nofile, hard))


def exit_code(status: int) -> int:
    """A wait status as srun counts it."""
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def _script_order(order: orders.LaunchOrder, script_path: str) -> orders.TaskOrder:
    """Returns a batch script as a task."""
    return orders.TaskOrder(
        0,
        argv=[os.fsencode(script_path), *order.argv],
        std_in=order.std_in,
        std_out=order.std_out,
        std_err=order.std_err,
        cpus=order.cpu_ids,
    )


def _close_ends(start: task.Start) -> None:
    """Closes the child's descriptors in stepd."""
    for fd in {start.std_in, start.std_out, start.std_err}:
        if fd >= 0:
            os.close(fd)
    start.std_in = -1
    start.std_out = -1
    start.std_err = -1
