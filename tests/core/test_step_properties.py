"""Steps at random: what they get never overlaps, ranks are complete, and each ends once whatever the nodes say and when.

`World.settle` checks the invariants after every event (ctld/core/steps/invariants.py has those of steps), so most of what
must hold is checked by playing.
"""

from typing import Any

from effort import examples
from hypothesis import given
from hypothesis import strategies as st

from ctld.core.records.events import (
    CancelJobs,
    ControlAction,
    ControlJobs,
    CreateStep,
    EndAllocation,
    JobFilter,
    JobSubmission,
    StopWaiting,
)
from ctld.core.records.job import SpecRow
from ctld.core.records.request import NodeAlloc
from ctld.core.records.step import StepRequest, Unfit, UsedResources
from ctld.core.state.devices import layout_of
from ctld.core.steps.plan import count_of, is_exact, plan_step, rank_lists
from penstock.values.config import NodeConfig
from penstock.values.gres import Gres
from penstock.values.states import END_STATES, JobState
from tests.core.world import World, make_config

NODE = NodeConfig("n", "n", "n", 8, sockets=2, real_memory_mb=8000, gres=(Gres("gpu", "a", 4),))
INSIDE = layout_of(NODE)

requests = st.builds(
    StepRequest,
    nodes_min=st.integers(0, 3),
    ntasks=st.integers(0, 12),
    cpus_per_task=st.integers(0, 3),
    ntasks_per_node=st.integers(0, 3),
    mem_per_cpu_mb=st.none() | st.integers(0, 300),
    gres_per_node=st.sampled_from([(), (), (("gpu", "", 1),), (("gpu", "a", 2),)]),
    gres_per_task=st.sampled_from([(), (), (("gpu", "", 1),)]),
    no_gres=st.booleans(),
    exact=st.booleans(),
    overlap=st.sampled_from([False, False, False, True]),
    overcommit=st.sampled_from([False, False, True]),
    distribution=st.sampled_from(["", "cyclic", "plane=2", "block,Pack", "block:cyclic"]),
    relative=st.none() | st.integers(0, 2),
    kill_on_bad_exit=st.booleans(),
    time_limit_s=st.none() | st.integers(1, 100),
)


@st.composite
def allocations(draw: Any) -> tuple[NodeAlloc, ...]:
    parts = []
    for i in range(draw(st.integers(1, 3))):
        ids, gpus = draw(st.integers(1, 255)), draw(st.integers(0, 15))
        gres = (("gpu", "a", gpus),) if gpus else ()
        parts.append(NodeAlloc(f"n{i}", ids.bit_count(), draw(st.integers(1, 2000)), 1, gres, ids))
    return tuple(parts)


@given(allocations(), requests, st.integers(0, 255), st.integers(0, 15), st.integers(0, 1500))
def test_a_plan_takes_only_what_is_free(
    alloc: tuple[NodeAlloc, ...], request: StepRequest, cpus: int, gpus: int, mem_mb: int
) -> None:
    held = {}
    for part in alloc:
        ids, mask = part.cpu_ids & cpus, gpus & (part.gres[0][2] if part.gres else 0)
        held[part.node] = UsedResources(
            ids.bit_count(), ids, min(mem_mb, part.mem_mb), (("gpu", "a", mask),) if mask else ()
        )
    try:
        plan = plan_step(alloc, request, held, lambda name: INSIDE, 512)
    except Unfit:
        return
    by_node = {part.node: part for part in alloc}
    for piece in plan.parts:
        mine, other = by_node[piece.node], UsedResources() if request.overlap else held[piece.node]
        assert piece.cpu_ids and not piece.cpu_ids & ~(mine.cpu_ids & ~other.cpu_ids)
        assert piece.cpus == piece.cpu_ids.bit_count()
        if not request.overcommit:
            assert len(piece.ranks) * max(1, request.cpus_per_task) <= piece.cpus
        if not is_exact(request):
            assert piece.cpus == mine.cpus
        taken = {(name, type_): mask for name, type_, mask in other.gres}
        for name, type_, mask in piece.gres:
            assert not mask & taken.get((name, type_), 0)
            assert not mask & ~dict(((n, t), m) for n, t, m in mine.gres)[name, type_]
        if request.mem_per_cpu_mb:
            assert piece.mem_mb == piece.cpus * request.mem_per_cpu_mb <= mine.mem_mb - other.mem_mb
        if not request.no_gres:
            for name, type_, count in request.gres_per_task:
                have = count_of({(n, t): m for n, t, m in piece.gres}, name, type_)
                assert have >= count * len(piece.ranks)
    ranks = sorted(rank for part in plan.parts for rank in part.ranks)
    assert ranks == list(range(len(ranks)))
    assert not request.ntasks or len(ranks) == request.ntasks or request.ntasks < len(plan.parts)
    # what fits beside others fits alone
    plan_step(alloc, request, {}, lambda name: INSIDE, 512)


@given(
    st.lists(st.integers(1, 20), min_size=1, max_size=6),
    st.sampled_from(["", "block", "*", "cyclic", "plane=3", "plane=100", "plane=0", "plane=x", "nonsense"]),
)
def test_ranks_are_a_permutation(counts: list[int], distribution: str) -> None:
    lists = rank_lists(counts, distribution)
    assert [len(ranks) for ranks in lists] == counts
    assert sorted(rank for ranks in lists for rank in ranks) == list(range(sum(counts)))
    assert all(list(ranks) == sorted(ranks) for ranks in lists)


DEEDS = (
    "create", "create", "create", "start", "start", "exit", "exit", "exit", "again", "cancel", "stop", "restart",
    "drop", "back", "advance", "batch_end", "end", "kill", "suspend",
)  # fmt: skip


class Play:
    """One world, a job with a script and one without, and what happens to them."""

    def __init__(self) -> None:
        self.world = world = World(make_config(nodes=3, cpus=4, gpus=2, mem_mb=4000, kill_wait_s=1))
        for node in world.config.nodes:
            world.register(node.name)
        base = {"work_dir": b"/tmp", "nodes_min": 3, "ntasks": 6, "gres_per_node": (("gpu", "", 1),)}
        world.submit(JobSubmission(name="a", **base))  # type: ignore[arg-type]  # keywords of many types
        world.submit(JobSubmission(name="b", kind=1, **base))  # type: ignore[arg-type]  # keywords of many types
        world.started(1)
        self.promised: dict[tuple[int, int], None] = {}
        self.calls: list[int] = []
        self.keys = 0
        self.reports: list[tuple[str, tuple[int, int, int]]] = []

    def create(self, job_id: int, request: StepRequest) -> None:
        self.keys += 1
        reply_to = self.world.reply_to()
        key = f"{self.keys:032x}"
        spec = SpecRow(key.encode(), b"", (b"/bin/x",), ())
        self.world.do(CreateStep(self.world.actor("ann"), job_id, key, request, spec, True, reply_to))
        self.calls.append(reply_to)

    def places(self) -> list[tuple[str, tuple[int, int, int]]]:
        return [(node, key) for node, steps in self.world.srun.items() if node in self.world.links for key in steps]

    def deed(self, what: str, number: int, request: StepRequest) -> None:
        world = self.world
        places = self.places()
        node, key = places[number % len(places)] if places else ("", (0, 0, 0))
        if what == "create":
            self.create(1 + number % 2, request)
        elif what == "start" and node:
            world.step_started(key[0], key[2], node)
        elif what == "exit" and node:
            self.reports.append((node, key))
            world.step_exited(key[0], key[2], node, code=number % 3)
        elif what == "again" and self.reports:
            node, key = self.reports[number % len(self.reports)]
            if node in world.links and key not in world.srun[node]:
                world.report_step_exit(node, key, code=7)
        elif what == "cancel" and node:
            which = JobFilter(ids=(f"{key[0]}.{key[2]}",))
            world.do(CancelJobs(world.actor("ann"), which, reply_to=world.reply_to()))
        elif what == "stop" and self.calls:
            world.do(StopWaiting(self.calls[number % len(self.calls)]))
        elif what == "restart":
            world.restart()
            for config in world.config.nodes:
                world.register(config.name)
        elif what == "drop" and world.links:
            world.disconnect(sorted(world.links)[number % len(world.links)])
        elif what == "back":
            for config in world.config.nodes:
                if config.name not in world.links:
                    world.register(config.name)
        elif what == "advance":
            world.advance(number)
        elif what == "batch_end" and number == 0 and world.running["n1"] and "n1" in world.links:
            world.exited(1, code=1)
        elif what == "end" and number == 1:
            world.do(EndAllocation(world.actor("ann"), 2, 0, 0, world.reply_to()))
        elif what == "suspend":
            action = ControlAction.RESUME if number % 2 else ControlAction.SUSPEND
            world.do(ControlJobs(world.actor("opa"), ("2",), action, world.reply_to()))
        elif what == "kill" and number == 2:
            world.do(CancelJobs(world.actor("ann"), JobFilter(ids=("2",)), reply_to=world.reply_to()))

    def finish(self) -> None:
        """Everything is ended, all nodes are there and say so."""
        world = self.world
        for config in world.config.nodes:
            if config.name not in world.links:
                world.register(config.name)
        world.do(CancelJobs(world.actor("ann"), JobFilter(ids=("1", "2")), reply_to=world.reply_to()))
        for _ in range(20):
            for node, key in self.places():
                del world.srun[node][key]
                world.report_step_exit(node, key, signal=15)
            if world.running["n1"] and world.core.state.jobs.get(1) is not None:
                world.exited(1, signal=15)
            world.advance(5)


@examples(quick=30, full=600)
@given(st.lists(st.tuples(st.sampled_from(DEEDS), st.integers(0, 40), requests), max_size=40))
def test_each_step_ends_once_and_nothing_is_left(deeds: list[tuple[str, int, StepRequest]]) -> None:
    play = Play()
    ended: dict[tuple[int, int, int], JobState] = {}
    for deed in [*deeds, None]:
        play.finish() if deed is None else play.deed(*deed)
        for key, row in play.world.steps.items():
            if key in ended:
                assert row.state is ended[key], f"{key} ended twice"
            elif row.state in END_STATES:
                ended[key] = row.state
    world = play.world
    assert set(ended) == set(world.steps), "a step has not ended"
    assert not any(world.srun.values()), "something runs still"
    assert all(row.state in END_STATES for row in world.jobs.values())
    assert not world.core.state.steps.by_job and not world.core.state.steps.creation_calls
    assert not world.core.state.calls.waiting and not world.core.state.calls.keys
    launched = [key[1:] for key in world.step_launches]
    assert {key for key in launched if key[2] >= 0} <= set(ended)
    for node in world.core.state.node_list:
        assert (node.cpus_alloc, node.jobs) == (0, {})
