"""What a committed row is as a change: its kind and id, what is visible of it, who may see it, and the message."""

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import NamedTuple

from ctld.core.records.accounting_rows import AssocRow
from ctld.core.records.effects import Batch
from ctld.core.records.gpu import Gpu
from ctld.core.records.job import JobRow
from ctld.core.records.node import NodeRow
from ctld.core.records.qos import Qos
from ctld.core.records.reservation import Reservation
from ctld.core.state.state import ClusterState
from ctld.rpc.cluster.clusterinfo import base_state, flags_of
from ctld.rpc.jobs.jobcolumns import partition_of
from ctld.rpc.jobs.jobinfo import end_at, shown_state
from penstock.v1 import common_pb2, watch_pb2
from penstock.values.hostlist import compress
from penstock.values.jobid import format_job
from penstock.values.states import JobState

JOB, NODE, GPU, RESERVATION, LIMIT = KINDS = ("JOB", "NODE", "GPU", "RESERVATION", "LIMIT")


class ObjectChange(NamedTuple):
    """`visible`: two with equal ones look the same to a watcher. `uid` and `account` are a job's owner; `account` and `user`
    are an association's."""

    kind: str
    key: Hashable
    visible: Hashable
    message: Callable[[], watch_pb2.ChangedObject]
    uid: int = -1
    account: str = ""
    reservation: Reservation | None = None
    user: str = ""


def changes_of(batch: Batch, state: ClusterState) -> Iterator[ObjectChange]:
    """The changes of a batch. States of nodes are the core's present ones: they follow from its jobs."""
    for row in batch.jobs:
        if row.state is not JobState.REQUEUED:  # an ended attempt; the job's own row follows
            yield _of_job(row)
    for node in batch.nodes:
        if node.name in state.nodes:
            yield _of_node(node, state)
    for gpu in batch.gpus:
        yield _of_gpu(gpu)
    for node_name, uuid in batch.gpus_gone:
        yield _gone(GPU, uuid, node_name)
    for reservation in batch.reservations:
        yield _of_reservation(reservation)
    for name in batch.reservations_gone:
        yield _gone(RESERVATION, name, "")
    for assoc in batch.assocs:
        if not assoc.made_by_itself:  # which has no limits
            yield _of_assoc(assoc)
    for qos in batch.qos:
        yield _of_qos(qos)
    for name in batch.qos_gone:
        yield _of_qos(Qos(name, deleted=True))


class FreshChanges:
    """Leaves out what looks as it did: a new reason of a waiting job, a priority."""

    def __init__(self) -> None:
        self._visible: dict[tuple[str, Hashable], int] = {}  # by object: the hash of what was visible of it

    def know(self, rows: Iterable[JobRow]) -> None:
        """Takes jobs as they are: no change."""
        for row in rows:
            self._is_fresh(_of_job(row))

    def of(self, batch: Batch, state: ClusterState) -> Iterator[ObjectChange]:
        """The changes of a batch that can be seen."""
        yield from filter(self._is_fresh, changes_of(batch, state))
        for job_id in batch.purged:
            self._visible.pop((JOB, job_id), None)

    def clear(self) -> None:
        """Forgets everything."""
        self._visible.clear()

    def _is_fresh(self, change: ObjectChange) -> bool:
        key = (change.kind, change.key)
        visible = hash(change.visible)
        if self._visible.get(key) == visible:
            return False
        self._visible[key] = visible
        return True


def _of_job(row: JobRow) -> ObjectChange:
    request = row.request
    visible = (
        row.state, row.attempt, row.hold, partition_of(row), row.alloc, row.start_at_us, row.end_at_us, row.time_limit_s,
        row.array_task_id, row.request_id, row.stopped, row.exit_code, row.exit_signal,
    )  # fmt: skip

    def message() -> watch_pb2.ChangedObject:
        return watch_pb2.ChangedObject(
            kind=JOB, id=format_job(row.job_id, row.array_job_id, row.array_task_id), state=shown_state(row),
            reason=row.reason.value, node_list=compress(part.node for part in row.alloc) if row.alloc else "",
            start_at_us=row.start_at_us, end_at_us=end_at(row), job_id=row.job_id, array_job_id=row.array_job_id,
            user_name=row.user_name, user_id=row.user_id, account=request.account, partition=partition_of(row),
            name=request.name, exit=common_pb2.ExitStatus(code=row.exit_code, signal=row.exit_signal), attempt=row.attempt,
        )  # fmt: skip

    return ObjectChange(JOB, row.job_id, visible, message, row.user_id, request.account)


def _of_node(row: NodeRow, state: ClusterState) -> ObjectChange:
    node = state.nodes[row.name]

    def message() -> watch_pb2.ChangedObject:
        return watch_pb2.ChangedObject(
            kind=NODE, id=row.name, state=base_state(node), reason=row.reason, flags=flags_of(state, node)
        )

    return ObjectChange(NODE, row.name, (row.flags, row.reason, row.comment), message)


def _of_gpu(gpu: Gpu) -> ObjectChange:
    def message() -> watch_pb2.ChangedObject:
        return watch_pb2.ChangedObject(
            kind=GPU, id=gpu.uuid, state=gpu.state().name, reason=gpu.reason(), node_list=gpu.node
        )

    return ObjectChange(GPU, (gpu.node, gpu.uuid), (gpu.state(), gpu.reason(), gpu.slot, gpu.work_kind), message)


def _of_reservation(reservation: Reservation) -> ObjectChange:
    def message() -> watch_pb2.ChangedObject:
        return watch_pb2.ChangedObject(
            kind=RESERVATION, id=reservation.name, start_at_us=reservation.start_at_us, end_at_us=reservation.end_at_us,
            node_list=compress(part.node for part in reservation.parts),
        )  # fmt: skip

    return ObjectChange(RESERVATION, reservation.name, reservation, message, reservation=reservation)


def _of_assoc(row: AssocRow) -> ObjectChange:
    """The limits of an account, or of a user in one. Its id has sacctmgr's words."""
    words = (("account", row.account), ("user", row.user_name), ("partition", row.partition))

    def message() -> watch_pb2.ChangedObject:
        return watch_pb2.ChangedObject(
            kind=LIMIT, id=" ".join(f"{word}={value}" for word, value in words if value), is_gone=row.deleted,
            account=row.account, user_name=row.user_name, partition=row.partition,
        )  # fmt: skip

    visible = (row.limits, row.qos, row.default_qos, row.budget, row.deleted)
    return ObjectChange(LIMIT, row.assoc_id, visible, message, account=row.account, user=row.user_name)


def _of_qos(qos: Qos) -> ObjectChange:
    def message() -> watch_pb2.ChangedObject:
        return watch_pb2.ChangedObject(kind=LIMIT, id=f"qos={qos.name}", name=qos.name, is_gone=qos.deleted)

    return ObjectChange(LIMIT, qos.name, qos, message)


def _gone(kind: str, name: str, node: str) -> ObjectChange:
    key: Hashable = (node, name) if kind == GPU else name
    return ObjectChange(
        kind, key, None, lambda: watch_pb2.ChangedObject(kind=kind, id=name, node_list=node, is_gone=True)
    )
