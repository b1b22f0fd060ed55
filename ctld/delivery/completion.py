"""A job that has ended as its receivers get it: one record in the outbox, and its three forms.

The line of jobcomp/filetxt and the variables of jobcomp/script are those that Slurm 22.05 writes (observed), the
document of jobcomp/elasticsearch has Slurm's names. Text of users is one line without control characters in all of them.
"""

from typing import Final

import msgspec

from ctld.core.records.job import JobRow
from penstock.values.completionline import without_words
from penstock.values.dates import format_date
from penstock.values.duration import format_duration, whole_minutes
from penstock.values.hostlist import compress
from penstock.values.jobkind import JobKind
from penstock.values.text import clean_line

#: Slurm's "no value" of 32 bits: the task id of a job that is no task of an array.
NO_VALUE: Final = 0xFFFF_FFFE
US: Final = 1_000_000


class Completion(msgspec.Struct, frozen=True, omit_defaults=True):
    """An attempt of a job that has ended."""

    job_id: int
    user_name: str
    user_id: int
    group_name: str
    group_id: int
    name: str
    state: str
    partition: str
    cluster: str
    submit_at_us: int
    time_limit_s: int = -1
    attempt: int = 0
    array_job_id: int = 0
    array_task_id: int = -1
    het_job_id: int = 0
    het_offset: int = 0
    eligible_at_us: int = 0
    start_at_us: int = 0
    end_at_us: int = 0
    node_list: str = ""
    nodes: int = 0
    cpus: int = 0
    tasks: int = 0
    cpus_per_task: int = 1
    work_dir: str = ""
    std_in: str = ""
    std_out: str = ""
    std_err: str = ""
    reservation: str = ""
    tres_req: str = ""
    tres_alloc: str = ""
    account: str = ""
    qos: str = ""
    wckey: str = ""
    features: str = ""
    dependency: str = ""
    excluded: str = ""
    comment: str = ""
    admin_comment: str = ""
    failed_node: str = ""
    derived_exit: str = "0:0"
    exit: str = "0:0"
    is_batch: bool = True


def completion(row: JobRow, cluster: str) -> Completion:
    """Returns the record of an attempt that has ended."""
    request = row.request
    end_at_us = row.end_at_us or row.start_at_us
    return Completion(
        job_id=row.job_id, attempt=row.attempt, array_job_id=row.array_job_id if row.array_task_id is not None else 0,
        array_task_id=-1 if row.array_task_id is None else row.array_task_id,
        het_job_id=request.het_job_id, het_offset=request.het_offset, user_name=clean_line(row.user_name),
        user_id=row.user_id, group_name=clean_line(row.group_name), group_id=row.group_id, name=_line(request.name),
        state=row.state.name, partition=row.partition or ",".join(request.partitions), cluster=cluster,
        submit_at_us=row.submit_at_us, eligible_at_us=row.eligible_at_us, start_at_us=row.start_at_us or end_at_us,
        end_at_us=end_at_us, time_limit_s=row.time_limit_s,
        node_list=compress(part.node for part in row.alloc) if row.alloc else "", nodes=len(row.alloc),
        cpus=sum(part.cpus for part in row.alloc), tasks=request.ntasks_over or request.ntasks,
        cpus_per_task=request.cpus_per_task, work_dir=_path(request.work_dir),
        std_in=_path(request.std_in), std_out=_path(request.std_out), std_err=_path(request.std_err),
        reservation=_line(request.reservation_run or request.reservation), tres_req=row.tres_req,
        tres_alloc=row.tres_alloc, account=_line(request.account), qos=_line(request.qos), wckey=_line(request.wckey),
        features=_line(request.features), dependency=_line(row.dependency),
        excluded=compress(request.nodes_excluded) if request.nodes_excluded else "", comment=_line(request.comment),
        admin_comment=_line(row.admin_comment), failed_node=row.failed_node,
        derived_exit=f"{row.derived_code}:{row.derived_signal}", exit=f"{row.exit_code}:{row.exit_signal}",
        is_batch=request.kind is JobKind.BATCH,
    )  # fmt: skip


def _line(text: str) -> str:
    return clean_line(text).replace("\t", "\\x09")


def _path(path: bytes) -> str:
    return _line(path.decode("utf-8", "backslashreplace"))


def _limit(seconds: int) -> str:
    return str(whole_minutes(seconds) // 60) if seconds >= 0 else "UNLIMITED"


def _date(at_us: int) -> str:
    return format_date(at_us) if at_us else "unknown"


def text_line(job: Completion) -> str:
    """Returns the line of jobcomp/filetxt; it ends with a blank, as Slurm's."""
    part_of = ""
    if job.array_task_id >= 0:
        part_of = f" ArrayJobId={job.array_job_id} ArrayTaskId={job.array_task_id}"
    if job.het_job_id:
        part_of += f" HetJobId={job.het_job_id} HetJobOffset={job.het_offset}"
    return (
        f"JobId={job.job_id} UserId={job.user_name}({job.user_id}) GroupId={job.group_name}({job.group_id}) "
        f"Name={without_words(job.name)} JobState={job.state} Partition={job.partition} TimeLimit={_limit(job.time_limit_s)} "
        f"StartTime={_date(job.start_at_us)} EndTime={_date(job.end_at_us)} NodeList={job.node_list or '(null)'} "
        f"NodeCnt={job.nodes} ProcCnt={job.cpus} WorkDir={without_words(job.work_dir)} "
        f"ReservationName={without_words(job.reservation)} Tres={job.tres_alloc or job.tres_req} "
        f"Account={without_words(job.account)} QOS={without_words(job.qos)} WcKey={without_words(job.wckey)} "
        f"Cluster={job.cluster} SubmitTime={_date(job.submit_at_us)} EligibleTime={_date(job.eligible_at_us)}{part_of} "
        f"DerivedExitCode={job.derived_exit} ExitCode={job.exit} "
    )


def variables(job: Completion) -> dict[str, str]:
    """Returns the variables of jobcomp/script."""
    task_id = job.array_task_id
    env: dict[str, str | int] = {
        "JOBID": job.job_id, "ARRAYJOBID": job.array_job_id, "ARRAYTASKID": task_id if task_id >= 0 else NO_VALUE,
        "UID": job.user_id, "GID": job.group_id, "USERNAME": job.user_name, "GROUPNAME": job.group_name,
        "JOBNAME": job.name, "JOBSTATE": job.state, "PARTITION": job.partition, "ACCOUNT": job.account, "QOS": job.qos,
        "CLUSTER": job.cluster, "SUBMIT": job.submit_at_us // US, "START": job.start_at_us // US,
        "END": job.end_at_us // US, "LIMIT": format_duration(job.time_limit_s) if job.time_limit_s >= 0 else "UNLIMITED",
        "NODES": job.node_list, "NODECNT": job.nodes, "PROCS": job.cpus, "EXITCODE": job.exit,
        "DERIVED_EC": job.derived_exit, "BATCH": "yes" if job.is_batch else "no", "WORK_DIR": job.work_dir,
        "RESERVATION": job.reservation, "DEPENDENCY": job.dependency, "CONSTRAINTS": job.features,
        "STDIN": job.std_in or "/dev/null", "STDOUT": job.std_out, "STDERR": job.std_err, "WCKEY": job.wckey,
        "TRES": job.tres_alloc or job.tres_req,
    }  # fmt: skip
    if job.het_job_id:
        env |= {"HETJOBID": job.het_job_id, "HETJOBOFFSET": job.het_offset}
    return {name: str(value) for name, value in env.items()}


def document(job: Completion) -> dict[str, object]:
    """Returns the document of jobcomp/elasticsearch. Times are the controller's local time, as Slurm's."""
    elapsed_s = max(0, job.end_at_us - job.start_at_us) // US
    found: dict[str, object] = {
        "jobid": job.job_id, "username": job.user_name, "user_id": job.user_id, "groupname": job.group_name,
        "group_id": job.group_id, "@start": _date(job.start_at_us), "@end": _date(job.end_at_us), "elapsed": elapsed_s,
        "partition": job.partition, "nodes": job.node_list or "(null)", "total_cpus": job.cpus, "total_nodes": job.nodes,
        "derived_ec": job.derived_exit, "exit_code": job.exit, "state": job.state,
        "cpu_hours": round(elapsed_s * job.cpus / 3600, 6), "@submit": _date(job.submit_at_us), "ntasks": job.tasks,
        "cpus_per_task": job.cpus_per_task, "job_name": job.name, "cluster": job.cluster, "qos": job.qos,
        "account": job.account, "work_dir": job.work_dir, "std_in": job.std_in or "/dev/null", "std_out": job.std_out,
        "std_err": job.std_err, "tres_req": job.tres_req, "tres_alloc": job.tres_alloc,
        "time_limit": whole_minutes(job.time_limit_s) // 60 if job.time_limit_s >= 0 else "UNLIMITED",
    }  # fmt: skip
    if job.eligible_at_us:
        found["@eligible"] = _date(job.eligible_at_us)
        found["queue_wait"] = max(0, job.start_at_us - job.eligible_at_us) // US
    if job.array_task_id >= 0:
        found |= {"array_job_id": job.array_job_id, "array_task_id": job.array_task_id}
    if job.het_job_id:
        found |= {"het_job_id": job.het_job_id, "het_job_offset": job.het_offset}
    named = {
        "reservation_name": job.reservation, "wc_key": job.wckey, "orig_dependency": job.dependency,
        "excluded_nodes": job.excluded, "failed_node": job.failed_node, "features": job.features,
        "comment": job.comment, "admin_comment": job.admin_comment,
    }  # fmt: skip
    return found | {name: value for name, value in named.items() if value}
