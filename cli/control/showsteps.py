"""Steps and processes in scontrol: `show step`, `liststeps`, `listpids`, `pidinfo`, `notify`.

The controller lists the steps. The node that runs a step lists its processes, by the step's own supervisor: it finds
them also when they have changed their session, parent and environment.
"""

import time

from cli.base.jobids import layout_name, own_node, selector_text, wire_id
from cli.base.nodeanswer import ids, lists
from cli.base.run import CommandError, complain
from cli.base.stepids import (
    attach,
    is_live,
    job_text,
    list_steps,
    names_step,
    one_step,
    step_name,
    step_text,
    waiting_steps,
)
from cli.control.keywords import NAME, KeywordCall, list_jobs, refused
from cli.listings.nodegres import step_tres
from cli.listings.show import NULL, ShownRecord, ShownReport
from penstock.client import Client
from penstock.cluster import find_cluster
from penstock.errors import PenstockError
from penstock.v1 import controller_pb2 as pb
from penstock.v1.steps_pb2 import NotifyJobRequest, StepInfo
from penstock.values.duration import format_duration
from penstock.values.errors import BadValue
from penstock.values.hostlist import expand
from penstock.values.jobid import JobSelector, format_step
from penstock.values.numbers import is_digits, parse_int

PID_MAX = 2**22
#: Stands for the number of a step that has none yet, as in Slurm.
WAITING = "TBD"
LOAD_STEPS = "slurm_get_job_steps"


def steps_of(words: list[str], users: tuple[str, ...] = ()) -> list[StepInfo]:
    """The live steps that the words select; all without words."""
    selectors = [one_step(part) for word in words for part in word.split(",") if part]
    with Client.open() as client:
        try:
            return [step for step in list_steps(client, selectors, users) if is_live(step)]
        except PenstockError as error:
            raise refused(LOAD_STEPS, error) from error


def show_steps(call: KeywordCall) -> int:
    """`show step [ID]`."""
    steps = steps_of(call.words)
    selectors = [one_step(part) for word in call.words for part in word.split(",") if part]
    if not selectors or any(selector.step_id is None for selector in selectors):
        with Client.open() as client:
            steps += waiting_steps(client, selectors)
    if call.wants_document():
        call.put_document("steps_document", steps, find_cluster().cluster_name)
    else:
        call.put_update_time(len(steps))
        if not steps and not call.words:
            print("No job steps in the system")  # noqa: T201
        call.put([step_record(step, call.report()) for step in steps])
    missing = [s for s in selectors if not any(names_step(s, step) for step in steps)]
    for selector in missing:
        _report_missing(selector)
    return 1 if missing else 0


def _report_missing(selector: JobSelector) -> None:
    """Prints that there is no step, to stdout as Slurm does; a job that does not exist is an error."""
    if not list_jobs(pb.ListJobsRequest(filter=pb.JobFilter(ids=[selector_text(selector)]), all_states=True)):
        complain(NAME, f"{LOAD_STEPS} error: Invalid job id specified", plain=True)
    elif selector.step_id is not None:
        print(f"Job step {wire_id(selector)} not found")  # noqa: T201
    else:
        print(f"No job steps found for job {wire_id(selector)}")  # noqa: T201


def step_record(step: StepInfo, report: ShownReport) -> ShownRecord:
    """One step, as `scontrol show step` prints it."""
    spec = step.spec
    nodes = len(expand(step.node_list)) if step.node_list else 0
    limit = format_duration(step.time_limit_s) if step.time_limit_s > 0 else "UNLIMITED"
    which = f"{job_text(step)}.{WAITING}" if step.waits_for else step_text(step)
    lines = [
        f"StepId={which} UserId={step.user_id} StartTime={report.date(step.start_at_us)} TimeLimit={limit}",
        f"State={step.state} Partition={step.partition} NodeList={step.node_list or NULL}",
        f"Nodes={nodes} CPUs={step.cpus} Tasks={step.tasks} Name={step_name(step)} Network={NULL}",
        f"TRES={step.tres or NULL}",
        f"ResvPorts={','.join(map(str, step.plan.ports)) or NULL}",
        f"CPUFreqReq=Default Dist={layout_name(spec.distribution)}",
        f"SrunHost:Pid={spec.submit_host or NULL}:0",
    ]
    lines += [f"{name}={text}" for name, text in step_tres(step).items()]
    lines += [f"ReasonDetail={step.waits_for} since {report.date(step.waits_since_us)}"] if step.waits_for else []
    lines += [f"SubmitLine={spec.submit_line}"] if spec.submit_line else []
    return lines


def liststeps(call: KeywordCall) -> int:
    """`liststeps [NODE]`: steps that are on this node."""
    node = call.words[0] if call.words else own_node()
    steps = [step for step in steps_of([]) if node in expand(step.node_list)]
    if not steps:
        raise CommandError(f"No slurm jobs found on node {node}", plain=True)
    print(f"{'JOBID':<8} {'STEPID':<8}")  # noqa: T201
    for step in steps:
        print(f"{step.job_id:<8} {format_step(step.step_id):<8}")  # noqa: T201
    return 0


def listpids(call: KeywordCall) -> int:
    """`listpids [JOB[.STEP] [NODE]]`: processes of steps on this node."""
    wanted = [] if not call.words or call.words[0] == "*" else call.words[:1]
    if wanted and not is_digits(wanted[0][:1]):
        raise CommandError(f'"{wanted[0]}" does not look like a jobid', plain=True)
    node = call.words[1] if len(call.words) > 1 else own_node()
    steps = [step for step in steps_of(wanted) if node in expand(step.node_list)]
    if not steps:
        what = f"job {wanted[0]}" if wanted else "slurm jobs"
        raise CommandError(f"No {what} found on node {node}", plain=True)
    print(f"{'PID':<8} {'JOBID':<8} {'STEPID':<8} {'LOCALID':<7} {'GLOBALID':<8}")  # noqa: T201
    status = 0
    for step, pids, tasks, reason in _processes(steps, node):
        if reason:
            complain(NAME, f"{step_text(step)}: node {node} does not answer: {reason}")
            status = 1
        ranks = {pid: (local, rank) for local, (rank, pid) in enumerate(tasks)}
        for pid in sorted(pids):
            local, rank = ranks.get(pid, ("-", "-"))
            print(f"{pid:<8} {step.job_id:<8} {format_step(step.step_id):<8} {local:<7} {rank:<8}")  # noqa: T201
    return status


def pidinfo(call: KeywordCall) -> int:
    """`pidinfo PID`: the job of a process on this node."""
    try:
        wanted = parse_int(call.words[0], 1, PID_MAX, "process id")
    except BadValue as error:
        raise CommandError(f"Failed to locate job for requested pid: {error}", plain=True) from error
    node = own_node()
    steps = [step for step in steps_of([]) if node in expand(step.node_list)]
    found = next((step for step, pids, _, _ in _processes(steps, node) if wanted in pids), None)
    if found is None:
        raise CommandError("Failed to locate job for requested pid", plain=True)
    job = _job(found.job_id)
    name, report = step_text(found).rpartition(".")[0], call.report()
    print(f"Slurm JobId={name} StepId={format_step(found.step_id)} ends at {report.date(job.end_at_us)}")  # noqa: T201
    if job.end_at_us:
        left_s = max(job.end_at_us // 1_000_000 - int(time.time()), 0)
        print(f"Job remaining time is {left_s} seconds")  # noqa: T201
    return 0


def _job(job_id: int) -> pb.JobInfo:
    with Client.open() as client:
        request = pb.ListJobsRequest(filter=pb.JobFilter(ids=[str(job_id)]), all_states=True)
        for page in client.stream("ListJobs", request):
            for job in page.jobs:
                return job  # type: ignore[no-any-return]
    return pb.JobInfo(job_id=job_id)


Processes = tuple[StepInfo, list[int], list[list[int]], str]


def _processes(steps: list[StepInfo], node: str) -> list[Processes]:
    """For each step its processes on the node, its tasks there as [rank, pid], and the error if there is no answer."""
    from cli.steps.stepquery import ask as ask_nodes

    found: list[Processes] = []
    with Client.open() as client:
        for step in steps:
            try:
                attached = attach(client, step.job_id, step.step_id)
            except PenstockError as error:
                found.append((step, [], [], error.text))
                continue
            for stream in [stream for stream in attached.streams if stream.node != node]:
                attached.streams.remove(stream)
            answers = ask_nodes(client.cluster, attached, "pids")
            answer = answers.found.get(node, {})
            tasks = [pair for one in lists(answer.get("tasks"), 2) if len(pair := ids(one)) == 2]
            found.append((step, ids(answer.get("pids")), tasks, answers.missing.get(node, "")))
    return found


def notify(call: KeywordCall) -> int:
    """`notify JOB TEXT...`: a line for the job's error output."""
    job, *words = call.words
    request = NotifyJobRequest(id=wire_id(one_step(job, "job id")), text=" ".join(words))
    with Client.open() as client:
        try:
            client.call("NotifyJob", request)
        except PenstockError as error:
            raise CommandError(f"job notify failure: {error.text}", plain=True) from error
    return 0
