"""The memory of the controller's process: when Python collects cycles, and when the C library returns free blocks."""

import ctypes
from typing import Final

#: Thresholds of the garbage collector's generations. Calls leave cycles behind: 20,000 young objects at a time blocked
#: the loop for 45 ms; now it is 1 ms, and 6 ms for the middle generation. The old generation contains the state, a
#: million objects without cycles; collecting it with 12,000 submissions blocks the loop for 100 ms. As it also contains
#: calls in progress, it is collected after some 10,000 calls, and not before it has grown by a quarter.
GC_THRESHOLDS: Final = (1_000, 5, 200)
#: Blocks of this size and above are mapped one by one. Smaller ones, as the columns of a queue of some 60,000 rows, are
#: reused by the next pass without page faults.
MMAP_FROM_BYTES: Final = 512 * 1024
#: Free memory that the heap keeps at its end.
FREE_AT_TOP_BYTES: Final = 1024 * 1024
#: Numbers of glibc's malloc.h.
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3


def set_limits() -> None:
    """Makes the C library return large blocks to the system when they are freed, where possible.

    By default glibc raises these limits up to 32 and 64 MB as large blocks are freed: after a pass over a long queue, or
    a long listing, the heap keeps that much.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, MMAP_FROM_BYTES)
        mallopt(_M_TRIM_THRESHOLD, FREE_AT_TOP_BYTES)


def release_free() -> None:
    """Returns memory that reading the database has left free in the C library's heap to the system, where possible."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
