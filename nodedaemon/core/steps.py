"""The life cycle of a step on a node, as a table.

    UNKNOWN -> ACCEPTED -> RUNNING -> EXITED -> FORGOTTEN
    UNKNOWN -> TOMBSTONE -> FORGOTTEN        ended before its launch came: it never starts

ACCEPTED means that the fence record is (about to be) on disk and the launch ordered; RUNNING that the task's program
runs; EXITED that the end is journaled and waits for the controller's acknowledgement that it is committed; FORGOTTEN is
remembered, within a limit, only so that a repeated launch starts nothing. The numbers of ACCEPTED to TOMBSTONE are
those of the wire's HeldStep.State.
"""

from enum import IntEnum

import msgspec

JobKey = tuple[int, int]  # job id and attempt


class StepState(IntEnum):
    """The states of a step. `TRANSITIONS` lists the changes allowed."""

    UNKNOWN = 0
    ACCEPTED = 1
    RUNNING = 2
    EXITED = 3
    TOMBSTONE = 4
    FORGOTTEN = 5


S = StepState
TRANSITIONS: dict[StepState, frozenset[StepState]] = {
    S.UNKNOWN: frozenset({S.ACCEPTED, S.TOMBSTONE, S.FORGOTTEN}),
    S.ACCEPTED: frozenset({S.RUNNING, S.EXITED}),
    S.RUNNING: frozenset({S.EXITED}),
    S.EXITED: frozenset({S.FORGOTTEN}),
    S.TOMBSTONE: frozenset({S.FORGOTTEN}),
    S.FORGOTTEN: frozenset(),
}


#: Seconds without contact after which a step stops itself, and the grace then, for a step without a lease.
NO_LEASE = (0, 0)


class IllegalStepMove(Exception):
    """A transition that the table does not list: a bug, never a peer's fault."""


class StepKey(msgspec.Struct, frozen=True, order=True, gc=False, array_like=True):
    """The identity of a step everywhere: never launched twice."""

    job_id: int
    attempt: int
    step_id: int

    def __str__(self) -> str:
        return f"{self.job_id}.{self.attempt}.{self.step_id}"


class CpuSets(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The CPUs of a step and of its job, by the kernel's numbers: bit masks in hexadecimal; "" = any."""

    step: str = ""
    job: str = ""


ANY_CPUS = CpuSets()


class NodeStep:
    """One step in the node's state. `move` is the only place where `state` changes."""

    __slots__ = (
        "cpus", "due_at_us", "epoch", "key", "kill_at_us", "kill_note", "killed", "lease", "signal_at_us", "signals_due",
        "span", "start_at_us", "state", "suspended", "unkillable",
    )  # fmt: skip

    def __init__(self, key: StepKey, epoch: int) -> None:
        self.key = key
        self.epoch = epoch
        self.state = StepState.UNKNOWN
        self.start_at_us = 0
        self.lease = NO_LEASE
        self.span = b""
        self.kill_at_us = 0  # 0 = it need not end
        self.kill_note = ""
        self.killed = False  # SIGKILL has been sent
        self.signals_due: list[tuple[int, int]] = []  # (signal, scope) that arrived while the step was being started
        self.suspended = False  # its processes are to be stopped
        self.cpus = ANY_CPUS  # where they continued when they were last resumed
        self.signal_at_us = 0  # when SIGSTOP follows SIGTSTP; after a restart, what its records ask for; 0 = not due
        self.due_at_us = 0  # when the next action of its termination is due, 0 = none is
        self.unkillable = False  # SIGKILL had no effect, and this was reported

    def move(self, to: StepState) -> None:
        """Changes the state along the table."""
        if to not in TRANSITIONS[self.state]:
            raise IllegalStepMove(f"step {self.key}: {self.state.name} -> {to.name}")
        self.state = to

    @property
    def is_live(self) -> bool:
        """True while a process of it runs or may yet run."""
        return self.state in (StepState.ACCEPTED, StepState.RUNNING)

    def is_other(self, suspended: bool, cpus: CpuSets) -> bool:
        """Whether it is not suspended as said, or is to run on other CPUs than it was last moved to. An order to suspend,
        and the one to resume with its CPUs, may both have been lost."""
        return self.suspended != suspended or (not suspended and cpus not in (ANY_CPUS, self.cpus))
