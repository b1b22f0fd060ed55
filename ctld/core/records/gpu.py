"""Records of single GPUs: identity, health, and the work in progress on each.

A GPU is identified by its UUID. Index, minor and bus address are attributes, which a reboot may change. Within its node
it has a place among the allocatable devices (slot): allocations and masks refer to slots (gpus/inventory.py).
"""

from enum import IntEnum
from typing import NamedTuple

import msgspec

from penstock.values.gpustates import CLOSED_STATES, GpuState


class GpuAction(IntEnum):
    """The consequence of a report for the jobs that had the GPU; numbers of the wire."""

    NONE = 0
    NOTE = 1  # a line in their history
    MARK = 2  # the result is not to be trusted: when it ends, it is requeued or FAILED
    END = 3  # it is ended and requeued at once


class WorkKind(IntEnum):
    """Kinds of work on an idle GPU (gpus/work.py); numbers of the wire."""

    NONE = 0
    CHECK = 1  # test by the site's program
    RESET = 2  # reset by the site's program
    DIVIDE = 3  # into MIG instances, or back


class GpuFacts(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The identity of one GPU or MIG instance, as its node reports it. Kept as JSON in the database: a field is only
    added, with a default.
    """

    uuid: str
    index: int = 0  # as the node counts them, in PCI order
    minor: int = 0
    type: str = ""  # 0 = unknown
    memory_mb: int = 0  # 0 = not known
    name: str = ""
    bus_id: str = ""
    capability: str = ""  # of CUDA: "9.0"
    near_cpus: tuple[int, ...] = ()  # to the others of the same report, in its order; -1 = itself
    links: tuple[int, ...] = ()  # to the others of the same report, in its order; -1 = itself
    serial: str = ""
    parent: str = ""  # of a MIG instance: the UUID of the whole GPU
    profile: str = ""
    slices: int = 0
    mig_enabled: bool = False  # of a whole GPU: it is not allocated as one


class GpuOpinion(NamedTuple):
    """The health of a GPU, as its node judges it."""

    uuid: str
    state: GpuState = GpuState.HEALTHY
    reason: str = ""
    since_us: int = 0
    many_only: bool = False  # it may be used by jobs with one GPU
    wants_reset: bool = False  # a reset would help
    xids: tuple[tuple[int, int, int], ...] = ()  # XID, total count, last time; the newest first
    notes: tuple[str, ...] = ()  # remarks without consequence: ecc_pending, persistence_off


class Gpu(NamedTuple):
    """One GPU: record and committed row in one. It is never changed, only replaced. Primary key (node, uuid).

    Kept as JSON in the database: a field is only added, with a default.
    """

    node: str
    uuid: str
    slot: int  # place among the node's devices of name gpu; -1 = it has none
    facts: GpuFacts
    opinion: GpuOpinion
    is_there: bool = True  # the node reported it when it registered
    drained: bool = False  # by an administrator, which the node's reports do not undo
    drain_reason: str = ""
    drain_uid: int = 0
    drain_at_us: int = 0
    work_id: str = ""  # the work in progress on it (gpus/work.py); "" = none
    work_kind: int = 0
    work_until_us: int = 0
    layout: tuple[str, ...] | None = None  # profiles that it is, or is to be, divided into; None = as found
    given_as: str = ""  # the type by which jobs get it (gpus/types.py): that of its place, kept while a job holds one
    position: int = -1  # its index in the node's last report, which `facts.links` uses
    kept_for: int = 0  # the job for which it is to be divided when it is idle (mig_plan.py)
    divided_at_us: int = 0
    failed_at_us: tuple[int, ...] = ()  # recent failed divisions
    work_timeout_s: int = 0
    works: int = 0  # how many were ever begun
    must_check: bool = False  # it has failed and recovered: not allocated before a check (gpus/care.py)
    checked_at_us: int = 0
    must_clear: bool = False  # the node must clear its marks, on an administrator's order
    idle_job: int = 0  # the job that has it and leaves it idle (passes/gpu_idle.py)
    idle_attempt: int = 0
    idle_since_us: int = 0
    idle_unused: bool = False  # no process of that job has it open
    troubles: tuple[tuple[int, str], ...] = ()  # resets and failed checks of the last day: time and reason

    def state(self) -> GpuState:
        """Returns the effective state: the worst of the node's and the administrator's."""
        if not self.is_there:
            return GpuState.FAILED
        return max(self.opinion.state, GpuState.DRAINED if self.drained else GpuState.HEALTHY)

    def reason(self) -> str:
        """Returns the reason of the state, as text."""
        if not self.is_there:
            return self.opinion.reason or "not found when the node registered"
        if self.drained and self.opinion.state <= GpuState.DRAINED:
            return self.drain_reason
        if self.must_check and not self.opinion.reason:
            return "it waits for a check"
        return self.opinion.reason

    def is_closed(self) -> bool:
        """Whether no job may get it now."""
        by_node = self.opinion.state in CLOSED_STATES and not self.opinion.many_only
        return not self.is_there or self.drained or by_node or self.must_check or bool(self.work_id or self.kept_for)

    def is_for_one(self) -> bool:
        """Whether only jobs with one GPU get it."""
        return self.opinion.many_only and self.opinion.state in CLOSED_STATES


class Extra(NamedTuple):
    """A kind of GPUs that the planner counts separately (gpus/kinds.py)."""

    type: str  # "" = any
    least_mb: int
    for_many: bool
