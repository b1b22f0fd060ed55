"""srun over several components of a heterogeneous job: selects the components, and builds the request of each part of
the step.

`--het-group=0,1` runs one command in each of these components; `srun -n1 a : -n4 b` runs one command in each, the first
in component 0. Outside of a job, the parts separated by `:` define the components of the job. In a job that is not
heterogeneous each part is a step of its own, on nodes of its own if the job has enough of them.

Each component gets a step with the same number, and numbers its tasks after those of the components before it:
SLURM_PROCID is the rank among all. So the number of tasks must be known before the first step is created: the default
is one per node.

An MPI library starts within one component: to all of them it would be several worlds, so `--mpi` is refused.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cli.base.environment import number_of
from cli.base.options import Command, OptionValues
from cli.base.run import CommandError
from cli.jobs.components import split_words
from cli.steps.request import StepValues, read_values
from penstock.v1.steps_pb2 import StepSpec

PART = "_HET_GROUP_"
#: Variables that describe the leader if no component is named.
OF_THE_LEADER = (
    "SLURM_JOBID", "SLURM_NNODES", "SLURM_NPROCS", "SLURM_NODELIST", "SLURM_NTASKS", "SLURM_NTASKS_PER_NODE",
    "SLURM_CPUS_PER_TASK", "SLURM_MEM_PER_NODE", "SLURM_MEM_PER_CPU", "SLURM_MEM_PER_GPU", "SLURM_GPUS",
    "SLURM_GPUS_PER_NODE", "SLURM_GPUS_PER_TASK", "SLURM_CPUS_PER_GPU", "SLURM_NTASKS_PER_GPU", "SLURM_DISTRIBUTION",
)  # fmt: skip
#: Options that name hosts, or count tasks by themselves.
NOT_OVER_SEVERAL = ("pty", "bcast", "multi_prog")

#: Options that a part takes from those before it unless it has its own.
FOR_LATER_PARTS = ("label", "output", "error", "input", "open_mode", "unbuffered", "verbose", "quiet")


class HetPiece(NamedTuple):
    """One component's part of the step."""

    values: StepValues
    command: list[str]
    argv: list[str]
    group: int
    job_id: int  # 0 = no job yet


def environment_of(env: Mapping[str, str], group: int) -> dict[str, str]:
    """The variables that a plain job of this component's kind would have."""
    suffix = f"{PART}{group}"
    others = dict.fromkeys(name.partition(PART)[0] for name in env if PART in name)
    plain = {name: text for name, text in env.items() if name not in others and name not in OF_THE_LEADER}
    return plain | {name.removesuffix(suffix): text for name, text in env.items() if name.endswith(suffix)}


def named_job(command: Command, argv: Sequence[str], env: Mapping[str, str]) -> int:
    """The job of --jobid, if it is not the one that the environment describes; otherwise 0."""
    said, _ = read_values(command, split_words(argv)[0], {})
    job_id = said.all.number("jobid")
    return 0 if str(job_id) == env.get("SLURM_JOB_ID") else job_id


def environment_from_outside(env: Mapping[str, str], job_id: int, of_job: Mapping[str, str]) -> dict[str, str]:
    """The environment for --jobid outside of the job: of the job's variables those that say what its components are."""
    names = (f"SLURM_JOB_ID{PART}", f"SLURM_JOB_NUM_NODES{PART}", "SLURM_HET_SIZE")
    kept = {
        name: text for name, text in env.items() if not (PART in name or name in (*OF_THE_LEADER, "SLURM_HET_SIZE"))
    }
    found = {name: text for name, text in of_job.items() if name.startswith(names)}
    return {**kept, **found, "SLURM_JOB_ID": str(job_id), "SLURM_JOB_NUM_NODES": of_job.get("SLURM_JOB_NUM_NODES", "1")}


def pieces_of(command: Command, argv: Sequence[str], env: Mapping[str, str]) -> list[HetPiece]:
    """The parts of the step, in the order of the components."""
    found: dict[int, HetPiece] = {}
    parts = split_words(argv)
    before = OptionValues()  # options of earlier parts that hold for later ones
    for number, words in enumerate(parts):
        said, _ = read_values(command, words, {})
        inside = _parts_of_plain_job if len(parts) > 1 and "het_group" not in said.all else _inside
        for group in said.all.numbers("het_group", number):
            if group in found:
                raise CommandError(f"het group {group} is named twice")
            of_group = inside(env, group)
            values, rest = read_values(command, words, of_group)
            values.all.update({key: text for key, text in before.items() if key not in values.own})
            found[group] = HetPiece(values, rest, words, group, number_of(of_group, "SLURM_JOB_ID"))
        before |= {key: text for key, text in said.own.items() if key in FOR_LATER_PARTS}
    pieces = [found[group] for group in sorted(found)]
    last: list[str] = next((piece.command for piece in reversed(pieces) if piece.command), [])
    if not last:
        raise CommandError("No command given to execute.")
    if len(pieces) > 1:
        _check(pieces)
    return [piece if piece.command else piece._replace(command=last) for piece in pieces]


def _inside(env: Mapping[str, str], group: int) -> Mapping[str, str]:
    if "SLURM_JOB_ID" not in env:
        return env
    size = number_of(env, "SLURM_HET_SIZE", 1)
    if group >= size:
        raise CommandError(
            f"Attempt to run a job step with het group value of {group}, but the job allocation has maximum value of "
            f"{size - 1}"
        )
    return environment_of(env, group) if size > 1 else env


def _parts_of_plain_job(env: Mapping[str, str], group: int) -> Mapping[str, str]:
    """Of a job that is not heterogeneous: without the variables that number nodes and tasks of the whole job."""
    if "SLURM_JOB_ID" not in env or number_of(env, "SLURM_HET_SIZE", 1) > 1:
        return _inside(env, group)
    dropped = (*OF_THE_LEADER, "SLURM_JOB_NUM_NODES")
    return {name: text for name, text in env.items() if name not in dropped}


def _check(pieces: list[HetPiece]) -> None:
    for piece in pieces:
        for key in NOT_OVER_SEVERAL:
            if key in piece.values.all:
                raise CommandError(f"--{key.replace('_', '-')} cannot be used with several components")
        if piece.values.own.text("mpi", "none") != "none":
            raise CommandError("--mpi: MPI over several components is not supported yet by Penstock")


def settle_nodes(specs: Sequence[StepSpec], nodes: Sequence[Sequence[int]], *, is_own: bool) -> None:
    """Counts the nodes of each part that names no number of them. `nodes`: for each part, the CPUs that its job has on
    each of its nodes. `is_own`: srun has created the components, and a part uses all nodes of its own.
    """
    taken = 0  # nodes of the job that earlier parts use
    for spec, cpus in zip(specs, nodes, strict=True):
        if not spec.nodes_min:
            spec.nodes_min = len(cpus) if is_own else _fewest(spec, cpus[taken:]) or _fewest(spec, cpus) or 1
        taken += spec.nodes_min


def _fewest(spec: StepSpec, cpus: Sequence[int]) -> int:
    """The fewest of these nodes, in their order, that have the CPUs of the part's tasks; 0 = all have too few."""
    missing = spec.ntasks or 1
    for number, has in enumerate(cpus, 1):
        room = missing if spec.overcommit else has // (spec.cpus_per_task or 1)
        missing -= min(room, spec.ntasks_per_node or room)
        if missing <= 0:
            return number
    return 0


def number_tasks(specs: Sequence[StepSpec]) -> None:
    """Numbers the tasks of each part among all. The parts have their numbers of nodes."""
    if len(specs) < 2:
        return
    for spec in specs:
        spec.ntasks = spec.ntasks or spec.nodes_min * max(1, spec.ntasks_per_node)
        spec.mpi = "none"
    tasks = nodes = 0
    for spec in specs:
        spec.rank_offset = tasks
        spec.node_offset = nodes
        tasks, nodes = tasks + spec.ntasks, nodes + spec.nodes_min
    for spec in specs:
        spec.het_ntasks = tasks
        spec.het_nodes = nodes
