"""Records the cause of a fatal error for the next process, so that no request, job or timer ends two of them.

An error of the core after something was applied ends the process, and so does a commit that fails over a value
(handled.py); the next one starts from the database. Clients repeat their requests, nodes their reports, and timers are
due again: without a record the next process would fail in the same way. So the failing process writes the event or
timer it was handling into a small file (synced) beside the database. The following processes

    - refuse a similar request, and drop a similar report, for BARRED_US. The comparison ignores what differs between
      attempts: keys of requests, numbers of streams, addresses.
    - hold the job concerned, if it is pending (event `Quarantine`).
    - skip the timer.

The job is found in the error's traceback: the innermost frame of the core that has one in its variables. It may be the
wrong one; it stays held until an administrator releases it, and the log gives the cause.

Deliberately absent: a diagnosis. Barred events are reported in the log and by sdiag, for an administrator to fix the
cause.
"""

import hashlib
import logging
import os
from pathlib import Path
from types import TracebackType
from typing import Final

import msgspec

from ctld.core.records.event_base import Actor
from ctld.core.records.events import Event, PlanReady, Quarantine, StopWaiting, Tick
from ctld.core.records.job import Job
from ctld.core.state.timers import Timer, TimerKey

log = logging.getLogger("penstock.ctld")

#: What has failed: with these words the loop ends.
CORE_FAILED: Final = "the core failed"
COMMIT_FAILED: Final = "the commit failed"

BARRED_US: Final = 3_600_000_000
#: Events without content of their own, which are always handled.
NEVER_BARRED: Final = (Quarantine, PlanReady, StopWaiting, Tick)
#: Maximum number of recorded ends.
ENDS_MAX: Final = 16
#: Fields that differ between two attempts at the same.
PASSING: Final = frozenset(
    {"reply_to", "link_id", "submit_key", "key_at_us", "step_key", "origin", "via", "sequence", "spool_id", "at_us"}
)
FRAMES_MAX: Final = 200


class ProcessEnd(msgspec.Struct, frozen=True):
    """The end of one process."""

    at_us: int
    what: str
    error: str
    event: str = ""  # its name; "" = none was being handled
    fingerprint: str = msgspec.field(default="", name="likeness")
    job_id: int = 0
    timer: tuple[str, int | str] | None = None


class FatalCauses:
    """The file of causes, and its effects on this process."""

    def __init__(self, path: Path | None, now_us: int) -> None:
        self._path = path
        self._ends = [end for end in _read(path) if 0 <= now_us - end.at_us < BARRED_US]
        self._barred = {end.fingerprint for end in self._ends if end.fingerprint}
        for end in self._ends:
            log.error(
                "an earlier process ended in %s: %s (%s, job %d)",
                end.event or "a pass",
                end.error,
                end.what,
                end.job_id,
            )

    def quarantine(self) -> Quarantine | None:
        """Returns the event that the core gets before any other."""
        jobs = tuple(dict.fromkeys(end.job_id for end in self._ends if end.job_id))
        timers = tuple(dict.fromkeys(end.timer for end in self._ends if end.timer is not None))
        return Quarantine(jobs, timers) if jobs or timers else None

    def is_cause_unknown(self) -> bool:
        """Whether a commit has failed over one of several events, and it is not known which."""
        return any(end.what == COMMIT_FAILED and not end.fingerprint for end in self._ends)

    def bars(self, event: Event) -> bool:
        """Whether an earlier process has ended on a similar event."""
        return bool(self._barred) and fingerprint(event) in self._barred

    def write(
        self,
        what: str,
        error: BaseException | None,
        event: Event | None,
        timer: tuple[Timer, TimerKey, int] | None,
        now_us: int,
    ) -> None:
        """Writes the file before the end. A failed write is ignored, as the process ends anyway."""
        if self._path is None or not (event is not None or timer is not None or error is not None):
            return
        counts = event is not None and not isinstance(event, NEVER_BARRED)
        end = ProcessEnd(
            now_us,
            what,
            f"{type(error).__name__}: {error}"[:200],
            type(event).__name__ if event is not None else "",
            fingerprint(event) if event is not None and counts else "",
            suspect(error.__traceback__ if error is not None else None),
            (timer[0].name, timer[1]) if timer is not None else None,
        )
        known = self._ends
        if what == COMMIT_FAILED and end.fingerprint:  # the cause of those before it
            known = [one for one in known if one.what != COMMIT_FAILED or one.fingerprint]
        data = msgspec.json.encode([*known, end][-ENDS_MAX:])
        fresh = self._path.with_suffix(".new")
        try:
            with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(fresh, self._path)
        except OSError as failure:
            log.error("%s cannot be written: %s", self._path, failure)


def _read(path: Path | None) -> list[ProcessEnd]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=list[ProcessEnd]) if path is not None else []
    except FileNotFoundError:
        return []
    except (OSError, msgspec.DecodeError) as error:
        log.error("%s is not read: %s", path, error)
        return []


def fingerprint(event: Event) -> str:
    """Returns a hash of an event's content, without what differs between attempts."""
    return hashlib.sha256(repr(_said(event)).encode("utf-8", "backslashreplace")).hexdigest()


def _said(value: object) -> object:
    if isinstance(value, msgspec.Struct):
        names = (name for name in value.__struct_fields__ if name not in PASSING)
        if isinstance(value, Actor):
            return value.uid, value.gid, int(value.role)
        return type(value).__name__, [(name, _said(getattr(value, name))) for name in names]
    return [_said(one) for one in value] if isinstance(value, tuple | list) else value


def suspect(traceback: TracebackType | None) -> int:
    """Returns the job that the core was handling; 0 = unknown."""
    found = 0
    for _ in range(FRAMES_MAX):
        if traceback is None:
            break
        frame = traceback.tb_frame
        if str(frame.f_globals.get("__name__", "")).startswith("ctld.core."):
            job = frame.f_locals.get("job")
            if isinstance(job, Job):
                found = job.job_id
        traceback = traceback.tb_next
    return found
