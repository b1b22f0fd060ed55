"""Combines the sampled usage of a step's tasks over all of its nodes, as it is stored with the step.

A node reports for each figure the sum over its tasks, the highest and the lowest value, and the tasks that had them.
Nodes are combined as their parts end. Kept as JSON, by kind (number of the wire's UsageMetric.Kind): [total, highest,
its node, its task, lowest, its node, its task]; tasks are global ranks.
"""

from collections.abc import Iterable

import msgspec

from penstock.values.numbers import within_int64

_Metric = tuple[int, int, int, int, int, int]  # kind, total, highest, its task, lowest, its task

_decode = msgspec.json.Decoder(dict[str, tuple[int, int, str, int, int, str, int]]).decode
_encode = msgspec.json.Encoder().encode


def add_usage(text: str, node: str, metrics: Iterable[_Metric]) -> str:
    """Adds the figures of one more node to the previous ones ("" = none)."""
    found: dict[str, tuple[int, int, str, int, int, str, int]] = dict(_decode(text)) if text else {}
    for kind, total, high, high_task, low, low_task in metrics:
        top = (high, node, high_task)
        bottom = (low, node, low_task)
        old = found.get(str(kind))
        if old is not None:
            total = within_int64(total + old[0])
            top = old[1:4] if old[1] >= high else top
            bottom = old[4:7] if old[4] <= low else bottom
        found[str(kind)] = (total, *top, *bottom)
    return _encode(found).decode() if found else ""
