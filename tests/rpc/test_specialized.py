"""What nodes, partitions and their TRES show of the CPUs and the memory that are the system's."""

from dataclasses import replace

from ctld.core.nodes.history import tres_of
from ctld.core.records.events import JobSubmission
from ctld.rpc.cluster.clusterinfo import node_info, partition_info
from ctld.rpc.gate.visibility import job_visibility
from tests.core.world import World, make_config


def test_a_node_and_its_partition() -> None:
    config = make_config(nodes=1, cpus=8, mem_mb=4000)
    nodes = tuple(replace(node, specialized_cpus=0b11000000, mem_spec_limit_mb=1000) for node in config.nodes)
    made = World(replace(config, nodes=nodes))
    made.register("n1")
    made.submit(JobSubmission(name="j", work_dir=b"/", time_limit_s=60, exclusive=True, mem_per_node_mb=0))
    state = made.core.state
    node = node_info(state, state.node_list[0], (), None, "", job_visibility(state, made.actor("ann")))
    assert (node.cpus, node.effective_cpus, node.cpus_alloc, node.base_state) == (8, 6, 6, "ALLOCATED")
    assert (node.real_memory_mb, node.mem_spec_limit_mb, node.mem_alloc_mb) == (4000, 1000, 3000)
    assert (node.core_spec_count, node.cpu_spec_list) == (2, "6-7")
    partition = partition_info(state, state.partition_list[0])
    assert (partition.total_cpus, partition.tres) == (8, "cpu=6,mem=4000M,node=1,billing=6")
    assert tres_of(*nodes) == "cpu=6,mem=4000M,node=1"
