"""GPUs through NVML, asked by a short-lived child with a deadline: a driver that hangs takes only the child with it.

Run as a program it prints one JSON object: {"gpus": [...], "why": "..."}. No NVML, no driver and no GPU are normal
and give an empty list with the reason. The node daemon itself never loads NVML. Deliberately absent: health, MIG,
utilisation.
"""

import json
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

#: A healthy driver answers in a second or two, also when it has to wake eight GPUs.
DEADLINE_S = 20.0
MB = 1024 * 1024


@dataclass(frozen=True)
class Gpu:
    """One device, in PCI order: `index` is what CUDA_VISIBLE_DEVICES means under CUDA_DEVICE_ORDER=PCI_BUS_ID."""

    uuid: str
    index: int
    minor: int
    type: str
    memory_mb: int
    name: str
    bus_id: str


def find_gpus(deadline_s: float = DEADLINE_S) -> tuple[list[Gpu], str]:
    """The node's GPUs and, when there are none, why."""
    command = [sys.executable, "-s", __file__]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=deadline_s, check=False)
    except subprocess.TimeoutExpired:
        return [], f"NVML did not answer within {deadline_s:.0f} s"
    except OSError as error:
        return [], f"NVML could not be asked: {error.strerror}"
    try:
        answer = json.loads(done.stdout)
        return [Gpu(**fields) for fields in answer["gpus"]], answer["why"]
    except (ValueError, KeyError, TypeError):
        return [], f"NVML's child ended with status {done.returncode}: {done.stderr[-200:].decode('utf-8', 'replace')}"


def type_of(name: str) -> str:
    """A short type for gres from the device's name: "NVIDIA A100-SXM4-80GB" -> "a100"."""
    words = [
        word for word in name.lower().replace("-", " ").split() if word not in ("nvidia", "tesla", "quadro", "geforce")
    ]
    if len(words) > 1 and words[0] in ("rtx", "gtx"):
        return words[0] + words[1]
    return words[0] if words else "gpu"


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _ask() -> dict[str, Any]:
    """In the child: everything about every device, in PCI order."""
    try:
        import pynvml
    except ImportError:
        return {"gpus": [], "why": "the package nvidia-ml-py is not installed"}
    try:
        pynvml.nvmlInit()
        found = [_device(pynvml, i) for i in range(pynvml.nvmlDeviceGetCount())]
    except pynvml.NVMLError as error:
        return {"gpus": [], "why": f"NVML: {error}"}
    found.sort(key=lambda gpu: gpu["bus_id"].lower())
    for index, gpu in enumerate(found):
        gpu["index"] = index
    return {"gpus": found, "why": "" if found else "NVML knows no GPU"}


def _device(pynvml: Any, index: int) -> dict[str, Any]:
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    name = _text(pynvml.nvmlDeviceGetName(handle))
    return {
        "uuid": _text(pynvml.nvmlDeviceGetUUID(handle)),
        "index": index,
        "minor": int(pynvml.nvmlDeviceGetMinorNumber(handle)),
        "type": type_of(name),
        "memory_mb": int(pynvml.nvmlDeviceGetMemoryInfo(handle).total) // MB,
        "name": name,
        "bus_id": _text(pynvml.nvmlDeviceGetPciInfo(handle).busId),
    }


if __name__ == "__main__":
    json.dump(_ask(), sys.stdout)
