"""`penstock why`: each obstacle is named, and each hint is true: who follows it starts when it said."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctld.core.diagnose.leaves import UsedLeaf
from ctld.core.diagnose.why import ShapeHint, Why, explain, inquire
from ctld.core.records.events import (
    ControlAction,
    ControlJobs,
    CreateReservation,
    JobSubmission,
    ReservationSettings,
    UpdateNodes,
    UpdatePartition,
)
from penstock.values.config import PartitionConfig
from penstock.values.duration import parse_duration_s
from penstock.values.hostlist import expand
from penstock.values.memory import parse_mb
from penstock.values.states import JobState, Reason
from penstock.values.topology import Switch, Topology
from tests.core.world import US, USERS, World, make_config

MINUTE_S, HOUR_S = 60, 3600


def job(**wanted: Any) -> JobSubmission:
    return JobSubmission(**{"name": "j", "work_dir": b"/", "time_limit_s": HOUR_S, **wanted})


def world(*queue: JobSubmission, **config: Any) -> World:
    """Nodes that are up, and these jobs submitted in turn: job 1, job 2, ..."""
    made = World(make_config(**config))
    for node in made.config.nodes:
        made.register(node.name)
    for number, wanted in enumerate(queue):
        made.submit(wanted, key=f"{number:032x}")
    return made


def why(made: World, job_id: int, user: str = "ann") -> Why:
    state = made.core.state
    digest = made.core.digest()
    found = explain(inquire(state, made.now_us, state.jobs[job_id], made.actor(user)))
    assert made.core.digest() == digest
    made.core.check()
    return found


def options(found: Why) -> list[str]:
    return [" ".join(hint.options) for hint in found.hints]


def after_s(found: Why, start_s: int) -> int:
    return start_s - found.now_s


READ: dict[str, Callable[[str], dict[str, Any]]] = {
    "--time": lambda text: {"time_limit_s": parse_duration_s(text)},
    "--nodes": lambda text: {"nodes_min": int(text), "nodes_max": int(text)},
    "--gres": lambda text: {"gres_per_node": (("gpu", "", int(text.rpartition(":")[2])),)},
    "--cpus-per-task": lambda text: {"cpus_per_task": int(text)},
    "--mem": lambda text: {"mem_per_node_mb": parse_mb(text)},
    "--partition": lambda text: {"partitions": (text,)},
    "without --constraint": lambda text: {"features": ""},
    "without --nodelist": lambda text: {"nodes_required": ""},
    "without --exclude": lambda text: {"nodes_excluded": ""},
    "without --exclusive": lambda text: {"exclusive": False},
    "without --exclusive=topo": lambda text: {"exclusive_topo": False},
    "without --licenses": lambda text: {"licenses": ""},
}


def follow(queue: list[JobSubmission], hint: ShapeHint, config: dict[str, Any]) -> None:
    """The same queue, its last job submitted as the hint says: it starts when and where the hint says."""
    changed = {field: getattr(queue[-1], field) for field in queue[-1].__struct_fields__}
    for option in hint.options:
        name, _, value = option.partition("=")
        changed |= READ[name](value)
    text = " ".join(hint.options)
    made = world(*queue[:-1], JobSubmission(**changed), **config)
    last = made.core.state.jobs[len(queue)]
    if hint.starts_now:
        assert last.state is JobState.RUNNING, text
        assert tuple(sorted(part.node for part in last.alloc)) == tuple(sorted(hint.nodes)), text
    else:
        assert last.state is JobState.PENDING, text
        assert made.core.state.scheduling.forecast is not None
        assert made.core.state.scheduling.forecast.of_many([last.job_id]) == {
            last.job_id: (hint.start_s, hint.nodes)
        }, text


FAST = {"nodes": 2, "cpus": 8, "mem_mb": 8000, "gpus": 4}
GPU = (("gpu", "", 3),)
#: (queue; its last job waits, the hints that it gets, configuration)
CASES: dict[str, tuple[list[JobSubmission], list[str], dict[str, Any]]] = {
    "a gap before a planned job": (
        [
            job(nodes_min=1, exclusive=True, time_limit_s=4 * HOUR_S, nodes_required="n1"),
            job(nodes_min=2, exclusive=True, time_limit_s=HOUR_S),
            job(exclusive=True, time_limit_s=8 * HOUR_S),
        ],
        ["--time=4:00:00"],
        FAST,
    ),
    "fewer GPUs": (
        [job(gres_per_node=GPU, nodes_required="n1"), job(gres_per_node=GPU, nodes_required="n2"), job(gres_per_node=GPU)],
        ["--gres=gpu:1"],
        FAST,
    ),
    "fewer nodes": (
        [job(exclusive=True), job(nodes_min=2, time_limit_s=HOUR_S)],
        ["--nodes=1"],
        FAST,
    ),
    "less memory": (
        [job(mem_per_node_mb=6000, nodes_required="n1"), job(mem_per_node_mb=6000), job(mem_per_node_mb=4000)],
        ["--mem=2000M"],
        FAST,
    ),
    "fewer cpus": (
        [job(cpus_per_task=6), job(cpus_per_task=6), job(cpus_per_task=4)],
        ["--cpus-per-task=2"],
        FAST,
    ),
    "without the feature": ([job(exclusive=True), job(features="fast")], ["without --constraint=fast"], FAST),
    "without the node": (
        [job(nodes_required="n1", exclusive=True), job(nodes_required="n1")], ["without --nodelist=n1"], FAST
    ),
    "not alone": (
        [job(cpus_per_task=1, nodes_required="n1"), job(cpus_per_task=1, nodes_required="n2"), job(exclusive=True)],
        ["without --exclusive"],
        FAST,
    ),
    "shorter and with fewer GPUs": (
        [
            job(gres_per_node=GPU, nodes_required="n1", time_limit_s=5 * HOUR_S),
            job(gres_per_node=(("gpu", "", 4),), nodes_required="n2", time_limit_s=5 * HOUR_S),
            job(nodes_min=2, exclusive=True),
            job(gres_per_node=(("gpu", "", 2),), time_limit_s=8 * HOUR_S),
        ],
        ["--gres=gpu:1 --time=5:00:00"],
        FAST,
    ),
    "another partition": (
        [job(partitions=("debug",), exclusive=True), job(partitions=("debug",))],
        ["--partition=other"],
        FAST | {
            "partitions": (
                PartitionConfig("debug", ("n1",), is_default=True), PartitionConfig("other", ("n2",)),
                PartitionConfig("closed", ("n2",), state="DOWN"), PartitionConfig("staff", ("n2",), root_only=True),
                PartitionConfig("short", ("n2",), max_time_s=60),
            )
        },
    ),
    "no license": (
        [job(licenses="matlab:2"), job(licenses="matlab:1")],
        ["without --licenses=matlab:1"],
        FAST | {"licenses": (("matlab", 2),)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_every_hint_is_true(name: str) -> None:
    queue, expected, config = CASES[name]
    made = world(*queue, **config)
    found = why(made, len(queue))
    assert found.planned is not None
    assert made.core.state.scheduling.forecast is not None
    assert made.core.state.scheduling.forecast.of_many([len(queue)]) == {
        len(queue): (found.planned.start_s, found.planned.nodes)
    }
    assert [text for text in options(found) if text in expected] == expected, options(found)
    assert [hint.start_s for hint in found.hints] == sorted(hint.start_s for hint in found.hints)
    for hint in found.hints:
        assert hint.start_s < found.planned.start_s
        assert hint.starts_now == (hint.start_s == found.now_s)
        follow(queue, hint, config)


def test_the_limit_of_a_hint_is_the_longest_that_starts_now() -> None:
    queue = [
        job(time_limit_s=50 * MINUTE_S, exclusive=True, nodes_required="n1"), job(nodes_min=2, exclusive=True),
        job(time_limit_s=5 * HOUR_S, exclusive=True),
    ]  # fmt: skip
    found = why(world(*queue, **FAST), 3)
    # the start of job 2 is planned for a whole minute (bf_resolution), so that there may be seconds more
    (hint,) = [h for h in found.hints if h.options[0].startswith("--time")]
    limit_s = parse_duration_s(hint.options[0].partition("=")[2])
    assert hint.starts_now and 50 * MINUTE_S <= limit_s < 51 * MINUTE_S
    follow(queue, hint, FAST)
    longer = limit_s + MINUTE_S
    made = world(*queue[:2], job(time_limit_s=longer, exclusive=True), **FAST)
    assert made.core.state.jobs[3].state is JobState.PENDING


def test_what_is_missing_is_counted() -> None:
    made = world(
        job(gres_per_node=(("gpu", "", 4),), time_limit_s=HOUR_S), job(gres_per_node=(("gpu", "", 2),)),
        job(cpus_per_task=7, nodes_required="n3", time_limit_s=HOUR_S // 2), job(gres_per_node=(("gpu", "", 4),), cpus_per_task=2),
        nodes=3, cpus=8, mem_mb=8000, gpus=4,
    )  # fmt: skip
    found = why(made, 4)
    (needs,) = found.needs
    assert (needs.nodes_total, needs.nodes_qualify, needs.nodes_up, needs.nodes_free, needs.nodes_wanted) == (
        3,
        3,
        3,
        0,
        1,
    )
    assert {r.name: (r.amount, r.nodes_free) for r in needs.resources} == {
        "cpu": (2, 2), "mem": (200, 3), "gres/gpu": (4, 1),
    }  # fmt: skip
    assert (after_s(found, needs.next_free_s), needs.next_free_node) == (HOUR_S // 2, "n3")
    assert needs.enough_free_s == needs.next_free_s
    made.do(UpdateNodes(made.actor("root"), ("n3",), {"state": "drain", "reason": "x"}, made.reply_to()))
    (needs,) = why(made, 4).needs
    assert (needs.nodes_qualify, needs.nodes_up, needs.next_free_node) == (3, 2, "n1")


def test_jobs_in_front_that_want_the_same_nodes() -> None:
    wide = [job(nodes_min=2, exclusive=True) for _ in range(8)]
    made = world(
        job(exclusive=True, nodes_min=2), *wide, job(nodes_required="n3", exclusive=True), **FAST | {"nodes": 3}
    )
    found = why(made, 9)
    assert [(f.job_id, f.nodes_wanted) for f in found.in_front] == [(j, 2) for j in (2, 3, 4, 5, 6)]
    assert found.in_front_more == 2
    assert found.in_front[0].nodes == ("n1", "n2") and after_s(found, found.in_front[0].start_s) >= HOUR_S


def test_licenses_that_are_missing() -> None:
    made = world(job(licenses="a:2,b:1"), job(licenses="a:1,b:1"), **FAST | {"licenses": (("a", 2), ("b", 2))})
    found = why(made, 2)
    assert [(one.name, one.wanted, one.free, after_s(found, one.enough_s)) for one in found.licenses] == [
        ("a", 1, 0, HOUR_S)
    ]


def texts(found: Why) -> list[tuple[str, str]]:
    return [(o.reason.value, o.text) for o in found.obstacles]


def test_every_obstacle_outside_resources_is_told() -> None:
    made = world(
        job(), job(hold=True, dependency="afterok:1", begin_at_us=2_000_000 * US, time_limit_s=2 * HOUR_S),
        partitions=(PartitionConfig("debug", ("n1", "n2"), is_default=True, max_time_s=HOUR_S),),
    )  # fmt: skip
    found = why(made, 2)
    assert texts(found) == [
        ("JobHeldUser", "held by its owner ann: scontrol release releases it"),
        ("Dependency", "it waits for afterok:1 (RUNNING)"),
        ("BeginTime", "it may not begin before"),
        ("PartitionTimeLimit", "its time limit is 2:00:00, partition debug has MaxTime=1:00:00"),
    ]
    assert found.obstacles[2].at_us == 2_000_000 * US
    assert found.if_released and found.planned is not None and found.planned.start_s >= 2_000_000
    assert found.hints == ()  # nothing that it could ask for lets a held job go


def test_array_limit_and_partition_state() -> None:
    made = world(job(array="1-5%2"))
    made.do(UpdatePartition(made.actor("root"), "debug", {"state": "down"}, made.reply_to()))
    assert texts(why(made, 1)) == [
        ("JobArrayTaskLimit", "2 tasks of its array run, and its limit is %2"), ("PartitionDown", "partition debug is DOWN"),
    ]  # fmt: skip


def test_a_limit_of_the_partition_gets_a_hint() -> None:
    made = world(
        job(time_limit_s=2 * HOUR_S),
        partitions=(PartitionConfig("debug", ("n1", "n2"), is_default=True, max_time_s=HOUR_S),),
    )
    found = why(made, 1)
    assert options(found)[0] == "--time=1:00:00" and found.hints[0].starts_now


def test_an_administrators_hold_and_a_dependency_that_never_comes() -> None:
    made = world(job(), job(dependency="afternotok:1"), job())
    made.do(ControlJobs(made.actor("root"), ("3",), ControlAction.HOLD, made.reply_to()))
    made.started(1)
    made.exited(1)
    assert texts(why(made, 2)) == [
        ("DependencyNeverSatisfied", "it will never start, for it depends on afternotok:1 (COMPLETED)")
    ]
    made = world(job(exclusive=True, nodes_min=2), job())
    made.do(ControlJobs(made.actor("root"), ("2",), ControlAction.HOLD, made.reply_to()))
    assert texts(why(made, 2)) == [("JobHeldAdmin", "held by an administrator")]


def reserve(made: World, name: str, nodes: tuple[str, ...], user: str, from_s: int, length_s: int) -> None:
    wanted = ReservationSettings(
        start_at_us=made.now_us + from_s * US, duration_s=length_s, nodes=tuple(("", name) for name in nodes),
        users=(("", user, USERS[user]),),
    )  # fmt: skip
    made.do(CreateReservation(made.actor("root"), name, wanted, made.reply_to()))
    assert name in made.core.state.reservations, made.replies


def test_reservations_in_the_way_are_named() -> None:
    made = world(**FAST)
    reserve(made, "maint", ("n1", "n2"), "bob", 2 * HOUR_S, HOUR_S)
    made.submit(job(time_limit_s=4 * HOUR_S), key="e" * 32)
    found = why(made, 1)
    assert [(r.name, after_s(found, r.from_s), after_s(found, r.to_s), r.nodes) for r in found.reservations] == [
        ("maint", 2 * HOUR_S, 3 * HOUR_S, 2)
    ]
    assert found.planned is not None and after_s(found, found.planned.start_s) >= 3 * HOUR_S
    assert options(found)[0] == "--time=2:00:00" and found.hints[0].starts_now


def test_a_job_in_a_reservation_gets_hints_for_it_and_without_it() -> None:
    made = world(**FAST)
    reserve(made, "mine", ("n1",), "ann", 2 * HOUR_S, 2 * HOUR_S)
    made.submit(job(time_limit_s=HOUR_S, reservation="mine"), key="e" * 32)
    found = why(made, 1)
    assert found.planned is not None and found.planned.nodes == ("n1",)
    assert 2 * HOUR_S <= after_s(found, found.planned.start_s) < 2 * HOUR_S + MINUTE_S
    assert options(found) == ["without --reservation=mine"]
    made.submit(job(time_limit_s=3 * HOUR_S, reservation="mine"), key="d" * 32)
    found = why(made, 2)
    assert texts(found)[0][0] == "Reservation" and found.if_released
    assert options(found) == ["without --reservation=mine", "--time=1:30:00"]


def test_easy_backfill_counts_only_what_holds() -> None:
    """With EASY only the first that waits holds: a later one does not stand in the way of the hint."""
    queue = [
        job(exclusive=True, nodes_required="n1", time_limit_s=4 * HOUR_S), job(nodes_min=2, exclusive=True),
        job(exclusive=True, time_limit_s=6 * HOUR_S), job(exclusive=True, time_limit_s=8 * HOUR_S),
    ]  # fmt: skip
    config = FAST | {"penstock_backfill": "EASY"}
    found = why(world(*queue, **config), 4)
    assert options(found)[0] == "--time=4:00:00"
    follow(queue, found.hints[0], config)


def test_a_job_that_can_start_gets_no_hint_and_names_expand() -> None:
    made = world(job(exclusive=True, nodes_min=2), job(), **FAST)
    state = made.core.state
    made.submit(job(), key="f" * 32)
    found = why(made, 2)
    assert found.planned is not None and set(found.planned.nodes) <= set(expand("n[1-2]"))
    assert state.jobs[2].reason is Reason.RESOURCES and found.victims == () and not found.may_preempt


sizes = st.tuples(st.integers(1, 8), st.integers(0, 4), st.integers(1, 2), st.integers(1, 9), st.booleans())


@given(st.lists(sizes, min_size=3, max_size=9))
def test_hints_are_true_on_random_queues(wishes: list[tuple[int, int, int, int, bool]]) -> None:
    queue = [
        job(
            cpus_per_task=cpus, gres_per_node=(("gpu", "", gpus),) if gpus else (), nodes_min=nodes,
            time_limit_s=hours * 50 * MINUTE_S, exclusive=alone, mem_per_node_mb=cpus * 900,
        )
        for cpus, gpus, nodes, hours, alone in wishes
    ]  # fmt: skip
    made = world(*queue, **FAST)
    if made.core.state.jobs[len(queue)].state is JobState.PENDING:
        found = why(made, len(queue))
        assert found.planned is not None
        for hint in found.hints:
            follow(queue, hint, FAST)


def test_the_leaf_that_another_job_uses_is_named() -> None:
    """--exclusive=topo: of the job that wants a leaf switch for itself, and of one that finds it taken."""
    leaves = tuple(Switch(f"s{i + 1}", 0, names) for i, names in enumerate((("n1", "n2"), ("n3",))))
    made = world(
        job(nodes_required="n1"),
        job(nodes_required="n3", exclusive_topo=True),
        job(exclusive_topo=True, nodes_required="n2"),
        job(nodes_required="n3"),
        nodes=3,
        topology=Topology("tree", leaves),
    )
    found = why(made, 3)
    assert found.leaves == (UsedLeaf("s1", 1, (1,), 0, False),)
    assert (found.needs[0].nodes_up, found.needs[0].nodes_free) == (1, 0)
    assert found.planned is not None
    assert after_s(found, found.planned.start_s) >= HOUR_S
    assert "without --exclusive=topo" in options(found)
    found = why(made, 4)
    assert found.leaves == (UsedLeaf("s2", 1, (2,), 0, True),)
    assert (found.needs[0].nodes_free, found.needs[0].next_free_node) == (0, "n3")
    made.started(1)
    made.exited(1)
    assert {made.core.state.jobs[i].state for i in (2, 3)} == {JobState.RUNNING}
