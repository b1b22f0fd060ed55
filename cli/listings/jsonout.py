"""Jobs as documents (see cli.base.document): squeue --json, scontrol show job --json.

States are lists of words. Every key of Slurm's job is present; unsupported ones have the value that Slurm gives to
unset ones.
"""

from collections.abc import Iterable
from functools import lru_cache

from cli.base.document import Json, exit_object, minutes, number, rest_of, time_object, write_stream
from cli.base.format import text_of
from cli.base.jobids import end_at, start_at
from cli.base.options import OptionValues
from cli.listings.nodegres import job_gres, tres_per_task
from cli.listings.squeue_fields import cpus_per_node, gres_per_node, gres_text
from penstock.v1.common_pb2 import BATCH, JobRequest, NodeAllocation
from penstock.v1.controller_pb2 import JobInfo
from penstock.values.cpusets import numbers_of
from penstock.values.hostlist import expand
from penstock.values.runtime import ran_us
from penstock.values.tres import parse_tres

#: Slurm's number for "not set" in plain numbers.
NO_VAL_16 = 65534


def write_jobs(jobs: Iterable[JobInfo], cluster: str, now_us: int, options: OptionValues) -> None:
    """squeue --json, --yaml: each job is written when it arrives, so memory does not grow with the queue."""
    write_stream("jobs", (job_object(job, cluster) for job in jobs), rest_of(cluster, **_times(now_us)), options)


def _times(now_us: int) -> Json:
    return {"last_backfill": time_object(0), "last_update": time_object(now_us)}


def job_object(job: JobInfo, cluster: str) -> Json:
    """One job."""
    return (
        _absent()
        | _job_identity(job, cluster)
        | _job_life(job)
        | _job_request(job)
        | _job_places(job)
        | _job_resources(job)
    )


def _absent() -> Json:
    """The fields that no job of this version has."""
    return {
        "association_id": 0,
        "burst_buffer": "",
        "burst_buffer_state": "",
        "cluster_features": "",
        "container_id": "",
        "cpu_frequency_minimum": number(None),
        "cpu_frequency_maximum": number(None),
        "cpu_frequency_governor": number(None),
        "federation_origin": "",
        "federation_siblings_active": "",
        "federation_siblings_viable": "",
        "job_size_str": None,
        "power": {"flags": []},
        "priority_by_partition": [],
        "profile": ["NOT_SET"],
        "resize_time": time_object(0),
        "selinux_context": "",
        "sockets_per_board": 0,
        "step_id": None,
        "tasks_per_board": number(0),
        "tres_bind": "",
    }


def _job_identity(job: JobInfo, cluster: str) -> Json:
    request = job.request
    task = job.array_task_id if job.HasField("array_task_id") else None
    return {
        "account": request.account,
        "admin_comment": job.admin_comment,
        "system_comment": job.system_comment,
        "allocating_node": request.submit_host,
        "array_job_id": number(job.array_job_id),
        "array_task_id": number(task),
        "array_max_tasks": number(job.array_throttle),
        "array_task_string": job.array_tasks,
        "batch_features": request.batch_features,
        "batch_flag": request.kind == BATCH,
        "batch_host": job.batch_node,
        "cluster": cluster,
        "command": "" if request.command == "(null)" else request.command,
        "comment": request.comment,
        "container": request.container,
        "extra": request.extra,
        "failed_node": "",
        "mail_type": _mail_types(request),
        "mail_user": request.mail_user if request.mail_types else "",
        "mcs_label": request.mcs_label,
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
        "job_state": _job_state(job),
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
        "deadline": time_object(job.request.deadline_at_us),
        "preempt_time": time_object(job.preempt_at_us),
        "preemptable_time": time_object(0),
        "resize_time": time_object(job.resized_at_us),
        "suspend_time": time_object(job.suspended_at_us),
        "pre_sus_time": time_object(_pre_suspend_us(job)),
        "time_limit": minutes(job.time_limit_s),
        "time_minimum": number(-(-job.request.time_min_s // 60)),
        "exit_code": exit_object(job.exit),
        "derived_exit_code": exit_object(job.derived_exit),
        "restart_cnt": job.attempt,
        "requeue": job.request.requeue,
        "reboot": job.request.reboot,
        "cron": {"flags": [], "specification": job.cron} if job.cron else None,
        "delay_boot": number(job.request.delay_boot_s // 60),
        "flags": _flags(job),
    }


def _mail_types(request: JobRequest) -> list[str]:
    """The words of mail types as the document has them."""
    names = {"TIME_LIMIT": "TIME=100%", "TIME_LIMIT_90": "TIME=90%", "TIME_LIMIT_80": "TIME=80%",
             "TIME_LIMIT_50": "TIME=50%", "INVALID_DEPEND": "INVALID_DEPENDENCY"}  # fmt: skip
    return [names.get(word, word) for word in request.mail_types]


def _flags(job: JobInfo) -> list[str]:
    """The job's flags, by Slurm's names."""
    request = job.request
    held = (
        (request.kill_on_invalid_dep, "KILL_INVALID_DEPENDENCY"),
        (request.spread_job, "SPREAD_JOB"),
        (request.use_min_nodes, "USE_MIN_NODES"),
        (request.HasField("mem_per_gpu_mb"), "GRES_MEM_SET"),
    )
    return [word for is_true, word in held if is_true]


def _pre_suspend_us(job: JobInfo) -> int:
    return ran_us(job.suspended_at_us, job.start_at_us, job.suspended_us) if job.suspended_at_us else 0


def _job_state(job: JobInfo) -> list[str]:
    """The job's state as Slurm's base state and flags."""
    if job.state == "COMPLETING":
        base = "PENDING" if job.end_state == "REQUEUED" else job.end_state or "RUNNING"
        return [base, "COMPLETING"]
    flags = {
        "CONFIGURING": ["RUNNING", "CONFIGURING"],
        "SPECIAL_EXIT": ["PENDING", "SPECIAL_EXIT"],
        "STOPPED": ["RUNNING", "STOPPED"],
    }
    return flags.get(job.state, [job.state])


def _job_request(job: JobInfo) -> Json:
    request = job.request
    gres = gres_per_node(job)
    per_gpu = [f"gres/gpu:{request.mem_per_gpu_mb}"] if request.HasField("mem_per_gpu_mb") else []
    return {
        "core_spec": request.core_spec if request.HasField("core_spec") else NO_VAL_16,
        "thread_spec": request.thread_spec if request.HasField("thread_spec") else NO_VAL_16,
        "cores_per_socket": number(request.cores_per_socket or None),
        "cpus_per_task": number(request.cpus_per_task or None),
        "cpus_per_tres": f"gres/gpu:{request.cpus_per_gpu}" if request.cpus_per_gpu else "",
        "dependency": job.dependency,
        "max_cpus": number(0),
        "memory_per_cpu": number(job.mem_mb if job.mem_is_per_cpu else None),
        "memory_per_node": number(None if job.mem_is_per_cpu else job.mem_mb),
        "memory_per_tres": ",".join(per_gpu),
        "minimum_cpus_per_node": number(cpus_per_node(job)),
        "minimum_tmp_disk_per_node": number(request.tmp_disk_mb),
        "nice": request.nice,
        "shared": _shared(request),
        "sockets_per_node": number(request.sockets_per_node or None),
        "tasks_per_core": number(request.ntasks_per_core or None),
        "tasks_per_node": number(request.ntasks_per_node),
        "tasks_per_socket": number(request.ntasks_per_socket or None),
        "tasks_per_tres": number(request.ntasks_per_gpu or None),
        "threads_per_core": number(request.threads_per_core or None),
        "tres_freq": f"gpu:{request.gpu_freq}" if request.gpu_freq else "",
        "tres_per_job": _gres(gres_text(request.gres_per_job)),
        "tres_per_node": _gres(gres),
        "tres_per_socket": _gres(gres_text(request.gres_per_socket)),
        "tres_per_task": tres_per_task(request),
        "tres_req_str": job.tres_alloc if job.resized_at_us else job.tres_req,
        "tres_alloc_str": job.tres_alloc,
        "billable_tres": number(_billing(job.tres_alloc)),
    }


@lru_cache(1024)
def _billing(tres: str) -> float | None:
    return parse_tres(tres).get("billing") if tres else None


def _gres(text: str) -> str:
    return "" if text == "N/A" else text


def _shared(request: JobRequest) -> list[str]:
    """How the job shares its nodes with other jobs."""
    held = (
        (request.exclusive, "none"),
        (request.oversubscribe, "oversubscribe"),
        (request.exclusive_user, "user"),
        (request.exclusive_mcs, "mcs"),
        (request.exclusive_topo, "topo"),
    )
    return [word for is_true, word in held if is_true]


def _job_places(job: JobInfo) -> Json:
    """The nodes that it requests, and its files."""
    request = job.request
    out, err = text_of(job.std_out), text_of(job.std_err or job.std_out)
    files = {"standard_input": text_of(job.std_in) or "/dev/null", "standard_output": out, "standard_error": err}
    return {
        "contiguous": request.contiguous,
        "excluded_nodes": request.nodes_excluded,
        "required_nodes": request.nodes_required,
        "scheduled_nodes": job.planned_node_list,
        "features": request.features,
        "prefer": request.prefer,
        "licenses": request.licenses,
        "licenses_allocated": job.licenses_alloc or (request.licenses if job.node_list else ""),
        "max_nodes": number(request.nodes_max),
        "required_switches": request.switches_max,
        "maximum_switch_wait_time": request.switches_wait_s,
        "segment_size": request.segment,
        "network": request.network,
        "submit_line": request.submit_line,
        "current_working_directory": text_of(request.work_dir),
        **files,
        "stdin_expanded": files["standard_input"],
        "stdout_expanded": out,
        "stderr_expanded": err,
    }


def _job_resources(job: JobInfo) -> Json:
    nodes = expand(job.node_list) if job.node_list else []
    allocation = [_place(index, part) for index, part in enumerate(job.allocation)]
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
            "threads_per_core": number(job.request.threads_per_core or None),
        }
    return {
        "nodes": job.node_list,
        "node_count": number(job.nodes),
        "cpus": number(job.cpus),
        "tasks": number(job.tasks),
        "gres_detail": used,
        "job_resources": resources or {},
    }


def _place(index: int, part: NodeAllocation) -> Json:
    """Its allocation on one node."""
    cores = [{"index": cpu, "status": ["ALLOCATED"]} for cpu in numbers_of(int.from_bytes(part.cpu_ids, "little"))]
    return {
        "index": index,
        "name": part.node,
        "cpus": {"count": part.cpus, "used": 0},
        "memory": {"used": 0, "allocated": part.mem_mb},
        "sockets": [{"index": 0, "cores": cores}] if cores else [],
    }
