"""A step's life on a node, as a table.

    UNKNOWN -> ACCEPTED -> RUNNING -> EXITED -> FORGOTTEN
    UNKNOWN -> TOMBSTONE -> FORGOTTEN        ended before its launch came: it never starts

ACCEPTED means that the fence record is (about to be) on disk and the launch ordered; RUNNING that the task's program
runs; EXITED that the end is journaled and waits for the controller's word that it is committed; FORGOTTEN is
remembered, within a limit, only so that a launch that comes again starts nothing. The numbers of ACCEPTED to
TOMBSTONE are those of the wire's HeldStep.State.
"""

from enum import IntEnum

import msgspec


class StepState(IntEnum):
    """Where a step is. `TRANSITIONS` says where it may go."""

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


#: How many seconds without contact a step stops itself after, and the grace then: of one that never does.
NO_LEASE = (0, 0)


class IllegalMove(Exception):
    """A move that the table does not list: a bug, never a peer's fault."""


class StepKey(msgspec.Struct, frozen=True, order=True, gc=False, array_like=True):
    """What a step is called everywhere: never launched twice."""

    job_id: int
    attempt: int
    step_id: int

    def __str__(self) -> str:
        return f"{self.job_id}.{self.attempt}.{self.step_id}"


class Step:
    """One step that the node holds. `move` is the only place where `state` changes."""

    __slots__ = (
        "due_at_us", "epoch", "key", "kill_at_us", "kill_note", "killed", "lease", "start_at_us", "state",
        "stop_at_us", "suspended", "unkillable",
    )  # fmt: skip

    def __init__(self, key: StepKey, epoch: int) -> None:
        self.key = key
        self.epoch = epoch
        self.state = StepState.UNKNOWN
        self.start_at_us = 0
        self.lease = NO_LEASE
        self.kill_at_us = 0  # 0 = nobody wants it to end
        self.kill_note = ""
        self.killed = False  # SIGKILL has been sent
        self.suspended = False  # its processes are to stand still
        self.stop_at_us = 0  # when SIGSTOP follows SIGTSTP, 0 = not due
        self.due_at_us = 0  # when the next act of its end is due, 0 = none is
        self.unkillable = False  # SIGKILL was in vain, and the controller knows

    def move(self, to: StepState) -> None:
        """Go along the table."""
        if to not in TRANSITIONS[self.state]:
            raise IllegalMove(f"step {self.key}: {self.state.name} -> {to.name}")
        self.state = to

    @property
    def is_live(self) -> bool:
        """True while a process of it runs or may come to run."""
        return self.state in (StepState.ACCEPTED, StepState.RUNNING)
