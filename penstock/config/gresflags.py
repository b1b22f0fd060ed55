"""The environment variables that name a job's GPUs on a node: Flags and AutoDetect of gres.conf(5).

    a line has *_gpu_env or opencl_env      those vendors' variables
    no_gpu_env                              none
    no such flag, AutoDetect=nvml           NVIDIA's (rsmi: AMD's, oneapi: Intel's)
    no such flag, no AutoDetect or off      all four
    no line for the node, no AutoDetect     as the node detects: NVIDIA's if NVML answers

The flags of all lines of a node are combined: a node has one set of variables, not one per GPU.
"""

from collections.abc import Sequence

_ENV = {"nvidia_gpu_env": "nvidia", "amd_gpu_env": "amd", "intel_gpu_env": "intel", "opencl_env": "opencl"}
_DETECTED = {
    "nvml": ("nvidia",), "nvidia": ("nvidia",), "full": ("nvidia",), "rsmi": ("amd",), "oneapi": ("intel",), "nrt": ("none",),
}  # fmt: skip
ALL = tuple(_ENV.values())
NONE = ("none",)
#: Accepted without effect.
UNUSED_FLAGS = frozenset(("one_sharing", "explicit", "no_consume"))


def pinned_by(detect: str, lines: Sequence[tuple[str, ...]]) -> tuple[tuple[str, ...], bool]:
    """Returns the vendors whose variables are set (() = as detected), and whether CUDA's contains UUIDs. `lines`: flags
    by line.
    """
    flags = {flag for line in lines for flag in line}
    makers = tuple(maker for flag, maker in _ENV.items() if flag in flags)
    by_uuid = "env_uuid" in flags
    if makers:
        return makers, by_uuid
    if "no_gpu_env" in flags:
        return NONE, by_uuid
    if detect in _DETECTED:
        return _DETECTED[detect], by_uuid
    return (ALL if lines or detect == "off" else ()), by_uuid
