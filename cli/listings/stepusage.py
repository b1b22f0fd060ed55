"""Usage of a step over all its tasks: the same figures for sstat (from its nodes) and sacct (from records). A figure
has a total over the tasks, the largest and the smallest value of a task, and that task and its node. The texts are
Slurm's: `12K`, `00:01:02`, and TRES lists in the order of their names.

GPUs are counted by the node, not by task. The total of gpuutil is the sum over a step's GPUs of the mean of each, in
percent (two busy GPUs: 200), its highest the highest sample of one GPU, its lowest the lowest mean; of gpumem the
highest sum over the GPUs, the highest of one, the lowest of one; of energy the sum, the most and the least of one.
Where a task is named it is the first one on that node. An average is the total over the number of tasks, as on Slurm.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

# Any: messages of two kinds that have the same fields
from typing import Any, Final, NamedTuple

from cli.base.format import amount
from cli.base.nodeanswer import is_id, lists, number
from penstock.v1.common_pb2 import UsageMetric
from penstock.values.duration import format_duration
from penstock.values.numbers import within_int64

K = UsageMetric.Kind
#: The TRES of TRESUsageIn, by name; and of TRESUsageOut.
TRES_IN = {
    "cpu": K.CPU_MS, "energy": K.ENERGY_J, "fs/disk": K.READ_BYTES, "gres/gpumem": K.GPU_MEM_KB,
    "gres/gpuutil": K.GPU_UTIL, "mem": K.RSS_KB, "pages": K.PAGE_FAULTS, "vmem": K.VMSIZE_KB,
}  # fmt: skip
TRES_OUT = {"fs/disk": K.WRITE_BYTES}
#: Of a figure in an answer: kind, total, largest, its task, smallest, its task.
_FIGURE_PARTS: Final = 6
ENERGY_UNITS = ("", "K", "M", "G", "T", "P")
SIZES_KB = frozenset((K.RSS_KB, K.VMSIZE_KB, K.GPU_MEM_KB))


class Metric(NamedTuple):
    """One figure over the tasks of a step."""

    total: int
    max: int
    max_node: str
    max_task: int
    min: int
    min_node: str
    min_task: int


class StepUsage(NamedTuple):
    """All figures of a step, by kind. `tasks`: the number of tasks that they cover."""

    metrics: dict[int, Metric]
    tasks: int

    def average(self, kind: int) -> int:
        """Of a task."""
        found = self.metrics.get(kind)
        return found.total // max(self.tasks, 1) if found else 0


class Sizes(NamedTuple):
    """The format of sizes: in their own unit, in a requested one, or as plain bytes."""

    unit: str = ""
    convert: bool = True


def merged(answers: Mapping[str, Mapping[str, object]]) -> StepUsage:
    """Merges the figures of several nodes to those of the step. Nodes without data do not count."""
    metrics: dict[int, Metric] = {}
    tasks = 0
    for node, answer in answers.items():
        tasks += number(answer.get("tasks"))
        for kind, total, high, high_task, low, low_task in _figures(answer.get("metrics")):
            here = Metric(total, high, node, high_task, low, node, low_task)
            known = metrics.get(kind)
            metrics[kind] = here if known is None else _plus(known, here)
    return StepUsage(metrics, tasks)


def _figures(said: object) -> Iterator[tuple[int, ...]]:
    """Yields the figures of an answer: what is no list of six numbers is none."""
    for one in lists(said, _FIGURE_PARTS):
        kind, _, _, high_task, _, low_task = one
        if all(is_id(part) for part in (kind, high_task, low_task)) and all(type(part) is int for part in one):
            yield tuple(map(number, one))


def recorded(messages: Iterable[Any], tasks: int) -> StepUsage:
    """The figures of StepMetric messages."""
    metrics = {m.kind: Metric(m.total, m.max, m.max_node, m.max_task, m.min, m.min_node, m.min_task) for m in messages}
    return StepUsage(metrics, tasks)


def _plus(a: Metric, b: Metric) -> Metric:
    high, low = (b if b.max > a.max else a), (b if b.min < a.min else a)
    return Metric(
        within_int64(a.total + b.total), high.max, high.max_node, high.max_task, low.min, low.min_node, low.min_task
    )


def value_text(kind: int, value: int, sizes: Sizes) -> str:
    """One number as Slurm writes it."""
    if kind == K.CPU_MS:
        return format_duration(value // 1000)
    if kind in SIZES_KB:
        if not sizes.convert and not sizes.unit:
            return str(value * 1024)
        return amount(value, "K", unit=sizes.unit)
    if kind in (K.READ_BYTES, K.WRITE_BYTES):
        return amount(value, "", unit=sizes.unit, convert=sizes.convert)
    return str(value)


def energy_text(joules: int, sizes: Sizes) -> str:
    """Joules as Slurm writes them: by thousands (1234567 is 1.23M), two decimals unless it divides evenly."""
    power, value = 0, float(joules)
    if sizes.convert and sizes.unit:
        power = ENERGY_UNITS.index(sizes.unit)
        value /= 1000**power
    while sizes.convert and not sizes.unit and value > 1000 and power + 1 < len(ENERGY_UNITS):
        power, value = power + 1, value / 1000
    return (f"{value:.0f}" if value == int(value) else f"{value:.2f}") + ENERGY_UNITS[power]


def tres_text(usage: StepUsage, names: Mapping[str, int], pick: Callable[[Metric], object], sizes: Sizes | None) -> str:
    """`cpu=00:00:01,mem=12K`, of the available figures. `sizes` None: the values are names or ranks."""
    parts = []
    for name, kind in names.items():
        metric = usage.metrics.get(kind)
        if metric is not None:
            picked = pick(metric)
            parts.append(f"{name}={picked if sizes is None else value_text(kind, int(str(picked)), sizes)}")
    return ",".join(parts)


def tres_average(usage: StepUsage, names: Mapping[str, int], sizes: Sizes) -> str:
    """The same of an average task."""
    return tres_text(usage, names, lambda metric: metric.total // max(usage.tasks, 1), sizes)


#: Suffixes of TRESUsageIn and TRESUsageOut, and the value that each selects.
_PICKS: dict[str, Callable[[Metric], object]] = {
    "Max": lambda m: m.max, "MaxNode": lambda m: m.max_node, "MaxTask": lambda m: m.max_task,
    "Min": lambda m: m.min, "MinNode": lambda m: m.min_node, "MinTask": lambda m: m.min_task,
    "Tot": lambda m: m.total,
}  # fmt: skip


def _list_fields() -> "dict[str, _Field]":
    fields: dict[str, _Field] = {}
    for prefix, names in (("TRESUsageIn", TRES_IN), ("TRESUsageOut", TRES_OUT)):
        fields[f"{prefix}Ave"] = lambda u, s, names=names: tres_average(u, names, s)  # type: ignore[misc]
        for word, pick in _PICKS.items():
            is_name = word.endswith(("Node", "Task"))
            fields[f"{prefix}{word}"] = _tres_field(names, pick, is_name)
    return fields


def _tres_field(names: Mapping[str, int], pick: Callable[[Metric], object], is_name: bool) -> "_Field":
    return lambda usage, sizes: tres_text(usage, names, pick, None if is_name else sizes)


def _single_fields() -> "dict[str, _Field]":
    """AveRSS, MaxRSS, MaxRSSNode, MaxRSSTask and their like."""
    fields: dict[str, _Field] = {}
    kinds = {"RSS": K.RSS_KB, "VMSize": K.VMSIZE_KB, "Pages": K.PAGE_FAULTS, "DiskRead": K.READ_BYTES,
             "DiskWrite": K.WRITE_BYTES}  # fmt: skip
    for name, kind in kinds.items():
        fields[f"Ave{name}"] = _value_field(kind, None)
        fields[f"Max{name}"] = _value_field(kind, _PICKS["Max"])
        fields[f"Max{name}Node"] = _word_field(kind, _PICKS["MaxNode"])
        fields[f"Max{name}Task"] = _word_field(kind, _PICKS["MaxTask"])
    fields["AveCPU"] = _value_field(K.CPU_MS, None)
    fields["MinCPU"] = _value_field(K.CPU_MS, _PICKS["Min"])
    fields["MinCPUNode"] = _word_field(K.CPU_MS, _PICKS["MinNode"])
    fields["MinCPUTask"] = _word_field(K.CPU_MS, _PICKS["MinTask"])
    fields["ConsumedEnergyRaw"] = _value_field(K.ENERGY_J, _PICKS["Tot"])
    fields["ConsumedEnergy"] = lambda usage, sizes: (
        energy_text(usage.metrics[K.ENERGY_J].total, sizes) if K.ENERGY_J in usage.metrics else ""
    )
    return fields


def _value_field(kind: int, pick: Callable[[Metric], object] | None) -> "_Field":
    def show(usage: StepUsage, sizes: Sizes) -> str:
        metric = usage.metrics.get(kind)
        if metric is None:
            return ""
        return value_text(kind, usage.average(kind) if pick is None else int(str(pick(metric))), sizes)

    return show


def _word_field(kind: int, pick: Callable[[Metric], object]) -> "_Field":
    return lambda usage, sizes: str(pick(usage.metrics[kind])) if kind in usage.metrics else ""


_Field = Callable[[StepUsage, Sizes], str]
#: Every field derived from samples, by Slurm's name.
FIELDS: dict[str, _Field] = _single_fields() | _list_fields()
