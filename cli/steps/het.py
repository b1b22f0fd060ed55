"""srun over several components of a heterogeneous job: which there are, and what each part of the step asks for.

`--het-group=0,1` runs one command in each of these components; `srun -n1 a : -n4 b` runs a command of its own in each,
the first in component 0. Outside of a job, the parts after `:` are what the components of the job are.

Each component gets a step with the same number, and counts its tasks on from those before it: SLURM_PROCID is the rank
among all. So the number of tasks must be known before the first step is made: what was not said is one a node.

An MPI library starts within one component: to all of them it would be several worlds, so `--mpi` is refused.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cli.components import split_words
from cli.options import Command
from cli.run import CommandError
from cli.steps.request import Values, read_values
from penstock.v1.steps_pb2 import StepSpec

PART = "_HET_GROUP_"
#: What speaks of the leader where no component is named.
OF_THE_LEADER = (
    "SLURM_JOBID", "SLURM_NNODES", "SLURM_NPROCS", "SLURM_NODELIST", "SLURM_NTASKS", "SLURM_NTASKS_PER_NODE",
    "SLURM_CPUS_PER_TASK", "SLURM_MEM_PER_NODE", "SLURM_MEM_PER_CPU", "SLURM_MEM_PER_GPU", "SLURM_GPUS",
    "SLURM_GPUS_PER_NODE", "SLURM_GPUS_PER_TASK", "SLURM_CPUS_PER_GPU", "SLURM_NTASKS_PER_GPU", "SLURM_DISTRIBUTION",
)  # fmt: skip
#: Options that mean one place, or count tasks by themselves.
NOT_OVER_SEVERAL = ("pty", "bcast", "multi_prog")


class Piece(NamedTuple):
    """One component's part of the step."""

    values: Values
    command: list[str]
    argv: list[str]
    group: int
    job_id: int  # 0 = there is no job yet


def environment_of(env: Mapping[str, str], group: int) -> dict[str, str]:
    """The variables that a plain job of this component's kind would have."""
    suffix = f"{PART}{group}"
    others = dict.fromkeys(name.partition(PART)[0] for name in env if PART in name)
    plain = {name: text for name, text in env.items() if name not in others and name not in OF_THE_LEADER}
    return plain | {name.removesuffix(suffix): text for name, text in env.items() if name.endswith(suffix)}


def pieces_of(command: Command, argv: Sequence[str], env: Mapping[str, str]) -> list[Piece]:
    """The parts of the step, in the order of the components."""
    found: dict[int, Piece] = {}
    for number, words in enumerate(split_words(argv)):
        said, _ = read_values(command, words, {})
        for group in said.get("het_group", (number,)):
            if group in found:
                raise CommandError(f"het group {group} is named twice")
            values, rest = read_values(command, words, _inside(env, group))
            found[group] = Piece(values, rest, words, group, int(values.get("jobid") or 0))
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
    size = int(env.get("SLURM_HET_SIZE") or 1)
    if group >= size:
        raise CommandError(
            f"Attempt to run a job step with het group value of {group}, but the job allocation has maximum value of "
            f"{size - 1}"
        )
    return environment_of(env, group) if size > 1 else env


def _check(pieces: list[Piece]) -> None:
    for piece in pieces:
        for key in NOT_OVER_SEVERAL:
            if key in piece.values.all:
                raise CommandError(f"--{key.replace('_', '-')} cannot be used with several components")
        if piece.values.own.get("mpi", "none") != "none":
            raise CommandError("--mpi: MPI over several components is not supported yet by Penstock")


def number_tasks(specs: Sequence[StepSpec]) -> None:
    """Give each part its place among all."""
    if len(specs) < 2:
        return
    for spec in specs:
        spec.nodes_min = spec.nodes_min or 1
        spec.ntasks = spec.ntasks or spec.nodes_min * max(1, spec.ntasks_per_node)
        spec.mpi = "none"
    tasks = nodes = 0
    for spec in specs:
        spec.rank_offset, spec.node_offset = tasks, nodes
        tasks, nodes = tasks + spec.ntasks, nodes + spec.nodes_min
    for spec in specs:
        spec.het_ntasks, spec.het_nodes = tasks, nodes
