"""By which variables the jobs of a node are told of their GPUs: Flags and AutoDetect of gres.conf(5).

    a line has *_gpu_env or opencl_env      those makers'
    no_gpu_env                              none
    no such flag, AutoDetect=nvml           NVIDIA's (rsmi: AMD's, oneapi: Intel's)
    no such flag, no AutoDetect or off      all four
    no line for the node, no AutoDetect     as the node finds: NVIDIA's where NVML answers

Flags of all lines of a node count together: a node has one set of variables, not one for each GPU.
"""

from collections.abc import Sequence

_ENV = {"nvidia_gpu_env": "nvidia", "amd_gpu_env": "amd", "intel_gpu_env": "intel", "opencl_env": "opencl"}
_DETECTED = {
    "nvml": ("nvidia",), "nvidia": ("nvidia",), "full": ("nvidia",), "rsmi": ("amd",), "oneapi": ("intel",), "nrt": ("none",),
}  # fmt: skip
ALL = tuple(_ENV.values())
NONE = ("none",)
#: Nothing is done about these.
UNUSED_FLAGS = frozenset(("one_sharing", "explicit", "no_consume"))


def pinned_by(detect: str, lines: Sequence[tuple[str, ...]]) -> tuple[tuple[str, ...], bool]:
    """Makers whose variables are set (() = as the node finds), and whether CUDA's holds UUIDs. `lines`: flags of each."""
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
