"""How a GPU is: everything that its health and its use are judged by, as one Sample, asked in a child.

    - What a GPU cannot say is None and is not asked again until there is a new inventory.
    - Rows that were remapped cannot be asked while MIG is on: the last known numbers stay.
    - SRAM errors are the volatile ones: a reset clears them, as it clears what they mean.
    - NVLinks: errors are replays and recoveries, from the fields that this driver knows (totals of all links, older; then
      those of the data link layer). A link is down when it was up once, or leads to an NVSwitch, and is not up now.
    - A process that NVML lists more than once (compute, graphics, MPS) is one, with the largest memory said.

Deliberately absent: what any of it means, and the per-link counters that came with NVLink 5.
"""

from typing import Any

from nodedaemon.core.gpuwords import Device, Process, Sample
from nodedaemon.gpu.finding import Place, memory_of
from nodedaemon.gpu.nvml import GpuError, Line, Nvml, TooSlow

RECOVERY_ACTION = 230
#: Fields of NVLink: (replays, recoveries) and CRC errors (flits, data), in all generations that have totals.
_LINK_ERRORS = (52, 59, 161, 162)
_LINK_CRC = (38, 45, 163)
FIELDS = (RECOVERY_ACTION, *_LINK_ERRORS, *_LINK_CRC)
_UNCORRECTED, _VOLATILE, _AGGREGATE, _SRAM = 1, 0, 1, 7
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

Values = dict[str, Any]


def sample(nvml: Nvml, place: Place, at_us: int, util_since: int | None) -> list[Sample]:
    """The GPU's sample and those of its instances. util_since: also each process's utilisation since then (us)."""
    values: Values = {}
    try:
        for part in (_errors, _links, _clocks, _use, _modes):
            part(Line(nvml, place.name, place.handle, place.never), place, values)
        if util_since is not None:
            _utilisation(Line(nvml, place.name, place.handle, place.never), util_since, values)
    except GpuError as error:
        place.error = values["error"] = error.code
    except TooSlow as slow:
        values["slow"] = str(slow)
    samples = [Sample(place.gpu.uuid, at_us, **values)]
    if place.answers and "slow" not in values:
        samples += [_instance(nvml, device, handle, never, at_us) for handle, device, never in place.migs]
    return samples


def _instance(nvml: Nvml, device: Device, handle: Any, never: set[str], at_us: int) -> Sample:
    values: Values = {}
    line = Line(nvml, device.parent, handle, never)  # what hangs is the GPU
    try:
        _memory_and_processes(line, values)
    except GpuError as error:
        values["error"] = error.code
    except TooSlow as slow:
        values["slow"] = str(slow)
    return Sample(device.uuid, at_us, **values)


def _errors(line: Line, place: Place, values: Values) -> None:
    fields = _fields(line, place)
    values["recovery_action"] = fields.get(RECOVERY_ACTION)
    values["nvlink_errors"] = _sum(fields, _LINK_ERRORS)
    values["nvlink_crc"] = _sum(fields, _LINK_CRC)
    values["ecc_volatile"] = line.ask("nvmlDeviceGetTotalEccErrors", _UNCORRECTED, _VOLATILE)
    values["ecc_aggregate"] = line.ask("nvmlDeviceGetTotalEccErrors", _UNCORRECTED, _AGGREGATE)
    values["ecc_sram"] = line.ask("nvmlDeviceGetMemoryErrorCounter", _UNCORRECTED, _VOLATILE, _SRAM)
    rows = None if place.gpu.mig_enabled else line.ask("nvmlDeviceGetRemappedRows")
    if rows is not None:
        place.remapped = (rows[1], bool(rows[2]), bool(rows[3]))
    if place.remapped is not None:
        values["remap_uncorrectable"], values["remap_pending"], values["remap_failure"] = place.remapped
    pages = [line.ask("nvmlDeviceGetRetiredPages", cause) for cause in _PAGE_CAUSES]
    if any(found is not None for found in pages):
        values["retired_pages"] = sum(len(found or ()) for found in pages)
        pending = line.ask("nvmlDeviceGetRetiredPagesPendingStatus")
        values["retired_pending"] = None if pending is None else bool(pending)


def _fields(line: Line, place: Place) -> dict[int, int]:
    """Those that this GPU has."""
    wanted = [field for field in FIELDS if f"field {field}" not in place.never]
    found = {}
    for answer in line.ask("nvmlDeviceGetFieldValues", wanted) or () if wanted else ():
        if answer.nvmlReturn == _FIELD_OK:
            found[int(answer.fieldId)] = _number(answer)
        elif answer.nvmlReturn in _FIELD_NEVER:
            place.never.add(f"field {answer.fieldId}")
    return found


def _number(answer: Any) -> int:
    """Of a field, whose type NVML says with each: double, unsigned, long, long long, signed long long, signed, short."""
    names = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
    name = names[answer.valueType] if answer.valueType < len(names) else "ullVal"
    return int(getattr(answer.value, name, answer.value.ullVal))


def _sum(fields: dict[int, int], wanted: tuple[int, ...]) -> int | None:
    found = [fields[field] for field in wanted if field in fields]
    return sum(found) if found else None


def _links(line: Line, place: Place, values: Values) -> None:
    if not place.links:
        return
    down = 0
    for link, was_up in place.links.items():
        state = line.ask("nvmlDeviceGetNvLinkState", link)
        if state:
            place.links[link] = True
        elif state is not None:
            down += was_up
    values["nvlinks_down"] = down


def _clocks(line: Line, place: Place, values: Values) -> None:
    values["throttle"] = line.first(
        "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"
    )
    values["temperature_c"] = line.ask("nvmlDeviceGetTemperatureV", 0)
    if values["temperature_c"] is None:
        values["temperature_c"] = line.ask("nvmlDeviceGetTemperature", 0)
    if place.slowdown_c is None:
        place.slowdown_c = line.ask("nvmlDeviceGetTemperatureThreshold", _SLOWDOWN)
    values["slowdown_c"] = place.slowdown_c
    if place.pcie_max is None:
        most = line.ask("nvmlDeviceGetMaxPcieLinkGeneration"), line.ask("nvmlDeviceGetMaxPcieLinkWidth")
        place.pcie_max = (most[0] or 0, most[1] or 0)
    now = line.ask("nvmlDeviceGetCurrPcieLinkGeneration"), line.ask("nvmlDeviceGetCurrPcieLinkWidth")
    if None not in now and 0 not in place.pcie_max:
        values["pcie"] = (*now, *place.pcie_max)


def _use(line: Line, place: Place, values: Values) -> None:
    rates = line.ask("nvmlDeviceGetUtilizationRates")
    values["util_percent"] = None if rates is None else rates.gpu
    values["energy_mj"] = line.ask("nvmlDeviceGetTotalEnergyConsumption")
    _memory_and_processes(line, values)


def _modes(line: Line, place: Place, values: Values) -> None:
    ecc = line.ask("nvmlDeviceGetEccMode")
    values["ecc_pending"] = None if ecc is None else ecc[0] != ecc[1]
    persistence = line.ask("nvmlDeviceGetPersistenceMode")
    values["persistence"] = None if persistence is None else bool(persistence)


def _memory_and_processes(line: Line, values: Values) -> None:
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


def _utilisation(line: Line, since_us: int, values: Values) -> None:
    """The newest of each process; those that have none were idle."""
    newest: dict[int, tuple[int, int]] = {}
    for said in line.ask("nvmlDeviceGetProcessUtilization", since_us) or ():
        newest[said.pid] = max(newest.get(said.pid, (0, 0)), (said.timeStamp, said.smUtil))
    values["processes"] = tuple(
        Process(process.pid, process.memory_kb, newest[process.pid][1] if process.pid in newest else 0)
        for process in values.get("processes") or ()
    )
