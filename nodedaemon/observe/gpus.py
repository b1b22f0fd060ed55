"""Families about GPUs, from the last poll of the GPU agent; their age is a metric itself.

Each GPU has the labels of the one step that uses it, or empty ones: with several jobs on it, or none, its figures are
nobody's alone. A value that the driver does not give is left out. Under dcgm-exporter's names the same figures have its
units and labels, so that dashboards made for it work.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from nodedaemon.core.gpuhealth_messages import Opinion
from nodedaemon.core.gpumessages import Device, Sample
from nodedaemon.core.steps import StepKey
from nodedaemon.observe.stepusage import StepLabels
from penstock.exporter.exposition import MetricFamily, MetricSample, MetricType, MetricValue, gauge, labels
from penstock.values.jobid import BATCH_STEP, EXTERN_STEP

_C, _G = MetricType.COUNTER, MetricType.GAUGE
_KB: Final = 1024
#: A sample before the last one that is older gives no power.
POWER_US_MAX: Final = 120_000_000


class SampledGpu(NamedTuple):
    """One GPU as it is shown."""

    device: Device
    sample: Sample
    power_w: float | None  # on average since the sample before
    holders: tuple[StepKey, ...]  # the steps that have it


class _GpuMetric(NamedTuple):
    name: str
    kind: MetricType
    help: str
    value: Callable[[SampledGpu], MetricValue | None]
    dcgm: str = ""
    dcgm_factor: float = 1  # from our unit to dcgm's


def _bytes(kb: int | None) -> int | None:
    return None if kb is None else kb * _KB


def _flag(value: bool | None) -> int | None:
    return None if value is None else int(value)


def _hertz(mhz: int | None) -> int | None:
    return None if mhz is None else mhz * 1_000_000


def _joules(mj: int | None) -> float | None:
    return None if mj is None else mj / 1000


_METRICS: Final = (
    _GpuMetric("utilization_percent", _G, "Time in which kernels ran", lambda v: v.sample.util_percent, "DCGM_FI_DEV_GPU_UTIL"),
    _GpuMetric(
        "memory_used_bytes", _G, "Memory in use, without the driver's own", lambda v: _bytes(v.sample.memory_used_kb),
        "DCGM_FI_DEV_FB_USED", 1 / (1 << 20),
    ),
    _GpuMetric("memory_total_bytes", _G, "Memory", lambda v: v.device.memory_mb << 20, "DCGM_FI_DEV_FB_TOTAL", 1 / (1 << 20)),
    _GpuMetric("temperature_celsius", _G, "Temperature", lambda v: v.sample.temperature_c, "DCGM_FI_DEV_GPU_TEMP"),
    _GpuMetric("slowdown_celsius", _G, "Temperature at which clocks are lowered", lambda v: v.sample.slowdown_c),
    _GpuMetric("power_watts", _G, "Mean power between the last two samples", lambda v: v.power_w, "DCGM_FI_DEV_POWER_USAGE"),
    _GpuMetric(
        "energy_joules", _C, "Energy since the driver was loaded", lambda v: _joules(v.sample.energy_mj),
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", 1000,
    ),
    _GpuMetric(
        "sm_clock_hertz", _G, "Clock of the multiprocessors", lambda v: _hertz(v.sample.sm_clock_mhz),
        "DCGM_FI_DEV_SM_CLOCK", 1e-6,
    ),
    _GpuMetric(
        "memory_clock_hertz", _G, "Clock of the memory", lambda v: _hertz(v.sample.memory_clock_mhz),
        "DCGM_FI_DEV_MEM_CLOCK", 1e-6,
    ),
    _GpuMetric(
        "throttle_reasons", _G, "Bits of NVML's reasons for lower clocks", lambda v: v.sample.throttle,
        "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS",
    ),
    _GpuMetric(
        "ecc_uncorrected_volatile", _G, "Uncorrected memory errors since the driver was loaded",
        lambda v: v.sample.ecc_volatile, "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
    ),
    _GpuMetric(
        "ecc_uncorrected_aggregate", _G, "Uncorrected memory errors ever", lambda v: v.sample.ecc_aggregate,
        "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL",
    ),
    _GpuMetric(
        "remapped_rows_uncorrectable", _G, "Rows remapped for uncorrectable errors",
        lambda v: v.sample.remap_uncorrectable, "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
    ),
    _GpuMetric(
        "remap_failed", _G, "Whether a row could not be remapped", lambda v: _flag(v.sample.remap_failure),
        "DCGM_FI_DEV_ROW_REMAP_FAILURE",
    ),
    _GpuMetric("retired_pages", _G, "Retired pages", lambda v: v.sample.retired_pages),
    _GpuMetric("nvlink_errors", _G, "Replays and recoveries of NVLinks", lambda v: v.sample.nvlink_errors),
    _GpuMetric("nvlink_crc_errors", _G, "CRC errors of NVLinks", lambda v: v.sample.nvlink_crc),
    _GpuMetric("nvlinks_down", _G, "NVLinks that are down", lambda v: v.sample.nvlinks_down),
    _GpuMetric("pcie_generation", _G, "PCIe generation in use", lambda v: v.sample.pcie[0] if v.sample.pcie else None),
    _GpuMetric("pcie_width", _G, "PCIe lanes in use", lambda v: v.sample.pcie[1] if v.sample.pcie else None),
    _GpuMetric("sample_error", _G, "NVML's code if it does not answer for the GPU", lambda v: v.sample.error),
)  # fmt: skip


def gpu_families(
    views: Sequence[SampledGpu], opinions: Iterable[Opinion], known: Mapping[StepKey, StepLabels], age_s: float | None
) -> Iterator[MetricFamily]:
    """Yields our families. `age_s`: of the samples; None = there was no poll yet."""
    if age_s is not None:
        yield gauge("penstock_gpu_sample_age_seconds", "Age of the samples of GPUs", age_s)
    texts = [_labels(view, known) for view in views]
    for metric in _METRICS:
        values = [(text, v) for text, view in zip(texts, views, strict=True) if (v := metric.value(view)) is not None]
        yield MetricFamily(f"penstock_gpu_{metric.name}", metric.kind, metric.help, values)
    health: list[MetricSample] = []
    xids: list[MetricSample] = []
    index = {view.device.uuid: str(view.device.index) for view in views}
    for opinion in opinions:
        pairs = {"uuid": opinion.uuid, "index": index.get(opinion.uuid, "")}
        health.append((labels({**pairs, "health": opinion.state.name.lower()}), 1))
        xids += ((labels({**pairs, "xid": str(xid)}), times) for xid, times, _ in opinion.xids)
    yield MetricFamily("penstock_gpu_health", _G, "The node's judgement of a GPU: 1 for the state that it has", health)
    yield MetricFamily("penstock_gpu_xids", _G, "XIDs of a GPU, the last kinds", xids)


def dcgm_families(views: Sequence[SampledGpu], node: str) -> Iterator[MetricFamily]:
    """Yields the same under dcgm-exporter's names."""
    texts = [labels(_dcgm_labels(view, node)) for view in views]
    for metric in _METRICS:
        if metric.dcgm:
            values = [
                (text, v * metric.dcgm_factor if metric.dcgm_factor != 1 else v)
                for text, view in zip(texts, views, strict=True)
                if (v := metric.value(view)) is not None
            ]
            yield MetricFamily(metric.dcgm, MetricType.GAUGE, metric.help, values)


def _labels(view: SampledGpu, known: Mapping[StepKey, StepLabels]) -> str:
    of_gpu = {"uuid": view.device.uuid, "index": str(view.device.index), "type": view.device.type}
    key = user_of(view.holders)
    if key is None:
        return labels({"job": "", "step": "", **StepLabels()._asdict(), **of_gpu})
    return known.get(key, StepLabels()).text(key, **of_gpu)


def user_of(holders: Iterable[StepKey]) -> StepKey | None:
    """Returns the step to which a GPU's figures belong: the one that started last of its only job, before its script."""
    keys = [key for key in holders if key.step_id != EXTERN_STEP]
    if len({(key.job_id, key.attempt) for key in keys}) != 1:
        return None
    return max(keys, key=lambda key: (key.step_id != BATCH_STEP, key.step_id))


def _dcgm_labels(view: SampledGpu, node: str) -> dict[str, str]:
    device, key = view.device, user_of(view.holders)
    pairs = {
        "gpu": str(device.index), "UUID": device.uuid, "device": f"nvidia{device.minor}", "modelName": device.name,
        "pci_bus_id": device.bus_id, "Hostname": node,
    }  # fmt: skip
    if key is not None:
        pairs["hpc_job"] = str(key.job_id)
    return pairs


def mean_power_w(before: Sample, now: Sample) -> float | None:
    """Returns the mean power between two samples, from the energy counter; None where that says nothing."""
    passed_us = now.at_us - before.at_us
    if before.energy_mj is None or now.energy_mj is None or not 0 < passed_us <= POWER_US_MAX:
        return None
    used_mj = now.energy_mj - before.energy_mj
    return used_mj * 1000 / passed_us if used_mj >= 0 else None
