"""Tables of pending jobs: many at once as one by one, the ids that have no rows yet, jobs by name."""

from types import SimpleNamespace
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from ctld.core.records.job import Job
from ctld.core.state.jobs_by_name import JobsByName
from ctld.core.state.pending import Outside, PendingColumns, Shape, Terms

SHAPE = Shape(0, 1, 1, 1, 1, 0, 0, -1, (), 0)
TERMS = Terms(0, 60, 60)

#: Ids of two groups, and their ranks: few, so that many are equal.
ranked = st.dictionaries(st.integers(1, 60), st.integers(0, 3), min_size=1, max_size=30)


@given(ranked, ranked)
def test_many_become_ready_as_one_by_one(first: dict[int, int], then: dict[int, int]) -> None:
    then = {job_id: rank for job_id, rank in then.items() if job_id not in first} or {99: 1}
    at_once, each = PendingColumns(0), PendingColumns(0)
    for group in (first, then):
        ids, ranks = list(group), list(group.values())
        rows = at_once.add_many(ids, [(0, SHAPE)] * len(ids), [TERMS] * len(ids))
        at_once.set_ready_many(ids, rows, ranks, [1] * len(ids), [0] * len(ids))
        for job_id, rank in group.items():
            each.add(job_id, [(0, SHAPE)], TERMS)
            each.set_ready(job_id, [rank], 1)
    assert list(at_once.ready) == list(each.ready)
    known = first | then
    in_order = sorted(known, key=lambda job_id: (-known[job_id], job_id))
    assert at_once.table.job[at_once.first(100)].tolist() == in_order
    assert at_once.ranks_of(at_once.first(100)) == [known[job_id] for job_id in in_order]
    assert at_once.last_ready()[0] == in_order[-1]
    for job_id in in_order[::2]:
        at_once.remove(job_id)
    assert at_once.table.job[at_once.first(100)].tolist() == in_order[1::2]


def test_a_job_that_may_run_in_several_ways_has_several_rows() -> None:
    pending = PendingColumns(0)
    pending.add(7, [(0, SHAPE), (1, SHAPE)], TERMS)
    pending.add(8, [(1, SHAPE)], TERMS)
    assert (pending.rows_of(7), pending.rows_of(8), pending.rows_of(9)) == ((0, 1), (2,), ())
    pending.set_ready(7, [None, 5], 1)
    pending.set_ready(8, [6], 1)
    assert (pending.is_ready(7), pending.ready_rows(7), pending.rank_of(7)) == (True, [1], 5)
    assert (pending.rank_of_row(0), pending.rank_of(9), pending.is_ready(9)) == (None, None, False)
    assert pending.table.job[pending.first(9)].tolist() == [8, 7]
    pending.remove(7)
    assert not pending.has_rows(7)
    assert pending.rows_of(7) == ()
    pending.add(7, [(0, SHAPE)], TERMS)
    assert len(pending.rows_of(7)) == 1
    assert not pending.is_ready(7)


def test_ids_are_taken_from_the_front() -> None:
    outside = Outside([3, 5, 8, 13])
    assert (len(outside), 5 in outside, 4 in outside, 14 in outside) == (4, True, False, False)
    assert list(outside.take(3)) == [3, 5, 8]
    assert (len(outside), 5 in outside, 13 in outside) == (1, False, True)
    assert list(outside.take(3)) == [13]
    assert (len(outside), list(outside.take(3)), 13 in outside) == (0, [], False)


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 8), st.sampled_from("ab")), max_size=40))
def test_older_jobs_of_the_same_name_are_found(moves: list[tuple[bool, int, str]]) -> None:
    by_name, held = JobsByName(), dict[int, Job]()
    for is_entered, job_id, name in moves:
        if is_entered and job_id not in held:
            made = SimpleNamespace(job_id=job_id, array_job_id=0, user_id=1, request=SimpleNamespace(name=name))
            held[job_id] = cast(Job, made)
            by_name.enter(held[job_id])
        elif not is_entered and job_id in held:
            by_name.leave(held.pop(job_id))
        for job in held.values():
            older = any(one.job_id < job.job_id and one.request.name == job.request.name for one in held.values())
            assert by_name.has_older(job, held) == older
