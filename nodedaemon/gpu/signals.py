"""Samples a GPU: all values from which its health and its usage are determined, as one Sample, queried in a child.

    - A value that a GPU does not support is None and is not queried again until there is a new inventory.
    - Remapped rows cannot be queried while MIG is on: the last known numbers stay.
    - SRAM errors are the volatile ones: a reset clears them, as it clears what they mean.
    - NVLinks: errors are replays and recoveries, from the fields that this driver knows (totals of all links, older; then
      those of the data link layer). A link is down when it was up once, or leads to an NVSwitch, and is not up now.
    - A process that NVML lists more than once (compute, graphics, MPS) is one, with the largest memory reported.

Deliberately absent: the interpretation, and the per-link counters that came with NVLink 5.
"""

from nodedaemon.core.gpumessages import Device, Process, Sample
from nodedaemon.gpu.entry import DeviceEntry
from nodedaemon.gpu.finding import memory_of
from nodedaemon.gpu.nvml import AnnouncementLine, GpuError, Nvml, NvmlAnswer, TooSlow

RECOVERY_ACTION = 230
#: Fields of NVLink: (replays, recoveries) and CRC errors (flits, data), in all generations that have totals.
_LINK_ERRORS = (52, 59, 161, 162)
_LINK_CRC = (38, 45, 163)
FIELDS = (RECOVERY_ACTION, *_LINK_ERRORS, *_LINK_CRC)
_CORRECTED = 0
_UNCORRECTED = 1
_VOLATILE = 0
_AGGREGATE = 1
_SRAM = 7
_CLOCK_SM, _CLOCK_MEMORY = 1, 2  # NVML_CLOCK_SM, NVML_CLOCK_MEM
_SLOWDOWN = 1  # NVML_TEMPERATURE_THRESHOLD_SLOWDOWN
_PAGE_CAUSES = (0, 1)  # many single-bit errors, a double-bit error
_KB = 1024
_FIELD_OK = 0
_FIELD_NEVER = (2, 3)
_LISTS = (
    ("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetComputeRunningProcesses_v2"),
    ("nvmlDeviceGetGraphicsRunningProcesses", "nvmlDeviceGetGraphicsRunningProcesses_v2"),
    ("nvmlDeviceGetMPSComputeRunningProcesses", "nvmlDeviceGetMPSComputeRunningProcesses_v2"),
)

_Values = dict[str, NvmlAnswer]


def sample(nvml: Nvml, entry: DeviceEntry, at_us: int, util_since: int | None) -> list[Sample]:
    """The GPU's sample and those of its instances. util_since: also each process's utilisation since then (us)."""
    values: _Values = {}
    try:
        for part in (_errors, _links, _clocks, _use, _modes):
            part(AnnouncementLine(nvml, entry.name, entry.handle, entry.never), entry, values)
        if util_since is not None:
            _utilisation(AnnouncementLine(nvml, entry.name, entry.handle, entry.never), util_since, values)
    except GpuError as error:
        entry.error = values["error"] = error.code
    except TooSlow as slow:
        values["slow"] = str(slow)
    samples = [Sample(entry.gpu.uuid, at_us, **values)]
    if entry.answers and "slow" not in values:
        samples += [_instance(nvml, device, handle, never, at_us) for handle, device, never in entry.migs]
    return samples


def _instance(nvml: Nvml, device: Device, handle: object, never: set[str], at_us: int) -> Sample:
    values: _Values = {}
    line = AnnouncementLine(nvml, device.parent, handle, never)  # a hang concerns the GPU, not the instance
    try:
        _memory_and_processes(line, values)
    except GpuError as error:
        values["error"] = error.code
    except TooSlow as slow:
        values["slow"] = str(slow)
    return Sample(device.uuid, at_us, **values)


def _errors(line: AnnouncementLine, entry: DeviceEntry, values: _Values) -> None:
    fields = _fields(line, entry)
    values["recovery_action"] = fields.get(RECOVERY_ACTION)
    values["nvlink_errors"] = _sum(fields, _LINK_ERRORS)
    values["nvlink_crc"] = _sum(fields, _LINK_CRC)
    values["ecc_volatile"] = line.ask("nvmlDeviceGetTotalEccErrors", _UNCORRECTED, _VOLATILE)
    values["ecc_corrected"] = line.ask("nvmlDeviceGetTotalEccErrors", _CORRECTED, _VOLATILE)
    values["ecc_aggregate"] = line.ask("nvmlDeviceGetTotalEccErrors", _UNCORRECTED, _AGGREGATE)
    values["ecc_sram"] = line.ask("nvmlDeviceGetMemoryErrorCounter", _UNCORRECTED, _VOLATILE, _SRAM)
    rows = None if entry.gpu.mig_enabled else line.ask("nvmlDeviceGetRemappedRows")
    if rows is not None:
        entry.remapped = (rows[1], bool(rows[2]), bool(rows[3]))
    if entry.remapped is not None:
        values["remap_uncorrectable"], values["remap_pending"], values["remap_failure"] = entry.remapped
    pages = [line.ask("nvmlDeviceGetRetiredPages", cause) for cause in _PAGE_CAUSES]
    if any(found is not None for found in pages):
        values["retired_pages"] = sum(len(found or ()) for found in pages)
        pending = line.ask("nvmlDeviceGetRetiredPagesPendingStatus")
        values["retired_pending"] = None if pending is None else bool(pending)


def _fields(line: AnnouncementLine, entry: DeviceEntry) -> dict[int, int]:
    """Returns the fields that this GPU supports."""
    wanted = [field for field in FIELDS if f"field {field}" not in entry.never]
    found = {}
    for answer in line.ask("nvmlDeviceGetFieldValues", wanted) or () if wanted else ():
        if answer.nvmlReturn == _FIELD_OK:
            found[int(answer.fieldId)] = _number(answer)
        elif answer.nvmlReturn in _FIELD_NEVER:
            entry.never.add(f"field {answer.fieldId}")
    return found


def _number(answer: NvmlAnswer) -> int:
    """Returns the number of a field, whose type NVML reports with each: double, unsigned, long, long long, signed long
    long, signed, short."""
    names = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
    name = names[answer.valueType] if answer.valueType < len(names) else "ullVal"
    return int(getattr(answer.value, name, answer.value.ullVal))


def _sum(fields: dict[int, int], wanted: tuple[int, ...]) -> int | None:
    found = [fields[field] for field in wanted if field in fields]
    return sum(found) if found else None


def _links(line: AnnouncementLine, entry: DeviceEntry, values: _Values) -> None:
    if not entry.links:
        return
    down = 0
    for link, was_up in entry.links.items():
        state = line.ask("nvmlDeviceGetNvLinkState", link)
        if state:
            entry.links[link] = True
        elif state is not None:
            down += was_up
    values["nvlinks_down"] = down


def _clocks(line: AnnouncementLine, entry: DeviceEntry, values: _Values) -> None:
    values["throttle"] = line.first(
        "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"
    )
    values["sm_clock_mhz"] = line.ask("nvmlDeviceGetClockInfo", _CLOCK_SM)
    values["memory_clock_mhz"] = line.ask("nvmlDeviceGetClockInfo", _CLOCK_MEMORY)
    values["temperature_c"] = line.ask("nvmlDeviceGetTemperatureV", 0)
    if values["temperature_c"] is None:
        values["temperature_c"] = line.ask("nvmlDeviceGetTemperature", 0)
    if entry.slowdown_c is None:
        entry.slowdown_c = line.ask("nvmlDeviceGetTemperatureThreshold", _SLOWDOWN)
    values["slowdown_c"] = entry.slowdown_c
    if entry.pcie_max is None:
        most = line.ask("nvmlDeviceGetMaxPcieLinkGeneration"), line.ask("nvmlDeviceGetMaxPcieLinkWidth")
        entry.pcie_max = (most[0] or 0, most[1] or 0)
    now = line.ask("nvmlDeviceGetCurrPcieLinkGeneration"), line.ask("nvmlDeviceGetCurrPcieLinkWidth")
    if None not in now and 0 not in entry.pcie_max:
        values["pcie"] = (*now, *entry.pcie_max)


def _use(line: AnnouncementLine, entry: DeviceEntry, values: _Values) -> None:
    rates = line.ask("nvmlDeviceGetUtilizationRates")
    values["util_percent"] = None if rates is None else rates.gpu
    values["energy_mj"] = line.ask("nvmlDeviceGetTotalEnergyConsumption")
    _memory_and_processes(line, values)


def _modes(line: AnnouncementLine, entry: DeviceEntry, values: _Values) -> None:
    ecc = line.ask("nvmlDeviceGetEccMode")
    values["ecc_pending"] = None if ecc is None else ecc[0] != ecc[1]
    persistence = line.ask("nvmlDeviceGetPersistenceMode")
    values["persistence"] = None if persistence is None else bool(persistence)


def _memory_and_processes(line: AnnouncementLine, values: _Values) -> None:
    memory = memory_of(line)
    values["memory_used_kb"] = None if memory is None else memory.used // _KB
    lists = [line.first(*functions) for functions in _LISTS]
    if all(found is None for found in lists):
        return
    used: dict[int, int | None] = {}
    for process in (process for found in lists for process in found or ()):
        said, before = process.usedGpuMemory, used.get(process.pid)
        used[process.pid] = before if said is None else max(said // _KB, before or 0)
    values["processes"] = tuple(Process(pid, memory_kb) for pid, memory_kb in sorted(used.items()))


def _utilisation(line: AnnouncementLine, since_us: int, values: _Values) -> None:
    """Returns the latest value of each process; those without one were idle."""
    newest: dict[int, tuple[int, int]] = {}
    for said in line.ask("nvmlDeviceGetProcessUtilization", since_us) or ():
        newest[said.pid] = max(newest.get(said.pid, (0, 0)), (said.timeStamp, said.smUtil))
    values["processes"] = tuple(
        Process(process.pid, process.memory_kb, newest[process.pid][1] if process.pid in newest else 0)
        for process in values.get("processes") or ()
    )
