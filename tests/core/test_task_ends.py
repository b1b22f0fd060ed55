"""How the tasks of a step ended: what a node reports, and what the controller keeps of all nodes."""

# Any: whatever a report may have
from typing import Any

import pytest

from ctld.core.records.events import CreateStep, JobSubmission
from ctld.core.records.job import SpecRow
from ctld.core.records.step import SpreadStep, StepRequest
from ctld.core.steps.task_ends import STORED_CHARS_MAX, STORED_GROUPS_MAX, decode
from penstock.values.jobkind import JobKind
from penstock.values.taskends import GROUPS_MAX, RANKS_CHARS_MAX, EndGroup, EndKind, in_order, reported, sentence
from penstock.values.taskset import TaskSet
from tests.core.world import World, make_config

EXITED, UNKNOWN, NOT_STARTED = EndKind
KILLED = 9
SEGV_CORE = 11 | 0x80


def world_with_step(ntasks: int = 8, nodes: int = 2, **request: Any) -> World:
    cpus = 1 if request.get("overcommit") else -(-ntasks // nodes)
    world = World(make_config(nodes=nodes, cpus=cpus))
    for number in range(1, nodes + 1):
        world.register(f"n{number}")
    world.submit(
        JobSubmission(name="a", work_dir=b"/tmp", nodes_min=nodes, ntasks=cpus * nodes, kind=int(JobKind.SALLOC))
    )
    asked = StepRequest(ntasks=ntasks, nodes_min=nodes, **request)
    world.do(CreateStep(world.actor("ann"), 1, "k" * 32, asked, SpecRow(b"s", b"", (b"a",), ()), True, 99))
    world.step_started(1, 0)
    return world


def step_of(world: World) -> SpreadStep:
    step = world.core.state.jobs[1].steps[0]
    assert isinstance(step, SpreadStep)
    return step


def kept(world: World) -> tuple[list[EndGroup], int]:
    groups, left_out = decode(step_of(world).task_ends)
    return list(groups), left_out


# ---- what a node reports ---------------------------------------------------------------------------------------------


def test_tasks_that_ended_alike_are_one_group_and_those_with_0_none() -> None:
    ends = [(rank, 0) for rank in range(998)] + [(998, 3 << 8), (999, KILLED), (1000, SEGV_CORE), (1002, 3 << 8)]
    assert reported(ends) == ([(3, 0, "998,1002"), (0, 9, "999"), (0, 11, "1000")], 0)
    assert reported([(rank, 1 << 8) for rank in range(0, 2000, 2)]) == ([(1, 0, "0-1998:2")], 0)
    assert reported([(rank, 0) for rank in range(1000)]) == reported([]) == ([], 0)


def test_a_report_has_its_bounds_and_counts_what_does_not_fit() -> None:
    ranks = [rank for rank in range(6000) if rank % 7 in (1, 3, 4)]
    groups, left_out = reported([(rank, 256) for rank in ranks])
    ((code, signal, text),) = groups
    assert (code, signal) == (1, 0) and RANKS_CHARS_MAX - 20 < len(text) <= RANKS_CHARS_MAX
    assert list(TaskSet.parse(text)) == ranks[: len(ranks) - left_out] and left_out > 0
    groups, left_out = reported([(rank, (rank + 1) << 8) for rank in range(100)])
    assert [code for code, _, _ in groups] == list(range(1, GROUPS_MAX + 1)) and left_out == 100 - GROUPS_MAX


def test_the_order_has_first_what_ended_by_itself() -> None:
    groups = [
        EndGroup("n1", UNKNOWN, 0, 0, "1"), EndGroup("n1", EXITED, 0, 15, "0"), EndGroup("n1", EXITED, 0, 9, "5"),
        EndGroup("n2", NOT_STARTED, 0, 0, "0"), EndGroup("n2", EXITED, 0, 11, "10-12"), EndGroup("n1", EXITED, 1, 0, "9"),
    ]  # fmt: skip
    assert [one.ranks for one in in_order(groups)] == ["9", "10-12", "5", "0", "1", "0"]
    assert in_order(groups)[-1].kind is NOT_STARTED


def test_a_sentence() -> None:
    one = EndGroup("n2", EXITED, 0, 9, "5,7")
    assert sentence([one], 0, 1000) == "tasks 5,7 on n2 ended with signal 9 (of 1,000 tasks)"
    others = [
        one._replace(ranks="4", signal=0, code=3),
        one._replace(kind=NOT_STARTED, ranks="8"),
        one._replace(kind=UNKNOWN),
    ]
    assert sentence([*others, one], 3, 9) == (
        "task 4 on n2 ended with exit code 3; task 8 on n2 did not start; tasks 5,7 on n2 ended in an unknown way; "
        "5 more did not end with 0 (of 9 tasks)"
    )
    assert sentence([], 4, 9) == "4 tasks did not end with 0 (of 9 tasks)"
    many = one._replace(ranks=TaskSet.of(rank for rank in range(300) if rank % 5 in (0, 2)).format())
    assert sentence([many], 0, 300) == (
        "tasks 0,2,5,7,10,12,15,17,20,22,25,27,30,32,35,37,40,42,45,47,50 and 99 more on n2 ended with signal 9 (of 300 tasks)"
    )


# ---- what the controller keeps --------------------------------------------------------------------------------------


def test_groups_of_all_nodes_with_a_restart_between_and_reports_that_come_again() -> None:
    world = world_with_step()
    assert [part.ranks for part in step_of(world).all_parts] == [(0, 1, 2, 3), (4, 5, 6, 7)]
    said: dict[str, Any] = {"code": 3, "task_ends": ((3, 0, "2"), (0, 9, "3"))}
    world.step_exited(1, 0, "n1", **said)
    first = [("n1", EXITED, 3, 0, "2"), ("n1", EXITED, 0, 9, "3")]
    assert kept(world) == (first, 0)
    world.restart()
    world.register("n1")
    world.register("n2")
    assert kept(world) == (first, 0)
    world.report_step_exit("n1", (1, 0, 0), **said)
    assert kept(world) == (first, 0)
    world.report_step_exit("n2", (1, 0, 0), signal=11, task_ends=((0, 11, "4-7"),), task_ends_left_out=0)
    assert kept(world) == ([*first, ("n2", EXITED, 0, 11, "4-7")], 0)
    world.core.check()


@pytest.mark.parametrize("more", [{}, {"code": 0, "task_ends": ((0, 0, "0-3"),)}])
def test_nothing_is_kept_of_tasks_that_ended_with_0(more: dict[str, Any]) -> None:
    world = world_with_step()
    world.step_exited(1, 0, **more)
    assert step_of(world).state.name == "COMPLETED" and step_of(world).task_ends == ""


def test_nothing_is_kept_of_a_step_of_one_task() -> None:
    world = world_with_step(1, 1)
    world.step_exited(1, 0, "n1", code=3, task_ends=((3, 0, "0"),))
    assert (step_of(world).exit_code, step_of(world).task_ends) == (3, "")


def test_a_node_of_an_earlier_release_says_nothing() -> None:
    world = world_with_step()
    world.step_exited(1, 0, "n1", code=3)
    world.step_exited(1, 0, "n2")
    assert kept(world) == ([("n1", UNKNOWN, 0, 0, "0-3")], 0)


def test_a_step_out_of_memory_whose_tasks_ended_with_0() -> None:
    world = world_with_step()
    world.step_exited(1, 0, "n1", signal=125, out_of_memory=True)
    world.step_exited(1, 0, "n2")
    assert (step_of(world).state.name, step_of(world).task_ends) == ("OUT_OF_MEMORY", "")


def test_tasks_of_a_lost_node_have_no_end_and_those_of_a_failed_launch_no_start() -> None:
    world = world_with_step(no_kill=True)
    world.step_exited(1, 0, "n1", failure="the node was restarted", rebooted=True)
    assert kept(world) == ([("n1", UNKNOWN, 0, 0, "0-3")], 0)
    world = world_with_step()
    world.step_exited(1, 0, "n2", code=0, signal=15, task_ends=((0, 15, "4-7"),))
    assert kept(world) == ([("n2", EXITED, 0, 15, "4-7")], 0)
    world = World(make_config(nodes=2, cpus=2))
    world.register("n1")
    world.register("n2")
    world.submit(JobSubmission(name="a", work_dir=b"/tmp", nodes_min=2, ntasks=4, kind=int(JobKind.SALLOC)))
    asked = StepRequest(ntasks=4, nodes_min=2)
    world.do(CreateStep(world.actor("ann"), 1, "k" * 32, asked, SpecRow(b"s", b"", (b"a",), ()), True, 99))
    world.step_exited(1, 0, "n1", failure="cannot open stdout")
    assert kept(world) == ([("n1", NOT_STARTED, 0, 0, "0-1")], 0)


@pytest.mark.parametrize(
    ("ends", "left_out", "expected"),
    [
        pytest.param(((3, 0, "0-4000000"),), 0, ([(EXITED, 3, 0, "0-3")], 0), id="ranks of others"),
        pytest.param(((3, 0, "0-2"), (0, 9, "1-3")), 0, ([(EXITED, 3, 0, "0-2"), (EXITED, 0, 9, "3")], 0), id="a task twice"),
        pytest.param(((3, 0, "2"), (0, 9, "x;y")), 0, ([(EXITED, 3, 0, "2"), (UNKNOWN, 0, 0, "0-1,3")], 0), id="no ranks"),
        pytest.param(((0, 9, "0," * RANKS_CHARS_MAX),), 7, ([(UNKNOWN, 0, 0, "0-3")], 0), id="too long"),
        pytest.param(tuple((3, 0, "0") for _ in range(GROUPS_MAX + 1)), 0, ([(EXITED, 3, 0, "0"), (UNKNOWN, 0, 0, "1-3")], 0),
                     id="too many"),
        pytest.param(((0, 9, ",".join(f"{i}-4000000:{i + 2}" for i in range(200))),), 0, ([(UNKNOWN, 0, 0, "0-3")], 0),
                     id="ranges that interleave"),
        pytest.param(((1 << 30, -5, "0"), (-3, 1 << 20, "1")), 0, ([(EXITED, 255, 0, "0"), (EXITED, 0, 127, "1")], 0),
                     id="ends that are none"),
        pytest.param(((3, 0, "0"),), 1 << 31, ([(EXITED, 3, 0, "0")], 3), id="more tasks than it has"),
        pytest.param(((3, 0, ""), (0, 0, "0-3")), 0, ([(UNKNOWN, 0, 0, "0-3")], 0), id="nothing"),
    ],
)  # fmt: skip
def test_a_node_may_say_anything(ends: tuple[tuple[int, int, str], ...], left_out: int, expected: Any) -> None:
    world = world_with_step()
    world.step_exited(1, 0, "n1", code=3, task_ends=ends, task_ends_left_out=left_out)
    groups, rest = kept(world)
    assert ([one[1:] for one in groups], rest) == expected
    assert step_of(world).all_parts[0].exit_code == 3  # the end itself is not lost
    world.step_exited(1, 0, "n2")
    assert step_of(world).state.name == "FAILED"


def test_a_step_keeps_to_its_bounds() -> None:
    nodes = STORED_GROUPS_MAX // 2 + 5
    world = world_with_step(nodes * 3, nodes)
    for number, part in enumerate(step_of(world).all_parts):
        first = part.ranks[0]
        world.step_exited(
            1, 0, part.node, code=1, task_ends=((1 + number, 0, str(first)), (0, 9, f"{first + 1}-{first + 2}"))
        )
    groups, left_out = kept(world)
    assert len(groups) == STORED_GROUPS_MAX and left_out == 5 * 3


def test_long_ranks_of_a_step_are_cut_and_counted() -> None:
    world = world_with_step(2000, 4, overcommit=True)
    failed = 0
    for part in step_of(world).all_parts:
        ranks = TaskSet.of(rank for rank in part.ranks if rank % 3 != 1)
        failed += len(ranks)
        assert len(ranks.format()) < RANKS_CHARS_MAX
        world.step_exited(1, 0, part.node, code=1, task_ends=((1, 0, ranks.format()),))
    groups, left_out = kept(world)
    assert STORED_CHARS_MAX - 30 < sum(len(one.node) + len(one.ranks) for one in groups) <= STORED_CHARS_MAX
    assert sum(len(TaskSet.parse(one.ranks)) for one in groups) + left_out == failed and left_out > 0
