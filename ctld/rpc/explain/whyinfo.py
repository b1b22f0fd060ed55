"""Encodes the core's explanations of waiting jobs and of what fits. Names of users and arrays come from committed rows."""

from collections.abc import Sequence

from ctld.core.diagnose.fits import PartitionFits
from ctld.core.diagnose.why import Why
from ctld.core.records.job import JobRow
from ctld.rpc.gate.visibility import ALL_JOBS, JobVisibility
from ctld.runtime.snapshot import Snapshot
from penstock.v1 import explain_pb2 as pb
from penstock.values.hostlist import compress

US = 1_000_000


def shown_id(row: JobRow) -> str:
    """The id as users see it: 12, 12_4, 12_[5-9]."""
    if not row.array_job_id:
        return str(row.job_id)
    if row.array_task_id is not None:
        return f"{row.array_job_id}_{row.array_task_id}"
    return f"{row.array_job_id}_[{row.array_tasks.format() if row.array_tasks is not None else ''}]"


def _sees(visibility: JobVisibility, snapshot: Snapshot, job_id: int) -> bool:
    row = snapshot.jobs.get(job_id)
    return row is not None and visibility.sees(row)


def why_reply(reply: pb.WhyJobReply, why: Why, snapshot: Snapshot, visibility: JobVisibility) -> pb.WhyJobReply:
    """Encodes the core's explanation. Jobs that are not visible are counted without their names."""
    reply.obstacles.extend(
        pb.Obstacle(reason=o.reason.value, text=visibility.redact(o.text, snapshot.jobs), at_us=o.at_us)
        for o in why.obstacles
    )
    if why.planned is not None:
        reply.planned.CopyFrom(
            pb.PlannedStart(
                start_at_us=why.planned.start_s * US, node_list=compress(why.planned.nodes),
                partition=why.planned.partition, if_released=why.if_released,
            )
        )  # fmt: skip
    for n in why.needs:
        resources = [pb.ResourceNeeded(name=r.name, amount=r.amount, nodes_free=r.nodes_free) for r in n.resources]
        reply.needs.append(
            pb.NodesNeeded(
                partition=n.partition, nodes_wanted=n.nodes_wanted, nodes_total=n.nodes_total,
                nodes_qualify=n.nodes_qualify, nodes_up=n.nodes_up, nodes_free=n.nodes_free, resources=resources,
                next_free_at_us=n.next_free_s * US, next_free_node=n.next_free_node,
                enough_free_at_us=n.enough_free_s * US,
            )
        )  # fmt: skip
    reply.licenses.extend(
        pb.LicensesNeeded(name=one.name, wanted=one.wanted, free=max(0, one.free), enough_at_us=one.enough_s * US)
        for one in why.licenses
    )
    reply.reservations.extend(
        pb.ReservationInTheWay(name=r.name, start_at_us=r.from_s * US, end_at_us=r.to_s * US, nodes=r.nodes)
        for r in why.reservations
    )
    for leaf in why.leaves:
        seen = [i for i in leaf.jobs if visibility is ALL_JOBS or _sees(visibility, snapshot, i)]
        more = leaf.more + len(leaf.jobs) - len(seen)
        reply.leaves.add(name=leaf.name, nodes=leaf.nodes, jobs=seen, jobs_more=more, is_owned=leaf.is_owned)
    unseen = 0
    for other in why.in_front:
        row = snapshot.jobs.get(other.job_id)
        if visibility is not ALL_JOBS and not _sees(visibility, snapshot, other.job_id):
            unseen += 1
            continue
        reply.in_front.append(
            pb.JobInFront(
                job_id=other.job_id, shown_id=shown_id(row) if row else str(other.job_id),
                user_name=row.user_name if row else "", nodes=other.nodes_wanted,
                start_at_us=max(other.start_s, 0) * US, node_list=compress(other.nodes) if other.nodes else "",
            )
        )  # fmt: skip
    reply.in_front_more = why.in_front_more + unseen
    reply.may_preempt = why.may_preempt
    reply.victims.extend(
        job_id for job_id in why.victims if visibility is ALL_JOBS or _sees(visibility, snapshot, job_id)
    )
    reply.hints.extend(
        pb.Hint(options=h.options, start_at_us=h.start_s * US, node_list=compress(h.nodes), starts_now=h.starts_now)
        for h in why.hints
    )
    return reply


def fits_reply(now_us: int, partitions: Sequence[PartitionFits]) -> pb.FitsReply:
    """Encodes the shapes of all partitions."""
    return pb.FitsReply(
        now_us=now_us,
        partitions=[
            pb.PartitionFits(
                partition=partition.name,
                state=partition.state,
                nodes_up=partition.nodes_up,
                shapes=[
                    pb.FittingShape(
                        kind=f.kind, nodes=f.nodes, cpus=f.cpus, mem_mb=f.mem_mb, gres_name="gpu" if f.gpus else "",
                        gres=f.gpus, limit_s=f.limit_s, node_list=compress(f.names),
                    )
                    for f in partition.fits
                ],
            )
            for partition in partitions
        ],
    )  # fmt: skip
