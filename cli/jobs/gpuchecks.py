"""Checks the GPU options of a job against each other, before the request is sent, with Slurm's messages. The checks are
in one table, in Slurm's order; the first that fails gives the message. Each compares the numbers of GPUs of the job, a
node, a socket and a task, and of tasks and nodes. Numbers that were not given are 0.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from cli.base.options import OptionValues
from cli.base.run import CommandError
from cli.jobs.jobrequest import sockets_of
from cli.jobs.jobwords import devices

if TYPE_CHECKING:
    from penstock.values.gres import Gres

INVALID: Final = "Invalid generic resource (gres) specification"
MIXED: Final = "Invalid GRES specification (with and without type identification)"
ARBITRARY: Final = "With Arbitrary distribution you need to specify a nodelist or hostfile with the -w option"
TOO_FEW: Final = "Too few processes for the requested {plane,node} distribution"
GPU: Final = "gpu"
_NODES_MAX: Final = 1 << 31


class _GpuNumbers(NamedTuple):
    """The numbers of a request; 0 = not given."""

    gpus: int
    node: int
    socket: int
    task: int
    ntasks: int  # also derived from --ntasks-per-node and the nodes
    nodes_min: int
    nodes_max: int
    sockets: int
    values: OptionValues


def check_gpus(values: OptionValues) -> None:
    """Raises CommandError."""
    _check_distribution(values)
    kinds = [gres for key in _GRES_KEYS for gres in devices(values, key) if gres.name == GPU]
    if not (kinds or "cpus_per_gpu" in values or "mem_per_gpu" in values or "ntasks_per_gpu" in values):
        return
    said = _numbers(values)
    for wrong, text in _FIRST:
        if wrong(said):
            raise CommandError(f"{text(said)}\n{INVALID}")
    if len({bool(gres.type) for gres in kinds}) > 1:
        raise CommandError(MIXED)
    for wrong, text in _CHECKS:
        if wrong(said):
            raise CommandError(f"{text(said)}\n{INVALID}")


def _check_distribution(values: OptionValues) -> None:
    """Checks --distribution: arbitrary needs a list of hosts, and plane a task for each node."""
    how = values.text("distribution").lower().split(",")[0].split(":")[0]
    if how == "arbitrary" and "nodelist" not in values:
        raise CommandError(ARBITRARY)
    if how.startswith("plane="):
        least = values.numbers("nodes", 0)[0]
        if least and _ntasks(values) <= (least - 1) * int(how.removeprefix("plane=")):
            raise CommandError(TOO_FEW)


_GRES_KEYS: Final = ("gres", "gpus", "gpus_per_node", "gpus_per_socket", "gpus_per_task")


def _count(gres: "Iterable[Gres]") -> int:
    return sum(one.count for one in gres if one.name == GPU)


def _ntasks(values: OptionValues) -> int:
    least = values.numbers("nodes", 0)[0]
    return values.number("ntasks") or max(least, 1) * values.number("ntasks_per_node", 1)


def _numbers(values: OptionValues) -> _GpuNumbers:
    least, most = values.numbers("nodes", 0, 0)
    ntasks = _ntasks(values)
    most = most or _NODES_MAX
    return _GpuNumbers(
        gpus=_count(devices(values, "gpus")),
        node=_count(devices(values, "gpus_per_node")) or _count(devices(values, "gres")),
        socket=_count(devices(values, "gpus_per_socket")),
        task=_count(devices(values, "gpus_per_task")),
        ntasks=ntasks,
        nodes_min=max(1, least),
        nodes_max=min(most, ntasks) if "ntasks" in values else most,
        sockets=sockets_of(values),
        values=values,
    )


_Check = tuple[Callable[[_GpuNumbers], bool], Callable[[_GpuNumbers], str]]


def _is(text: str) -> Callable[[_GpuNumbers], str]:
    return lambda said: text


_FIRST: Final[tuple[_Check, ...]] = (
    (lambda s: "cpus_per_gpu" in s.values and "cpus_per_task" in s.values,
     _is("--cpus-per-gpu is mutually exclusive with --cpus-per-task")),
    (lambda s: bool(s.socket) and not s.sockets, _is("--gpus-per-socket option requires --sockets-per-node specification")),
    (lambda s: bool(s.task) and not (s.gpus or s.node or "ntasks" in s.values or "ntasks_per_node" in s.values or _fixed(s)),
     _is("Failed to validate job spec. --gpus-per-task used without either --gpus or -n/--ntasks is not allowed.")),
)  # fmt: skip
_CHECKS: Final[tuple[_Check, ...]] = (
    (lambda s: "mem_per_gpu" in s.values and not _any(s),
     lambda s: f"Requested mem_per_tres=gres:gpu:{s.values.number('mem_per_gpu')} but did not request any GPU."),
    (lambda s: "ntasks_per_gpu" in s.values and not _any(s) and not ("ntasks" in s.values or "nodes" in s.values),
     _is("gres_job_state_validate: --ntasks-per-tres needs either a GRES GPU specification or a node/ntask specification")),
    (lambda s: bool(s.gpus and s.node and s.gpus < s.node) or bool(s.node and s.socket and s.node < s.socket),
     _is("Failed to ensure --gpus >= --gres=gpu/--gpus-per-node >= --gpus-per-socket")),
    (lambda s: bool(s.gpus and s.task and s.gpus < s.task) or bool(s.node and s.task and s.node < s.task),
     _is("Failed to ensure --gpus >= --gpus-per-task")),
    (lambda s: bool(s.gpus and s.node and s.gpus % s.node),
     _is("Failed to validate job spec, --gpus is not multiple of --gres=gpu/--gpus-per-node")),
    (lambda s: bool(s.gpus and s.node and not s.nodes_min <= s.gpus // s.node <= s.nodes_max),
     lambda s: f"Failed to validate job spec. Based on --gpu and --gres=gpu/--gpus-per-node required nodes ({s.gpus // s.node}) "
               f"doesn't fall between min_nodes ({s.nodes_min}) and max_nodes ({s.nodes_max}) boundaries."),
    (lambda s: bool(s.node and s.socket and s.node != s.socket * s.sockets),
     _is("Failed to validate job spec. Based on --gres=gpu/--gpus-per-node and --gpus-per-socket required number of sockets "
         "differ from --sockets-per-node.")),
    (lambda s: bool(s.gpus and s.task and s.gpus % s.task),
     _is("Failed to validate job spec, --gpus not multiple of --gpus-per-task")),
    (lambda s: bool(s.gpus and s.task) and s.ntasks != s.gpus // s.task and _gives_tasks(s),
     _is("Failed to validate job spec. Based on --gpus and --gpus-per-task number of requested tasks differ from -n/--ntasks.")),
    (lambda s: bool(s.gpus) and s.gpus < s.nodes_min, _is("Failed to validate job spec, --gpus < -N")),
)  # fmt: skip


def _fixed(said: _GpuNumbers) -> bool:
    """The number of nodes if it is fixed and each has a task."""
    return "nodes" in said.values and said.nodes_min == said.nodes_max


def _any(said: _GpuNumbers) -> bool:
    return bool(said.gpus or said.node or said.socket or said.task)


def _gives_tasks(said: _GpuNumbers) -> bool:
    return any(key in said.values for key in ("ntasks", "ntasks_per_node", "nodes"))
