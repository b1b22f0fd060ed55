"""Profiles of a job's steps: of ended steps from the accounting records, of running ones from their nodes, as sstat asks.

What a node has sent is decoded with bounds (penstock.values.profile): a profile that is none is named, and left out.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from cli.base.run import complain
from cli.listings.sacct_fields import RecordRow
from penstock.client import Client
from penstock.errors import PenstockError
from penstock.v1.accounting_pb2 import JobRecord, ListProfilesRequest, StepRecord
from penstock.values.jobid import EXTERN_STEP
from penstock.values.packing import Damaged
from penstock.values.profile import COLUMNS, GPU, ProfileLine, decode_profile
from penstock.values.profilefigures import IDLE_PERMILLE, GpuIdleTime, resampled
from penstock.values.timeline import Point

#: The most running steps whose nodes are asked.
ASKED_MAX: Final = 32
#: Parts of a job's time in which its GPUs are counted as idle or not.
_PARTS: Final = 2_000
_RUNNING: Final = ("RUNNING", "SUSPENDED")
_UTIL, _THROTTLED = (COLUMNS[GPU].index(name) for name in ("util_permille", "throttled_permille"))


class NodeProfile(NamedTuple):
    """The profile of a step on one of its nodes."""

    job: JobRecord
    step: StepRecord
    node: str
    lines: Sequence[ProfileLine]

    def name(self) -> str:
        """`12.0 on n1`."""
        return f"{RecordRow(self.job, self.step).id_text()} on {self.node}"


def profiles_of(client: Client, jobs: Sequence[JobRecord], ids: Sequence[str], name: str) -> list[NodeProfile]:
    """All profiles of these records, which `ids` name. `name`: the command's, for what cannot be had; "" = it is not said."""
    steps = {(job.job_id, job.attempt, step.step_id): (job, step) for job in jobs for step in job.steps}
    found: list[NodeProfile] = []
    for page in client.stream("ListProfiles", ListProfilesRequest(ids=ids)):
        for one in page.profiles:
            if (known := steps.get((one.job_id, one.attempt, one.step_id))) is not None:
                found += _decoded(*known, one.node, one.profile, name)
    found += _live(client, steps.values(), name)
    return sorted(found, key=lambda one: (one.job.job_id, one.step.start_at_us, one.step.step_id, one.node))


def _decoded(job: JobRecord, step: StepRecord, node: str, data: bytes, name: str) -> Iterator[NodeProfile]:
    try:
        lines = sorted(decode_profile(data), key=lambda line: (line.kind == GPU, line.name))
    except Damaged as error:
        _complain(name, f"{RecordRow(job, step).id_text()}: node {node}: {error}")
        return
    if any(line.points for line in lines):
        yield NodeProfile(job, step, node, lines)


def _live(client: Client, steps: Iterable[tuple[JobRecord, StepRecord]], name: str) -> Iterator[NodeProfile]:
    """Asks the nodes of running steps."""
    from cli.base.stepids import attach
    from cli.steps.stepquery import ask

    running = [(j, s) for j, s in steps if s.state in _RUNNING and s.step_id != EXTERN_STEP]
    if len(running) > ASKED_MAX:
        _complain(name, f"more than {ASKED_MAX} steps run; only the first are included")
    for job, step in running[:ASKED_MAX]:
        try:
            answers = ask(client.cluster, attach(client, job.job_id, step.step_id), "profile")
        except PenstockError as error:
            _complain(name, f"{RecordRow(job, step).id_text()}: {error.text}")
            continue
        for node, reason in answers.missing.items():
            _complain(name, f"node {node} does not answer: {reason}")
        for node, answer in answers.found.items():
            data = answer.get("profile", b"")
            if isinstance(data, bytes) and data:
                yield from _decoded(job, step, node, data, name)


def _complain(name: str, text: str) -> None:
    if name:
        complain(name, text)


def gpu_time_of_job(profiles: Sequence[NodeProfile]) -> GpuIdleTime:
    """How the GPUs of one job were used: those of its steps at the same moment together, each card once."""
    begun_us = min((one.step.start_at_us for one in profiles), default=0)
    cards: dict[tuple[str, str], list[Sequence[Point]]] = {}
    for one in profiles:
        offset_ds = max(one.step.start_at_us - begun_us, 0) // 100_000
        for line in one.lines:
            if line.kind == GPU:
                cards.setdefault((one.node, line.name), []).append(_moved(line.points, offset_ds))
    until_ds = max((points[-1].at_ds for lines in cards.values() for points in lines if points), default=0)
    found = GpuIdleTime()
    for lines in cards.values():
        found = found.plus(_card_time(lines, until_ds))
    return found


def _moved(points: Sequence[Point], offset_ds: int) -> list[Point]:
    moved = [Point(point.at_ds + offset_ds, point.values) for point in points]
    return [Point(offset_ds, (None,) * len(COLUMNS[GPU])), *moved] if offset_ds else moved


def _card_time(lines: Sequence[Sequence[Point]], until_ds: int) -> GpuIdleTime:
    parts = max(min(until_ds, _PARTS), 1)
    utils = [resampled(points, _UTIL, parts, until_ds) for points in lines]
    slowed = [resampled(points, _THROTTLED, parts, until_ds) for points in lines]
    known = idle = 0
    throttled = 0.0
    for place in range(parts):
        values = [value[0] for of in utils if (value := of[place]) is not None]
        if values:
            known += 1
            idle += sum(values) < IDLE_PERMILLE
            throttled += max((value[0] for of in slowed if (value := of[place]) is not None), default=0.0) / 1000
    return GpuIdleTime(known * until_ds // parts, idle * until_ds // parts, throttled * until_ds / parts)
