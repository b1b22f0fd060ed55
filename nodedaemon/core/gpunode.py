"""When what is wrong with GPUs drains their whole node. Pure.

The reason is the text by which the drain is taken back, so it must not change while what it says holds.
"""

from collections.abc import Iterable
from typing import Final

from nodedaemon.core.gpuhealth_words import Record, Rules
from nodedaemon.core.gpupolicy import ROWS, NodeToo

#: Rows whose words stand for the whole node.
_OF_NODE: Final = ("hung", "driver")


def reasons(records: Iterable[Record], rules: Rules, now_us: int) -> list[str]:
    """Why the whole node must not get jobs, worst first as the table has it; nothing = it may. records: of this boot."""
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
                place = "" if row.name in _OF_NODE else f" on {record.uuid}"
                found.append(f"{record.conditions[row.name].reason}{place}")
    return found


def _drains(record: Record, row: str, node: NodeToo, rules: Rules, now_us: int, are_all: bool) -> bool:
    if node is NodeToo.LOST:
        is_switched = record.device is not None and record.device.has_nvswitch
        return is_switched or rules.lost_drains_node or are_all
    if node is NodeToo.STUCK:
        return now_us - record.conditions[row].since_us >= rules.unkillable_us
    return node is NodeToo.ALWAYS
