"""The parts of srun that need no other process: options, requests, labels, sinks, outcomes, --multi-prog."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, cast

import pytest

from cli.base.helptext import help_text
from cli.base.options import parse
from cli.base.run import CommandError, RemoteAnswer
from cli.srun import body, run_around
from cli.steps.console import Console, Mode, PartsConsole, Sink, parse_mode
from cli.steps.creation import StepMaker
from cli.steps.delivery import Delivery
from cli.steps.ending import EndingRules, StepEnding
from cli.steps.multiprog import parse_config, tasks_of
from cli.steps.outcome import StepOutcome, ranks_text, words_of
from cli.steps.request import own_job, read_values, settle_counts, step_spec
from cli.steps.stepopts import COMMAND
from cli.steps.streamclient import State, StepStream
from cli.steps.verbose import report_launch
from cli.steps.watcher import Watchers
from cli.steps.wiring import rules_of
from penstock.clusterfile import ClusterFile
from penstock.errors import PenstockError
from penstock.eventloop import Loop
from penstock.v1.common_pb2 import NodeAllocation
from penstock.v1.controller_pb2 import JobResultsReply, ListJobsReply, SubmitJobReply
from penstock.v1.steps_pb2 import AllocationReply, CreateStepReply, RankSet, StepPlan, StepSpec
from penstock.values.jobid import format_sluid
from penstock.values.refusals import TEXT, Code
from tests.cli.fake_controller import FakeClient, run_body

INSIDE = {"SLURM_JOB_ID": "12"}


def spec_of(*words: str, env: dict[str, str] | None = None) -> StepSpec:
    values, command = read_values(COMMAND, [*words, "prog", "a"], INSIDE if env is None else env)
    settle_counts(values, lambda text: None)
    return step_spec(values, command, list(words), owns_job="jobid" not in values.all)


# ---- options -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        (["-n4"], "ntasks", 4),
        (["-N2-3"], "nodes_max", 3),
        (["-c", "2"], "cpus_per_task", 2),
        (["--ntasks-per-node=2"], "ntasks_per_node", 2),
        (["--ntasks-per-gpu=2"], "ntasks_per_gpu", 2),
        (["-O"], "overcommit", True),
        (["--exact"], "exact", True),
        (["--exclusive"], "exact", True),
        (["--exclusive=allocation"], "exact", False),
        (["--overlap"], "overlap", True),
        (["-r1"], "relative", 1),
        (["-w", "n[1-2]"], "nodes_required", "n[1-2]"),
        (["-x", "n3"], "nodes_excluded", "n3"),
        (["-m", "plane=4"], "distribution", "plane=4"),
        (["-m", "block:fcyclic"], "distribution", "block:fcyclic"),
        (["--cpu-bind=verbose,map_cpu:0,1"], "cpu_bind", "verbose,map_cpu:0,1"),
        (["--cpu-bind=cores"], "cpu_bind", "cores"),
        (["--mem-bind=local"], "mem_bind", "local"),
        (["--hint=nomultithread"], "hint", "nomultithread"),
        (["--mpi=pmi2"], "mpi", "pmi2"),
        (["-K"], "kill_on_bad_exit", True),
        (["--kill-on-bad-exit=0"], "kill_on_bad_exit", False),
        (["-I"], "immediate_s", 0),
        (["--immediate=5"], "immediate_s", 5),
        (["-u"], "unbuffered", True),
        (["--mem=100"], "mem_per_node_mb", 100),
        (["--resv-ports=3"], "resv_ports", 3),
        (["--open-mode=append"], "open_append", True),
        (["-t", "5"], "time_limit_s", 300),
        (["--gres=none"], "no_gres", True),
        (["-J", "step"], "name", "step"),
        (["--signal=USR1@60"], "signal", "USR1@60"),
        (["--het-group=1"], "het_group", 1),
        (["--whole"], "whole", True),
    ],
)
def test_an_option_is_asked_for(words: list[str], field: str, value: object) -> None:
    spec = spec_of(*words)
    assert getattr(spec, field) == value
    plain = spec_of()
    differ = {f.name for f in StepSpec.DESCRIPTOR.fields if getattr(spec, f.name) != getattr(plain, f.name)}
    implied = {"gpu_bind"} if field == "ntasks_per_gpu" else set()
    assert differ - {"submit_line", "nodes_min"} - implied <= {field}


def test_tasks_of_a_gpu_are_bound_to_it_unless_it_is_said_otherwise() -> None:
    assert spec_of("--ntasks-per-gpu=2").gpu_bind == "single:2"
    assert spec_of("--ntasks-per-gpu=2", "--gpu-bind=none").gpu_bind == "none"


@pytest.mark.parametrize("word", ["--external-launcher", "--external-launcher=x"])
def test_a_launchers_helpers_take_all_that_the_job_has_and_keep_it_from_nobody(word: str) -> None:
    spec = spec_of(word)
    assert spec.overlap and spec.whole


def test_devices_by_node_step_and_task() -> None:
    spec = spec_of("--gpus=4", "--gpus-per-node=2", "--gpus-per-task=1")
    counts = [
        [(g.name, g.count) for g in gres] for gres in (spec.gres_per_step, spec.gres_per_node, spec.gres_per_task)
    ]
    assert counts == [[("gpu", 4)], [("gpu", 2)], [("gpu", 1)]]


@pytest.mark.parametrize(
    ("variable", "value", "field", "wanted"),
    [
        ("SLURM_NTASKS", "3", "ntasks", 3),
        ("SLURM_NPROCS", "3", "ntasks", 3),
        ("SLURM_NNODES", "2", "nodes_min", 2),
        ("SRUN_CPUS_PER_TASK", "2", "cpus_per_task", 2),
        ("SLURM_CPUS_PER_TASK", "2", "cpus_per_task", 0),
        ("SLURM_EXACT", "1", "exact", True),
        ("SLURM_OVERLAP", "1", "overlap", True),
        ("SLURM_CPU_BIND", "cores", "cpu_bind", "cores"),
        ("SLURM_DISTRIBUTION", "cyclic", "distribution", "cyclic"),
        ("SLURM_KILL_BAD_EXIT", "1", "kill_on_bad_exit", True),
        ("SLURM_MPI_TYPE", "pmix", "mpi", "pmix"),
        ("SLURM_WORKING_DIR", "/tmp", "work_dir", b"/tmp"),
        ("SRUN_OUTPUT", "o-%t", "std_out", b"o-%t"),
        ("SLURM_EXPORT_ENV", "NONE", "export_env", "NONE"),
        ("SLURM_JOB_NAME", "job", "name", "prog"),
        ("SLURM_TIMELIMIT", "5", "time_limit_s", 0),
        ("SLURM_UNBUFFEREDIO", "1", "unbuffered", True),
        ("SLURM_REMOTE_CWD", "/tmp", "work_dir", b"/tmp"),
        ("SLURM_TRES_PER_TASK", "cpu=2,gres/gpu=1", "cpus_per_task", 0),
        ("SLURM_MEM_PER_GPU", "100", "mem_per_node_mb", 0),  # the job's: a step has no such word
    ],
)
def test_variables_stand_in_for_options(variable: str, value: str, field: str, wanted: object) -> None:
    assert getattr(spec_of(env=INSIDE | {variable: value}), field) == wanted


def test_the_command_line_is_stronger_than_variables() -> None:
    env = INSIDE | {"SLURM_NTASKS": "8", "SLURM_MEM_PER_NODE": "100", "SLURM_GPUS_PER_NODE": "4"}
    spec = spec_of("-n2", "--mem-per-cpu=5", "--gres=none", env=env)
    assert (spec.ntasks, spec.mem_per_cpu_mb, spec.HasField("mem_per_node_mb")) == (2, 5, False)
    assert spec.no_gres and not spec.gres_per_node


def test_variables_that_belong_together() -> None:
    env = INSIDE | {"SLURM_GRES": "gpu:4", "SLURM_STEP_GRES": "gpu:1", "SLURM_GPUS_PER_TASK": "1",
                    "SLURM_TRES_PER_TASK": "cpu=2,gres/gpu=1", "SLURM_DISTRIBUTION": "plane", "SLURM_DIST_PLANESIZE": "3"}  # fmt: skip
    spec = spec_of(env=env)
    assert ([g.count for g in spec.gres_per_node], [g.count for g in spec.gres_per_task]) == ([1], [1])
    assert (spec.cpus_per_task, spec.distribution) == (0, "plane=3")


def test_what_srun_says_of_export_is_stronger() -> None:
    env = INSIDE | {"SRUN_EXPORT_ENV": "A", "SLURM_EXPORT_ENV": "NONE"}
    assert spec_of(env=env).export_env == "A"


def test_fewer_tasks_than_nodes_are_fewer_nodes() -> None:
    said: list[str] = []
    values, _ = read_values(COMMAND, ["-n1", "x"], INSIDE | {"SLURM_NNODES": "2"})
    settle_counts(values, said.append)
    assert values.all.get("nodes") == (1, 1)
    assert said == ["can't run 1 processes on 2 nodes, setting nnodes to 1"]


@pytest.mark.parametrize(("words", "is_left_out"), [("-n8 -N1-2", True), ("-n2 -N1-2", False), ("-n2 -N1-4", False)])
def test_28_tasks_per_node_on_a_range_of_nodes(words: str, is_left_out: bool) -> None:
    """They contradict where even the most nodes have no room for all tasks."""
    said: list[str] = []
    values, _ = read_values(COMMAND, [*words.split(), "--ntasks-per-node=1", "x"], INSIDE)
    settle_counts(values, said.append)
    assert ("ntasks_per_node" not in values.all) == is_left_out == bool(said)
    assert all(
        "which doesn't match the requested tasks 8 with the number of requested nodes 1" in text for text in said
    )


def test_tasks_per_node_that_contradict_are_left_out() -> None:
    said: list[str] = []
    env = INSIDE | {"SLURM_NTASKS_PER_NODE": "2"}
    values, _ = read_values(COMMAND, ["-n4", "-N1", "x"], env)
    settle_counts(values, said.append)
    assert "ntasks_per_node" not in values.all and "Ignoring --ntasks-per-node" in said[0]


def test_a_job_of_its_own_has_what_the_step_then_takes() -> None:
    words = ["-N2", "-n4", "--mem=100", "--gpus=2", "-I", "--hint=nomultithread"]
    values, command = read_values(COMMAND, [*words, "prog"], {})
    job = own_job(values, command, words)
    assert (job.kind, job.nodes_min, job.ntasks, job.mem_per_node_mb, job.immediate_s) == (2, 2, 4, 100, 0)
    assert job.HasField("immediate_s") and job.gres_per_job[0].count == 2 and job.threads_per_core == 1
    assert (job.name, job.command) == ("prog", "prog")
    spec = step_spec(values, command, words, owns_job=True)
    assert (spec.ntasks, spec.nodes_min, spec.HasField("mem_per_node_mb"), len(spec.gres_per_step)) == (4, 0, False, 0)
    assert not spec.HasField("immediate_s")


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        (["--nonsense", "x"], 255, "srun: unrecognized option '--nonsense'"),
        (["-N", "0", "x"], 255, '"0" is not a valid node count'),
        (["-m", "spiral", "x"], 255, "'spiral' is not"),
        (["--cpu-bind=glue", "x"], 255, 'unrecognized --cpu-bind argument "glue"\nknown are'),
        (["--mem-bind=map_mem", "x"], 255, "map_mem needs a list"),
        (["--mpi=lam", "x"], 1, "Invalid MPI type 'lam', --mpi=list for acceptable types"),
        (["--x11", "x"], 1, "option --x11 is not supported yet by Penstock"),
        (["--container-image=a", "x"], 1, "option --container-image is not supported yet by Penstock"),
        (["--pty", "-o", "f", "x"], 1, "--pty cannot be used together with --output"),
    ],
)
def test_a_mistake_is_told(words: list[str], status: int, text: str) -> None:
    with pytest.raises(CommandError) as error:
        spec_of(*words)
    assert text in str(error.value) and error.value.status == status


def test_no_command_and_the_list_of_mpi_types(monkeypatch: Any, capsys: Any) -> None:
    with pytest.raises(RemoteAnswer, match="pmi2"):
        body(["--mpi=list"])
    monkeypatch.setenv("SLURM_EXIT_ERROR", "7")
    assert run_body(capsys, "srun", body) == (7, "", "srun: fatal: No command given to execute.\n")


def test_an_arbitrary_distribution_needs_the_nodes(monkeypatch: Any, capsys: Any) -> None:
    FakeClient().install(monkeypatch)
    said = "srun: error: With Arbitrary distribution you need to specify a nodelist or hostfile with the -w option\n"
    assert run_body(capsys, "srun", body, "-n2", "-m", "arbitrary", "true") == (1, "", said)


def test_the_launch_is_told_with_the_ranks_of_each_node(capsys: Any) -> None:
    plan = StepPlan(nodes=["n1", "n2"], ranks=[RankSet(rank=[0, 1, 2]), RankSet(rank=[3])])
    report_launch(CreateStepReply(job_id=7, step_id=1, plan=plan), 0, "")
    assert capsys.readouterr().err.splitlines()[1:] == [
        "srun: launching StepId=7.1 on host n1, 3 tasks: [0-2]",
        "srun: launching StepId=7.1 on host n2, 1 tasks: 3",
    ]


def test_options_stop_at_the_command() -> None:
    assert parse(COMMAND, ["-n1", "ls", "-l"]).positional == ["ls", "-l"]


def test_names_and_letters_are_there_once() -> None:
    names = [o.name for o in COMMAND.options]
    letters = [o.short for o in COMMAND.options if o.short]
    assert sorted(names) == sorted(set(names)) and sorted(letters) == sorted(set(letters))
    assert "--cpu-bind" in help_text(COMMAND)


# ---- output --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        (None, Mode("all")), ("all", Mode("all")), ("NONE", Mode("none")), ("3", Mode("task", 3)),
        ("a-%j", Mode("file", 0, "a-%j")), ("a-%t", Mode("nodes", 0, "a-%t")), ("a-%03n", Mode("nodes", 0, "a-%03n")),
        ("a-%%t", Mode("file", 0, "a-%%t")), ("\\%t", Mode("file", 0, "\\%t")), ("%N.out", Mode("nodes", 0, "%N.out")),
    ],
)  # fmt: skip
def test_where_a_stream_goes(text: str | None, mode: Mode) -> None:
    assert parse_mode(text) == mode


def console_into(folder: Path, width: int) -> tuple[Console, Path]:
    path = folder / "out"
    sink = Sink(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
    return Console(sink, sink, label_width=width), path


def test_labels_stand_before_whole_lines(tmp_path: Path) -> None:
    console, path = console_into(tmp_path, 2)
    for task, channel, text in ((1, 1, b"a\nb"), (10, 1, b"x\n"), (1, 2, b"e\n"), (1, 1, b"c\n\nrest"), (10, 1, b"")):
        console.data(task, channel, text)
    console.ended(1)
    console.all_ended()
    console.flush()
    assert path.read_bytes() == b" 1: a\n10: x\n 1: e\n 1: bc\n 1: \n 1: rest\n"


def test_a_sink_keeps_what_a_pipe_does_not_take() -> None:
    read, write = os.pipe()
    sink = Sink(write)
    sent = b"".join(b"%07d\n" % n for n in range(100_000))
    for at in range(0, len(sent), 70_001):
        sink.add(sent[at : at + 70_001])
    got = b""
    while sink.flush():
        assert not os.get_blocking(sink.fd) and os.get_blocking(write)
        got += os.read(read, 1_000_000)
    os.close(write)
    os.close(sink.fd)
    while data := os.read(read, 1_000_000):
        got += data
    os.close(read)
    assert got == sent


def test_a_full_disk_ends_a_sink_once() -> None:
    sink = Sink(os.open("/dev/full", os.O_WRONLY))
    console = Console(sink, sink)
    console.data(0, 1, b"x")
    assert console.flush() == []
    assert [s.error for s in console.newly_dead()] == ["No space left on device"]
    assert console.newly_dead() == []


# ---- how tasks end -------------------------------------------------------------------------------------------------


def test_tasks_that_ended_alike_are_told_in_one_line() -> None:
    said: list[str] = []
    outcome = StepOutcome(said.append, tasks=6)
    for task in (0, 2, 1):
        outcome.exited("n1", task, 9)
    outcome.exited("n1", 3, 5 << 8)
    outcome.exited("n2", 4, 0)
    outcome.exited("n2", 4, 9)  # told again after a broken connection
    outcome.report()
    assert said == ["error: n1: tasks 0-2: Killed", "error: n1: task 3: Exited with exit code 5"]
    assert (outcome.code, outcome.all_ended) == (137, False)
    assert outcome.state_lines("S") == [
        "S task 5: running",
        "S task 4: exited",
        "S tasks 0-3: exited abnormally",
    ]


def test_of_successive_ends_alike_one_is_reported_where_it_is_asked() -> None:
    said: list[str] = []
    outcome = StepOutcome(said.append, tasks=4, reports_once=True)
    for node, task, status in (("n1", 0, 9), ("n2", 1, 9), ("n3", 2, 5 << 8), ("n4", 3, 9)):
        outcome.exited(node, task, status)
        outcome.report()
    assert said == [
        "error: n1: task 0: Killed",
        "error: n3: task 2: Exited with exit code 5",
        "error: n4: task 3: Killed",
    ]


@pytest.mark.parametrize(
    ("variables", "reports_once", "node"),
    [
        ({}, False, None),
        ({"SLURM_SRUN_REDUCE_TASK_EXIT_MSG": "1", "SLURM_STEP_KILLED_MSG_NODE_ID": "2"}, True, 2),
        ({"SLURM_SRUN_REDUCE_TASK_EXIT_MSG": "0", "SLURM_STEP_KILLED_MSG_NODE_ID": "x"}, False, None),
    ],
)
def test_variables_say_which_ends_are_reported(
    monkeypatch: Any, variables: dict[str, str], reports_once: bool, node: int | None
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    values, _ = read_values(COMMAND, ["x"], {})
    rules = rules_of(values, CreateStepReply())
    assert (rules.reports_once, rules.killed_note_node) == (reports_once, node)


@pytest.mark.parametrize("words", [["x"], ["-n1", "x", ":", "-n1", "x"]])
def test_a_sluid_must_be_a_jobs(monkeypatch: Any, capsys: Any, words: list[str]) -> None:
    """The id in it may be another job's."""
    client = FakeClient(ListJobs=[ListJobsReply()], AwaitAllocation=AllocationReply(job_id=7, state="RUNNING")).install(
        monkeypatch
    )
    sluid = format_sluid(1_700_000_000_000_000, 7)
    status, _, err = run_body(capsys, "srun", body, f"--jobid={sluid}", *words)
    assert (status, err) == (
        1,
        f"srun: error: Unable to confirm allocation for job {sluid}: Invalid job id specified\n",
    )
    assert [name for name, _ in client.calls if name == "CreateStep"] == []
    assert spec_of(f"--jobid={sluid}", "x") is not None
    values, _ = read_values(COMMAND, [f"--jobid={sluid}", "x"], {})
    assert values.all.number("jobid") == 7


def test_the_program_is_looked_for_before_anything_is_allocated(monkeypatch: Any, capsys: Any) -> None:
    client = FakeClient().install(monkeypatch)
    monkeypatch.setenv("SLURM_TEST_EXEC", "")
    assert run_body(capsys, "srun", body, "nosuchprogram") == (
        1, "", "srun: fatal: Can not execute nosuchprogram\n",
    )  # fmt: skip
    assert client.calls == []


def test_with_a_title_each_end_is_reported() -> None:
    said: list[str] = []
    outcome = StepOutcome(said.append, tasks=3, title="StepId=1.0")
    for task, status in ((0, 0), (1, 0), (2, 3 << 8)):
        outcome.exited("n1", task, status)
    outcome.report()
    assert said == [
        "Received task exit notification for 2 tasks of StepId=1.0 (status=0x0000).", "n1: tasks 0-1: Completed",
        "Received task exit notification for 1 task of StepId=1.0 (status=0x0300).",
        "error: n1: task 2: Exited with exit code 3",
    ]  # fmt: skip


@pytest.mark.parametrize("rules", [EndingRules(), EndingRules(disable_status=True)], ids=["", "-X"])
def test_repeated_ctrl_c_kills_tasks_that_ignore_it(rules: EndingRules) -> None:
    said: list[str] = []
    sent: list[int] = []
    watcher = FakeWatcher()
    later: list[Callable[[], None]] = []
    ending = StepEnding(Loop(), cast(Watchers, watcher), rules, said.append, sent.append, later.append)
    for _ in range(2 if rules.disable_status else 3):
        ending.interrupted("StepId=1.0", lambda: None)
    assert [n for n in sent if n != signal.SIGCONT] == [signal.SIGINT, signal.SIGKILL]
    assert (watcher.cancelled, len(later)) == ((1, 0) if rules.disable_status else (0, 1))
    first = "sending Ctrl-C to StepId=1.0" if rules.disable_status else "interrupt (one more within 1 sec to abort)"
    assert (said[0], said[-2 if rules.disable_status else -1]) == (first, "forcing job termination")


def test_the_controller_ends_a_step_after_its_tasks_had_the_interrupt() -> None:
    """Its SIGTERM takes another way to the nodes; the tasks have SIGINT first."""
    watcher = FakeWatcher()
    order: list[object] = []
    streams = [FakeStream(order, "a"), FakeStream(order, "b"), FakeStream(order, "gone", State.CLOSED)]
    loop = Loop()
    made: list[Delivery] = []

    def when_handled(action: Callable[[], None]) -> None:
        made.append(Delivery(loop, cast(list[StepStream], streams), action))

    ending = StepEnding(loop, cast(Watchers, watcher), EndingRules(), lambda text: None, order.append, when_handled)
    for _ in range(2):
        ending.interrupted("StepId=1.0", lambda: None)
    assert order == [signal.SIGINT, "a", "b"] and ending.has_begun
    for stream, cancelled in ((streams[0], 0), (streams[0], 0), (streams[2], 0), (streams[1], 1), (streams[1], 1)):
        made[0].handled(cast(StepStream, stream))
        assert watcher.cancelled == cancelled
    loop.close()


def test_an_interrupt_that_no_node_answers_is_not_waited_for() -> None:
    acted: list[str] = []
    loop = Loop()
    Delivery(loop, cast(list[StepStream], [FakeStream([], "gone", State.CLOSED)]), lambda: acted.append("at once"))
    assert acted == ["at once"]
    Delivery(loop, cast(list[StepStream], [FakeStream([], "silent")]), lambda: acted.append("in the end"))
    while len(acted) < 2:
        loop.turn()
    assert acted == ["at once", "in the end"]
    loop.close()


class FakeStream:
    def __init__(self, order: list[object], name: str, state: State = State.OPEN) -> None:
        self.state = state
        self._order = order
        self._name = name

    def send(self, data: bytes, *, keep: bool) -> None:
        self._order.append(self._name)


class FakeWatcher:
    cancelled = 0

    def start(self) -> None:
        """Polls nothing."""

    def cancel(self) -> None:
        self.cancelled += 1


def test_parts_have_their_own_destinations(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a", "b", "own")]
    a, b, own = (Sink(os.open(path, os.O_WRONLY | os.O_CREAT), name=path.name, owns=True) for path in paths)
    console = PartsConsole([(0, Console(a, own, label_width=1, own_err=own)), (2, Console(b, b, own_err=own))])
    assert console.sinks == [a, own, b]
    for task, channel in ((0, 1), (1, 2), (2, 1), (3, 2)):
        console.data(task, channel, b"%d\n" % task)
    console.data(1, 1, b"rest")
    console.say("srun: word")
    console.all_ended()
    assert console.flush() == []
    console.close()
    assert [path.read_text() for path in paths] == ["0: 0\n1: rest\n", "2\n3\n", "1: 1\nsrun: word\n"]


def test_words() -> None:
    assert ranks_text([7, 0, 1, 2, 9]) == "tasks 0-2,7,9"
    assert [words_of(s) for s in (0, 256, 15, 6 | 0x80)] == [
        "", "Exited with exit code 1", "Terminated", "Aborted (core dumped)",
    ]  # fmt: skip


# ---- --multi-prog --------------------------------------------------------------------------------------------------


def test_programs_of_ranks() -> None:
    text = "# all of them\n0 master 'in put' %t  # first\n\n1,3-5 worker \\\n  --offset=%o\n* true\n"
    programs = parse_config(text, "conf")
    assert [(p.ranks, p.argv, p.line) for p in programs] == [
        ("0", ["master", "in put", "%t"], 2),
        ("1,3-5", ["worker", "--offset=%o"], 4),
        ("*", ["true"], 6),
    ]
    tasks_of(programs, 100, "conf")


@pytest.mark.parametrize(
    ("text", "ntasks", "words"),
    [
        ("0 a\n2 b\n", 3, "Configuration file conf invalid, no record for task id 1"),
        ("0-3 a\n", 2, "conf: line 1: rank 3 is more than 1, the last of 2 tasks"),
        ("x a\n", 1, "conf: line 1: "),
        ("0\n", 1, "conf: line 1: no program for ranks"),
        ("\n0 'a\n", 1, "conf: line 2: No closing quotation"),
        ("0 a \\", 1, "conf: line 1: the last line ends in a backslash"),
        ("# nothing\n", 1, "conf: no programs in it"),
    ],
)
def test_a_mistake_in_the_file_names_its_line(text: str, ntasks: int, words: str) -> None:
    with pytest.raises(CommandError) as error:
        tasks_of(parse_config(text, "conf"), ntasks, "conf")
    assert words in error.value.text


def test_the_host_file_is_the_list_of_the_tasks_nodes(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_text("n2\nn1\nn2\n")
    env = {**INSIDE, "SLURM_HOSTFILE": str(path)}
    spec = spec_of("--jobid=12", env=env)
    fields = (spec.nodes_required, spec.distribution, spec.ntasks, spec.nodes_min, spec.overcommit)
    assert fields == ("n2,n1,n2", "arbitrary", 3, 2, False)
    spec = spec_of("--jobid=12", "-n2", env=env)
    assert (spec.nodes_required, spec.ntasks, spec.nodes_min) == ("n2,n1", 2, 2)
    named = spec_of("--jobid=12", "-w", "n5", env=env)
    assert (named.nodes_required, named.distribution) == ("n5", "")
    own = spec_of(env={"SLURM_HOSTFILE": str(path)})
    assert (own.nodes_required, own.distribution, own.ntasks, own.overcommit) == ("n2,n1,n2", "arbitrary", 3, True)
    with pytest.raises(CommandError, match="Failure getting NodeNames from hostfile"):
        spec_of(env={"SLURM_HOSTFILE": str(tmp_path / "none")})


def test_an_interactive_step_is_one_shell_on_the_first_node() -> None:
    """Whatever the job around it said of its tasks, as it does when salloc starts it."""
    job = {"SLURM_JOB_ID": "12", "SLURM_NNODES": "4", "SLURM_NTASKS": "16", "SLURM_NTASKS_PER_NODE": "4",
           "SLURM_GPUS_PER_TASK": "1", "SLURM_MEM_PER_CPU": "10"}  # fmt: skip
    spec = spec_of("--interactive", "--preserve-env", "--pty", "/bin/sh", env=job)
    assert (spec.interactive, spec.preserve_env, spec.pty, spec.ntasks, spec.nodes_min, spec.nodes_max, spec.relative) == (
        True, True, True, 1, 1, 1, 0,
    )  # fmt: skip
    assert not spec.ntasks_per_node and not spec.gres_per_task and not spec.HasField("mem_per_cpu_mb")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--exact", "--whole", "x"], "error: --exact and --whole are mutually exclusive."),
        (["-r1", "x"], "fatal: --relative option invalid for job allocation request"),
    ],
)
def test_options_that_do_not_go_together(capsys: Any, monkeypatch: Any, words: list[str], text: str) -> None:
    for name in ("SLURM_JOB_ID", "SLURM_JOBID"):
        monkeypatch.delenv(name, raising=False)
    assert run_body(capsys, "srun", body, *words) == (1, "", f"srun: {text}\n")


def test_28_a_step_is_not_exclusive_and_on_whole_nodes(capsys: Any, monkeypatch: Any) -> None:
    """--exclusive of a step is --exact; of an allocation it is the whole node."""
    client = FakeClient()
    client.install(monkeypatch)
    for job_id in ("12", ""):
        monkeypatch.setenv("SLURM_JOB_ID", job_id)
        _, _, err = run_body(capsys, "srun", body, "--exclusive", "--whole", "x")
        assert ("--exact and --whole are mutually exclusive" in err) == bool(job_id)


def test_what_would_be_is_asked_and_nothing_runs(capsys: Any, monkeypatch: Any) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    reply = SubmitJobReply(job_id=9, start_at_us=10**15, cpus=4, node_list="n[1-2]", partition="p")
    client = FakeClient(SubmitJob=reply)
    client.cluster = ClusterFile("tux")
    client.install(monkeypatch)
    status, out, err = run_body(capsys, "srun", body, "--test-only", "-n4", "-Mtux", "x")
    assert (status, out) == (0, "")
    assert err.startswith("srun: Job 9 to start at 2001-09-09T")
    assert err.endswith(" using 4 processors on nodes n[1-2] in partition p\n")
    assert client.request.test_only and client.request.job.ntasks == 4
    assert run_body(capsys, "srun", body, "-Mother", "x")[0] == 1
    client.answers["SubmitJob"] = PenstockError(Code.INVALID_PARTITION, TEXT[Code.INVALID_PARTITION])
    refused = (1, "", "allocation failure: Invalid partition name specified\n")
    assert run_body(capsys, "srun", body, "--test-only", "x") == refused


def test_programs_around_the_step(capfd: Any, tmp_path: Path) -> None:
    run_around("/bin/echo", ["prog", "a b"], "prolog")
    run_around("none", ["prog"], "prolog")
    run_around(None, ["prog"], "prolog")
    run_around("/bin/false", ["prog"], "epilog")
    run_around(str(tmp_path / "gone"), ["prog"], "epilog")
    out, err = capfd.readouterr()
    assert out == "prog a b\n"
    assert err == (
        f"srun: error: srun epilog failed status=1\nsrun: error: srun epilog {tmp_path}/gone: No such file or directory\n"
    )


@pytest.mark.parametrize(
    ("code", "first"),
    [
        (Code.INVALID_JOB_ID, "Unable to confirm allocation for job 9: Invalid job id specified"),
        (Code.JOB_PENDING, "Unable to confirm allocation for job 9: Job is pending execution"),
        (Code.ALREADY_DONE, "Slurm job 9 has expired"),
    ],
)
def test_a_job_without_its_nodes_has_no_steps(code: Code, first: str) -> None:
    class Desk:
        def call(self, *_: object) -> None:
            raise PenstockError(code, TEXT[code])

    with pytest.raises(CommandError) as error:
        StepMaker(Desk(), 9, print).create(StepSpec(), [], [])  # type: ignore[arg-type]  # a stand-in for the client
    check = "srun: Check SLURM_JOB_ID environment variable. Expired or invalid job 9"
    assert error.value.text == f"srun: error: {first}\n{check}"


@pytest.mark.parametrize("words", [["true"], ["-n1", "true", ":", "-n1", "true"]])
@pytest.mark.parametrize("error", [RuntimeError("x"), KeyboardInterrupt(), CommandError("x")])
def test_30_whatever_happens_to_srun_its_step_is_cancelled(
    monkeypatch: pytest.MonkeyPatch, words: list[str], error: BaseException
) -> None:
    def fails(*_: object, **__: object) -> NoReturn:
        raise error

    for module in ("cli.steps.session", "cli.steps.hetrun"):
        monkeypatch.setattr(f"{module}.Session", fails)
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    client = FakeClient(
        CreateStep=CreateStepReply(job_id=12, step_id=3),
        CancelJobs=JobResultsReply(),
        AwaitAllocation=AllocationReply(nodes=[NodeAllocation(node="n1", cpus=2)]),
    )
    client.cluster = ClusterFile("tux")
    client.install(monkeypatch)
    with pytest.raises(type(error)):
        body(words)
    cancelled = [list(request.filter.ids) for method, request in client.calls if method == "CancelJobs"]
    assert cancelled == [["12.3"]] * (1 + words.count(":"))
