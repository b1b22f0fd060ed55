"""Jobs as documents (see cli.document): squeue --json, scontrol show job --json.

States are lists of words. Keys for things that this version has not are present with the value that
Slurm gives to what is not set, where tools index them without asking; the rare ones are left out.
"""

import json
from collections.abc import Callable, Iterable

from cli.document import Json, document, exit_object, minutes, number, time_object
from cli.format import text_of
from cli.jobids import end_at, start_at
from cli.nodegres import gres, gres_used, job_gres
from cli.squeue_fields import cpus_per_node, gres_per_node
from penstock.v1.common_pb2 import ExitStatus
from penstock.v1.controller_pb2 import JobInfo, NodeInfo, PartitionInfo
from penstock.values.hostlist import expand
from penstock.values.runtime import ran_us
from penstock.values.tres import parse_tres


def jobs_document(jobs: Iterable[JobInfo], cluster: str, now_us: int) -> Json:
    """squeue --json, scontrol show job --json."""
    items = [job_object(job, cluster) for job in jobs]
    return document("jobs", items, cluster, last_backfill=time_object(0), last_update=time_object(now_us))


def job_object(job: JobInfo, cluster: str) -> Json:
    """One job."""
    return _job_identity(job, cluster) | _job_life(job) | _job_request(job) | _job_resources(job)


def _job_identity(job: JobInfo, cluster: str) -> Json:
    request = job.request
    task = job.array_task_id if job.HasField("array_task_id") else None
    return {
        "account": request.account,
        "admin_comment": job.admin_comment,
        "allocating_node": request.submit_host,
        "array_job_id": number(job.array_job_id),
        "array_task_id": number(task),
        "array_max_tasks": number(job.array_throttle),
        "array_task_string": job.array_tasks,
        "association_id": 0,
        "batch_flag": True,
        "batch_host": job.batch_node,
        "cluster": cluster,
        "command": "" if request.command == "(null)" else request.command,
        "comment": request.comment,
        "group_id": job.group_id,
        "group_name": job.group_name,
        "het_job_id": number(job.het_job_id),
        "het_job_id_set": job.het_job_ids,
        "het_job_offset": number(job.het_offset),
        "job_id": job.job_id,
        "name": request.name,
        "partition": job.partition,
        "qos": request.qos,
        "resv_name": request.reservation,
        "user_id": job.user_id,
        "user_name": job.user_name,
        "wckey": request.wckey,
    }


def _job_life(job: JobInfo) -> Json:
    return {
        "job_state": _job_state(job.state),
        "state_reason": job.reason or "None",
        "state_description": job.reason_detail,
        "priority": number(job.priority),
        "hold": bool(job.hold),
        "accrue_time": time_object(job.eligible_at_us),
        "submit_time": time_object(job.submit_at_us),
        "eligible_time": time_object(job.eligible_at_us),
        "start_time": time_object(start_at(job)),
        "end_time": time_object(end_at(job)),
        "last_sched_evaluation": time_object(job.last_sched_at_us),
        "deadline": time_object(0),
        "preempt_time": time_object(job.preempt_at_us),
        "preemptable_time": time_object(0),
        "resize_time": time_object(0),
        "suspend_time": time_object(job.suspended_at_us),
        "pre_sus_time": time_object(_pre_suspend_us(job)),
        "time_limit": minutes(job.time_limit_s),
        "time_minimum": number(0),
        "exit_code": exit_object(job.exit),
        "derived_exit_code": exit_object(ExitStatus()),
        "restart_cnt": job.attempt,
        "requeue": job.request.requeue,
        "reboot": False,
        "flags": [],
    }


def _pre_suspend_us(job: JobInfo) -> int:
    return ran_us(job.suspended_at_us, job.start_at_us, job.suspended_us) if job.suspended_at_us else 0


def _job_state(state: str) -> list[str]:
    """What is a state here is a base state and a flag in Slurm."""
    flags = {"CONFIGURING": ["RUNNING", "CONFIGURING"], "COMPLETING": ["RUNNING", "COMPLETING"]}
    return flags.get(state, [state])


def _job_request(job: JobInfo) -> Json:
    request = job.request
    gres = gres_per_node(job)
    per_cpu = job.mem_mb if job.mem_is_per_cpu else None
    per_node = None if job.mem_is_per_cpu else job.mem_mb
    out, err = text_of(job.std_out), text_of(job.std_err or job.std_out)
    files = {"standard_input": text_of(job.std_in) or "/dev/null", "standard_output": out, "standard_error": err}
    expanded = {"stdin_expanded": files["standard_input"], "stdout_expanded": out, "stderr_expanded": err}
    return {
        "contiguous": False,
        "core_spec": 32767,
        "thread_spec": 32767,
        "cores_per_socket": number(None),
        "cpus_per_task": number(request.cpus_per_task or None),
        "dependency": job.dependency,
        "excluded_nodes": request.nodes_excluded,
        "required_nodes": request.nodes_required,
        "scheduled_nodes": job.planned_node_list,
        "features": request.features,
        "licenses": request.licenses,
        "max_cpus": number(0),
        "max_nodes": number(request.nodes_max),
        "memory_per_cpu": number(per_cpu),
        "memory_per_node": number(per_node),
        "minimum_cpus_per_node": number(cpus_per_node(job)),
        "minimum_tmp_disk_per_node": number(0),
        "nice": request.nice,
        "shared": ["none"] if request.exclusive else [],
        "sockets_per_node": number(None),
        "tasks_per_core": number(None),
        "tasks_per_node": number(request.ntasks_per_node),
        "tasks_per_socket": number(None),
        "tasks_per_board": number(0),
        "threads_per_core": number(None),
        "tres_per_job": "",
        "tres_per_node": "" if gres == "N/A" else gres,
        "tres_per_socket": "",
        "tres_per_task": "",
        "tres_req_str": job.tres_req,
        "tres_alloc_str": job.tres_alloc,
        "billable_tres": number(parse_tres(job.tres_alloc).get("billing") if job.tres_alloc else None),
        "submit_line": request.submit_line,
        "current_working_directory": text_of(request.work_dir),
        **files,
        **expanded,
    }


def _job_resources(job: JobInfo) -> Json:
    nodes = expand(job.node_list) if job.node_list else []
    allocation = [
        {
            "index": index,
            "name": a.node,
            "cpus": {"count": a.cpus, "used": 0},
            "memory": {"used": 0, "allocated": a.mem_mb},
        }
        for index, a in enumerate(job.allocation)
    ]
    used = [job_gres(place) for place in job.allocation if place.gres]
    resources: Json | None = None
    if nodes:
        held = {
            "count": len(nodes),
            "select_type": ["AVAILABLE"],
            "list": job.node_list,
            "whole": job.request.exclusive,
        }
        resources = {
            "select_type": ["CPU", "MEMORY"],
            "nodes": held | {"allocation": allocation},
            "cpus": job.cpus,
            "threads_per_core": number(None),
        }
    return {
        "nodes": job.node_list,
        "node_count": number(job.nodes),
        "cpus": number(job.cpus),
        "tasks": number(job.tasks),
        "gres_detail": used,
        "job_resources": resources or {},
    }


Pair = tuple[int, PartitionInfo, list[NodeInfo]]


def nodes_document(pairs: Iterable[Pair], cluster: str, now_us: int, by_node: bool) -> Json:
    """sinfo --json: nodes of a partition that are the same in all that is shown are one item (-N: each is one)."""
    items: list[Json] = []
    for _, partition, nodes in pairs:
        groups: dict[str, tuple[Json, list[NodeInfo]]] = {}
        for node in nodes:
            shown = node_group_object([node], partition, cluster)
            alike = {key: value for key, value in shown.items() if key != "nodes"}
            key = node.name if by_node else json.dumps(alike, sort_keys=True)
            groups.setdefault(key, (shown, []))[1].append(node)
        items += [node_group_object(members, partition, cluster) for _, members in groups.values()]
    return document("sinfo", items, cluster)


def node_group_object(nodes: list[NodeInfo], partition: PartitionInfo, cluster: str) -> Json:
    """One line of sinfo."""
    from cli.nodestate import json_words
    from cli.sinfo_fields import Group, counts, cpu_counts

    group = Group(partition, nodes)
    node = nodes[0]
    used, idle, other, total = counts(group)
    cpus_used, cpus_idle, cpus_other, cpus = cpu_counts(group)
    empty = "" if not node.gres else gres(node)
    free = [n.free_memory_mb if n.version else None for n in nodes]
    known = [mb for mb in free if mb is not None]
    return {
        "port": 0,
        "node": {"state": json_words(node)},
        "nodes": {
            "allocated": used,
            "idle": idle,
            "other": other,
            "total": total,
            "hostnames": [n.hostname or n.name for n in nodes],
            "addresses": [n.addr or n.name for n in nodes],
            "nodes": [n.name for n in nodes],
        },
        "cpus": {
            **_span(nodes, lambda n: n.cpus),
            "load": _span(nodes, lambda n: n.cpu_load_centi),
            "per_node": {"max": number(partition.max_cpus_per_node, infinite=partition.max_cpus_per_node <= 0)},
            "idle": cpus_idle,
            "allocated": cpus_used,
            "other": cpus_other,
            "total": cpus,
        },
        "sockets": _span(nodes, lambda n: n.sockets),
        "cores": _span(nodes, lambda n: n.cores_per_socket),
        "threads": _span(nodes, lambda n: n.threads_per_core),
        "disk": _span(nodes, lambda n: n.tmp_disk_mb),
        "memory": {
            **_span(nodes, lambda n: n.real_memory_mb),
            "free": {"minimum": number(min(known, default=None)), "maximum": number(max(known, default=None))},
            "allocated": sum(n.mem_alloc_mb for n in nodes),
        },
        "weight": _span(nodes, lambda n: n.weight),
        "features": {"total": ",".join(node.features), "active": ",".join(node.features), "planned": ""},
        "gres": {"total": empty, "used": gres_used(node)},
        "cluster": cluster,
        "comment": node.comment,
        "extra": "",
        "reason": {"description": node.reason, "time": time_object(node.reason_at_us), "user": node.reason_user},
        "reservation": node.reservation,
        "partition": partition_object(partition),
    }


def _span(nodes: Iterable[NodeInfo], value: Callable[[NodeInfo], int]) -> Json:
    values = [value(node) for node in nodes]
    return {"minimum": min(values), "maximum": max(values)}


def partition_object(partition: PartitionInfo) -> Json:
    """A partition's settings."""
    from penstock.values.hostlist import compress

    unlimited = partition.max_nodes <= 0
    return {
        "name": partition.name,
        "nodes": {
            "allowed_allocation": "",
            "configured": compress(partition.configured_nodes or partition.nodes),
            "total": partition.total_nodes or len(partition.nodes),
        },
        "accounts": {"allowed": ",".join(partition.allow_accounts), "deny": ",".join(partition.deny_accounts)},
        "groups": {"allowed": ",".join(partition.allow_groups)},
        "qos": {"allowed": "", "deny": "", "assigned": ""},
        "alternate": "",
        "tres": {"billing_weights": "", "configured": partition.tres},
        "cluster": "",
        "cpus": {"task_binding": 0, "total": partition.total_cpus},
        "defaults": {
            "memory_per_cpu": partition.def_mem_per_cpu_mb,
            "partition_memory_per_cpu": number(partition.def_mem_per_cpu_mb or None),
            "partition_memory_per_node": number(partition.def_mem_per_node_mb or None),
            "time": number(-(-partition.default_time_s // 60) or None, infinite=partition.default_time_s < 0),
            "job": "",
        },
        "grace_time": 0,
        "maximums": {
            "cpus_per_node": number(partition.max_cpus_per_node, infinite=partition.max_cpus_per_node <= 0),
            "memory_per_cpu": partition.max_mem_per_cpu_mb,
            "nodes": number(partition.max_nodes, infinite=unlimited),
            "time": minutes(partition.max_time_s),
        },
        "minimums": {"nodes": max(partition.min_nodes, 0)},
        "partition": {"state": [partition.state]},
        "priority": {"job_factor": partition.priority_job_factor, "tier": partition.priority_tier},
    }
