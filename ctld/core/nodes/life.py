"""The life cycle of a node: registered, silent, down, drained; and the effects on its steps.

    UNKNOWN -> up -> NO_RESPOND (stream lost) -> DOWN (silent for SlurmdTimeout) -> up or DOWN by ReturnToService

Registration reconciles node and controller (reliability rule R7): the node lists every step it knows, the controller
compares. A step that both know continues. One that only the controller knows was either never accepted (it is launched
again: the node starts nothing twice), or is dead. One that only the node knows is ended there, and nothing new starts
on that node before its end (flag COMPLETING).

A silent node may be disconnected rather than dead: its jobs are not restarted elsewhere without proof (R3).
lifecycle/lease.py defines the proofs, and which jobs continue meanwhile. A job with other nodes than the silent one is
ended as a whole at the time-out, unless it was submitted with --no-kill. One that may not be requeued is NODE_FAIL
then; its remaining steps are ended before anything else starts on the node.
"""

from collections.abc import Iterator

from ctld.core.gpus import inventory
from ctld.core.jobs import node_boots, outcome, prolog_state
from ctld.core.lifecycle import job_life, lease, restored, step_orders, suspend
from ctld.core.nodes import gpu_health, node_reason, reboot
from ctld.core.nodes.node_reason import REASON_MAX, ROOT_UID
from ctld.core.records.effects import AdmitNode, ForgetStep, TerminateStep
from ctld.core.records.events import (
    Actor,
    HeldStep,
    NodeDisconnected,
    NodeFenced,
    NodeNotice,
    NodeRegistered,
    StepExited,
)
from ctld.core.records.job import Job
from ctld.core.records.node import Node
from ctld.core.records.step import SpreadStep, Step, is_live_on, part_on
from ctld.core.state.state import ClusterState
from ctld.core.state.timers import Timer
from ctld.core.steps import life as step_life
from penstock.values.config import Config
from penstock.values.jobid import EXTERN_STEP, format_step
from penstock.values.signals import signal_name
from penstock.values.states import JobState, NodeFlag, Reason

US = 1_000_000
NOT_RESPONDING = "Not responding"
_LIVE = ("ACCEPTED", "RUNNING")  # states of a held step
#: Steps that are ended or forgotten on a node in one turn of the loop: some milliseconds.
SLICE_STEPS = 2_000


def node_registered(state: ClusterState, now_us: int, event: NodeRegistered) -> None:
    """Handles the registration of a node daemon, in slices: it may name very many steps."""
    state.handling.unfinished = _register(state, now_us, event)


def _register(state: ClusterState, now_us: int, event: NodeRegistered) -> Iterator[None]:
    refusal = _refusal(state, event)
    state.emit(AdmitNode(event.node, event.link_id, refusal))
    if refusal:
        _drain_if_implausible(state, event, now_us)
        return
    state.applying()
    node = state.nodes[event.node]
    doubt = restored.learn(state, node, event)
    rebooted = bool(node.boot_id) and node.boot_id != event.boot_id
    for_job = node_boots.is_for_job(state, node)
    forgotten = (
        (rebooted and not for_job) or event.spool_lost or bool(node.spool_id and node.spool_id != event.spool_id)
    )
    _take_over(node, event)
    gpu_health.registered(state, now_us, node, event.gpus, event.gpu_opinions)
    _judge_size(state.config, node, event, now_us)
    if node.flags & NodeFlag.DOWN and _may_return(state, node, rebooted):
        node.flags &= ~NodeFlag.DOWN
        node_reason.reword(node, "")
    node.flags &= ~(NodeFlag.UNKNOWN | NodeFlag.NO_RESPOND | NodeFlag.FUTURE)
    reboot.registered(state, node, rebooted, now_us)
    if event.spool_lost:
        drain(node, "spool lost", now_us)
    if doubt:
        drain(node, doubt, now_us)
    state.touch_node(node)
    lease.reachable(state, node)
    yield from _reconcile(state, now_us, node, event, forgotten)
    for job in reboot.jobs_of_node_back(state, node):
        job_life.begin_after_reboot(state, job, now_us)
    if rebooted and not for_job:
        for job_id in list(node.jobs):
            _end_broken(state, node, state.jobs[job_id], now_us)


def _refusal(state: ClusterState, event: NodeRegistered) -> str:
    node = state.nodes.get(event.node)
    if node is None:
        return f"node {event.node} is not in the configuration: add a NodeName line and run scontrol reconfigure"
    same = node.boot_id == event.boot_id and node.spool_id == event.spool_id
    if node.connected and not same:
        return f"node {event.node} is registered already from another place"
    if unbelieved := restored.refusal(state, event):
        return f"node {event.node} {unbelieved}"
    return ""


def _drain_if_implausible(state: ClusterState, event: NodeRegistered, now_us: int) -> None:
    """Drains a node whose report is implausible; `sinfo -R` shows why."""
    node, reason = state.nodes.get(event.node), restored.refusal(state, event)
    if node is not None and reason and not node.flags & NodeFlag.DRAIN:
        drain(node, reason[:REASON_MAX], now_us)
        state.touch_node(node)


def _take_over(node: Node, event: NodeRegistered) -> None:
    node.connected = True
    node.instance_id = event.instance_id or node.instance_id
    node.instance_type = event.instance_type or node.instance_type
    node.extra = event.extra or node.extra
    node.link_id = event.link_id
    node.boot_id = event.boot_id
    node.spool_id = event.spool_id
    node.version = event.version
    node.os = event.os
    node.arch = event.arch
    node.pretended = event.pretended
    node.boot_at_us = event.boot_at_us
    node.started_at_us = event.started_at_us
    node.stream_port = event.stream_port
    node.stream_tls = event.stream_tls
    node.gpu_driver = event.gpu_driver
    node.cuda_version = event.cuda_version
    node.nvml_version = event.nvml_version
    node.gpu_constraint = event.gpu_constraint
    node.gpu_why = event.gpu_why
    node.gpus_at_us = event.gpus_at_us


def _judge_size(config: Config, node: Node, event: NodeRegistered, now_us: int) -> None:
    """Drains a node that is smaller than its configuration, for which jobs are sized.

    SlurmctldParameters=node_reg_mem_percent=N: N percent of RealMemory suffice (machines of a cloud differ a little).
    SlurmdParameters=config_overrides: the configuration counts, whatever the node reports.
    """
    percent = _percent(config.word_value("slurmctld_parameters", "node_reg_mem_percent"))
    memory_mb = node.config.real_memory_mb
    found = {
        "CPUs": (event.cpus, node.config.cpus, node.config.cpus),
        "RealMemory": (event.real_memory_mb, memory_mb, memory_mb * percent // 100),
    }
    low = [f"Low {what} (reported:{have} < configured:{want})" for what, (have, want, do) in found.items() if have < do]
    if config.has_word("slurmd_parameters", "config_overrides"):
        low = []
    low += filter(None, [inventory.shortage(node, event.gpus, event.gres, event.gpu_why)])
    node.low = tuple(low)
    if low and not event.pretended:
        node.flags |= NodeFlag.INVAL
        drain(node, low[0][:REASON_MAX], now_us)
    elif node.flags & NodeFlag.INVAL:
        node.flags &= ~(NodeFlag.INVAL | NodeFlag.DRAIN)
        node_reason.reword(node, "")


def _percent(text: str) -> int:
    """Parses 1 to 100; returns 100 for anything else, which `penstock config check` reports."""
    return int(text) if text.isascii() and text.isdigit() and 0 < int(text[:4]) <= 100 else 100


def drain(node: Node, reason: str, now_us: int) -> None:
    """Drains the node; an earlier reason is kept."""
    if not node.flags & NodeFlag.DRAIN:
        node.flags |= NodeFlag.DRAIN
        node_reason.explain(node, reason, ROOT_UID, now_us)


def _may_return(state: ClusterState, node: Node, rebooted: bool) -> bool:
    """Whether a node that is DOWN returns (ReturnToService): 0 never, 1 if it did not respond, 2 always."""
    how = state.config.return_to_service
    return how == 2 or (how == 1 and node.reason.startswith(NOT_RESPONDING))


def _reconcile(state: ClusterState, now_us: int, node: Node, event: NodeRegistered, forgotten: bool) -> Iterator[None]:
    """Compares the node's steps with those of the database: each of its slices takes some milliseconds."""
    yield
    held = {(h.job_id, h.attempt, h.step_id): h for h in event.held}
    yield
    foreign = restored.unknown_steps(state, now_us, node, event.held)
    yield
    restored.judge_pending(state, now_us, node, [h for key, h in held.items() if key not in foreign])
    yield
    # Before anything is settled: the time limit of a job that has another step here looks at it.
    node.exited = {
        (h.job_id, h.attempt, h.step_id): None for h in event.held if h.state == "EXITED" and not h.end_acknowledged
    }
    runs = {h.job_id: None for h in event.held if h.state in _LIVE and not h.suspended}
    for job in sorted((state.jobs[job_id] for job_id in node.jobs), key=lambda job: _turn(job, job.job_id in runs)):
        attempt = job.attempt
        for step in step_orders.live_steps(state, job):
            if is_live_on(step, node.name) and job.attempt == attempt:
                key = (job.job_id, attempt, step.step_id)
                found = held.pop(key, None) if key not in foreign else None
                _settle(state, now_us, job, step, node.name, found, forgotten)
    node.leftovers = {}
    for number, key in enumerate(held, 1):
        if number % SLICE_STEPS == 0:
            yield
        if key in foreign or _is_over(state, *key, node.name):
            if held[key].state not in ("EXITED", "TOMBSTONE"):
                node.leftovers[key] = None
                state.emit(TerminateStep(node.name, *key, state.config.kill_wait_s * 1000))
            else:
                state.emit(ForgetStep(node.name, *key))
    _show_leftovers(state, node)


def _turn(job: Job, runs: bool) -> int:
    """Returns when the job has its turn, by whether it `runs` on the node: first those that stop, then those that may move,
    since others may continue and begin on the CPUs that they have left."""
    if job.state in (JobState.COMPLETING, JobState.SUSPENDED):
        return 0
    return 1 if runs else 2


def _show_leftovers(state: ClusterState, node: Node) -> None:
    """Marks the node while steps run on it whose resources are released already: nothing new starts there before they
    end."""
    if bool(node.leftovers) != bool(node.flags & NodeFlag.COMPLETING):
        node.flags ^= NodeFlag.COMPLETING
        if node.name in state.gap.unknown_steps and not node.reason:
            node_reason.reword(node, restored.ENDS_UNKNOWN_STEPS)
        elif node.reason == restored.ENDS_UNKNOWN_STEPS and not node.leftovers:
            node_reason.reword(node, "")
        state.touch_node(node)


def leftover_gone(state: ClusterState, event: StepExited) -> None:
    """Handles the end of a step on a node that the controller had ended before."""
    node = state.nodes.get(event.node)
    if node is not None and node.leftovers:
        node.leftovers.pop((event.job_id, event.attempt, event.step_id), None)
        _show_leftovers(state, node)


def _is_over(state: ClusterState, job_id: int, attempt: int, step_id: int, name: str) -> bool:
    found = step_life.find(state, job_id, attempt, step_id)
    return found is None or not is_live_on(found[1], name)


def _settle(
    state: ClusterState, now_us: int, job: Job, step: Step, name: str, held: HeldStep | None, forgotten: bool
) -> None:
    """Reconciles one step that should be on the node: it continues, is launched again, ended, or marked dead.

    `forgotten`: the node may have started steps of which it has lost the record (rebooted, spool lost), so that a
    launch without an answer may have been executed and is not sent again.
    """
    has_lease = held is not None and held.lease_s
    step.dead_after_s = lease.dead_after_s(held.lease_s, held.lease_grace_s) if held is not None and has_lease else 0
    part = step.parts[part_on(step, name)] if step.parts is not None else step
    ending = job.state is JobState.COMPLETING or (isinstance(step, SpreadStep) and bool(step.note))
    if held is None:
        if part.state is JobState.CONFIGURING and not forgotten:
            if ending:
                step_orders.emit_terminate(state, job, step, only=name)
            elif job.state is JobState.SUSPENDED:
                pass  # it is launched when the job is resumed
            elif step.step_id == EXTERN_STEP or not prolog_state.awaits_prolog(state, job):
                step_orders.emit_launch(state, job, step, name)
        else:
            step_life.lost(state, job, step, now_us, f"{name} no longer knows it", name)
    elif held.end_acknowledged and held.state in ("EXITED", "TOMBSTONE"):
        state.emit(ForgetStep(name, job.job_id, job.attempt, step.step_id))
        step_life.lost(state, job, step, now_us, f"it ended on {name} after what the database holds", name)
    elif held.state in _LIVE and ending:
        step_orders.emit_terminate(state, job, step, only=name)
    elif held.state in _LIVE and _may_have_changed(job, held):
        suspend.emit_again(state, job, step, name)
    # EXITED: its report is in the node's spool and follows. Running and wanted: it continues, within its time limit.
    if held is None or held.state != "EXITED":
        step_life.time_limit(state, now_us, job.job_id, job.attempt)


def _may_have_changed(job: Job, held: HeldStep) -> bool:
    """Whether the node may not know that the step is suspended, or that it continues on other CPUs: it may have missed
    both the suspension and its end."""
    if held.suspended != (job.state is JobState.SUSPENDED):
        return True
    return job.state is not JobState.SUSPENDED and job.suspended_at_us > 0 and any(part.cpu_ids for part in job.alloc)


def node_noticed(state: ClusterState, now_us: int, event: NodeNotice) -> None:
    """Handles a node's request to be drained, or its withdrawal. A later change by an administrator is kept."""
    state.outputs.acknowledge(event.node, event.link_id, event.spool_id, event.sequence)
    node = state.nodes.get(event.node)
    if node is None:
        return
    job = state.jobs.get(event.job_id)
    if job is not None and job.attempt == event.attempt and job_life.was_on(job, node.name):
        state.record(now_us, job, "node notice", f"{event.node}: {event.reason}{' (over)' if event.clear else ''}")
        if event.signal_no:
            step = f"step {job.job_id}.{format_step(event.step_id)} of {job.user_name}"
            policy = Actor(ROOT_UID, ROOT_UID, "root", "root", via="policy", origin=event.node)
            after = {"signal": signal_name(event.signal_no)}
            state.audit.note(now_us, policy, "signal hanging step", (step,), after=after)
    flag = NodeFlag.FAIL if event.fail else NodeFlag.DRAIN
    if event.clear:
        has_changed = node_reason.withdraw(node, flag, event.reason)
    else:
        has_changed = (event.drain or event.fail) and node_reason.add(node, flag, event.reason, now_us)
    if has_changed:
        state.touch_node(node)


def node_disconnected(state: ClusterState, now_us: int, event: NodeDisconnected) -> None:
    """Handles the loss of the stream. Jobs and steps are kept for now."""
    node = state.nodes.get(event.node)
    if node is None or node.link_id != event.link_id:
        return
    node.connected = False
    node.link_id = 0
    node.lost_link_id = event.link_id
    node.lost_at_us = now_us
    node.flags |= NodeFlag.NO_RESPOND
    state.touch_node(node)
    state.timers.set(now_us + state.config.slurmd_timeout_s * US, Timer.NODE_TIMEOUT, node.name, event.link_id)


def node_timeout(state: ClusterState, now_us: int, name: str, link_id: int) -> None:
    """Sets the node DOWN when SlurmdTimeout has passed since the stream was lost, unless it has returned."""
    node = state.nodes.get(name)
    if node is None or node.connected or node.lost_link_id != link_id:  # it returned, maybe was lost again
        return
    if node.flags & NodeFlag.REBOOT_ISSUED and node.flags & NodeFlag.REBOOT_FOR_JOB:
        return  # reboot_timed_out
    if node.flags & NodeFlag.DOWN or not node.flags & NodeFlag.NO_RESPOND:
        return
    due_us = node.lost_at_us + state.config.slurmd_timeout_s * US if node.lost_at_us else now_us
    if due_us > now_us:  # the clock was set forward
        state.timers.set(due_us, Timer.NODE_TIMEOUT, name, link_id)
        return
    set_down(state, node, NOT_RESPONDING, ROOT_UID, now_us)
    for job_id in list(node.jobs):
        _out_of_reach(state, node, state.jobs[job_id], now_us)
    lease.request_fencing(state, node)


def reboot_timed_out(state: ClusterState, now_us: int, name: str, check: int) -> None:
    """Handles ResumeTimeout after the order to reboot. A job that waits for the node has nothing there that could run."""
    node = state.nodes.get(name)
    if node is None or not node.flags & NodeFlag.REBOOT_ISSUED:
        return
    waiting = [state.jobs[job_id] for job_id in node.jobs] if node.flags & NodeFlag.REBOOT_FOR_JOB else []
    reboot.give_up(state, node, now_us)
    for job in waiting:
        end_for_node(state, node, job, now_us)
        mark_steps_dead(state, node, job, now_us)


def _out_of_reach(state: ClusterState, node: Node, job: Job, now_us: int) -> None:
    """Handles a job of a node that has been silent for SlurmdTimeout."""
    if lease.stops(state, job) and _needs(node, job):
        end_for_node(state, node, job, now_us)
    else:
        _end_broken(state, node, job, now_us)
    if job.job_id not in node.jobs:
        return
    if job.state is not JobState.COMPLETING and not _needs(node, job):
        mark_steps_dead(state, node, job, now_us)  # the job continues on its other nodes, its steps on this one do not
    elif job.state is not JobState.COMPLETING:
        lease.unreachable(state, node, job)
    elif job.end_state is JobState.NODE_FAIL:
        mark_steps_dead(state, node, job, now_us)
    elif any(is_live_on(step, node.name) for step in step_orders.live_steps(state, job)):
        lease.watch(state, node, job, now_us)


def _needs(node: Node, job: Job) -> bool:
    """Whether the job cannot continue without that node."""
    has_script = node.name == job.batch_node and not job.request.kind
    return has_script or not job.request.no_kill


def _end_broken(state: ClusterState, node: Node, job: Job, now_us: int) -> None:
    """Ends a job as a whole that has lost one of its nodes."""
    if len(job.alloc) > 1 and _needs(node, job):
        end_for_node(state, node, job, now_us)


def lease_due(state: ClusterState, now_us: int, name: str, job_id: int) -> None:
    """Marks the steps with a lease on that node dead, as they have stopped themselves by now, unless the node has been
    in contact since."""
    node, job = state.nodes.get(name), state.jobs.get(job_id)
    if node is None or job is None or job.job_id not in node.jobs or job.state is not JobState.COMPLETING:
        return
    due_us = lease.dead_at_us(node, job)
    if due_us > now_us:
        state.timers.set(due_us, Timer.LEASE, name, job_id)
    elif due_us:
        state.record(now_us, job, "lease", f"it has run out on {name}")
        mark_steps_dead(state, node, job, now_us)


def node_fenced(state: ClusterState, now_us: int, event: NodeFenced) -> None:
    """Handles the end of the fencing program: its success proves as much as a new boot id."""
    is_off = lease.is_proof(state, now_us, event)
    node = state.nodes.get(event.node)
    if node is None or node.connected or node.lost_link_id != event.lost_link_id:
        return
    how = "fenced" if is_off else f"fencing failed: {event.text}"
    set_down(state, node, f"{NOT_RESPONDING}; {how}"[:REASON_MAX], ROOT_UID, now_us)
    for job_id in list(node.jobs) if is_off else ():
        job = state.jobs[job_id]
        end_for_node(state, node, job, now_us)
        state.record(now_us, job, "fence", f"{node.name} is off")
        mark_steps_dead(state, node, job, now_us)


def set_down(state: ClusterState, node: Node, reason: str, uid: int, now_us: int) -> None:
    """Marks the node DOWN."""
    node.flags |= NodeFlag.DOWN
    node_reason.explain(node, reason, uid, now_us)
    state.touch_node(node)


def end_for_node(state: ClusterState, node: Node, job: Job, now_us: int) -> None:
    """Begins the end of a job that runs on a node that is down: requeue, or NODE_FAIL."""
    if not _needs(node, job):
        return
    if job.state in (JobState.CONFIGURING, JobState.RUNNING, JobState.SUSPENDED):
        outcome.failed_on(job, node.name)
        outcome.explain(job, "")
        job_life.terminate(state, job, job_life.after_node_loss(job), Reason.NODE_DOWN, now_us, "NODE FAILURE")


def mark_steps_dead(state: ClusterState, node: Node, job: Job, now_us: int) -> None:
    """Marks the job's steps on that node as dead."""
    attempt = job.attempt
    for step in step_orders.live_steps(state, job):
        if is_live_on(step, node.name) and job.attempt == attempt:
            step_life.lost(state, job, step, now_us, f"node {node.name} is down", node.name)
