"""native/starttask.c and the instructions that it executes: what a task's process becomes, and every failure's text.

The same tasks also pass through task.become in a fork: the two ways must not differ.
"""

import contextlib
import fcntl
import gc
import os
import re
import resource
import signal
import socket
import stat
import struct
import tempfile
from pathlib import Path
from typing import Any, cast

import pytest
from patience import ANSWER_S

from nodedaemon.base import orders
from nodedaemon.cgroups.cgroup import NONE
from nodedaemon.stepd import instructions, task
from nodedaemon.stepd.context import LauncherContext

NOBODY = 65534
WAYS = ("program", "fork")

pytestmark = pytest.mark.skipif(not Path(instructions.PROGRAM).exists(), reason="starttask has not been compiled")
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it becomes another user")


@pytest.fixture
def open_folder():
    """A folder that every user may enter and write to; pytest's own is closed to others."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        yield Path(folder)


@pytest.fixture(params=WAYS)
def way(request):
    return request.param


def context(is_root=None, **more) -> LauncherContext:
    return LauncherContext(
        steps_path="/nowhere", steps_fd=-1, packets=None, null_fd=-1, node_name="n1", cgroups=NONE,
        is_root=os.geteuid() == 0 if is_root is None else is_root, starter_fd=instructions.open_program(), **more,
    )  # fmt: skip


def order(folder: Path, **more) -> orders.LaunchOrder:
    fields = {
        "key": "1.1.0", "user_id": os.getuid(), "group_id": os.getgid(), "user_name": "user", "kind": "step", "umask": 0o27,
        "work_dir": os.fsencode(folder), "environment": {b"PATH": b"/usr/bin:/bin", b"A": b"1"},
    }  # fmt: skip
    return orders.LaunchOrder(**(fields | more))


def one(*argv: str, **more) -> orders.TaskOrder:
    return orders.TaskOrder(0, argv=[word.encode() for word in argv], **({"std_out": b"out", "std_err": b"err"} | more))


class Ran:
    """A task that has ended: the messages on its status socket, and its wait status."""

    def __init__(
        self, way: str, launch: orders.LaunchOrder, start: task.Start, its: LauncherContext | None = None
    ) -> None:
        its = its or context()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(ANSWER_S)
        with ours:
            self.pid = self._begin(way, launch, start, its, ours, theirs)
            theirs.close()
            self.messages, self.fds = [], []
            with contextlib.suppress(ConnectionResetError):
                while True:
                    text, fds, _, _ = socket.recv_fds(ours, task.FAILURE_BYTES_MAX, 1)
                    self.fds += fds
                    if not text:
                        break
                    self.messages.append(text)
        os.close(its.starter_fd)
        self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        for fd in self.fds:
            os.close(fd)

    @staticmethod
    def _begin(way, launch, start, its, ours, theirs) -> int:
        if way == "program":
            return instructions.spawn(launch, its, start, instructions.Identity(launch, its.is_root), theirs)
        pid = os.fork()
        if pid == 0:
            gc.disable()  # as in a stepd: what earlier tests left in cycles has threads of the parent
            try:
                ours.close()
                task.become(launch, its, start, theirs)
            finally:
                os._exit(1)
        return pid

    @property
    def failure(self) -> str:
        """The text of the failure; "" = its program ran."""
        return "".join(text.decode() for text in self.messages if text != task.FILES_OPEN)


def run(way, folder, *argv, is_script=False, start=None, fields=None, **more) -> Ran:
    made = start or task.Start(one(*argv, **more), is_script)
    return Ran(way, order(folder, **(fields or {})), made)


def script(folder: Path, text: str) -> str:
    path = folder / "script"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_a_task_runs_with_its_files_and_variables(way, open_folder):
    ran = run(way, open_folder, "sh", "-c", 'echo "$A $B $SLURM_TASK_PID"; echo error >&2; umask; pwd', start=None)
    assert (ran.failure, ran.status, ran.messages) == ("", 0, [task.FILES_OPEN])
    lines = (open_folder / "out").read_text().split("\n")
    assert lines == [f"1  {ran.pid}", "0027", str(open_folder), ""]
    assert (open_folder / "err").read_text() == "error\n"
    assert stat.S_IMODE((open_folder / "out").stat().st_mode) == 0o640


def test_a_script_passes_its_error_file_on(way, open_folder):
    ran = run(way, open_folder, script(open_folder, "exit 3"), "argument", is_script=True)
    assert (ran.failure, ran.status, len(ran.fds)) == ("", 3, 1)


def test_the_variables_of_the_task_replace_those_of_the_step(way, open_folder):
    start = task.Start(one("sh", "-c", "echo $A $SLURM_TASK_PID", environment={b"A": b"2", b"SLURM_TASK_PID": b"7"}))
    ran = run(way, open_folder, start=start)
    assert (open_folder / "out").read_text() == f"2 {ran.pid}\n"


@as_root
def test_it_becomes_the_user_and_cannot_go_back(way, open_folder):
    fields = {"user_id": NOBODY, "group_id": NOBODY}
    ran = run(way, open_folder, "cat", "/proc/self/status", fields=fields)
    assert (ran.failure, ran.status) == ("", 0), (open_folder / "err").read_text()
    text = (open_folder / "out").read_text()
    ids = "\t".join([str(NOBODY)] * 4)
    assert f"Uid:\t{ids}\n" in text and f"Gid:\t{ids}\n" in text and f"Groups:\t{NOBODY} \n" in text
    assert "CapEff:\t0000000000000000" in text and "CapPrm:\t0000000000000000" in text
    assert "NoNewPrivs:\t1" in text


@as_root
def test_no_new_privileges_are_the_orders(way, open_folder):
    fields = {"user_id": NOBODY, "group_id": NOBODY, "no_new_privs": False}
    run(way, open_folder, "grep", "NoNewPrivs", "/proc/self/status", fields=fields)
    assert (open_folder / "out").read_text() == "NoNewPrivs:\t0\n"


@as_root
def test_root_opens_no_path_of_the_users(way, open_folder):
    (open_folder / "closed").mkdir(mode=0o700)
    fields = {"user_id": NOBODY, "group_id": NOBODY}
    ran = run(way, open_folder, "true", fields=fields, std_out=b"closed/out", std_err=b"")
    assert ran.failure == "cannot open stdout: closed/out: Permission denied"
    assert not (open_folder / "closed" / "out").exists()


def test_descriptors_do_not_leak(way, open_folder):
    leaked = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(leaked, True)
    high = fcntl.fcntl(leaked, fcntl.F_DUPFD, 300)
    kept, other = fcntl.fcntl(leaked, fcntl.F_DUPFD_CLOEXEC, 50), fcntl.fcntl(leaked, fcntl.F_DUPFD, 51)
    start = task.Start(one("sh", "-c", "ls /proc/self/fd"))
    start.keep_fds = [kept]
    try:
        ran = run(way, open_folder, start=start)
    finally:
        for fd in (leaked, high, kept, other):
            os.close(fd)
    assert ran.failure == ""
    folder = 3  # that ls has open, at the lowest free number
    assert {int(word) for word in (open_folder / "out").read_text().split()} == {0, 1, 2, folder, kept}


def test_signals_are_handled_as_by_default_and_none_is_blocked(way, open_folder):
    before = {
        number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP)
    }
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2, signal.SIGTERM})
    try:
        run(way, open_folder, "grep", "Sig[BI]", "/proc/self/status")
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        for number, handler in before.items():
            signal.signal(number, handler)
    found = {line.split()[0]: int(line.split()[1], 16) for line in (open_folder / "out").read_text().splitlines()}
    restored = sum(1 << (number - 1) for number in task.SIGNALS_TO_RESTORE)
    assert (found["SigBlk:"], found["SigIgn:"] & restored) == (0, 0)


def test_it_leads_a_process_group_of_its_own(way, open_folder):
    ran = run(way, open_folder, "cat", "/proc/self/stat")
    fields = (open_folder / "out").read_text().rpartition(") ")[2].split()
    assert int(fields[2]) == ran.pid and int(fields[3]) == os.getsid(0)


def test_a_terminal_is_the_controlling_one(way, open_folder):
    ours, theirs = os.openpty()
    start = task.Start(one("sh", "-c", "echo yes > /dev/tty", std_out=b"", std_err=b""))
    start.std_in = start.std_out = start.std_err = start.terminal = theirs
    try:
        ran = run(way, open_folder, start=start)
        assert (ran.failure, ran.status, os.read(ours, 100)) == ("", 0, b"yes\r\n")
    finally:
        os.close(ours)
        os.close(theirs)


def test_given_descriptors_are_its_files(way, open_folder):
    end, given = os.pipe()
    start = task.Start(one("sh", "-c", "echo out; echo err >&2", std_out=b"", std_err=b""))
    start.std_out = start.std_err = given
    run(way, open_folder, start=start)
    os.close(given)
    with open(end, "rb") as file:
        assert file.read() == b"out\nerr\n"


def test_limits_are_the_orders_up_to_the_hard_ones(way, open_folder):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    start = task.Start(one("sh", "-c", "ulimit -Sn; ulimit -Sc; ulimit -Ss"))
    start.nofile = 77
    fields = {"rlimits": {"CORE": 0, "STACK": 1 << 20, "NICE": 3}}
    ran = run(way, open_folder, start=start, fields=fields)
    assert ran.failure == "" and (open_folder / "out").read_text() == "77\n0\n1024\n"
    ran = run(way, open_folder, "sh", "-c", "ulimit -Sn", fields={"rlimits": {"NOFILE": hard}})
    assert (open_folder / "out").read_text() == f"{hard}\n"


def test_it_is_bound_to_its_cpus(way, open_folder):
    cpu = max(os.sched_getaffinity(0))
    start = task.Start(
        one("grep", "Cpus_allowed_list", "/proc/self/status", cpus=[cpu], bind_notes=["{pi cpu {pid} x {pid}"])
    )
    ran = run(way, open_folder, start=start)
    assert (open_folder / "out").read_text() == f"Cpus_allowed_list:\t{cpu}\n"
    assert (open_folder / "err").read_text() == f"{{pi cpu {ran.pid} x {ran.pid}\n"


def test_a_refused_binding_is_reported_and_the_task_runs(way, open_folder):
    ran = run(way, open_folder, "true", cpus=[1000], mem_mode=99, mem_nodes=[0])
    assert (ran.failure, ran.status) == ("", 0)
    assert (open_folder / "err").read_text() == "slurmstepd: error: cannot bind the task: Invalid argument\n"
    run(way, open_folder, "true", mem_mode=99, mem_nodes=[0])
    assert (open_folder / "err").read_text().startswith("slurmstepd: error: cannot bind the task: ")


def test_a_missing_folder_becomes_tmp_with_a_message(way, open_folder):
    missing = open_folder / "missing"
    made = {"std_out": os.fsencode(open_folder / "out"), "std_err": os.fsencode(open_folder / "err")}
    ran = run(way, missing, "pwd", fields={"message": "and this"}, **made)
    assert (ran.failure, (open_folder / "out").read_text()) == ("", "/tmp\n")
    assert (open_folder / "err").read_text() == (
        f"slurmstepd: error: couldn't chdir to `{missing}': No such file or directory: going to /tmp instead\nand this\n"
    )


def test_folders_of_the_files_are_made(way, open_folder):
    ran = run(way, open_folder, "echo", "a", std_out=b"x/y/out", std_err=b"z/err", fields={"make_folders": True})
    assert (ran.failure, (open_folder / "x" / "y" / "out").read_text()) == ("", "a\n")
    assert (open_folder / "z" / "err").exists()


@pytest.mark.parametrize(("what", "name"), [("std_in", "stdin"), ("std_out", "stdout"), ("std_err", "stderr")])
def test_a_file_that_cannot_be_opened_is_the_failure(way, what, name, open_folder):
    ran = run(way, open_folder, "true", **{what: "no/such/fil\udce9".encode("utf-8", "surrogateescape")})
    assert (ran.failure, ran.status) == (f"cannot open {name}: no/such/fil\\xe9: No such file or directory", 1)


def test_files_of_the_kernel_are_refused(way, open_folder):
    ran = run(way, open_folder, "true", std_out=b"/proc/self/comm")
    reason = "files of the kernel (/proc, /sys) take no input and output of jobs"
    assert ran.failure == f"cannot open stdout: /proc/self/comm: {reason}"


def test_a_script_that_cannot_be_executed_is_the_failure(way, open_folder):
    path = open_folder / "script"
    path.write_text("#!/no/such/shell\n")
    path.chmod(0o755)
    ran = run(way, open_folder, str(path), is_script=True)
    assert (ran.failure, ran.status) == ("cannot execute the script: No such file or directory", 1)


@pytest.mark.parametrize(
    ("word", "number", "text"),
    [
        ("no-such-program", 2, "No such file or directory"),
        ("./plain", 13, "Permission denied"),
        ("", 2, "No such file or directory"),
    ],
)
def test_a_program_that_cannot_be_executed_is_the_tasks_own_failure(way, word, number, text, open_folder):
    (open_folder / "plain").write_text("")
    ran = run(way, open_folder, word)
    assert (ran.failure, ran.status) == ("", number)
    assert (open_folder / "err").read_text() == f"slurmstepd: error: execve(): {word}: {text}\n"


def test_a_group_that_cannot_be_joined_is_the_failure(way, open_folder):
    class Groups:  # stands for task.StepGroups
        def join_files(self, rank):
            return ["/nowhere/tasks"]

        def join(self, rank):
            os.close(os.open("/nowhere/tasks", os.O_WRONLY))

    start = task.Start(one("true"))
    start.groups = cast(Any, Groups())
    assert run(way, open_folder, start=start).failure == "cannot start the task: No such file or directory"


def test_a_user_that_the_node_does_not_know(open_folder):
    launch = order(open_folder, user_id=54321, user_name="ghost")
    with pytest.raises(task.TaskError, match=r"user unknown on this node: uid 54321 \(ghost\)"):
        instructions.Identity(launch, True)
    with pytest.raises(task.TaskError, match="not as root: it cannot run jobs of uid 54321"):
        instructions.Identity(launch, False)


def test_a_text_with_a_zero_byte_is_refused(open_folder):
    with pytest.raises(task.TaskError, match="cannot start the task: Invalid argument"):
        run("program", open_folder, "sh", "-c", "a\0b")


def test_features_of_python_need_a_fork(open_folder):
    start = task.Start(one("true"))
    assert instructions.can_execute(order(open_folder), start)
    for fields in ({"use_pam": True}, {"login_environment": True}, {"task_prolog": [b"/bin/true"]}):
        assert not instructions.can_execute(order(open_folder, **fields), start)
    start.late_fd = 5
    assert not instructions.can_execute(order(open_folder), start)


# -- the program alone


def raw(data: bytes) -> tuple[bytes, int]:
    """The message and the status of the program with these bytes as its instructions."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    fd = os.memfd_create("test")
    os.write(fd, data)
    actions = [(os.POSIX_SPAWN_DUP2, theirs.fileno(), theirs.fileno()), (os.POSIX_SPAWN_DUP2, fd, fd)]
    pid = os.posix_spawn(instructions.PROGRAM, ["starttask", str(theirs.fileno()), str(fd)], {}, file_actions=actions)
    theirs.close()
    os.close(fd)
    with ours:
        ours.settimeout(ANSWER_S)
        found = ours.recv(task.FAILURE_BYTES_MAX)
    return found, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


CHANGED = b"cannot start the task: Bad message"
EXECUTE = instructions.instruction(instructions.EXECUTE, [0, 1, 0, 1], [b"true", b"/bin/true", b"what"])
IDENTITY = instructions.instruction(instructions.IDENTITY, [os.getuid(), os.getgid(), 0, 0], [b"other", b"root"])
CLOSE = instructions.instruction(instructions.CLOSE, [0])


@pytest.mark.parametrize(
    "data",
    [
        b"\0",
        b"\0" * 15,
        struct.pack("=QQ", 9999, 0),
        struct.pack("=QQ", 2**64 - 1, 0),
        struct.pack("=QQ", instructions.UMASK, 2**64 - 8),
        struct.pack("=QQ", instructions.UMASK, 3) + b"abc",
        struct.pack("=QQ", instructions.UMASK, 8) + b"abc",
        struct.pack("=QQ", instructions.UMASK, 0),
        struct.pack("=QQ", instructions.WRITE, 8) + b"unended.",
        instructions.instruction(instructions.CLOSE, [2**61]),
        instructions.instruction(instructions.CLOSE, [-1]),
        instructions.instruction(instructions.IDENTITY, [0, 0, 1, 2**62]),
        instructions.instruction(instructions.IDENTITY, [0, 0, 1, 0], [b"one"]),
        IDENTITY + CLOSE + instructions.instruction(instructions.EXECUTE, [0, 2**60, 1, 1], [b"x"]),
        IDENTITY + CLOSE + instructions.instruction(instructions.EXECUTE, [0, 0, 0, 0], [b"x"]),
        IDENTITY + CLOSE + instructions.instruction(instructions.EXECUTE, [0, 1, 1, 1], [b"x"]),
        IDENTITY,  # nothing follows
    ],
)
def test_malformed_instructions_end_the_process(data):
    assert raw(data) == (CHANGED, 1)


def test_no_instructions_at_all():
    assert raw(b"") == (b"cannot start the task: Invalid argument", 1)


@pytest.mark.parametrize(
    "data",
    [
        EXECUTE,
        CLOSE + EXECUTE,
        IDENTITY + EXECUTE,
        instructions.instruction(instructions.FOLDER, (), [b"/", b"/"]),
        instructions.instruction(instructions.OPEN, [1, os.O_WRONLY], [b"/dev/null", b"cannot open", b"kernel"]),
        instructions.instruction(instructions.PARENTS, (), [b"/nowhere/a"]),
        instructions.instruction(instructions.WRITE, (), [b"text"]),
        instructions.instruction(instructions.NOTE, (), [b"text"]),
    ],
)
def test_nothing_of_the_users_happens_before_the_identity(data):
    assert raw(data) == (b"cannot start the task: Operation not permitted", 1)


def test_another_identity_is_noticed():
    other = instructions.instruction(instructions.IDENTITY, [os.getuid() + 1, os.getgid(), 0, 0], [b"other", b"root"])
    assert raw(other + CLOSE + EXECUTE) == (b"other", 1)


@as_root
def test_what_the_kernel_refuses_is_the_failure(open_folder):
    limits = instructions.instruction(instructions.SOFT_LIMIT, [999, 1])
    assert raw(limits) == (b"cannot start the task: Invalid argument", 1)
    namespace = instructions.instruction(instructions.NAMESPACE, [0], [instructions.NO_NAMESPACE])
    assert raw(namespace) == (b"private /tmp: cannot enter the namespace: Invalid argument", 1)
    session = instructions.instruction(instructions.SESSION, [0])
    assert raw(session)[0].startswith(b"cannot start the task: ")
    signals = instructions.instruction(instructions.SIGNALS, [1, int(signal.SIGKILL)])
    assert raw(signals) == (b"cannot start the task: Invalid argument", 1)


def test_arguments_that_are_none():
    pid = os.posix_spawn(instructions.PROGRAM, ["starttask"], {})
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1


def test_without_the_program_stepds_fork(monkeypatch, tmp_path):
    monkeypatch.setattr(instructions, "PROGRAM", str(tmp_path / "missing"))
    assert instructions.open_program() == -1
    (tmp_path / "missing").write_text("")
    (tmp_path / "missing").chmod(0o644)
    assert instructions.open_program() == -1
    (tmp_path / "missing").write_text("another machine's")
    (tmp_path / "missing").chmod(0o755)
    assert instructions.open_program() == -1


def test_program_and_module_have_the_same_instructions():
    source = (Path(__file__).parents[2] / "native" / "starttask.c").read_text()
    table = re.search(r"instructions\[\]\)\(struct operands \*\) = \{(.*?)\};", source, re.S)
    names = [name.strip().removeprefix("do_").upper() for name in table[1].split(",") if name.strip()]
    assert [getattr(instructions, name) for name in names] == list(range(len(names)))
    assert f"FAILURE_BYTES_MAX {task.FAILURE_BYTES_MAX} " in source
