"""Reports computed from jobs and steps, since the roll-up lacks them: sizes, waiting times, efficiency, reservations.

They read jobs that ended since the window's start (index `job_end`) and active ones, never older history. The database
computes sums where it can: sizes are grouped by the text of the allocation, of which a cluster has few.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec
from sqlalchemy import Column, ColumnElement, Connection, and_, case, exists, func, literal_column, or_, select

from accounting.dbrow import DbRow
from accounting.marks import read_mark
from accounting.past_intervals import TIMES, PastIntervals, corrections, used
from accounting.query import IS_ACTIVE, Ids, Question, ended_since
from accounting.rollup import Attempt, amounts_of, pieces
from accounting.schema import JOB, JOB_REQUEST, STEP
from accounting.tables import JOB_SPAN, RESERVATION_SPAN, STEPS_PURGED_MARK
from accounting.usage import OWNERS, UsageQuery, UsageRowValues, check_groups, spellings, whole_s
from penstock.values.hostlist import expand
from penstock.values.jobid import parse_all
from penstock.values.localtime import US
from penstock.values.reservations import ResvFlag, format_flags

#: proto UsageMetric.Kind GPU_UTIL: percent, summed over tasks.
_GPU_UTIL = "7"
_PERCENT = 100
#: The key of waste that is no owner.
BY_NAME = "name"
#: Keys of waiting times that are of what a job was given: the types of its GPUs, and the size class of their number.
BY_GPU_TYPE, BY_GPUS = "gpu_type", "gpus"
_GPUS, _GPU_OF_TYPE = "gres/gpu", "gres/gpu:"


class JobReportQuery(NamedTuple):
    """A query, in addition to the window, groups and filters of `base`."""

    base: UsageQuery
    bounds: tuple[int, ...] = ()
    sizes_in_nodes: bool = False
    nodes: frozenset[str] = frozenset()
    names: tuple[str, ...] = ()
    gids: tuple[int, ...] = ()
    each_size: bool = False  # the last key is the size itself, instead of a bucket's number
    job_ids: tuple[str, ...] = ()  # in the form of sacct's --jobs
    default_account: str = ""  # of jobs without an account
    now_us: int = 0  # reservations are counted until then; 0 = the window's end


class _Owner(NamedTuple):
    account: str
    user_name: str
    user_id: int
    wckey: str
    qos: str
    partition: str


Sees = Callable[[_Owner], bool]
_OWNER = tuple(JOB.c[name] for name in _Owner._fields)
#: Columns that `Question.matches` uses; grouped by only when needed.
_WHICH = tuple(
    JOB.c[name] for name in (*Ids._fields[:2], "array_task_id", "array_tasks", *Ids._fields[4:], "node_list")
)


def _keys(group_by: Sequence[str], owner: _Owner) -> tuple[str, ...]:
    return tuple(getattr(owner, OWNERS[word]) for word in group_by)


def _filters(ask: JobReportQuery) -> list[ColumnElement[bool]]:
    base = ask.base
    unnamed = ("",) if ask.default_account in base.accounts else ()
    wanted = (
        (JOB.c.account, base.accounts + unnamed), (JOB.c.user_name, base.users), (JOB.c.wckey, spellings(base.wckeys)),
        (JOB.c.qos, base.qos), (JOB.c.partition, base.partitions), (JOB.c.group_id, ask.gids),
    )  # fmt: skip
    return [column.in_(values) for column, values in wanted if values]


def _owner(ask: JobReportQuery, fields: Sequence[object]) -> _Owner:
    """Returns the owner columns, with the charged account, and the wckey without the mark of a default one."""
    owner = _Owner._make(fields)
    return owner._replace(account=owner.account.lower() or ask.default_account, wckey=owner.wckey.lstrip("*"))


def _asking(ask: JobReportQuery) -> tuple[Question, tuple[Column[object], ...]]:
    """Returns the conditions that SQL cannot express, and the columns that they need; none without conditions."""
    asking = Question((), parse_all(ask.job_ids), ask.nodes)
    return asking, _WHICH if asking.selectors or asking.nodes else ()


def _sources(base: UsageQuery) -> tuple[ColumnElement[bool], ...]:
    """Returns conditions that have an index each: jobs that ended in the window or later, and active ones."""
    return ended_since(base.start_at_us + 1), and_(IS_ACTIVE, JOB.c.end_at_us == literal_column("0"))


# ---- sizes -----------------------------------------------------------------------------------------------------------


def sizes(connection: Connection, ask: JobReportQuery, sees: Sees) -> list[UsageRowValues]:
    """Yields keys, then the number of the bucket: TRES seconds in the window, and jobs. Raises BadValue."""
    base = ask.base
    check_groups(base.group_by, tuple(OWNERS))
    until_us = min(base.end_at_us, ask.now_us or base.end_at_us)  # running jobs have not used the future
    if until_us <= base.start_at_us:
        return []
    until = case((JOB.c.end_at_us == 0, until_us), (JOB.c.end_at_us > until_us, until_us), else_=JOB.c.end_at_us)
    since = case((JOB.c.start_at_us > base.start_at_us, JOB.c.start_at_us), else_=base.start_at_us)
    what = "node" if ask.sizes_in_nodes else "cpu"
    names = base.tres or ("cpu",)
    asking, which = _asking(ask)
    sums: dict[tuple[tuple[str, ...], str], list[int]] = {}

    def enter(row: Sequence[object], tres: str, used: Callable[[str], int], jobs: int) -> None:
        owner = _owner(ask, row[: len(_OWNER)])
        if not sees(owner) or (which and not asking.matches(Ids._make(row[-8:-1]), str(row[-1]))):
            return
        size = dict(amounts_of(tres)).get(what, 0)
        bucket = size if ask.each_size else sum(bound <= size for bound in ask.bounds)
        for name in names:
            entry = sums.setdefault(((*_keys(base.group_by, owner), str(bucket)), name), [0, 0])
            entry[0] += used(name)
            entry[1] += jobs

    ran = (JOB.c.start_at_us > 0, JOB.c.start_at_us < until_us, *_filters(ask))
    for source in _sources(base):
        query = select(*_OWNER, JOB.c.tres_alloc, func.sum(until - since), func.count(), *which)
        for row in connection.execute(query.where(source, *ran).group_by(*_OWNER, JOB.c.tres_alloc, *which)):
            tres, length_us, jobs = row[len(_OWNER) : len(_OWNER) + 3]
            amounts = dict(amounts_of(tres))
            enter(row, tres, lambda name, a=amounts, us=int(length_us): a.get(name, 0) * us, jobs)  # type: ignore[misc]
    where = (or_(*_sources(base)), *ran)
    for found, more in corrections(connection, (base.start_at_us, until_us), (*_OWNER, *which), where):
        enter(found[len(TIMES) :], found.tres_alloc, lambda name, a=more: a.get(name, 0), 0)  # type: ignore[misc]
    return [UsageRowValues(keys, name, (whole_s(us), jobs)) for (keys, name), (us, jobs) in sorted(sums.items())]


# ---- waits -----------------------------------------------------------------------------------------------------------


def waits(connection: Connection, ask: JobReportQuery, sees: Sees) -> list[UsageRowValues]:
    """Waiting times of jobs that started in the window, from their eligibility: jobs, sum, median, 95th percentile,
    longest. Seconds. Groups: the owners, and what the job was given (`given_gpus`).
    """
    base = ask.base
    check_groups(base.group_by, (*OWNERS, BY_GPU_TYPE, BY_GPUS))
    given = (JOB.c.tres_alloc,) if {BY_GPU_TYPE, BY_GPUS} & set(base.group_by) else ()
    found: dict[tuple[str, ...], array[int]] = {}
    seen: dict[tuple[_Owner, str], array[int] | None] = {}
    asking, which = _asking(ask)
    for source in _sources(base):
        query = select(*_OWNER, JOB.c.start_at_us - JOB.c.eligible_at_us, *given, *which)
        query = query.where(
            source, JOB.c.start_at_us >= base.start_at_us, JOB.c.start_at_us < base.end_at_us, *_filters(ask)
        )
        for row in connection.execute(query.execution_options(yield_per=10_000)):
            if which and not asking.matches(Ids._make(row[-8:-1]), str(row[-1])):
                continue
            owner, wait_us = _owner(ask, row[: len(_OWNER)]), row[len(_OWNER)]
            entry = (owner, str(row[len(_OWNER) + 1]) if given else "")
            if entry not in seen:
                keys = _wait_keys(base.group_by, *entry)
                seen[entry] = found.setdefault(keys, array("q")) if sees(owner) else None
            values = seen[entry]
            if values is not None:
                values.append(max(0, wait_us) // US)
    return [UsageRowValues(keys, "", _spread(sorted(values))) for keys, values in sorted(found.items()) if values]


def _wait_keys(group_by: Sequence[str], owner: _Owner, tres: str) -> tuple[str, ...]:
    gpus = given_gpus(tres)
    return tuple(gpus[word] if word in gpus else getattr(owner, OWNERS[word]) for word in group_by)


def given_gpus(tres: str) -> dict[str, str]:
    """Returns the types of an allocation's GPUs (h100, or a100,h100; gpu: they have none), "" without GPUs; and the size class
    of their number, by its least: 0, 1, 2 (to 3), 4 (to 7), 8 (to 15), ..."""
    amounts = dict(amounts_of(tres))
    number = amounts.get(_GPUS, 0)
    types = sorted(name.removeprefix(_GPU_OF_TYPE) for name in amounts if name.startswith(_GPU_OF_TYPE))
    least = 1 << number.bit_length() - 1 if number else 0
    return {BY_GPU_TYPE: ",".join(types) or ("gpu" if number else ""), BY_GPUS: str(least)}


def _spread(values: Sequence[int]) -> tuple[int, ...]:
    """Returns percentiles by the nearest rank."""
    number = len(values)
    return number, sum(values), values[(number - 1) // 2], values[-(-number * 95 // 100) - 1], values[-1]


# ---- efficiency ------------------------------------------------------------------------------------------------------


def efficiency(connection: Connection, ask: JobReportQuery, sees: Sees) -> list[UsageRowValues]:
    """Efficiency of jobs that ended in the window: jobs, and what was used and allocated of cpus (s), memory (MB s) and
    GPUs (s).

    A job without steps has used nothing, unless its steps are purged: then it is left out. GPUs count where they were
    measured.
    """
    check_groups(ask.base.group_by, tuple(OWNERS))
    sums: dict[tuple[str, ...], list[int]] = {}
    for owner, _, use in _ended(connection, ask, sees):
        entry = sums.setdefault(_keys(ask.base.group_by, owner), [0] * 7)
        for i, value in enumerate(use):
            entry[i] += value
    return [
        UsageRowValues(keys, "", (entry[0], *map(whole_s, entry[1:])))
        for keys, entry in sorted(sums.items())
        if entry[0]
    ]


def waste(connection: Connection, ask: JobReportQuery, sees: Sees) -> list[UsageRowValues]:
    """GPU time that jobs which ended in the window had and did not use (allocated, times 1 - utilisation): jobs, unused and
    allocated (s), the job that left most unused, and how much. Jobs without measured GPUs are left out. Most unused first.
    """
    groups = ask.base.group_by
    check_groups(groups, (*OWNERS, BY_NAME))
    sums: dict[tuple[str, ...], list[int]] = {}
    for owner, row, use in _ended(connection, ask, sees):
        used_us, held_us = use[-2:]
        if held_us:
            keys = tuple(row.name if word == BY_NAME else getattr(owner, OWNERS[word]) for word in groups)
            entry = sums.setdefault(keys, [0] * 5)
            unused_us = held_us - used_us
            entry[:3] = [entry[0] + 1, entry[1] + unused_us, entry[2] + held_us]
            if unused_us >= entry[4]:
                entry[3:] = [row.job_id, unused_us]
    found = sorted(sums.items(), key=lambda one: (-one[1][1], one[0]))
    return [
        UsageRowValues(keys, "", (jobs, whole_s(unused_us), whole_s(held_us), worst, whole_s(most_us)))
        for keys, (jobs, unused_us, held_us, worst, most_us) in found
    ]


def _ended(connection: Connection, ask: JobReportQuery, sees: Sees) -> Iterator[tuple[_Owner, DbRow, tuple[int, ...]]]:
    """Yields the visible jobs that ended in the window: owner, one of the rows, and what `_use_of` computes."""
    base = ask.base
    where = (
        ended_since(base.start_at_us), JOB.c.end_at_us < base.end_at_us, JOB.c.start_at_us > 0,
        *_filters(ask),
    )  # fmt: skip
    key = (JOB.c.job_id, JOB.c.attempt)
    asking, which = _asking(ask)
    had_ended = exists().where(JOB.c.job_id == JOB_SPAN.c.job_id, JOB.c.attempt == JOB_SPAN.c.attempt, *where)
    intervals = PastIntervals(connection, had_ended)
    steps_purged_us = read_mark(connection, STEPS_PURGED_MARK)
    query = select(*TIMES, *_OWNER, STEP.c.usage, STEP.c.user_cpu_us, STEP.c.system_cpu_us, STEP.c.max_rss_kb,
                   STEP.c.nodes, JOB.c.name, *which)  # fmt: skip
    joined = JOB.outerjoin(STEP, and_(STEP.c.job_id == JOB.c.job_id, STEP.c.attempt == JOB.c.attempt))
    query = query.select_from(joined).where(*where).order_by(JOB.c.end_at_us, *key)
    for _, rows in _by_job(connection.execute(query.execution_options(yield_per=5_000))):
        first = rows[0]
        owner = _owner(ask, [getattr(first, name) for name in _Owner._fields])
        if not sees(owner) or (which and not asking.matches(Ids._make(first[-8:-1]), first.node_list)):
            continue
        if first.end_at_us <= steps_purged_us and all(row.user_cpu_us is None for row in rows):
            continue
        yield owner, first, _use_of(rows, intervals.attempt_of(first))


def _by_job(rows: Iterable[DbRow]) -> Iterator[tuple[tuple[int, int], list[DbRow]]]:
    key: tuple[int, int] | None = None
    group: list[DbRow] = []
    for row in rows:
        if key != (row.job_id, row.attempt):
            if key is not None:
                yield key, group
            key, group = (row.job_id, row.attempt), []
        group.append(row)
    if key is not None:
        yield key, group


def _use_of(rows: Sequence[DbRow], attempt: Attempt) -> tuple[int, ...]:
    """Returns the number of jobs, then used and allocated amounts times microseconds, of one attempt with its steps."""
    ran_us = sum(piece.until_us - piece.from_us for piece in pieces(attempt, attempt.start_at_us, attempt.end_at_us))
    held = used(attempt, attempt.start_at_us, attempt.end_at_us)
    steps = [row for row in rows if row.user_cpu_us is not None]
    cpu_us = sum(row.user_cpu_us + row.system_cpu_us for row in steps)
    mem_mb = max((row.max_rss_kb * row.nodes // 1024 for row in steps), default=0)
    measured = [msgspec.json.decode(row.usage).get(_GPU_UTIL) for row in steps if row.usage]
    percent = max((figure[0] for figure in measured if figure), default=-1)
    gpu_us = held.get("gres/gpu", 0) if percent >= 0 else 0
    return (
        1, cpu_us, held.get("cpu", 0), mem_mb * ran_us, held.get("mem", 0), min(max(percent, 0) * ran_us // _PERCENT, gpu_us),
        gpu_us,
    )  # fmt: skip


# ---- reservations ----------------------------------------------------------------------------------------------------


def reservations(connection: Connection, ask: JobReportQuery, sees: Sees) -> list[UsageRowValues]:
    """Name, id, start, end, nodes, flags, users and accounts; by TRES the allocated and idle seconds of
    the reservation's whole time until now: as in Slurm the window selects reservations, but does not truncate them."""
    base, table = ask.base, RESERVATION_SPAN.c
    query = select(RESERVATION_SPAN).where(
        table.end_at_us > base.start_at_us, table.start_at_us < base.end_at_us, table.end_at_us > table.start_at_us
    )
    if ask.names:
        query = query.where(table.name.in_(ask.names))
    rows = []
    for span in connection.execute(query.order_by(table.name, table.start_at_us)).all():
        if ask.nodes and ask.nodes.isdisjoint(expand(span.nodes) if span.nodes else ()):
            continue
        window = (span.start_at_us, min(span.end_at_us, max(ask.now_us or base.end_at_us, span.start_at_us)))
        had = _used_in(connection, span.name, window)
        keys = (
            span.name, str(span.resv_id), str(span.start_at_us // US), str(span.end_at_us // US), span.nodes,
            format_flags(ResvFlag(span.flags)), span.who,
        )  # fmt: skip
        amounts = dict(amounts_of(span.tres))
        for name in base.tres or tuple(amounts):
            total_us = amounts.get(name, 0) * (window[1] - window[0])
            idle_us = max(0, total_us - had.get(name, 0))
            rows.append(UsageRowValues(keys, name, (whole_s(had.get(name, 0)), whole_s(idle_us))))
    return rows


def _used_in(connection: Connection, name: str, window: tuple[int, int]) -> dict[str, int]:
    """Returns the allocations of jobs in the reservation, times microseconds."""
    since_us, until_us = window
    sums: dict[str, int] = {}
    intervals = PastIntervals(connection, JOB_SPAN.c.end_at_us > since_us, JOB_SPAN.c.start_at_us < until_us)
    joined = JOB.join(JOB_REQUEST, JOB.c.request_id == JOB_REQUEST.c.request_id)
    needle = b'"' + name.encode() + b'"'
    intervals.complete(
        connection, since_us, or_(*_sources(UsageQuery(since_us, until_us))), JOB.c.start_at_us < until_us
    )
    for source in _sources(UsageQuery(since_us, until_us)):
        query = select(*TIMES, JOB_REQUEST.c.request).select_from(joined)
        query = query.where(source, JOB.c.start_at_us > 0, JOB.c.start_at_us < until_us)
        for row in connection.execute(query.execution_options(yield_per=5_000)):
            if needle not in row.request:
                continue
            asked = msgspec.json.decode(row.request)
            if name != (asked.get("reservation_run") or asked.get("reservation")):
                continue
            for kind, amount_us in used(intervals.attempt_of(row), since_us, until_us).items():
                sums[kind] = sums.get(kind, 0) + amount_us
    return sums


REPORTS: dict[str, Callable[[Connection, JobReportQuery, Sees], list[UsageRowValues]]] = {
    "JOB_SIZES": sizes,
    "WAITS": waits,
    "EFFICIENCY": efficiency,
    "WASTE": waste,
    "RESERVATIONS": reservations,
}
