"""The SLURM_* variables of a batch job, as a table of expected values."""

import msgspec
import pytest

from nodedaemon.core.environment import NodeShare, StepFacts, base_environment, users_own
from nodedaemon.core.gpupins import PinnedGpu
from nodedaemon.launch import pinning
from nodedaemon.launch.site import Site
from penstock.v1.common_pb2 import GresIndices, NodeAllocation
from penstock.values.counts import compress_counts

SHARE = NodeShare("n1", cpus=8, mem_mb=16000, tasks=8, gpus=(PinnedGpu(3, "GPU-b"), PinnedGpu(1, "GPU-a")))
FULL = StepFacts(
    job_id=42, step_id=-5, user_id=1000, group_id=100, user_name="ann", group_name="users",
    share=SHARE, nodes=(SHARE, NodeShare("n2", 8, 16000, 8), NodeShare("n3", 4, 8000, 2)),
    cluster_name="c1", job_name="train", partition="gpu", account="lab", qos="high",
    array_job_id=40, array_task_id=2, array_task_count=5, array_task_min=0, array_task_max=8, array_task_step=2,
    node_list="n[1-3]", ntasks=18, cpus_per_task=1, ntasks_per_node=8, mem_per_node_mb=16000, mem_per_cpu_mb=2000,
    start_at_us=1_700_000_000_000_000, end_at_us=1_700_003_600_000_000, restart_count=1, submit_dir=b"/home/ann/\xff",
    submit_host="login", dependency="afterok:41", reservation="maint", licenses="x:1", exclusive="TOPO", oversubscribe="NO", gpus_per_node="a100:2",
    export_env="NONE", comment="hello", hostname="host", cluster_file="/c.json",
)  # fmt: skip
MINIMAL = StepFacts(
    job_id=1, step_id=-5, user_id=0, group_id=0, user_name="root", group_name="",
    share=NodeShare("n1", 1, 100, 1), nodes=(NodeShare("n1", 1, 100, 1),), partition="p", job_name="wrap",
    cluster_name="c", node_list="n1",
)  # fmt: skip


def test_every_variable_of_a_full_job():
    env = base_environment(users_own([b"HOME=/home/ann", b"A=b=c"]), FULL, {})
    assert env == {
        b"HOME": b"/home/ann", b"A": b"b=c", b"TMPDIR": b"/tmp",
        b"SLURM_JOB_ID": b"42", b"SLURM_JOBID": b"42", b"SLURM_JOB_NAME": b"train", b"SLURM_JOB_USER": b"ann",
        b"SLURM_JOB_UID": b"1000", b"SLURM_JOB_GROUP": b"users", b"SLURM_JOB_GID": b"100",
        b"SLURM_JOB_ACCOUNT": b"lab", b"SLURM_JOB_PARTITION": b"gpu", b"SLURM_JOB_QOS": b"high",
        b"SLURM_JOB_RESERVATION": b"maint", b"SLURM_JOB_DEPENDENCY": b"afterok:41", b"SLURM_JOB_LICENSES": b"x:1",
        b"SLURM_JOB_EXCLUSIVE": b"TOPO", b"SLURM_JOB_OVERSUBSCRIBE": b"NO",
        b"SLURM_JOB_COMMENT": b"hello", b"SLURM_JOB_START_TIME": b"1700000000", b"SLURM_JOB_END_TIME": b"1700003600",
        b"SLURM_JOB_NODELIST": b"n[1-3]", b"SLURM_NODELIST": b"n[1-3]", b"SLURM_JOB_NUM_NODES": b"3",
        b"SLURM_NNODES": b"3", b"SLURM_JOB_CPUS_PER_NODE": b"8(x2),4", b"SLURM_CPUS_ON_NODE": b"8",
        b"SLURM_CPUS_PER_TASK": b"1", b"SLURM_NTASKS": b"18", b"SLURM_NPROCS": b"18", b"SLURM_NTASKS_PER_NODE": b"8",
        b"SLURM_TASKS_PER_NODE": b"8(x2),2", b"SLURM_MEM_PER_NODE": b"16000", b"SLURM_MEM_PER_CPU": b"2000",
        b"SLURM_GPUS_PER_NODE": b"a100:2", b"SLURM_GPUS_ON_NODE": b"2", b"SLURM_JOB_GPUS": b"1,3",
        b"SLURM_ARRAY_JOB_ID": b"40", b"SLURM_ARRAY_TASK_ID": b"2", b"SLURM_ARRAY_TASK_COUNT": b"5",
        b"SLURM_ARRAY_TASK_MIN": b"0", b"SLURM_ARRAY_TASK_MAX": b"8", b"SLURM_ARRAY_TASK_STEP": b"2",
        b"SLURM_RESTART_COUNT": b"1", b"SLURM_SUBMIT_DIR": b"/home/ann/\xff", b"SLURM_SUBMIT_HOST": b"login",
        b"SLURM_CLUSTER_NAME": b"c1", b"SLURM_EXPORT_ENV": b"NONE", b"SLURM_PRIO_PROCESS": b"0",
        b"SLURM_TOPOLOGY_ADDR": b"n1", b"SLURM_TOPOLOGY_ADDR_PATTERN": b"node", b"SLURM_NODEID": b"0",
        b"SLURM_PROCID": b"0", b"SLURM_LOCALID": b"0", b"SLURM_GTIDS": b"0", b"SLURMD_NODENAME": b"n1",
        b"ENVIRONMENT": b"BATCH", b"HOSTNAME": b"host", b"CUDA_VISIBLE_DEVICES": b"1,3", b"NVIDIA_VISIBLE_DEVICES": b"GPU-a,GPU-b",
        b"CUDA_DEVICE_ORDER": b"PCI_BUS_ID", b"PENSTOCK_CLUSTER": b"/c.json",
    }  # fmt: skip


def test_what_was_not_asked_for_is_absent():
    env = base_environment({}, MINIMAL, {})
    assert {k for k in env if k.startswith(b"SLURM")} == {
        b"SLURM_JOB_ID", b"SLURM_JOBID", b"SLURM_JOB_NAME", b"SLURM_JOB_USER", b"SLURM_JOB_UID", b"SLURM_JOB_GID",
        b"SLURM_JOB_PARTITION", b"SLURM_JOB_NODELIST", b"SLURM_NODELIST", b"SLURM_JOB_NUM_NODES", b"SLURM_NNODES",
        b"SLURM_JOB_CPUS_PER_NODE", b"SLURM_CPUS_ON_NODE", b"SLURM_TASKS_PER_NODE", b"SLURM_CLUSTER_NAME",
        b"SLURM_PRIO_PROCESS", b"SLURM_TOPOLOGY_ADDR", b"SLURM_TOPOLOGY_ADDR_PATTERN", b"SLURM_NODEID",
        b"SLURM_PROCID", b"SLURM_LOCALID", b"SLURM_GTIDS", b"SLURMD_NODENAME",
    }  # fmt: skip
    assert env[b"CUDA_VISIBLE_DEVICES"] == b""
    assert env[b"HOSTNAME"] == b"n1"


def test_where_the_node_hangs():
    facts = msgspec.structs.replace(MINIMAL, topology_addr="top.s1.n1", topology_pattern="switch.switch.node")
    env = base_environment({}, facts, {})
    assert env[b"SLURM_TOPOLOGY_ADDR"] == b"top.s1.n1"
    assert env[b"SLURM_TOPOLOGY_ADDR_PATTERN"] == b"switch.switch.node"


def test_ntasks_follows_from_tasks_per_node_and_all_memory_is_not_told():
    facts = msgspec.structs.replace(FULL, ntasks=0, ntasks_per_node=4, mem_per_node_mb=0)
    env = base_environment({}, facts, {})
    assert (env[b"SLURM_NTASKS"], env.get(b"SLURM_MEM_PER_NODE")) == (b"12", None)


@pytest.mark.parametrize(
    "name",
    [
        b"SLURM_JWT",
        b"PENSTOCK_TOKEN",
        b"PENSTOCK_JOIN_TOKEN",
        b"SLURM_STEP_ID",
        b"SLURM_ARRAY_TASK_ID",
        b"SLURM_NTASKS",
    ],
)
def test_secrets_and_facts_of_an_outer_job_are_not_passed_on(name):
    assert name not in base_environment(users_own([name + b"=9"]), MINIMAL, {})


def test_the_users_own_variables_stay():
    env = base_environment(
        users_own([b"TMPDIR=/scratch", b"SLURM_CONF=/x", b"X=1", b"X=2", b"E=", b"broken", b"=odd"]), MINIMAL, {}
    )
    assert (env[b"TMPDIR"], env[b"SLURM_CONF"], env[b"X"], env[b"E"]) == (b"/scratch", b"/x", b"2", b"")
    assert b"broken" not in env and b"" not in env


@pytest.mark.parametrize(
    ("counts", "text"), [([8] * 4, "8(x4)"), ([2, 2, 1], "2(x2),1"), ([1], "1"), ([], ""), ([1, 2, 1], "1,2,1")]
)
def test_compressed_counts(counts, text):
    assert compress_counts(counts) == text


@pytest.mark.parametrize(
    ("gres", "expected"),
    [
        ({"name": "shard", "index": [2], "units": [3], "of": [4]}, {b"SLURM_SHARDS_ON_NODE": b"3"}),
        ({"name": "mps", "index": [2], "units": [50], "of": [200]}, {b"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": b"25"}),
    ],
)
def test_a_part_of_a_gpu(gres, expected):
    """The job sees the GPU on which its shares are, and no whole one."""
    message = NodeAllocation(node="n1", cpus=1, gres=[GresIndices(**gres)])
    made = base_environment({}, msgspec.structs.replace(MINIMAL, share=pinning.share_of(message, Site(), "n1")), {})
    shown = (b"CUDA_VISIBLE_DEVICES", b"SLURM_JOB_GPUS", b"SLURM_GPUS_ON_NODE", *expected)
    found = {name: made[name] for name in shown if name in made}
    assert found == {b"CUDA_VISIBLE_DEVICES": b"2", b"SLURM_JOB_GPUS": b"2", **expected}
