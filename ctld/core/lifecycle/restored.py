"""Detects a database that is older than what its nodes have seen: a backup was restored, or the end of a log was lost.

A node may have executed orders of which the restored database has no record. So at its registration a node reports what
proves such a gap: the highest epoch of its orders, the highest job id that it has seen, and the steps that it holds.

Rules
    - Each start takes a new epoch. So a node that has seen it, or a higher one, when it registers for the first time with
      this process proves that the database was replaced, also when the witness was replaced with it. So does one that
      has seen a job id which had not been assigned when the database was loaded.
    - The epoch rises above the highest that a node has seen, in the transaction that comes before anything is sent under
      it. That transaction is fenced as every other is: a controller that was deposed on its database fails there and ends.
      So a node's higher epoch never makes two leaders; it only proves that this leader's database is behind.
    - Job ids continue above the highest that a node reports. Ids that were assigned twice all the same (before the node
      registered) are distinguished: a step that a node holds at its first registration with this controller, under an id
      that the database had not assigned when it was loaded, is unknown: it is ended after KillWait.
    - A job is PENDING in the database, and a node has begun it: if the node still has its end to report, that is the
      job's end. Otherwise that run is ended, and the job waits as its next attempt; with --no-requeue it is FAILED.
      This applies only to jobs pending since before a loss that was accepted, or could not be excluded without a witness:
      a complete database has the start of every launched job, so that a node which reports otherwise is not trusted.
      Nor is one of which the job's partitions or --exclude know nothing, and an end that it did not hold when it registered.
    - Without that, a node's proof is only its own word. Runs that it reports with it, at its first registration, are
      ended, and these jobs wait as their next attempts; with --no-requeue they are held. They are not COMPLETED or
      FAILED by it: a stolen certificate could otherwise end all pending jobs.
    - A job is running in the database, and a node has ended and acknowledged it: its end is lost, as with a lost node
      (NODE_FAIL, or requeued).
    - When an administrator has accepted a loss, or a node has proved one, nothing starts before all nodes have reported
      what they hold, or SlurmdTimeout has passed since the start.
    - The database keeps that nodes are waited for, and the epoch and the job id from which on it was incomplete. A process
      that starts before all have reported waits again, judges the pending jobs that each node has begun, and distinguishes
      steps of lost ids from those of jobs that the process before had launched.
    - A node's numbers are accepted within bounds. A compromised one could otherwise exhaust them, of which there are
      2^31 for jobs: beyond the bounds it is drained, and an administrator gives the numbers (`penstock ctld
      --accept-loss --epoch-above N --job-id-above N`), or finds the fault of that node.
"""

from collections.abc import Iterable

from ctld.core.jobs import holds, outcome
from ctld.core.lifecycle import job_life
from ctld.core.lifecycle.ready import refresh
from ctld.core.records.effects import Warn
from ctld.core.records.events import HeldStep, NodeRegistered, StepExited
from ctld.core.records.gap import CLOSED, OpenGap
from ctld.core.records.job import HistoryRow, Job
from ctld.core.records.node import Node
from ctld.core.state.state import ClusterState
from ctld.core.state.timers import Timer
from penstock.values.jobid import BATCH_STEP, JOB_ID_MAX
from penstock.values.states import JobState, NodeFlag, Reason

US = 1_000_000
#: Starts of a controller by which a backup may be behind: each raises the epoch by one.
EPOCH_STEP_MAX = 10_000
#: Job ids by which a database may be behind the reports of its nodes, counted from its start.
JOB_IDS_MAX = 1_000_000
#: Attempts by which a job in the database may be behind the report of a node.
ATTEMPTS_MAX = 1_000
#: Added to KillWait before a job that was ended on a node may start elsewhere.
MARGIN_US = 5 * US
#: How long a job waits for the report of its end, which directly follows the registration.
REPORT_US = 60 * US
ENDS_UNKNOWN_STEPS = "ends steps that are not in the restored database"
SEEN_MORE = "database is too old: this node has seen more (was a backup restored?)"

_Key = tuple[int, int, int]


def recover(
    state: ClusterState, first_unknown_id: int, loss_at_us: int, accepted: bool, now_us: int, before: OpenGap = CLOSED
) -> None:
    """Determines after a start from which id on the database may be incomplete, until when, and whether to wait for the
    nodes. `before`: the gap in which an earlier process has ended."""
    gap = state.gap
    gap.started_epoch = state.epoch
    gap.started_at_us = now_us
    gap.loaded_id = gap.first_unknown_id = first_unknown_id
    gap.loss_at_us = loss_at_us
    if 0 < before.gap_epoch < state.epoch:  # the loss that this process accepts is no earlier one
        gap.is_inherited = True
        gap.started_epoch = before.gap_epoch
        gap.first_unknown_id = min(before.gap_first_unknown_id, first_unknown_id)
        text = "the controller ended before all nodes had reported after a loss: nothing starts before they have"
        state.emit(Warn(text))
    if accepted or before.gap_epoch:
        _wait(state)


def _wait(state: ClusterState) -> None:
    state.gap.wait_until_us = state.gap.started_at_us + state.config.slurmd_timeout_s * US
    state.timers.set(state.gap.wait_until_us, Timer.FULL_PASS)


def waits(state: ClusterState, now_us: int) -> bool:
    """Whether nothing may start yet, because a node may still run it."""
    gap = state.gap
    if not gap.wait_until_us:
        return False
    missing = any(not node.connected and not node.flags & NodeFlag.DOWN for node in state.node_list)
    if missing and now_us < gap.wait_until_us:
        return True
    gap.wait_until_us = 0
    state.emit(
        Warn(f"{'SlurmdTimeout is over' if missing else 'all nodes have reported their steps'}: jobs start again")
    )
    state.changed()
    return False


def refusal(state: ClusterState, event: NodeRegistered) -> str:
    """Returns why such a registration is refused; "" = it is accepted."""
    if event.epoch_seen - state.epoch <= EPOCH_STEP_MAX:
        return ""
    return (
        f"says it has seen epoch {event.epoch_seen}, this controller's is {state.epoch}: not believed; "
        "see Restore in docs/database.md"
    )


def learn(state: ClusterState, node: Node, event: NodeRegistered) -> str:
    """Raises the next numbers above those that the node has seen. Returns why the node must be drained, "" = it need
    not be."""
    gap = state.gap
    is_first = node.name not in gap.registered
    job_id = max(max((held.job_id for held in event.held), default=0), event.job_id_seen)
    if event.epoch_seen > state.epoch or (is_first and event.epoch_seen == state.epoch):
        _raise_epoch(state, node, event.epoch_seen)
    if job_id >= min(gap.loaded_id + JOB_IDS_MAX, JOB_ID_MAX) and job_id >= state.next_job_id:
        return f"says it has seen job {job_id}, the next one here is {state.next_job_id}: not believed"
    if is_first and gap.is_inherited:
        gap.unjudged[node.name] = None  # also one that had registered with the process before: its steps are known
    elif is_first and (event.epoch_seen >= gap.started_epoch or job_id >= gap.loaded_id):
        _note_claim(state, node)
    if job_id >= state.next_job_id:
        _raise_job_ids(state, node, job_id)
    return ""


def _raise_epoch(state: ClusterState, node: Node, seen: int) -> None:
    text = (
        f"node {node.name} has seen epoch {seen} before it registered here, this controller's was {state.epoch}: the "
        f"database is older than that (a restored backup?); the epoch is {seen + 1} from now on"
    )
    state.emit(Warn(text))
    state.epoch = seen + 1


def _raise_job_ids(state: ClusterState, node: Node, seen: int) -> None:
    text = (
        f"node {node.name} has seen job {seen}, the next one here would have been {state.next_job_id}: the database is "
        f"older than that (a restored backup?); job ids continue at {seen + 1}"
    )
    state.emit(Warn(text))
    state.skip_job_ids(seen + 1)


def _note_claim(state: ClusterState, node: Node) -> None:
    """Handles a node's proof that the database is older: nothing starts before all nodes have registered."""
    if not state.gap.claims and not state.gap.wait_until_us:
        _wait(state)
        state.emit(Warn("nothing starts before all nodes have reported their steps: see Restore in docs/database.md"))
    state.gap.claims[node.name] = None
    state.gap.unjudged[node.name] = None


def unknown_steps(state: ClusterState, now_us: int, node: Node, held: Iterable[HeldStep]) -> dict[_Key, None]:
    """Returns the steps on the node whose ids are not, or no longer, those of their jobs. They remain unknown while
    it holds them."""
    gap = state.gap
    if node.name in gap.registered:
        known = gap.unknown_steps.get(node.name, {})
        found = {key: None for h in held if (key := _key(h)) in known}
    else:
        gap.registered[node.name] = None
        found = {_key(h): None for h in held if _is_unknown(state, node, h)}
        for h in held:
            if _key(h) in found and h.step_id == BATCH_STEP:
                text = f"{node.name} holds it ({h.state}, started at {h.start_at_us} us); unknown to the database"
                state.outputs.history.append(HistoryRow(now_us, h.job_id, h.attempt, "restored", text))
        if found:
            state.emit(Warn(f"node {node.name} holds {len(found)} steps that the database does not know: ended there"))
    if found:
        gap.unknown_steps[node.name] = found
    else:
        gap.unknown_steps.pop(node.name, None)
    return found


def _is_unknown(state: ClusterState, node: Node, held: HeldStep) -> bool:
    """Whether the id of a step was assigned before the loss, by a record that the database does not have."""
    gap = state.gap
    if held.job_id < gap.first_unknown_id or held.job_id >= gap.loaded_id:
        return held.job_id >= gap.loaded_id
    if held.state == "TOMBSTONE":
        return False  # nothing runs
    job = state.jobs.get(held.job_id)  # the process before may have assigned the id once more, and launched that job
    is_ours = job is not None and job.state is not JobState.PENDING and job.attempt == held.attempt
    return not (is_ours and job is not None and any(part.node == node.name for part in job.alloc))


def judge_pending(state: ClusterState, now_us: int, node: Node, held: Iterable[HeldStep]) -> None:
    """Handles jobs that are pending in the database and were begun on the node."""
    is_claimed = node.name in state.gap.unjudged
    runs: dict[int, list[HeldStep]] = {}
    for one in held:
        job = state.jobs.get(one.job_id)
        if job is None or not 0 <= one.attempt - job.attempt <= ATTEMPTS_MAX:
            continue
        if not _is_place_of(state, node, job):
            continue
        if _may_have_run(state, job) or (is_claimed and _is_older(state, job)):
            runs.setdefault(one.job_id, []).append(one)
    for job_id, steps in runs.items():
        _ran_unseen(state, now_us, node, state.jobs[job_id], steps)
    state.gap.unjudged.pop(node.name, None)


def _may_have_run(state: ClusterState, job: Job) -> bool:
    """Whether the job is pending, and its start may have been lost."""
    return job.state is JobState.PENDING and job.submit_at_us <= state.gap.loss_at_us


def _is_place_of(state: ClusterState, node: Node, job: Job) -> bool:
    """Whether the job could have been launched on the node, as far as the database knows."""
    partitions = (state.partitions.get(name) for name in job.request.partitions)
    return node.name not in job.request.nodes_excluded and any(
        p is not None and p.node_bits >> node.index & 1 for p in partitions
    )


def _is_older(state: ClusterState, job: Job) -> bool:
    """Whether the job was pending when the database was loaded, and is."""
    return job.state is JobState.PENDING and job.submit_at_us <= state.gap.started_at_us


def _ran_unseen(state: ClusterState, now_us: int, node: Node, job: Job, steps: list[HeldStep]) -> None:
    is_trusted = _may_have_run(state, job)
    if is_trusted and any(
        s.state == "EXITED" and not s.end_acknowledged and s.step_id == BATCH_STEP and s.attempt == job.attempt
        for s in steps
    ):
        state.record(now_us, job, "restored", f"{node.name} has run it; its report follows")
        state.gap.awaited_ends[job.job_id, job.attempt] = node.name
        _not_before(state, job, now_us + REPORT_US, now_us)
        return
    how = f"{node.name} started it after the last state in the database; how it ended there is not known"
    state.record(now_us, job, "restored", how)
    job.start_at_us = min((s.start_at_us for s in steps if 0 < s.start_at_us <= now_us), default=now_us)
    job.batch_node = node.name
    if not job.request.requeue and is_trusted:
        outcome.explain(job, how)
        job_life.finish(state, job, JobState.FAILED, Reason.NODE_DOWN, now_us)
        return
    state.end_attempt(job, max(now_us, job.start_at_us), Reason.NODE_DOWN)
    job.attempt = max(s.attempt for s in steps) + 1
    job.start_at_us = 0
    job.batch_node = ""
    if not job.request.requeue:
        holds.hold_for(job, Reason.LAUNCH_FAILED_REQUEUED_HELD.value)
    _not_before(state, job, now_us + state.config.kill_wait_s * US + MARGIN_US, now_us)


def _not_before(state: ClusterState, job: Job, at_us: int, now_us: int) -> None:
    job.eligible_at_us = max(job.eligible_at_us, at_us)
    state.timers.set(job.eligible_at_us, Timer.BEGIN_TIME, job.job_id)
    state.touch(job)
    refresh(state, job, now_us)


def take_end(state: ClusterState, event: StepExited) -> bool:
    """Applies the end of a pending job that has run on the node. Returns whether it was one."""
    job = state.jobs.get(event.job_id)
    if job is None or not _may_have_run(state, job) or job.attempt != event.attempt:
        return False
    if event.step_id != BATCH_STEP or not event.start_at_us:
        return False
    if state.gap.awaited_ends.get((event.job_id, event.attempt)) != event.node:
        return False
    del state.gap.awaited_ends[event.job_id, event.attempt]
    job.start_at_us = event.start_at_us
    job.batch_node = event.node
    outcome.set_exit(job, event.exit_code, event.exit_signal)
    end_state, reason = JobState.COMPLETED, Reason.NONE
    if event.out_of_memory:
        end_state, reason = JobState.OUT_OF_MEMORY, Reason.OUT_OF_MEMORY
    elif event.exit_code or event.exit_signal or event.failure:
        end_state, reason = JobState.FAILED, Reason.NON_ZERO_EXIT_CODE
    job_life.finish(state, job, end_state, reason, event.end_at_us)
    return True


def _key(held: HeldStep) -> _Key:
    return held.job_id, held.attempt, held.step_id
