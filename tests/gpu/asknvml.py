"""A program: for each line of its input it asks NVML once and prints one line of JSON. Nothing is set.

It is a process of its own so that the test's process has no NVML loaded, and so that it can be given the fake's environment.
"""

import json
import sys
from typing import Any

import pynvml as nvml

RECOVERY_ACTION = 230


def may(call: Any, *words: Any) -> Any:
    """What a call answers; None = this card or driver cannot say."""
    try:
        found = call(*words)
    except nvml.NVMLError:
        return None
    return found.decode() if isinstance(found, bytes) else found


def gpu(handle: Any) -> dict[str, Any]:
    memory = nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)
    field = nvml.nvmlDeviceGetFieldValues(handle, [RECOVERY_ACTION])[0]
    util = may(nvml.nvmlDeviceGetUtilizationRates, handle)
    processes = may(nvml.nvmlDeviceGetComputeRunningProcesses, handle)
    return {
        "uuid": may(nvml.nvmlDeviceGetUUID, handle),
        "name": may(nvml.nvmlDeviceGetName, handle),
        "minor": may(nvml.nvmlDeviceGetMinorNumber, handle),
        "bus_id": may(lambda: nvml.nvmlDeviceGetPciInfo(handle).busId),
        "memory_total_mb": memory.total >> 20,
        "memory_used_kb": memory.used >> 10,
        "util_percent": None if util is None else util.gpu,
        "energy_mj": may(nvml.nvmlDeviceGetTotalEnergyConsumption, handle),
        "recovery_action": field.value.uiVal if field.nvmlReturn == nvml.NVML_SUCCESS else None,
        "pids": None if processes is None else [process.pid for process in processes],
        "settings": {
            "persistence": may(nvml.nvmlDeviceGetPersistenceMode, handle),
            "compute_mode": may(nvml.nvmlDeviceGetComputeMode, handle),
            "power_limit_mw": may(nvml.nvmlDeviceGetPowerManagementLimit, handle),
            "mig_mode": may(nvml.nvmlDeviceGetMigMode, handle),
            "accounting_mode": may(nvml.nvmlDeviceGetAccountingMode, handle),
            "ecc_mode": may(nvml.nvmlDeviceGetEccMode, handle),
        },
    }


def main() -> None:
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        print(json.dumps({"why": str(error)}), flush=True)
        return
    for _ in sys.stdin:
        handles = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
        found = {"driver": may(nvml.nvmlSystemGetDriverVersion), "gpus": [gpu(handle) for handle in handles]}
        print(json.dumps(found), flush=True)


main()
