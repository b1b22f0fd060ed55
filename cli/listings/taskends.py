"""How the tasks of ended steps ended, for `penstock doctor`: the groups of the records, in words and as documents."""

from collections.abc import Iterable, Iterator

from cli.base.document import Json
from cli.listings.sacct_fields import RecordRow
from penstock.v1.accounting_pb2 import JobRecord, StepRecord
from penstock.v1.common_pb2 import TaskEnds
from penstock.values.taskends import EndGroup, EndKind, sentence

_KINDS = {kind.value: kind for kind in EndKind}


def failed_steps(jobs: Iterable[JobRecord]) -> Iterator[tuple[JobRecord, StepRecord]]:
    """The steps with tasks that did not end with 0. The records were asked for with `with_task_ends`."""
    return ((job, step) for job in jobs for step in job.steps if step.task_ends or step.task_ends_left_out)


def as_text(job: JobRecord, step: StepRecord) -> str:
    """A line: `Step 7.0 (FAILED): task 5 on n2 ended with signal 9 (of 1,000 tasks)`."""
    groups = [_group(one) for one in step.task_ends]
    said = sentence(groups, step.task_ends_left_out, step.tasks)
    return f"Step {RecordRow(job, step).id_text()} ({step.state}): {said}"


def as_object(job: JobRecord, step: StepRecord) -> Json:
    """The same as a document."""
    name, _, step_name = RecordRow(job, step).id_text().rpartition(".")
    ends: list[Json] = [end_object(one) for one in step.task_ends]
    return {
        "job": name, "step": step_name, "state": step.state, "tasks": step.tasks, "task_ends": ends,
        "task_ends_left_out": step.task_ends_left_out,
    }  # fmt: skip


def end_object(one: TaskEnds) -> Json:
    """A group as a document."""
    return {
        "node": one.node, "ranks": one.ranks, "kind": _group(one).kind.name, "exit_code": one.exit.code,
        "exit_signal": one.exit.signal,
    }  # fmt: skip


def _group(one: TaskEnds) -> EndGroup:
    kind = _KINDS.get(one.kind, EndKind.UNKNOWN)  # a later release may know more
    return EndGroup(one.node, kind, one.exit.code, one.exit.signal, one.ranks)
