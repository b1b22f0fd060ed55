"""A node's life: registered, silent, down, drained; and what that means for its steps.

    UNKNOWN -> up -> NO_RESPOND (stream lost) -> DOWN (silent for SlurmdTimeout) -> up or DOWN by ReturnToService

Registration is the moment of truth (reliability rule R7): the node lists every step it knows, the controller compares.
A step that both know goes on. One that only the controller knows was either never accepted (it is launched again: the
node starts nothing twice), or is dead. One that only the node knows is ended there, and until it is gone nothing new
starts on that node (flag COMPLETING).

A silent node may be cut off, not dead: its jobs are not restarted elsewhere on suspicion (R3). What counts as proof, and
which jobs go on unseen meanwhile, stands in lease.py. A job with other nodes than the silent one is ended as a whole at
the time-out, unless it was submitted with --no-kill: half a job is of no use. One that may not be requeued is NODE_FAIL
then; what is left of it is ended before anything else starts on the node.
"""

from ctld.core import gpu_health, gpus, job_life, lease, reboot, step_life, surround, suspend
from ctld.core.effects import AdmitNode, ForgetStep, TerminateStep
from ctld.core.events import (
    HeldStep,
    NodeDisconnected,
    NodeFenced,
    NodeNotice,
    NodeRegistered,
    StepExited,
)
from ctld.core.model import Job, Node
from ctld.core.state import ClusterState
from ctld.core.step_model import SpreadStep, Step, is_live_on, part_on
from ctld.core.timers import Timer
from penstock.values.config import Config
from penstock.values.jobid import EXTERN_STEP
from penstock.values.states import JobState, NodeFlag, Reason

US = 1_000_000
ROOT_UID = 0
NOT_RESPONDING = "Not responding"
REASON_MAX = 256
#: Between reasons of a node that it has at the same time.
AND = "; "


def node_registered(state: ClusterState, now_us: int, event: NodeRegistered) -> None:
    """A node daemon opened its stream."""
    refusal = _refusal(state, event)
    state.emit(AdmitNode(event.node, event.link_id, refusal))
    if refusal:
        return
    # -- apply
    node = state.nodes[event.node]
    rebooted = bool(node.boot_id) and node.boot_id != event.boot_id
    forgotten = rebooted or event.spool_lost or bool(node.spool_id and node.spool_id != event.spool_id)
    _take_over(node, event)
    gpu_health.registered(state, now_us, node, event.gpus, event.gpu_opinions)
    _judge_size(state.config, node, event, now_us)
    if node.flags & NodeFlag.DOWN and _may_return(state, node, rebooted):
        node.flags &= ~NodeFlag.DOWN
        node.reason = ""
    node.flags &= ~(NodeFlag.UNKNOWN | NodeFlag.NO_RESPOND | NodeFlag.FUTURE)
    reboot.registered(state, node, rebooted, now_us)
    if event.spool_lost:
        drain(node, "spool lost", now_us)
    state.touch_node(node)
    lease.reachable(state, node)
    _reconcile(state, now_us, node, event, forgotten)
    if rebooted:
        for job_id in list(node.jobs):
            _end_broken(state, node, state.jobs[job_id], now_us)


def _refusal(state: ClusterState, event: NodeRegistered) -> str:
    node = state.nodes.get(event.node)
    if node is None:
        return f"node {event.node} is not in the configuration: add a NodeName line and run scontrol reconfigure"
    same = node.boot_id == event.boot_id and node.spool_id == event.spool_id
    if node.connected and not same:
        return f"node {event.node} is registered already from another place"
    return ""


def _take_over(node: Node, event: NodeRegistered) -> None:
    node.connected, node.link_id = True, event.link_id
    node.boot_id, node.spool_id, node.version = event.boot_id, event.spool_id, event.version
    node.os, node.arch, node.pretended = event.os, event.arch, event.pretended
    node.boot_at_us, node.started_at_us = event.boot_at_us, event.started_at_us
    node.stream_port, node.stream_tls = event.stream_port, event.stream_tls
    node.gpu_driver, node.cuda_version, node.nvml_version = event.gpu_driver, event.cuda_version, event.nvml_version
    node.gpu_constraint, node.gpu_why = event.gpu_constraint, event.gpu_why
    node.gpus_at_us = event.gpus_at_us


def _judge_size(config: Config, node: Node, event: NodeRegistered, now_us: int) -> None:
    """A node smaller than its configuration must not get jobs sized for the configuration.

    SlurmctldParameters=node_reg_mem_percent=N: N percent of RealMemory do (machines of a cloud differ a little).
    SlurmdParameters=config_overrides: the configuration is right, whatever the node says.
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
    low += filter(None, [gpus.shortage(node, event.gpus, event.gres, event.gpu_why)])
    node.low = tuple(low)
    if low and not event.pretended:
        node.flags |= NodeFlag.INVAL
        drain(node, low[0][:REASON_MAX], now_us)
    elif node.flags & NodeFlag.INVAL:
        node.flags &= ~(NodeFlag.INVAL | NodeFlag.DRAIN)
        node.reason = ""


def _percent(text: str) -> int:
    """1 to 100; 100 for anything else, which `penstock config check` has told of."""
    return int(text) if text.isascii() and text.isdigit() and 0 < int(text[:4]) <= 100 else 100


def drain(node: Node, reason: str, now_us: int) -> None:
    """No new jobs there; an earlier reason stays."""
    if not node.flags & NodeFlag.DRAIN:
        node.flags |= NodeFlag.DRAIN
        node.reason, node.reason_uid, node.reason_at_us = reason, ROOT_UID, now_us


def _may_return(state: ClusterState, node: Node, rebooted: bool) -> bool:
    """slurm.conf ReturnToService: 0 never by itself, 1 if it was down for not responding, 2 always."""
    how = state.config.return_to_service
    return how == 2 or (how == 1 and node.reason.startswith(NOT_RESPONDING))


def _reconcile(state: ClusterState, now_us: int, node: Node, event: NodeRegistered, forgotten: bool) -> None:
    held = {(h.job_id, h.attempt, h.step_id): h for h in event.held}
    for job_id in list(node.jobs):
        job = state.jobs[job_id]
        attempt = job.attempt
        for step in job_life.live_steps(state, job):
            if is_live_on(step, node.name) and job.attempt == attempt:
                found = held.pop((job_id, attempt, step.step_id), None)
                _settle(state, now_us, job, step, node.name, found, forgotten)
    node.exited = {(h.job_id, h.attempt, h.step_id): None for h in event.held if h.state == "EXITED"}
    node.leftovers = {}
    for key in held:
        if _is_over(state, *key, node.name):
            if held[key].state not in ("EXITED", "TOMBSTONE"):
                node.leftovers[key] = None
                state.emit(TerminateStep(node.name, *key, state.config.kill_wait_s * 1000))
            else:
                state.emit(ForgetStep(node.name, *key))
    _show_leftovers(state, node)


def _show_leftovers(state: ClusterState, node: Node) -> None:
    """What such a step uses has been given back: nothing new starts on the node before the last of them is gone."""
    if bool(node.leftovers) != bool(node.flags & NodeFlag.COMPLETING):
        node.flags ^= NodeFlag.COMPLETING
        state.touch_node(node)


def leftover_gone(state: ClusterState, event: StepExited) -> None:
    """The node says that a step has ended which was over before."""
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
    """One step that should be on the node: go on, launch again, end, or bury.

    `forgotten`: the node may have started steps that it cannot know of any more (rebooted, spool gone), so that a
    launch without an answer may have been obeyed and is not sent again.
    """
    has_lease = held is not None and held.lease_s
    step.dead_after_s = lease.dead_after_s(held.lease_s, held.lease_grace_s) if held is not None and has_lease else 0
    part = step.parts[part_on(step, name)] if step.parts is not None else step
    ending = job.state is JobState.COMPLETING or (isinstance(step, SpreadStep) and bool(step.note))
    if held is None:
        if part.state is JobState.CONFIGURING and not forgotten:
            if ending:
                job_life.emit_terminate(state, job, step, only=name)
            elif job.state is JobState.SUSPENDED:
                pass  # it is launched when it goes on
            elif step.step_id == EXTERN_STEP or not surround.is_held_back(state, job):
                job_life.emit_launch(state, job, step, name)
        else:
            step_life.lost(state, job, step, now_us, f"{name} does not know it any more", name)
    elif held.state in ("ACCEPTED", "RUNNING") and ending:
        job_life.emit_terminate(state, job, step, only=name)
    elif held.state in ("ACCEPTED", "RUNNING") and held.suspended != (job.state is JobState.SUSPENDED):
        suspend.emit_suspended(state, job)
    # EXITED: its report is in the node's spool and comes next. Running and wanted: it goes on, within its time limit.
    if held is None or held.state != "EXITED":
        step_life.time_limit(state, now_us, job.job_id, job.attempt)


def node_noticed(state: ClusterState, now_us: int, event: NodeNotice) -> None:
    """The node drains itself, or takes that back. What an administrator has said since then stays.

    It may have several reasons at a time: they stand in a row, each goes by itself, and the last one opens the node.
    """
    state.acknowledge(event.node, event.link_id, event.spool_id, event.sequence)
    node = state.nodes.get(event.node)
    if node is None:
        return
    job = state.jobs.get(event.job_id)
    if job is not None and job.attempt == event.attempt:
        state.record(now_us, job, "node notice", f"{event.node}: {event.reason}{' (over)' if event.clear else ''}")
    flag = NodeFlag.FAIL if event.fail else NodeFlag.DRAIN
    reasons = node.reason.split(AND) if node.flags & flag and node.reason_uid == ROOT_UID else []
    if event.clear:
        if event.reason not in reasons:
            return
        reasons.remove(event.reason)
        node.reason = AND.join(reasons)
        if not reasons:
            node.flags &= ~flag
    elif not (event.drain or event.fail) or event.reason in reasons:
        return
    elif node.flags & flag:
        if not reasons or len(node.reason) > REASON_MAX:  # an administrator's word counts alone
            return
        node.reason = AND.join([*reasons, event.reason])
    else:
        node.flags |= flag
        node.reason, node.reason_uid, node.reason_at_us = event.reason, ROOT_UID, now_us
    state.touch_node(node)


def node_disconnected(state: ClusterState, now_us: int, event: NodeDisconnected) -> None:
    """The stream is gone. Nothing is given up yet."""
    node = state.nodes.get(event.node)
    if node is None or node.link_id != event.link_id:
        return
    node.connected, node.link_id, node.lost_link_id, node.lost_at_us = False, 0, event.link_id, now_us
    node.flags |= NodeFlag.NO_RESPOND
    state.touch_node(node)
    state.timers.set(now_us + state.config.slurmd_timeout_s * US, Timer.NODE_TIMEOUT, node.name, event.link_id)


def node_timeout(state: ClusterState, now_us: int, name: str, link_id: int) -> None:
    """SlurmdTimeout after the stream was lost: the node is DOWN unless it came back."""
    node = state.nodes.get(name)
    if node is None or node.connected or node.lost_link_id != link_id:  # it came back, and may have gone again since
        return
    if node.flags & NodeFlag.DOWN or not node.flags & NodeFlag.NO_RESPOND:
        return
    due_us = node.lost_at_us + state.config.slurmd_timeout_s * US if node.lost_at_us else now_us
    if due_us > now_us:  # the clock was set forward
        state.timers.set(due_us, Timer.NODE_TIMEOUT, name, link_id)
        return
    set_down(state, node, NOT_RESPONDING, ROOT_UID, now_us)
    for job_id in list(node.jobs):
        _out_of_reach(state, node, state.jobs[job_id], now_us)
    lease.want_fence(state, node)


def _out_of_reach(state: ClusterState, node: Node, job: Job, now_us: int) -> None:
    """A job of a node that has been silent for SlurmdTimeout."""
    if lease.stops(state, job) and _needs(node, job):
        end_for_node(state, node, job, now_us)
    else:
        _end_broken(state, node, job, now_us)
    if job.job_id not in node.jobs:
        return
    if job.state is not JobState.COMPLETING and not _needs(node, job):
        bury(state, node, job, now_us)  # it goes on with its other nodes, its steps there do not
    elif job.state is not JobState.COMPLETING:
        lease.unreachable(state, node, job)
    elif job.end_state is JobState.NODE_FAIL:
        bury(state, node, job, now_us)
    elif any(is_live_on(step, node.name) for step in job_life.live_steps(state, job)):
        lease.watch(state, node, job, now_us)


def _needs(node: Node, job: Job) -> bool:
    """True when the job cannot do without that node."""
    has_script = node.name == job.batch_node and not job.request.kind
    return has_script or not job.request.no_kill


def _end_broken(state: ClusterState, node: Node, job: Job, now_us: int) -> None:
    """End a job as a whole that has lost one of its nodes."""
    if len(job.alloc) > 1 and _needs(node, job):
        end_for_node(state, node, job, now_us)


def lease_due(state: ClusterState, now_us: int, name: str, job_id: int) -> None:
    """What had a lease on that node has stopped itself by now, unless the node has been in contact since."""
    node, job = state.nodes.get(name), state.jobs.get(job_id)
    if node is None or job is None or job.job_id not in node.jobs or job.state is not JobState.COMPLETING:
        return
    due_us = lease.dead_at_us(node, job)
    if due_us > now_us:
        state.timers.set(due_us, Timer.LEASE, name, job_id)
    elif due_us:
        state.record(now_us, job, "lease", f"it has run out on {name}")
        bury(state, node, job, now_us)


def node_fenced(state: ClusterState, now_us: int, event: NodeFenced) -> None:
    """The fencing program has ended: its success is as good as a new boot id."""
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
        bury(state, node, job, now_us)


def set_down(state: ClusterState, node: Node, reason: str, uid: int, now_us: int) -> None:
    """Mark the node DOWN."""
    node.flags |= NodeFlag.DOWN
    node.reason, node.reason_uid, node.reason_at_us = reason, uid, now_us
    state.touch_node(node)


def end_for_node(state: ClusterState, node: Node, job: Job, now_us: int) -> None:
    """Begin the end of a job that runs on a node that is down: back to the queue, or NODE_FAIL."""
    if not _needs(node, job):
        return
    if job.state in (JobState.CONFIGURING, JobState.RUNNING, JobState.SUSPENDED):
        job.failed_node, job.reason_detail = node.name, ""
        job_life.terminate(state, job, job_life.after_node_loss(job), Reason.NODE_DOWN, now_us, "NODE FAILURE")


def bury(state: ClusterState, node: Node, job: Job, now_us: int) -> None:
    """Take the job's steps on that node as dead."""
    attempt = job.attempt
    for step in job_life.live_steps(state, job):
        if is_live_on(step, node.name) and job.attempt == attempt:
            step_life.lost(state, job, step, now_us, f"node {node.name} is down", node.name)
