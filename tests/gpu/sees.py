"""A program for a job: which GPUs CUDA shows it, and what stands in its environment. Prints one line of JSON.

`sees.py real` asks libcuda by ctypes (no torch). `sees.py fake` does what CUDA would do with the fake's cards:
CUDA_VISIBLE_DEVICES counts them by bus address; absent means all, empty means none.
"""

import contextlib
import ctypes
import errno
import json
import os
import sys
import uuid

NAMES = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "SLURM_JOB_GPUS", "SLURM_GPUS_ON_NODE", "NVIDIA_VISIBLE_DEVICES")
NO_DEVICE = 100


def by_cuda() -> tuple[int, list[str]]:
    """What cuInit says, and the GPUs there are then."""
    cuda = ctypes.CDLL("libcuda.so.1")
    status = int(cuda.cuInit(0))
    if status:
        return status, []
    count = ctypes.c_int()
    assert cuda.cuDeviceGetCount(ctypes.byref(count)) == 0
    found = []
    for number in range(count.value):
        device, raw = ctypes.c_int(), ctypes.create_string_buffer(16)
        assert cuda.cuDeviceGet(ctypes.byref(device), number) == 0
        assert cuda.cuDeviceGetUuid_v2(raw, device) == 0
        found.append(f"GPU-{uuid.UUID(bytes=raw.raw)}")
    return 0, found


def by_fake() -> tuple[int, list[str]]:
    import pynvml as nvml

    nvml.nvmlInit()
    handles = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
    handles.sort(key=lambda handle: nvml.nvmlDeviceGetPciInfo(handle).busId)
    uuids = [nvml.nvmlDeviceGetUUID(handle) for handle in handles]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(uuids))
    found = [uuids[int(word)] if word.isdecimal() else word for word in filter(None, visible.split(","))]
    return (0 if found else NO_DEVICE), found


def opened(path: str) -> str:
    """`ok`, or the kernel's word for why not."""
    try:
        os.close(os.open(path, os.O_RDWR))
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return "ok"


def main() -> None:
    status, found = by_cuda() if sys.argv[1] == "real" else by_fake()
    files: list[str] = []
    with contextlib.suppress(OSError):
        files = sorted(f"/dev/{name}" for name in os.listdir("/dev") if name[:6] == "nvidia" and name[6:].isdecimal())
    print(
        json.dumps(
            {
                "cuInit": status,
                "uuids": found,
                "environment": {name: os.environ[name] for name in NAMES if name in os.environ},
                "open": {path: opened(path) for path in files},
            }
        )
    )


main()
