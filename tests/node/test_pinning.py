"""Variables by which a job knows its GPUs: each case of the rules, from the launch as it comes to the variables; and for real."""

import asyncio
import os
from typing import Any

import pytest
from fakenvml import FakeNvml

from nodedaemon.base.topology_info import flat
from nodedaemon.cgroups.cgroup import Cgroups
from nodedaemon.cgroups.tree import CgroupTree
from nodedaemon.core.messages import Launch
from nodedaemon.core.scriptenv import script_environment
from nodedaemon.daemon import gpu_returned
from nodedaemon.launch import wire
from nodedaemon.launch.site import Site
from penstock.v1 import common_pb2, node_pb2
from tests.node.fakectl import cluster, lines, make_launch, make_step_launch

A, B, MIG = "GPU-aaaaaaaa", "GPU-bbbbbbbb", "MIG-cccccccc"
FENCES = Cgroups("v1", (CgroupTree("/nowhere", ("freezer", "devices"), False),))
NAMES = (
    "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK",
    "GPU_DEVICE_ORDINAL", "SLURM_JOB_GPUS", "SLURM_STEP_GPUS", "SLURM_GPUS_ON_NODE", "SLURM_SHARDS_ON_NODE",
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT",
)  # fmt: skip


@pytest.fixture(autouse=True)
def there_are_cards(monkeypatch):
    """A device group hides only GPUs that have device files."""
    monkeypatch.setattr("nodedaemon.launch.pinning.exists", lambda path: True)


def run(coroutine):
    return asyncio.run(coroutine)


def site(fenced: bool = False, devices=(), named: bool = True, **gpu) -> Site:
    """A node with two GPUs in the order of the bus A, B, whose minors are the other way round, and an instance on B."""
    made = Site(flat(8))
    if named:
        made.found(node_pb2.Inventory(gpus=[
            node_pb2.GpuDevice(uuid=A, index=0, minor=1, memory_mb=1000, near_cpus=range(4)),
            node_pb2.GpuDevice(uuid=B, index=1, minor=0, memory_mb=1000, near_cpus=range(4, 8)),
            node_pb2.GpuDevice(uuid=MIG, index=1, minor=0, parent_uuid=B, files=["/dev/nvidia-caps/nvidia-cap9"]),
        ]))  # fmt: skip
    settings = node_pb2.NodeSettings(gpu=node_pb2.GpuSettings(**gpu), task_plugin="task/affinity")
    for name, index, file in devices:
        settings.devices.add(name=name, index=index, file=file)
    if fenced:
        settings.cgroup.constrain_devices = True
        made.cgroups = FENCES
    made.take(settings)
    return made


def allocation(*gres: dict) -> common_pb2.NodeAllocation:
    return common_pb2.NodeAllocation(
        node="n1", cpus=8, cpu_ids=b"\xff", gres=[common_pb2.GresIndices(**one) for one in gres]
    )


def told(site: Site, *gres: dict) -> dict[str, str]:
    """The variables of a batch script that was submitted from inside another job."""
    outer = [f"{name}=outer".encode() for name in NAMES]
    message = make_launch(1, "true", env=outer, allocation=allocation(*gres))
    made = wire.launch_order(message, wire.NodeFacts("n1", "n1", "", site)).environment
    return {name: made[name.encode()].decode() for name in NAMES if name.encode() in made}


def gpus(*which: tuple[int, str]) -> dict:
    return {"name": "gpu", "index": [index for index, _ in which], "uuid": [uuid for _, uuid in which]}


BOTH = gpus((0, B), (1, A))  # places are the controller's: not in the order of the bus
ONE = gpus((0, B))
OUTER_MPS = {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "outer", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "outer"}  # the user's


@pytest.mark.parametrize(
    ("settings", "gres", "expected"),
    [
        ({}, [BOTH], {
            "CUDA_VISIBLE_DEVICES": "0,1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "NVIDIA_VISIBLE_DEVICES": f"{A},{B}",
            "SLURM_JOB_GPUS": "0,1", "SLURM_GPUS_ON_NODE": "2",
        }),
        ({}, [ONE], {
            "CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "NVIDIA_VISIBLE_DEVICES": B,
            "SLURM_JOB_GPUS": "1", "SLURM_GPUS_ON_NODE": "1",
        }),
        ({"fenced": True}, [ONE], {
            "CUDA_VISIBLE_DEVICES": "0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "NVIDIA_VISIBLE_DEVICES": B,
            "SLURM_JOB_GPUS": "1", "SLURM_GPUS_ON_NODE": "1",
        }),
        ({"env_uuid": True}, [BOTH], {
            "CUDA_VISIBLE_DEVICES": f"{A},{B}", "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
            "NVIDIA_VISIBLE_DEVICES": f"{A},{B}", "SLURM_JOB_GPUS": "0,1", "SLURM_GPUS_ON_NODE": "2",
        }),
        ({"fenced": True}, [gpus((4, MIG))], {
            "CUDA_VISIBLE_DEVICES": MIG, "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "NVIDIA_VISIBLE_DEVICES": MIG,
            "SLURM_JOB_GPUS": "4", "SLURM_GPUS_ON_NODE": "1",
        }),
        ({}, [], {
            "CUDA_VISIBLE_DEVICES": "", "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "NVIDIA_VISIBLE_DEVICES": "void",
        }),
        ({"fenced": True}, [], {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "NVIDIA_VISIBLE_DEVICES": "void"}),
        ({"env": ["nvidia", "amd", "intel", "opencl"], "env_uuid": True}, [ONE], {
            "CUDA_VISIBLE_DEVICES": B, "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "NVIDIA_VISIBLE_DEVICES": B,
            "ROCR_VISIBLE_DEVICES": "1", "ZE_AFFINITY_MASK": "1", "GPU_DEVICE_ORDINAL": "1",
            "SLURM_JOB_GPUS": "1", "SLURM_GPUS_ON_NODE": "1",
        }),
        ({"env": ["amd"]}, [ONE], {
            "ROCR_VISIBLE_DEVICES": "1", "SLURM_JOB_GPUS": "1", "SLURM_GPUS_ON_NODE": "1",
        }),
        ({"env": ["none"]}, [ONE], {"SLURM_JOB_GPUS": "1", "SLURM_GPUS_ON_NODE": "1"}),
        ({"named": False, "devices": [("gpu", 3, "/dev/dri/renderD131")]}, [{"name": "gpu", "index": [3]}], {
            "CUDA_VISIBLE_DEVICES": "3", "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "NVIDIA_VISIBLE_DEVICES": "3",
            "ROCR_VISIBLE_DEVICES": "3", "ZE_AFFINITY_MASK": "3", "GPU_DEVICE_ORDINAL": "3",
            "SLURM_JOB_GPUS": "3", "SLURM_GPUS_ON_NODE": "1",
        }),
        ({}, [{"name": "shard", "index": [0], "uuid": [B], "units": [3], "of": [4]}], {
            "CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "NVIDIA_VISIBLE_DEVICES": B,
            "SLURM_JOB_GPUS": "1", "SLURM_SHARDS_ON_NODE": "3",
        }),
        ({"fenced": True}, [{"name": "mps", "index": [0], "uuid": [B], "units": [1], "of": [200]}], {
            "CUDA_VISIBLE_DEVICES": B, "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "NVIDIA_VISIBLE_DEVICES": B,
            "SLURM_JOB_GPUS": "1", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "1", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=5M",
        }),
    ],
)  # fmt: skip
def test_what_a_batch_script_is_told(settings, gres, expected):
    assert told(site(**settings), *gres) == {**({} if gres and gres[0]["name"] == "mps" else OUTER_MPS), **expected}


def test_a_driver_that_comes_after_the_settings_is_fenced_off(monkeypatch):
    """Its devices are closed by number from the first job on; only then do numbers begin at 0."""
    monkeypatch.setattr("nodedaemon.launch.pinning.exists", lambda path: False)
    node = site(fenced=True)
    assert told(node, ONE)["CUDA_VISIBLE_DEVICES"] == "1"
    monkeypatch.setattr("nodedaemon.launch.pinning.exists", lambda path: True)
    assert told(node, ONE)["CUDA_VISIBLE_DEVICES"] == "0"


def test_a_gpu_that_is_not_there_is_no_launch():
    message = make_launch(1, "true", allocation=allocation(gpus((0, "GPU-gone"))))
    command = node_pb2.Command(launch=message)
    event = wire.command_event(1, command, wire.NodeFacts("n1", "n1", "", site()))
    assert isinstance(event, Launch)
    assert event.invalid == "GPU GPU-gone is not on this node"


def test_prolog_and_epilog_stand_outside_the_fence():
    message = make_launch(1, "true", allocation=allocation(ONE))
    facts = wire.step_facts(message, wire.NodeFacts("n1", "n1", "", site(fenced=True)))
    made = script_environment(facts, {}, {})
    assert {name: made[name] for name in NAMES if name in made} == {
        "CUDA_VISIBLE_DEVICES": "1", "NVIDIA_VISIBLE_DEVICES": B, "SLURM_JOB_GPUS": "1", "SLURM_GPUS_ON_NODE": "1",
    }  # fmt: skip
    none = wire.step_facts(make_launch(1, "true"), wire.NodeFacts("n1", "n1", "", site()))
    assert not set(NAMES) & script_environment(none, {}, {}).keys()


def step(site: Site, *gres: dict, ranks=(0, 1), job=None, **spec) -> tuple[dict[str, str], list[dict[str, str]], list]:
    """Variables of all tasks of a step, those of each task, and their lines about binding."""
    message = make_step_launch(1, ["true"], ranks=ranks, spec=spec, env=[], allocation=allocation(*gres))
    message.job_allocation.CopyFrom(allocation(*(job or gres)))
    order = wire.launch_order(message, wire.NodeFacts("n1", "n1", "", site))
    tasks = [{k.decode(): v.decode() for k, v in task.environment.items()} for task in order.tasks]
    env = {name: order.environment[name.encode()].decode() for name in NAMES if name.encode() in order.environment}
    own = [{name: task[name] for name in NAMES if name in task} for task in tasks]
    return env, own, [note for task in order.tasks for note in task.bind_notes]


def test_a_step_with_less_than_its_job_counts_its_own():
    env, own, _ = step(site(fenced=True), ONE, job=[BOTH])
    assert env == {
        "CUDA_VISIBLE_DEVICES": "0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "NVIDIA_VISIBLE_DEVICES": B,
        "SLURM_JOB_GPUS": "0,1", "SLURM_STEP_GPUS": "1", "SLURM_GPUS_ON_NODE": "1",
    }  # fmt: skip
    assert own == [{}, {}]


@pytest.mark.parametrize(
    ("spec", "fenced", "cuda"),
    [
        ({"gpu_bind": "single:1"}, False, ["0", "1"]),
        ({"gpu_bind": "map:1"}, False, ["1", "1"]),
        ({"gpu_bind": "map:1,0"}, True, ["1", "0"]),
        ({"gpu_bind": "none"}, False, [None, None]),
        ({"gpu_bind": "closest", "cpu_bind": "map_cpu:5,1"}, False, ["1", "0"]),
        ({"gpu_bind": "closest", "cpu_bind": "none"}, False, [None, None]),
        ({"gpu_bind": "single:1", "cpu_bind": "map_cpu:5,1"}, True, ["1", "0"]),
        ({"gres_per_task": [common_pb2.GresCount(name="gpu", count=1)]}, False, ["0", "1"]),
        ({"gres_per_task": [common_pb2.GresCount(name="gpu", count=1)], "gpu_bind": "none"}, False, [None, None]),
    ],
)
def test_what_each_task_is_told(spec, fenced, cuda):
    env, own, _ = step(site(fenced), BOTH, **spec)
    assert [task.get("CUDA_VISIBLE_DEVICES") for task in own] == cuda
    assert env["CUDA_VISIBLE_DEVICES"] == "0,1"
    by_number = {"0": A, "1": B, None: None}
    assert [task.get("NVIDIA_VISIBLE_DEVICES") for task in own] == [by_number[number] for number in cuda]


def test_verbose_says_a_line_for_each_task():
    _, _, notes = step(site(), BOTH, gpu_bind="verbose,single:1", cpu_bind="none")
    assert notes == [
        "gpu-bind: usable_gres=0x1; bit_alloc=0x3; local_inx=1; global_list=0; local_list=0",
        "gpu-bind: usable_gres=0x2; bit_alloc=0x3; local_inx=1; global_list=1; local_list=1",
    ]
    _, _, notes = step(site(fenced=True), ONE, ranks=(0,), gpu_bind="verbose", cpu_bind="none")
    assert notes == ["gpu-bind: usable_gres=0x2; bit_alloc=0x2; local_inx=1; global_list=1; local_list=0"]


def test_what_cannot_be_done_is_told_in_the_step():
    _, own, notes = step(site(), BOTH, gpu_bind="map:7", gpu_freq="high", cpu_bind="none")
    assert own == [{}, {}]
    assert notes == [
        "slurmstepd: error: --gpu-freq=high is ignored: clocks of GPUs are not changed on this node",
        "slurmstepd: error: --gpu-bind=map:7: the step has no GPU 7 here; tasks are not bound to GPUs",
    ]
    assert step(site(), gpu_bind="verbose,map:7", gpu_freq="high", cpu_bind="none")[2] == []


def test_shares_are_bound_to_their_gpu():
    shards = {"name": "shard", "index": [1], "uuid": [A], "units": [2], "of": [4]}
    env, own, _ = step(site(), shards, gpu_bind="per_task:1")
    assert (env["CUDA_VISIBLE_DEVICES"], env["SLURM_SHARDS_ON_NODE"], own) == ("0", "2", [{}, {}])


@pytest.mark.parametrize(
    ("gres", "denied"),
    [
        ([], ["/dev/fpga0", "c195:0", "c195:1"]),
        ([ONE], ["/dev/fpga0", "c195:1"]),
        ([BOTH], ["/dev/fpga0"]),
        ([BOTH, {"name": "fpga", "index": [0]}], []),
        ([gpus((4, MIG))], ["/dev/fpga0", "c195:1"]),
        ([{"name": "shard", "index": [1], "uuid": [A], "units": [2], "of": [4]}], ["/dev/fpga0", "c195:0"]),
    ],
)
def test_what_is_closed(gres, denied, monkeypatch):
    """By who the GPU is, not by its place: gres.conf's files may be in another order."""
    monkeypatch.setattr("nodedaemon.cgroups.devices.read_text", lambda path: "")  # no driver
    files = [("gpu", 0, "/dev/nvidia0"), ("gpu", 1, "/dev/nvidia1"), ("fpga", 0, "/dev/fpga0")]
    others = [("gpu", 2, "/dev/nvidiactl"), ("gpu", 3, "/dev/nvidia-uvm")]  # a site's slip
    node = site(True, [*files, *others])
    order = wire.launch_order(make_launch(1, "true", allocation=allocation(*gres)), wire.NodeFacts("n1", "", "", node))
    named = [name for name in order.denied_devices if name != "/dev/nvidia-caps/nvidia-cap9"]
    assert named == denied
    assert ("/dev/nvidia-caps/nvidia-cap9" in order.denied_devices) == (gres != [gpus((4, MIG))])
    assert order.fence_devices == any(part["name"] in ("gpu", "shard") for part in gres)


def test_root_does_not_launch_without_a_fence_that_was_asked_for(monkeypatch):
    node = site(True)
    node.cgroups = Cgroups("v1", (CgroupTree("/nowhere", ("freezer",), False),))
    node.take(node.settings)
    assert node.gpu_constraint() == "env"

    def event_of() -> Any:
        command = node_pb2.Command(launch=make_launch(1, "true", allocation=allocation(ONE)))
        return wire.command_event(1, command, wire.NodeFacts("n1", "", "", node))

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert event_of().invalid == "ConstrainDevices=yes, but devices cannot be closed by this node's cgroup v1"
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert event_of().invalid == "" and event_of().order.denied_devices == []
    assert event_of().order.environment[b"CUDA_VISIBLE_DEVICES"] == b"1"  # nothing is hidden
    assert site(True).gpu_constraint() == "cgroup/v1"


def test_what_is_given_back_is_closed_but_for_what_is_kept(monkeypatch):
    """An instance's GPU stays open to who has another instance of it."""
    seen = []
    monkeypatch.setattr("nodedaemon.cgroups.devices.read_text", lambda path: "")  # no driver
    monkeypatch.setattr(
        "nodedaemon.daemon.gpu_returned.take_away", lambda trees, job, files: seen.append((job, files)) or 1
    )
    assert gpu_returned.close(site(True), "7.1", [A], [B]) == 1
    assert gpu_returned.close(site(True), "7.1", [MIG], [B]) == 1
    assert gpu_returned.close(site(True), "7.1", [B], [MIG]) == 0  # the same file
    assert gpu_returned.close(site(False), "7.1", [A], []) == 0
    assert seen == [("7.1", ["c195:1"]), ("7.1", ["/dev/nvidia-caps/nvidia-cap9"])]


# -- real daemons


def test_a_job_on_a_node_whose_gpus_nvml_names(tmp_path, monkeypatch):
    """UUIDs decide: the fake's minors are not in the order of the bus, and the places here neither."""
    fake = FakeNvml(tmp_path / "state")
    for name, value in fake.env().items():
        monkeypatch.setenv(name, value)
    script = "env | grep -E '^(CUDA|NVIDIA|SLURM_(JOB|STEP)_GPUS|SLURM_GPUS_ON)' | sort"

    async def scenario():
        async with cluster(tmp_path, "--gpus=") as (controller, _):
            inventory = controller.registrations[0].inventory
            assert [gpu.uuid for gpu in inventory.gpus] == [fake.uuid(0), fake.uuid(1)]
            assert inventory.gpu_constraint in ("env", "cgroup/v1", "cgroup/v2")
            part = allocation(gpus((0, fake.uuid(1))))
            part.ClearField("cpu_ids")
            controller.launch(1, script, allocation=part, work_dir=str(tmp_path).encode())
            await controller.exited(1)
            assert lines(tmp_path / "slurm-1.out") == [
                "CUDA_DEVICE_ORDER=PCI_BUS_ID",
                "CUDA_VISIBLE_DEVICES=1",
                f"NVIDIA_VISIBLE_DEVICES={fake.uuid(1)}",
                "SLURM_GPUS_ON_NODE=1",
                "SLURM_JOB_GPUS=1",
            ]
            gone = allocation(gpus((0, "GPU-gone")))
            assert "GPU-gone is not on this node" in await controller.acked(
                controller.launch(2, "true", allocation=gone, work_dir=str(tmp_path).encode())
            )

    run(scenario())
