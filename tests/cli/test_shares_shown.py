"""Parts of GPUs as scontrol and sinfo print them."""

from cli.listings.nodegres import gres_used, held_text
from cli.listings.show import ShownReport, job_record
from ctld.agents.stepmessages import allocation_of
from ctld.core.records.events import JobSubmission
from ctld.rpc.cluster.clusterinfo import node_info
from ctld.rpc.gate.visibility import ALL_JOBS
from penstock.v1.controller_pb2 import JobInfo
from tests.core.world import World, make_config


def world() -> World:
    """Two GPUs of four shards: 2 of the first are in use, 1 of the second is not free."""
    found = World(make_config(nodes=1, cpus=8, gpus=3, shards=12))
    found.register("n1")
    for kind, count in (("gpu", 1), ("shard", 2), ("shard", 3)):
        found.submit(JobSubmission(name="j", work_dir=b"/tmp", gres_per_node=((kind, "", count),), time_limit_s=60))
    return found


def test_what_of_a_node_is_in_use() -> None:
    """Slurm's form: the sum, and of each GPU how many of how many."""
    state = world().core.state
    node = node_info(state, state.node_list[0], ["debug"], None, "", ALL_JOBS)
    assert ",".join(map(held_text, node.gres_used)) == "gpu:a100:1(IDX:0),shard:5(0/4,2/4,3/4)"
    assert gres_used(node) == "gpu:a100:1(IDX:0),shard:5(0/4,2/4,3/4)"


def test_what_a_job_holds() -> None:
    """With the GPU on which its shares are."""
    job = world().core.state.jobs[3]
    place = allocation_of(job.alloc[0])
    lines = job_record(JobInfo(job_id=3, allocation=[place]), ShownReport(0, detail=True))
    at = lines.index("JOB_GRES=shard:3")
    assert lines[at + 1] == "  Nodes=n1 CPU_IDs=2 Mem=100 GRES=shard:3(3/4,IDX:2)"
