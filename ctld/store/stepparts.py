"""Encodes the parts of a step and the data that belongs to them, and decides which steps have a short row.

A batch step is a short row of plain columns, since there is one for every job; the database adds defaults. A step of
srun is a full row, with its request and parts as JSON.
"""

# Any: stored JSON lists, whose members become fields by position
from typing import Any

import msgspec

from ctld.core.records.step import PLAIN_COLUMNS, PLAIN_REST, GpuShare, StepPart, StepRequest, StepRow
from ctld.store.encodings import JOB_STATES, encode_json
from penstock.values.taskset import TaskSet

step_request_from = msgspec.json.Decoder(StepRequest).decode
_PartsJson = tuple[tuple[Any, ...], ...]
_decode_parts = msgspec.json.Decoder(_PartsJson).decode


def is_plain(row: StepRow) -> bool:
    """Whether the row's further columns have their defaults."""
    return row.parts is None and row[PLAIN_COLUMNS:] == PLAIN_REST


def ports_from(text: str) -> tuple[int, ...]:
    """Parses port numbers joined by commas."""
    return tuple(int(port) for port in text.split(",")) if text else ()


def parts_json(parts: tuple[StepPart, ...]) -> str:
    """[node, cpus, MB, [[name, type, hex mask]], [share], hex mask of cpus, ranks as 0-3,8, state, ...]."""
    return encode_json(
        [
            (
                part.node,
                part.cpus,
                part.mem_mb,
                [(name, type_, f"{mask:x}") for name, type_, mask in part.gres],
                part.shares,
                f"{part.cpu_ids:x}",
                TaskSet.of(part.ranks).format() if part.ranks else "",
                int(part.state),
                *part[8:],
            )
            for part in parts
        ]
    ).decode()


def parts_from(text: str) -> tuple[StepPart, ...]:
    """The reverse of `parts_json`."""
    return tuple(
        StepPart(
            node,
            cpus,
            mem_mb,
            tuple((name, type_, int(mask, 16)) for name, type_, mask in gres),
            tuple(GpuShare(*share) for share in shares),
            int(cpu_ids, 16),
            tuple(TaskSet.parse(ranks)) if ranks else (),
            JOB_STATES[state],
            *rest,
        )
        for node, cpus, mem_mb, gres, shares, cpu_ids, ranks, state, *rest in _decode_parts(text)
    )
