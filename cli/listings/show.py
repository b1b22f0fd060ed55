"""The records of `scontrol show`: one `Key=Value` text per job, node or partition.

Scripts read these texts, so the order of keys is Slurm's and none is left out: an unset one has Slurm's value for that
((null), N/A, Unknown, 0). Keys that Slurm does not have are in a line at the end. A record is a list of lines, a line
is a text of `Key=Value` pairs; `layout` prints them as lines or, for -o, as one line. Everything here is a pure
function of the messages, the time of the report and the style of dates.
"""

from collections.abc import Iterable
from itertools import groupby
from typing import NamedTuple

from cli.base.format import clipped_tasks
from cli.base.jobids import begin_at, end_at, start_at
from cli.base.output import rows_text
from cli.listings.nodegres import gpu_lines, gres_drain, gres_held, gres_used, job_gres, tres_per_task
from cli.listings.nodestate import cpus_for_jobs
from penstock.v1.common_pb2 import BATCH, GresCount, JobRequest, NodeAllocation
from penstock.v1.controller_pb2 import ConfigLine, JobInfo, NodeInfo, PartitionInfo, StoryLine
from penstock.values.cpusets import format_cpus
from penstock.values.dates import format_date
from penstock.values.duration import format_duration
from penstock.values.exitcode import format_exit, with_signal
from penstock.values.gres import Gres, format_gres, format_node_gres
from penstock.values.hostlist import compress
from penstock.values.jobid import format_sluid
from penstock.values.memory import format_mb
from penstock.values.reasons import sentence, shown
from penstock.values.runtime import ran_us
from penstock.values.states import ENDED
from penstock.values.tres import format_tres

NULL = "(null)"
INDENT = "   "
#: Slurm's long words for the flags of a node.
NODE_FLAG_WORDS = {"NO_RESPOND": "NOT_RESPONDING", "INVAL": "INVALID_REG"}
CONFIG_KEY_WIDTH = 23

ShownRecord = list[str]


class ShownReport(NamedTuple):
    """The time of the report, the format of dates (SLURM_TIME_FORMAT), and the level of detail."""

    now_us: int
    style: str = "standard"
    detail: bool = False

    def date(self, at_us: int, unknown: str = "Unknown") -> str:
        """A point in time."""
        return format_date(at_us, self.now_us, style=self.style) if at_us > 0 else unknown


def layout(record: ShownRecord, *, one_line: bool) -> str:
    """Formats a record as text, with Slurm's separator after it."""
    if one_line:
        return rows_text([line.strip() for line in record if line.strip()], " ") + "\n"
    return rows_text(record, f"\n{INDENT}") + "\n\n"


def job_record(job: JobInfo, report: ShownReport) -> ShownRecord:
    """One job, as `scontrol show job` prints it."""
    return [*_job_head(job, report), *_job_times(job, report), *_job_resources(job, report), *_job_files(job)]


def _job_head(job: JobInfo, report: ShownReport) -> ShownRecord:
    request = job.request
    lines = [
        f"{job_title(job)} JobName={request.name}",
        *([f"HetJobIdSet={job.het_job_ids}"] if job.het_job_id else []),
        *([f"SLUID={format_sluid(job.submit_at_us, job.job_id)}"] if job.submit_at_us else []),
        f"UserId={job.user_name}({job.user_id}) GroupId={job.group_name}({job.group_id}) "
        f"MCS_label={request.mcs_label or 'N/A'}",
        f"Priority={job.priority} Nice={request.nice} Account={_null(request.account)} QOS={_null(request.qos)}"
        + (f" WCKey={request.wckey}" if request.wckey else ""),
        f"JobState={job.state} Reason={_reason(job)} Dependency={_null(job.dependency)}",
        f"Requeue={request.requeue:d} Restarts={job.attempt} BatchFlag={is_batch(request):d} "
        f"Reboot={request.reboot:d} ExitCode={_exit(job)}",
    ]
    return (
        [*lines, f"DerivedExitCode={format_exit(job.derived_exit.code, job.derived_exit.signal)}"]
        if report.detail
        else lines
    )


def _reason(job: JobInfo) -> str:
    """Slurm's reason, followed by the nodes that do not answer or the signal that ended it."""
    text = with_signal(shown(job.reason, job.reason_detail), job.exit.signal)
    return text.replace(" ", "_") or "None"


def is_batch(request: JobRequest) -> bool:
    """Whether a script owns the allocation."""
    return request.kind == BATCH


def job_title(job: JobInfo) -> str:
    """JobId and, for arrays, the tasks."""
    if job.het_job_id:
        return f"JobId={job.job_id} HetJobId={job.het_job_id} HetJobOffset={job.het_offset}"
    if not job.array_job_id:
        return f"JobId={job.job_id}"
    throttle = f" ArrayTaskThrottle={job.array_throttle}" if job.array_throttle else ""
    tasks = str(job.array_task_id)
    if not job.HasField("array_task_id"):
        tasks = clipped_tasks(job.array_tasks) + (f"%{job.array_throttle}" if throttle else "")
    return f"JobId={job.job_id} ArrayJobId={job.array_job_id} ArrayTaskId={tasks}{throttle}"


def _job_times(job: JobInfo, report: ShownReport) -> ShownRecord:
    eligible_at_us = job.eligible_at_us or begin_at(job)
    if not eligible_at_us and job.state == "PENDING" and job.reason.startswith("Partition"):
        eligible_at_us = job.submit_at_us  # as in Slurm, where the job itself has to request the wait
    preemption = []
    if job.preempt_at_us:
        preemption = [
            f"PreemptEligibleTime={report.date(job.start_at_us)} PreemptTime={report.date(job.preempt_at_us)}"
        ]
    return [
        f"RunTime={format_duration(run_time_s(job, report.now_us))} TimeLimit={format_duration(job.time_limit_s)} "
        f"TimeMin={format_duration(job.request.time_min_s) if job.request.time_min_s else 'N/A'}",
        f"SubmitTime={report.date(job.submit_at_us)} EligibleTime={report.date(eligible_at_us)}",
        f"AccrueTime={report.date(eligible_at_us)}",
        f"StartTime={report.date(start_at(job))} EndTime={report.date(end_at(job))} "
        f"Deadline={report.date(job.request.deadline_at_us, 'N/A')}",
        *([f'CronJob=Yes CrontabSpec="{job.cron}"'] if job.cron else []),
        *preemption,
        f"SuspendTime={report.date(job.suspended_at_us, 'None')} SecsPreSuspend={_pre_suspend_s(job)} "
        f"LastSchedEval={report.date(job.last_sched_at_us)} Scheduler={'Backfill' if job.planned_start_at_us else 'Main'}",
    ]


def run_time_s(job: JobInfo, now_us: int) -> int:
    """The run time of the job's current attempt, in seconds; 0 before it starts."""
    if job.state in ("PENDING", "REQUEUED") or not job.start_at_us:
        return 0
    running = job.state in ("CONFIGURING", "RUNNING", "STOPPED", "SUSPENDED") or not job.end_at_us
    until_us = now_us if running else job.end_at_us
    stands_since_us = job.suspended_at_us if job.state == "SUSPENDED" else 0
    return ran_us(until_us, job.start_at_us, job.suspended_us, stands_since_us) // 1_000_000


def _pre_suspend_s(job: JobInfo) -> int:
    """The run time of the job when it was last suspended (or resumed, which is the same)."""
    if not job.suspended_at_us:
        return 0
    return ran_us(job.suspended_at_us, job.start_at_us, job.suspended_us) // 1_000_000


def _job_resources(job: JobInfo, report: ShownReport) -> ShownRecord:
    request = job.request
    lines = [
        f"Partition={job.partition} AllocNode:Sid={request.submit_host}:0",
        f"ReqNodeList={_null(request.nodes_required)} ExcNodeList={_null(request.nodes_excluded)}",
        f"NodeList={_null(job.node_list)}",
    ]
    if job.planned_node_list:
        lines[-1] += f" SchedNodeList={job.planned_node_list}"
    batch = [f"BatchFeatures={request.batch_features}"] if request.batch_features else []
    batch += [f"BatchHost={job.batch_node}"] if job.batch_node else []
    lines += [" ".join(batch)] if batch else []
    lines += [
        f"NumNodes={_node_count(job)} NumCPUs={job.cpus} NumTasks={job.tasks} "
        f"CPUs/Task={request.cpus_per_task or 1} {_required_inside(request)}",
        f"ReqTRES={_null(job.tres_alloc if job.resized_at_us else job.tres_req)}",
        f"AllocTRES={_null(job.tres_alloc)}",
        f"Socks/Node={_any(request.sockets_per_node)} NtasksPerN:B:S:C={request.ntasks_per_node}:0:"
        f"{_any(request.ntasks_per_socket)}:{_any(request.ntasks_per_core)} {_special_cores(request)}",
    ]
    if report.detail:
        lines += _allocation(job)
    memory = "MinMemoryCPU" if job.mem_is_per_cpu else "MinMemoryNode"
    return [
        *lines,
        f"MinCPUsNode={max(request.mincpus, max(request.cpus_per_task, 1) * max(request.ntasks_per_node, 1))} "
        f"{memory}={format_mb(job.mem_mb)} MinTmpDiskNode={format_mb(request.tmp_disk_mb)}",
        f"Features={_null(request.features)} DelayBoot={format_duration(request.delay_boot_s)}",
        *([f"Prefer={request.prefer}"] if request.prefer else []),
        *([f"Reservation={request.reservation}"] if request.reservation else []),
        f"OverSubscribe={_sharing(request)} Contiguous={request.contiguous:d} "
        f"Licenses={_null(request.licenses)} "
        f"LicensesAlloc={_null(_licenses_of(job))} Network={_null(request.network)}",
    ]


def _licenses_of(job: JobInfo) -> str:
    return job.licenses_alloc or (job.request.licenses if job.tres_alloc else "")


def _required_inside(request: JobRequest) -> str:
    """Requested boards, sockets, cores and threads."""
    return f"ReqB:S:C:T=0:0:{_any(request.cores_per_socket)}:{_any(request.threads_per_core)}"


def _sharing(request: JobRequest) -> str:
    if request.exclusive or request.exclusive_topo:
        return "TOPO" if request.exclusive_topo else "NO"
    if request.exclusive_user or request.exclusive_mcs:
        return "USER" if request.exclusive_user else "MCS"
    return "YES" if request.oversubscribe else "OK"


def _special_cores(request: JobRequest) -> str:
    """Cores or threads of a node for the system."""
    if request.HasField("thread_spec"):
        return f"ThreadSpec={request.thread_spec}"
    return f"CoreSpec={request.core_spec if request.HasField('core_spec') else '*'}"


def _node_count(job: JobInfo) -> str:
    if job.state == "PENDING" and job.request.nodes_max:
        return f"{job.nodes}-{job.request.nodes_max}"
    return str(job.nodes)


def _allocation(job: JobInfo) -> ShownRecord:
    """The job's allocation: nodes one after the other that have the same are one line."""
    total: dict[tuple[str, str], int] = {}
    for place in job.allocation:
        for held in place.gres:
            total[held.name, held.type] = total.get((held.name, held.type), 0) + gres_held(held)
    if not job.allocation:
        return []
    gres = ",".join(":".join(filter(None, (*kind, str(count)))) for kind, count in total.items())
    runs = ((what, compress(place.node for place in run)) for what, run in groupby(job.allocation, _held))
    return [f"JOB_GRES={_null(gres)}", *(f"  Nodes={nodes} {what}" for what, nodes in runs)]


def _held(place: NodeAllocation) -> str:
    return f"CPU_IDs={_cpu_ids(place)} Mem={place.mem_mb} GRES={job_gres(place)}"


def _cpu_ids(place: NodeAllocation) -> str:
    return format_cpus(int.from_bytes(place.cpu_ids, "little")) or NULL


def _job_files(job: JobInfo) -> ShownRecord:
    request = job.request
    lines = [f"Command={request.command or NULL}", f"WorkDir={_path(request.work_dir)}"]
    lines += [f"Comment={request.comment}"] if request.comment else []
    lines += [f"AdminComment={job.admin_comment}"] if job.admin_comment else []
    lines += [f"SystemComment={job.system_comment}"] if job.system_comment else []
    lines += [f"Extra={request.extra}"] if request.extra else []
    output = job.std_out or request.std_out
    if is_batch(request):
        lines += [
            f"StdErr={_path(job.std_err or request.std_err or output)}",
            f"StdIn={_path(job.std_in or request.std_in or b'/dev/null')}",
            f"StdOut={_path(output)}",
        ]
    if request.switches_max:
        lines.append(f"Switches={request.switches_max}@{format_duration(request.switches_wait_s)}")
    lines += ["KillOInInvalidDependent=Yes"] if request.kill_on_invalid_dep else []
    lines += ["SpreadJob=Yes"] if request.spread_job else []
    lines += _asked_tres(request)
    if request.mail_types:
        lines.append(f"MailUser={request.mail_user or job.user_name} MailType={','.join(request.mail_types)}")
    lines += [f"Container={request.container}"] if request.container else []
    lines += [f"SegmentSize={request.segment}"] if request.segment else []
    lines += ["Borrowed=Yes"] if job.borrowed else []
    detail = job.reason_detail if job.reason_detail != job.reason else ""
    detail = detail or sentence(job.reason)
    if job.state in ENDED:
        detail = job.reason_detail if job.reason_detail != job.reason else ""
    return [*lines, f"ReasonDetail={detail}"] if detail else lines


def _asked_tres(request: JobRequest) -> ShownRecord:
    """Devices as requested; numbers per node that follow from --gpus or --gpus-per-task are left out."""
    derived = bool(request.gres_per_job or request.gres_per_task)
    of_node = [one for one in request.gres_per_node if not (derived and one.name == "gpu")]
    pairs = (
        ("CpusPerTres", f"gres/gpu:{request.cpus_per_gpu}" if request.cpus_per_gpu else ""),
        ("MemPerTres", f"gres/gpu:{request.mem_per_gpu_mb}" if request.HasField("mem_per_gpu_mb") else ""),
        ("TresBind", f"gres/gpu:{request.gpu_bind}" if request.gpu_bind else ""),
        ("TresFreq", f"gpu:{request.gpu_freq}" if request.gpu_freq else ""),
        ("TresPerJob", format_gres(_gres(request.gres_per_job))),
        ("TresPerNode", format_gres(_gres(of_node))),
        ("TresPerSocket", format_gres(_gres(request.gres_per_socket))),
        ("TresPerTask", tres_per_task(request)),
        ("NtasksPerTRES", str(request.ntasks_per_gpu or "")),
    )
    return [f"{key}={text}" for key, text in pairs if text]


def completing_line(job: JobInfo, report: ShownReport) -> str:
    """A line of `scontrol completing`: how long a job has been completing."""
    took_s = max(report.now_us - job.end_at_us, 0) // 1_000_000 if job.end_at_us else 0
    return (
        f"JobId={job.job_id} EndTime={report.date(job.end_at_us)} CompletingTime={format_duration(took_s)} "
        f"Nodes(COMPLETING)={job.node_list}"
    )


def node_record(node: NodeInfo, report: ShownReport) -> ShownRecord:
    """One node, as `scontrol show node` prints it."""
    features = _null(",".join(node.features))
    port = f"Port={node.port} " if node.port else ""
    lines = [
        f"NodeName={node.name} Arch={_null(node.arch)} CoresPerSocket={node.cores_per_socket} ",
        f"CPUAlloc={node.cpus_alloc} CPUEfctv={cpus_for_jobs(node)} CPUTot={node.cpus} CPULoad={node.cpu_load_centi / 100:.2f}",
        f"AvailableFeatures={_null(','.join(node.available_features)) if node.available_features else features}",
        f"ActiveFeatures={features}",
        f"Gres={_null(format_node_gres(_gres(node.gres)))}",
    ]
    if report.detail:
        used = gres_used(node) if node.gres or node.gres_used else NULL
        lines += [f"GresDrain={gres_drain(node)}", f"GresUsed={used}"]
    lines += [
        f"NodeAddr={node.addr} NodeHostName={node.hostname} {port}Version={_null(node.version)}",
        f"OS={_null(node.os)} ",
        f"RealMemory={node.real_memory_mb} AllocMem={node.mem_alloc_mb} FreeMem={node.free_memory_mb or 'N/A'} "
        f"Sockets={node.sockets} Boards={node.boards}",
        *_specialized(node),
        f"State={node_state(node)} ThreadsPerCore={node.threads_per_core} TmpDisk={node.tmp_disk_mb} "
        f"Weight={node.weight} Owner=N/A MCS_label={node.mcs_label or 'N/A'}",
        f"Partitions={','.join(node.partitions)} ",
        f"BootTime={report.date(node.boot_at_us, 'None')} "
        f"SlurmdStartTime={report.date(node.noded_start_at_us, 'None')}",
        f"LastBusyTime={report.date(node.last_busy_at_us)} ResumeAfterTime={report.date(node.resume_after_us, 'None')}",
        f"CfgTRES={format_tres(node_tres(node))}",
        f"AllocTRES={format_tres(node_tres_used(node))}",
        "CurrentWatts=0 AveWatts=0",
    ]
    return [*lines, *_node_remarks(node, report)]


def _specialized(node: NodeInfo) -> ShownRecord:
    words = [f"CoreSpecCount={node.core_spec_count}"] if node.core_spec_count else []
    words += [f"CPUSpecList={node.cpu_spec_list}"] if node.cpu_spec_list else []
    words += [f"MemSpecLimit={node.mem_spec_limit_mb}"] if node.mem_spec_limit_mb else []
    return [" ".join(words)] if words else []


def _node_remarks(node: NodeInfo, report: ShownReport) -> ShownRecord:
    lines = []
    if node.reason:
        when = f" [{node.reason_user}@{report.date(node.reason_at_us)}]" if node.reason_at_us else ""
        lines.append(f"Reason={node.reason}{when}")
    lines += [f"Comment={node.comment}"] if node.comment else []
    lines += [f"Extra={node.extra}"] if node.extra else []
    instance = [f"InstanceId={node.instance_id} "] if node.instance_id else []
    instance += [f"InstanceType={node.instance_type}"] if node.instance_type else []
    lines += ["".join(instance)] if instance else []
    lines += [f"ReservationName={node.reservation}"] if node.reservation else []
    lines += gpu_lines(node, report.date)
    return [*lines, "Pretended=YES"] if node.pretended else lines


def node_state(node: NodeInfo) -> str:
    """`IDLE`, `MIXED+DRAIN`, `DOWN+NOT_RESPONDING`."""
    return "+".join([node.base_state, *(NODE_FLAG_WORDS.get(flag, flag) for flag in node.flags)])


def node_tres(node: NodeInfo) -> dict[str, int]:
    """The TRES of the node."""
    cpus = cpus_for_jobs(node)
    tres = {"cpu": cpus, "mem": node.real_memory_mb, "billing": cpus}
    for one in node.gres:
        tres[f"gres/{one.name}"] = tres.get(f"gres/{one.name}", 0) + one.count
    return tres


def node_tres_used(node: NodeInfo) -> dict[str, int]:
    """The TRES that jobs hold of it."""
    tres = {"cpu": node.cpus_alloc, "mem": node.mem_alloc_mb}
    for held in node.gres_used:
        tres[f"gres/{held.name}"] = tres.get(f"gres/{held.name}", 0) + gres_held(held)
    return {name: count for name, count in tres.items() if count}


def partition_record(part: PartitionInfo) -> ShownRecord:
    """One partition, as `scontrol show partition` prints it."""
    return [
        f"PartitionName={part.name}",
        f"AllowGroups={_all(part.allow_groups)} {_accounts(part)} {_qos(part)}",
        f"AllocNodes={compress(part.alloc_nodes) or 'ALL'}{_alternate(part)} Default={_yes(part.is_default)} "
        f"QoS={part.qos or 'N/A'}",
        f"DefaultTime={format_duration(part.default_time_s) if part.default_time_s else 'NONE'} "
        f"DisableRootJobs={_yes(part.disable_root_jobs)} ExclusiveUser={_yes(part.exclusive_user)} "
        f"ExclusiveTopo={_yes(part.exclusive_topo)} GraceTime={part.grace_time_s} Hidden={_yes(part.hidden)}",
        f"MaxNodes={_unlimited(part.max_nodes)} MaxTime={format_duration(part.max_time_s)} MinNodes={part.min_nodes} "
        f"LLN={_yes(part.lln)} MaxCPUsPerNode={_unlimited(part.max_cpus_per_node)} "
        f"MaxCPUsPerSocket={_unlimited(part.max_cpus_per_socket or -1)}",
        f"Nodes={_null(compress(part.configured_nodes or part.nodes))}",
        f"PriorityJobFactor={part.priority_job_factor} PriorityTier={part.priority_tier} "
        f"RootOnly={_yes(part.root_only)} ReqResv={_yes(part.req_resv)} OverSubscribe={part.over_subscribe or 'NO'}",
        f"OverTimeLimit={part.over_time_limit_s // 60 or 'NONE'} PreemptMode={part.preempt_mode or 'OFF'}",
        f"State={part.state} TotalCPUs={part.total_cpus} TotalNodes={part.total_nodes} SelectTypeParameters=NONE",
        f"JobDefaults={_job_defaults(part)}",
        _partition_memory(part),
        f"TRES={_null(part.tres)}",
        *([f"TRESBillingWeights={part.tres_billing_weights}"] if part.tres_billing_weights else []),
    ]


def _accounts(part: PartitionInfo) -> str:
    if part.deny_accounts:
        return f"DenyAccounts={','.join(part.deny_accounts)}"
    return f"AllowAccounts={_all(part.allow_accounts)}"


def _qos(part: PartitionInfo) -> str:
    if part.deny_qos and not part.allow_qos:
        return f"DenyQos={','.join(part.deny_qos)}"
    return f"AllowQos={_all(part.allow_qos)}"


def _alternate(part: PartitionInfo) -> str:
    return f" Alternate={part.alternate}" if part.alternate else ""


def _job_defaults(part: PartitionInfo) -> str:
    pairs = (("DefCpuPerGPU", part.def_cpu_per_gpu), ("DefMemPerGPU", part.def_mem_per_gpu_mb))
    return ",".join(f"{name}={value}" for name, value in pairs if value) or "(null)"


def _partition_memory(part: PartitionInfo) -> str:
    return " ".join(
        f"{word}MemPerCPU={per_cpu}" if per_cpu else f"{word}MemPerNode={per_node or 'UNLIMITED'}"
        for word, per_cpu, per_node in (
            ("Def", part.def_mem_per_cpu_mb, part.def_mem_per_node_mb),
            ("Max", part.max_mem_per_cpu_mb, part.max_mem_per_node_mb),
        )
    )


def config_text(lines: Iterable[ConfigLine], at_us: int, report: ShownReport) -> str:
    """`scontrol show config`: keys and values, parsed by tools as `^(\\S+) += (.*)$`."""
    parts: dict[str, list[str]] = {"": [f"Configuration data as of {report.date(at_us or report.now_us)}"]}
    for line in lines:
        text = f"{line.key:<{CONFIG_KEY_WIDTH}} = {line.value or NULL}"
        parts.setdefault(line.section, ["", f"{line.section}:"]).append(text)
    return "\n".join([*(text for part in parts.values() for text in part), ""])


def story_line(line: StoryLine, report: ShownReport) -> str:
    """One line of a job's history."""
    text = f"{report.date(line.at_us)} attempt={line.attempt} {line.event}"
    return f"{text} {line.detail}" if line.detail else text


def _exit(job: JobInfo) -> str:
    return format_exit(job.exit.code, job.exit.signal)


def _gres(counts: Iterable[GresCount]) -> tuple[Gres, ...]:
    return tuple(Gres(c.name, c.type, c.count) for c in counts)


def _path(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")


def _any(count: int) -> str:
    return str(count) if count else "*"


def _null(text: str) -> str:
    return text or NULL


def _all(words: Iterable[str]) -> str:
    return ",".join(words) or "ALL"


def _yes(flag: bool) -> str:
    return "YES" if flag else "NO"


def _unlimited(count: int) -> str:
    return str(count) if count >= 0 else "UNLIMITED"
