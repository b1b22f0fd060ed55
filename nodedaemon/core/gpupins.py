"""The environment variables that name a task's GPUs, and the form of their values.

    CUDA_VISIBLE_DEVICES                                  with the maker `nvidia`
    ROCR_VISIBLE_DEVICES, ZE_AFFINITY_MASK,               with `amd`, `intel`, `opencl` (gres.conf, Flags)
        GPU_DEVICE_ORDINAL
    CUDA_DEVICE_ORDER=PCI_BUS_ID                          with `nvidia`: numbers are in the order of the bus, as ours
    NVIDIA_VISIBLE_DEVICES                                with `nvidia`: UUIDs, for containers; `void` = none

Values (Slurm's, but for the last two rules)
    - Numbers, in the order of the bus. They are the node's where the job could open every device, and 0 to n-1 where a
      device group hides the others: a program counts what it can open.
    - UUIDs with Flags=env_uuid, of MIG instances (they have no number that CUDA knows), and with MPS (its server counts
      again). CUDA does not take both kinds together, so one such GPU makes all of them UUIDs.
    - SLURM_JOB_GPUS and SLURM_STEP_GPUS are the node's numbers, always.
    - Without a GPU: unset where a device group hides all of them; else empty, since unset would mean all.
    - Only NVIDIA's have UUIDs that a variable can contain: those of other makers have numbers.

Deliberately absent: the assignment of GPUs to tasks (gpubind.py), and the denial of devices (cgroups/devices.py).
"""

from collections.abc import Sequence

import msgspec

NVIDIA = "nvidia"
#: Variable with a list of GPUs -> the maker whose devices it lists.
LISTS = {
    "CUDA_VISIBLE_DEVICES": NVIDIA,
    "ROCR_VISIBLE_DEVICES": "amd",
    "ZE_AFFINITY_MASK": "intel",
    "GPU_DEVICE_ORDINAL": "opencl",
}
MAKERS = tuple(LISTS.values())
VOID = "void"


class PinnedGpu(msgspec.Struct, frozen=True, gc=False):
    """One GPU of a step, with its names in the environment of the step's tasks."""

    number: int  # the node's, in the order of the bus; of a MIG instance its index among the node's devices
    uuid: str = ""  # "" = unknown
    by_uuid: bool = False  # it has no number that CUDA knows
    near_cpus: tuple[int, ...] = ()  # the kernel's numbers; () = near to all


class Pinning(msgspec.Struct, frozen=True, gc=False):
    """How the node names GPUs to jobs."""

    makers: tuple[str, ...] = (NVIDIA,)
    by_uuid: bool = False  # Flags=env_uuid
    is_fenced: bool = False  # a device group hides all others


def words(gpus: Sequence[PinnedGpu], pinning: Pinning, maker: str = NVIDIA) -> list[str]:
    """The name of each of a step's GPUs; `gpus` are all that the step can open."""
    uuids = maker == NVIDIA and (pinning.by_uuid or any(gpu.by_uuid for gpu in gpus))
    numbers = [place if pinning.is_fenced else gpu.number for place, gpu in enumerate(gpus)]
    return [gpu.uuid if uuids and gpu.uuid else str(number) for gpu, number in zip(gpus, numbers, strict=True)]


def listed(name: str, gpus: Sequence[PinnedGpu], pinning: Pinning, places: Sequence[int] | None = None) -> str | None:
    """Value of one of LISTS; `places`: only these of the GPUs. None = unset."""
    maker = LISTS[name]
    if maker not in pinning.makers:
        return None
    if not gpus:
        return None if pinning.is_fenced else ""
    made = words(gpus, pinning, maker)
    return ",".join(made if places is None else [made[place] for place in places])


def for_containers(gpus: Sequence[PinnedGpu], pinning: Pinning, places: Sequence[int] | None = None) -> str | None:
    """Value of NVIDIA_VISIBLE_DEVICES: interpreted outside a container, so never 0 to n-1."""
    if NVIDIA not in pinning.makers:
        return None
    mine = gpus if places is None else [gpus[place] for place in places]
    return ",".join(gpu.uuid or str(gpu.number) for gpu in mine) or VOID


def device_order(pinning: Pinning) -> str | None:
    """Value of CUDA_DEVICE_ORDER."""
    return "PCI_BUS_ID" if NVIDIA in pinning.makers else None


def numbers(gpus: Sequence[PinnedGpu]) -> str | None:
    """Value of SLURM_JOB_GPUS and SLURM_STEP_GPUS."""
    return ",".join(str(gpu.number) for gpu in gpus) or None


def of_task(gpus: Sequence[PinnedGpu], pinning: Pinning, places: Sequence[int]) -> dict[str, str]:
    """The variables of a task that has only these of its step's GPUs."""
    made = {name: listed(name, gpus, pinning, places) for name in LISTS}
    made["NVIDIA_VISIBLE_DEVICES"] = for_containers(gpus, pinning, places)
    return {name: value for name, value in made.items() if value is not None}
