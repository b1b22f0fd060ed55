"""The columns of sacct: every field that Slurm knows, with its width there.

A line is a `RecordRow`: a job, or one of its steps. A field without data (energy without GPUs, pages, ...) is empty, as
in Slurm. Fields of the job alone (user, partition, limits) are empty on the lines of its steps; fields measured by step
(memory, tasks) are empty on the line of a job. CPU time and energy are on both: a job's is the sum of its steps.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from cli.base.format import DisplayClock, TableColumn, amount, clipped_tasks, text_of
from cli.base.jobids import component_text, layout_name
from cli.listings.stepusage import FIELDS, K, Sizes, energy_text, recorded
from penstock.v1.accounting_pb2 import JobRecord, StepRecord
from penstock.v1.common_pb2 import ExitStatus
from penstock.values.duration import format_duration
from penstock.values.exitcode import format_exit
from penstock.values.jobid import format_sluid, format_step
from penstock.values.states import JobState
from penstock.values.tres import parse_tres

ACTIVE = frozenset(("PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "SUSPENDED"))
#: States with another name in accounting: a job that configures or completes is running.
SHOWN_STATE = {"CONFIGURING": "RUNNING", "COMPLETING": "RUNNING"}
#: Shown as the start of a job that never started.
NEVER = "None"
LIMIT_UNSET = "Partition_Limit"


class RecordRow(NamedTuple):
    """A line: a job's attempt (step None), or one of its steps."""

    job: JobRecord
    step: StepRecord | None
    tasks: str = ""  # of an array's pending record, when its tasks are listed one by one

    @property
    def task_text(self) -> str:
        """The array task, or the list of the pending ones with their limit."""
        job = self.job
        if job.HasField("array_task_id"):
            return str(job.array_task_id)
        if self.tasks or not job.array_tasks:
            return self.tasks
        throttle = f"%{job.array_throttle}" if job.array_throttle else ""
        return f"[{clipped_tasks(job.array_tasks)}{throttle}]"

    def id_text(self, raw: bool = False) -> str:
        """`12_4.batch`; raw: the job's own number."""
        base = str(self.job.job_id)
        if self.task_text and not raw:
            base = f"{self.job.array_job_id or self.job.job_id}_{self.task_text}"
        elif self.job.het_job_id and not raw:
            base = component_text(self.job)
        return f"{base}.{format_step(self.step.step_id)}" if self.step else base


class JobNumbers(NamedTuple):
    """The controller's numbers of records, by name; loaded when a column needs them."""

    assoc_ids: Mapping[tuple[str, str], int] = {}  # by account and user
    qos_ids: Mapping[str, int] = {}
    wckey_ids: Mapping[tuple[str, str], int] = {}  # by key and user


class RecordView(NamedTuple):
    """The further inputs of a column."""

    clock: DisplayClock
    unit: str = ""  # --units
    convert: bool = True
    cluster: str = ""
    numbers: JobNumbers = JobNumbers()


def association_id(ids: Mapping[tuple[str, str], int], job: JobRecord) -> int:
    """The number of the association that a job is charged to; 0 = deleted."""
    return job.assoc_id or ids.get((account_of(job), job.user_name), 0)


def account_of(job: JobRecord) -> str:
    """The account that the job is charged to, if the controller has it; else the requested one."""
    return job.account or job.request.account


def wckey_of(job: JobRecord) -> str:
    """The job's wckey, with `*` before the user's default."""
    return job.wckey or job.request.wckey


def database_number(job: JobRecord) -> int:
    """One number for each record: the job's, and plus 2^32 for each further attempt."""
    return job.attempt << 32 | job.job_id


_Value = Callable[[RecordRow, RecordView], str]


def start_us(row: RecordRow) -> int:
    """When the line's job or step started."""
    return row.step.start_at_us if row.step else row.job.start_at_us


def end_us(row: RecordRow) -> int:
    """When it ended; 0 = it has not. With -T at most the end of the window, also for a running one."""
    return row.step.end_at_us if row.step else row.job.end_at_us


def elapsed_s(row: RecordRow, view: RecordView) -> int:
    """The run time, until now if it still runs."""
    start = start_us(row)
    if not start or (row.step or row.job).state == "PENDING":
        return 0
    until = end_us(row) or view.clock.now_us
    return max(until - start - suspended_us(row, until), 0) // 1_000_000


def suspended_us(row: RecordRow, until_us: int) -> int:
    """The suspended time. Of a step from its own start: before that its job may have been suspended, too."""
    job = row.job
    total = job.suspended_us
    if job.state == "SUSPENDED" and job.suspended_at_us:
        total += max(0, until_us - job.suspended_at_us)
    return max(0, total - (row.step.start_at_us - job.start_at_us)) if row.step and total else total


def shown_cpus(row: RecordRow) -> int:
    """CPUs as columns show them: of a job that waits those that it asked for."""
    waits = row.step is None and row.job.state == JobState.PENDING.name
    return row.job.cpus_req if waits else alloc_cpus(row)


def alloc_cpus(row: RecordRow) -> int:
    """Allocated CPUs; 0 before the start."""
    return row.step.cpus_alloc if row.step else row.job.cpus_alloc


def state_of(row: RecordRow) -> str:
    """The state as one word."""
    step = row.step
    if step is None:
        return SHOWN_STATE.get(row.job.state, row.job.state)
    if step.state == JobState.FAILED.name and step.exit.signal:  # in Slurm, one that a signal has ended is cancelled
        return JobState.CANCELLED.name
    return SHOWN_STATE.get(step.state, step.state)


def state_text(row: RecordRow) -> str:
    """The state: `COMPLETED`, `CANCELLED by 1000`."""
    job = row.job
    if row.step is None and job.state == JobState.CANCELLED.name and job.cancelled_by_uid >= 0:
        return f"{job.state} by {job.cancelled_by_uid}"
    return state_of(row)


def exit_of(row: RecordRow) -> ExitStatus:
    """The exit code. A job that was cancelled is recorded at once, before its processes have ended: it has none."""
    if row.step is None and row.job.state == JobState.CANCELLED.name:
        return ExitStatus()
    return (row.step or row.job).exit


def priority_of(job: JobRecord) -> int:
    """The priority; that of a held job is 0, whatever it will be."""
    return 0 if job.state == JobState.PENDING.name and job.reason in HELD else job.priority


def tres_text(tres: str) -> str:
    """TRES in the order of their names, as sacct has them."""
    return ",".join(sorted(tres.split(","), key=lambda part: part.partition("=")[0]))


def planned_s(row: RecordRow, view: RecordView) -> int:
    """The waiting time from the eligible time on."""
    job = row.job
    if not job.eligible_at_us:
        return 0
    until = job.start_at_us or job.end_at_us or view.clock.now_us
    return max(until - job.eligible_at_us, 0) // 1_000_000


def cpu_us(row: RecordRow, *, user: bool, system: bool) -> int:
    """CPU time in microseconds."""
    steps = [row.step] if row.step else list(row.job.steps)
    return sum(user * s.usage.user_cpu_us + system * s.usage.system_cpu_us for s in steps)


def cpu_text(used_us: int) -> str:
    """`00:01.234`, `01:02:03`, `1-02:03:04`: below an hour with milliseconds."""
    seconds = used_us // 1_000_000
    if seconds >= 3600:
        return format_duration(seconds)
    return f"{seconds // 60:02d}:{seconds % 60:02d}.{used_us // 1000 % 1000:03d}"


def _submit_us(row: RecordRow) -> int:
    return row.step.submit_at_us or row.step.start_at_us if row.step else row.job.submit_at_us


def _start(row: RecordRow, view: RecordView) -> str:
    never = NEVER if row.step is None and row.job.state not in ACTIVE else "Unknown"
    return view.clock.text(start_us(row), never)


def _time_limit(row: RecordRow, view: RecordView) -> str:
    limit = row.job.time_limit_s
    return LIMIT_UNSET if limit == 0 else format_duration(limit)


def _time_limit_raw(row: RecordRow, view: RecordView) -> str:
    limit = row.job.time_limit_s
    return "UNLIMITED" if limit < 0 else LIMIT_UNSET if limit == 0 else str(-(-limit // 60))


def _requested_memory(row: RecordRow, view: RecordView) -> str:
    mb = parse_tres(row.job.tres_req).get("mem", 0) if row.job.tres_req else 0
    return amount(mb, "M", unit=view.unit, convert=view.convert)


def _node_list(row: RecordRow, view: RecordView) -> str:
    return row.step.node_list if row.step else row.job.node_list or "None assigned"


def _size(value: int, view: RecordView) -> str:
    """Kilobytes with a unit; without conversion plain bytes."""
    if not view.convert and not view.unit:
        return str(value * 1024)
    return amount(value, "K", unit=view.unit)


def _bytes(value: int, view: RecordView) -> str:
    return amount(value, "", unit=view.unit, convert=view.convert)


def _usage(row: RecordRow, view: RecordView) -> str:
    """What a step used, as TRES."""
    step = row.step
    if step is None or not step.HasField("usage"):
        return ""
    use = step.usage
    used_s = (use.user_cpu_us + use.system_cpu_us) // 1_000_000
    parts = [f"cpu={format_duration(used_s)}", f"mem={_size(use.max_rss_kb, view)}"]
    if use.max_vmsize_kb:
        parts.append(f"vmem={_size(use.max_vmsize_kb, view)}")
    if use.disk_read_bytes:
        parts.append(f"fs/disk={use.disk_read_bytes}")
    return ",".join(parts)


def _written(row: RecordRow, view: RecordView) -> str:
    return f"fs/disk={row.step.usage.disk_write_bytes}" if row.step and row.step.usage.disk_write_bytes else ""


def of_job(value: Callable[[JobRecord], object]) -> _Value:
    """A value that steps do not have."""
    return lambda row, view: "" if row.step else str(value(row.job))


def of_step(value: Callable[[StepRecord], object]) -> _Value:
    """A value that only steps have."""
    return lambda row, view: str(value(row.step)) if row.step else ""


def gpu_error(job: JobRecord) -> str:
    """The text of a GPU's failure, for a job without a comment of its user; comments of administrators are excluded."""
    at = job.admin_comment.find("GPU_ERROR: ")
    return job.admin_comment[at:].partition("; ")[0] if at >= 0 else ""


def job_only(value: _Value) -> _Value:
    """The same for values that need the view."""
    return lambda row, view: "" if row.step else value(row, view)


def first_node(row: RecordRow, view: RecordView) -> str:
    """The node of a step's highest values, if the step has only one node."""
    step = row.step
    return step.node_list if step and step.nodes_alloc <= 1 and step.HasField("usage") else ""


def measured(value: Callable[[StepRecord, RecordView], str]) -> _Value:
    """A measured value of a step; empty without measurements."""
    return lambda row, view: value(row.step, view) if row.step and row.step.HasField("usage") else ""


def step_size(name: str) -> _Value:
    """A size of a step in kilobytes."""
    return measured(lambda step, view: _size(int(getattr(step.usage, name)), view))


def step_bytes(name: str) -> _Value:
    """A size of a step in bytes."""
    return measured(lambda step, view: _bytes(int(getattr(step.usage, name)), view))


def nothing(row: RecordRow, view: RecordView) -> str:
    """Always empty: not measured."""
    return ""


def job_energy_j(job: JobRecord) -> int | None:
    """What the GPUs of all its steps consumed, in joules; None = not measured."""
    found = [metric.total for step in job.steps for metric in step.metrics if metric.kind == K.ENERGY_J]
    return sum(found) if found else None


def _energy(text: Callable[[int, Sizes], str]) -> _Value:
    def show(row: RecordRow, view: RecordView) -> str:
        joules = None if row.step else job_energy_j(row.job)
        return "" if joules is None else text(joules, Sizes(view.unit, view.convert))

    return show


def name_of(row: RecordRow) -> str:
    """The name of the job or step."""
    return (row.step.name or format_step(row.step.step_id)) if row.step else row.job.request.name


def _average_cpu(step: StepRecord, view: RecordView) -> str:
    used_us = step.usage.user_cpu_us + step.usage.system_cpu_us
    return format_duration(used_us // 1_000_000 // max(step.tasks, 1))


def layout_of(step: StepRecord) -> str:
    """How tasks are spread: where nothing was asked for, over the nodes when there are not more tasks than nodes."""
    if step.step_id < 0:
        return "Unknown"
    return layout_name(step.distribution or ("block" if step.tasks > step.nodes_alloc else "cyclic"))


#: Columns of what a job asked for with --cpu-freq, which is not kept.
_FREQUENCIES = ("ReqCPUFreq", "ReqCPUFreqGov", "ReqCPUFreqMax", "ReqCPUFreqMin")
#: Reasons of jobs whose priority is 0, whatever it will be.
HELD = frozenset(("JobHeldUser", "JobHeldAdmin"))

VALUES: dict[str, _Value] = {
    "Account": lambda r, v: account_of(r.job),
    "AdminComment": of_job(lambda j: j.admin_comment),
    "AllocCPUS": lambda r, v: str(shown_cpus(r)),
    "AllocNodes": lambda r, v: str(r.step.nodes_alloc if r.step else r.job.nodes_alloc),
    "AllocTRES": lambda r, v: tres_text(r.step.tres_alloc if r.step else r.job.tres_alloc),
    "AssocID": job_only(lambda r, v: str(association_id(v.numbers.assoc_ids, r.job))),
    "AveCPU": measured(_average_cpu),
    "AveDiskRead": step_bytes("disk_read_bytes"),
    "AveDiskWrite": step_bytes("disk_write_bytes"),
    "AveRSS": step_size("max_rss_kb"),
    "AveVMSize": step_size("max_vmsize_kb"),
    "Cluster": lambda r, v: r.job.cluster or v.cluster,
    "Comment": of_job(lambda j: j.request.comment or gpu_error(j)),
    "ConsumedEnergy": _energy(energy_text),
    "ConsumedEnergyRaw": _energy(lambda joules, sizes: str(joules)),
    "Constraints": of_job(lambda j: j.request.features),
    "Container": of_job(lambda j: j.request.container),
    "CPUTime": lambda r, v: format_duration(elapsed_s(r, v) * alloc_cpus(r)),
    "CPUTimeRAW": lambda r, v: str(elapsed_s(r, v) * alloc_cpus(r)),
    "DBIndex": of_job(database_number),
    "DerivedExitCode": of_job(lambda j: format_exit(j.derived_exit.code, j.derived_exit.signal)),
    "Elapsed": lambda r, v: format_duration(elapsed_s(r, v)),
    "ElapsedRaw": lambda r, v: str(elapsed_s(r, v)),
    "Eligible": lambda r, v: v.clock.text(r.step.start_at_us if r.step else r.job.eligible_at_us, "Unknown"),
    "End": lambda r, v: v.clock.text(end_us(r), "Unknown"),
    "ExitCode": lambda r, v: format_exit(exit_of(r).code, exit_of(r).signal),
    "Extra": of_job(lambda j: j.request.extra),
    "FailedNode": of_job(lambda j: j.failed_node),
    "GID": of_job(lambda j: j.group_id),
    "Group": of_job(lambda j: j.group_name or j.group_id),
    "JobID": lambda r, v: r.id_text(),
    "JobIDRaw": lambda r, v: r.id_text(raw=True),
    "JobName": lambda r, v: name_of(r),
    "Layout": of_step(layout_of),
    "Licenses": of_job(lambda j: j.request.licenses),
    "MaxDiskRead": step_bytes("disk_read_bytes"),
    "MaxDiskReadNode": first_node,
    "MaxDiskWrite": step_bytes("disk_write_bytes"),
    "MaxDiskWriteNode": first_node,
    "MaxRSS": step_size("max_rss_kb"),
    "MaxRSSNode": first_node,
    "MaxRSSTask": measured(lambda s, v: "0"),
    "MaxVMSize": step_size("max_vmsize_kb"),
    "MaxVMSizeNode": first_node,
    "MaxVMSizeTask": measured(lambda s, v: "0"),
    "McsLabel": of_job(lambda j: j.request.mcs_label),
    "MinCPU": measured(_average_cpu),
    "MinCPUNode": first_node,
    "MinCPUTask": measured(lambda s, v: "0"),
    "NCPUS": lambda r, v: str(shown_cpus(r)),
    "NNodes": lambda r, v: str(r.step.nodes_alloc if r.step else r.job.nodes_alloc or r.job.nodes_req),
    "NodeList": _node_list,
    "NTasks": of_step(lambda s: s.tasks),
    "Partition": of_job(lambda j: j.partition),
    "Planned": job_only(lambda r, v: format_duration(planned_s(r, v))),
    "PlannedCPU": job_only(lambda r, v: format_duration(planned_s(r, v) * r.job.cpus_req)),
    "PlannedCPURAW": job_only(lambda r, v: str(planned_s(r, v) * r.job.cpus_req)),
    "Priority": of_job(priority_of),
    "QOS": of_job(lambda j: j.request.qos),
    "QOSRAW": job_only(lambda r, v: str(v.numbers.qos_ids.get(r.job.request.qos, 0))),
    "QOSREQ": of_job(lambda j: j.request.qos),
    "Reason": of_job(lambda j: j.reason or "None"),
    **dict.fromkeys(_FREQUENCIES, lambda r, v: "0" if r.step else "Unknown"),
    "ReqCPUS": lambda r, v: str(r.step.cpus_alloc if r.step else r.job.cpus_req),
    "ReqMem": job_only(_requested_memory),
    "ReqNodes": lambda r, v: str(r.step.nodes_alloc if r.step else r.job.nodes_req),
    "ReqReservation": of_job(lambda j: j.request.reservation),
    "ReqTRES": of_job(lambda j: tres_text(j.tres_req)),
    "Reservation": of_job(lambda j: j.request.reservation),
    "Restarts": of_job(lambda j: j.attempt),
    "SegmentSize": of_job(lambda j: j.request.segment or ""),
    "SLUID": of_job(lambda j: format_sluid(j.submit_at_us, j.job_id)),
    "Start": _start,
    "State": lambda r, v: state_text(r),
    "StdErr": of_job(lambda j: text_of(j.std_err or j.std_out)),
    "StdIn": of_job(lambda j: text_of(j.std_in) or "/dev/null"),
    "StdOut": of_job(lambda j: text_of(j.std_out)),
    "Submit": lambda r, v: v.clock.text(_submit_us(r), "Unknown"),
    "SubmitLine": lambda r, v: r.step.submit_line if r.step else r.job.request.submit_line,
    "Suspended": lambda r, v: format_duration(suspended_us(r, end_us(r) or v.clock.now_us) // 1_000_000),
    "SystemComment": of_job(lambda j: j.system_comment),
    "SystemCPU": lambda r, v: cpu_text(cpu_us(r, user=False, system=True)),
    "Timelimit": job_only(_time_limit),
    "TimelimitRaw": job_only(_time_limit_raw),
    "TotalCPU": lambda r, v: cpu_text(cpu_us(r, user=True, system=True)),
    "TRESUsageInAve": _usage,
    "TRESUsageInMax": _usage,
    "TRESUsageInMin": _usage,
    "TRESUsageInTot": _usage,
    "TRESUsageOutAve": _written,
    "TRESUsageOutMax": _written,
    "TRESUsageOutMin": _written,
    "TRESUsageOutTot": _written,
    "UID": of_job(lambda j: j.user_id),
    "User": of_job(lambda j: j.user_name or j.user_id),
    "UserCPU": lambda r, v: cpu_text(cpu_us(r, user=True, system=False)),
    "WCKey": of_job(wckey_of),
    "WCKeyID": job_only(lambda r, v: str(v.numbers.wckey_ids.get((wckey_of(r.job).lstrip("*"), r.job.user_name), 0))),
    "WorkDir": of_job(lambda j: text_of(j.request.work_dir)),
}


def _sampled(name: str, otherwise: _Value) -> _Value:
    """From the samples of a step's tasks, if any; else from the record of its end."""
    show = FIELDS[name]

    def value(row: RecordRow, view: RecordView) -> str:
        if row.step is None or not row.step.metrics:
            return otherwise(row, view)
        return show(recorded(row.step.metrics, row.step.tasks), Sizes(view.unit, view.convert))

    return value


VALUES |= {name: _sampled(name, VALUES.get(name, nothing)) for name in FIELDS}

#: Every field of Slurm in its order, with its width; negative = left-aligned.
_WIDTHS = """
Account 10|AdminComment 15|AllocCPUS 10|AllocNodes 10|AllocTRES 10|AssocID 7|AveCPU 10|AveCPUFreq 10|AveDiskRead 14
AveDiskWrite 14|AvePages 10|AveRSS 10|AveVMSize 10|BlockID 16|Cluster 10|Comment 14|Constraints 19|ConsumedEnergy 14
ConsumedEnergyRaw 17|Container 19|CPUTime 10|CPUTimeRAW 10|DBIndex -10|DerivedExitCode 15|Elapsed 10|ElapsedRaw 10
Eligible 19|End 19|ExitCode 8|Extra 14|FailedNode 15|Flags 19|GID 6|Group 9|JobID -12|JobIDRaw -12|JobName 10|Layout 9
Licenses 10|MaxDiskRead 12|MaxDiskReadNode 15|MaxDiskReadTask 15|MaxDiskWrite 12|MaxDiskWriteNode 16
MaxDiskWriteTask 16|MaxPages 8|MaxPagesNode 12|MaxPagesTask 14|MaxRSS 10|MaxRSSNode 10|MaxRSSTask 10|MaxVMSize 10
MaxVMSizeNode 14|MaxVMSizeTask 14|McsLabel 12|MinCPU 10|MinCPUNode 10|MinCPUTask 10|NCPUS 10|NNodes 8|NodeList 15
NTasks 8|Partition 10|Planned 10|PlannedCPU 10|PlannedCPURAW 13|Priority 10|QOS 10|QOSRAW 6|QOSREQ 10|Reason 22
ReqCPUFreq 10|ReqCPUFreqGov 13|ReqCPUFreqMax 13|ReqCPUFreqMin 13|ReqCPUS 8|ReqMem 10|ReqNodes 8|ReqTRES 10
Reservation 20|ReservationId 8|ReqReservation 20|Restarts 8|SegmentSize 11|SLUID 14|Start 19|State 10|StdErr 20
StdIn 20|StdOut 20|Submit 19|SubmitLine 20|Suspended 10|SystemComment 15|SystemCPU 10|Timelimit 10|TimelimitRaw 10
TotalCPU 10|TRESUsageInAve 14|TRESUsageInMax 14|TRESUsageInMaxNode 18|TRESUsageInMaxTask 18|TRESUsageInMin 14
TRESUsageInMinNode 18|TRESUsageInMinTask 18|TRESUsageInTot 14|TRESUsageOutAve 15|TRESUsageOutMax 15
TRESUsageOutMaxNode 19|TRESUsageOutMaxTask 19|TRESUsageOutMin 15|TRESUsageOutMinNode 19|TRESUsageOutMinTask 19
TRESUsageOutTot 15|UID 6|User 9|UserCPU 10|WCKey 10|WCKeyID 10|WorkDir 20
"""


def _columns() -> tuple[TableColumn[RecordRow, RecordView], ...]:
    pairs = (item.split() for line in _WIDTHS.split("\n") for item in line.split("|") if item)
    return tuple(TableColumn(name, int(width), VALUES.get(name, nothing)) for name, width in pairs)


COLUMNS = _columns()
