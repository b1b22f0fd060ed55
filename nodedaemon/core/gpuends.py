"""Decides which conditions of a GPU are over after a sample. Pure: how a condition of a row ends is in gpupolicy.py."""

from typing import NamedTuple

from nodedaemon.core.gpuhealth_messages import Condition, GpuHealthRecord
from nodedaemon.core.gpupolicy import ROW, Ends
from nodedaemon.core.gpusignals import CLEAR, LEVELS, Level


class Sampled(NamedTuple):
    """The facts of one sample by which conditions end."""

    levels: dict[str, Level]
    is_good: bool  # it answered in time and without an error
    is_well: bool  # the same, and NVML requests no recovery
    answers_again: bool  # it was good for long enough after NVML had hung
    boot_id: str


def over(record: GpuHealthRecord, sampled: Sampled, now_us: int) -> list[str]:
    """Returns the rows whose condition has ended."""
    return [name for name, condition in record.conditions.items() if _is_over(record, condition, sampled, now_us)]


def _is_over(record: GpuHealthRecord, condition: Condition, sampled: Sampled, now_us: int) -> bool:
    name = condition.row
    if name == "driver":  # NVML answers, or there would be no sample
        return sampled.is_good
    row, level = ROW[name], sampled.levels.get(name, CLEAR)
    is_off = level is not None and level[0] == 0
    rebooted = condition.boot_id != sampled.boot_id and sampled.is_well
    match row.ends:
        case Ends.LEVEL:
            return name in LEVELS and is_off
        case Ends.QUIET:
            return is_off and now_us - condition.last_us >= row.quiet_us
        case Ends.RESET:
            return rebooted or (sampled.is_well and record.reset_at_us > condition.last_us)
        case Ends.BOOT:
            return rebooted and is_off
        case Ends.ANSWERS:
            return sampled.answers_again
        case _:
            return False
