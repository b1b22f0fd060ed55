"""scontrol update jobid=: applies the changes of each key (update_keys.py) to the selected jobs.

All keys of a request are parsed and checked before one of them is applied. The request record is frozen and shared by
an array's tasks, so a change makes a new one under a new request id.
"""

from collections.abc import Iterable, Sequence
from typing import cast

from ctld.core.accounts.audit_diff import OthersJobChanges
from ctld.core.demand import specialized
from ctld.core.jobs import arrays, waiters
from ctld.core.jobs.select import JobTarget, all_matching
from ctld.core.lifecycle import depends, resize
from ctld.core.lifecycle.ready import refresh
from ctld.core.limits import submission
from ctld.core.queue import associations, memory, priority, resolve_association
from ctld.core.queue.feasibility import can_ever_run, check_size_at_update
from ctld.core.queue.rights import is_own
from ctld.core.records.compact_request import with_changes
from ctld.core.records.effects import Refused, Results
from ctld.core.records.events import Actor, JobFilter, Role, UpdateJobs
from ctld.core.records.job import Job
from ctld.core.records.request import JobRequest
from ctld.core.requests import update_steps
from ctld.core.requests.control import check_rights, each_target, part
from ctld.core.requests.reservations import check_asked
from ctld.core.requests.submit import tres_requested
from ctld.core.requests.update_keys import KEYS, UpdateValues
from ctld.core.state.resizes import ResizeCall
from ctld.core.state.state import ClusterState
from ctld.core.state.timers import Timer
from penstock.values.dependency import Dependency
from penstock.values.errors import BadValue
from penstock.values.fields import Fields
from penstock.values.refusals import Code
from penstock.values.states import END_STATES, Hold, JobState

#: Keys that resize a job that has its nodes.
RESIZES = ("numnodes", "reqnodelist")
ARRAY_RESIZE = "Job resizing not supported for job arrays"


def update_jobs(state: ClusterState, now_us: int, event: UpdateJobs) -> None:
    """Changes jobs. Raises Refused for keys and values; each job has its own result."""
    values, wrong = _read(state, event)
    if any(name in values for name in RESIZES):
        _check_resize(state, event.ids)
    resizes = ResizeCall()

    def act(target: JobTarget) -> None:
        if wrong is not None:
            _check_pending(target.job, event.changes)
            raise wrong
        if not is_own(event.actor, target.job):
            raise Refused(Code.ACCESS_DENIED)
        if update_steps.KEY in values:
            update_steps.update(state, now_us, target, values["steptimelimit"])
            return
        if target.step_id is not None:
            raise Refused(Code.INVALID_JOB_ID)
        _check_open(event.actor, target.job, event.of_records)
        resolved = _resolved(target.job, values)
        _check(state, event, target.job, resolved)
        kept, resolved = _resize_of(state, event, target.job, resolved)
        request = _changed(event, target.job, resolved)
        request = resolve_association.after_update(state, event.actor, target.job, request, resolved)
        if target.job.state is JobState.PENDING:
            changed = [KEYS[name].field for name in resolved]
            request = memory.after_update(state, request, target.job.request, changed)
            check_size_at_update(state, request, target.job.request)
        if target.job.state is JobState.PENDING and not any(
            can_ever_run(state, state.partitions[p], request) for p in request.partitions
        ):
            raise Refused(Code.REQUESTED_NODE_CONFIG_UNAVAILABLE)
        submission.at_update(state, event.actor, target.job, target.tasks, request)
        if request is not target.job.request:
            state.submissions.stored.check(target.job.user_id, state.config, now_us, (), (request,))
        if target.tasks is not None:
            waiters.check_split(state, target.job)
        state.applying()
        if resolved or kept is None:
            _apply(state, now_us, part(state, target), request, resolved)
        if kept is not None and len(kept) < len(target.job.alloc):
            resize.begin(state, target.job, kept, now_us, resizes)

    others = OthersJobChanges()
    if event.which is None:
        of_steps = update_steps.KEY in values
        results = each_target(
            state, event.actor, event.ids, act, others, of_steps, event.tasks, only=event.chosen, by_task=not of_steps
        )
    else:
        found = {str(target.job.job_id): target for target in _of_name(state, event, event.which)}
        if not found and not event.chosen:  # those of a part may have ended
            raise Refused(Code.INVALID_JOB_ID)
        results = each_target(state, event.actor, found, act, others, found=found)
    others.write(state, now_us, event.actor, "update job", event.changes)
    if resizes.jobs:  # answered when the nodes are released
        resizes.reply_to = event.reply_to
        resizes.results = results
    else:
        state.reply(event.reply_to, Results(tuple(results)))


def _is_array(state: ClusterState, text: str) -> bool:
    """Whether an id is that of an array, or of some of its tasks."""
    record = state.arrays.get(int(text)) if text.isdecimal() else None
    return "_" in text or (record is not None and record.array_job_id == int(text))


def _check_resize(state: ClusterState, ids: Sequence[str]) -> None:
    """Raises Refused for a whole array that has tasks apart from the others."""
    for text in ids:
        if "_" not in text and _is_array(state, text) and len(arrays.records_of(state, int(text))) > 1:
            raise Refused(Code.NOT_SUPPORTED, ARRAY_RESIZE)


def open_to(state: ClusterState, actor: Actor, jobs: Sequence[Job]) -> list[Job]:
    """Returns those of the records of an id that the actor may change, whatever the values; reads only. Raises Refused as
    `update_jobs` does."""
    check_rights(state, actor, jobs)
    found: list[Job] = []
    refusals: list[Refused] = []
    for job in jobs:
        try:
            _check_open(actor, job)
        except Refused as refused:
            refusals.append(refused)
        else:
            found.append(job)
    if not found:
        raise refusals[0]
    return found


def _check_open(actor: Actor, job: Job, of_records: bool = False) -> None:
    """Raises Refused for a job that the actor cannot change, whatever the values."""
    if not is_own(actor, job):
        raise Refused(Code.ACCESS_DENIED)
    if _has_ended(job) and not of_records:
        raise Refused(Code.JOB_FINISHED)  # as in Slurm, for every key and every caller
    if job.request.cron:
        raise Refused(Code.CANNOT_MODIFY_CRON_JOB)


def _has_ended(job: Job) -> bool:
    ends = job.state is JobState.COMPLETING and job.end_state is not JobState.REQUEUED
    return ends or job.state in END_STATES


def _resize_of(
    state: ClusterState, event: UpdateJobs, job: Job, values: UpdateValues
) -> tuple[tuple[str, ...] | None, UpdateValues]:
    """Returns the nodes that a job with an allocation keeps, None = it is not resized; and the other values. Raises
    Refused."""
    if job.state is JobState.PENDING or not any(name in values for name in RESIZES):
        return None, values
    names, count = values.get("reqnodelist"), values.get("numnodes")
    kept = resize.nodes_to_keep(state, job, count[0] if count is not None else None, names)
    others = {name: value for name, value in values.items() if name not in RESIZES}
    return kept, cast(UpdateValues, others)


def _of_name(state: ClusterState, event: UpdateJobs, which: JobFilter) -> list[JobTarget]:
    """Returns the jobs of a name that the caller may change."""
    return [target for target in all_matching(state, which, event.chosen) if is_own(event.actor, target.job)]


def _read(state: ClusterState, event: UpdateJobs) -> tuple[UpdateValues, Refused | None]:
    """Returns the values; and the refusal of what the cluster does not have, which is that of each job. Raises Refused."""
    values: Fields = {}
    wrong: Refused | None = None
    for name, text in event.changes.items():
        key = KEYS.get(name)
        if key is None:
            raise Refused(Code.NOT_SUPPORTED, f"{name}= is not supported for jobs yet; known: {', '.join(KEYS)}")
        try:
            values[name] = event.dates.get(name, 0) if key.is_date else key.read(state, event.actor, text)
        except BadValue as error:
            raise Refused(Code.INVALID_VALUE, f"{name}: {error}") from None
        except Refused as refused:
            if event.which is not None or not any(_is_array(state, text) for text in event.ids):
                raise
            wrong = wrong or refused
    return cast(UpdateValues, values), wrong  # the parsers of KEYS return these types


def _resolved(job: Job, values: UpdateValues) -> UpdateValues:
    """Returns the values for this job, where they depend on its present ones."""
    if not any(KEYS[name].resolve for name in values):
        return values
    found = {
        name: resolve(job, value) if (resolve := KEYS[name].resolve) is not None else value
        for name, value in values.items()
    }
    return cast(UpdateValues, found)


def _check(state: ClusterState, event: UpdateJobs, job: Job, values: UpdateValues) -> None:
    if _has_ended(job) and not all(KEYS[name].ended for name in values):
        raise Refused(Code.JOB_FINISHED)
    if job.state not in END_STATES and any(KEYS[name].only_ended for name in values):
        raise Refused(Code.INVALID_VALUE, "the job has not ended")
    operator = event.actor.role >= Role.OPERATOR
    for name, value in values.items():
        key = KEYS[name]
        number = value if isinstance(value, int) else 0
        if name == "priority" and number and job.hold is not Hold.NO and job.state is JobState.PENDING:
            raise Refused(Code.JOB_HELD)
        if key.operator and not operator:
            raise Refused(Code.ACCESS_DENIED, name)
        if key.lower and not operator:
            assert isinstance(value, int)
            if value > getattr(job.request, key.field):
                raise Refused(Code.ACCESS_DENIED, f"only an operator may raise {name}")
        _check_pending(job, (name,))
        if name == "priority" and not operator and number > priority.current(state, job):
            raise Refused(Code.ACCESS_DENIED, "only an operator may raise a priority")
        if name == "nice" and not operator and number < job.request.nice:
            raise Refused(Code.ACCESS_DENIED, "only an operator may lower nice")
        if name == "reservationname":
            of = (job.user_id, job.group_name, job.request.account, job.request.qos, job.request.partitions)
            check_asked(state, state.now_us, values["reservationname"], *of)
        if isinstance(value, Dependency) and depends.is_circular(state, job, value):
            raise Refused(Code.CIRCULAR_DEPENDENCY)
    if not operator:
        _check_limit(job, values)
    _check_times(state, job, values)


def _check_pending(job: Job, names: Iterable[str]) -> None:
    for name in names:
        if not KEYS[name].running and job.state is not JobState.PENDING:
            raise Refused(Code.JOB_NOT_PENDING, f"{name} can be changed only while the job is pending")


def _check_limit(job: Job, values: UpdateValues) -> None:
    for limit_s in (values.get("timelimit"), values.get("endtime")):
        if limit_s is not None and job.state is not JobState.PENDING and _longer(limit_s, job.time_limit_s):
            raise Refused(Code.ACCESS_DENIED, "only an operator may raise the time limit of a running job")


def _check_times(state: ClusterState, job: Job, values: UpdateValues) -> None:
    """Checks that --time-min, --time and --deadline are consistent, as at submission."""
    least_s = values.get("timemin", job.request.time_min_s)
    limit_s = values.get("timelimit", job.time_limit_s)
    if {"timemin", "timelimit"} & values.keys() and limit_s > 0 and least_s > limit_s:
        raise Refused(Code.INVALID_TIME_MIN)
    takes_s = max(0, least_s or limit_s)
    deadline = values.get("deadline")
    if deadline and state.now_us + takes_s * 1_000_000 >= deadline:
        raise Refused(Code.INVALID_TIME_VALUE, "the job could not end before the deadline")


def _longer(new_s: int, old_s: int) -> bool:
    return old_s >= 0 and (new_s < 0 or new_s > old_s)


def _changed(event: UpdateJobs, job: Job, values: UpdateValues) -> JobRequest:
    fields: Fields = {KEYS[name].field: value for name, value in values.items() if KEYS[name].field}
    if "numnodes" in values:
        fields["nodes_min"], fields["nodes_max"] = values["numnodes"]
        fields["nodes_asked"] = True
    if "switches" in values:
        fields["switches_max"], fields["switches_wait_s"] = values["switches"]
    if "time_min_s" not in fields and 0 < _number(fields, "time_limit_s", -1) < job.request.time_min_s:
        fields["time_min_s"] = 0  # EndTime below it removes it
    _set_tasks(job, values, fields)
    if "mem_per_node_mb" in fields:
        fields["mem_per_cpu_mb"] = None
    elif "mem_per_cpu_mb" in fields:
        fields["mem_per_node_mb"] = None
    if "gres_per_node" in fields:
        fields |= {"gres_per_job": (), "gres_per_task": (), "gres_per_socket": (), "gres_sockets": 0}
    if own := [name for name in specialized.FIELDS if name in fields]:
        fields = dict.fromkeys(specialized.FIELDS) | fields
        fields |= {"exclusive": job.request.exclusive or any(fields[name] is not None for name in own)}
    if fields.get("reboot"):
        fields["exclusive"] = True
    if "dependency" in values:
        fields["dependency"] = event.changes["dependency"]
    return with_changes(job.request, **fields)


def _number(fields: Fields, name: str, usual: int) -> int:
    found = fields.get(name, usual)
    assert isinstance(found, int)
    return found


def _set_tasks(job: Job, values: UpdateValues, fields: Fields) -> None:
    """Sets nodes, tasks and CPUs together: each node has at least one task, and CPUs follow from tasks."""
    request = job.request
    if "numcpus" in values and "ntasks" not in fields:
        per_task = _number(fields, "cpus_per_task", request.cpus_per_task)
        fields["ntasks"] = max(1, values["numcpus"][0] // per_task)
    if "ntasks" in fields:
        fields["ntasks_asked"] = True
    elif "nodes_min" in fields:
        least = _number(fields, "nodes_min", request.nodes_min)
        if not request.ntasks_asked:
            fields["ntasks"] = least * (request.ntasks_per_node or 1)
        elif request.ntasks < least:
            fields["ntasks"] = least
    if "ntasks" in fields and "nodes_min" not in fields and not request.nodes_asked:
        fields["nodes_max"] = max(request.nodes_min, _number(fields, "ntasks", request.ntasks))


def _apply(state: ClusterState, now_us: int, job: Job, request: JobRequest, values: UpdateValues) -> None:
    if job.state in END_STATES:
        state.replace_request(job, request)
        state.submissions.stored.count_texts(job)
    elif request != job.request:
        waiting = state.dependencies.waiting_for.get(job.job_id)
        waiters.forget(state, job)
        state.jobs_by_name.leave(job)
        state.replace_request(job, request)
        state.submissions.stored.count_texts(job)
        state.jobs_by_name.enter(job)
        if waiting is not None:
            waiters.wait_for(state, job, *waiting)
        job.tres_req = tres_requested(state, request)
    if "starttime" in values or "eligibletime" in values:
        job.eligible_at_us = 0
        state.timers.set(request.begin_at_us, Timer.BEGIN_TIME, job.job_id)
    for name, value in values.items():
        apply = KEYS[name].apply
        if apply is not None:
            apply(state, job, value, now_us)
    if resolve_association.KEYS & values.keys() and job.state not in END_STATES:
        if job.partition not in request.partitions:
            job.partition = request.partitions[0]
        associations.note(state, job, now_us)
    state.touch(job)
    state.record(now_us, job, "update", ",".join(values))
    if job.state is JobState.PENDING:
        state.pending.remove(job.job_id)
        refresh(state, job, now_us)
