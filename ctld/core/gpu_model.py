"""Records of GPUs that are known one by one: what the node says each is, what is thought of it, what is done to it.

A GPU is who its UUID says. Index, minor and bus address are attributes, which a reboot may change. Within its node it has
a place among the devices that jobs are given (slot): allocations and masks speak of slots (gpus.py).
"""

from enum import IntEnum
from typing import NamedTuple

import msgspec

from penstock.values.gpustates import CLOSED_STATES, GpuState


class GpuAction(IntEnum):
    """What a report means for the jobs that had the GPU; numbers of the wire."""

    NONE = 0
    NOTE = 1  # a line in their story
    MARK = 2  # the result is not to be trusted: when it ends, it is requeued or FAILED
    END = 3  # it is ended and requeued at once


class WorkKind(IntEnum):
    """What may be done to an idle GPU (gpu_work.py); numbers of the wire."""

    NONE = 0
    CHECK = 1  # the site's program tests it
    RESET = 2  # the site's program resets it
    DIVIDE = 3  # into MIG instances, or back


class GpuFacts(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What a node says of one GPU or MIG instance. Kept as JSON in the database: a field is only added, with a default."""

    uuid: str
    index: int = 0  # as the node counts them, in PCI order
    minor: int = 0
    type: str = ""  # h200, 1g.10gb, ...
    memory_mb: int = 0  # 0 = not known
    name: str = ""
    bus_id: str = ""
    capability: str = ""  # of CUDA: "9.0"
    near_cpus: tuple[int, ...] = ()  # cpu numbers (devices.py); () = all alike
    links: tuple[int, ...] = ()  # to the others of the same report, in its order; -1 = itself
    serial: str = ""
    parent: str = ""  # of a MIG instance: the UUID of the whole GPU
    profile: str = ""
    slices: int = 0
    mig_enabled: bool = False  # of a whole GPU: it is not given as one


class GpuOpinion(NamedTuple):
    """What the node thinks of a GPU."""

    uuid: str
    state: GpuState = GpuState.HEALTHY
    reason: str = ""
    since_us: int = 0
    many_only: bool = False  # it is good enough for jobs with one GPU
    wants_reset: bool = False  # a reset would help
    xids: tuple[tuple[int, int, int], ...] = ()  # XID, how often ever, when last; the newest first
    notes: tuple[str, ...] = ()  # words on what changes nothing: ecc_pending, persistence_off


class Gpu(NamedTuple):
    """One GPU: record and committed row in one. It is never changed, only replaced. Primary key (node, uuid).

    Kept as JSON in the database: a field is only added, with a default.
    """

    node: str
    uuid: str
    slot: int  # place among the node's devices of name gpu; -1 = it has none
    facts: GpuFacts
    opinion: GpuOpinion
    is_there: bool = True  # the node named it when it registered
    drained: bool = False  # by an administrator, whose word the node does not undo
    drain_reason: str = ""
    drain_uid: int = 0
    drain_at_us: int = 0
    work_id: str = ""  # something is done to it (gpu_work.py); "" = nothing
    work_kind: int = 0
    work_until_us: int = 0
    layout: tuple[str, ...] | None = None  # profiles that it is, or is to be, divided into; None = as it was found
    given_as: str = ""  # the type by which jobs get it (gpu_types.py): of its place, kept while a job holds one
    position: int = -1  # in the node's last report, by which `facts.links` count
    kept_for: int = 0  # the job for which it is to be divided when it is idle (mig.py)
    divided_at_us: int = 0
    failed_at_us: tuple[int, ...] = ()  # divisions that failed, lately
    work_timeout_s: int = 0
    works: int = 0  # how many were ever begun
    must_check: bool = False  # it has failed and is well again: nobody gets it before it has been checked (gpu_care.py)
    checked_at_us: int = 0
    must_clear: bool = False  # its node is to be told that an administrator has seen to it
    idle_job: int = 0  # which has it and does nothing with it (gpu_idle.py)
    idle_attempt: int = 0
    idle_since_us: int = 0
    idle_unused: bool = False  # no process of that job has it open
    troubles: tuple[tuple[int, str], ...] = ()  # resets and failed checks of the last day: when, for what reason

    def state(self) -> GpuState:
        """What counts: the worst of what the node and the administrator say."""
        if not self.is_there:
            return GpuState.FAILED
        return max(self.opinion.state, GpuState.DRAINED if self.drained else GpuState.HEALTHY)

    def reason(self) -> str:
        """Why it is in that state, in words."""
        if not self.is_there:
            return self.opinion.reason or "not found when the node registered"
        if self.drained and self.opinion.state <= GpuState.DRAINED:
            return self.drain_reason
        if self.must_check and not self.opinion.reason:
            return "it waits for a check"
        return self.opinion.reason

    def is_closed(self) -> bool:
        """No job gets it now."""
        by_node = self.opinion.state in CLOSED_STATES and not self.opinion.many_only
        return not self.is_there or self.drained or by_node or self.must_check or bool(self.work_id or self.kept_for)

    def is_for_one(self) -> bool:
        """Only jobs with one GPU get it."""
        return self.opinion.many_only and self.opinion.state in CLOSED_STATES
