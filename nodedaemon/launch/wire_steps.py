"""Translates a step of srun on this node from the wire's message to stepd's order: its tasks, their resources, their
streams.

The plan lists the ranks of this node; everything else of a task follows from the spec, its rank and its place. This
module does not decide resources: the plan has the allocation, and binding.py binds tasks to cpus.
"""

from collections.abc import Sequence
from dataclasses import replace

from nodedaemon.base import orders
from nodedaemon.core.environment import NodeShare, StepFacts
from nodedaemon.core.stepenv import StepShape, step_task_environment, task_environments
from nodedaemon.launch import pinning
from nodedaemon.launch.site import Site
from penstock.v1 import common_pb2, node_pb2, steps_pb2
from penstock.values.errors import BadValue
from penstock.values.filenames import FileNames, expand_pattern
from penstock.values.numbers import is_digits
from penstock.values.text import check_no_nul, shown

#: Slurm's own limit of MaxTasksPerNode.
TASKS_MAX = 65_533
#: Ranks that the lines of --multi-prog may list together, and digits of one range.
RANKS_MAX = 1_000_000
RANK_WORD_MAX = 64
#: Window size for a client that did not send its own.
ROWS, COLUMNS = 24, 80
UMASK = 0o022
MPI_NONE = "none"


def share_of(message: common_pb2.NodeAllocation, node_name: str) -> NodeShare:
    """The allocation on a node, without its GPUs (pinning.py)."""
    return NodeShare(message.node or node_name, message.cpus, message.mem_mb, message.tasks)


def make_step(
    order: orders.LaunchOrder,
    message: node_pb2.LaunchStep,
    site: Site,
    facts: StepFacts,
    names: FileNames,
) -> None:
    """Completes an order for a step of srun. Raises BadValue."""
    spec, plan = message.step.spec, message.step.plan
    shape = _shape(message, facts, site)
    if not spec.multi_prog and not message.spec.argv:
        raise BadValue("the step names no program")
    order.kind = "step"
    order.script = b""
    order.argv = list(message.spec.argv)
    order.environment = step_task_environment(message.spec.environment, facts, shape)
    order.work_dir = check_no_nul(spec.work_dir or message.work_dir, "work folder") or b"/"
    order.std_in = b""
    order.std_out = b""
    order.std_err = b""
    order.open_append = spec.open_append
    order.rlimits = dict(spec.rlimits or message.rlimits)
    order.umask = shape.umask
    order.pty_rows, order.pty_columns = shape.pty
    order.stdin_to = spec.stdin_to
    order.stdin_task = spec.stdin_task
    order.node_index = shape.node_index
    order.nodes = len(plan.tasks)
    order.ntasks = shape.ntasks
    order.kill_on_bad_exit = spec.kill_on_bad_exit
    order.line_buffered = spec.line_buffered
    order.mpi = spec.mpi or site.settings.mpi_default or MPI_NONE
    order.mpi_facts = {
        "node_list": shape.node_list,
        "nodes": ",".join(plan.nodes),
        "tasks_per_node": ",".join(map(str, plan.tasks)),
    }
    order.tasks = _tasks(message, shape, names)


def _shape(message: node_pb2.LaunchStep, facts: StepFacts, site: Site) -> StepShape:
    spec = message.step.spec
    plan = message.step.plan
    index = message.step.node_index
    if index >= len(plan.ranks) or index >= len(plan.tasks):
        raise BadValue(f"the step's plan has {len(plan.ranks)} nodes, this one is said to be number {index}")
    ranks = tuple(plan.ranks[index].rank)
    if not 1 <= len(ranks) <= TASKS_MAX:
        raise BadValue(f"the step has {len(ranks)} tasks on this node, it must have 1 to {TASKS_MAX}")
    return StepShape(
        step_id=message.key.step_id,
        share=pinning.share_of(message.allocation, site, facts.share.node, message.user_id),
        node_list=plan.node_list,
        tasks_per_node=tuple(plan.tasks),
        node_index=index,
        ranks=ranks,
        ntasks=plan.ntasks or sum(plan.tasks),
        cpus_per_task=spec.cpus_per_task,
        ntasks_per_node=spec.ntasks_per_node,
        ports=tuple(plan.ports),
        launch_address=spec.launch_node.decode("ascii", "replace"),
        distribution=spec.distribution,
        cpu_bind=spec.cpu_bind,
        mem_bind=spec.mem_bind,
        umask=spec.umask if spec.HasField("umask") else message.umask if message.HasField("umask") else UMASK,
        threads_per_core=spec.threads_per_core,
        overcommit=spec.overcommit,
        pty=(spec.rows or ROWS, spec.columns or COLUMNS) if spec.pty else (0, 0),
        rank_offset=spec.rank_offset,
        het_ntasks=spec.het_ntasks,
        node_offset=spec.node_offset,
        het_nodes=spec.het_nodes,
        preserve_env=spec.preserve_env,
    )


def _tasks(message: node_pb2.LaunchStep, shape: StepShape, names: FileNames) -> list[orders.TaskOrder]:
    spec = message.step.spec
    environments = task_environments(shape)
    programs = _programs(spec.multi_prog, shape)
    found = []
    for local, rank in enumerate(shape.ranks):
        task = orders.TaskOrder(rank, environment=environments[local])
        if spec.multi_prog:
            task.argv = _program(programs, rank)
        of_task = replace(names, node_index=shape.node_index, task_id=rank)
        task.std_in = expand_pattern(spec.std_in, of_task) if spec.std_in else b""
        task.std_out = expand_pattern(spec.std_out, of_task) if spec.std_out else b""
        task.std_err = expand_pattern(spec.std_err, of_task) if spec.std_err else b""
        found.append(task)
    return found


def parse_ranks(text: str, ntasks: int) -> list[int]:
    """The ranks of a line of a --multi-prog file: `0,4-7`, or `*` for all."""
    if text.strip() == "*":
        return list(range(ntasks))
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not is_digits(first) or (dash and not is_digits(last)) or len(part) > RANK_WORD_MAX:
            raise BadValue(f"{shown(text)}: not a list of task ranks like 0,4-7")
        found += range(int(first), min(int(last) if dash else int(first), ntasks - 1) + 1)
        if len(found) > RANKS_MAX:
            raise BadValue(f"--multi-prog: {shown(text)}: more than {RANKS_MAX} ranks")
    return found


def _programs(
    commands: Sequence[steps_pb2.RankCommand], shape: StepShape
) -> "dict[int, tuple[steps_pb2.RankCommand, int]]":
    """By rank of this node: the first line that lists it, and its place there. `*` matches ranks of no other line."""
    here = set(shape.ranks)
    found = {}
    seen = 0
    for command in sorted(commands, key=lambda command: command.ranks.strip() == "*"):
        ranks = parse_ranks(command.ranks, shape.ntasks)
        seen += len(ranks)
        if seen > RANKS_MAX:  # a line for each task stays far below it; this protects the whole node
            raise BadValue(f"--multi-prog: its lines name more than {RANKS_MAX} ranks")
        for offset, rank in enumerate(ranks):
            if rank in here and rank not in found:
                found[rank] = (command, offset)
    return found


def _program(programs: "dict[int, tuple[steps_pb2.RankCommand, int]]", rank: int) -> list[bytes]:
    """A task's program: %t is its rank, %o its place among the ranks of its line."""
    if rank not in programs:
        raise BadValue(f"--multi-prog: no line says what task {rank} runs")
    command, offset = programs[rank]
    return [word.replace(b"%t", b"%d" % rank).replace(b"%o", b"%d" % offset) for word in command.argv]
