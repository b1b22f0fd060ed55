#!/usr/bin/env python3
"""A check of one GPU for PenstockGpuCheckProgram: memory and arithmetic, in a minute, with the driver's library alone.

    PenstockGpuCheckProgram=/opt/penstock/gpu-check/check.py

Exit status 0 = the GPU is well. Else 1, and one line says why. Which GPU: CUDA_VISIBLE_DEVICES (its UUID), as the node
daemon sets it; by hand: CUDA_VISIBLE_DEVICES=GPU-... ./check.py

It fills most of the free memory with patterns, lets the card copy them, and compares; then the card adds up numbers in a
small kernel (PTX, which the driver compiles), and the sums are compared with what they must be. It needs no CUDA toolkit,
only libcuda.so.1, and sets nothing on the card.
"""

import ctypes
import itertools
import os
import random
import struct
import sys

#: Of the free memory; the rest is for the driver.
SHARE = 0.8
PIECE_BYTES = 256 * 1024 * 1024
#: Bytes of a piece that are read back and compared on the host; the card has copied all of it.
LOOK_BYTES = 1024 * 1024
PATTERNS = (0x00000000, 0xFFFFFFFF, 0xAAAAAAAA, 0x55555555)
THREADS, BLOCKS, ROUNDS = 256, 1024, 4096
#: x = x * 1664525 + 1013904223, ROUNDS times, for each thread its own x.
PTX = b"""
.version 6.0
.target sm_50
.address_size 64
.visible .entry sums(.param .u64 out, .param .u32 rounds)
{
    .reg .u32 %r<9>;
    .reg .u64 %d<4>;
    .reg .pred %p<2>;
    ld.param.u64 %d1, [out];
    ld.param.u32 %r1, [rounds];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.u32 %r5, %r2, %r3, %r4;
    mov.u32 %r6, %r5;
    mov.u32 %r7, 0;
again:
    mad.lo.u32 %r6, %r6, 1664525, 1013904223;
    add.u32 %r7, %r7, 1;
    setp.lt.u32 %p1, %r7, %r1;
    @%p1 bra again;
    cvta.to.global.u64 %d1, %d1;
    mul.wide.u32 %d2, %r5, 4;
    add.u64 %d3, %d1, %d2;
    st.global.u32 [%d3], %r6;
    ret;
}
"""


class Broken(Exception):
    """The GPU is not well; the text says why."""


class Cuda:
    """The driver's functions; each failure is a Broken that names the function."""

    def __init__(self) -> None:
        try:
            self._library = ctypes.CDLL(os.environ.get("GPU_CHECK_LIBCUDA", "libcuda.so.1"))
        except OSError as error:
            raise Broken(f"libcuda.so.1 cannot be loaded: {error}") from error

    def __call__(self, name: str, *arguments: object) -> None:
        code = getattr(self._library, name)(*arguments)
        if code:
            text = ctypes.c_char_p()
            self._library.cuGetErrorName(code, ctypes.byref(text))
            raise Broken(f"{name}: {(text.value or b'error').decode()} ({code})")


def open_gpu(cuda: Cuda) -> None:
    """A context on the one GPU that is visible."""
    device, context = ctypes.c_int(), ctypes.c_void_p()
    cuda("cuInit", 0)
    cuda("cuDeviceGet", ctypes.byref(device), 0)
    cuda("cuCtxCreate_v2", ctypes.byref(context), 0, device)


def check_memory(cuda: Cuda) -> int:
    """Patterns through most of the memory; how many MiB."""
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    cuda("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
    size = min(PIECE_BYTES, int(free.value * SHARE) // 2 // LOOK_BYTES * LOOK_BYTES)
    if size < LOOK_BYTES:
        raise Broken(f"memory: only {free.value // 2**20} MiB of {total.value // 2**20} MiB are free")
    pieces = []
    for _ in range(int(free.value * SHARE) // size):
        piece = ctypes.c_uint64()
        cuda("cuMemAlloc_v2", ctypes.byref(piece), ctypes.c_size_t(size))
        pieces.append(piece)
    seen = ctypes.create_string_buffer(LOOK_BYTES)
    for pattern in PATTERNS:
        cuda("cuMemsetD32_v2", pieces[0], ctypes.c_uint(pattern), ctypes.c_size_t(size // 4))
        for source, target in itertools.pairwise(pieces):
            cuda("cuMemcpyDtoD_v2", target, source, ctypes.c_size_t(size))
        wanted = struct.pack("<I", pattern) * (LOOK_BYTES // 4)
        for number in {len(pieces) - 1, random.randrange(len(pieces))}:  # noqa: S311 (any piece will do)
            offset = random.randrange(size // LOOK_BYTES) * LOOK_BYTES  # noqa: S311
            cuda("cuMemcpyDtoH_v2", seen, ctypes.c_uint64(pieces[number].value + offset), ctypes.c_size_t(LOOK_BYTES))
            if seen.raw != wanted:
                raise Broken(f"memory: pattern {pattern:#010x} came back changed in piece {number}")
    for piece in pieces:
        cuda("cuMemFree_v2", piece)
    return len(pieces) * size // 2**20


def check_sums(cuda: Cuda) -> None:
    """The same sums on the card and here."""
    module, function, out = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
    count = THREADS * BLOCKS
    cuda("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(PTX))
    cuda("cuModuleGetFunction", ctypes.byref(function), module, b"sums")
    cuda("cuMemAlloc_v2", ctypes.byref(out), ctypes.c_size_t(4 * count))
    rounds = ctypes.c_uint(ROUNDS)
    arguments = (ctypes.c_void_p * 2)(
        ctypes.cast(ctypes.byref(out), ctypes.c_void_p), ctypes.cast(ctypes.byref(rounds), ctypes.c_void_p)
    )
    cuda("cuLaunchKernel", function, BLOCKS, 1, 1, THREADS, 1, 1, 0, None, arguments, None)
    cuda("cuCtxSynchronize")
    sums = (ctypes.c_uint32 * count)()
    cuda("cuMemcpyDtoH_v2", sums, out, ctypes.c_size_t(4 * count))
    factor, more = 1, 0  # x -> factor * x + more is ROUNDS rounds in one
    for _ in range(ROUNDS):
        factor, more = factor * 1664525 % 2**32, (more * 1664525 + 1013904223) % 2**32
    for number, found in enumerate(sums):
        if found != (factor * number + more) % 2**32:
            raise Broken(f"arithmetic: thread {number} has {found}, not {(factor * number + more) % 2**32}")


def main() -> int:
    """The exit status."""
    try:
        cuda = Cuda()
        open_gpu(cuda)
        tested_mb = check_memory(cuda)
        check_sums(cuda)
    except Broken as error:
        print(error)
        return 1
    print(f"well: {tested_mb} MiB and {THREADS * BLOCKS} sums")
    return 0


if __name__ == "__main__":
    sys.exit(main())
