"""Translates between protobuf and the core: messages in to events, effects and records out to messages. No decisions.

A launch that cannot be decoded, or exceeds a limit, becomes a `Launch` with `invalid`: the core refuses it.
"""

import functools
from itertools import chain

# Any: a number of the wire's enumeration, for which protobuf's type wants its names
from typing import Any

import msgspec

from nodedaemon.base import orders
from nodedaemon.base.lease import LAPSED
from nodedaemon.core import messages as core
from nodedaemon.core.environment import NodeShare, StepFacts, base_environment, users_own
from nodedaemon.core.machine import SCOPE_ALL, SCOPE_BATCH
from nodedaemon.core.steps import NO_LEASE, NodeStep, StepKey
from nodedaemon.launch import job_programs, pinning, wire_steps
from nodedaemon.launch.containment import contain, cpus_moved_to
from nodedaemon.launch.site import Site
from nodedaemon.stepd.externstep import STAGES
from penstock.jobfacts import known_of
from penstock.v1 import common_pb2, node_pb2
from penstock.values import taskends
from penstock.values.errors import BadValue
from penstock.values.filenames import FileNames, default_output, expand_pattern
from penstock.values.hostlist import HOSTLIST_NODES_MAX
from penstock.values.jobid import EXTERN_STEP
from penstock.values.stepframes import asking_key
from penstock.values.text import check_no_nul

#: The controller's limits, enforced again: the node does not rely on the controller's checks.
SCRIPT_BYTES_MAX = 4 * 1024 * 1024
ENVIRONMENT_BYTES_MAX = 1024 * 1024
#: The kernel's limit of one argument or variable (MAX_ARG_STRLEN), less the closing NUL.
WORD_BYTES_MAX = 128 * 1024 - 1
SIGNAL_MAX = 64
#: A note travels in one datagram with the step's key.
NOTE_BYTES_MAX = 3000
#: Until the controller sets it: Slurm's default KillWait.
KILL_WAIT_S = 30


class NodeFacts(msgspec.Struct, frozen=True):
    """This node's part of a job's environment and order."""

    node_name: str
    hostname: str
    cluster_file: str
    site: Site = msgspec.field(default_factory=Site)
    instance_id: str = ""  # of a machine in a cloud
    instance_type: str = ""
    extra: str = ""


def key_of(message: node_pb2.StepKey) -> StepKey:
    """Converts a wire key to the core's."""
    return StepKey(message.job_id, message.attempt, message.step_id)


def to_key(key: StepKey) -> node_pb2.StepKey:
    """Converts a core key to the wire's."""
    return node_pb2.StepKey(job_id=key.job_id, attempt=key.attempt, step_id=key.step_id)


#: Kinds of commands that this node's core does not interpret (gpu/agent.py does).
ORDERS = ("gpu_work", "clear_gpu", "return_gpus")


def command_event(link: int, message: node_pb2.Command, node: NodeFacts) -> core.NodeCommand | None:
    """Converts a command to an event; None for a kind that this version does not know."""
    head = (link, message.sequence, message.epoch)
    kind = message.WhichOneof("kind")
    if kind == "launch":
        return _launch(head, message.launch, node)
    if kind == "signal":
        order = message.signal
        scope = SCOPE_BATCH if order.batch_only and not order.full else SCOPE_ALL
        signum = order.signal if 0 < order.signal <= SIGNAL_MAX else 0
        return core.Signal(*head, key_of(order.key), signum, scope)
    if kind == "terminate":
        end = message.terminate
        return core.Terminate(*head, key_of(end.key), end.grace_ms * 1000, end.note)
    if kind == "suspend":
        stop = message.suspend
        cpus = cpus_moved_to(stop.cpu_ids, stop.job_cpu_ids, node.site)
        return core.SuspendSteps(*head, key_of(stop.key), stop.suspended, stop.grace_ms * 1000, cpus)
    if kind == "notify":
        return core.Notify(*head, key_of(message.notify.key), clipped_note(message.notify.text))
    if kind in ORDERS:
        key = key_of(message.return_gpus.key) if kind == "return_gpus" else StepKey(0, 0, 0)
        return core.Order(*head, key, message.SerializeToString())
    if kind == "reboot":
        return core.Reboot(*head, StepKey(0, 0, 0), message.reboot.reason)
    if kind == "forget":
        return core.Forget(*head, key_of(message.forget.key))
    return None


def _launch(head: tuple[int, int, int], message: node_pb2.LaunchStep, node: NodeFacts) -> core.Launch:
    key = key_of(message.key)
    try:
        terms = (message.lease_s, message.lease_grace_s)
        lease = terms if message.lease_s else NO_LEASE
        return core.Launch(*head, key, launch_order(message, node), lease=lease, span=message.span)
    except BadValue as error:
        return core.Launch(*head, key, None, invalid=str(error))


def launch_order(message: node_pb2.LaunchStep, node: NodeFacts) -> orders.LaunchOrder:
    """Builds stepd's order. Raises BadValue with the reason why this cannot be launched."""
    spec = _spec_of(message.spec)
    facts = step_facts(message, node)
    names = file_names(facts, node)
    settings = node.site.settings
    order = _batch_order(message, spec, facts, names)
    job_programs.fill(order, message, facts, settings)
    if message.HasField("step"):
        wire_steps.make_step(order, message, node.site, facts, names)
    order.io_key = message.io_key
    order.asking_key = asking_key(message.io_key)
    order.node_name = node.node_name
    order.account = message.facts.account
    order.partition = message.facts.partition
    _find_gpus(order, message, node.site)
    contain(order, message, node.site)
    pinning.bind_tasks(order, message, node.site)
    order.kill_wait_s = settings.kill_wait_s or KILL_WAIT_S
    return order


def _find_gpus(order: orders.LaunchOrder, message: node_pb2.LaunchStep, site: Site) -> None:
    """Adds the UUIDs of the step's GPUs. Raises BadValue when one of them is missing or broken."""
    found: dict[str, list[int]] = {}
    for part in message.allocation.gres:
        for place, uuid in enumerate(part.uuid):
            if uuid:
                found[uuid] = [part.units[place], part.of[place]] if part.units else [1, 1]
    if found:
        site.resolve(tuple(found))
        order.gpus = list(found)
        order.gpu_shares = list(found.values()) if any(part.units for part in message.allocation.gres) else []
        if site.mps_base and order.kind != "extern":
            order.mps_gpu = pinning.mps_gpu(message.allocation)


def file_names(facts: StepFacts, node: NodeFacts) -> FileNames:
    """The values of the symbols in names of output files."""
    return FileNames(
        job_id=facts.job_id,
        array_job_id=facts.array_job_id,
        array_task_id=facts.array_task_id,
        job_name=facts.job_name,
        user_name=facts.user_name,
        node_name=node.node_name,
        node_index=facts.node_index,
        step=facts.step_id,
        restart_count=facts.restart_count,
    )


def _batch_order(message: node_pb2.LaunchStep, spec: "_Spec", facts: StepFacts, names: FileNames) -> orders.LaunchOrder:
    """Builds the order of a batch script, to which the callers add the fields of other kinds of steps."""
    is_array = facts.array_task_id is not None
    return orders.LaunchOrder(
        key=str(key_of(message.key)),
        user_id=message.user_id,
        group_id=message.group_id,
        user_name=message.user_name,
        script=spec.script,
        argv=list(spec.argv),
        environment={} if message.HasField("step") else base_environment(spec.environment, facts, {}),
        work_dir=check_no_nul(message.work_dir, "work folder") or b"/",
        std_out=expand_pattern(message.std_out or default_output(is_array), names),
        std_err=expand_pattern(message.std_err, names) if message.std_err else b"",
        std_in=expand_pattern(message.std_in, names) if message.std_in else b"",
        make_folders=any(b"%" in path.rpartition(b"/")[0] for path in (message.std_out, message.std_err)),
        open_append=message.open_append,
        login_environment=message.login_environment,
        rlimits=dict(message.rlimits),
        umask=message.umask if message.HasField("umask") else 0o022,
        lease_s=message.lease_s,
        lease_grace_s=message.lease_grace_s,
    )


def clipped_note(text: str) -> str:
    """A note that fits into an order to a stepd."""
    return text.encode()[:NOTE_BYTES_MAX].decode("utf-8", "ignore")


class _Spec(msgspec.Struct, frozen=True):
    """A checked script with its arguments, and the submitted variables that the job keeps."""

    script: bytes
    argv: tuple[bytes, ...]
    environment: dict[bytes, bytes]


#: Specs up to this size are kept: the tasks of an array have one, and arrive one after the other.
KEPT_SPEC_BYTES_MAX = 64 * 1024


def _spec_of(message: common_pb2.JobSpec) -> _Spec:
    """Checks the script and its surroundings. Raises BadValue."""
    encoded = message.SerializeToString()
    return _kept_spec(encoded) if len(encoded) <= KEPT_SPEC_BYTES_MAX else _read_spec(message)


@functools.lru_cache(maxsize=16)
def _kept_spec(encoded: bytes) -> _Spec:
    return _read_spec(common_pb2.JobSpec.FromString(encoded))


def _read_spec(message: common_pb2.JobSpec) -> _Spec:
    _check_spec(message)
    return _Spec(message.script, tuple(message.argv), users_own(message.environment))


def _check_spec(spec: common_pb2.JobSpec) -> None:
    if len(spec.script) > SCRIPT_BYTES_MAX:
        raise BadValue(f"the script has {len(spec.script)} bytes, the limit is {SCRIPT_BYTES_MAX}")
    if sum(len(entry) for entry in spec.environment) > ENVIRONMENT_BYTES_MAX:
        raise BadValue(f"the environment is larger than {ENVIRONMENT_BYTES_MAX} bytes")
    for what, words in (("argument", spec.argv), ("environment variable", spec.environment)):
        for position, word in enumerate(words):
            if b"\0" in word:
                raise BadValue(f"{what} {position} contains a NUL byte at position {word.index(0)}")
            if len(word) > WORD_BYTES_MAX:
                raise BadValue(f"{what} {position} has {len(word)} bytes, the limit is {WORD_BYTES_MAX}")


def job_nodes(facts: node_pb2.JobFacts) -> tuple[NodeShare, ...]:
    """The job's allocation on each of its nodes. Raises BadValue."""
    if sum(run.count for run in facts.node_runs) > HOSTLIST_NODES_MAX:
        raise BadValue(f"the job has more than {HOSTLIST_NODES_MAX} nodes")
    runs = ((NodeShare("", run.cpus, 0, run.tasks),) * run.count for run in facts.node_runs)
    # a controller of version 0.1.0 lists each node by itself
    return tuple(chain.from_iterable(runs)) or tuple(wire_steps.share_of(part, "") for part in facts.nodes)


def step_facts(message: node_pb2.LaunchStep, node: NodeFacts) -> StepFacts:
    """The inputs of the SLURM_* variables."""
    facts = message.facts
    of_job = message.job_allocation if message.HasField("job_allocation") else message.allocation
    share = pinning.share_of(of_job, node.site, node.node_name, message.user_id)
    found = StepFacts(
        job_id=message.key.job_id,
        step_id=message.key.step_id,
        user_id=message.user_id,
        group_id=message.group_id,
        user_name=message.user_name,
        group_name=message.group_name,
        share=share,
        nodes=job_nodes(facts) or (share,),
        node_index=message.node_index,
        topology_addr=facts.topology_addr,
        topology_pattern=facts.topology_pattern,
        hostname=node.hostname,
        cluster_file=node.cluster_file,
        slurm_conf=node.site.slurm_conf if node.site.settings.slurm_conf else "",
        more=tuple(facts.more),
    )
    return msgspec.structs.replace(found, **known_of(facts) | {"node_list": facts.node_list or share.node})


def ack_message(effect: core.AckCommand) -> node_pb2.NodeMessage:
    """The answer to a command."""
    return node_pb2.NodeMessage(command_ack=node_pb2.CommandAck(sequence=effect.sequence, refused=effect.refused))


def report_message(effect: core.SendReport, boot_id: str, spool_id: str) -> node_pb2.NodeMessage:
    """A report as the wire's."""
    record = effect.report
    report = node_pb2.Report(boot_id=boot_id, sequence=effect.sequence, spool_id=spool_id)
    if isinstance(record, core.ForwardedReport):
        report.MergeFromString(record.body)
        return node_pb2.NodeMessage(report=report)
    if isinstance(record, core.Started):
        report.started.CopyFrom(node_pb2.StepStarted(key=to_key(record.key), at_us=record.at_us, pid=record.pid))
    elif isinstance(record, core.Noticed):
        report.notice.CopyFrom(_notice(record))
    else:
        report.exited.CopyFrom(_exited(record.end))
    return node_pb2.NodeMessage(report=report)


def _notice(record: core.Noticed) -> node_pb2.NodeNotice:
    notice = record.notice
    return node_pb2.NodeNotice(
        at_us=record.at_us,
        reason=notice.reason,
        drain=notice.drain,
        fail=notice.fail,
        clear=notice.clear,
        key=to_key(notice.key) if notice.key is not None else None,
        signal=notice.signal,
    )


def _exited(end: core.StepEnded) -> node_pb2.StepExited:
    groups, left_out = taskends.reported(end.tasks)
    return node_pb2.StepExited(
        key=to_key(end.key),
        start_at_us=end.start_at_us,
        end_at_us=end.end_at_us,
        exit=common_pb2.ExitStatus(code=end.exit_code, signal=end.exit_signal),
        failure=end.failure,
        out_of_memory=end.out_of_memory,
        untried=end.untried,
        rebooted=end.rebooted,
        lease_lapsed=end.failure == LAPSED,
        holder_stage=STAGES.get(end.exit_code, "") if end.key.step_id == EXTERN_STEP else "",
        usage=_usage(end),
        task_ends=[_task_ends(*group) for group in groups],
        task_ends_left_out=left_out,
    )


def _task_ends(code: int, signum: int, ranks: str) -> common_pb2.TaskEnds:
    return common_pb2.TaskEnds(ranks=ranks, exit=common_pb2.ExitStatus(code=code, signal=signum))


def _usage(end: core.StepEnded) -> common_pb2.Usage:
    largest = {metric[0]: metric[2] for metric in end.metrics}
    kinds = common_pb2.UsageMetric.Kind
    return common_pb2.Usage(
        user_cpu_us=end.user_cpu_us,
        system_cpu_us=end.system_cpu_us,
        max_rss_kb=max(end.max_rss_kb, largest.get(kinds.RSS_KB, 0)),
        max_vmsize_kb=largest.get(kinds.VMSIZE_KB, 0),
        disk_read_bytes=end.disk_read_bytes,
        disk_write_bytes=end.disk_write_bytes,
        metrics=[_metric(*metric) for metric in end.metrics],
        tasks=end.measured,
    )


def _metric(kind: int, total: int, high: int, high_task: int, low: int, low_task: int) -> common_pb2.UsageMetric:
    number: Any = kind
    return common_pb2.UsageMetric(kind=number, total=total, max=high, max_task=high_task, min=low, min_task=low_task)


def held_step(step: NodeStep, is_acknowledged: bool) -> node_pb2.HeldStep:
    """Returns a step for the registration. `is_acknowledged`: the controller has acknowledged its end."""
    state: Any = int(step.state)
    return node_pb2.HeldStep(
        key=to_key(step.key), state=state, epoch=step.epoch, suspended=step.suspended,
        lease_s=step.lease[0], lease_grace_s=step.lease[1], start_at_us=step.start_at_us, told=is_acknowledged,
    )  # fmt: skip
