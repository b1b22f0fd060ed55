"""`scontrol show partition|reservation|step|licenses --json`: the structures of Slurm's data_parser.

Unsupported fields have the value that Slurm gives to unset ones.
"""

from collections.abc import Iterable

from cli.base.document import Json, document, minutes, number, time_object
from penstock.v1.controller_pb2 import LicenseInfo, PartitionInfo, ReservationInfo
from penstock.v1.steps_pb2 import StepInfo
from penstock.values.exitcode import format_exit
from penstock.values.hostlist import compress, expand
from penstock.values.jobid import format_sluid, format_step
from penstock.values.nodesharing import exclusive_word


def partitions_document(partitions: Iterable[PartitionInfo], cluster: str, now_us: int) -> Json:
    """The whole answer."""
    items = [partition_object(one, cluster) for one in partitions]
    return document("partitions", items, cluster, last_update=time_object(now_us))


def partition_object(part: PartitionInfo, cluster: str) -> Json:
    """One partition."""
    word = part.over_subscribe.partition(":")[0]
    default_time = number(None) if not part.default_time_s else minutes(part.default_time_s)
    return {
        "nodes": {
            "allowed_allocation": compress(part.alloc_nodes),
            "configured": compress(part.configured_nodes or part.nodes),
            "total": part.total_nodes or len(part.nodes),
        },
        "accounts": {"allowed": ",".join(part.allow_accounts), "deny": ",".join(part.deny_accounts)},
        "groups": {"allowed": ",".join(part.allow_groups)},
        "qos": {"allowed": ",".join(part.allow_qos), "deny": ",".join(part.deny_qos), "assigned": part.qos},
        "alternate": part.alternate,
        "tres": {"billing_weights": part.tres_billing_weights, "configured": part.tres},
        "cluster": cluster,
        "select_type": [],
        "cpus": {"task_binding": 0, "total": part.total_cpus},
        "defaults": {
            "memory_per_cpu": part.def_mem_per_cpu_mb,
            "partition_memory_per_cpu": number(part.def_mem_per_cpu_mb or None),
            "partition_memory_per_node": number(part.def_mem_per_node_mb or None),
            "time": default_time,
            "job": "",
        },
        "grace_time": part.grace_time_s,
        "maximums": _maximums(part),
        "minimums": {"nodes": max(part.min_nodes, 0)},
        "name": part.name,
        "node_sets": "",
        "priority": {"job_factor": part.priority_job_factor, "tier": part.priority_tier},
        "timeouts": {"resume": number(None), "suspend": number(None)},
        "partition": {
            "state": [part.state],
            "exclusive": exclusive_word(part.exclusive_topo, part.exclusive_user, False, word == "EXCLUSIVE"),
            "oversubscribe": "NO" if word == "EXCLUSIVE" else part.over_subscribe or "NO",
        },
        "suspend_time": number(None),
        "topology": "",
    }


def _maximums(part: PartitionInfo) -> Json:
    word, _, jobs = (part.over_subscribe or "NO").partition(":")
    shares = int(jobs) if jobs.isdigit() else 0 if word == "EXCLUSIVE" else 1
    return {
        "cpus_per_node": number(part.max_cpus_per_node, infinite=part.max_cpus_per_node <= 0),
        "cpus_per_socket": number(part.max_cpus_per_socket, infinite=part.max_cpus_per_socket <= 0),
        "memory_per_cpu": part.max_mem_per_cpu_mb,
        "partition_memory_per_cpu": number(part.max_mem_per_cpu_mb or None),
        "partition_memory_per_node": number(part.max_mem_per_node_mb or None),
        "nodes": number(part.max_nodes, infinite=part.max_nodes <= 0),
        "shares": shares,
        "oversubscribe": {"jobs": shares, "flags": ["force"] if word == "FORCE" else []},
        "time": minutes(part.max_time_s),
        "over_time_limit": number(part.over_time_limit_s // 60 or None),
    }


def reservations_document(reservations: Iterable[ReservationInfo], cluster: str, now_us: int) -> Json:
    """The whole answer."""
    items = [reservation_object(one) for one in reservations]
    return document("reservations", items, cluster, last_update=time_object(now_us))


def reservation_object(resv: ReservationInfo) -> Json:
    """One reservation."""
    return {
        "accounts": ",".join(resv.accounts),
        "burst_buffer": "",
        "core_count": resv.core_count,
        "core_specializations": [],
        "end_time": time_object(resv.end_at_us),
        "features": resv.features,
        "flags": [flag.partition("=")[0] for flag in resv.flags.split(",") if flag],
        "groups": ",".join(resv.groups),
        "licenses": ",".join(resv.licenses),
        "max_start_delay": 0,
        "name": resv.name,
        "node_count": resv.node_count,
        "node_list": resv.node_list,
        "partition": resv.partition,
        "purge_completed": {"time": number(None)},
        "start_time": time_object(resv.start_at_us),
        "watts": number(None),
        "tres": resv.tres,
        "users": ",".join(resv.users),
        "qos": ",".join(resv.qos),
        "comment": resv.comment,
    }


def steps_document(steps: Iterable[StepInfo], cluster: str, now_us: int) -> Json:
    """The whole answer."""
    items = [step_object(one, cluster, now_us) for one in steps]
    return document("steps", items, cluster, last_update=time_object(now_us))


def step_object(step: StepInfo, cluster: str, now_us: int) -> Json:
    """One live step."""
    name = format_step(step.step_id)
    sluid = format_sluid(step.job_submit_at_us, step.job_id) if step.job_submit_at_us else ""
    running_s = max(0, now_us - step.start_at_us) // 1_000_000 if step.start_at_us else 0
    return {
        "id": {"job_id": step.job_id, "step_id": name, "step_het_component": number(None), "sluid": sluid},
        "array": {
            "job_id": step.array_job_id,
            "task_id": number(step.array_task_id if step.HasField("array_task_id") else None),
        },
        "name": step.name or name,
        "cluster": cluster,
        "state": [step.state],
        "partition": step.partition,
        "user": {"id": step.user_id, "name": step.user_name},
        "account": step.account,
        "nodes": {"count": len(expand(step.node_list)) if step.node_list else 0, "range": step.node_list},
        "tasks": {"count": step.tasks},
        "cpus": {"count": step.cpus},
        "tres": {"allocated": step.tres},
        "reserved_ports": ",".join(map(str, step.plan.ports)),
        "submit_host": step.spec.submit_host,
        "submit_line": step.spec.submit_line,
        "time": {
            "start": time_object(step.start_at_us),
            "limit": minutes(step.time_limit_s or -1),
            "running": running_s,
        },
        "exit_code": format_exit(step.exit.code, step.exit.signal),
    }


def licenses_document(licenses: Iterable[LicenseInfo], cluster: str, now_us: int) -> Json:
    """The whole answer."""
    items = [
        {
            "LicenseName": one.name,
            "Nodes": one.nodes,
            "Total": one.total,
            "Used": one.used,
            "Free": max(0, one.total - one.used),
            "Remote": one.remote,
            "Reserved": one.reserved,
            "LastConsumed": 0,
            "LastDeficit": 0,
            "LastUpdate": 0,
        }
        for one in licenses
    ]
    return document("licenses", items, cluster, last_update=time_object(now_us))
