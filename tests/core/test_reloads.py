"""Each kind of change that a reload can bring, on a core with jobs: taken as a whole, or refused as a whole with the reason."""

import dataclasses
from collections.abc import Callable

import pytest

from ctld.core.diagnose.reload_effects import reload_effects
from ctld.core.nodes.layout import config_conflicts
from ctld.core.records.events import JobSubmission, LoadConfig
from ctld.runtime.reload import preview
from penstock.config import Loaded
from penstock.values.config import Config, NodeConfig, PartitionConfig
from penstock.values.gres import Gres
from penstock.values.states import JobState
from tests.core.world import World, make_config

Change = Callable[[Config], Config]


def busy() -> World:
    """n1 runs job 1, with all of its CPUs and a GPU; job 2 waits for it; n2 is idle and drained of nothing."""
    world = World(make_config(nodes=2, cpus=4, gpus=2))
    world.register("n1")
    world.submit(
        JobSubmission(
            name="a", work_dir=b"/", ntasks=4, nodes_max=1, gres_per_node=(("gpu", "a100", 1),), time_limit_s=3600
        )
    )
    world.submit(JobSubmission(name="b", work_dir=b"/", ntasks=4, nodes_required="n1", time_limit_s=3600))
    assert [job.state for job in world.core.state.jobs.values()] == [JobState.RUNNING, JobState.PENDING]
    return world


def node(config: Config, index: int, **fields: object) -> Config:
    nodes = list(config.nodes)
    nodes[index] = dataclasses.replace(nodes[index], **fields)  # type: ignore[arg-type]  # keywords of many types
    return dataclasses.replace(config, nodes=tuple(nodes))


def partition(config: Config, **fields: object) -> Config:
    return dataclasses.replace(config, partitions=(dataclasses.replace(config.partitions[0], **fields),))  # type: ignore[arg-type]  # keywords of many types


def without_n1(config: Config) -> Config:
    return dataclasses.replace(partition(config, nodes=("n2",)), nodes=config.nodes[1:])


TAKEN: dict[str, Change] = {
    "a node more": lambda c: dataclasses.replace(c, nodes=(*c.nodes, NodeConfig("n3", "n3", "127.0.0.1", 4))),
    "an idle node less": lambda c: dataclasses.replace(partition(c, nodes=("n1",)), nodes=c.nodes[:1]),
    "nodes in another order": lambda c: dataclasses.replace(c, nodes=c.nodes[::-1]),
    "a partition more": lambda c: dataclasses.replace(c, partitions=(*c.partitions, PartitionConfig("more", ("n2",)))),
    "limits below what runs": lambda c: partition(c, max_time_s=60, max_nodes=1),
    "a partition that is down": lambda c: partition(c, state="DOWN"),
    "a node out of its partition": lambda c: partition(c, nodes=("n2",)),
    "features and weights": lambda c: node(c, 0, features=("new",), weight=9),
    "a larger node": lambda c: node(c, 0, cpus=8, real_memory_mb=8000),
    "an idle node that is smaller": lambda c: node(c, 1, cpus=1, real_memory_mb=100, gres=()),
    "fewer GPUs, still enough": lambda c: node(c, 0, gres=(Gres("gpu", "a100", 1),)),
    "licenses": lambda c: dataclasses.replace(c, licenses=(("matlab", 2),)),
    "priorities": lambda c: dataclasses.replace(c, priority_type="priority/multifactor", priority_weight_age=5),
    "timeouts and limits": lambda c: dataclasses.replace(
        c, kill_wait_s=5, slurmd_timeout_s=60, max_job_count=1, max_array_size=2
    ),
    "preemption": lambda c: dataclasses.replace(c, preempt_type="preempt/qos", preempt_mode=("REQUEUE",)),
}
REFUSED: dict[str, tuple[Change, str]] = {
    "the node of a job is gone": (without_n1, "node n1 has jobs (1) and is missing from the file: drain it first"),
    "fewer CPUs than jobs have": (lambda c: node(c, 0, cpus=2), "node n1: 4 CPUs are allocated, the file has 2"),
    "less memory than jobs have": (
        lambda c: node(c, 0, real_memory_mb=100),
        "node n1: 400 MB are allocated, the file has 100",
    ),
    "the GPUs are gone": (
        lambda c: node(c, 0, gres=()),
        "node n1: gres/gpu:a100 that jobs hold is missing from the file",
    ),
    "the partition of jobs is gone": (
        lambda c: dataclasses.replace(c, partitions=(PartitionConfig("other", ("n1", "n2"), is_default=True),)),
        "partition debug has 1 running and 1 pending job(s) and is missing from the file",
    ),
}


@pytest.mark.parametrize("name", TAKEN)
def test_what_is_taken(name: str) -> None:
    """Running jobs go on; what the core holds is checked by the world after each step; a restart finds the same."""
    world = busy()
    world.config = TAKEN[name](world.config)
    assert preview(world.core.state, Loaded(world.config, (), ())).problems == ()
    said = world.do(LoadConfig(world.config, world.reply_to()))
    assert not any("refused" in line for line in said), said
    assert world.core.state.config == world.config
    assert world.core.state.jobs[1].state is JobState.RUNNING and world.core.state.jobs[1].alloc[0].node == "n1"
    world.restart()
    assert world.core.state.jobs[1].state is JobState.RUNNING


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str) -> None:
    world = busy()
    change, text = REFUSED[name]
    before, new = world.core.state.config, change(world.config)
    assert config_conflicts(world.core.state, new)[0] == text
    assert any(text in line for line in preview(world.core.state, Loaded(new, (), ())).problems)
    said = world.do(LoadConfig(new, world.reply_to()))
    assert any(text in line for line in said)
    assert world.core.state.config is before and set(world.core.state.nodes) == {"n1", "n2"}


def test_what_would_become_of_jobs() -> None:
    world = busy()
    config = world.config
    seen = {name: reload_effects(world.core.state, TAKEN[name](config)) for name in TAKEN}
    assert {name: lines for name, lines in seen.items() if lines} == {
        "limits below what runs": [
            "job 1 would keep a time limit above MaxTime of partition debug",
            "job 2 would wait for PartitionTimeLimit",
        ],
        "a partition that is down": ["job 2 would wait for PartitionDown"],
        "a node out of its partition": ["job 1 would run on, though n1 leaves partition debug"],
    }
