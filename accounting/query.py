"""Translates a filter to SQL that indexes can answer.

A time window is queried in two parts: jobs that ended since its start (an index on the end), and active ones (a small
partial index). Jobs that ended before the window are never read, so that the cost depends on the result and not on the
history. The two conditions are written exactly as in the partial indexes.

States in a window are intervals, as in sacct: a job was PENDING from its eligible time to its start, RUNNING from its
start to its end, whatever its present state; an end state belongs to the moment of the end.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from sqlalchemy import ColumnElement, and_, case, false, func, literal_column, not_, or_, select, true, union_all

from accounting.dbrow import Query
from accounting.filter import RecordFilter
from accounting.schema import ENDED_FROM, JOB
from penstock.values.errors import BadValue
from penstock.values.hostlist import expand, expand_all
from penstock.values.jobid import JobSelector, parse_all
from penstock.values.states import ALLOCATED_STATES, JobState, Reason, parse_job_states
from penstock.values.taskset import TaskSet

#: Job ids in one query: three parameters each, and SQLite takes 32,766.
IDS_MAX = 10_000
#: Values of the other fields together.
VALUES_MAX = 10_000
#: Hostlists whose names are cached while one query runs over its rows.
_HOSTLISTS_KEPT = 4_096

IS_ACTIVE = JOB.c.state < literal_column(str(ENDED_FROM))
HAS_ENDED = JOB.c.end_at_us > literal_column("0")
IS_OF_ARRAY = JOB.c.array_job_id > literal_column("0")
IS_OF_HET = JOB.c.het_job_id > literal_column("0")


def ended_since(at_us: int) -> ColumnElement[bool]:
    """The condition of the indexes on the end, from there on.

    The bound comes before the condition of the partial index. Of two lower bounds SQLite takes the first that is written;
    with the other one it reads the index from its beginning, which added half a minute to a start of the controller
    after ten million jobs.
    """
    return and_(JOB.c.end_at_us >= at_us, HAS_ENDED)


#: The end of a job. One that is ending (COMPLETING) has ended for accounting when it began to, as in Slurm; one that is
#: requeued then goes on.
END = case(
    (
        and_(JOB.c.state == int(JobState.COMPLETING), JOB.c.end_state != int(JobState.REQUEUED)),
        JOB.c.completing_at_us,
    ),
    else_=JOB.c.end_at_us,
)

#: Not held, and not waiting for its begin time or dependencies. Jobs that ended without having been eligible count.
_WAS_ELIGIBLE = or_(JOB.c.eligible_at_us > 0, JOB.c.end_at_us > 0)

#: Columns that `Question.matches` needs, in addition to the key.
COLUMNS = (
    JOB.c.job_id, JOB.c.attempt, JOB.c.array_job_id, JOB.c.array_task_id, JOB.c.array_tasks, JOB.c.node_list,
    JOB.c.het_job_id, JOB.c.het_offset, JOB.c.submit_at_us,
)  # fmt: skip


@dataclass(frozen=True)
class Question:
    """A checked filter."""

    selects: tuple[Query, ...]  # of COLUMNS; together they return all rows, if ids are asked for some of them twice
    selectors: tuple[JobSelector, ...]
    nodes: frozenset[str]

    @property
    def is_sql(self) -> bool:
        """Whether SQL can express all of it: `matches` is true of every row then."""
        return bool(self.selects) and not self.nodes and not self.selectors

    def matches(self, ids: "Ids", node_list: str) -> bool:
        """Applies the conditions that SQL cannot express: sets of array tasks and of nodes."""
        if self.nodes and self.nodes.isdisjoint(_expanded(node_list)):
            return False
        return not self.selectors or any(True for _ in self._of(ids))

    def wanted_steps(self, ids: "Ids") -> set[int] | None:
        """The steps that were requested by id; None = all."""
        found = {s.step_id for s in self._of(ids)}
        return None if not found or None in found else {step_id for step_id in found if step_id is not None}

    def _of(self, ids: "Ids") -> Iterator[JobSelector]:
        for selector in self.selectors:
            if selector.submitted_s is not None:
                if selector.is_of(ids.job_id, ids.submit_at_us):
                    yield selector
            elif selector.het_offset is not None:
                if (selector.job_id, selector.het_offset) == (ids.het_job_id, ids.het_offset):
                    yield selector
            elif selector.tasks is None:
                if selector.job_id in (ids.job_id, ids.array_job_id, ids.het_job_id):
                    yield selector
            elif selector.job_id == ids.array_job_id and _has_task(selector.tasks, ids.task_id, ids.tasks):
                yield selector


class Ids(NamedTuple):
    """All ids by which a row may be selected."""

    job_id: int
    array_job_id: int
    task_id: int | None
    tasks: str | None
    het_job_id: int
    het_offset: int
    submit_at_us: int


def _has_task(wanted: TaskSet, task_id: int | None, tasks: str | None) -> bool:
    return task_id in wanted if task_id is not None else bool(tasks) and bool(wanted.intersect(_taskset(tasks or "")))


@lru_cache(maxsize=64)
def _taskset(text: str) -> TaskSet:
    return TaskSet.parse(text)


@lru_cache(maxsize=_HOSTLISTS_KEPT)
def _expanded(text: str) -> frozenset[str]:
    return frozenset(expand(text)) if text else frozenset()


def question(asked: RecordFilter) -> Question:
    """Checks a filter and chooses the index for its rows. Raises BadValue."""
    fields = (
        asked.uids, asked.accounts, asked.partitions, asked.names, asked.states, asked.qos, asked.wckeys, asked.group_ids,
        asked.assoc_ids,
    )  # fmt: skip
    if sum(map(len, fields)) > VALUES_MAX:
        raise BadValue(f"more than {VALUES_MAX} values in one question; ask for less at a time")
    if len(asked.ids) > IDS_MAX:
        raise BadValue(f"{len(asked.ids)} job ids, the limit is {IDS_MAX}; ask for them in parts")
    selectors = parse_all(asked.ids)
    nodes = frozenset(expand_all(asked.nodes))
    if (asked.ids and not selectors) or (asked.nodes and not nodes):
        return Question((), selectors, nodes)
    conditions = and_(true(), *_column_conditions(asked, nodes), _in_time(asked))
    sources = _sources(asked, sorted({s.job_id for s in selectors}))
    return Question(tuple(select(*COLUMNS).where(source, conditions) for source in sources), selectors, nodes)


def window_select(asking: Question, duplicates: bool, first: int, count: int, rows_max: int) -> Query:
    """Returns a query for `count` keys of a filter that `is_sql`, from the `first` on, the newest first, each with the `total`
    of keys and the number of `attempts` that match.

    The database counts and sorts: a pass over a long period's rows in Python would take the interpreter's lock all the while.
    It stops one after `rows_max` attempts: with more `attempts` than that there is no window of all of them.
    """
    parts = (one.with_only_columns(JOB.c.job_id, JOB.c.attempt) for one in asking.selects)
    rows = union_all(*parts).limit(rows_max + 1).subquery()
    groups = (rows.c.job_id, rows.c.attempt) if duplicates else (rows.c.job_id,)
    attempt = rows.c.attempt if duplicates else func.max(rows.c.attempt).label("attempt")
    total, attempts = func.count().over().label("total"), func.sum(func.count()).over().label("attempts")
    keys = select(rows.c.job_id, attempt, total, attempts).group_by(*groups)
    return keys.order_by(rows.c.job_id.desc(), attempt.desc()).limit(count).offset(first)


def _sources(asked: RecordFilter, ids: list[int]) -> tuple[ColumnElement[bool], ...]:
    """Returns conditions that have an index each, alone or (names, users) with one of `_column_conditions`."""
    if ids:
        by_leader = and_(IS_OF_HET, JOB.c.het_job_id.in_(ids))
        return JOB.c.job_id.in_(ids), and_(IS_OF_ARRAY, JOB.c.array_job_id.in_(ids)), by_leader
    if asked.names:
        return (true(),)
    ended = [ended_since(asked.start_at_us)]
    if asked.end_at_us and not {JobState.PENDING, JobState.RESIZING, *ALLOCATED_STATES} & _states(asked)[0]:
        ended.append(JOB.c.end_at_us <= asked.end_at_us)  # else a window of long ago would be read up to the present
    return and_(*ended), and_(IS_ACTIVE, not_(and_(*ended)))


def _states(asked: RecordFilter) -> tuple[frozenset[JobState], bool]:
    """Returns the states, and whether they are all."""
    return parse_job_states(",".join(asked.states) or "all")


def _column_conditions(asked: RecordFilter, nodes: frozenset[str]) -> Iterator[ColumnElement[bool]]:
    for column, values in (
        (JOB.c.user_id, asked.uids),
        (JOB.c.account, asked.accounts),
        (JOB.c.partition, asked.partitions),
        (JOB.c.name, asked.names),
        (JOB.c.qos, asked.qos),
        (JOB.c.wckey, tuple(spelling for key in asked.wckeys for spelling in (key, f"*{key}"))),
        (JOB.c.group_id, asked.group_ids),
        (JOB.c.assoc_id, asked.assoc_ids),
    ):
        if values:
            yield column.in_(values)
    if asked.seen_uid >= 0:
        own = JOB.c.user_id == asked.seen_uid
        yield or_(own, func.lower(JOB.c.account).in_(asked.seen_accounts)) if asked.seen_accounts else own
    if nodes:
        yield JOB.c.node_list != ""


def _in_time(asked: RecordFilter) -> ColumnElement[bool]:
    start_us, end_us = asked.start_at_us, asked.end_at_us
    states, every = _states(asked)
    if every:
        existed = [*_overlap(JOB.c.submit_at_us, END, start_us, end_us)]
        if not asked.ids and existed:
            existed.append(_WAS_ELIGIBLE)
        return and_(true(), *existed, *([JOB.c.eligible_at_us <= end_us] if end_us else []))
    if not (start_us or end_us):
        return or_(JOB.c.state.in_(sorted(int(state) for state in states)), *(map(_also, sorted(states))))
    return or_(false(), *(_in_state(state, start_us, end_us) for state in sorted(states)))


def _in_state(state: JobState, start_us: int, end_us: int) -> ColumnElement[bool]:
    """Returns the condition that the job was in the state at some time of the window."""
    if state is JobState.PENDING:
        since = case((JOB.c.eligible_at_us > JOB.c.submit_at_us, JOB.c.eligible_at_us), else_=JOB.c.submit_at_us)
        until = case((JOB.c.start_at_us > 0, JOB.c.start_at_us), else_=JOB.c.end_at_us)
        return and_(_WAS_ELIGIBLE, *_overlap(since, until, start_us, end_us))
    if state in ALLOCATED_STATES:
        # CONFIGURING and COMPLETING last seconds; their times are not recorded.
        now = true() if state is JobState.RUNNING else JOB.c.state == int(state)
        return and_(now, JOB.c.start_at_us > 0, *_overlap(JOB.c.start_at_us, END, start_us, end_us))
    if state is JobState.RESIZING:  # earlier ends are in JOB_SPAN: resized.py chooses
        return and_(_also(state), *_overlap(JOB.c.start_at_us, END, start_us, end_us))
    ended = END.between(start_us, end_us) if end_us else start_us <= END
    return and_(or_(JOB.c.state == int(state), _also(state)), ended)


def _also(state: JobState) -> ColumnElement[bool]:
    """Returns the condition for rows of another state that count as this one: see `records.shown_state`."""
    if state is JobState.REQUEUED:
        return false()
    if state is JobState.RESIZING:
        return JOB.c.resized_at_us > 0
    ending = and_(JOB.c.state == int(JobState.COMPLETING), JOB.c.end_state == int(state))
    if state is not JobState.PREEMPTED:
        return ending
    return or_(ending, and_(JOB.c.state == int(JobState.REQUEUED), JOB.c.reason == Reason.PREEMPTED.value))


def _overlap(
    since: ColumnElement[int], until: ColumnElement[int], start_us: int, end_us: int
) -> Iterator[ColumnElement[bool]]:
    """Returns the condition that [since, until) overlaps the window; until 0 = not over."""
    if start_us:
        yield or_(until >= start_us, until == 0)
    if end_us:
        yield since <= end_us
