"""The child that divides one GPU by MIG: what is there is destroyed, what is wanted is made, and listed anew.

    standard input    an Order, one line of JSON
    standard output   Doing, before each call; at last an Outcome
    descriptor 3      a locked file: two never divide at once

Rules
    - Nothing is touched while a process uses the GPU or one of its instances.
    - Instances are made largest first, each with one compute instance of its whole size. Where they lie is the driver's.
    - MIG mode is switched on for a division and off for a whole GPU. A GPU that wants a reset for that (A100) is not
      reset: it fails, in words.
    - What was made is verified by asking again. When anything fails, what was there before is made again, and verified.

It has no deadline of its own; the daemon kills it. Run by its path, like probe.py, and imports as little.
"""

import os
import sys
from collections.abc import Callable
from typing import Any

if not __package__:
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

import msgspec

from nodedaemon.core.gpuwords import Asking
from nodedaemon.gpu.migwords import Doing, Order, Outcome
from nodedaemon.gpu.nvml import DriverError, GpuError, Nvml
from penstock.values.mig import Layout, format_layout, in_order, is_profile

#: NVML_GPU_INSTANCE_PROFILE_COUNT of API 13, and room for more.
PROFILES_MAX = 32
COMPUTE_PROFILES_MAX = 16
INSTANCES_MAX = 16
NOT_SUPPORTED = 3
#: Codes that mean that there is no such profile.
_ABSENT = (2, NOT_SUPPORTED, 6, 13)
#: Creating an instance of a large GPU takes seconds: a call is only too slow when the daemon says so.
SLOW_S = 3600.0


class Refused(Exception):
    """Why the GPU is not, or is no longer, as it was wanted."""


class Card:
    """One GPU, for whoever changes it."""

    def __init__(self, nvml: Nvml, uuid: str) -> None:
        self._nvml, self._uuid = nvml, uuid
        self._handle = self._call("nvmlDeviceGetHandleByUUID", uuid)
        self.mode = self._mode()
        self._profiles: dict[str, tuple[int, int]] = {}  # by name: id, compute slices

    def _call(self, function: str, *args: Any) -> Any:
        try:
            return self._nvml.raw(self._uuid, function, *args)
        except GpuError as error:
            raise Refused(f"{function}: {words_of(error.code)}") from None

    def _maybe(self, function: str, *args: Any) -> Any:
        """None where there is no such thing."""
        try:
            return self._nvml.raw(self._uuid, function, *args)
        except GpuError as error:
            if error.code in _ABSENT:
                return None
            raise Refused(f"{function}: {words_of(error.code)}") from None

    def _mode(self) -> bool:
        mode = self._maybe("nvmlDeviceGetMigMode", self._handle)
        if mode is None:
            raise Refused("this GPU cannot be divided by MIG")
        return bool(mode[0])

    def users(self) -> int:
        """Processes that use it."""
        kinds = ("Compute", "Graphics", "MPSCompute")
        lists = (self._maybe(f"nvmlDeviceGet{kind}RunningProcesses", self._handle) for kind in kinds)
        return sum(len(found) for found in lists if found)

    def set_mode(self, divided: bool) -> None:
        """Switch MIG mode. Raises Refused where that takes a reset."""
        if divided == self.mode:
            return
        status = self._call("nvmlDeviceSetMigMode", self._handle, int(divided))
        self._handle = self._call("nvmlDeviceGetHandleByUUID", self._uuid)
        self.mode = self._mode()
        if status or self.mode != divided:
            raise Refused(f"MIG mode cannot be switched {'on' if divided else 'off'} without a reset of the GPU")

    def profiles(self) -> dict[str, tuple[int, int]]:
        """What it can be divided into."""
        for number in range(PROFILES_MAX) if not self._profiles else ():
            info = self._maybe("nvmlDeviceGetGpuInstanceProfileInfo", self._handle, number)
            if info is not None:
                name = info.name.decode() if isinstance(info.name, bytes) else info.name
                self._profiles[name.removeprefix("MIG ").strip().lower()] = (info.id, info.sliceCount)
        return self._profiles

    def instances(self) -> list[tuple[str, Any]]:
        """GPU instances, with their profiles."""
        found: list[tuple[str, Any]] = []
        for name, (profile, _) in self.profiles().items() if self.mode else ():
            handles = self._several("nvmlDeviceGetGpuInstances", "c_nvmlGpuInstance_t", self._handle, profile)
            found += [(name, handle) for handle in handles]
        return found

    def _several(self, function: str, type_: str, *args: Any) -> list[Any]:
        import ctypes

        import pynvml

        room, count = (getattr(pynvml, type_) * INSTANCES_MAX)(), ctypes.c_uint(INSTANCES_MAX)
        if self._maybe(function, *args, room, ctypes.byref(count)) is None:
            return []
        return [getattr(pynvml, type_).from_buffer_copy(room[i]) for i in range(min(count.value, INSTANCES_MAX))]

    def clear(self) -> None:
        """Destroy all instances."""
        for _, instance in self.instances():
            for number in range(COMPUTE_PROFILES_MAX):
                info = self._compute_profile(instance, number)
                for compute in (
                    self._several("nvmlGpuInstanceGetComputeInstances", "c_nvmlComputeInstance_t", instance, info.id)
                    if info is not None
                    else ()
                ):
                    self._call("nvmlComputeInstanceDestroy", compute)
            self._call("nvmlGpuInstanceDestroy", instance)

    def _compute_profile(self, instance: Any, number: int) -> Any:
        """Of version 1, which all drivers know; engines are shared."""
        return self._maybe("nvmlGpuInstanceGetComputeInstanceProfileInfo", instance, number, 0, 1)

    def create(self, name: str) -> None:
        """One instance, with a compute instance that has all of it."""
        if name not in self.profiles():
            raise Refused(f"it has no profile {name}; it has {', '.join(self.profiles()) or 'none'}")
        profile, slices = self.profiles()[name]
        instance = self._call("nvmlDeviceCreateGpuInstance", self._handle, profile)
        infos = (self._compute_profile(instance, number) for number in range(COMPUTE_PROFILES_MAX))
        whole = next((info.id for info in infos if info is not None and info.sliceCount == slices), None)
        if whole is None:
            raise Refused(f"no compute instance takes all of {name}")
        self._call("nvmlGpuInstanceCreateComputeInstance", instance, whole)

    def layout(self) -> Layout | None:
        """What it is divided into; None = in a way that jobs cannot be given, as MIG mode without instances."""
        if not self.mode:
            return ()
        names = [name for name, _ in self.instances()]
        most = self._maybe("nvmlDeviceGetMaxMigDeviceCount", self._handle) or 0
        handles = (self._maybe("nvmlDeviceGetMigDeviceHandleByIndex", self._handle, i) for i in range(most))
        if not names or sum(handle is not None for handle in handles) != len(names):
            return None
        return in_order(names) if all(map(is_profile, names)) else None

    def make(self, layout: Layout) -> None:
        """Be so, whatever it is now. Raises Refused."""
        if self.mode:
            self.clear()
        self.set_mode(bool(layout))
        for name in layout:
            self.create(name)
        now = self.layout()
        if now != layout:
            raise Refused(f"it is {'nothing' if now is None else format_layout(now)} when listed again")


def words_of(code: int) -> str:
    """NVML's words for an error."""
    import pynvml

    return str(pynvml.NVMLError(code))


def divide(nvml: Nvml, order: Order) -> Outcome:
    """Do it, or put back what was."""
    before: Layout | None = None
    try:
        card = Card(nvml, order.uuid)
        before = card.layout()
        if before == order.layout:
            return Outcome(True, layout=before)
        if users := card.users():
            return Outcome(False, f"{users} process(es) use the GPU", before)
    except Refused as problem:
        return Outcome(False, str(problem), before)
    try:
        card.make(order.layout)
    except Refused as problem:
        return _put_back(card, f"{format_layout(order.layout)}: {problem}", order.fallback, before)
    return Outcome(True, layout=order.layout)


def _put_back(card: Card, why: str, fallback: Layout | None, before: Layout | None) -> Outcome:
    back = before if before is not None else fallback or ()
    try:
        if card.layout() != back:
            card.make(back)
    except Refused as problem:
        return Outcome(False, f"{why}; it could not be made {format_layout(back)} again either: {problem}", None)
    return Outcome(False, f"{why}; it is {format_layout(back)} again", back)


def main() -> int:
    """The child's whole life."""
    import ctypes

    ctypes.CDLL(None, use_errno=True).prctl(1, 9, 0, 0, 0)  # PR_SET_PDEATHSIG, SIGKILL: ends with the daemon
    encode: Callable[[Doing | Outcome], bytes] = msgspec.json.Encoder().encode

    def say(word: Doing | Outcome) -> None:
        os.write(1, encode(word) + b"\n")

    def announce(asking: Asking) -> None:
        say(Doing(asking.function))

    order = msgspec.json.decode(sys.stdin.buffer.readline(), type=Order)
    nvml = Nvml(announce, SLOW_S)
    try:
        nvml.open()
        say(divide(nvml, order))
    except DriverError as error:
        say(Outcome(False, str(error)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
