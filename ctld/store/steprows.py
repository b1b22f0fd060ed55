"""Steps between the core's rows and SQL parameters.

A batch step is a short row of plain columns, since there is one for every job; the database fills in the rest. A step of
srun is a whole row, with its request and parts as JSON.
"""

from typing import Any

import msgspec

from ctld.core.model import GpuShare
from ctld.core.step_model import PLAIN_COLUMNS, PLAIN_REST, StepPart, StepRequest, StepRow
from penstock.values.states import JobState
from penstock.values.taskset import TaskSet

Params = tuple[Any, ...]

_encode = msgspec.json.Encoder().encode
_decode_request = msgspec.json.Decoder(StepRequest).decode
_PartsJson = tuple[tuple[Any, ...], ...]
_decode_parts = msgspec.json.Decoder(_PartsJson).decode
_STATES = {int(state): state for state in JobState}


def is_plain(row: StepRow) -> bool:
    """True for a row whose further columns have their defaults."""
    return row.parts is None and row[PLAIN_COLUMNS:] == PLAIN_REST


def plain_values(row: StepRow) -> Params:
    """The first columns, of a plain row."""
    values: Params = row[:PLAIN_COLUMNS]
    job_id, attempt, step_id, name, state, *rest = values
    return (job_id, attempt, step_id, name, int(state), *rest)


def spread_values(row: StepRow) -> Params:
    """All columns."""
    return (
        *plain_values(row),
        _encode(row.request) if row.request is not None else None,
        _parts_json(row.parts) if row.parts is not None else None,
        row.spec_hash or None,
        *row[PLAIN_COLUMNS + 3 : -1],
        ",".join(map(str, row.ports)),
    )


def step_from(values: Params) -> StepRow:
    """The reverse."""
    job_id, attempt, step_id, name, state, *rest = values
    plain, (request, parts, spec_hash, *others, ports) = rest[: PLAIN_COLUMNS - 5], rest[PLAIN_COLUMNS - 5 :]
    head = (job_id, attempt, step_id, name, _STATES[state], *plain)
    return StepRow._make(
        (
            *head,
            _decode_request(request) if request is not None else None,
            _parts_from(parts) if parts is not None else None,
            spec_hash or b"",
            *others,
            _ports(ports),
        )
    )


def _ports(text: str) -> tuple[int, ...]:
    return tuple(int(port) for port in text.split(",")) if text else ()


def _parts_json(parts: tuple[StepPart, ...]) -> str:
    """[node, cpus, MB, [[name, type, hex mask]], [share], hex mask of cpus, ranks as 0-3,8, state, ...]."""
    return _encode(
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


def _parts_from(text: str) -> tuple[StepPart, ...]:
    return tuple(
        StepPart(
            node,
            cpus,
            mem_mb,
            tuple((name, type_, int(mask, 16)) for name, type_, mask in gres),
            tuple(GpuShare(*share) for share in shares),
            int(cpu_ids, 16),
            tuple(TaskSet.parse(ranks)) if ranks else (),
            _STATES[state],
            *rest,
        )
        for node, cpus, mem_mb, gres, shares, cpu_ids, ranks, state, *rest in _decode_parts(text)
    )
