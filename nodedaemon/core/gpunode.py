"""Decides when GPU failures drain their whole node. Pure.

The drain is cleared by the text of its reason, so that must not change while the condition lasts.
"""

from collections.abc import Iterable
from typing import Final

from nodedaemon.core.gpuhealth_messages import GpuHealthRecord, Rules
from nodedaemon.core.gpupolicy import ROWS, NodeToo

#: Rows whose text describes the whole node.
_OF_NODE: Final = ("hung", "driver")


def reasons(records: Iterable[GpuHealthRecord], rules: Rules, now_us: int) -> list[str]:
    """The reasons to drain the whole node, worst first, as in the table; empty = none. records: of this boot."""
    whole = [record for record in records if record.device is not None and not record.device.parent]
    found: list[str] = []
    for row in ROWS:
        holding = [record for record in whole if row.name in record.conditions]
        if not holding or row.node is NodeToo.NEVER:
            continue
        if row.node is NodeToo.HALF:
            found += [f"more than half of the GPUs: {row.signal}"] if 2 * len(holding) > len(whole) else []
            continue
        are_all = len(holding) == len(whole)
        for record in holding:
            if _drains(record, row.name, row.node, rules, now_us, are_all):
                gpu = "" if row.name in _OF_NODE else f" on {record.uuid}"
                found.append(f"{record.conditions[row.name].reason}{gpu}")
    return found


def _drains(record: GpuHealthRecord, row: str, node: NodeToo, rules: Rules, now_us: int, are_all: bool) -> bool:
    if node is NodeToo.LOST:
        is_switched = record.device is not None and record.device.has_nvswitch
        return is_switched or rules.lost_drains_node or are_all
    if node is NodeToo.STUCK:
        return now_us - record.conditions[row].since_us >= rules.unkillable_us
    return node is NodeToo.ALWAYS
