"""Encodes single values for the database: allocations, limits, lists of names, and whole records as JSON.

The generated codec (rows.py) calls these by name; the field tables (tools/records) assign them to fields. Numbers and
names are passed as plain int and str: the driver is slower with subclasses such as enums.

In a whole record, a field that an older stored text lacks gets its default, and one from a later version is ignored.
"""

from functools import lru_cache

# Any: stored lists and objects of JSON, whose members become fields by position and name
from typing import Any

import msgspec

from ctld.core.records.gpu import Gpu, GpuOpinion
from ctld.core.records.job import JobRow
from ctld.core.records.periodic import CronJob, Trigger
from ctld.core.records.request import JobRequest, NodeAlloc
from ctld.core.records.reservation import Reservation
from ctld.core.records.step import GpuShare
from penstock.values.amendment import Amendment
from penstock.values.hostlist import compress
from penstock.values.limits import NO_LIMITS, Limits, from_texts, texts
from penstock.values.states import Hold, JobState, Reason, Suspend

#: Cached encoded allocations: a job's is written at its start, when it runs and at its end.
ALLOCATIONS_KEPT = 2_048

encode_json = msgspec.json.Encoder().encode
_decode_gpu = msgspec.json.Decoder(dict[str, Any]).decode
_decode_reservation = msgspec.json.Decoder(Reservation).decode
_AllocJson = tuple[tuple[Any, ...], ...]
_decode_alloc = msgspec.json.Decoder(_AllocJson).decode

JOB_STATES = {int(state): state for state in JobState}
HOLDS = {int(hold): hold for hold in Hold}
SUSPENDS = {int(why): why for why in Suspend}
REASONS = {reason.value: reason for reason in Reason}


@lru_cache(maxsize=ALLOCATIONS_KEPT)
def alloc_values(alloc: tuple[NodeAlloc, ...]) -> tuple[str, int, int, str]:
    """Encodes an allocation: JSON, number of nodes, number of CPUs, hostlist. Masks are hexadecimal: JSON numbers are
    limited to 64 bits."""
    parts = [
        (
            a.node,
            a.cpus,
            a.mem_mb,
            a.tasks,
            [(n, t, f"{mask:x}") for n, t, mask in a.gres],
            f"{a.cpu_ids:x}",
            *((a.shares,) if a.shares else ()),
        )
        for a in alloc
    ]
    return encode_json(parts).decode(), len(alloc), sum(a.cpus for a in alloc), compress(a.node for a in alloc)


def alloc_from(text: str) -> tuple[NodeAlloc, ...]:
    """The reverse of `alloc_values`, from the JSON."""
    return tuple(
        NodeAlloc(
            node,
            cpus,
            mem_mb,
            tasks,
            tuple((n, t, int(mask, 16)) for n, t, mask in gres),
            int(more[0] if more else "0", 16),
            tuple(GpuShare(*share) for share in more[1]) if len(more) > 1 else (),
        )
        for node, cpus, mem_mb, tasks, gres, *more in _decode_alloc(text)
    )


def words(joined: str) -> tuple[str, ...]:
    """Names joined by commas."""
    return tuple(word for word in joined.split(",") if word)


def limits_text(limits: Limits) -> str:
    """Limits as JSON."""
    return encode_json(texts(limits)).decode() if limits is not NO_LIMITS else "{}"


def limits_from(text: str) -> Limits:
    """The reverse of `limits_text`."""
    return from_texts(msgspec.json.decode(text)) if text != "{}" else NO_LIMITS


def json_text(value: object) -> str:
    """JSON for a column of text."""
    return encode_json(value).decode()


def cron_jobs_from(text: str) -> tuple[CronJob, ...]:
    """Entries of a crontab."""
    return tuple(CronJob(*job) for job in msgspec.json.decode(text))


def cron_lines_from(text: str) -> tuple[tuple[int, int], ...]:
    """Lines of a crontab that are disabled."""
    return tuple((first, last) for first, last in msgspec.json.decode(text))


# ---- whole records ---------------------------------------------------------------------------------------------------


def request_values(request_id: int, request: JobRequest, owner: JobRow) -> tuple[object, ...]:
    """A row of job_request; `owner` is the job for which the request was made."""
    return (request_id, owner.job_id, owner.submit_key, owner.submit_at_us, encode_json(request))


def amendment_values(row: Amendment, position: int) -> tuple[object, ...]:
    """A row of amendment."""
    return (row.kind, row.name, position, encode_json(row._asdict()))


def amendment_from(record: bytes) -> Amendment:
    """The reverse of `amendment_values`, from the record."""
    return msgspec.convert(_in_order(Amendment, msgspec.json.decode(record)), Amendment)


def reservation_from(record: bytes) -> Reservation:
    """A reservation from its record."""
    return _decode_reservation(record)


def gpu_json(gpu: Gpu) -> bytes:
    """A GPU's record."""
    return encode_json({**gpu._asdict(), "opinion": gpu.opinion._asdict()})


def gpu_from(record: bytes) -> Gpu:
    """The reverse of `gpu_json`."""
    found = _decode_gpu(record)
    found["opinion"] = _in_order(GpuOpinion, found["opinion"])
    return msgspec.convert(_in_order(Gpu, found), Gpu)


def trigger_from(record: bytes) -> Trigger:
    """A trigger from its record."""
    return msgspec.convert(_in_order(Trigger, msgspec.json.decode(record)), Trigger)


def _in_order(kind: type[Amendment | Gpu | GpuOpinion | Trigger], found: dict[str, object]) -> list[object]:
    """Returns its fields by name as a list."""
    return [found.get(name, kind._field_defaults.get(name)) for name in kind._fields]
