"""Computes how efficiently jobs used their allocations, as figures and as advice; seff.py shows them.

Rules
    - CPU: time of all steps, of the cores' time from start to end. Memory: the peak of the steps that ran at the same
      time (a sum of the tasks' peaks), of the allocated memory.
    - GPUs: utilisation is the share of time in which a GPU was busy (NVML's figure, sampled), over all GPUs and all of
      the job's time. Time without samples counts as idle.
    - Several jobs (an array) are shown as a whole: sums, and of memory the worst job.
    - Advice only for a substantial waste, and only about jobs that ran for a while (ADVICE_AFTER_S).
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from cli.listings.sacct_fields import (
    RecordRow,
    RecordView,
    cpu_us,
    elapsed_s,
    end_us,
    job_energy_j,
    start_us,
    suspended_us,
)
from cli.listings.stepusage import K, Metric, recorded
from penstock.v1.accounting_pb2 import JobRecord, StepRecord
from penstock.values.duration import format_duration
from penstock.values.tres import parse_tres

#: Shorter jobs give no advice for the next.
ADVICE_AFTER_S = 60
#: Usage below these shares of the allocation (percent) gives advice.
CPU_LOW = 50
MEMORY_LOW = 50
TIME_LOW = 20
GPU_LOW = 30
GPU_MEMORY_LOW = 25
#: Smaller amounts give no advice.
MEMORY_SPARED_KB = 1024 * 1024
TIME_SPARED_S = 3600
#: The margin that is added to the usage in advice.
MEMORY_ROOM_PERCENT = 20

_SIZES = ("KB", "MB", "GB", "TB", "PB")
#: The samples by step and kind.
_Kinds = dict[int, dict[int, Metric]]


class Use(NamedTuple):
    """The usage of one job or several. Sizes in KB, times in seconds or microseconds; None = not known."""

    jobs: int = 0
    nodes: int = 0
    cores: int = 0
    tasks: int = 1
    longest_s: int = 0
    elapsed_s: int = 0  # the sum
    limit_s: int = 0  # of each; 0 or negative: none
    cpu_us: int = 0
    core_s: int = 0
    memory_kb: int = 0
    memory_given_kb: int = 0
    gpus: int = 0
    gpu_s: float = 0
    gpu_percent_s: int | None = None
    gpu_least: int | None = None  # the lowest mean of a GPU, percent
    gpu_memory_kb: int | None = None
    gpu_card_kb: int = 0  # of its largest GPU
    energy_j: int | None = None
    energy_is_estimate: bool = False


def percent(part: float, whole: float) -> float:
    """A percentage; 0 where the total is 0."""
    return 100.0 * part / whole if whole else 0.0


def use_of(job: JobRecord, view: RecordView) -> Use:
    """The allocation and usage of one job."""
    row = RecordRow(job, None)
    lasted_s = elapsed_s(row, view)
    tres = parse_tres(job.tres_alloc) if job.tres_alloc else {}
    gpus = tres.get("gres/gpu", 0)
    steps = [step for step in job.steps if step.state != "PENDING"]
    kinds = {step.step_id: recorded(step.metrics, step.tasks).metrics for step in steps}
    cards = [found[K.GPU_MEM_HELD_KB].max for found in kinds.values() if K.GPU_MEM_HELD_KB in found]
    return Use(
        jobs=1, nodes=job.nodes_alloc, cores=job.cpus_alloc, tasks=max((step.tasks for step in steps), default=1),
        longest_s=lasted_s, elapsed_s=lasted_s, limit_s=job.time_limit_s,
        cpu_us=_cpu_us(row, kinds), core_s=lasted_s * job.cpus_alloc,
        memory_kb=_peak(job, steps, {step.step_id: _rss_kb(step, kinds) for step in steps}, view),
        memory_given_kb=tres.get("mem", 0) * 1024,
        gpus=gpus, gpu_s=_ran_us(row, view) * gpus / 1_000_000, gpu_percent_s=_busy(job, steps, kinds, view),
        gpu_least=_least(kinds),
        gpu_memory_kb=_gpu_memory(job, steps, kinds, view), gpu_card_kb=max(cards, default=0),
        energy_j=job_energy_j(job), energy_is_estimate=any(K.ENERGY_ESTIMATED_J in found for found in kinds.values()),
    )  # fmt: skip


def _cpu_us(row: RecordRow, kinds: _Kinds) -> int:
    """A step's CPU time: from its record, or from samples while it runs."""
    running = (s for s in row.job.steps if not s.usage.user_cpu_us + s.usage.system_cpu_us)
    sampled_ms = sum(kinds[s.step_id][K.CPU_MS].total for s in running if K.CPU_MS in kinds.get(s.step_id, ()))
    return cpu_us(row, user=True, system=True) + sampled_ms * 1000


def _rss_kb(step: StepRecord, kinds: _Kinds) -> int:
    metric = kinds[step.step_id].get(K.RSS_KB)
    return max(step.usage.max_rss_kb, metric.total if metric else 0)


def _peak(job: JobRecord, steps: Sequence[StepRecord], sizes: dict[int, int], view: RecordView) -> int:
    """The largest sum over steps that ran at the same time."""
    changes = []
    for step in steps:
        end = end_us(RecordRow(job, step)) or view.clock.now_us
        size = sizes.get(step.step_id, 0)
        changes += [(step.start_at_us, 1, size), (max(end, step.start_at_us + 1), 0, -size)]  # ends sort before starts
    now = most = 0
    for _, _, size in sorted(changes):
        now += size
        most = max(most, now)
    return most


def _busy(job: JobRecord, steps: Sequence[StepRecord], kinds: _Kinds, view: RecordView) -> int | None:
    """Utilisation of a step's GPUs: percent times seconds."""
    found = [
        kinds[step.step_id][K.GPU_UTIL].total * _ran_us(RecordRow(job, step), view)
        for step in steps
        if K.GPU_UTIL in kinds[step.step_id]
    ]
    return sum(found) // 1_000_000 if found else None


def _ran_us(row: RecordRow, view: RecordView) -> int:
    until = end_us(row) or view.clock.now_us
    return max(until - start_us(row) - suspended_us(row, until), 0)


def _least(kinds: _Kinds) -> int | None:
    """The lowest utilisation, of the step with most of the GPUs' work."""
    found = [metrics[K.GPU_UTIL] for metrics in kinds.values() if K.GPU_UTIL in metrics]
    return int(max(found, key=lambda metric: metric.total).min) if found else None


def _gpu_memory(job: JobRecord, steps: Sequence[StepRecord], kinds: _Kinds, view: RecordView) -> int | None:
    sizes = {step_id: found[K.GPU_MEM_KB].total for step_id, found in kinds.items() if K.GPU_MEM_KB in found}
    return _peak(job, steps, sizes, view) if sizes else None


def together(uses: Sequence[Use]) -> Use:
    """The usage of several jobs: sums; of memory and utilisation the worst."""
    if len(uses) == 1:
        return uses[0]
    worst = max(uses, key=lambda use: percent(use.memory_kb, use.memory_given_kb))
    card = max(uses, key=lambda use: use.gpu_memory_kb or 0)

    def known(name: str) -> list[int]:
        return [value for use in uses if (value := getattr(use, name)) is not None]

    sums = {name: sum(getattr(use, name) for use in uses) for name in ("jobs", "elapsed_s", "cpu_us", "core_s")}
    return Use(
        **sums, nodes=max(use.nodes for use in uses), cores=max(use.cores for use in uses), tasks=worst.tasks,
        longest_s=max(use.longest_s for use in uses), limit_s=max(use.limit_s for use in uses),
        memory_kb=worst.memory_kb, memory_given_kb=worst.memory_given_kb, gpus=card.gpus, gpu_s=sum(use.gpu_s for use in uses),
        gpu_percent_s=sum(known("gpu_percent_s")) if known("gpu_percent_s") else None,
        gpu_least=min(known("gpu_least"), default=None), gpu_memory_kb=card.gpu_memory_kb,
        gpu_card_kb=card.gpu_card_kb, energy_j=sum(known("energy_j")) if known("energy_j") else None,
        energy_is_estimate=any(use.energy_is_estimate for use in uses),
    )  # fmt: skip


# -- advice


def advice(use: Use, states: Iterable[str]) -> list[str]:
    """Advice for the next request, in whole sentences; none about jobs that were too short."""
    if use.longest_s < ADVICE_AFTER_S:
        return []
    return [*_memory_advice(use, set(states)), *_cpu_advice(use), *_gpu_advice(use), *_time_advice(use, set(states))]


def _memory_advice(use: Use, states: set[str]) -> Iterator[str]:
    if "OUT_OF_MEMORY" in states:
        yield f"It ran out of memory: request more than {size_text(use.memory_given_kb)} (--mem)."
    elif (
        use.memory_kb
        and percent(use.memory_kb, use.memory_given_kb) < MEMORY_LOW
        and use.memory_given_kb - use.memory_kb > MEMORY_SPARED_KB
    ):
        per_node_kb = use.memory_kb / max(use.nodes, 1) * (100 + MEMORY_ROOM_PERCENT) / 100
        mb = -(-int(per_node_kb) // 102400) * 100
        yield f"It used {size_text(use.memory_kb)} of memory: --mem={mb}M would have been enough."


def _cpu_advice(use: Use) -> Iterator[str]:
    if use.cores > 1 and percent(use.cpu_us / 1_000_000, use.core_s) < CPU_LOW:
        busy = max(1, -(-use.cpu_us * use.cores // (1_000_000 * max(use.core_s, 1))))
        yield f"Of {use.cores} cores it kept {busy} busy: use fewer CPUs (--cpus-per-task, --ntasks)."


def _gpu_advice(use: Use) -> Iterator[str]:
    if use.gpus == 0 or use.gpu_percent_s is None:
        return
    busy = percent(use.gpu_percent_s, 100 * use.gpu_s)
    which = "Its GPU was" if use.gpus == 1 else "Its GPUs were"
    if not use.gpu_percent_s and not use.gpu_memory_kb:
        yield f"{which} never used: leave --gres and --gpus out, or check whether the program finds them."
        return
    if busy < GPU_LOW:
        yield f"{which} idle {100 - busy:.0f}% of the time: find out what the program waits for (reading data, one CPU)."
    if use.gpus > 1 and use.gpu_least == 0 and busy >= 1:
        yield f"Of its {use.gpus} GPUs at least one was not used: request fewer, or use all of them."
    memory, card = use.gpu_memory_kb, use.gpu_card_kb
    if memory and card and percent(memory, card * use.gpus) < GPU_MEMORY_LOW and busy < 100 - GPU_LOW:
        yield (
            f"It used {size_text(memory)} of {size_text(card * use.gpus)} of GPU memory: a smaller GPU or a part of one "
            "(--gres=shard, MIG) may do."
        )


def _time_advice(use: Use, states: set[str]) -> Iterator[str]:
    if "TIMEOUT" in states:
        yield f"Its time limit of {format_duration(use.limit_s)} ended it: request more (--time), or let it save its state."
    elif percent(use.longest_s, use.limit_s) < TIME_LOW and use.limit_s - use.longest_s > TIME_SPARED_S:
        yield (
            f"It ran for {format_duration(use.longest_s)} of {format_duration(use.limit_s)}: with a shorter limit "
            "(--time) it may start earlier."
        )


def size_text(kb: float) -> str:
    """`1.25 GB`, from kilobytes, by 1024."""
    if not kb:
        return "0.00 MB"
    power = 0
    while kb >= 1024 and power + 1 < len(_SIZES):
        kb, power = kb / 1024, power + 1
    return f"{kb:.2f} {_SIZES[power]}"
