"""The compiled placement gives its oracle's answers on small clusters, and both keep the rules of resources."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from _fastsched import fragment, fragment_reference
from _fastsched.fragment_contract import FGD, GPU_MILLI, POLICIES, Placements
from _fastsched.fragment_tables import score_of_tie, score_steps
from tests.fastsched.fragment_input import ANY, Node, Pod, nodes_of, shapes_of, tables_of

#: Sizes that meet exactly, so that ties and full GPUs are frequent.
SHARES = st.sampled_from([100, 190, 250, 330, 500, 510, 670, 810])
CPUS = st.sampled_from([0, 500, 1_000, 4_000, 8_000, 11_000])
MODELS = st.sampled_from([ANY, 1, 2, 3])
SINGLE = st.builds(Pod, gpus=st.just(1), share=SHARES, cpu=CPUS, models=MODELS, weight=st.integers(1, 9))
WHOLE = st.builds(Pod, gpus=st.sampled_from([1, 2, 3]), cpu=CPUS, models=MODELS, weight=st.integers(1, 9))
PLAIN = st.builds(Pod, gpus=st.just(0), cpu=CPUS, weight=st.integers(1, 9))
SEVERAL = st.builds(Pod, gpus=st.just(2), share=SHARES, cpu=CPUS, weight=st.integers(1, 9))
PODS = st.one_of(SINGLE, WHOLE, PLAIN, SEVERAL)
FREE = st.lists(st.sampled_from([GPU_MILLI, GPU_MILLI, 500, 190, 0]), max_size=4).map(tuple)
NODES = st.builds(
    Node,
    free=FREE,
    cpu=st.sampled_from([0, 8_000, 24_000, 48_000]),
    mem=st.sampled_from([1_500, 100_000]),
    model=st.integers(0, 1),
)


@st.composite
def worlds(draw: st.DrawFn) -> tuple:
    nodes = draw(st.lists(NODES, min_size=1, max_size=5))
    shapes = draw(st.lists(PODS, min_size=1, max_size=5))
    arrivals = draw(st.lists(st.integers(0, len(shapes) - 1), max_size=25))
    columns = nodes_of(nodes, draw(st.permutations(range(len(nodes)))))
    tables = tables_of(draw(st.lists(PODS, max_size=6)), columns, models=2)
    draws = np.random.default_rng(draw(st.integers(0, 99))).integers(0, 1 << 63, len(arrivals), dtype=np.uint64)
    return columns, shapes_of(shapes), np.array(arrivals, np.int32), tables, draws


@pytest.mark.parametrize("policy", range(len(POLICIES)), ids=POLICIES)
@given(world=worlds())
def test_compiled_and_oracle_agree(policy: int, world: tuple) -> None:
    columns, shapes, arrivals, tables, draws = world
    ours = fragment.place(columns, shapes, arrivals, tables, policy, draws)
    oracle = fragment_reference.place(columns, shapes, arrivals, tables, policy, draws)
    mine: Any
    other: Any
    for mine, other in zip(ours, oracle, strict=True):
        assert mine.tolist() == other.tolist()


@pytest.mark.parametrize("policy", range(len(POLICIES)), ids=POLICIES)
@given(world=worlds())
def test_nothing_is_given_twice_and_nothing_that_fits_is_refused(policy: int, world: tuple) -> None:
    columns, shapes, arrivals, tables, draws = world
    before = [column.copy() for column in columns]
    found = fragment.place(columns, shapes, arrivals, tables, policy, draws)
    assert all(np.array_equal(old, new) for old, new in zip(before, columns, strict=True)), "the input was changed"
    cpu, mem, free = columns.cpu_milli.copy(), columns.mem_mb.copy(), columns.free_milli.copy()
    free[np.arange(free.shape[1]) >= columns.gpus[:, None]] = -1
    for pod, row in enumerate(arrivals):
        gpus, share = int(shapes.gpus[row]), int(shapes.share_milli[row])
        models = int(shapes.models[row])
        allowed = np.array([gpus == 0 or bool(models >> int(model) & 1) for model in columns.model])
        enough = ((free >= max(share, 0)).sum(axis=1) >= gpus) if gpus else np.ones(len(cpu), bool)
        fits = (cpu >= shapes.cpu_milli[row]) & (mem >= shapes.mem_mb[row]) & allowed & enough
        node = int(found.node[pod])
        assert fits[node] if node >= 0 else not fits.any()
        if node >= 0:
            taken = [g for g in range(32) if int(found.gpus[pod]) >> g & 1]
            assert len(taken) == gpus
            cpu[node] -= shapes.cpu_milli[row]
            mem[node] -= shapes.mem_mb[row]
            free[node, taken] -= share
            assert cpu[node] >= 0 and mem[node] >= 0 and all(free[node, taken] >= 0)


def place(nodes: list[Node], pods: list[Pod], policy: str, classes: list[Pod]) -> Placements:
    columns = nodes_of(nodes)
    arrivals = np.arange(len(pods), dtype=np.int32)
    return fragment.place(columns, shapes_of(pods), arrivals, tables_of(classes, columns), POLICIES.index(policy))


def test_fragmentation_of_the_study_by_hand() -> None:
    """One node, GPUs with 1000 and 300 free, 2 CPUs. Half the pods want 0.5 GPU, a quarter a whole one, a quarter none."""
    classes = [Pod(share=500, weight=2), Pod(weight=1), Pod(gpus=0, weight=1)]
    found = place([Node(free=(1000, 300), cpu=2_000)], [Pod(gpus=0, cpu=0)], "bestfit", classes)
    assert found.fragmentation.tolist() == [2 * 300 + 1 * 300 + 1 * 1300]
    found = place([Node(free=(1000, 300), cpu=2_000)], [Pod(gpus=0, cpu=1_500)], "bestfit", classes)
    assert found.fragmentation.tolist() == [4 * 1300], "without CPUs nobody can use a GPU"


def test_a_gang_that_does_not_fit_counts_all_idle_milli() -> None:
    classes = [Pod(gpus=2, weight=3)]
    assert place([Node(free=(1000, 900))], [Pod(gpus=0, cpu=0)], "fgd", classes).fragmentation.tolist() == [3 * 1900]
    assert place([Node(free=(1000, 1000, 900))], [Pod(gpus=0, cpu=0)], "fgd", classes).fragmentation.tolist() == [
        3 * 900
    ]


def test_each_policy_chooses_as_it_says() -> None:
    """A share of 0.4: node 0 is untouched, node 1 has a GPU with 0.5 and one with 0.9 free."""
    nodes = [Node(free=(1000, 1000)), Node(free=(900, 500))]
    want = [Pod(share=400)]
    for policy in ("packing", "bestfit"):
        found = place(nodes, want, policy, want)
        assert (found.node.tolist(), found.gpus.tolist()) == ([1], [2]), policy
    nodes = [Node(free=(1000,) * 8), Node(free=(1000,) * 4)]
    assert place(nodes, [Pod(gpus=4)], "dotprod", want).node.tolist() == [1]
    # 0.5 is what comes: fgd leaves the GPU with exactly 0.5 for it
    assert place([Node(free=(900, 500))], want, "fgd", [Pod(share=500)]).gpus.tolist() == [1]


def test_clustering_goes_where_its_like_is() -> None:
    nodes = [Node(free=(1000,) * 4), Node(free=(1000,) * 4)]
    pods = [Pod(gpus=2), Pod(gpus=1), Pod(gpus=1), Pod(gpus=2)]
    assert place(nodes, pods, "clustering", pods).node.tolist() == [0, 1, 1, 0]


def test_steer_opens_a_gpu_rather_than_spoil_a_hole() -> None:
    """530 free milli hold one of the many 470; a 320 there would leave 210 that nothing wants."""
    classes = [Pod(share=470, weight=6, cpu=0), Pod(share=320, weight=3, cpu=0)]
    free = [Node(free=(530, 1000))]
    assert place(free, [Pod(share=320, cpu=0)], "steer", classes).gpus.tolist() == [2]
    assert place(free, [Pod(share=320, cpu=0)], "bestfit", classes).gpus.tolist() == [1]


def test_steer_leaves_the_scarce_model_to_those_who_need_it() -> None:
    classes = [Pod(weight=6), Pod(models=2, weight=4)]
    nodes = [Node(free=(1000,), model=1), Node(free=(1000,) * 3, model=0)]
    columns = nodes_of(nodes)
    shapes, arrivals = shapes_of([Pod(), Pod(models=2)]), np.array([0, 0, 0, 1], np.int32)
    tables = tables_of(classes, columns)
    found = fragment.place(columns, shapes, arrivals, tables, POLICIES.index("steer"))
    assert found.node.tolist() == [1, 1, 1, 0]


def published_score(gain: float) -> int:
    """FGD's score, 0 to 100, of a drop of fragmentation by so many GPU milli; in the study's order of operations."""
    return int(1.0 / (1.0 + math.exp(-gain / GPU_MILLI)) * 100.0)


@pytest.mark.parametrize("weight", [1, 7, 8_152, 1_000_003])
def test_the_steps_are_those_of_the_published_score(weight: int) -> None:
    """Whole numbers, made without floating point, are where the floating-point score changes."""
    steps = score_steps(weight)
    assert steps[49] == 0
    for score in range(1, 101):
        assert published_score(int(steps[score - 1]) / weight) == score
        assert published_score((int(steps[score - 1]) - 1) / weight) == score - 1


@given(before=st.floats(0, 8_000), ulps=st.integers(-6, 6))
def test_a_tie_scores_as_published(before: float, ulps: int) -> None:
    after = before
    for _ in range(abs(ulps)):
        after = math.nextafter(after, math.inf if ulps > 0 else 0.0)
    assert score_of_tie(before, after) == published_score(before - after)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"rank": np.zeros(2, np.int32)}, "two nodes have the same rank"),
        ({"model": np.array([0, 5], np.int32)}, "a model of GPU is not within 0 and 0"),
        ({"gpus": np.array([1, 9], np.int32)}, "more GPUs than free_milli has columns"),
        ({"free_milli": np.full((2, 1), 1001, np.int32)}, "free_milli is not within 0 and 1000"),
        ({"mem_mb": np.zeros(3, np.int64)}, "column mem_mb of FragmentNodes has 3 rows, not 2"),
    ],
)
def test_bad_columns_are_refused(change: dict, said: str) -> None:
    columns = nodes_of([Node(), Node()])
    tables = tables_of([Pod()], columns)
    for module in (fragment, fragment_reference):
        with pytest.raises(ValueError, match=said):
            module.place(columns._replace(**change), shapes_of([Pod()]), np.zeros(1, np.int32), tables, FGD)


def test_bad_wishes_are_refused() -> None:
    columns = nodes_of([Node()])
    with pytest.raises(ValueError, match="a share is not within 1 and 1000"):
        tables_of([Pod(share=0)], columns)
    with pytest.raises(ValueError, match="the weights of the classes"):
        tables_of([Pod(weight=0)], columns)
    with pytest.raises(ValueError, match="a count of GPUs is not within 0 and 32"):
        fragment.place(columns, shapes_of([Pod(gpus=33)]), np.zeros(1, np.int32), tables_of([Pod()], columns), FGD)
