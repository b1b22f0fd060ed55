"""What each letter of `squeue -o` and each name of `squeue -O` shows, and what `-S` sorts by.

One `Field` per column: its heading and a function of (JobRow, JobView). Columns for things that this version has not
(cores per socket, burst buffers, ...) are here too, with the word that Slurm prints for a job that did not ask for
them: long formats of tools name all of them.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

from cli.format import Clock, Field, amount, clipped_tasks, text_of
from cli.jobids import component_text, start_at
from penstock.v1.common_pb2 import BATCH, GresCount
from penstock.v1.controller_pb2 import JobInfo
from penstock.values.duration import format_elapsed
from penstock.values.runtime import ran_us
from penstock.values.states import COMPACT_STATE, ENDED, OTHER_STATE_WORDS

COMPACT = {state.name: word for state, word in COMPACT_STATE.items()} | OTHER_STATE_WORDS
#: Ended like this, `%R` shows the reason instead of the nodes.
EXPLAINED = frozenset(("FAILED", "TIMEOUT", "OUT_OF_MEMORY"))
#: The reason that Slurm itself writes with the nodes behind it.
NOT_AVAIL = "ReqNodeNotAvail"
PRIORITY_SCALE = 2**32 - 1
LATE = 2**63


class JobRow(NamedTuple):
    """A line: a job, or some tasks of a pending array, in one partition."""

    job: JobInfo
    tasks: str  # of an array's pending record: the tasks that this line stands for
    single: bool  # `tasks` is one task, written without brackets
    partition: str

    @property
    def task_text(self) -> str:
        """`%K`: a task id, or the list of the pending ones with their limit."""
        if self.job.HasField("array_task_id"):
            return str(self.job.array_task_id)
        if self.single or not self.tasks:
            return self.tasks
        throttle = self.job.array_throttle
        return clipped_tasks(self.tasks) + (f"%{throttle}" if throttle else "")

    @property
    def id_text(self) -> str:
        """`%i`: 12, 12_4 or 12_[5-99%3]."""
        task = self.task_text
        if not task:
            return component_text(self.job) or str(self.job.job_id)
        base = self.job.array_job_id or self.job.job_id
        return f"{base}_{task}" if self.single or not self.tasks else f"{base}_[{task}]"


class JobView(NamedTuple):
    """What else a column may depend on."""

    clock: Clock
    convert: bool = True
    cluster: str = ""


Value = Callable[[JobRow, JobView], str]


def used_s(job: JobInfo, clock: Clock) -> int:
    """How long the job has run."""
    if not job.start_at_us or job.state == "PENDING":
        return 0
    end_at_us = job.end_at_us if job.state in ENDED else clock.now_us
    stands_since_us = job.suspended_at_us if job.state == "SUSPENDED" else 0
    return ran_us(end_at_us, job.start_at_us, job.suspended_us, stands_since_us) // 1_000_000


def time_left(row: JobRow, view: JobView) -> str:
    """What is left of the time limit."""
    limit_s = row.job.time_limit_s
    return format_elapsed(limit_s - used_s(row.job, view.clock)) if limit_s >= 0 else "UNLIMITED"


def time_limit(job: JobInfo) -> str:
    """The time limit."""
    return format_elapsed(job.time_limit_s) if job.time_limit_s >= 0 else "UNLIMITED"


def reason(job: JobInfo) -> str:
    """Why it waits or ended, in Slurm's word."""
    return job.reason or "None"


def nodes_or_reason(row: JobRow, view: JobView) -> str:
    """`%R`."""
    job = row.job
    if job.state != "PENDING" and job.state not in EXPLAINED:
        return job.node_list
    word = reason(job)
    if word == NOT_AVAIL and job.reason_detail.startswith(("UnavailableNodes", "Reserved for maintenance")):
        word += f", {job.reason_detail}"
    return f"({word})"


def memory(row: JobRow, view: JobView) -> str:
    """Memory asked for, per node or per CPU."""
    return amount(row.job.mem_mb, "M", convert=view.convert)


def gres_text(counts: Iterable[GresCount]) -> str:
    """`gres/gpu:a100:2`."""
    return ",".join(":".join(filter(None, ("gres/" + g.name, g.type, str(g.count)))) for g in counts) or "N/A"


def gres_per_node(job: JobInfo) -> str:
    """What was asked for on each node; not what follows from --gpus or --gpus-per-task."""
    request = job.request
    derived = bool(request.gres_per_job or request.gres_per_task)
    return gres_text(g for g in request.gres_per_node if not (derived and g.name == "gpu"))


def _per_gpu(number: int) -> str:
    return f"gres/gpu:{number}" if number else "N/A"


def cpus_per_node(job: JobInfo) -> int:
    """The least number of CPUs that a node must have for it."""
    return max(job.request.cpus_per_task, 1) * max(job.request.ntasks_per_node, 1)


def pending_s(row: JobRow, view: JobView) -> str:
    """Seconds from submission to start, or to now."""
    job = row.job
    end_at_us = view.clock.now_us if job.state == "PENDING" else job.start_at_us
    return str(max(end_at_us - job.submit_at_us, 0) // 1_000_000)


def _text(name: str, empty: str, row: JobRow, view: JobView) -> str:
    return str(getattr(row.job, name)) or empty


def _asked(name: str, empty: str, row: JobRow, view: JobView) -> str:
    return str(getattr(row.job.request, name)) or empty


def _date(name: str, row: JobRow, view: JobView) -> str:
    return view.clock.text(getattr(row.job, name))


def end_time(row: JobRow, view: JobView) -> str:
    """When it ended or will; without a time limit nobody can say."""
    job = row.job
    if job.time_limit_s < 0 and job.state not in ENDED and job.end_at_us:
        return "NONE"
    return view.clock.text(job.end_at_us)


def _path(name: str, row: JobRow, view: JobView) -> str:
    return text_of(getattr(row.job, name))


def always(text: str) -> Value:
    """A column that is the same for every job."""
    return lambda row, view: text


def _job(header: str, name: str, empty: str = "(null)") -> Field:
    return Field(header, partial(_text, name, empty))


def _request(header: str, name: str, empty: str = "(null)") -> Field:
    return Field(header, partial(_asked, name, empty))


def _time(header: str, name: str) -> Field:
    return Field(header, partial(_date, name))


LETTERS: dict[str, Field] = {
    "a": _request("ACCOUNT", "account"),
    "b": Field("TRES_PER_NODE", lambda r, v: gres_per_node(r.job)),
    "c": Field("MIN_CPUS", lambda r, v: str(cpus_per_node(r.job))),
    "d": Field("MIN_TMP_DISK", always("0")),
    "e": Field("END_TIME", end_time),
    "f": _request("FEATURES", "features"),
    "g": Field("GROUP", lambda r, v: r.job.group_name or str(r.job.group_id)),
    "h": Field("OVER_SUBSCRIBE", lambda r, v: "NO" if r.job.request.exclusive else "OK"),
    "i": Field("JOBID", lambda r, v: r.id_text),
    "j": _request("NAME", "name", ""),
    "k": _request("COMMENT", "comment"),
    "l": Field("TIME_LIMIT", lambda r, v: time_limit(r.job)),
    "m": Field("MIN_MEMORY", memory),
    "n": _request("REQ_NODES", "nodes_required", ""),
    "o": _request("COMMAND", "command"),
    "p": Field("PRIORITY", lambda r, v: f"{r.job.priority / PRIORITY_SCALE:.14f}"),
    "q": _request("QOS", "qos"),
    "r": Field("REASON", lambda r, v: reason(r.job)),
    "s": Field("", always("")),
    "t": Field("ST", lambda r, v: COMPACT.get(r.job.state, r.job.state)),
    "u": Field("USER", lambda r, v: r.job.user_name or str(r.job.user_id)),
    "v": _request("RESERVATION", "reservation"),
    "w": _request("WCKEY", "wckey"),
    "x": _request("EXC_NODES", "nodes_excluded", ""),
    "y": _request("NICE", "nice"),
    "z": Field("S:C:T", always("*:*:*")),
    "A": _job("JOBID", "job_id"),
    "B": _job("EXEC_HOST", "batch_node", "n/a"),
    "C": _job("CPUS", "cpus"),
    "D": _job("NODES", "nodes"),
    "E": _job("DEPENDENCY", "dependency"),
    "F": Field("ARRAY_JOB_ID", lambda r, v: str(r.job.array_job_id or r.job.job_id)),
    "G": _job("GROUP", "group_id"),
    "H": Field("SOCKETS_PER_NODE", always("*")),
    "I": Field("CORES_PER_SOCKET", always("*")),
    "J": Field("THREADS_PER_CORE", always("*")),
    "K": Field("ARRAY_TASK_ID", lambda r, v: r.task_text or "N/A"),
    "L": Field("TIME_LEFT", time_left),
    "M": Field("TIME", lambda r, v: format_elapsed(used_s(r.job, v.clock))),
    "N": _job("NODELIST", "node_list", ""),
    "O": Field("CONTIGUOUS", always("0")),
    "P": Field("PARTITION", lambda r, v: r.partition),
    "Q": _job("PRIORITY", "priority"),
    "R": Field("NODELIST(REASON)", nodes_or_reason),
    "S": Field("START_TIME", lambda r, v: v.clock.text(start_at(r.job))),
    "T": _job("STATE", "state"),
    "U": _job("UID", "user_id"),
    "V": _time("SUBMIT_TIME", "submit_at_us"),
    "W": _request("LICENSES", "licenses"),
    "X": Field("CORE_SPEC", always("N/A")),
    "Y": Field("SCHEDNODES", lambda r, v: r.job.planned_node_list or "(null)"),
    "Z": Field("WORK_DIR", lambda r, v: text_of(r.job.request.work_dir)),
}

LETTERS |= {letter: LETTERS[letter]._replace(uncut=True) for letter in "lLMNRxYn"}

#: Names of -O for what has a letter.
_NAMED_LETTERS = {
    "account": "a", "arrayjobid": "F", "arraytaskid": "K", "batchhost": "B", "command": "o", "comment": "k",
    "contiguous": "O", "cores": "I", "corespec": "X", "dependency": "E", "endtime": "e", "feature": "f", "gres": "b",
    "groupid": "G", "groupname": "g", "jobarrayid": "i", "jobid": "A", "licenses": "W", "mincpus": "c",
    "minmemory": "m", "mintmpdisk": "d", "name": "j", "nice": "y", "nodelist": "N", "numcpus": "C", "numnodes": "D",
    "oversubscribe": "h", "partition": "P", "priority": "p", "prioritylong": "Q", "qos": "q", "reason": "r",
    "reasonlist": "R", "reqnodes": "n", "reservation": "v", "schednodes": "Y", "sct": "z", "selectjobinfo": "s",
    "sockets": "H", "starttime": "S", "state": "T", "statecompact": "t", "submittime": "V", "threads": "J",
    "timeleft": "L", "timelimit": "l", "timeused": "M", "tres-per-node": "b", "userid": "U", "username": "u",
    "wckey": "w", "workdir": "Z", "excnodes": "x",
}  # fmt: skip

#: Names of -O for things that no job of this version has, with what Slurm prints then.
_ABSENT = {
    "allocsid": ("ALLOC_SID", "0"), "associd": ("ASSOC_ID", "0"), "boardspernode": ("BOARDS_PER_NODE", "0"),
    "burstbuffer": ("BURST_BUFFER", "(null)"), "burstbufferstate": ("BURST_BUFFER_STATE", "(null)"),
    "clusterfeature": ("CLUSTER_FEATURES", "(null)"), "container": ("CONTAINER", "(null)"),
    "containerid": ("CONTAINER_ID", "(null)"),
    "deadline": ("DEADLINE", "N/A"),
    "delayboot": ("DELAY_BOOT", "0:00"), "extra": ("EXTRA", "(null)"), "failednode": ("FAILED_NODE", "(null)"),
    "mcslabel": ("MCSLABEL", "(null)"), "mintime": ("TIME_MIN", "0:00"),
    "network": ("NETWORK", "(null)"), "ntperboard": ("NTASKS_PER_BOARD", "0"), "ntpercore": ("NTASKS_PER_CORE", "N/A"),
    "ntpersocket": ("NTASKS_PER_SOCKET", "N/A"), "origin": ("ORIGIN", "NA"), "originraw": ("ORIGIN_RAW", "NA"),
    "prefer": ("PREFER", "(null)"), "profile": ("PROFILE", "NotSet"),
    "reboot": ("REBOOT", "0"), "reqswitch": ("REQ_SWITCH", "0"), "resizetime": ("RESIZE_TIME", "N/A"),
    "siblingsactive": ("ACTIVE_SIBLINGS", "NA"), "siblingsactiveraw": ("ACTIVE_SIBLINGS_RAW", "NA"),
    "siblingsviable": ("VIABLE_SIBLINGS", "NA"), "siblingsviableraw": ("VIABLE_SIBLINGS_RAW", "NA"),
    "sperboard": ("SOCKETS_PER_BOARD", "0"), "system_comment": ("SYSTEM_COMMENT", "(null)"),
    "tres-bind": ("TRES_BIND", "N/A"), "tres-freq": ("TRES_FREQ", "N/A"),
    "tres-per-socket": ("TRES_PER_SOCKET", "N/A"), "derivedec": ("DERIVED_EC", "0"),
}  # fmt: skip

#: Every name of -O, in lower case.
NAMES: dict[str, Field] = (
    {name: LETTERS[letter] for name, letter in _NAMED_LETTERS.items()}
    | {name: Field(header, always(text)) for name, (header, text) in _ABSENT.items()}
    | {
        "accruetime": _time("ACCRUE_TIME", "eligible_at_us"),
        "admin_comment": _job("ADMIN_COMMENT", "admin_comment"),
        "allocnodes": _request("ALLOC_NODES", "submit_host"),
        "batchflag": Field("BATCH_FLAG", lambda r, v: str(int(r.job.request.kind == BATCH))),
        "cpus-per-tres": Field("CPUS_PER_TRES", lambda r, v: _per_gpu(r.job.request.cpus_per_gpu)),
        "mem-per-tres": Field("MEM_PER_TRES", lambda r, v: _per_gpu(r.job.request.mem_per_gpu_mb)),
        "tres-per-job": Field("TRES_PER_JOB", lambda r, v: gres_text(r.job.request.gres_per_job)),
        "tres-per-task": Field("TRES_PER_TASK", lambda r, v: gres_text(r.job.request.gres_per_task)),
        "cluster": Field("CLUSTER", lambda r, v: v.cluster),
        "cpus-per-task": Field("CPUS_PER_TASK", lambda r, v: str(max(r.job.request.cpus_per_task, 1))),
        "eligibletime": _time("ELIGIBLE_TIME", "eligible_at_us"),
        "hetjobid": _job("HET_JOB_ID", "het_job_id", "N/A"),
        "hetjobidset": _job("HET_JOB_ID_SET", "het_job_ids", "N/A"),
        "hetjoboffset": Field("HET_JOB_OFFSET", lambda r, v: str(r.job.het_offset) if r.job.het_job_id else "N/A"),
        "exit_code": Field("EXIT_CODE", lambda r, v: str(r.job.exit.code or r.job.exit.signal)),
        "lastschedeval": _time("LAST_SCHED_EVAL", "last_sched_at_us"),
        "maxcpus": _job("MAX_CPUS", "cpus"),
        "maxnodes": Field("MAX_NODES", lambda r, v: str(r.job.request.nodes_max or r.job.nodes)),
        "ntpernode": _request("NTASKS_PER_NODE", "ntasks_per_node"),
        "numtasks": _job("TASKS", "tasks"),
        "preempttime": _time("PREEMPT_TIME", "preempt_at_us"),
        "pendingtime": Field("PENDING_TIME", pending_s),
        "requeue": Field("REQUEUE", lambda r, v: str(int(r.job.request.requeue))),
        "restartcnt": _job("RESTART_COUNT", "attempt"),
        "stderr": Field("STDERR", lambda r, v: text_of(r.job.std_err or r.job.std_out)),
        "stdin": Field("STDIN", lambda r, v: text_of(r.job.std_in) or "/dev/null"),
        "stdout": Field("STDOUT", partial(_path, "std_out")),
        "submitline": _request("SUBMIT_LINE", "submit_line"),
        "tres-alloc": Field("TRES_ALLOC", lambda r, v: r.job.tres_alloc or r.job.tres_req or "N/A"),
    }
)


def _late(name: str, row: JobRow, view: JobView) -> int:
    return int(getattr(row.job, name)) or LATE


def _number(name: str, row: JobRow, view: JobView) -> int:
    return int(getattr(row.job, name))


def _id(row: JobRow, view: JobView) -> tuple[int, int]:
    job = row.job
    if job.het_job_id:
        return job.het_job_id, job.het_offset
    if not job.HasField("array_task_id"):
        return job.array_job_id or job.job_id, int(row.tasks) if row.single else LATE
    return job.array_job_id, job.array_task_id


#: Letters that sort by something else than their text.
_SORTS: dict[str, Callable[[JobRow, JobView], Any]] = {
    "i": _id,
    "K": _id,
    "F": _id,
    "l": lambda r, v: r.job.time_limit_s % LATE,
    "L": lambda r, v: r.job.time_limit_s - used_s(r.job, v.clock) if r.job.time_limit_s >= 0 else LATE,
    "M": lambda r, v: used_s(r.job, v.clock),
    "m": partial(_number, "mem_mb"),
    "e": partial(_late, "end_at_us"),
    "S": lambda r, v: start_at(r.job) or LATE,
    "V": partial(_number, "submit_at_us"),
    "p": partial(_number, "priority"),
    "Q": partial(_number, "priority"),
    "A": partial(_number, "job_id"),
    "C": partial(_number, "cpus"),
    "D": partial(_number, "nodes"),
    "G": partial(_number, "group_id"),
    "U": partial(_number, "user_id"),
    "y": lambda r, v: r.job.request.nice,
}


def sort_key(letter: str) -> Callable[[JobRow, JobView], Any] | None:
    """What a letter of -S sorts by; None for a letter that does not sort."""
    field = LETTERS.get(letter)
    return _SORTS.get(letter) or (field.value if field and field.header else None)
