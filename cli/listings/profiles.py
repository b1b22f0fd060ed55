"""Profiles of a job's steps: of ended steps from the accounting records, of running ones from their nodes, as sstat asks.

What a node has sent is decoded with bounds (penstock.values.profile): a profile that is none is named, and left out.
"""

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from cli.base.queryclient import QueryClient
from cli.listings.livesteps import BOUNDS, LiveBounds, Say, live_answers
from cli.listings.sacct_fields import RecordRow
from penstock.v1.accounting_pb2 import JobRecord, ListProfilesRequest, StepRecord
from penstock.values.packing import Damaged
from penstock.values.profile import COLUMNS, GPU, TASK, ProfileLine, decode_profile
from penstock.values.profilefigures import IDLE_PERMILLE, GpuIdleTime, resampled
from penstock.values.timeline import Point

#: Parts of a job's time in which its GPUs are counted as idle or not.
_PARTS: Final = 2_000
_UTIL, _THROTTLED = (COLUMNS[GPU].index(name) for name in ("util_permille", "throttled_permille"))


class NodeProfile(NamedTuple):
    """The profile of a step on one of its nodes."""

    job: JobRecord
    step: StepRecord
    node: str
    lines: Sequence[ProfileLine]  # of its processes and GPUs
    tasks: Mapping[int, ProfileLine] = {}  # by rank, where several are there

    def name(self) -> str:
        """`12.0 on n1`."""
        return f"{RecordRow(self.job, self.step).id_text()} on {self.node}"

    def with_tasks(self) -> "NodeProfile":
        """The same with the lines of its tasks among the others, as `task 3`."""
        tasks = (line._replace(name=f"task {rank}") for rank, line in self.tasks.items())
        return self._replace(lines=[*self.lines, *tasks])


class ProfileDemand(NamedTuple):
    """Which profiles are wanted, and how many."""

    nodes: Collection[str] = ()  # none = all
    profiles_max: int | None = None
    bounds: LiveBounds = BOUNDS


#: As commands show them.
EVERYTHING: Final = ProfileDemand()
#: Of a step: job, attempt, step.
_Key: TypeAlias = tuple[int, int, int]


def profiles_of(
    client: QueryClient, jobs: Sequence[JobRecord], ids: Sequence[str], say: Say, wanted: ProfileDemand = EVERYTHING
) -> list[NodeProfile]:
    """The profiles of these records, which `ids` name. `say`: takes what cannot be had."""
    steps = {(job.job_id, job.attempt, step.step_id): (job, step) for job in jobs for step in job.steps}
    profiles = itertools.chain(_stored(client, steps, ids, say, wanted.nodes), _live(client, jobs, say, wanted))
    found = list(itertools.islice(profiles, wanted.profiles_max))
    if next(profiles, None) is not None:
        say(f"there are more than {wanted.profiles_max} profiles; only the first are included")
    return sorted(found, key=lambda one: (one.job.job_id, one.step.start_at_us, one.step.step_id, one.node))


def _stored(
    client: QueryClient,
    steps: Mapping[_Key, tuple[JobRecord, StepRecord]],
    ids: Sequence[str],
    say: Say,
    nodes: Collection[str],
) -> Iterator[NodeProfile]:
    """What accounting has: of ended steps."""
    for page in client.stream("ListProfiles", ListProfilesRequest(ids=ids)):
        for one in page.profiles:
            known = steps.get((one.job_id, one.attempt, one.step_id))
            if known is not None and (not nodes or one.node in nodes):
                yield from _decoded(*known, one.node, one.profile, say)


def _live(client: QueryClient, jobs: Sequence[JobRecord], say: Say, wanted: ProfileDemand) -> Iterator[NodeProfile]:
    """What the nodes of running steps have so far."""
    for one in live_answers(client, jobs, "profile", say, wanted.bounds, wanted.nodes):
        for node, answer in one.found.items():
            data = answer.get("profile", b"")
            if isinstance(data, bytes) and data:
                yield from _decoded(one.job, one.step, node, data, say)


def _decoded(job: JobRecord, step: StepRecord, node: str, data: bytes, say: Say) -> Iterator[NodeProfile]:
    try:
        decoded = decode_profile(data)
    except Damaged as error:
        say(f"{RecordRow(job, step).id_text()}: node {node}: {error}")
        return
    lines = sorted((line for line in decoded if line.kind != TASK), key=lambda line: (line.kind == GPU, line.name))
    tasks = {int(line.name): line for line in decoded if line.kind == TASK and line.name.isdigit()}
    if any(line.points for line in lines):
        yield NodeProfile(job, step, node, lines, dict(sorted(tasks.items())))


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
