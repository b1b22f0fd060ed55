"""salloc as a real process, in plain Python and through the command server, against a stand-in for the controller: what it says, sends, runs and gives back."""

import contextlib
import os
import pty
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import pytest
from launched import Launched, build
from patience import ANSWER_S, END_S

from cli.salloc import COMMAND
from penstock.errors import PenstockError
from penstock.v1 import controller_pb2 as pb
from penstock.v1 import steps_pb2 as steps
from penstock.v1.common_pb2 import SALLOC, ExitStatus
from penstock.values.refusals import Code
from tests.cli.fake_controller import ROOT, WireController

VARIABLES = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[1-2]", "SLURM_NNODES": "2", "SLURM_PROCID": "0"}
GRANTED = "salloc: Granted job allocation 7\n"
GIVEN_BACK = "salloc: Relinquishing job allocation 7\n"


class Desk:
    """The controller's side: the answers to AwaitAllocation in order (the last one stays), and the job's end."""

    def __init__(self, folder):
        self.states = ["RUNNING"]
        self.asked = threading.Event()
        self.over = threading.Event()
        self.end_state = "COMPLETED"
        self.refusals = 0  # of EndAllocation, for the want of a database
        self.config: list[Any] = []
        self.launched: Launched | None = None
        self.wire = WireController(
            folder,
            {
                "SubmitJob": lambda request: pb.SubmitJobReply(job_id=7),
                "AwaitAllocation": self.look,
                "AwaitJob": self.end,
                "EndAllocation": self.give_back,
                "CancelJobs": lambda request: pb.JobResultsReply(results=[pb.JobResult(id="7")]),
                "ShowConfig": lambda request: pb.ShowConfigReply(
                    lines=[pb.ConfigLine(key=key, value=value) for key, value in self.config]
                ),
            },
        )

    def look(self, request):
        state, _, reason = (self.states.pop(0) if len(self.states) > 1 else self.states[0]).partition(" ")
        if state == "PENDING" and len(self.states) == 1:
            self.asked.set()
            self.over.wait(request.wait_s)
        nodes = "" if state == "PENDING" else "n[1-2]"
        return steps.AllocationReply(job_id=7, state=state, reason=reason, node_list=nodes, environment=VARIABLES)

    def give_back(self, request):
        if self.refusals:
            self.refusals -= 1
            raise PenstockError(Code.STORAGE_AWAY, "no database")
        self.over.set()
        return steps.EndAllocationReply()

    def end(self, request):
        self.over.wait(ANSWER_S)
        return pb.AwaitJobReply(state=self.end_state, exit=ExitStatus())

    def sent(self, method):
        return [request for name, request in self.wire.requests if name == method]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    made = Launched(tmp_path_factory.mktemp("l"), build(tmp_path_factory.mktemp("b")))
    yield made
    made.close()


@pytest.fixture(params=["plain", "served"])
def desk(tmp_path, installed, request):
    made = Desk(tmp_path)
    if request.param == "served":
        made.launched = installed
        installed.warm()
    yield made
    made.over.set()
    made.wire.close()


def program(desk):
    """The words that start salloc."""
    return [sys.executable, "-m", "cli.salloc"] if desk.launched is None else [str(desk.launched.bin / "salloc")]


def environment(desk, **more):
    if desk.launched is not None:
        more["XDG_RUNTIME_DIR"] = str(desk.launched.run_dir)
    return {
        "PYTHONPATH": str(ROOT),
        "PATH": os.environ["PATH"],
        "HOME": "/nonexistent",
        "PENSTOCK_CLUSTER": str(desk.wire.cluster_file),
        **more,
    }


def popen(desk, *argv, **more):
    line = [*program(desk), *argv]
    pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(line, env=environment(desk, **more), text=True, **pipes)


def run(desk, *argv, **more):
    process = popen(desk, *argv, **more)
    out, err = process.communicate(timeout=ANSWER_S)
    return process.returncode, out, err


def test_a_command_runs_in_its_allocation(desk):
    script = "echo $SLURM_JOB_ID $SLURM_JOB_NODELIST ${SLURM_PROCID-none}; exit 3"
    done = run(desk, "-N2", "-t", "5", "sh", "-c", script)
    assert done == (3, "7 n[1-2] none\n", GRANTED + GIVEN_BACK)
    (request,) = desk.sent("SubmitJob")
    job = request.job
    assert (job.kind, job.name, job.command, job.nodes_min, job.time_limit_s) == (SALLOC, "sh", "", 2, 300)
    assert (job.submit_dir, job.work_dir) == (os.getcwdb(), os.getcwdb())
    assert not request.spec.script and not job.std_out
    (end,) = desk.sent("EndAllocation")
    assert (end.job_id, end.exit.code, end.exit.signal) == (7, 3, 0)


@pytest.mark.parametrize(
    ("reason", "notice"),
    [
        ("", ""),
        ("ReqNodeNotAvail", "salloc: Required node not available (down, drained or reserved)\n"),
        ("PartitionDown", "salloc: Requested partition configuration not available now\n"),
    ],
)
def test_a_job_that_waits_says_so(desk, reason, notice):
    desk.states = [f"PENDING {reason}", f"PENDING {reason}", "CONFIGURING", "RUNNING"]
    status, out, err = run(desk, "true")
    assert (status, out) == (0, "")
    assert err == notice + (
        "salloc: Pending job allocation 7\n"
        "salloc: job 7 queued and waiting for resources\n"
        "salloc: job 7 has been allocated resources\n"
        "salloc: Granted job allocation 7\n"
        "salloc: Waiting for resource configuration\n"
        "salloc: Nodes n[1-2] are ready for job\n" + GIVEN_BACK
    )
    assert [request.wait_s for request in desk.sent("AwaitAllocation")] == [0, 30, 30, 30]


def test_quiet_is_quiet(desk):
    desk.states = ["PENDING", "RUNNING"]
    assert run(desk, "-Q", "true") == (0, "", "")


def test_no_shell_leaves_the_allocation(desk):
    assert run(desk, "--no-shell", "-J", "mine") == (0, "", GRANTED)
    assert desk.sent("EndAllocation") == []
    assert desk.sent("SubmitJob")[0].job.name == "mine"


def test_a_command_that_cannot_run(desk):
    status, out, err = run(desk, "/nonexistent/x")
    assert (status, out) == (1, "")
    assert err == GRANTED + GIVEN_BACK + ('salloc: error: _fork_command: Unable to find command "/nonexistent/x"\n')
    assert desk.sent("EndAllocation")[0].exit.code == 1


def test_without_a_database_giving_back_is_repeated(desk):
    desk.refusals = 2
    status, out, err = run(desk, "true")
    assert (status, out) == (0, "")
    assert err == GRANTED + GIVEN_BACK + (
        "salloc: Unable to clean up job allocation 7: no database; trying again for up to 10 minutes\n"
    )
    assert len(desk.sent("EndAllocation")) == 3


@pytest.mark.parametrize(("command", "status"), [("true", 1), ("exit 3", 3)])
def test_who_gives_up_to_give_back_says_so(desk, command, status):
    desk.refusals = 1000
    process = popen(desk, "sh", "-c", command)
    err = ""
    while "trying again" not in err:
        line = process.stderr.readline()
        assert line, err
        err += line
    process.send_signal(signal.SIGINT)
    err = process.communicate(timeout=ANSWER_S)[1]
    assert err == (
        "salloc: error: Unable to clean up job allocation 7: no database\n"
        "salloc: it may still be running; `scancel 7` ends it\n"
    )
    assert process.returncode == status


def test_a_signal_is_told_as_shells_do(desk):
    status, _, err = run(desk, "sh", "-c", "kill -KILL $$")
    assert (status, err) == (137, GRANTED + GIVEN_BACK)
    assert desk.sent("EndAllocation")[0].exit.signal == 9


@pytest.mark.parametrize(
    ("state", "text"),
    [
        ("TIMEOUT", "salloc: Job 7 has exceeded its time limit and its allocation has been revoked.\n"),
        ("CANCELLED", "salloc: Job allocation 7 has been revoked.\n"),
    ],
)
@pytest.mark.parametrize(("option", "status"), [([], 143), (["-K"], 143), (["--kill-command=USR1"], 138)])
def test_an_allocation_that_is_taken_away_ends_its_command(desk, state, text, option, status):
    desk.end_state = state
    process = popen(desk, *option, "sh", "-c", "echo runs; exec sleep 100")
    assert process.stdout.readline() == "runs\n"
    desk.over.set()
    _, err = process.communicate(timeout=ANSWER_S)
    assert (process.returncode, err) == (status, GRANTED + text)
    assert desk.sent("EndAllocation") == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_it_waits_takes_the_job_back(desk, number):
    desk.states = ["PENDING"]
    process = popen(desk, "true")
    assert desk.asked.wait(ANSWER_S)
    assert process.stderr.readline() == "salloc: Pending job allocation 7\n"
    assert process.stderr.readline() == "salloc: job 7 queued and waiting for resources\n"
    process.send_signal(number)
    _, err = process.communicate(timeout=ANSWER_S)
    assert err == "salloc: Job allocation 7 has been revoked.\nsalloc: Job aborted due to signal\n"
    assert process.returncode == 1
    assert [list(request.filter.ids) for request in desk.sent("CancelJobs")] == [["7"]]


def test_signals_go_to_the_command(desk):
    code = (
        "import signal, sys\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})\n"
        "print('runs', flush=True)\n"
        "signal.sigwait({signal.SIGUSR1})\n"
        "print('got')\n"
        "sys.exit(5)\n"
    )
    process = popen(desk, sys.executable, "-c", code)
    assert process.stdout.readline() == "runs\n"
    process.send_signal(signal.SIGUSR1)
    out, err = process.communicate(timeout=ANSWER_S)
    assert (process.returncode, out, err) == (5, "got\n", GRANTED + GIVEN_BACK)


def test_a_signal_as_soon_as_the_command_runs_reaches_it():
    code = (
        "import os, signal\n"
        "from cli.jobs.jobshell import Shell\n"
        "spawn = os.posix_spawnp\n"
        "def signalled(*words, **options):\n"
        "    pid = spawn(*words, **options)\n"
        "    os.kill(os.getpid(), signal.SIGUSR1)\n"
        "    return pid\n"
        "os.posix_spawnp = signalled\n"
        "shell = Shell('salloc')\n"
        "shell.start(['sleep', '600'], dict(os.environb))\n"
        "print(shell.wait())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=ANSWER_S,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert (done.stdout, done.stderr) == (f"(0, {int(signal.SIGUSR1)})\n", "")


def test_what_is_not_there_at_once_is_given_up(desk):
    desk.states = ["PENDING", "CANCELLED"]
    status, out, err = run(desk, "--immediate", "true")
    assert (status, out) == (1, "")
    assert err == "salloc: error: Unable to allocate resources: Immediate execution impossible, insufficient priority\n"
    assert desk.sent("SubmitJob")[0].job.immediate_s == 0


def test_a_job_that_ended_before_it_was_granted(desk):
    desk.states = ["PENDING", "CANCELLED"]
    status, out, err = run(desk, "true")
    assert (status, out) == (1, "")
    assert "salloc: Job allocation 7 has been revoked.\nsalloc: error: Job submit/allocate failed: " in err


def test_without_a_command_it_is_the_shell(desk, tmp_path):
    shell = tmp_path / "shell"
    shell.write_text("#!/bin/sh\necho shell of $SLURM_JOB_ID\n")
    shell.chmod(0o755)
    assert run(desk, SHELL=str(shell)) == (0, "shell of 7\n", GRANTED + GIVEN_BACK)
    assert desk.sent("SubmitJob")[0].job.name == "interactive"


def test_the_site_may_want_the_shell_on_the_first_node(desk, tmp_path):
    srun = tmp_path / "srun"
    srun.write_text('#!/bin/sh\necho srun "$@"\n')
    srun.chmod(0o755)
    desk.config = [
        ("LaunchParameters", "use_interactive_step"),
        ("InteractiveStepOptions", "--interactive --preserve-env --pty $SHELL"),
    ]
    more = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SHELL": "/bin/zsh"}
    assert run(desk, **more)[:2] == (0, "srun --interactive --preserve-env --pty /bin/zsh\n")


def test_variables_stand_in_for_options(desk):
    more = {
        "SALLOC_PARTITION": "gpu",
        "SALLOC_GPUS": "2",
        "SALLOC_TIMELIMIT": "1",
        "SLURM_JOB_ID": "3",
        "SLURM_PROCID": "4",
    }
    status, out, _ = run(desk, "sh", "-c", "echo ${SLURM_PROCID-none}", **more)
    assert (status, out) == (0, "none\n")  # of a job around us nothing is left
    job = desk.sent("SubmitJob")[0].job
    assert (list(job.partitions), job.time_limit_s, job.gres_per_job[0].count) == (["gpu"], 60, 2)


@pytest.mark.parametrize(
    ("argv", "expected", "text"),
    [
        (["--x11"], 1, "X11 forwarding not available: option --x11 is not supported yet by Penstock"),
        (["--array=1-3"], 255, "unrecognized option '--array=1-3'"),
        (["-K99", "true"], 255, "Invalid --kill-command specification\n"),
        (["-D", "/nonexistent", "true"], 1, "chdir(/nonexistent): No such file or directory"),
        (["--mem=1", "--mem-per-cpu=1"], 1, "mutually exclusive"),
    ],
)
def test_what_is_refused(desk, argv, expected, text):
    status, out, err = run(desk, *argv)
    assert (status, out) == (expected, "") and text.replace("=1-3'", "") in err
    assert desk.wire.requests == []


def test_the_command_has_the_terminal_and_ctrl_c_is_its_own(desk):
    """Under a terminal of its own, as a shell would start it."""
    code = (
        "import os, signal, sys\n"
        "print('front', os.tcgetpgrp(0) == os.getpgrp() != os.getppid(), flush=True)\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})\n"
        "print('prepared', flush=True)\n"
        "signal.sigwait({signal.SIGINT})\n"  # a handler could run just before a sleep, which then goes on
        "sys.exit(9)\n"
    )
    pid, terminal = pty.fork()
    if pid == 0:
        line = [*program(desk), sys.executable, "-c", code]
        os.execve(line[0], line, environment(desk))
    shown = b""
    while b"prepared" not in shown:
        shown += os.read(terminal, 4096)
    front = os.tcgetpgrp(terminal)
    os.write(terminal, b"\x1a")  # Ctrl-Z stops both, so that a shell around us sees one job
    _, status = os.waitpid(pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    os.kill(pid, signal.SIGCONT)
    deadline_s = time.monotonic() + END_S
    while os.tcgetpgrp(terminal) != front and time.monotonic() < deadline_s:  # salloc gives it the terminal again
        time.sleep(0.01)
    os.write(terminal, b"\x03")
    with contextlib.suppress(OSError):  # how the end of a terminal reads
        while more := os.read(terminal, 4096):
            shown += more
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 9, shown
    assert b"front True" in shown and b"Relinquishing" in shown, shown


def test_every_variable_is_salloc_s_own():
    names = {option.env for option in COMMAND.options if option.env}
    assert all(name.startswith("SALLOC_") for name in names)
    assert {"SALLOC_IMMEDIATE", "SALLOC_KILL_CMD", "SALLOC_BELL", "SALLOC_NO_BELL", "SALLOC_WAIT_ALL_NODES"} <= names


def test_a_folder_that_was_removed_is_named(desk, tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    line = ["sh", "-c", f'cd {gone} && rmdir {gone} && exec "$@"', "sh", *program(desk), "true"]
    done = subprocess.run(line, env=environment(desk), capture_output=True, text=True, timeout=ANSWER_S)
    assert done.returncode and "the current directory no longer exists" in done.stderr
    assert not desk.sent("SubmitJob")
