"""The seam for the controller: one job at a time, words of SelectTypeParameters, units of shards and mps."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from patience import ANSWER_S

from _fastsched import fragment, fragment_pick
from _fastsched.fragment_contract import BEST_FIT, FGD, STEER, FragmentNodes, Shapes
from _fastsched.fragment_pick import choose, count_classes, empty_tables, milli_of, policy_of
from tests.fastsched.fragment_input import Node, Pod, nodes_of, shapes_of, tables_of

ROOT = Path(__file__).parents[2]
CLASSES = [Pod(share=470, weight=6), Pod(share=320, weight=3), Pod(weight=8), Pod(gpus=0, cpu=9_000, weight=2)]


def test_the_compiled_form_is_picked_where_it_was_built() -> None:
    assert fragment_pick.COMPILED
    assert fragment_pick.place is fragment.place


def test_the_oracle_is_picked_where_nothing_was_built() -> None:
    code = "import sys; sys.modules['_fastsched.fragment'] = None\nfrom _fastsched import fragment_pick as p\nprint(p.COMPILED, p.place.__module__)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=ANSWER_S, check=False
    )
    assert (done.stdout, done.stderr) == ("False _fastsched.fragment_reference\n", "")


def test_words_choose_the_policy() -> None:
    assert policy_of(()) == BEST_FIT
    assert policy_of(("CR_CORE_MEMORY", "LL_SHARED_GRES")) == BEST_FIT
    assert policy_of(("CR_CORE_MEMORY", "PENSTOCK_FGD")) == FGD
    assert policy_of(("PENSTOCK_STEER",)) == STEER


@given(units=st.integers(1, 1000), data=st.data())
def test_a_wish_fits_in_thousandths_exactly_if_it_fits_in_units(units: int, data: st.DataObject) -> None:
    free, wish = data.draw(st.integers(0, units)), data.draw(st.integers(1, units))
    assert (milli_of(free, units) >= milli_of(wish, units)) == (free >= wish)
    assert milli_of(units, units) == 1000


def take(nodes: FragmentNodes, wish: Shapes, row: int, mask: int) -> None:
    nodes.cpu_milli[row] -= wish.cpu_milli[0]
    nodes.mem_mb[row] -= wish.mem_mb[0]
    for gpu in range(nodes.free_milli.shape[1]):
        nodes.free_milli[row, gpu] -= wish.share_milli[0] * (mask >> gpu & 1)


@pytest.mark.parametrize("policy", [BEST_FIT, FGD, STEER])
def test_job_after_job_is_what_all_at_once_gives(policy: int) -> None:
    nodes = nodes_of([Node(free=(1000, 1000), cpu=9_000), Node(free=(700, 1000)), Node(free=(1000,))], rank=[2, 0, 1])
    tables = tables_of(CLASSES, nodes)
    shapes = [Pod(share=320), Pod(share=470), Pod(share=200), Pod(share=900), Pod(gpus=2)]
    arrivals = np.array([0, 1, 2, 1, 0, 3, 4, 0, 2, 1, 1, 3, 0], np.int32)
    together = fragment.place(nodes, shapes_of(shapes), arrivals, tables, policy)
    for pod, row in enumerate(arrivals):
        wish = shapes_of([shapes[row]])
        found = choose(nodes, wish, tables, policy)
        assert (found or (-1, 0)) == (together.node[pod], together.gpus[pod])
        if found:
            take(nodes, wish, *found)
    assert -1 in together.node and together.node[0] >= 0


def test_the_device_of_a_node_that_was_chosen_already() -> None:
    node = nodes_of([Node(free=(0, 400, 250, 1000))])
    wish = shapes_of([Pod(share=250)])
    assert choose(node, wish, empty_tables(np.array([4])), BEST_FIT) == (0, 0b100)
    assert choose(node, shapes_of([Pod(share=251)]), empty_tables(np.array([4])), BEST_FIT) == (0, 0b10)
    assert choose(node, shapes_of([Pod(gpus=2)]), empty_tables(np.array([4])), BEST_FIT) is None


def test_classes_are_counted_in_a_fixed_order() -> None:
    jobs = {(4_000, 1, 500, 3): 2, (1_000, 0, 0, 1): 6}
    classes = count_classes(jobs)
    assert classes.cpu_milli.tolist() == [1_000, 4_000] and classes.weight.tolist() == [6, 2]
    assert (classes.gpus.tolist(), classes.share_milli.tolist(), classes.models.tolist()) == ([0, 1], [0, 500], [1, 3])
    assert classes.probability.tolist() == [0.75, 0.25]
    reverse = count_classes(dict(reversed(jobs.items())))
    one: Any
    other: Any
    for one, other in zip(classes, reverse, strict=True):
        assert np.array_equal(one, other)
