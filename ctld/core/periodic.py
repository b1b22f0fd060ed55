"""Records of what comes again and again: crontabs and triggers, with what of them has changed since the last seal.

Rows are whole records; they are replaced, never changed. crontabs.py and triggers.py hold the rules.
"""

from enum import IntFlag
from typing import TYPE_CHECKING, NamedTuple

from penstock.values.cron import DAYS_MAX, next_us, parse_spec
from penstock.values.localtime import DAY_S, US

if TYPE_CHECKING:
    from ctld.core.state import ClusterState
    from penstock.values.localtime import Offsets


class CronJob(NamedTuple):
    """An entry of a crontab as it was accepted: its job, and its lines in the text, from 1."""

    job_id: int
    first_line: int
    last_line: int


class Crontab(NamedTuple):
    """One user's crontab. Primary key uid."""

    uid: int
    user_name: str
    text: str
    jobs: tuple[CronJob, ...]
    disabled: tuple[tuple[int, int], ...]  # lines of entries whose job was cancelled
    changed_at_us: int


class TriggerKind(IntFlag):
    """What a trigger waits for."""

    DOWN = 1
    UP = 2
    DRAINED = 4
    FAIL = 8
    IDLE = 16
    TIME = 32  # of a job: its time limit
    FINI = 64  # of a job: its end
    RECONFIG = 128
    CONTROLLER_UP = 256
    NEVER = 512  # what cannot happen to this controller: see `what`
    DRAINING = 1024


#: Kinds that look at nodes, and at a job alone.
OF_NODES = (
    TriggerKind.DOWN | TriggerKind.UP | TriggerKind.DRAINED | TriggerKind.DRAINING | TriggerKind.FAIL | TriggerKind.IDLE
)
OF_JOB = TriggerKind.TIME | TriggerKind.FINI


class Trigger(NamedTuple):
    """One trigger. Primary key trigger_id.

    It waits (`due_at_us` 0); something has happened, to `hit`, and it is due; its program runs (`running` is its
    argument) until TriggerEnded.
    """

    trigger_id: int
    uid: int
    gid: int
    user_name: str
    kinds: int
    what: str  # of NEVER: Slurm's word for it
    nodes: tuple[str, ...]  # () = all
    job_id: int  # 0 = of no job
    offset_s: int
    program: str
    permanent: bool
    created_at_us: int
    due_at_us: int = 0
    hit: tuple[str, ...] = ()
    running: str | None = None


class Periodic:
    """All crontabs and triggers."""

    __slots__ = ("crontabs", "dirty", "look_at_us", "next_trigger_id", "rose", "seen", "triggers")

    def __init__(self) -> None:
        self.crontabs: dict[int, Crontab] = {}  # by uid
        self.triggers: dict[int, Trigger] = {}
        self.next_trigger_id = 1
        self.dirty: dict[tuple[str, int], None] = {}  # (crontab or trigger, key)
        self.seen: dict[str, int] = {}  # node -> kinds that were true of it when triggers looked last
        self.rose: dict[str, int] = {}  # node -> kinds that have become true of it since then
        self.look_at_us = 0  # when triggers are looked at next; 0 = nothing is set

    def put_crontab(self, crontab: Crontab) -> None:
        """Add or replace."""
        self.crontabs[crontab.uid] = crontab
        self.dirty["crontab", crontab.uid] = None

    def drop_crontab(self, uid: int) -> None:
        """Forget."""
        del self.crontabs[uid]
        self.dirty["crontab", uid] = None

    def put_trigger(self, trigger: Trigger) -> None:
        """Add or replace."""
        self.triggers[trigger.trigger_id] = trigger
        self.dirty["trigger", trigger.trigger_id] = None

    def drop_trigger(self, trigger_id: int) -> None:
        """Forget."""
        del self.triggers[trigger_id]
        self.dirty["trigger", trigger_id] = None


def next_start_us(state: "ClusterState", cron: str, now_us: int) -> int:
    """When a line of a crontab is due next."""
    offsets: Offsets = state.config.utc_offsets
    # A line that is never due is refused when it comes, so the far future is only what the type wants.
    return next_us(parse_spec(cron + " ")[0], offsets, now_us) or now_us + DAYS_MAX * DAY_S * US
