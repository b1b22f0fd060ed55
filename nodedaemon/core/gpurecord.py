"""One GPU's health record: conditions begin and end, the health state follows from them, and flapping is bounded.

Rules
    - The health is that of the worst active row; rows for jobs with several GPUs count only where no other closes the
      GPU.
    - A closed GPU reopens by itself at most CLEARS_MAX times in 24 hours; after that it waits for the 24 hours to pass.
    - A condition that an administrator has accepted (a counter that never falls, say) is raised again only when it gets
    worse.
    - The same XID after two reboots or resets means faulty hardware: only an administrator reopens the GPU.
"""

import msgspec

from nodedaemon.core.gpuhealth_messages import Condition, GpuHealthRecord, Opinion
from nodedaemon.core.gpupolicy import DAY_US, ROW, Ends
from nodedaemon.core.gpusignals import LEVELS
from penstock.values.gpustates import CLOSED_STATES, GpuState

#: Drains that may end by themselves in 24 hours (gpu.md 2c).
CLEARS_MAX = 3
#: Reboots or resets after which the same XID means the hardware.
CURES_MAX = 2
#: How long a reboot or reset is remembered.
CURES_KEPT_US = 30 * DAY_US
REASON_MAX = 240
#: Conditions that a reset may repair; while a job has the GPU, that waits.
RESETTABLE = ("recovery_reset", "reset_required", "remap_pending", "xid_reset", "xid_twice")
#: Different XIDs that are counted for one GPU; there are some 170.
XIDS_MAX = 512
#: XIDs that are reported, the newest.
XIDS_REPORTED_MAX = 16
#: A number that is new on the GPU is reported at once, if nothing was in the last minute; a repetition, within the
#: hour.
NEW_XID_APART_US = 60 * 1_000_000
SAME_XID_APART_US = 3600 * 1_000_000
#: Application errors that are remembered for 24 hours.
BLAMED_MAX = 64
#: Users whose jobs must have shown application errors within 24 hours.
USERS_MAX = 3


def closes(condition: Condition) -> bool:
    """Whether the row takes the GPU out of service while it is active (or only for jobs with several GPUs)."""
    return ROW[condition.row].state in CLOSED_STATES


def raise_(
    record: GpuHealthRecord, row: str, reason: str, now_us: int, boot_id: str, level: int = 1, xid: int = 0
) -> bool:
    """Sets a condition. True when it was not active before, and no administrator has accepted it."""
    if ROW[row].state is GpuState.HEALTHY:
        return True
    old = record.conditions.get(row)
    if old is not None:
        record.conditions[row] = Condition(
            row, old.reason, old.since_us, now_us, boot_id, old.level if old.level > level else level, old.xid or xid
        )
        return False
    if level <= record.accepted.get(row, 0):
        return False
    record.conditions[row] = Condition(row, reason[:REASON_MAX], now_us, now_us, boot_id, level, xid)
    return True


def end(record: GpuHealthRecord, rows: list[str], now_us: int) -> list[str]:
    """Ends these conditions; returns those that end now. One that would reopen the GPU too often within a day waits."""
    rows = [row for row in rows if row in record.conditions]
    opening = [row for row in rows if closes(record.conditions[row])]
    closed_to_all = any(not ROW[row].many_only for row in opening)
    kept = [row for row, c in record.conditions.items() if row not in rows and closes(c)]
    stays = any(not (closed_to_all and ROW[row].many_only) for row in kept)
    if opening and not stays:
        record.cleared_at_us = [at_us for at_us in record.cleared_at_us if at_us > now_us - DAY_US]
        if len(record.cleared_at_us) >= CLEARS_MAX:
            rows = [row for row in rows if row not in opening]
        else:
            record.cleared_at_us.append(now_us)
    for row in rows:
        del record.conditions[row]
    return rows


def accept(record: GpuHealthRecord) -> None:
    """Handles an administrator's acceptance."""
    for condition in record.conditions.values():
        if ROW[condition.row].ends is Ends.ADMIN and condition.row in LEVELS:
            record.accepted[condition.row] = condition.level
    record.conditions.clear()
    record.cleared_at_us.clear()
    record.blamed.clear()
    record.repeated.clear()
    record.cures.clear()


def opinion_of(record: GpuHealthRecord) -> Opinion:
    """The health that follows from the record."""
    xids = xids_of(record)
    if not record.conditions:
        return Opinion(record.uuid, xids=xids, notes=record.notes)
    full = [c for c in record.conditions.values() if not ROW[c.row].many_only]
    closing = [c for c in full if closes(c)]
    partly = [c for c in record.conditions.values() if ROW[c.row].many_only]
    counted = closing or partly or full
    worst = max(counted, key=lambda c: (ROW[c.row].state, -c.since_us, c.row))
    others = sorted((c for c in counted if c is not worst), key=lambda c: (-ROW[c.row].state, c.since_us, c.row))
    reason = "; ".join(c.reason for c in (worst, *others))[:REASON_MAX]
    is_free = not record.conditions.keys() & {"inspect", "left_behind"}
    wants_reset = is_free and any(c.row in RESETTABLE for c in closing)
    many_only = bool(partly) and not closing
    return Opinion(
        record.uuid, ROW[worst.row].state, reason, worst.since_us, many_only, wants_reset, xids, record.notes
    )


def count(record: GpuHealthRecord, xid: int, at_us: int) -> None:
    """Counts one more of that XID."""
    if xid in record.counted or len(record.counted) < XIDS_MAX:
        record.counted[xid] = record.counted.get(xid, 0) + 1
        record.counted_us[xid] = max(at_us, record.counted_us.get(xid, 0))


def xids_of(record: GpuHealthRecord) -> tuple[tuple[int, int, int], ...]:
    """The XIDs of a GPU as they are reported: number, how often, when last."""
    found = [(xid, times, record.counted_us.get(xid, 0)) for xid, times in record.counted.items()]
    return tuple(sorted(found, key=lambda one: (-one[2], one[0]))[:XIDS_REPORTED_MAX])


def should_report(record: GpuHealthRecord, opinion: Opinion, now_us: int, may_count: bool) -> bool:
    """Whether to report this opinion to the controller now: a mere count of XIDs is reported rarely, if `may_count`."""
    reported = record.reported or Opinion(record.uuid)
    if opinion == reported:
        return False
    if msgspec.structs.replace(opinion, xids=reported.xids) != reported:
        return True
    if not may_count:
        return False
    known = [xid for xid, _, _ in reported.xids]
    is_new = any(xid not in known for xid, _, _ in opinion.xids)
    return now_us - record.reported_us >= (NEW_XID_APART_US if is_new else SAME_XID_APART_US)


def repeats(record: GpuHealthRecord, xid: int, now_us: int) -> int:
    """How often that XID has come within 24 hours, this time included."""
    times = [at_us for at_us in record.repeated.get(xid, []) if at_us > now_us - DAY_US]
    record.repeated[xid] = [*times, now_us][-BLAMED_MAX:]
    return len(record.repeated[xid])


def users(record: GpuHealthRecord, uid: int, job_id: int, now_us: int) -> int:
    """Users whose jobs have shown application errors on this GPU within 24 hours, this one included."""
    kept = [entry for entry in record.blamed if entry[0] > now_us - DAY_US and entry[2] != job_id]
    record.blamed = [*kept, (now_us, uid, job_id)][-BLAMED_MAX:]
    return len({entry[1] for entry in record.blamed})


def recurs_after_repair(record: GpuHealthRecord, xid: int, now_us: int, boot_id: str) -> bool:
    """Records in which life of the GPU (between reboots and resets) the XID occurred; True when repairs do not help."""
    life = f"{boot_id}/{record.resets}"
    lives = [entry for entry in record.cures.get(xid, []) if entry[0] > now_us - CURES_KEPT_US and entry[1] != life]
    record.cures[xid] = [*lives, (now_us, life)][-(CURES_MAX + 1) :]
    return len(record.cures[xid]) > CURES_MAX
