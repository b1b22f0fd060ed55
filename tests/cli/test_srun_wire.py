"""srun as a process, in plain Python and through the command server: a stand-in controller gives it a step, stand-in
nodes speak the step's streams.
"""

import os
import pty
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from launched import Launched, build
from patience import ANSWER_S
from standnode import KEY, StandNode

from penstock.errors import PenstockError
from penstock.v1 import controller_pb2 as c
from penstock.v1 import steps_pb2 as s
from penstock.v1.common_pb2 import ExitStatus
from penstock.values.packing import pack_values
from penstock.values.refusals import Code
from penstock.values.stepframes import FrameKind, frame
from tests.cli.fake_controller import ROOT, WireController

OUT, ERR = 1, 2


class Scene:
    """A controller and nodes n1, n2, ...; each has `tasks` ranks, in blocks."""

    def __init__(self, folder: Path, nodes: int = 1, tasks: int = 1) -> None:
        self.nodes = [StandNode(f"n{i + 1}", index=i) for i in range(nodes)]
        self.tasks = tasks
        self.busy = 0
        self.refusals = 0  # of EndAllocation, for the want of a database
        self.over = threading.Event()
        self.ended: s.AwaitStepReply | None = None
        self.waits: list[str] = []
        self.folder = folder
        self.command = "srun"
        self.launched: Launched | None = None
        self.plainly = False
        self.controller = WireController(
            folder,
            {
                "CreateStep": self.create,
                "AwaitStep": self.await_step,
                "AttachStep": self.attach,
                "ListSteps": lambda request: s.ListStepsReply(
                    steps=[s.StepInfo(job_id=12, step_id=1, state="RUNNING", node_list="n2")]
                ),
                "ListJobs": lambda request: c.ListJobsReply(jobs=[c.JobInfo(job_id=12)]),
                "CancelJobs": self.cancel,
                "SubmitJob": lambda request: c.SubmitJobReply(job_id=77),
                "AwaitAllocation": self.await_allocation,
                "EndAllocation": self.give_back,
            },
        )
        self.on_cancel: Callable[[], None] = lambda: None

    def create(self, request: s.CreateStepRequest) -> s.CreateStepReply:
        if self.busy:
            self.busy -= 1
            return s.CreateStepReply(busy=True)
        reply = s.CreateStepReply(step_id=1, attempt=0, io_key=KEY, job_id=request.job_id)
        plan = reply.plan
        plan.ntasks = self.tasks * len(self.nodes)
        for index, node in enumerate(self.nodes):
            plan.nodes.append(node.node)
            plan.tasks.append(self.tasks)
            plan.ranks.add(rank=range(index * self.tasks, (index + 1) * self.tasks))
            place = node.endpoint()
            reply.streams.add(node=place.node, host=place.host, port=place.port, tls=place.tls)
        return reply

    def give_back(self, request: s.EndAllocationRequest) -> s.EndAllocationReply:
        if self.refusals:
            self.refusals -= 1
            raise PenstockError(Code.STORAGE_AWAY, "no database")
        return s.EndAllocationReply()

    def attach(self, request: s.AttachStepRequest) -> s.AttachStepReply:
        made = self.create(s.CreateStepRequest(job_id=request.job_id))
        made.plan.node_list = "n1" if len(self.nodes) == 1 else f"n[1-{len(self.nodes)}]"
        return s.AttachStepReply(
            job_id=request.job_id, step_id=request.step_id, plan=made.plan, streams=made.streams, io_key=KEY
        )

    def await_step(self, request: s.AwaitStepRequest) -> s.AwaitStepReply:
        self.over.wait(ANSWER_S)
        return self.ended or s.AwaitStepReply(state="RUNNING")

    def end(self, reply: s.AwaitStepReply) -> None:
        self.ended = reply
        self.over.set()

    def cancel(self, request: c.CancelJobsRequest) -> c.JobResultsReply:
        self.on_cancel()
        return c.JobResultsReply()

    def await_allocation(self, request: s.AwaitAllocationRequest) -> s.AllocationReply:
        state, _, reason = (self.waits.pop(0) if self.waits else "RUNNING").partition(" ")
        return s.AllocationReply(job_id=77, state=state, reason=reason)

    def of(self, method: str) -> list[Any]:
        return [request for name, request in self.controller.requests if name == method]

    @property
    def created(self) -> s.CreateStepRequest:
        (request,) = self.of("CreateStep")
        return request

    def start(
        self, *words: str, env: dict[str, str] | None = None, stdin: Any = subprocess.DEVNULL, **more: Any
    ) -> Any:
        base = {
            "PYTHONPATH": str(ROOT),
            "PATH": os.environ["PATH"],
            "HOME": "/nonexistent",
            "PENSTOCK_CLUSTER": str(self.controller.cluster_file),
            "PENSTOCK_DEBUG": "1",
        }
        whole = base | ({"SLURM_JOB_ID": "12"} if env is None else env)
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | more
        command = [sys.executable, "-P", "-m", f"cli.{self.command}", *words]
        if self.launched is not None:
            self.plainly = isinstance(stdin, int) and stdin > 0 and os.isatty(stdin)  # the terminal of no session
            whole["XDG_RUNTIME_DIR"] = str(self.launched.run_dir)
            command = [str(self.launched.bin / self.command), *words]
        return subprocess.Popen(command, env=whole, stdin=stdin, cwd=self.folder, **pipes)

    def run(self, *words: str, env: dict[str, str] | None = None, data: bytes | None = None) -> tuple[int, str, str]:
        process = self.start(*words, env=env, stdin=subprocess.DEVNULL if data is None else subprocess.PIPE)
        out, err = process.communicate(data, timeout=ANSWER_S)
        return process.returncode, out.decode(), err.decode()

    def close(self) -> None:
        self.over.set()
        for node in self.nodes:
            node.__exit__()
        self.controller.close()


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launched]:
    made = Launched(tmp_path_factory.mktemp("l"), build(tmp_path_factory.mktemp("b")))
    yield made
    made.close()


@pytest.fixture
def make_plain(tmp_path: Path) -> Iterator[Callable[..., Scene]]:
    scenes: list[Scene] = []

    def one(**what: int) -> Scene:
        scenes.append(Scene(tmp_path, **what))
        return scenes[-1]

    yield one
    for scene in scenes:
        scene.close()


@pytest.fixture(params=["plain", "served"])
def make(
    make_plain: Callable[..., Scene], installed: Launched, request: pytest.FixtureRequest
) -> Iterator[Callable[..., Scene]]:
    if request.param == "plain":
        yield make_plain
        return
    installed.warm()
    scenes: list[Scene] = []

    def one(**what: int) -> Scene:
        scenes.append(make_plain(**what))
        scenes[-1].launched = installed
        return scenes[-1]

    yield one
    assert installed.starts() == [scene.command for scene in scenes if scene.plainly]


def data(task: int, text: str, channel: int = OUT) -> bytes:
    return frame(FrameKind.DATA, text.encode(), task, channel)


def exited(task: int, code: int = 0, signal_no: int = 0) -> bytes:
    return frame(FrameKind.EXITED, b"%d" % (code << 8 | signal_no), task)


END = frame(FrameKind.END)


def test_output_and_error_output_of_one_task(make: Callable[..., Scene]) -> None:
    scene = make()
    scene.nodes[0].play(data(0, "out\n"), data(0, "err\n", ERR), exited(0), END)
    assert scene.run("-n1", "echo", "x") == (0, "out\n", "err\n")
    request = scene.created
    assert (request.job_id, list(request.spec.argv), request.step.ntasks) == (12, [b"echo", b"x"], 1)
    assert b"SLURM_JOB_ID=12" in request.spec.environment
    assert request.step.name == "echo" and request.step.work_dir == os.fsencode(scene.folder)
    assert scene.of("AwaitStep") == []  # a short step costs one call


def test_labels_exit_codes_and_messages_over_nodes(make: Callable[..., Scene]) -> None:
    scene = make(nodes=2, tasks=6)
    scene.nodes[0].play(data(0, "a\nb"), data(1, "x\n"), data(0, "c\n"), *(exited(t, t % 2) for t in range(6)), END)
    scene.nodes[1].play(data(11, "no end"), *(exited(t, 0, 9) for t in range(6, 12)), END)
    status, out, err = scene.run("-l", "x")
    assert status == 137
    assert sorted(out.splitlines()) == [" 0: a", " 0: bc", " 1: x", "11: no end"]
    assert sorted(err.splitlines()) == [
        "srun: error: n1: tasks 1,3,5: Exited with exit code 1",
        "srun: error: n2: tasks 6-11: Killed",
    ]


def test_a_core_dump_is_told(make: Callable[..., Scene]) -> None:
    scene = make(tasks=3)
    scene.nodes[0].play(exited(0), exited(1), frame(FrameKind.EXITED, b"%d" % (11 | 0x80), 2), END)
    assert scene.run("x") == (139, "", "srun: error: n1: task 2: Segmentation fault (core dumped)\n")


def test_input_goes_to_all_nodes_and_ends(make: Callable[..., Scene]) -> None:
    scene = make(nodes=2)
    text = b"line\n" * 100_000  # more than a window
    done: list[Any] = []
    runner = threading.Thread(target=lambda: done.append(scene.run("cat", data=text)))
    runner.start()
    for task, node in enumerate(scene.nodes):
        node.wait_until(lambda: node.of(FrameKind.STDIN)[-1:] == [b""])
        node.play(exited(task), END)
    runner.join(ANSWER_S)
    assert [b"".join(node.of(FrameKind.STDIN)) for node in scene.nodes] == [text, text]
    assert scene.created.step.stdin_to == 1
    assert done[0][0] == 0


@pytest.mark.parametrize(("words", "to", "task"), [(["-i", "none"], 2, 0), (["-i", "1"], 3, 1), (["-i", "0"], 0, 0)])
def test_input_to_one_or_none(make: Callable[..., Scene], words: list[str], to: int, task: int) -> None:
    scene = make(nodes=2)
    done: list[Any] = []
    runner = threading.Thread(target=lambda: done.append(scene.run(*words, "cat", data=b"x")))
    runner.start()
    if to != 2:
        scene.nodes[task].wait_until(lambda: scene.nodes[task].of(FrameKind.STDIN)[-1:] == [b""])
        assert [(f[2], f[3]) for f in scene.nodes[task].heard if f[0] == FrameKind.STDIN] == [(task, b"x"), (task, b"")]
    for index, node in enumerate(scene.nodes):
        node.play(exited(index), END)
    runner.join(ANSWER_S)
    assert (scene.created.step.stdin_to, scene.created.step.stdin_task) == (to, task)
    assert scene.nodes[1 - task].of(FrameKind.STDIN) == []


def test_files_of_the_client_and_of_the_nodes(make: Callable[..., Scene]) -> None:
    scene = make(tasks=2)
    scene.nodes[0].play(data(0, "a\n"), data(1, "b\n", ERR), exited(0), exited(1), END)
    assert scene.run("-o", "out-%J-%s", "x") == (0, "", "")
    assert (scene.folder / "out-12.1-1").read_text() == "a\nb\n"
    assert scene.created.step.std_out == b""


def test_patterns_with_tasks_are_the_nodes(make: Callable[..., Scene]) -> None:
    scene = make()
    scene.nodes[0].play(exited(0), END)
    assert scene.run("-o", "o-%t", "-e", "none", "-i", "in-%n", "x")[0] == 0
    step = scene.created.step
    assert (step.std_out, step.std_err, step.std_in) == (b"o-%t", b"/dev/null", b"in-%n")


def test_only_one_tasks_output(make: Callable[..., Scene]) -> None:
    scene = make(tasks=3)
    scene.nodes[0].play(*(data(t, f"{t}\n") for t in range(3)), *(data(t, f"e{t}\n", ERR) for t in range(3)), END)
    scene.end(s.AwaitStepReply(state="COMPLETED"))
    _, out, err = scene.run("-o", "1", "-e", "all", "x")
    assert (out, err) == ("1\n", "e0\ne1\ne2\n")


def test_a_busy_allocation_is_waited_for(make: Callable[..., Scene]) -> None:
    scene = make()
    scene.busy = 2
    scene.nodes[0].play(exited(0), END)
    assert scene.run("x") == (
        0,
        "",
        "srun: Job 12 step creation temporarily disabled, retrying (Requested nodes are busy)\n"
        "srun: Step created for StepId=12.1\n",
    )
    first, *others = scene.of("CreateStep")
    assert [r.step_key for r in others] == [first.step_key] * 2
    assert [first.wait_s, *(r.wait_s for r in others)] == [1, 25, 25]


def test_on_its_own_it_makes_a_job_and_ends_it(make: Callable[..., Scene]) -> None:
    scene = make(nodes=2)
    scene.waits = ["PENDING PartitionDown", "PENDING"]
    scene.end(s.AwaitStepReply(state="FAILED"))
    scene.nodes[0].play(exited(0, 3), END)
    scene.nodes[1].play(exited(1), END)
    status, out, err = scene.run("-N2", "--mem=100", "-t", "5", "-p", "debug", "true", env={})
    assert (status, out) == (3, "")
    assert err == (
        "srun: Requested partition configuration not available now\n"
        "srun: job 77 queued and waiting for resources\nsrun: job 77 has been allocated resources\n"
        "srun: error: n1: task 0: Exited with exit code 3\n"
    )
    (submitted,) = scene.of("SubmitJob")
    job = submitted.job
    assert (job.kind, job.nodes_min, job.mem_per_node_mb, job.time_limit_s) == (2, 2, 100, 300)
    assert list(job.partitions) == ["debug"] and submitted.spec.script == b""
    assert (scene.created.step.nodes_min, scene.created.step.HasField("mem_per_node_mb")) == (0, False)
    (ended,) = scene.of("EndAllocation")
    assert (ended.job_id, ended.exit) == (77, ExitStatus(code=3))
    # The controller hears of the step's end before that of the job.
    assert [name for name, _ in scene.controller.requests[-2:]] == ["AwaitStep", "EndAllocation"]


@pytest.mark.parametrize("value", ["", "x", "-1", "9" * 5000])
def test_30_what_a_user_has_set_does_not_break_a_files_name(
    make: Callable[..., Scene], tmp_path: Path, value: str
) -> None:
    scene = make()
    scene.end(s.AwaitStepReply(state="COMPLETED"))
    scene.nodes[0].play(exited(0), END)
    names = ("SLURM_RESTART_COUNT", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID")
    env = {"SLURM_JOB_ID": "12", **dict.fromkeys(names, value)}
    status, out, err = scene.run("-o", f"{tmp_path}/out.%j.%r", "true", env=env)
    assert (status, out, err) == (0, "", "")
    assert (tmp_path / "out.12.0").exists()


def test_without_a_database_giving_back_is_repeated(make: Callable[..., Scene]) -> None:
    scene = make()
    scene.refusals = 2
    scene.end(s.AwaitStepReply(state="COMPLETED"))
    scene.nodes[0].play(exited(0), END)
    status, out, err = scene.run("true", env={})
    assert (status, out) == (0, "")
    assert err == "srun: Unable to clean up job allocation 77: no database; trying again for up to 10 minutes\n"
    assert len(scene.of("EndAllocation")) == 3


def test_who_gives_up_to_give_back_says_so(make: Callable[..., Scene]) -> None:
    scene = make()
    scene.refusals = 1000
    scene.end(s.AwaitStepReply(state="COMPLETED"))
    scene.nodes[0].play(exited(0), END)
    process = scene.start("true", env={})
    assert b"trying again" in process.stderr.readline()
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=ANSWER_S)
    assert err.decode() == (
        "srun: error: Unable to clean up job allocation 77: no database\n"
        "srun: it may still be running; `scancel 77` ends it\n"
    )
    assert process.returncode == 1


def test_a_job_that_is_taken_away_while_it_waits(make: Callable[..., Scene]) -> None:
    scene = make()
    scene.waits = ["PENDING", "CANCELLED"]
    status, _, err = scene.run("true", env={"SLURM_EXIT_ERROR": "99"})
    assert status == 99
    assert err.endswith("srun: error: Job allocation 77 has been revoked\n")
    assert scene.of("CreateStep") == []


def test_what_is_not_there_at_once(make: Callable[..., Scene]) -> None:
    scene = make()
    scene.waits = ["PENDING", "CANCELLED NodesBusy"]
    status, _, err = scene.run("-I", "true", env={"SLURM_EXIT_IMMEDIATE": "44"})
    assert (status, err) == (
        44,
        "srun: error: Unable to allocate resources: Immediate execution impossible, insufficient priority\n",
    )


def interrupt_when(process: Any, line: bytes) -> None:
    """Ctrl-C once this line has come."""
    for seen in process.stderr:
        if seen == line:
            process.send_signal(signal.SIGINT)
            return
    raise AssertionError(f"{line!r} has not come")


def test_ctrl_c_once_tells_and_twice_cancels(make: Callable[..., Scene]) -> None:
    scene = make(tasks=4)
    node = scene.nodes[0]
    node.play(exited(3), frame(FrameKind.NOTE, b"ready"))
    scene.on_cancel = lambda: node.play(*(exited(t, 0, 2) for t in range(3)), END)
    process = scene.start("sleep", "100")
    interrupt_when(process, b"ready\n")
    interrupt_when(process, b"srun: StepId=12.1 task 3: exited\n")
    _, err = process.communicate(timeout=ANSWER_S)
    assert process.returncode == 130
    assert err.decode() == (
        "srun: sending Ctrl-C to StepId=12.1\n"
        "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.\n"
        "srun: error: n1: tasks 0-2: Interrupt\n"
    )
    assert node.of(FrameKind.SIGNAL) == [b"2"]
    (cancelled,) = scene.of("CancelJobs")
    assert list(cancelled.filter.ids) == ["12.1"]


def test_ctrl_c_once_only_tells(make: Callable[..., Scene]) -> None:
    scene = make(tasks=2)
    scene.nodes[0].play(frame(FrameKind.NOTE, b"ready"))
    process = scene.start("sleep", "100")
    interrupt_when(process, b"ready\n")
    assert process.stderr.readline() == b"srun: interrupt (one more within 1 sec to abort)\n"
    assert process.stderr.readline() == b"srun: StepId=12.1 tasks 0-1: running\n"
    scene.nodes[0].play(exited(0), exited(1), END)
    assert process.wait(ANSWER_S) == 0
    assert scene.nodes[0].of(FrameKind.SIGNAL) == []


def test_ctrl_c_goes_to_the_tasks_if_asked(make: Callable[..., Scene]) -> None:
    scene = make()
    node = scene.nodes[0]
    node.play(frame(FrameKind.NOTE, b"ready"))
    process = scene.start("-X", "sleep", "100")
    interrupt_when(process, b"ready\n")
    assert process.stderr.readline() == b"srun: sending Ctrl-C to StepId=12.1\n"
    assert node.wait_for(FrameKind.SIGNAL)[3] == b"2"
    node.play(exited(0, 0, 2), END)
    _, err = process.communicate(timeout=ANSWER_S)
    assert (process.returncode, err) == (130, b"srun: error: n1: task 0: Interrupt\n")
    assert scene.of("CancelJobs") == []


def test_what_the_node_says_of_a_cancelled_step(make: Callable[..., Scene]) -> None:
    scene = make()
    scene.nodes[0].play(
        frame(FrameKind.NOTE, b"*** STEP 12.1 ON n1 CANCELLED AT 2026-01-02T03:04:05 DUE TO TIME LIMIT ***"),
        frame(FrameKind.LOST, b"4711"),
        exited(0, 0, 15),
        END,
    )
    assert scene.run("x") == (
        143,
        "",
        "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.\n"
        "slurmstepd: error: *** STEP 12.1 ON n1 CANCELLED AT 2026-01-02T03:04:05 DUE TO TIME LIMIT ***\n"
        "srun: error: n1: 4711 bytes of output were lost without a client\n"
        "srun: error: n1: task 0: Terminated\n",
    )


@pytest.mark.parametrize(("node", "shown"), [("0", True), ("1", False)])
def test_only_one_node_says_that_the_step_was_cancelled(make: Callable[..., Scene], node: str, shown: bool) -> None:
    scene = make()
    scene.nodes[0].play(frame(FrameKind.NOTE, b"*** STEP 12.1 ON n1 CANCELLED AT now ***"), exited(0, 0, 15), END)
    _, _, err = scene.run("x", env={"SLURM_JOB_ID": "12", "SLURM_STEP_KILLED_MSG_NODE_ID": node})
    assert ("slurmstepd: error: *** STEP 12.1 ON n1 CANCELLED AT now ***" in err) == shown
    assert "srun: Job step aborted" in err


def test_programs_for_as_many_tasks_as_nodes(make: Callable[..., Scene]) -> None:
    scene = make(nodes=2)
    (scene.folder / "programs").write_text("0 a %t\n1 b '%o x'\n")
    for index, node in enumerate(scene.nodes):
        node.play(exited(index), END)
    assert scene.run("--multi-prog", "programs", env={"SLURM_JOB_ID": "12", "SLURM_NNODES": "2"})[0] == 0
    programs = [(p.ranks, list(p.argv)) for p in scene.created.step.multi_prog]
    assert programs == [("0", [b"a", b"%t"]), ("1", [b"b", b"%o x"])]
    assert list(scene.created.spec.argv) == []


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGQUIT])
def test_other_signals_go_to_the_tasks(make: Callable[..., Scene], number: int) -> None:
    scene = make(nodes=2)
    scene.nodes[0].play(frame(FrameKind.NOTE, b"ready"))
    process = scene.start("sleep", "100")
    assert process.stderr.readline() == b"ready\n"
    process.send_signal(number)
    for task, node in enumerate(scene.nodes):
        assert node.wait_for(FrameKind.SIGNAL)[3] == b"%d" % number
        node.play(exited(task), END)
    assert process.wait(ANSWER_S) == 0


def test_term_lets_the_controller_end_the_step(make: Callable[..., Scene]) -> None:
    """The tasks have their KillWait: an srun in a batch script gets SIGTERM with its job. A second one is an order."""
    scene = make()
    node = scene.nodes[0]
    node.play(frame(FrameKind.NOTE, b"ready"))
    process = scene.start("sleep", "100")
    assert process.stderr.readline() == b"ready\n"
    process.terminate()
    assert process.stderr.readline() == b"srun: forcing job termination\n"
    node.wait_until(lambda: scene.of("CancelJobs") != [])
    assert [list(request.filter.ids) for request in scene.of("CancelJobs")] == [["12.1"]]
    assert node.of(FrameKind.SIGNAL) == []
    process.terminate()
    assert node.wait_for(FrameKind.SIGNAL)[3] == b"9"
    node.play(exited(0, 0, 9), END)
    assert process.communicate(timeout=ANSWER_S) and process.returncode == 137


def test_kill_on_bad_exit_ends_the_others(make: Callable[..., Scene]) -> None:
    scene = make(nodes=2)
    scene.nodes[0].play(exited(0, 2), END)
    process = scene.start("-K", "x")
    assert scene.nodes[1].wait_for(FrameKind.SIGNAL)[3] == b"18"
    scene.nodes[1].wait_until(lambda: scene.nodes[1].of(FrameKind.SIGNAL) == [b"18", b"15"])
    scene.nodes[1].play(exited(1, 0, 15), END)
    _, err = process.communicate(timeout=ANSWER_S)
    assert process.returncode == 143
    assert err.decode().splitlines() == [
        "srun: error: n1: task 0: Exited with exit code 2",
        "srun: Terminating StepId=12.1",
        "srun: error: n2: task 1: Terminated",
    ]
    assert scene.created.step.kill_on_bad_exit


def test_wait_ends_the_others_after_a_while(make: Callable[..., Scene]) -> None:
    scene = make(nodes=2)
    scene.nodes[0].play(exited(0), END)
    process = scene.start("-W", "1", "x")
    scene.nodes[1].wait_until(lambda: scene.nodes[1].of(FrameKind.SIGNAL) == [b"18", b"15"])
    scene.nodes[1].play(exited(1, 0, 15), END)
    _, err = process.communicate(timeout=ANSWER_S)
    assert err.decode().splitlines() == [
        "srun: error: First task exited 1s ago",
        "srun: StepId=12.1 task 1: running",
        "srun: StepId=12.1 task 0: exited",
        "srun: Terminating StepId=12.1",
        "srun: error: n2: task 1: Terminated",
    ]


def test_the_end_comes_from_the_controller_when_a_node_cannot_be_reached(make: Callable[..., Scene]) -> None:
    scene = make(nodes=2)
    scene.nodes[0].play(data(0, "here\n"), exited(0), END)
    scene.nodes[1].refusal = b"nobody here"
    reply = s.AwaitStepReply(state="NODE_FAIL", note="NODE FAILURE", exit=ExitStatus(signal=9))
    reply.nodes.add(node="n2", exit=ExitStatus(signal=9), failure="node failure")
    scene.end(reply)
    status, out, err = scene.run("x")
    assert (status, out) == (137, "here\n")
    assert "srun: error: n2: task 1: node failure\n" in err


def test_a_connection_that_breaks_loses_and_repeats_nothing(make: Callable[..., Scene]) -> None:
    scene = make()
    scene.nodes[0].cut_at = 50_000
    scene.nodes[0].play(*(data(0, f"{n}\n") for n in range(20_000)), exited(0), END)
    status, out, err = scene.run("x")
    assert (status, err) == (0, "")
    assert out == "".join(f"{n}\n" for n in range(20_000))
    assert len(scene.nodes[0].froms) == 2


def test_a_reader_that_goes_away_is_told_to_the_tasks(make: Callable[..., Scene]) -> None:
    scene = make()
    node = scene.nodes[0]
    process = scene.start("yes")
    process.stdout.close()
    node.play(data(0, "y\n" * 1000))
    assert node.wait_for(FrameKind.SIGNAL)[3] == b"13"
    node.play(exited(0, 0, 13), END)
    assert process.wait(ANSWER_S) == 141


def test_a_reader_that_does_not_read_holds_the_node_back(make: Callable[..., Scene]) -> None:
    scene = make()
    node = scene.nodes[0]
    process = scene.start("yes")
    piece = data(0, "y" * 100_000)
    node.play(*[piece] * 100, exited(0), END)
    # What a pipe holds and what srun has in its hands is far less than ten million bytes.
    node.wait_until(lambda: len(node.froms) == 1)
    out = process.stdout.read()
    assert out == b"y" * 10_000_000
    assert process.wait(ANSWER_S) == 0


def test_exchange_between_nodes(make: Callable[..., Scene]) -> None:
    from penstock.values.exchange import Joiner, parts, split

    scene = make(nodes=2)
    for index, node in enumerate(scene.nodes):
        node.play(*(frame(FrameKind.GATHER, part) for part in parts(0, b"blob%d" % index)))
    process = scene.start("mpi")
    for index, node in enumerate(scene.nodes):
        assert split(Joiner().take(node.wait_for(FrameKind.EXCHANGE)[3]) or b"") == [b"blob0", b"blob1"]
        node.play(exited(index), END)
    assert process.wait(ANSWER_S) == 0


def test_a_pseudo_terminal_is_raw_and_tells_its_size(make: Callable[..., Scene]) -> None:
    import fcntl
    import struct
    import termios

    scene = make()
    node = scene.nodes[0]
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 99, 0, 0))
    process = scene.start("--pty", "sh", stdin=child, stdout=child, stderr=child)
    node.wait_until(lambda: len(node.froms) == 1)
    os.write(parent, b"\x03q")
    node.wait_until(lambda: b"".join(node.of(FrameKind.STDIN)) == b"\x03q")
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    process.send_signal(signal.SIGWINCH)
    assert node.wait_for(FrameKind.WINDOW)[3] == pack_values(40, 120)
    node.play(data(0, "bye\r\n"), exited(0), END)
    assert process.wait(ANSWER_S) == 0
    assert os.read(parent, 100).endswith(b"bye\r\n")
    step = scene.created.step
    assert (step.pty, step.rows, step.columns, step.stdin_to) == (True, 33, 99, 0)
    assert termios.tcgetattr(child)[3] & termios.ICANON  # as it was
    os.close(parent)
    os.close(child)


def test_a_program_is_copied_first(make: Callable[..., Scene]) -> None:
    scene = make()
    (scene.folder / "prog").write_bytes(b"#!/bin/sh\n")
    (scene.folder / "prog").chmod(0o755)
    node = scene.nodes[0]
    process = scene.start("--bcast=/tmp/there", "./prog", "a")
    node.wait_until(lambda: node.of(FrameKind.STDIN)[-1:] == [b""])
    node.play(exited(0), END)
    assert process.wait(ANSWER_S) == 0
    copier, real = scene.of("CreateStep")
    assert copier.step.overlap and copier.spec.argv[4] == b"/tmp/there"
    assert list(real.spec.argv) == [b"/tmp/there", b"a"]
    assert node.of(FrameKind.STDIN)[0] == b"#!/bin/sh\n"


def test_nothing_is_left_running_when_a_file_cannot_be_opened(make: Callable[..., Scene]) -> None:
    scene = make()
    status, _, err = scene.run("-o", "/nonexistent/x", "true")
    assert (status, err) == (1, "srun: error: Could not open stdout file: /nonexistent/x: No such file or directory\n")
    assert [list(r.filter.ids) for r in scene.of("CancelJobs")] == [["12.1"]]
