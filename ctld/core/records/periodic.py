"""Records of recurring work: crontabs and triggers, with their changes since the last seal.

Rows are whole records; they are replaced, never modified. requests/crontabs.py and lifecycle/triggers.py have the
rules.
"""

from enum import IntFlag
from typing import NamedTuple

from penstock.values.cron import DAYS_MAX, CronSpec, next_us, parse_spec
from penstock.values.localtime import DAY_S, US, Offsets


class CronJob(NamedTuple):
    """An accepted entry of a crontab: its job, and its lines in the text, from 1."""

    job_id: int
    first_line: int
    last_line: int


class Crontab(NamedTuple):
    """One user's crontab. Primary key uid."""

    # made by tools/records: row of crontab
    uid: int
    user_name: str
    text: str
    jobs: tuple[CronJob, ...]
    disabled: tuple[tuple[int, int], ...]  # lines of entries whose job was cancelled
    changed_at_us: int
    # end of what is made


class TriggerKind(IntFlag):
    """The event of a trigger."""

    DOWN = 1
    UP = 2
    DRAINED = 4
    FAIL = 8
    IDLE = 16
    TIME = 32  # of a job: its time limit
    FINI = 64  # of a job: its end
    RECONFIG = 128
    CONTROLLER_UP = 256
    NEVER = 512  # events that cannot happen to this controller: see `what`
    DRAINING = 1024


#: Kinds that concern nodes, and those that concern only a job.
OF_NODES = (
    TriggerKind.DOWN | TriggerKind.UP | TriggerKind.DRAINED | TriggerKind.DRAINING | TriggerKind.FAIL | TriggerKind.IDLE
)
OF_JOB = TriggerKind.TIME | TriggerKind.FINI


class Trigger(NamedTuple):
    """One trigger. Primary key trigger_id.

    It waits while `due_at_us` is 0. After an event on `hit` it is due. While its program runs, `running` is the
    program's argument; TriggerEnded ends that.
    """

    trigger_id: int
    uid: int
    gid: int
    user_name: str
    kinds: int
    what: str  # for NEVER: Slurm's name of it
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

    __slots__ = ("crontabs", "dirty", "poll_at_us", "next_trigger_id", "rose", "seen", "triggers")

    def __init__(self) -> None:
        self.crontabs: dict[int, Crontab] = {}  # by uid
        self.triggers: dict[int, Trigger] = {}
        self.next_trigger_id = 1
        self.dirty: dict[tuple[str, int], None] = {}  # (crontab or trigger, key)
        self.seen: dict[str, int] = {}  # node -> kinds that applied to it at the last poll
        self.rose: dict[str, int] = {}  # node -> kinds that have begun to apply since then
        self.poll_at_us = 0  # time of the next poll; 0 = none

    def put_crontab(self, crontab: Crontab) -> None:
        """Adds or replaces it."""
        self.crontabs[crontab.uid] = crontab
        self.dirty["crontab", crontab.uid] = None

    def drop_crontab(self, uid: int) -> None:
        """Removes it."""
        del self.crontabs[uid]
        self.dirty["crontab", uid] = None

    def put_trigger(self, trigger: Trigger) -> None:
        """Adds or replaces it."""
        self.triggers[trigger.trigger_id] = trigger
        self.dirty["trigger", trigger.trigger_id] = None

    def drop_trigger(self, trigger_id: int) -> None:
        """Removes it."""
        del self.triggers[trigger_id]
        self.dirty["trigger", trigger_id] = None


def next_start_us(offsets: Offsets, cron: str, now_us: int) -> int:
    """The next due time of a line of a crontab."""
    return next_of_spec_us(offsets, parse_spec(cron + " ")[0], now_us)


def next_of_spec_us(offsets: Offsets, spec: CronSpec, now_us: int) -> int:
    """The same for a parsed line."""
    # A line that is never due was refused at submission, so the far future only satisfies the type.
    return next_us(spec, offsets, now_us) or now_us + DAYS_MAX * DAY_S * US
