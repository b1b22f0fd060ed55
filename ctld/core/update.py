"""scontrol update jobid=: what update_keys.py says of each key, done to the jobs that are meant.

All keys of a request are read and checked before one of them is applied. The request record is frozen and shared by
an array's tasks, so a change makes a new one under a new request id.
"""

from typing import Any

from ctld.core import assocs, depends, limit_submit, priority, standing
from ctld.core.control import each_target, part
from ctld.core.effects import Refused, Results
from ctld.core.events import JobFilter, Role, UpdateJobs
from ctld.core.feasible import can_ever_run
from ctld.core.model import Job
from ctld.core.plain import with_changes
from ctld.core.ready import refresh
from ctld.core.reserve import check_asked
from ctld.core.rights import is_own
from ctld.core.select import Target, all_matching
from ctld.core.state import ClusterState
from ctld.core.submit import tres_requested
from ctld.core.timers import Timer
from ctld.core.update_keys import KEYS
from ctld.core.watch import Meddling
from penstock.values.errors import BadValue
from penstock.values.refusals import Code
from penstock.values.states import END_STATES, Hold, JobState

#: Keys that set two fields at once.
PAIRS = {
    "numnodes": ("nodes_min", "nodes_max"),
    "switches": ("switches_max", "switches_wait_s"),
}


def update_jobs(state: ClusterState, now_us: int, event: UpdateJobs) -> None:
    """Change jobs. Raises Refused for keys and values; each job has its own result."""
    values = _read(state, event)

    def act(target: Target) -> None:
        if not is_own(event.actor, target.job):
            raise Refused(Code.ACCESS_DENIED)
        resolved = _resolved(target.job, values)
        _check(state, event, target.job, resolved)
        request = _changed(event, target.job, resolved)
        request = standing.after_update(state, event.actor, target.job, request, resolved)
        if target.job.state is JobState.PENDING and not any(
            can_ever_run(state, state.partitions[p], request) for p in request.partitions
        ):
            raise Refused(Code.REQUESTED_NODE_CONFIG_UNAVAILABLE)
        limit_submit.at_update(state, event.actor, target.job, target.tasks, request)
        # -- apply
        _apply(state, now_us, part(state, target), request, resolved)

    meddling = Meddling()
    if event.which is None:
        results = each_target(state, event.actor, event.ids, act, meddling)
    else:
        ids = [str(job.job_id) for job in _of_name(state, event, event.which)]
        if not ids:
            raise Refused(Code.INVALID_JOB_ID)
        results = each_target(state, event.actor, ids, act, meddling)
    meddling.write(state, now_us, event.actor, "update job", event.changes)
    state.reply(event.reply_to, Results(tuple(results)))


def _of_name(state: ClusterState, event: UpdateJobs, which: JobFilter) -> list[Job]:
    """The jobs of a name that the caller may change."""
    return [target.job for target in all_matching(state, which) if is_own(event.actor, target.job)]


def _read(state: ClusterState, event: UpdateJobs) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, text in event.changes.items():
        key = KEYS.get(name)
        if key is None:
            raise Refused(Code.NOT_SUPPORTED, f"{name}= is not supported for jobs yet; known: {', '.join(KEYS)}")
        try:
            values[name] = event.dates.get(name, 0) if key.is_date else key.read(state, event.actor, text)
        except BadValue as error:
            raise Refused(Code.INVALID_VALUE, f"{name}: {error}") from None
    return values


def _resolved(job: Job, values: dict[str, Any]) -> dict[str, Any]:
    """The values of this job, where they depend on what it has."""
    if not any(KEYS[name].resolve for name in values):
        return values
    return {
        name: resolve(job, value) if (resolve := KEYS[name].resolve) is not None else value
        for name, value in values.items()
    }


def _check(state: ClusterState, event: UpdateJobs, job: Job, values: dict[str, Any]) -> None:
    if job.state in END_STATES and not all(KEYS[name].ended for name in values):
        raise Refused(Code.JOB_FINISHED)
    if job.state not in END_STATES and any(KEYS[name].only_ended for name in values):
        raise Refused(Code.INVALID_VALUE, "the job has not ended")
    if job.request.cron:
        raise Refused(Code.CANNOT_MODIFY_CRON_JOB)
    operator = event.actor.role >= Role.OPERATOR
    for name, value in values.items():
        key = KEYS[name]
        if name == "priority" and value and job.hold is not Hold.NO and job.state is JobState.PENDING:
            raise Refused(Code.JOB_HELD)
        if key.operator and not operator:
            raise Refused(Code.ACCESS_DENIED, name)
        if key.lower and not operator and value > getattr(job.request, key.field):
            raise Refused(Code.ACCESS_DENIED, f"only an operator may raise {name}")
        if not key.running and job.state is not JobState.PENDING:
            raise Refused(Code.JOB_NOT_PENDING, f"{name} can be changed only while the job is pending")
        if name == "priority" and not operator and value > priority.current(state, job):
            raise Refused(Code.ACCESS_DENIED, "only an operator may raise a priority")
        if name == "nice" and not operator and value < job.request.nice:
            raise Refused(Code.ACCESS_DENIED, "only an operator may lower nice")
        if name == "reservationname":
            check_asked(state, state.now_us, value, job.user_id, job.group_name, job.request.account, job.request.qos)
        if name == "dependency" and value is not None and depends.is_circular(state, job, value):
            raise Refused(Code.CIRCULAR_DEPENDENCY)
    if not operator:
        _check_limit(job, values)
    _check_times(state, job, values)


def _check_limit(job: Job, values: dict[str, Any]) -> None:
    for name in ("timelimit", "endtime"):
        if name in values and job.state is not JobState.PENDING and _longer(values[name], job.time_limit_s):
            raise Refused(Code.ACCESS_DENIED, "only an operator may raise the time limit of a running job")


def _check_times(state: ClusterState, job: Job, values: dict[str, Any]) -> None:
    """--time-min, --time and --deadline must go together, as at submission."""
    least_s = values.get("timemin", job.request.time_min_s)
    limit_s = values.get("timelimit", job.time_limit_s)
    if "timemin" in values and limit_s > 0 and least_s > limit_s:
        raise Refused(Code.INVALID_TIME_MIN)
    takes_s = max(0, least_s or limit_s)
    if values.get("deadline") and state.now_us + takes_s * 1_000_000 >= values["deadline"]:
        raise Refused(Code.INVALID_TIME_VALUE, "the job could not end before the deadline")


def _longer(new_s: int, old_s: int) -> bool:
    return old_s >= 0 and (new_s < 0 or new_s > old_s)


def _changed(event: UpdateJobs, job: Job, values: dict[str, Any]) -> Any:
    fields = {KEYS[name].field: value for name, value in values.items() if KEYS[name].field}
    for name, pair in PAIRS.items():
        if name in values:
            fields |= zip(pair, values[name], strict=True)
    if "numnodes" in values:
        fields["nodes_asked"] = True
    if "time_min_s" not in fields and 0 < fields.get("time_limit_s", -1) < job.request.time_min_s:
        fields["time_min_s"] = 0  # Slurm: a limit below it takes it away
    _set_tasks(job, values, fields)
    if "mem_per_node_mb" in fields:
        fields["mem_per_cpu_mb"] = None
    elif "mem_per_cpu_mb" in fields:
        fields["mem_per_node_mb"] = None
    if "gres_per_node" in fields:
        fields |= {"gres_per_job": (), "gres_per_task": (), "gres_per_socket": (), "gres_sockets": 0}
    if "dependency" in values:
        fields["dependency"] = event.changes["dependency"]
    return with_changes(job.request, **fields)


def _set_tasks(job: Job, values: dict[str, Any], fields: dict[str, Any]) -> None:
    """Nodes, tasks and CPUs go together: a task is on each node at least, and CPUs are counted as tasks."""
    request = job.request
    if "numcpus" in values and "ntasks" not in fields:
        per_task = fields.get("cpus_per_task", request.cpus_per_task)
        fields["ntasks"] = max(1, values["numcpus"][0] // per_task)
    if "ntasks" in fields:
        fields["ntasks_asked"] = True
    elif "nodes_min" in fields:
        least = fields["nodes_min"]
        if not request.ntasks_asked:
            fields["ntasks"] = least * (request.ntasks_per_node or 1)
        elif request.ntasks < least:
            fields["ntasks"] = least
    if "ntasks" in fields and "nodes_min" not in fields and not request.nodes_asked:
        fields["nodes_max"] = max(request.nodes_min, fields["ntasks"])


def _apply(state: ClusterState, now_us: int, job: Job, request: Any, values: dict[str, Any]) -> None:
    if job.state in END_STATES:
        job.request, job.request_id = request, state.new_request(request)
    elif request != job.request:
        waiting = state.waiting_for.get(job.job_id)
        depends.forget(state, job)
        state.namesakes.leave(job)
        job.request, job.request_id = request, state.new_request(request)
        state.namesakes.enter(job)
        if waiting is not None:
            depends.wait_for(state, job, *waiting)
        job.tres_req = tres_requested(state, request)
    if "starttime" in values or "eligibletime" in values:
        job.eligible_at_us = 0
        state.timers.set(request.begin_at_us, Timer.BEGIN_TIME, job.job_id)
    for name, value in values.items():
        apply = KEYS[name].apply
        if apply is not None:
            apply(state, job, value, now_us)
    if standing.KEYS & values.keys() and job.state not in END_STATES:
        if job.partition not in request.partitions:
            job.partition = request.partitions[0]
        assocs.note(state, job, now_us)
    state.touch(job)
    state.record(now_us, job, "update", ",".join(values))
    if job.state is JobState.PENDING:
        state.pending.remove(job.job_id)
        refresh(state, job, now_us)
