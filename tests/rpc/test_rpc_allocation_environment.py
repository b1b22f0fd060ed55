"""What salloc gives its command agrees with what a batch script of the same job finds."""

import pytest

from ctld.agents.launch import SENT, launch_message, master_host, tres_per_task
from ctld.core.records.effects import LaunchStep
from ctld.core.records.events import JobSubmission
from ctld.core.records.job import job_row
from ctld.core.records.request import JobRequest
from ctld.rpc.jobs.allocenv import TABLE, allocation_environment
from nodedaemon.core.environment import TABLE as OF_BATCH
from nodedaemon.core.environment import base_environment
from nodedaemon.launch.wire import NodeFacts, step_facts
from penstock.v1 import common_pb2
from tests.core.world import World, make_config

#: Of one node, task or step, or of the machine: not of the allocation.
OF_NODE = {
    "SLURM_CPUS_ON_NODE", "SLURM_JOB_GPUS", "SLURM_SHARDS_ON_NODE", "SLURM_NODEID", "SLURM_PROCID", "SLURM_LOCALID",
    "SLURM_GTIDS", "SLURMD_NODENAME", "ENVIRONMENT", "HOSTNAME", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER",
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "CUDA_MPS_PIPE_DIRECTORY",
    "NVIDIA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK", "GPU_DEVICE_ORDINAL", "PENSTOCK_CLUSTER", "SLURM_PRIO_PROCESS", "SLURM_TOPOLOGY_ADDR",
    "SLURM_TOPOLOGY_ADDR_PATTERN",
}  # fmt: skip


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"nodes_min": 2, "ntasks": 6, "time_limit_s": 60, "cpus_per_task": 1, "comment": "c", "account": "a"},
        {"nodes_min": 2, "ntasks_per_node": 2, "mem_per_node_mb": 0, "gres_per_node": (("gpu", "a100", 2),)},
        {"ntasks": 3, "mem_per_cpu_mb": 7, "export_env": "NONE", "submit_host": "h", "submit_dir": b"/d"},
        {"ntasks": 2, "overcommit": True, "ntasks_per_core": 1, "gpu_bind": "none", "distribution": "plane=2"},
    ],
)
def test_both_say_the_same(wanted: dict[str, object]) -> None:
    world = World(make_config(nodes=2, cpus=4, gpus=2))
    for node in world.config.nodes:
        world.register(node.name)
    world.submit(JobSubmission(name="x", work_dir=b"/tmp", **wanted))  # type: ignore[arg-type]  # keywords of many types
    state = world.core.state
    row = job_row(state.jobs[1])
    port = state.steps.master_ports.get(1, 0)
    launch = LaunchStep(row.batch_node, 1, 0, -5, 1, row, master_port=port)
    message = launch_message(launch, common_pb2.JobSpec(script=b"#!"), state.config.cluster_name)
    message.facts.master_host = master_host(state, row)
    facts = step_facts(message, NodeFacts(row.batch_node, "host", ""))
    batch = {k.decode(): v.decode() for k, v in base_environment({}, facts, {}).items()}
    shown = allocation_environment(state, row)
    for name in (*TABLE, *OF_BATCH, *SENT):
        if name not in OF_NODE:
            assert shown.get(name) == batch.get(name), name


def test_what_each_task_has_is_told() -> None:
    gres = (("gpu", "a100", 1), ("gpu", "", 2))
    assert (
        tres_per_task(JobRequest(cpus_per_task=2, cpus_per_task_asked=True, gres_per_task=gres))
        == "cpu=2,gres/gpu:a100=1,gres/gpu=2"
    )
    assert tres_per_task(JobRequest()) == ""
