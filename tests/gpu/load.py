"""A program for a job: `load.py WHERE MIB FOLDER` holds memory of the first GPU it sees and keeps it busy.

It ends when FOLDER/stop.JOB is there, or after LIMIT_S.

It leaves FOLDER/PID with the job's number and what it holds, so that the test knows whose a process is. WHERE is `real`: bf16 matrix products where
torch is, else the driver fills the memory again and again; or `fake`: FOLDER is all that the fake's driver needs to know.
"""

import ctypes
import os
import sys
import time

LIMIT_S = 600


class Till:
    """True until it is time to end."""

    def __init__(self, folder: str) -> None:
        self._stop = os.path.join(folder, f"stop.{os.environ['SLURM_JOB_ID']}")
        self._end = time.monotonic() + LIMIT_S

    def goes_on(self) -> bool:
        return not os.path.exists(self._stop) and time.monotonic() < self._end


def hold(folder: str, mib: int) -> None:
    text = f"{os.environ['SLURM_JOB_ID']} {os.environ.get('CUDA_VISIBLE_DEVICES', '')} {mib}\n"
    path = os.path.join(folder, str(os.getpid()))
    with open(path + ".new", "w") as file:
        file.write(text)
    os.rename(path + ".new", path)


def by_torch(mib: int, till: Till) -> None:
    import torch

    held = torch.empty(mib << 20, dtype=torch.uint8, device="cuda")
    held.fill_(1)
    a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    while till.goes_on():
        for _ in range(50):
            a @ b
        torch.cuda.synchronize()


def by_driver(mib: int, till: Till) -> None:
    cuda = ctypes.CDLL("libcuda.so.1")
    device, context, memory = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
    assert cuda.cuInit(0) == 0
    assert cuda.cuDeviceGet(ctypes.byref(device), 0) == 0
    assert cuda.cuCtxCreate_v2(ctypes.byref(context), 0, device) == 0
    assert cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(mib << 20)) == 0
    while till.goes_on():
        for value in range(50):
            assert cuda.cuMemsetD8_v2(memory, ctypes.c_ubyte(value), ctypes.c_size_t(mib << 20)) == 0
        assert cuda.cuCtxSynchronize() == 0


def main() -> None:
    where, mib, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    till = Till(folder)
    hold(folder, mib)
    if where == "fake":
        while till.goes_on():
            time.sleep(0.05)
        return
    try:
        import torch  # noqa: F401
    except ImportError:
        by_driver(mib, till)
    else:
        by_torch(mib, till)


main()
