"""The child that divides one GPU by MIG: destroys the present instances, creates the requested ones, and lists them.

    standard input    an Order, one line of JSON
    standard output   CallAnnounced, before each call; at last an Outcome
    descriptor 3      a locked file: prevents concurrent divisions

Rules
    - Nothing is touched while a process uses the GPU or one of its instances.
    - Instances are made largest first, each with one compute instance of its whole size. The driver chooses the places.
    - MIG mode is switched on for a division and off for a whole GPU. A GPU that needs a reset for that (A100) is not
      reset: the division fails, with this reason.
    - The result is verified by reading it back. When anything fails, the previous layout is made again, and verified.

It has no deadline of its own; the daemon kills it. Run by its path, like probe.py, with as few imports.
"""

import os
import sys
from collections.abc import Callable

# Any: answers of the library: pynvml has no types
from typing import Any

if not __package__:
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

import msgspec

from nodedaemon.core.gpumessages import Asking
from nodedaemon.gpu.migprotocol import CallAnnounced, DivisionOrder, DivisionOutcome
from nodedaemon.gpu.nvml import DriverError, GpuError, Nvml
from penstock.values.mig import GpuLayout, format_layout, in_order, is_profile

#: NVML_GPU_INSTANCE_PROFILE_COUNT of API 13, with some reserve.
PROFILES_MAX = 32
COMPUTE_PROFILES_MAX = 16
INSTANCES_MAX = 16
NOT_SUPPORTED = 3
#: Codes that mean that there is no such profile.
_ABSENT = (2, NOT_SUPPORTED, 6, 13)
#: Creating an instance of a large GPU takes seconds: only the daemon's deadline applies to calls.
SLOW_S = 3600.0


class DivisionRefused(Exception):
    """The GPU does not have, or no longer has, the requested layout; with the reason."""


class Card:
    """One GPU, while it is divided."""

    def __init__(self, nvml: Nvml, uuid: str) -> None:
        self._nvml = nvml
        self._uuid = uuid
        self._handle = self._call("nvmlDeviceGetHandleByUUID", uuid)
        self.mode = self._mode()
        self._profiles: dict[str, tuple[int, int]] = {}  # by name: id, compute slices

    def _call(self, function: str, *args: object) -> object:
        try:
            return self._nvml.raw(self._uuid, function, *args)
        except GpuError as error:
            raise DivisionRefused(f"{function}: {words_of(error.code)}") from None

    def _maybe(self, function: str, *args: object) -> Any:
        """Returns None for an unknown profile."""
        try:
            return self._nvml.raw(self._uuid, function, *args)
        except GpuError as error:
            if error.code in _ABSENT:
                return None
            raise DivisionRefused(f"{function}: {words_of(error.code)}") from None

    def _mode(self) -> bool:
        mode = self._maybe("nvmlDeviceGetMigMode", self._handle)
        if mode is None:
            raise DivisionRefused("this GPU cannot be divided by MIG")
        return bool(mode[0])

    def users(self) -> int:
        """Processes that use the GPU."""
        kinds = ("Compute", "Graphics", "MPSCompute")
        lists = (self._maybe(f"nvmlDeviceGet{kind}RunningProcesses", self._handle) for kind in kinds)
        return sum(len(found) for found in lists if found)

    def set_mode(self, divided: bool) -> None:
        """Switches MIG mode. Raises DivisionRefused where that needs a reset."""
        if divided == self.mode:
            return
        status = self._call("nvmlDeviceSetMigMode", self._handle, int(divided))
        self._handle = self._call("nvmlDeviceGetHandleByUUID", self._uuid)
        self.mode = self._mode()
        if status or self.mode != divided:
            raise DivisionRefused(
                f"MIG mode cannot be switched {'on' if divided else 'off'} without a reset of the GPU"
            )

    def profiles(self) -> dict[str, tuple[int, int]]:
        """The profiles it can be divided into."""
        for number in range(PROFILES_MAX) if not self._profiles else ():
            info = self._maybe("nvmlDeviceGetGpuInstanceProfileInfo", self._handle, number)
            if info is not None:
                name = info.name.decode() if isinstance(info.name, bytes) else info.name
                self._profiles[name.removeprefix("MIG ").strip().lower()] = (info.id, info.sliceCount)
        return self._profiles

    def instances(self) -> list[tuple[str, object]]:
        """GPU instances, with their profiles."""
        found: list[tuple[str, object]] = []
        for name, (profile, _) in self.profiles().items() if self.mode else ():
            handles = self._several("nvmlDeviceGetGpuInstances", "c_nvmlGpuInstance_t", self._handle, profile)
            found += [(name, handle) for handle in handles]
        return found

    def _several(self, function: str, type_: str, *args: object) -> list[object]:
        import ctypes

        import pynvml

        room, count = (getattr(pynvml, type_) * INSTANCES_MAX)(), ctypes.c_uint(INSTANCES_MAX)
        if self._maybe(function, *args, room, ctypes.byref(count)) is None:
            return []
        return [getattr(pynvml, type_).from_buffer_copy(room[i]) for i in range(min(count.value, INSTANCES_MAX))]

    def clear(self) -> None:
        """Destroys all instances."""
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

    def _compute_profile(self, instance: object, number: int) -> Any:
        """Of version 1, which all drivers know; engines are shared."""
        return self._maybe("nvmlGpuInstanceGetComputeInstanceProfileInfo", instance, number, 0, 1)

    def create(self, name: str) -> None:
        """Creates one instance, with a compute instance of its whole size."""
        if name not in self.profiles():
            raise DivisionRefused(f"it has no profile {name}; it has {', '.join(self.profiles()) or 'none'}")
        profile, slices = self.profiles()[name]
        instance = self._call("nvmlDeviceCreateGpuInstance", self._handle, profile)
        infos = (self._compute_profile(instance, number) for number in range(COMPUTE_PROFILES_MAX))
        whole = next((info.id for info in infos if info is not None and info.sliceCount == slices), None)
        if whole is None:
            raise DivisionRefused(f"no compute instance takes all of {name}")
        self._call("nvmlGpuInstanceCreateComputeInstance", instance, whole)

    def layout(self) -> GpuLayout | None:
        """The present layout; None = one that cannot be allocated to jobs, as MIG mode without instances."""
        if not self.mode:
            return ()
        names = [name for name, _ in self.instances()]
        most = self._maybe("nvmlDeviceGetMaxMigDeviceCount", self._handle) or 0
        handles = (self._maybe("nvmlDeviceGetMigDeviceHandleByIndex", self._handle, i) for i in range(most))
        if not names or sum(handle is not None for handle in handles) != len(names):
            return None
        return in_order(names) if all(map(is_profile, names)) else None

    def make(self, layout: GpuLayout) -> None:
        """Establishes the layout, whatever the present one is. Raises DivisionRefused."""
        if self.mode:
            self.clear()
        self.set_mode(bool(layout))
        for name in layout:
            self.create(name)
        now = self.layout()
        if now != layout:
            raise DivisionRefused(f"it is {'nothing' if now is None else format_layout(now)} when listed again")


def words_of(code: int) -> str:
    """NVML's text for an error."""
    import pynvml

    return str(pynvml.NVMLError(code))


def divide(nvml: Nvml, order: DivisionOrder) -> DivisionOutcome:
    """Divides the GPU, or restores the layout before."""
    before: GpuLayout | None = None
    try:
        card = Card(nvml, order.uuid)
        before = card.layout()
        if before == order.layout:
            return DivisionOutcome(True, layout=before)
        if users := card.users():
            return DivisionOutcome(False, f"{users} process(es) use the GPU", before)
    except DivisionRefused as problem:
        return DivisionOutcome(False, str(problem), before)
    try:
        card.make(order.layout)
    except DivisionRefused as problem:
        return _put_back(card, f"{format_layout(order.layout)}: {problem}", order.fallback, before)
    return DivisionOutcome(True, layout=order.layout)


def _put_back(card: Card, why: str, fallback: GpuLayout | None, before: GpuLayout | None) -> DivisionOutcome:
    back = before if before is not None else fallback or ()
    try:
        if card.layout() != back:
            card.make(back)
    except DivisionRefused as problem:
        return DivisionOutcome(
            False, f"{why}; it could not be made {format_layout(back)} again either: {problem}", None
        )
    return DivisionOutcome(False, f"{why}; it is {format_layout(back)} again", back)


def main() -> int:
    """Runs the child."""
    import ctypes

    ctypes.CDLL(None, use_errno=True).prctl(1, 9, 0, 0, 0)  # PR_SET_PDEATHSIG, SIGKILL: ends with the daemon
    encode: Callable[[CallAnnounced | DivisionOutcome], bytes] = msgspec.json.Encoder().encode

    def say(word: CallAnnounced | DivisionOutcome) -> None:
        os.write(1, encode(word) + b"\n")

    def announce(asking: Asking) -> None:
        say(CallAnnounced(asking.function))

    order = msgspec.json.decode(sys.stdin.buffer.readline(), type=DivisionOrder)
    nvml = Nvml(announce, SLOW_S)
    try:
        nvml.open()
        say(divide(nvml, order))
    except DriverError as error:
        say(DivisionOutcome(False, str(error)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
