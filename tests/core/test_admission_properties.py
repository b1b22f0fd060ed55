"""Admission refuses exactly what an empty cluster could never start, and what cannot start never stands in others' way.

Random clusters (nodes of different sizes, partitions of every OverSubscribe, with and without shared CPUs), random requests.
The same request goes to two clusters: one that asks whether it could ever run, and one that does not ask and takes it. The
first takes it exactly when the second starts it on empty nodes.
"""

from dataclasses import replace
from typing import Any
from unittest.mock import patch

from effort import examples
from hypothesis import given
from hypothesis import strategies as st

from ctld.core.records.events import JobSubmission
from ctld.core.requests import het_submit, submit
from penstock.values.config import Config, NodeConfig, PartitionConfig
from penstock.values.gres import Gres
from tests.core.world import World, make_config

SHARING = ("NO", "YES:2", "YES:3", "EXCLUSIVE", "FORCE:1", "FORCE:2", "FORCE:4")


def nodes() -> st.SearchStrategy[NodeConfig]:
    return st.builds(
        lambda cpus, mem_mb, gpus, fast: NodeConfig(
            "", "", "127.0.0.1", cpus, real_memory_mb=mem_mb, features=("fast",) if fast else (),
            gres=(Gres("gpu", "a100", gpus),) if gpus else (),
        ),
        st.sampled_from((1, 2, 4, 6)), st.sampled_from((400, 1000)), st.sampled_from((0, 0, 1, 2)), st.booleans(),
    )  # fmt: skip


@st.composite
def clusters(draw: Any) -> Config:
    made = draw(st.lists(nodes(), min_size=1, max_size=4))
    named = tuple(replace(one, name=f"n{i}", hostname=f"n{i}") for i, one in enumerate(made, 1))
    names = tuple(one.name for one in named)
    partitions = (
        PartitionConfig("all", names, is_default=True, priority_tier=1),
        *(
            PartitionConfig(
                f"p{i}", names[draw(st.integers(0, len(names) - 1)):], over_subscribe=draw(st.sampled_from(SHARING)),
                priority_tier=9, max_nodes=draw(st.sampled_from((-1, -1, -1, 1))),
            )
            for i in range(2)
        ),
    )  # fmt: skip
    per_cpu = draw(st.sampled_from((0, 100)))
    config = make_config(def_mem_per_cpu_mb=per_cpu, gpus=1, licenses=(("lic", 2),))
    return replace(config, nodes=named, partitions=partitions)


WANTED = st.fixed_dictionaries(
    {"partitions": st.sampled_from((("p0",), ("p1",), ("p0", "p1"), ("all",)))},
    optional={
        "ntasks": st.integers(1, 14),
        "cpus_per_task": st.integers(1, 7),
        "nodes_min": st.integers(1, 4),
        "exclusive": st.booleans(),
        "oversubscribe": st.just(True),
        "gres_per_node": st.integers(1, 3).map(lambda n: (("gpu", "", n),)),
        "features": st.just("fast"),
        "licenses": st.sampled_from(("lic:1", "lic:2")),
        "mincpus": st.integers(1, 7),
    },
)
MEMORY = st.sampled_from(({}, {}, {"mem_per_cpu_mb": 150}, {"mem_per_node_mb": 700}, {"mem_per_node_mb": 0}))


def world_of(config: Config) -> World:
    world = World(config)
    for node in config.nodes:
        world.register(node.name)
    return world


def submitted(world: World, fields: dict[str, Any]) -> Any:
    world.submit(JobSubmission(name="j", work_dir=b"/", time_limit_s=600, **fields))
    return next(iter(world.core.state.jobs.values()), None)


@examples(quick=40, full=1500)
@given(clusters(), WANTED, MEMORY)
def test_26_what_is_taken_starts_on_empty_nodes_and_only_that(
    config: Config, fields: dict[str, Any], memory: dict[str, int]
) -> None:
    taken = submitted(world_of(config), fields | memory)
    with (
        patch.object(submit, "can_ever_run", lambda *_: True),
        patch.object(het_submit, "can_ever_run", lambda *_: True),
    ):
        world = world_of(config)
        forced = submitted(world, fields | memory)
    if forced is None:
        assert taken is None  # refused for what it says
        return
    waits_for_a_limit = forced.reason.name == "PARTITION_NODE_LIMIT"
    assert (taken is not None) == (bool(forced.alloc) or (taken is not None and waits_for_a_limit)), forced.reason
    if not forced.alloc:  # of a higher tier, and can start nowhere: it keeps nothing from others
        for _ in config.nodes:
            world.submit(
                JobSubmission(name="small", work_dir=b"/", partitions=("all",), mem_per_node_mb=1, time_limit_s=60)
            )
        small = list(world.core.state.jobs.values())[1:]
        assert all(job.alloc for job in small), [job.reason for job in small]
