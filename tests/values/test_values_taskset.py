"""Task sets against plain sets, and array specifications against abuse."""

import sys
import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.values.errors import BadValue
from penstock.values.taskset import ARRAY_TEXT_MAX, INTERLEAVED_IDS_MAX, TASK_ID_MAX, TaskSet, parse_array

STEADY = settings(deadline=None, derandomize=True)  # the same examples on any machine, however busy

RANGE = st.tuples(st.integers(0, 60), st.integers(0, 40), st.integers(1, 7)).map(
    lambda r: range(r[0], r[0] + r[1] + 1, r[2])
)
SPEC = st.lists(RANGE, min_size=1, max_size=6)
IDS = st.sets(st.integers(0, 80)) | SPEC.map(lambda ranges: {i for r in ranges for i in r})


def write(ranges: list[range]) -> str:
    return ",".join(f"{r[0]}-{r.stop - 1}:{r.step}" for r in ranges)


@STEADY
@given(SPEC)
def test_parse_gives_the_ids_written(ranges: list[range]) -> None:
    ids = {i for r in ranges for i in r}
    tasks = TaskSet.parse(write(ranges))
    assert list(tasks) == sorted(ids)
    assert len(tasks) == len(ids)
    assert tasks == TaskSet.of(ids)
    assert hash(tasks) == hash(TaskSet.of(ids))


@STEADY
@given(IDS)
def test_format_comes_back(ids: set[int]) -> None:
    tasks = TaskSet.of(ids)
    assert TaskSet.parse(tasks.format()) == tasks
    assert bool(tasks) == bool(ids)
    assert [i for i in range(-2, 110) if i in tasks] == sorted(ids)


@STEADY
@given(IDS)
def test_ranges_are_in_order_and_do_not_overlap(ids: set[int]) -> None:
    ranges = TaskSet.of(ids).ranges
    assert all(first <= last and (last - first) % step == 0 for first, last, step in ranges)
    assert all(a[1] < b[0] for a, b in pairwise(ranges))


@STEADY
@given(IDS, IDS)
def test_operations_agree_with_sets(a: set[int], b: set[int]) -> None:
    left, right = TaskSet.of(a), TaskSet.of(b)
    assert left.union(right) == TaskSet.of(a | b)
    assert left.minus(right) == TaskSet.of(a - b)
    assert left.intersect(right) == TaskSet.of(a & b)
    assert left.has_any(right) == bool(a & b)
    assert (left == right) == (a == b)
    assert (left, right) == (TaskSet.of(a), TaskSet.of(b))  # neither has changed


@STEADY
@given(IDS, st.integers(0, 90), st.integers(0, 90))
def test_taking_ids_away(ids: set[int], n: int, task_id: int) -> None:
    tasks = TaskSet.of(ids)
    taken, rest = tasks.pop_first(n)
    assert taken == sorted(ids)[:n]
    assert rest == TaskSet.of(sorted(ids)[n:])
    assert len(rest) == len(ids) - len(taken)
    assert tasks.without(task_id) == TaskSet.of(ids - {task_id})
    if ids:
        assert (tasks.first(), tasks.last()) == (min(ids), max(ids))


@STEADY
@given(IDS, st.lists(st.sets(st.integers(0, 80), max_size=4), max_size=6), IDS)
def test_removing_few_ids_again_and_again(ids: set[int], steps: list[set[int]], other: set[int]) -> None:
    """Each set keeps its ids, whatever is removed from it later."""
    sets, expected = [TaskSet.of(ids)], [set(ids)]
    for number, gone in enumerate(steps):
        origin = number if number % 3 else number // 2  # also from one that is not the last
        sets.append(sets[origin].minus(TaskSet.of(gone)))
        expected.append(expected[origin] - gone)
    for tasks, want in zip(sets, expected, strict=True):
        assert (len(tasks), bool(tasks)) == (len(want), bool(want))
        assert [i for i in range(-1, 100) if i in tasks] == sorted(want)
        assert tasks.has_any(TaskSet.of(other)) == TaskSet.of(other).has_any(tasks) == bool(want & other)
        assert tasks.intersect(TaskSet.of(other)) == TaskSet.of(want & other)
    for tasks, want in zip(sets, expected, strict=True):
        assert tasks == TaskSet.of(want)
        assert tasks.ranges == TaskSet.of(want).ranges


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("0-9,12,20-30:2", "0-9,12,20-30:2"),
        ("3,1,2", "1-3"),
        ("1,3,5", "1-5:2"),
        ("1,3", "1,3"),
        ("4-5", "4-5"),
        ("1-5,2-7", "1-7"),
        ("0-8:2,1-9:2", "0-9"),
        ("7,7,7", "7"),
        ("5-5:3", "5"),
        ("0-10:4", "0-8:4"),
    ],
)
def test_one_form_for_one_set(text: str, form: str) -> None:
    assert TaskSet.parse(text).format() == form
    assert repr(TaskSet.parse(text)) == f"TaskSet({form!r})"


def test_the_empty_set() -> None:
    empty = TaskSet()
    assert empty == TaskSet.parse("") == TaskSet.of([])
    assert (len(empty), list(empty), empty.format(), empty.pop_first(3)) == (0, [], "", ([], empty))
    with pytest.raises(IndexError):
        empty.first()


def test_a_large_array_is_one_range_from_first_to_last_task() -> None:
    tasks, throttle = parse_array("0-99999%10", 100_001)
    assert (len(tasks), throttle) == (100_000, 10)
    seen = 0
    while tasks:
        assert len(tasks.ranges) == 1
        (task_id,), tasks = tasks.pop_first(1)
        assert task_id == seen
        seen += 1
    assert seen == 100_000


def test_memory_does_not_grow_with_the_ids() -> None:
    tracemalloc.start()
    try:
        tasks = TaskSet.parse("0-3999999")
        tasks = tasks.without(2_000_000).minus(TaskSet.parse("0-1000000:2")).intersect(TaskSet.parse("0-3999999:3"))
        assert tracemalloc.get_traced_memory()[1] < 200_000
    finally:
        tracemalloc.stop()
    assert len(tasks) == 1_166_667
    assert len(tasks.ranges) < 10


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("0-4294967295", "MaxArraySize is 1001"),
        ("1001", "allowed: 0 to 1000"),
        ("1-10:0", "step"),
        ("1-10:99999999999999999999", "step"),
        ("5-1", "backwards"),
        ("1,,2", "''"),
        ("1,", "''"),
        (",1", "''"),
        ("", "''"),
        ("-1", "'-1'"),
        ("1-", "'1-'"),
        ("1:2", "'1:2'"),
        ("1-2-3", "not a task id"),
        ("1-5:2:2", "step"),
        ("%0", "limit after '%'"),
        ("1-5%0", "limit after '%'"),
        ("1-5%", "limit after '%'"),
        ("1-5%-1", "limit after '%'"),
        ("1-5%1%2", "limit after '%'"),
        ("1-5%1e309", "limit after '%'"),
        (f"{2**63}", "allowed: 0 to 1000"),
        ("1_000", "not a task id"),
        ("+5", "not a task id"),
        ("0x10", "not a task id"),
        ("１", "not a task id"),
        ("NaN", "not a task id"),
        (" 1", "not a task id"),
        ("1\0", "not a task id"),
        ("1\x1b[2J", "not a task id"),
        (",".join(map(str, range(10**6))), f"the limit is {ARRAY_TEXT_MAX}"),
    ],
)
def test_bad_arrays_are_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(BadValue, match=r"^Invalid job array specification: ") as error:
        parse_array(text, 1001)
    assert why in str(error.value)
    assert str(error.value).isprintable()
    assert len(str(error.value)) < 300


def test_interleaving_is_limited() -> None:
    assert len(TaskSet.parse("0-4998:2,1-4999:2").ranges) == 1
    with pytest.raises(BadValue, match=f"more than {INTERLEAVED_IDS_MAX} ids"):
        TaskSet.parse(f"0-{TASK_ID_MAX}:2,0-{TASK_ID_MAX}:3")


def test_overlap_without_interleaving_costs_nothing() -> None:
    text = ",".join(["0-4000000:7", "0-4000000:14", "7-3999999:7"] * 1000)
    assert TaskSet.parse(text).format() == "0-3999996:7"


def test_ids_outside_the_limits_are_refused() -> None:
    with pytest.raises(BadValue, match=f"allowed: 0 to {TASK_ID_MAX}"):
        TaskSet.of([-1])
    with pytest.raises(BadValue, match=f"allowed: 0 to {TASK_ID_MAX}"):
        TaskSet.parse(str(sys.maxsize))
