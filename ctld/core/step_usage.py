"""What was sampled of a step's tasks, over all of its nodes, as it is kept with the step.

A node says for each figure the sum over its tasks, the highest and the lowest, and which tasks these were. Nodes are put
together as their parts end. Kept as JSON, by kind (number of the wire's UsageMetric.Kind):
[total, highest, its node, its task, lowest, its node, its task]; tasks are global ranks.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

Metric = tuple[int, int, int, int, int, int]  # kind, total, highest, its task, lowest, its task

_decode = msgspec.json.Decoder(dict[str, tuple[int, int, str, int, int, str, int]]).decode
_encode = msgspec.json.Encoder().encode


def add_usage(text: str, node: str, metrics: Iterable[Metric]) -> str:
    """What is known ("" = nothing) with the figures of one more node."""
    found: dict[str, tuple[Any, ...]] = dict(_decode(text)) if text else {}
    for kind, total, high, high_task, low, low_task in metrics:
        top: tuple[Any, ...] = (high, node, high_task)
        bottom: tuple[Any, ...] = (low, node, low_task)
        old = found.get(str(kind))
        if old is not None:
            total += old[0]
            top = old[1:4] if old[1] >= high else top
            bottom = old[4:7] if old[4] <= low else bottom
        found[str(kind)] = (total, *top, *bottom)
    return _encode(found).decode() if found else ""
