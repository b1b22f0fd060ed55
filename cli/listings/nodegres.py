"""Devices of a node as Slurm's commands print them, and its GPUs one by one, an addition to Slurm's.

Gres= has the configured devices, drained GPUs included; GresUsed= those that jobs hold; GresDrain= the GPUs that no job
gets. The numbers after IDX are those of nvidia-smi and CUDA (in PCI order). Lines about one GPU are Penstock's: their
keys differ from Slurm's, so that a program that looks for `State=` or `Reason=` of a node finds the node's. Everything
here is a pure function of the message.
"""

from collections.abc import Callable, Iterable

from penstock.v1.common_pb2 import GresCount, GresIndices, JobRequest, NodeAllocation
from penstock.v1.controller_pb2 import GpuInfo, NodeInfo
from penstock.v1.steps_pb2 import StepInfo
from penstock.values.counts import format_ranges
from penstock.values.gpustates import CLOSED_STATES

CLOSED = frozenset(state.name for state in CLOSED_STATES)


def gres(node: NodeInfo) -> str:
    """`gpu:a100:2`."""
    return ",".join(":".join(filter(None, (g.name, g.type, str(g.count)))) for g in node.gres) or "(null)"


def gres_used(node: NodeInfo) -> str:
    """`gpu:a100:1(IDX:0)` for each kind that the node has, `gpu:a100:0(IDX:N/A)` for an unused one."""
    used = {(g.name, g.type): g for g in node.gres_used}
    kinds = dict.fromkeys([*((g.name, g.type) for g in node.gres), *used])
    unused = {kind: GresIndices(name=kind[0], type=kind[1]) for kind in kinds}
    return ",".join(held_text(used.get(kind, unused[kind])) for kind in kinds) or "gpu:0"


def held_text(held: GresIndices, of_job: bool = False) -> str:
    """`gpu:a100:2(IDX:0-1)`; for shares the number in use on each GPU, `shard:3(2/4,1/4)`, and a job's GPU too."""
    inside = [f"{count}/{of}" for count, of in zip(held.units, held.of, strict=True)]
    if of_job or not inside:
        inside.append(f"IDX:{format_ranges(sorted(held.index)) or 'N/A'}")
    head = ":".join(filter(None, (held.name, held.type)))
    return f"{head}:{gres_held(held)}({','.join(inside)})"


def gres_held(held: GresIndices) -> int:
    """The allocated amount: devices, or shares of GPUs."""
    return sum(held.units) if held.units else len(held.index)


def job_gres(place: NodeAllocation) -> str:
    """The GRES of a job on one node: `gpu:h200:1(IDX:0)`."""
    return ",".join(held_text(held, of_job=True) for held in place.gres)


def gres_drain(node: NodeInfo) -> str:
    """`gpu:h200:1(IDX:3)`: GPUs that no job gets; N/A = none, as in Slurm."""
    types = [one.type for one in node.gres if one.name == "gpu" for _ in range(one.count)]
    out_of_use = {gpu.uuid for gpu in node.gpus if is_closed(gpu)}
    closed = [gpu for gpu in node.gpus if gpu.slot >= 0 and not out_of_use.isdisjoint((gpu.uuid, gpu.parent_uuid))]
    number = _number(node.gpus)
    found: dict[str, list[int]] = {}
    for gpu in closed:
        found.setdefault(types[gpu.slot] if gpu.slot < len(types) else gpu.type, []).append(number(gpu))
    held = (GresIndices(name="gpu", type=type_, index=numbers) for type_, numbers in found.items())
    return ",".join(map(held_text, held)) or "N/A"


def is_closed(gpu: GpuInfo) -> bool:
    """Whether the GPU is closed to jobs."""
    return bool(gpu.work) or (gpu.state in CLOSED and not gpu.many_only)


def _number(gpus: Iterable[GpuInfo]) -> Callable[[GpuInfo], int]:
    """The IDX of a GPU: its index if all allocatable GPUs have distinct ones, else its place."""
    given = [gpu for gpu in gpus if gpu.slot >= 0]
    by_index = len({gpu.index for gpu in given}) == len(given) and not any(gpu.parent_uuid for gpu in given)
    return lambda gpu: gpu.index if by_index else gpu.slot


def index_of(gpu: GpuInfo) -> str:
    """`3`; for a MIG instance the GPU and the instance's place in the GRES count: `0:3`."""
    if not gpu.parent_uuid:
        return str(gpu.index)
    return f"{gpu.index}:{gpu.slot if gpu.slot >= 0 else '-'}"


def health(gpu: GpuInfo, is_divided: bool = False) -> str:
    """`HEALTHY`, followed by flags: SINGLE: jobs with one GPU can still use it; CHECK, RESET, DIVIDE: in progress;
    WAITS: one of these is due; NOT_GIVEN: it exists and the configuration does not list it.
    """
    words = [gpu.state]
    words += ["SINGLE"] if gpu.many_only else []
    words += [gpu.work.upper()] if gpu.work else []
    words += ["NOT_GIVEN"] if gpu.slot < 0 and gpu.state == "HEALTHY" and not is_divided else []
    return "+".join(words)


def xids(gpu: GpuInfo) -> str:
    """`13(x4),63`: the XIDs that the driver has reported for it, the newest first."""
    return ",".join(f"{one.xid}(x{one.times})" if one.times > 1 else str(one.xid) for one in gpu.xids)


def divided(gpus: Iterable[GpuInfo]) -> frozenset[str]:
    """The UUIDs of GPUs that are divided into MIG instances."""
    return frozenset(gpu.parent_uuid for gpu in gpus if gpu.parent_uuid)


def gpu_lines(node: NodeInfo, date: Callable[[int], str]) -> list[str]:
    """The lines of `scontrol show node` for each GPU, after those for all of them."""
    has_gpus = bool(node.gpus) or any(one.name == "gpu" for one in node.gres)
    pairs = (
        ("GpuDriver", node.gpu_driver),
        ("CudaVersion", node.cuda_version),
        ("NvmlVersion", node.nvml_version),
        ("GpuConstraint", node.gpu_constraint if has_gpus else ""),
        ("GpuWhy", node.gpu_why if has_gpus else ""),
    )
    head = " ".join(f"{key}={text}" for key, text in pairs if text)
    parents = divided(node.gpus)
    return ([head] if head else []) + [_gpu_line(gpu, gpu.uuid in parents, date) for gpu in node.gpus]


def _gpu_line(gpu: GpuInfo, is_divided: bool, date: Callable[[int], str]) -> str:
    pairs = (
        ("Mig" if gpu.parent_uuid else "Gpu", index_of(gpu)),
        ("UUID", gpu.uuid),
        ("Type", gpu.type or "(null)"),
        ("Memory", str(gpu.memory_mb or "N/A")),
        ("Health", health(gpu, is_divided)),
        ("Jobs", ",".join(map(str, gpu.job_ids)) or "(null)"),
        ("Xids", xids(gpu)),
        ("Why", f"{gpu.reason} [{gpu.reason_user or 'node'}@{date(gpu.since_us)}]" if gpu.reason else ""),
    )
    return " ".join(f"{key}={text}" for key, text in pairs if text)


def step_tres(step: StepInfo) -> dict[str, str]:
    """What a step requested of each TRES, by Slurm's names, in its order: only what was requested."""
    spec = step.spec
    of_step = _counts(spec.gres_per_step)
    found = {
        "TresBind": f"gres/gpu:{spec.gpu_bind}" if spec.gpu_bind else "",
        "TresFreq": f"gpu:{spec.gpu_freq}" if spec.gpu_freq else "",
        "TresPerStep": f"cpu:{step.cpus},{of_step}" if of_step else "",
        "TresPerNode": _counts(spec.gres_per_node),
        "TresPerSocket": _counts(spec.gres_per_socket),
        "TresPerTask": _counts(spec.gres_per_task, "="),
    }
    return {name: text for name, text in found.items() if text}


def _counts(counts: Iterable[GresCount], mark: str = ":") -> str:
    return ",".join(":".join(filter(None, (f"gres/{g.name}", g.type))) + f"{mark}{g.count}" for g in counts)


def tres_per_task(request: JobRequest) -> str:
    """The TRES requested for each task: `cpu=2,gres/gpu:a100=1`; "" = none."""
    cpus = [f"cpu={request.cpus_per_task}"] if request.cpus_per_task > 1 else []  # 1 need not have been requested
    return ",".join(filter(None, (*cpus, _counts(request.gres_per_task, "="))))
