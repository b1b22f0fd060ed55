"""BLOCKED: a node under the leaf switch that a job with --exclusive=topo has for itself, as in Slurm."""

from dataclasses import replace

from ctld.core.records.events import JobSubmission
from ctld.rpc.cluster.clusterinfo import node_info, partition_info
from ctld.rpc.gate.visibility import job_visibility
from penstock.values.topology import Switch, Topology
from tests.core.world import World, make_config


def flags(made: World) -> list[list[str]]:
    state = made.core.state
    sight = job_visibility(state, made.actor("ann"))
    return [list(node_info(state, node, (), None, "", sight).flags) for node in state.node_list]


def test_the_other_nodes_of_the_leaf_are_blocked_while_the_job_runs() -> None:
    leaves = (Switch("s1", 0, ("n1", "n2")), Switch("s2", 0, ("n3",)))
    config = replace(make_config(nodes=3, cpus=4), topology=Topology("tree", leaves))
    made = World(config)
    for name in ("n1", "n2", "n3"):
        made.register(name)
    made.submit(JobSubmission(name="j", work_dir=b"/", time_limit_s=60, exclusive_topo=True, nodes_required="n2"))
    assert flags(made) == [["BLOCKED"], [], []]
    made.restart()
    assert flags(made)[0][-1:] == ["BLOCKED"]
    made.register("n2")
    made.exited(1)
    assert not any("BLOCKED" in found for found in flags(made))


def test_a_partition_says_that_its_jobs_have_leaves_for_themselves() -> None:
    config = make_config(nodes=1)
    partitions = tuple(replace(partition, exclusive_topo=True) for partition in config.partitions)
    state = World(replace(config, partitions=partitions)).core.state
    assert partition_info(state, state.partition_list[0]).exclusive_topo
