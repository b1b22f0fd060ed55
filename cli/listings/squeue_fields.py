"""The fields of squeue: each letter of `-o` and each name of `-O`, and the sort keys of `-S`.

One `JobField` per column: its heading, the columns of the listing that it needs, and a function of the view and their
values. Columns of unsupported features (burst buffers, federations, ...) are here too, with the value that Slurm prints
for a job that does not use them: long formats of tools name all of them.
"""

from collections.abc import Callable, Iterable

# Any: cells of columns, whose fields know their types
from typing import Any, NamedTuple

from cli.base.format import DisplayClock, amount, clipped_tasks
from cli.listings.jobtable import SINGLE, TASKS, WHOLE, JobField, SortKey
from cli.listings.jobtable import gres_per_node as gres_per_node
from cli.listings.nodegres import tres_per_task
from penstock.v1.common_pb2 import BATCH, GresCount
from penstock.v1.controller_pb2 import JobInfo
from penstock.values.duration import format_elapsed
from penstock.values.exitcode import with_signal
from penstock.values.jobid import format_sluid
from penstock.values.nodesharing import exclusive_word
from penstock.values.reasons import shown
from penstock.values.runtime import ran_us
from penstock.values.states import COMPACT_STATE, ENDED, OTHER_STATE_WORDS

COMPACT = {state.name: word for state, word in COMPACT_STATE.items()} | OTHER_STATE_WORDS
#: End states for which `%R` shows the reason instead of the nodes.
EXPLAINED = frozenset(("FAILED", "TIMEOUT", "OUT_OF_MEMORY"))
#: Pending states; in the second the job is held because of its exit status.
WAITING = frozenset(("PENDING", "SPECIAL_EXIT"))
PRIORITY_SCALE = 2**32 - 1
LATE = 2**63
US = 1_000_000

#: The columns from which the run time follows.
RUN_NEEDS = ("state", "start_at_us", "end_at_us", "suspended_us", "suspended_at_us")
ID_NEEDS = ("job_id", "array_job_id", "array_task_id", TASKS, SINGLE, "array_throttle", "het_job_id", "het_offset")
MIN_CPUS_NEEDS = ("request.mincpus", "request.cpus_per_task", "request.ntasks_per_node")
SHAPE_NEEDS = ("request.sockets_per_node", "request.cores_per_socket", "request.threads_per_core")
SHARE_NEEDS = (
    "request.exclusive_topo", "request.exclusive_user", "request.exclusive_mcs", "request.exclusive", "request.oversubscribe",
)  # fmt: skip
START_NEEDS = ("start_at_us", "planned_start_at_us", "request.begin_at_us", "state", "reason")

END_NEEDS = ("time_limit_s", "end_at_us", *START_NEEDS)
ELIGIBLE_NEEDS = ("eligible_at_us", "request.begin_at_us")


class JobView(NamedTuple):
    """The further inputs of a column."""

    clock: DisplayClock
    convert: bool = True
    cluster: str = ""


def used_s(clock: DisplayClock, state: str, start_at_us: int, end_at_us: int, held_us: int, held_at_us: int) -> int:
    """The run time of the job."""
    if not start_at_us or state in WAITING:
        return 0
    until_us = end_at_us if end_at_us and (state in ENDED or state == "COMPLETING") else clock.now_us
    stands_since_us = held_at_us if state == "SUSPENDED" else 0
    return ran_us(until_us, start_at_us, held_us, stands_since_us) // US


def _start_us(start_us: int, planned_us: int, begin_us: int, state: str, reason: str) -> int:
    return start_us or planned_us or (begin_us if state == "PENDING" and reason == "BeginTime" else 0)


def task_text(task_id: int, tasks: str, single: bool, throttle: int) -> str:
    """`%K`: a task id, or the list of the pending ones with their limit; "" for a job that is not part of an array."""
    if task_id >= 0:
        return str(task_id)
    if single or not tasks:
        return tasks
    return clipped_tasks(tasks) + (f"%{throttle}" if throttle else "")


def id_text(
    job_id: int, array_id: int, task_id: int, tasks: str, single: bool, throttle: int, het_id: int, het_offset: int
) -> str:
    """`%i`: 12, 12_4, 12_[5-99%3] or 12+1."""
    task = task_text(task_id, tasks, single, throttle)
    if not task:
        return f"{het_id}+{het_offset}" if het_id else str(job_id)
    base = array_id or job_id
    return f"{base}_{task}" if single or not tasks else f"{base}_[{task}]"


def _nodes_or_reason(view: JobView, state: str, nodes: str, reason: str, detail: str, exit_signal: int) -> str:
    if state not in WAITING and state not in EXPLAINED:
        return nodes
    return f"({_reason_text(reason, detail, exit_signal)})"


def _reason_text(reason: str, detail: str, exit_signal: int) -> str:
    return with_signal(shown(reason, detail), exit_signal) or "None"


def gres_text(counts: Iterable[GresCount]) -> str:
    """`gres/gpu:a100:2`."""
    return ",".join(":".join(filter(None, ("gres/" + g.name, g.type, str(g.count)))) for g in counts) or "N/A"


def _per_gpu(number: int) -> str:
    return f"gres/gpu:{number}" if number else "N/A"


def cpus_per_node(job: JobInfo) -> int:
    """The least number of CPUs of a node for the job."""
    request = job.request
    return _min_cpus(request.mincpus, request.cpus_per_task, request.ntasks_per_node)


def _min_cpus(least: int, per_task: int, tasks: int) -> int:
    return max(least, max(per_task, 1) * max(tasks, 1))


def _pending_s(view: JobView, state: str, start_us: int, submit_us: int) -> str:
    end_at_us = view.clock.now_us if state in WAITING or not start_us else start_us
    return str(max(end_at_us - submit_us, 0) // US)


def _end_us(limit_s: int, end_us: int, *start: Any) -> int:
    """The time of the end; for a job with an expected start, that plus its time limit."""
    expected_us = _start_us(*start)
    return end_us or (expected_us + limit_s * US if expected_us and limit_s >= 0 and not start[0] else 0)


def _end_time(view: JobView, limit_s: int, end_us: int, *start: object) -> str:
    if limit_s < 0 and start[3] not in ENDED and end_us:
        return "NONE"  # unknown without a time limit
    return view.clock.text(_end_us(limit_s, end_us, *start))


def _eligible(view: JobView, eligible_us: int, begin_us: int) -> str:
    """The eligible time; for a job that waits for its begin time, that."""
    return view.clock.text(eligible_us or begin_us)


def _limit(view: JobView, limit_s: int) -> str:
    return format_elapsed(limit_s) if limit_s >= 0 else "UNLIMITED"


def _left(view: JobView, limit_s: int, *run: Any) -> str:
    return format_elapsed(limit_s - used_s(view.clock, *run)) if limit_s >= 0 else "UNLIMITED"


def _shared(view: JobView, leaves: int, one_user: int, one_label: int, exclusive: int, agreed: int) -> str:
    """`%h`: NO for whole nodes, TOPO for leaf switches, USER or MCS for nodes of one user or label, YES if the job accepts
    sharing."""
    if leaves:
        return "TOPO"
    if one_user or one_label:
        return "USER" if one_user else "MCS"
    if exclusive or not agreed:
        return "NO"
    return "YES" if agreed > 0 else "OK"


def _exclusive(job: JobInfo) -> str:
    request = job.request
    return exclusive_word(request.exclusive_topo, request.exclusive_user, request.exclusive_mcs, request.exclusive)


def profile_text(text: str) -> str:
    """--profile as Slurm prints it: Task, Energy, None; NotSet without one."""
    return ",".join(word.strip().capitalize() for word in text.split(",")) if text else "NotSet"


def _core_spec(view: JobView, cores: int, threads: int) -> str:
    if threads >= 0:
        return f"{threads} Threads"
    return str(cores) if cores >= 0 else "N/A"


def always(text: str) -> Callable[..., str]:
    """A column that is the same for every job."""
    return lambda view: text


def _text(header: str, name: str, empty: str = "(null)") -> JobField:
    return JobField(header, (name,), lambda view, value: str(value) or empty)


def _number(header: str, name: str) -> JobField:
    return JobField(header, (name,), lambda view, value: str(int(value)))


def _time(header: str, name: str) -> JobField:
    return JobField(header, (name,), lambda view, at_us: view.clock.text(at_us))


def _asked_count(header: str, name: str) -> JobField:
    return JobField(header, (name,), lambda view, count: str(count or "*"))


def _whole(header: str, show: Callable[[JobInfo], str]) -> JobField:
    return JobField(header, (WHOLE,), lambda view, job: show(job))


LETTERS: dict[str, JobField] = {
    "a": _text("ACCOUNT", "request.account"),
    "b": _text("TRES_PER_NODE", "tres_per_node", "N/A"),
    "c": JobField("MIN_CPUS", MIN_CPUS_NEEDS, lambda view, *asked: str(_min_cpus(*asked))),
    "d": JobField("MIN_TMP_DISK", ("request.tmp_disk_mb",), lambda view, mb: amount(mb, "M", convert=view.convert)),
    "e": JobField("END_TIME", END_NEEDS, _end_time),
    "f": _text("FEATURES", "request.features"),
    "g": JobField("GROUP", ("group_name", "group_id"), lambda view, name, gid: name or str(gid)),
    "h": JobField("OVER_SUBSCRIBE", SHARE_NEEDS, _shared),
    "i": JobField("JOBID", ID_NEEDS, lambda view, *values: id_text(*values)),
    "j": _text("NAME", "request.name", ""),
    "k": _text("COMMENT", "request.comment"),
    "l": JobField("TIME_LIMIT", ("time_limit_s",), _limit),
    "m": JobField("MIN_MEMORY", ("mem_mb",), lambda view, mb: amount(mb, "M", convert=view.convert)),
    "n": _text("REQ_NODES", "request.nodes_required", ""),
    "o": _text("COMMAND", "request.command"),
    "p": JobField("PRIORITY", ("priority",), lambda view, number: f"{number / PRIORITY_SCALE:.14f}"),
    "q": _text("QOS", "request.qos"),
    "r": JobField("REASON", ("reason", "reason_detail", "exit.signal"), lambda view, *found: _reason_text(*found)),
    "s": JobField("", (), always("")),
    "t": JobField("ST", ("state",), lambda view, state: COMPACT.get(state) or str(state)),
    "u": JobField("USER", ("user_name", "user_id"), lambda view, name, uid: name or str(uid)),
    "v": _text("RESERVATION", "request.reservation"),
    "w": _text("WCKEY", "request.wckey"),
    "x": _text("EXC_NODES", "request.nodes_excluded", ""),
    "y": _number("NICE", "request.nice"),
    "z": JobField("S:C:T", SHAPE_NEEDS, lambda view, *counts: ":".join(str(count or "*") for count in counts)),
    "A": _number("JOBID", "job_id"),
    "B": _text("EXEC_HOST", "batch_node", "n/a"),
    "C": _number("CPUS", "cpus"),
    "D": _number("NODES", "nodes"),
    "E": _text("DEPENDENCY", "dependency"),
    "F": JobField("ARRAY_JOB_ID", ("array_job_id", "job_id"), lambda view, array, job_id: str(array or job_id)),
    "G": _number("GROUP", "group_id"),
    "H": _asked_count("SOCKETS_PER_NODE", "request.sockets_per_node"),
    "I": _asked_count("CORES_PER_SOCKET", "request.cores_per_socket"),
    "J": _asked_count("THREADS_PER_CORE", "request.threads_per_core"),
    "K": JobField(
        "ARRAY_TASK_ID", ("array_task_id", TASKS, SINGLE, "array_throttle"), lambda view, *v: task_text(*v) or "N/A"
    ),
    "L": JobField("TIME_LEFT", ("time_limit_s", *RUN_NEEDS), _left),
    "M": JobField("TIME", RUN_NEEDS, lambda view, *run: format_elapsed(used_s(view.clock, *run))),
    "N": _text("NODELIST", "node_list", ""),
    "O": _number("CONTIGUOUS", "request.contiguous"),
    "P": _text("PARTITION", "partition", ""),
    "Q": _number("PRIORITY", "priority"),
    "R": JobField(
        "NODELIST(REASON)", ("state", "node_list", "reason", "reason_detail", "exit.signal"), _nodes_or_reason
    ),
    "S": JobField("START_TIME", START_NEEDS, lambda view, *values: view.clock.text(_start_us(*values))),
    "T": _text("STATE", "state"),
    "U": _number("UID", "user_id"),
    "V": _time("SUBMIT_TIME", "submit_at_us"),
    "W": _text("LICENSES", "request.licenses"),
    "X": JobField("CORE_SPEC", ("request.core_spec", "request.thread_spec"), _core_spec),
    "Y": _text("SCHEDNODES", "planned_node_list"),
    "Z": _text("WORK_DIR", "request.work_dir"),
}

LETTERS |= {letter: LETTERS[letter]._replace(uncut=True) for letter in "lLMNRxYn"}

#: Names of -O for fields with a letter.
_NAMED_LETTERS = {
    "account": "a", "arrayjobid": "F", "arraytaskid": "K", "batchhost": "B", "command": "o", "comment": "k",
    "contiguous": "O", "cores": "I", "corespec": "X", "dependency": "E", "endtime": "e", "feature": "f", "gres": "b",
    "groupid": "G", "groupname": "g", "jobarrayid": "i", "jobid": "A", "licenses": "W", "mincpus": "c",
    "minmemory": "m", "mintmpdisk": "d", "name": "j", "nice": "y", "nodelist": "N", "numcpus": "C", "numnodes": "D",
    "oversubscribe": "h", "shared": "h", "partition": "P", "priority": "p", "prioritylong": "Q", "qos": "q",
    "reason": "r", "reasonlist": "R", "reqnodes": "n", "reservation": "v", "schednodes": "Y", "sct": "z",
    "selectjobinfo": "s", "sockets": "H", "starttime": "S", "state": "T", "statecompact": "t", "submittime": "V",
    "threads": "J", "timeleft": "L", "timelimit": "l", "timeused": "M", "tres-per-node": "b", "userid": "U",
    "username": "u", "wckey": "w", "workdir": "Z", "excnodes": "x",
}  # fmt: skip

#: Names of -O for unsupported features, with the value that Slurm prints then.
_ABSENT = {
    "allocsid": ("ALLOC_SID", "0"), "associd": ("ASSOC_ID", "0"), "boardspernode": ("BOARDS_PER_NODE", "0"),
    "burstbuffer": ("BURST_BUFFER", "(null)"), "burstbufferstate": ("BURST_BUFFER_STATE", "(null)"),
    "clusterfeature": ("CLUSTER_FEATURES", "(null)"), "containerid": ("CONTAINER_ID", "(null)"),
    "failednode": ("FAILED_NODE", "(null)"), "ntperboard": ("NTASKS_PER_BOARD", "0"),
    "origin": ("ORIGIN", "NA"), "originraw": ("ORIGIN_RAW", "NA"),
    "siblingsactive": ("ACTIVE_SIBLINGS", "NA"), "siblingsactiveraw": ("ACTIVE_SIBLINGS_RAW", "NA"),
    "siblingsviable": ("VIABLE_SIBLINGS", "NA"), "siblingsviableraw": ("VIABLE_SIBLINGS_RAW", "NA"),
    "sperboard": ("SOCKETS_PER_BOARD", "0"),
}  # fmt: skip

#: Every name of -O, in lower case.
NAMES: dict[str, JobField] = (
    {name: LETTERS[letter] for name, letter in _NAMED_LETTERS.items()}
    | {name: JobField(header, (), always(text)) for name, (header, text) in _ABSENT.items()}
    | {
        "accruetime": JobField("ACCRUE_TIME", ELIGIBLE_NEEDS, _eligible),
        "admin_comment": _text("ADMIN_COMMENT", "admin_comment"),
        "allocnodes": _text("ALLOC_NODES", "request.submit_host"),
        "batchflag": JobField("BATCH_FLAG", ("request.kind",), lambda view, kind: str(int(kind == BATCH))),
        "container": _whole("CONTAINER", lambda job: job.request.container or "(null)"),
        "cpus-per-tres": _whole("CPUS_PER_TRES", lambda job: _per_gpu(job.request.cpus_per_gpu)),
        "mem-per-tres": _whole("MEM_PER_TRES", lambda job: _per_gpu(job.request.mem_per_gpu_mb)),
        "tres-per-job": _whole("TRES_PER_JOB", lambda job: gres_text(job.request.gres_per_job)),
        "tres-per-socket": _whole("TRES_PER_SOCKET", lambda job: gres_text(job.request.gres_per_socket)),
        "tres-per-task": _whole("TRES_PER_TASK", lambda job: tres_per_task(job.request) or "N/A"),
        "tres-bind": _whole(
            "TRES_BIND", lambda job: f"gres/gpu:{job.request.gpu_bind}" if job.request.gpu_bind else "N/A"
        ),
        "tres-freq": _whole("TRES_FREQ", lambda job: f"gpu:{job.request.gpu_freq}" if job.request.gpu_freq else "N/A"),
        "cluster": JobField("CLUSTER", (), lambda view: view.cluster),
        "cpus-per-task": JobField("CPUS_PER_TASK", ("request.cpus_per_task",), lambda view, cpus: str(max(cpus, 1))),
        "deadline": JobField("DEADLINE", (WHOLE,), lambda view, job: view.clock.text(job.request.deadline_at_us)),
        "delayboot": _whole("DELAY_BOOT", lambda job: format_elapsed(job.request.delay_boot_s)),
        "eligibletime": JobField("ELIGIBLE_TIME", ELIGIBLE_NEEDS, _eligible),
        "exclusive": _whole("EXCLUSIVE", _exclusive),
        "extra": _whole("EXTRA", lambda job: job.request.extra or "(null)"),
        "hetjobid": JobField("HET_JOB_ID", ("het_job_id",), lambda view, number: str(number or "N/A")),
        "hetjobidset": _text("HET_JOB_ID_SET", "het_job_ids", "N/A"),
        "hetjoboffset": JobField(
            "HET_JOB_OFFSET", ("het_job_id", "het_offset"), lambda view, number, at: str(at) if number else "N/A"
        ),
        "derivedec": JobField(
            "DERIVED_EC", ("derived_exit.code", "derived_exit.signal"), lambda view, code, signal: str(code or signal)
        ),
        "exit_code": JobField(
            "EXIT_CODE", ("exit.code", "exit.signal"), lambda view, code, signal: str(code or signal)
        ),
        "licensesalloc": JobField(
            "LICENSES_ALLOC",
            ("request.licenses", "licenses_alloc", "state"),
            lambda view, names, held, state: (held or names) if names and state not in WAITING else "(null)",
        ),
        "lastschedeval": _time("LAST_SCHED_EVAL", "last_sched_at_us"),
        "maxcpus": _number("MAX_CPUS", "cpus"),
        "maxnodes": JobField("MAX_NODES", ("request.nodes_max", "nodes"), lambda view, most, nodes: str(most or nodes)),
        "mcslabel": _whole("MCSLABEL", lambda job: job.request.mcs_label or "(null)"),
        "mintime": _whole("TIME_MIN", lambda job: format_elapsed(job.request.time_min_s)),
        "network": _whole("NETWORK", lambda job: job.request.network or "(null)"),
        "ntpercore": _whole("NTASKS_PER_CORE", lambda job: str(job.request.ntasks_per_core or "N/A")),
        "ntpernode": _number("NTASKS_PER_NODE", "request.ntasks_per_node"),
        "ntpersocket": _whole("NTASKS_PER_SOCKET", lambda job: str(job.request.ntasks_per_socket or "N/A")),
        "numtasks": _number("TASKS", "tasks"),
        "prefer": _whole("PREFER", lambda job: job.request.prefer or "(null)"),
        "preempttime": _time("PREEMPT_TIME", "preempt_at_us"),
        "pendingtime": JobField("PENDING_TIME", ("state", "start_at_us", "submit_at_us"), _pending_s),
        "profile": _whole("PROFILE", lambda job: profile_text(job.request.profile)),
        "reboot": _whole("REBOOT", lambda job: str(int(job.request.reboot))),
        "reqswitch": _whole("REQ_SWITCH", lambda job: str(job.request.switches_max)),
        "requeue": _number("REQUEUE", "request.requeue"),
        "resizetime": JobField(
            "RESIZE_TIME", ("resized_at_us",), lambda view, at_us: view.clock.text(at_us) if at_us else "N/A"
        ),
        "restartcnt": _number("RESTART_COUNT", "attempt"),
        "sluid": JobField("SLUID", ("submit_at_us", "job_id"), lambda view, at_us, job_id: format_sluid(at_us, job_id)),
        "stderr": JobField("STDERR", ("std_err", "std_out"), lambda view, err, out: err or out),
        "stdin": _text("STDIN", "std_in", "/dev/null"),
        "stdout": _text("STDOUT", "std_out", ""),
        "submitline": _whole("SUBMIT_LINE", lambda job: job.request.submit_line or "(null)"),
        "system_comment": _whole("SYSTEM_COMMENT", lambda job: job.system_comment or "(null)"),
        "tres-alloc": JobField(
            "TRES_ALLOC", ("tres_alloc", "tres_req"), lambda view, held, asked: held or asked or "N/A"
        ),
        "wait4switch": _whole("WAIT4SWITCH", lambda job: format_elapsed(job.request.switches_wait_s)),
    }
)


def _itself(view: JobView, number: int) -> int:
    return number


def _id(
    view: JobView, job_id: int, array_id: int, task_id: int, tasks: str, single: bool, throttle: int, het: int, at: int
) -> tuple[int, int]:
    if het:
        return het, at
    if task_id < 0:
        return array_id or job_id, int(tasks) if single else LATE
    return array_id, task_id


#: Letters that do not sort by their text. Times sort by their seconds, as in Slurm: within one the next letter decides.
_SORTS: dict[str, SortKey] = {
    "i": SortKey(ID_NEEDS, _id),
    "l": SortKey(("time_limit_s",), lambda view, limit_s: limit_s % LATE),
    "L": SortKey(
        ("time_limit_s", *RUN_NEEDS), lambda view, limit_s, *run: limit_s - used_s(view.clock, *run) if limit_s >= 0 else LATE
    ),
    "M": SortKey(RUN_NEEDS, lambda view, *run: used_s(view.clock, *run)),
    "e": SortKey(END_NEEDS, lambda view, *values: _end_us(*values) // US),
    "S": SortKey(START_NEEDS, lambda view, *values: _start_us(*values) // US or LATE),
    "V": SortKey(("submit_at_us",), lambda view, at_us: at_us // US),
} | {
    letter: SortKey((name,), _itself)
    for letter, name in {
        "m": "mem_mb", "p": "priority", "Q": "priority", "A": "job_id", "C": "cpus", "D": "nodes",
        "G": "group_id", "U": "user_id",
    }.items()
} | {
    letter: SortKey(LETTERS[letter].needs, lambda view, number, *more: number) for letter in "dHIJ"
}  # fmt: skip


#: Letters that Slurm accepts and ignores.
_SILENT = frozenset("bcfn")
#: Letters that Slurm ignores with a message.
_UNSORTED = frozenset("aFkKoqrRwxXyZ")


def sort_key(letter: str) -> SortKey | None:
    """The sort key of a letter of -S; None for a letter that does not sort."""
    field = LETTERS.get(letter)
    if field is None or not field.header or letter in _UNSORTED:
        return None
    if letter in _SILENT:
        return SortKey((), lambda view: 0)
    return _SORTS.get(letter) or SortKey(field.needs, field.show)
