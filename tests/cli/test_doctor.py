"""The tasks of a step's nodes put together, and what is printed of them; answers of nodes that are none."""

import subprocess
from types import SimpleNamespace
from typing import Any

import pytest

from cli.listings import livesteps, stacks
from cli.listings.hangs import StepFinding, findings_of, found_in
from cli.listings.livesteps import LiveAnswer
from cli.steps import stepquery
from cli.steps.stepquery import Answers
from cli.subcommands.doctor import as_object, shown
from penstock.errors import PenstockError
from penstock.v1.accounting_pb2 import JobRecord, StepRecord
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


def test_equal_stacks_are_shown_once_and_the_rarest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node gives none, one of the others is elsewhere, and a task writes what looks like another's."""
    asked: dict[str, list[str]] = {}

    def srun(words: list[str], **_: object) -> SimpleNamespace:
        node = words[words.index("-w") + 1]
        mark, *pids = words[words.index("sh", words.index("sh") + 1) + 1 :]
        asked[node] = pids
        if node == "n3":
            return SimpleNamespace(returncode=1, stdout=b"", stderr=b"srun: error: no")
        text = ""
        for pid in pids:
            place = "waits_for_data" if pid == "101" else "all_reduce"
            text += f"{mark} {pid}\n" + DUMP.format(pid=pid, other=int(pid) + 1000, place=place) + "0 103\n"
        return SimpleNamespace(returncode=0, stdout=text.encode(), stderr=b"")

    monkeypatch.setattr(subprocess, "run", srun)
    one = found(n1=answer([0, 900], [1, 900]), n2=answer([2, 900]), n3=answer([3, 900]))
    groups = stacks.grouped(stacks.taken(7, one.by_suspicion()))
    assert asked == {"n1": ["100", "101"], "n2": ["102"], "n3": ["103"]}
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


def test_a_node_that_hangs_hides_nothing_of_what_was_taken_before(monkeypatch: pytest.MonkeyPatch) -> None:
    def srun(words: list[str], timeout: float, **_: object) -> SimpleNamespace:
        mark = words[words.index("sh", words.index("sh") + 1) + 1]
        raise subprocess.TimeoutExpired(words, timeout, f"{mark} 100\nProcess 100\n{mark} 101\n".encode())

    monkeypatch.setattr(subprocess, "run", srun)
    one = found(n1=answer([0, 900], [1, 900]))
    assert [stack.lines for stack in stacks.taken(7, one.by_suspicion())] == [("Process 100",), ("none within 30 s",)]
