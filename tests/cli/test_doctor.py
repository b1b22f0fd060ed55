"""The tasks of a step's nodes put together, and what is printed of them; answers of nodes that are none."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cli.listings import livesteps, stacks, taskends
from cli.listings.hangs import StepFinding, findings_of, found_in
from cli.listings.livesteps import LiveAnswer
from cli.steps import stepquery
from cli.steps.stepquery import Answers
from cli.subcommands.doctor import as_object, shown
from penstock.errors import PenstockError
from penstock.v1.accounting_pb2 import JobRecord, StepRecord
from penstock.v1.common_pb2 import ExitStatus, TaskEnds
from penstock.v1.steps_pb2 import AttachStepReply
from penstock.values.refusals import Code

JOB, STEP = JobRecord(job_id=7), StepRecord(step_id=0, state="RUNNING")


def answer(*tasks: list[int], **more: object) -> dict[str, object]:
    """A node's, of tasks that are (rank, seconds without CPU)."""
    rows = [[rank, quiet_s, quiet_s, quiet_s, 15, 9, 0] for rank, quiet_s in tasks]
    return {
        "after_s": 600,
        "is_script": 0,
        "tasks": rows,
        "pids": [[rank, 100 + rank, "S"] for rank, _ in tasks],
        **more,
    }


def found(**answers: dict[str, object]) -> StepFinding:
    return found_in(LiveAnswer(JOB, STEP, answers, {}))


def test_a_task_that_is_behind_those_of_other_nodes() -> None:
    one = found(n1=answer([0, 5], [1, 0]), n2=answer([2, 900]), n3=answer([3, 10]))
    assert [(s.kind, s.ranks) for s in one.suspicions] == [("behind", (2,))]
    assert [(task.node, task.pid) for task in one.by_suspicion()] == [
        ("n2", 102),
        ("n1", 100),
        ("n1", 101),
        ("n3", 103),
    ]
    assert list(shown(one)) == [
        "Step 7.0: 4 tasks on n1,n2,n3: suspected",
        "  behind: task 2: no CPU used for 900 s, while 3 of 4 tasks compute",
        "  TASK  NODE  PID  STATE  NO CPU FOR  NO I/O FOR  NOTHING WRITTEN FOR",
        "  0     n1    100  S        00:00:05    00:00:05             00:00:05",
        "  1     n1    101  S        00:00:00    00:00:00             00:00:00",
        "  2     n2    102  S        00:15:00    00:15:00             00:15:00",
        "  3     n3    103  S        00:00:10    00:00:10             00:00:10",
    ]


def test_gpus_and_the_flight_recorder_are_named() -> None:
    one = found(n1=answer([0, 0], gpus="8 GPUs are busy", recorder=b"/scratch/nccl_\x1b[31m"), n2=answer([1, 0]))
    lines = list(shown(one))
    assert lines[1] == "  spinning: on n1, 8 GPUs are busy" and len(one.by_suspicion()) == 2
    assert (
        lines[-1].startswith("  NCCL's flight recorder, if it has written: /scratch/nccl_") and "\x1b" not in lines[-1]
    )
    assert as_object(one)["flight_recorder"] == lines[-1].partition("written: ")[2].removesuffix("RANK on each node")


def test_what_is_not_watched_is_said() -> None:
    assert list(shown(found(n1=answer([0, 900], after_s=0)))) == [
        "Step 7.0: 1 task on n1: not watched: it has a terminal, no profile, or PenstockHangAfter is 0"
    ]
    assert list(shown(found(n1=answer()))) == ["Step 7.0: 0 tasks on no node: not watched: it has not been sampled yet"]
    assert (
        list(shown(found_in(LiveAnswer(JOB, STEP, {}, {"n1": "no answer in time"}))))[1]
        == "  node n1 does not answer: no answer in time"
    )


def test_a_step_that_may_not_be_asked_is_said_beside_the_others() -> None:
    refused = found_in(LiveAnswer(JOB, STEP, {}, {}, "Access/permission denied"))
    assert list(shown(refused)) == ["Step 7.0: cannot be asked: Access/permission denied"]
    assert as_object(refused) | {"refusal": "", "tasks": 0} == as_object(found()) | {"refusal": "", "tasks": 0}
    assert as_object(refused)["refusal"] == "Access/permission denied" and as_object(found())["refusal"] is None


def test_running_and_suspended_steps_are_asked_and_what_fails_hides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The controller refuses one step, a node of another is silent, and of very many only some are asked."""

    def attached(client: object, job_id: int, step_id: int) -> AttachStepReply:
        if step_id == 1:
            raise PenstockError(Code.ACCESS_DENIED, "Access/permission denied")
        return AttachStepReply(job_id=job_id, step_id=step_id)

    monkeypatch.setattr(livesteps, "attach", attached)
    monkeypatch.setattr(stepquery, "ask", lambda *_: Answers({"n1": answer([0, 1])}, {"n2": "no answer in time"}))
    steps = [StepRecord(step_id=number, state="SUSPENDED" if number == 2 else "RUNNING") for number in range(40)]
    ended = StepRecord(step_id=99, state="COMPLETED")
    notes: list[str] = []
    client: Any = SimpleNamespace(cluster=None)
    findings = list(findings_of(client, [JobRecord(job_id=7, steps=[ended, *steps])], notes.append))
    assert notes == ["more than 32 steps run; only the first are included"] and len(findings) == 32
    assert [one.answer.refusal for one in findings[:3]] == ["", "Access/permission denied", ""]
    assert [dict(one.answer.missing) for one in findings[:2]] == [{"n2": "no answer in time"}, {}]
    said: list[str] = []
    assert len(list(livesteps.live_answers(client, [JobRecord(job_id=7, steps=steps[:2])], "doctor", said.append))) == 1
    assert said == ["node n2 does not answer: no answer in time", "7.1: Access/permission denied"]


@pytest.mark.parametrize(
    "hostile",
    [
        {}, {"tasks": 5, "pids": "x", "after_s": "600", "gpus": 7, "recorder": []},
        {"tasks": [[1], "abc", [None] * 7, [0, -5, -5, -5, -5, -5, -5]], "pids": [[0], [0, "x", 9]], "after_s": 600},
        {"tasks": [[0, 10**30, 0, 0, 0, 0, 0]], "after_s": 600},
        {"after_s": 600, "tasks": [[b"x", [], {}, "", 0, 0, 0]]},
    ],
)  # fmt: skip
def test_answers_that_are_none(hostile: Any) -> None:
    one = found(n1=hostile, n2=answer([5, 0]))
    list(shown(one))
    as_object(one)


def test_a_job_has_many_tasks() -> None:
    lines = list(shown(found(n1=answer(*[[rank, 900 * (rank > 90)] for rank in range(100)]))))
    assert len(lines) == 2 + 1 + 64 + 1 and lines[-1] == "  and 36 more tasks"


DUMP = """\
Process {pid}: python3 train.py
Python v3.11.7 (/usr/bin/python3.11)

Thread {pid} (idle): "MainThread"
    {place} (distributed_c10d.py:3252)
    train (train.py:13)
Thread {other} (active): "loader"
    read (loader.py:{pid})
"""


#: As srun runs a command on one node: without its own options. One node has none for it.
SRUN = """\
#!/bin/sh
while [ "$1" != sh ]; do [ "$1" = -w ] && node=$2; shift; done
[ "$node" = n3 ] && { echo "srun: error: no" >&2; exit 1; }
exec "$@"
"""


@pytest.fixture
def spied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Gives a py-spy of these lines of Python, whose process is `pid`, and such an srun."""
    srun = tmp_path / "srun"
    srun.write_text(SRUN)
    srun.chmod(0o755)
    monkeypatch.setattr(stacks, "how_to_run", lambda name: [str(srun)])
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    def make(code: str) -> None:
        spy = tmp_path / "py-spy"
        spy.write_text(f"#!{sys.executable} -IS\nimport sys, time\npid = int(sys.argv[-1])\n{code}\n")
        spy.chmod(0o755)

    return make


def test_equal_stacks_are_shown_once_and_the_rarest_first(spied: Callable[[str], None]) -> None:
    """A node gives none, one of the others is elsewhere, and a task writes what looks like another's."""
    spied(
        'place = "waits_for_data" if pid == 101 else "all_reduce"\n'
        f'sys.stdout.write({DUMP!r}.format(pid=pid, other=pid + 1000, place=place) + "0 103\\n")'
    )
    one = found(n1=answer([0, 900], [1, 900]), n2=answer([2, 900]), n3=answer([3, 900]))
    groups = stacks.grouped(stacks.taken(7, one.by_suspicion()))
    lines = list(stacks.shown(groups))
    assert [line for line in lines if line.startswith("  S")] == [
        "  Stacks of task 1 (pid 101 on n1):",
        "  Stacks of task 3 (pid 103 on n3):",
        "  Stacks of tasks 0,2, at the same place, as of task 0 (pid 100 on n1):",
    ]
    assert lines[1:8] == [
        f"    {line}" for line in DUMP.format(pid=101, other=1101, place="waits_for_data").splitlines()[:7]
    ]
    assert "    srun: error: no" in lines
    document: Any = as_object(one, groups)
    assert [group["ranks"] for group in document["stacks"]] == [[1], [3], [0, 2]] and as_object(one)["stacks"] == []


def test_a_node_that_hangs_hides_nothing_of_what_was_taken_before(
    spied: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(stacks, "NODE_S", 2)
    fifo = tmp_path / "never"
    os.mkfifo(fifo)
    spied(f"print('Process', pid) if pid == 100 else open({str(fifo)!r})")
    one = found(n1=answer([0, 900], [1, 900]))
    try:
        assert [stack.lines for stack in stacks.taken(7, one.by_suspicion())] == [
            ("Process 100",),
            ("none within 2 s",),
        ]
    finally:
        os.close(os.open(fifo, os.O_RDWR))  # lets it end


def test_what_is_too_long_is_left_out_and_said(spied: Callable[[str], None]) -> None:
    """A task of lines without an end, one of very many lines, and one that is shown whole after them."""
    spied('sys.stdout.write({100: "x" * 20_000_000, 101: "at\\n" * 5_000, 102: "whole\\n"}[pid])')
    one = found(n1=answer([0, 900], [1, 900], [2, 900]))
    long, many, whole = (stack.lines for stack in stacks.taken(7, one.by_suspicion()))
    said = "(the rest is left out: of each task 2000 lines and 256 KiB at most)"
    assert len(long) == 2 and long[0].startswith("xxxx") and long[1] == said
    assert many == ("at",) * 2000 + (said,) and whole == ("whole",)


def test_a_program_that_writes_without_an_end_is_not_kept(spied: Callable[[str], None], tmp_path: Path) -> None:
    """An srun that is none of ours: no more than the bound is read into memory, of its errors as well."""
    (tmp_path / "srun").write_text("#!/bin/sh\nhead -c 30000000 /dev/zero\nhead -c 30000000 /dev/zero >&2\n")
    said = stacks.run_bounded([str(tmp_path / "srun")], 1000)
    assert (len(said.output), len(said.errors), said.has_ended) == (1000, stacks.WHY_BYTES_MAX, True)


def test_tasks_that_failed_of_steps_that_have_ended() -> None:
    """A later release may know of kinds that this one does not."""
    ends = [
        TaskEnds(node="n2", ranks="5", exit=ExitStatus(signal=9)),
        TaskEnds(node="n1", ranks="0-1", kind=cast(Any, 77)),
    ]
    failed = StepRecord(step_id=0, state="FAILED", tasks=1000, task_ends=ends, task_ends_left_out=3)
    job = JobRecord(job_id=7, steps=[failed, StepRecord(step_id=1, state="FAILED", tasks=2)])
    ((_, step),) = taskends.failed_steps([job])
    assert taskends.as_text(job, step) == (
        "Step 7.0 (FAILED): task 5 on n2 ended with signal 9; tasks 0-1 on n1 ended in an unknown way; "
        "3 more did not end with 0 (of 1,000 tasks)"
    )
    document = taskends.as_object(job, step)
    assert (document["job"], document["step"], document["tasks"], document["task_ends_left_out"]) == ("7", "0", 1000, 3)
    assert document["task_ends"] == [
        {"node": "n2", "ranks": "5", "kind": "EXITED", "exit_code": 0, "exit_signal": 9},
        {"node": "n1", "ranks": "0-1", "kind": "UNKNOWN", "exit_code": 0, "exit_signal": 0},
    ]
