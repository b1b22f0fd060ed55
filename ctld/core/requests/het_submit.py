"""Submission of a heterogeneous job: one job for each component, all or none, with consecutive ids.

Each component is checked as any job. A component after the first has no script: it serves the leader's steps.
"""

from collections.abc import Iterator

import msgspec

from ctld.core.jobs import het
from ctld.core.lifecycle import depends
from ctld.core.lifecycle.allocations import watch
from ctld.core.lifecycle.ready import refresh
from ctld.core.limits import budgets, submission
from ctld.core.queue.feasibility import can_ever_run, where_now
from ctld.core.records.compact_request import with_changes
from ctld.core.records.effects import Refused, Submitted
from ctld.core.records.events import JobSubmission, SubmitJob
from ctld.core.records.job import Job
from ctld.core.requests import submit
from ctld.core.state.state import ClusterState
from penstock.values.jobkind import JobKind
from penstock.values.refusals import Code

#: Components that are handled in one turn of the loop.
SLICE_COMPONENTS = 8


def submit_job(state: ClusterState, now_us: int, event: SubmitJob) -> None:
    """Handles sbatch, salloc or srun, of a plain job or of a heterogeneous one. Raises Refused."""
    if event.job.kind == JobKind.COMPONENT:
        raise Refused(Code.NOT_SUPPORTED, f"jobs of kind {event.job.kind}")
    if not event.components:
        submit.submit_job(state, now_us, event)
    elif not submit.is_known(state, now_us, event):
        state.handling.unfinished = _submit(state, now_us, event)


def _submit(state: ClusterState, now_us: int, event: SubmitJob) -> Iterator[None]:
    """Handles all components, in slices: each may have many ways to run."""
    events = _events(event)
    found: list[submit.Accepted] = []
    for one in events:
        found.append(_checked(state, now_us, one))
        if len(found) % SLICE_COMPONENTS == 0:
            yield
    submit.check_room(state, len(found))
    requests = [accepted.request for accepted in found]
    state.submissions.stored.check(event.actor.uid, state.config, now_us, (event.spec,), requests)
    submission.at_submission(state, event.actor.user_name, [(accepted.request, 1) for accepted in found])
    warnings = tuple(dict.fromkeys(text for one in found for text in one.warnings))
    if event.test_only:
        state.reply(event.reply_to, submit.would_start(state, now_us, found[0]))
        return
    immediate_s = event.job.immediate_s
    if immediate_s == 0:
        for component in found:
            if not where_now(state, component.partitions[0], component.request):
                raise Refused(submit.why_not_now(state, component))
    state.applying()
    jobs: list[Job] = []
    state.hets[state.next_job_id] = None
    het_id = state.next_job_id
    for offset, (one, accepted) in enumerate(zip(events, found, strict=True)):
        place = {"het_job_id": het_id, "het_offset": offset, "het_size": len(found)}
        request = with_changes(accepted.request, requeue=found[0].request.requeue, **place)
        job = submit.new_job(state, now_us, one, accepted._replace(request=request))
        if offset:
            job.submit_key = ""  # the key belongs to the whole job
        if jobs and jobs[0].request.priority is job.request.priority is None:
            job.priority = jobs[0].priority
        jobs.append(job)
    submit.remember_key(state, jobs[0].user_id, event.submit_key, het_id, now_us)
    for job in jobs:
        state.add_job(job, 1)
    for job, accepted in zip(jobs, found, strict=True):
        depends.attach(state, job, accepted.dependency, now_us)
        submit.set_deadline(state, job)
    submit.set_immediate(state, jobs[0], now_us)
    if jobs[0].request.has_owner():
        watch(state, jobs[0], now_us)
    for number, job in enumerate(jobs, 1):
        refresh(state, job, now_us)
        state.record(now_us, job, "submit", f"uid {job.user_id}")
        if number % SLICE_COMPONENTS == 0:
            yield
    if event.actor.by is not None:
        submit.note_submission(state, now_us, event.actor, het_id)
    warnings += budgets.warnings(state, jobs[0], now_us) if state.limits.budgets.books else ()
    state.reply(event.reply_to, Submitted(het_id, warnings))


def _events(event: SubmitJob) -> list[SubmitJob]:
    """Returns one submission for each component."""
    submissions: list[JobSubmission] = [event.job, *event.components]
    if len(submissions) > het.COMPONENTS_MAX:
        raise Refused(Code.INVALID_VALUE, f"{len(submissions)} components of a job, the limit is {het.COMPONENTS_MAX}")
    if any(one.array for one in submissions):
        raise Refused(Code.INVALID_ARRAY, "Job arrays not supported for heterogeneous jobs")
    kind = event.job.kind or JobKind.COMPONENT
    hold = any(one.hold for one in submissions)
    submissions[0] = msgspec.structs.replace(event.job, hold=hold)
    submissions[1:] = [msgspec.structs.replace(one, kind=int(kind), hold=hold) for one in submissions[1:]]
    return [msgspec.structs.replace(event, job=one, components=()) for one in submissions]


def _checked(state: ClusterState, now_us: int, event: SubmitJob) -> submit.Accepted:
    """Returns the checked submission, with one partition and one number of nodes: the planner has no alternatives for
    components.
    """
    found = submit.check(state, now_us, event.actor, event.job)
    request = found.request
    partition = next(p for p in found.partitions if can_ever_run(state, p, request))
    fields: dict[str, object] = {"partitions": (partition.name,)}
    if not request.ntasks_asked or request.spread_job:
        least = with_changes(request, nodes_max=request.nodes_min, **fields)
        if can_ever_run(state, partition, least):
            fields["nodes_max"] = request.nodes_min
    return found._replace(request=with_changes(request, **fields), partitions=(partition,))
