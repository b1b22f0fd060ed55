"""The variables of a step of srun and of each of its tasks, as tables of expected values."""

import msgspec
import pytest

from nodedaemon.core.environment import NodeShare, StepFacts
from nodedaemon.core.gpubind import SeenGpus, parse, places_of_tasks
from nodedaemon.core.gpupins import PinnedGpu
from nodedaemon.core.stepenv import StepShape, ranges, step_task_environment, task_environments
from nodedaemon.launch.wire_steps import parse_ranks
from penstock.values.errors import BadValue

JOB = NodeShare("n2", cpus=16, mem_mb=32000, tasks=4, gpus=tuple(map(PinnedGpu, range(4))))
FACTS = StepFacts(
    job_id=42, step_id=3, user_id=1000, group_id=100, user_name="ann", group_name="users", share=JOB,
    nodes=(NodeShare("n1", 16, 32000, 4), JOB, NodeShare("n3", 16, 32000, 4)), cluster_name="c1", job_name="train",
    partition="gpu", node_list="n[1-3]", ntasks=12, cpus_per_task=4, gpus="4", gpus_per_task="1", mem_per_gpu_mb=8000,
    cpus_per_gpu=4, ntasks_per_gpu=1, distribution="block", hostname="host", master_host="10.0.0.1", master_port=12000,
    more=(b"SLURM_HET_SIZE=2", b"SLURM_JOB_ID_HET_GROUP_1=43"),
)  # fmt: skip
SHAPE = StepShape(
    step_id=3, share=NodeShare("n2", cpus=8, mem_mb=16000, tasks=2, gpus=(PinnedGpu(1, "GPU-b"), PinnedGpu(3))), node_list="n[2-3]",
    tasks_per_node=(2, 2), node_index=0, ranks=(0, 1), ntasks=4, cpus_per_task=2, ntasks_per_node=2,
    ports=(12001, 12002, 12003, 12007), launch_address="10.0.0.9", distribution="plane=2",
    cpu_bind="verbose,mask_cpu:0x3,0xC", mem_bind="local", umask=0o027, threads_per_core=1,
    overcommit=True, pty=(24, 80),
)  # fmt: skip
PLAIN = StepShape(
    step_id=0,
    share=NodeShare("n2", 16, 32000, 4),
    node_list="n2",
    tasks_per_node=(1,),
    node_index=0,
    ranks=(0,),
    ntasks=1,
)


def test_every_variable_of_a_full_step():
    env = step_task_environment([b"HOME=/home/ann", b"HOSTNAME=login", b"SLURM_HET_SIZE=9"], FACTS, SHAPE)
    assert env == {
        b"HOME": b"/home/ann", b"HOSTNAME": b"login", b"TMPDIR": b"/tmp",
        # of the job
        b"SLURM_JOB_ID": b"42", b"SLURM_JOBID": b"42", b"SLURM_JOB_NAME": b"train", b"SLURM_JOB_USER": b"ann",
        b"SLURM_JOB_UID": b"1000", b"SLURM_JOB_GROUP": b"users", b"SLURM_JOB_GID": b"100",
        b"SLURM_JOB_PARTITION": b"gpu", b"SLURM_JOB_NODELIST": b"n[1-3]", b"SLURM_JOB_NUM_NODES": b"3",
        b"SLURM_JOB_CPUS_PER_NODE": b"16(x3)", b"SLURM_CLUSTER_NAME": b"c1", b"SLURM_PRIO_PROCESS": b"0",
        b"SLURM_TOPOLOGY_ADDR": b"n2", b"SLURM_TOPOLOGY_ADDR_PATTERN": b"node", b"SLURMD_NODENAME": b"n2",
        b"SLURM_JOB_GPUS": b"0,1,2,3", b"SLURM_GPUS": b"4", b"SLURM_GPUS_PER_TASK": b"1",
        b"SLURM_MEM_PER_GPU": b"8000", b"SLURM_CPUS_PER_GPU": b"4", b"SLURM_NTASKS_PER_GPU": b"1",
        b"SLURM_HET_SIZE": b"2", b"SLURM_JOB_ID_HET_GROUP_1": b"43", b"MASTER_ADDR": b"10.0.0.1",
        b"MASTER_PORT": b"12000", b"CUDA_DEVICE_ORDER": b"PCI_BUS_ID",
        # of the step
        b"SLURM_STEP_ID": b"3", b"SLURM_STEPID": b"3", b"SLURM_STEP_NODELIST": b"n[2-3]", b"SLURM_NODELIST": b"n[1-3]",
        b"SLURM_STEP_NUM_NODES": b"2", b"SLURM_NNODES": b"2", b"SLURM_STEP_NUM_TASKS": b"4", b"SLURM_NTASKS": b"4",
        b"SLURM_NPROCS": b"4", b"SLURM_STEP_TASKS_PER_NODE": b"2(x2)", b"SLURM_TASKS_PER_NODE": b"2(x2)",
        b"SLURM_NTASKS_PER_NODE": b"2", b"SLURM_CPUS_PER_TASK": b"2", b"SLURM_CPUS_ON_NODE": b"8",
        b"SLURM_GPUS_ON_NODE": b"2", b"SLURM_STEP_GPUS": b"1,3", b"SLURM_STEP_RESV_PORTS": b"12001-12003,12007",
        b"SLURM_LAUNCH_NODE_IPADDR": b"10.0.0.9", b"SLURM_SRUN_COMM_HOST": b"10.0.0.9", b"SLURM_SRUN_COMM_PORT": b"0",
        b"SLURM_DISTRIBUTION": b"plane=2", b"SLURM_DIST_PLANESIZE": b"2", b"SLURM_THREADS_PER_CORE": b"1",
        b"SLURM_OVERCOMMIT": b"1", b"SLURM_UMASK": b"0027", b"SLURM_NODEID": b"0", b"SLURM_GTIDS": b"0,1",
        b"SLURM_PTY_WIN_ROW": b"24", b"SLURM_PTY_WIN_COL": b"80", b"SLURM_PROCID": b"0", b"SLURM_LOCALID": b"0",
        b"SLURM_CPU_BIND": b"verbose,mask_cpu:0x3,0xC", b"SLURM_CPU_BIND_VERBOSE": b"verbose",
        b"SLURM_CPU_BIND_TYPE": b"mask_cpu:", b"SLURM_CPU_BIND_LIST": b"0x3,0xC", b"SLURM_MEM_BIND": b"quiet,local",
        b"SLURM_MEM_BIND_VERBOSE": b"quiet", b"SLURM_MEM_BIND_TYPE": b"local", b"SLURM_MEM_BIND_LIST": b"",
        b"CUDA_VISIBLE_DEVICES": b"1,3", b"NVIDIA_VISIBLE_DEVICES": b"GPU-b,3",
    }  # fmt: skip


def test_with_preserve_env_the_numbers_are_the_submitters():
    kept = [b"SLURM_NNODES=9", b"SLURM_NTASKS=8", b"SLURM_NPROCS=8", b"SLURM_TASKS_PER_NODE=7"]
    shape = msgspec.structs.replace(SHAPE, preserve_env=True)
    env = step_task_environment(iter([*kept, b"SLURM_STEP_NUM_TASKS=5"]), FACTS, shape)
    assert [key + b"=" + env[key] for key in (entry.partition(b"=")[0] for entry in kept)] == kept
    assert (env[b"SLURM_STEP_NUM_TASKS"], env[b"SLURM_STEP_NUM_NODES"]) == (b"4", b"2")
    without = step_task_environment([], FACTS, shape)
    assert (without[b"SLURM_NNODES"], without[b"SLURM_NTASKS"]) == (b"2", b"4")


def test_what_each_task_has_of_its_own():
    assert task_environments(SHAPE) == [
        {b"SLURM_PROCID": b"0", b"SLURM_LOCALID": b"0"}, {b"SLURM_PROCID": b"1", b"SLURM_LOCALID": b"1"},
    ]  # fmt: skip
    other = msgspec.structs.replace(SHAPE, ranks=(5, 9))
    assert task_environments(other) == [
        {b"SLURM_PROCID": b"5", b"SLURM_LOCALID": b"0"}, {b"SLURM_PROCID": b"9", b"SLURM_LOCALID": b"1"},
    ]  # fmt: skip


def test_of_an_outer_step_and_of_what_was_not_asked_for_nothing_is_left():
    submitted = [
        b"SLURM_CPU_BIND=x", b"SLURM_MEM_BIND_LIST=x", b"SLURM_STEP_RESV_PORTS=1", b"SLURM_STEP_GPUS=0",
        b"SLURM_DISTRIBUTION=cyclic", b"SLURM_GPUS_ON_NODE=8", b"ENVIRONMENT=BATCH", b"SLURM_PTY_WIN_ROW=1",
        b"SLURM_LAUNCH_NODE_IPADDR=1.2.3.4", b"SLURM_TASK_PID=7",
    ]  # fmt: skip
    env = step_task_environment(submitted, msgspec.structs.replace(FACTS, more=(), distribution=""), PLAIN)
    assert {entry.split(b"=")[0] for entry in submitted} & set(env) == {b"ENVIRONMENT"}  # the user's own
    assert env[b"CUDA_VISIBLE_DEVICES"] == b""


def test_cpus_of_a_task_are_the_jobs_where_the_step_asks_for_none():
    assert step_task_environment([b"SLURM_CPUS_PER_TASK=3"], FACTS, PLAIN)[b"SLURM_CPUS_PER_TASK"] == b"4"
    without = msgspec.structs.replace(FACTS, cpus_per_task=0)
    assert b"SLURM_CPUS_PER_TASK" not in step_task_environment([b"SLURM_CPUS_PER_TASK=3"], without, PLAIN)
    assert step_task_environment([], FACTS, SHAPE)[b"SLURM_CPUS_PER_TASK"] == b"2"


@pytest.mark.parametrize("name", [b"MASTER_ADDR", b"MASTER_PORT"])
def test_a_rendezvous_of_the_users_own_stays(name):
    env = step_task_environment([name + b"=mine"], FACTS, PLAIN)
    assert {key: value for key, value in env.items() if key.startswith(b"MASTER_")} == {name: b"mine"}


@pytest.mark.parametrize(
    ("numbers", "text"), [((), ""), ((7,), "7"), ((3, 1, 2, 9), "1-3,9"), ((12000, 12001), "12000-12001")]
)
def test_ranges(numbers, text):
    assert ranges(numbers) == text


ALL = (0, 1, 2, 3)
NUMBERS = (4, 5, 6, 7)


@pytest.mark.parametrize(
    ("tasks", "per_task", "bind", "expected"),
    [
        (2, 0, "", [ALL, ALL]),
        (2, 2, "", [(0, 1), (2, 3)]),
        (3, 2, "", [(0, 1), (2, 3), (0, 1)]),
        (2, 5, "", None),
        (2, 1, "none", [ALL, ALL]),
        (3, 0, "single:1", [(0,), (1,), (2,)]),
        (5, 0, "single", [(0,), (1,), (2,), (3,), (0,)]),
        (4, 0, "single:2", [(0,), (0,), (1,), (1,)]),
        (9, 0, "single:2", [(0,), (0,), (1,), (1,), (2,), (2,), (3,), (3,), (0,)]),
        (2, 0, "per_task:1", [(0,), (1,)]),
        (2, 0, "per_task:3", [(0, 1, 2), (0, 1, 3)]),
        (3, 0, "verbose,map_gpu:7,4", [(3,), (0,), (3,)]),
        (3, 0, "v,map:0x5*2,6", [(1,), (1,), (2,)]),
        (2, 0, "mask_gpu:0x30,0xC0", [(0, 1), (2, 3)]),
        (3, 0, "gres/gpu:mask:30*2,C0", [(0, 1), (0, 1), (2, 3)]),
        (2, 0, "closest", [ALL, ALL]),
        (2, 0, "map_gpu:9", None),
        (2, 0, "map:0", None),
        (2, 0, "mask_gpu:0x100", None),
        (2, 0, "mask:0", None),
        (2, 0, "map_gpu:x", None),
        (2, 0, "map:4*x", None),
        (1, 0, "single:0", None),
        (1, 0, "single:-1", None),
    ],
)
def test_which_gpus_a_task_gets(tasks, per_task, bind, expected):
    gpus = [PinnedGpu(number) for number in NUMBERS]
    found, problem = places_of_tasks(parse(bind, per_task), SeenGpus(gpus, [()] * tasks, False))
    assert found == (expected or [ALL] * tasks)
    assert bool(problem) == (expected is None)


@pytest.mark.parametrize(
    ("bind", "expected"),
    [("map:0,3", [(0,), (3,)]), ("mask:0x1,0xE", [(0,), (1, 2, 3)]), ("map:4", [ALL, ALL]), ("mask:0x10", [ALL, ALL])],
)
def test_behind_a_fence_numbers_count_the_steps_gpus(bind, expected):
    gpus = [PinnedGpu(number) for number in NUMBERS]
    assert places_of_tasks(parse(bind), SeenGpus(gpus, [(), ()], True))[0] == expected


@pytest.mark.parametrize(
    ("cpus", "bind", "expected"),
    [
        ([(0,), (8,)], "closest", [(0, 1), (2, 3)]),
        ([(0, 8), (9,), ()], "closest", [ALL, (2, 3), ALL]),
        ([(99,)], "closest", [ALL]),
        ([(8,), (0,)], "single:1", [(2,), (0,)]),
        ([(8,), (8,), (8,), (8,), (8,)], "single:1", [(2,), (3,), (0,), (1,), (2,)]),
        ([(8,), (0,)], "per_task:2", [(2, 3), (0, 1)]),
        ([(8,), (8,)], "per_task:2", [(2, 3), (0, 1)]),
        ([(8,), (0,)], "map:0", [(0,), (0,)]),
    ],
)
def test_gpus_near_to_a_tasks_cpus_come_first(cpus, bind, expected):
    gpus = [PinnedGpu(number, near_cpus=tuple(range(8)) if number < 2 else tuple(range(8, 16))) for number in range(4)]
    assert places_of_tasks(parse(bind), SeenGpus(gpus, cpus, False)) == (expected, "")


@pytest.mark.parametrize("bind", ["single:1", "map:0", "closest", "per_task:1", "mask:1"])
def test_without_gpus_there_is_nothing_to_bind(bind):
    assert places_of_tasks(parse(bind), SeenGpus((), [(), ()], False)) == ([(), ()], "")


@pytest.mark.parametrize(("text", "ranks"), [("*", [0, 1, 2, 3]), ("0,2-3", [0, 2, 3]), ("2-9", [2, 3]), (" 1 ", [1])])
def test_ranks_of_a_line(text, ranks):
    assert parse_ranks(text, 4) == ranks


@pytest.mark.parametrize("text", ["", "a", "1-", "-2", "1,,2", "١"])
def test_ranks_that_are_none(text):
    with pytest.raises(BadValue):
        parse_ranks(text, 4)


def test_a_step_over_components_counts_tasks_and_nodes_of_all():
    part = msgspec.structs.replace(SHAPE, rank_offset=10, het_ntasks=14, node_offset=3, het_nodes=5)
    facts = msgspec.structs.replace(FACTS, het_job_id=41)
    env = step_task_environment([b"SLURM_NTASKS_HET_GROUP_7=1"], facts, part)
    wanted = {
        b"SLURM_JOB_ID": b"41", b"SLURM_JOBID": b"41", b"SLURM_NTASKS": b"14", b"SLURM_NPROCS": b"14",
        b"SLURM_STEP_NUM_TASKS": b"14", b"SLURM_NNODES": b"5", b"SLURM_STEP_NUM_NODES": b"5", b"SLURM_NODEID": b"3",
        b"SLURM_GTIDS": b"10,11", b"SLURM_STEP_NODELIST": b"n[2-3]", b"SLURM_TASKS_PER_NODE": b"2(x2)",
    }  # fmt: skip
    assert {name: env[name] for name in wanted} == wanted
    assert b"SLURM_NTASKS_HET_GROUP_7" not in env
    assert [task[b"SLURM_PROCID"] for task in task_environments(part)] == [b"10", b"11"]
