"""What jobs print of their GPUs on a whole cluster, for each way in which a site may set them up (docs/gpu.md, Pinning)."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from livecluster import ClusterConf, LiveCluster

from nodedaemon.cgroups import find as cgroup_find

NAMES = (
    "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK",
    "GPU_DEVICE_ORDINAL", "SLURM_JOB_GPUS", "SLURM_STEP_GPUS", "SLURM_GPUS_ON_NODE", "SLURM_SHARDS_ON_NODE",
    "SLURM_GPUS_PER_SOCKET", "SLURM_GPU_BIND", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
)  # fmt: skip
SRUN = f"{sys.executable} -P -m cli.srun"
SHOW = "env | grep -E '^(" + "|".join(NAMES) + ")=' | sort"
UUID = "GPU-pretended-n1-%d"
ORDER = "CUDA_DEVICE_ORDER=PCI_BUS_ID"


def cluster_with(gres_conf: str = "", cgroup_conf: str = "") -> LiveCluster:
    """One node with four GPUs, each of four shards or a hundred parts by MPS."""
    made = LiveCluster(1, ClusterConf(gpus=4))
    text = made.slurm_conf.read_text()
    text = text.replace("Gres=gpu:h200:4", "Gres=gpu:h200:4,shard:16,mps:400 Sockets=2 CoresPerSocket=8")
    made.slurm_conf.write_text(text.replace("GresTypes=gpu", "GresTypes=gpu,shard,mps"))
    for name, content in (("gres.conf", gres_conf), ("cgroup.conf", cgroup_conf)):
        if content:
            (made.home / name).write_text(content)
    return made


@pytest.fixture(scope="module")
def cluster() -> Iterator[LiveCluster]:
    with cluster_with() as made:
        yield made


def printed(cluster: LiveCluster, *words: str) -> list[str]:
    """What a batch job of these options prints."""
    job = cluster.sbatch(*words, "-o", "%j.txt", "--wrap", SHOW)
    cluster.wait_state(job, "COMPLETED")
    return (cluster.work / f"{job}.txt").read_text().splitlines()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), ["CUDA_DEVICE_ORDER=PCI_BUS_ID", "CUDA_VISIBLE_DEVICES=", "NVIDIA_VISIBLE_DEVICES=void"]),
        (("--gres=gpu:2",), [
            ORDER, "CUDA_VISIBLE_DEVICES=0,1", f"NVIDIA_VISIBLE_DEVICES={UUID % 0},{UUID % 1}", "SLURM_GPUS_ON_NODE=2",
            "SLURM_JOB_GPUS=0,1",
        ]),
        (("--gpus-per-socket=1", "--sockets-per-node=2", "--gpu-bind=closest"), [
            ORDER, "CUDA_VISIBLE_DEVICES=0,1", f"NVIDIA_VISIBLE_DEVICES={UUID % 0},{UUID % 1}", "SLURM_GPUS_ON_NODE=2",
            "SLURM_GPUS_PER_SOCKET=1", "SLURM_GPU_BIND=closest", "SLURM_JOB_GPUS=0,1",
        ]),
        (("--gres=shard:3",), [
            ORDER, "CUDA_VISIBLE_DEVICES=0", f"NVIDIA_VISIBLE_DEVICES={UUID % 0}", "SLURM_JOB_GPUS=0",
            "SLURM_SHARDS_ON_NODE=3",
        ]),
        (("--gres=mps:25",), [
            ORDER, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=25", f"CUDA_VISIBLE_DEVICES={UUID % 0}",
            f"NVIDIA_VISIBLE_DEVICES={UUID % 0}", "SLURM_JOB_GPUS=0",
        ]),
    ],
)  # fmt: skip
def test_what_a_batch_script_prints(cluster: LiveCluster, words: tuple[str, ...], expected: list[str]) -> None:
    assert printed(cluster, *words) == sorted(expected)


def tasks(cluster: LiveCluster, *words: str, show: str = "$CUDA_VISIBLE_DEVICES") -> list[str]:
    done = cluster.run("srun", "-l", *words, "sh", "-c", f"echo {show}")
    assert done.status == 0, done
    return sorted(done.out.splitlines())


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("-n2", "-G4"), ["0: 0,1,2,3", "1: 0,1,2,3"]),
        (("-n2", "-G4", "--gpu-bind=single:1"), ["0: 0", "1: 1"]),
        (("-n4", "-G2", "--gpu-bind=single:2"), ["0: 0", "1: 0", "2: 1", "3: 1"]),
        (("-n2", "-G4", "--gpu-bind=per_task:2"), ["0: 0,1", "1: 2,3"]),
        (("-n2", "-G4", "--gpu-bind=map:3,0"), ["0: 3", "1: 0"]),
        (("-n2", "-G4", "--gpu-bind=mask:0x3,0xC"), ["0: 0,1", "1: 2,3"]),
        (("-n2", "-G4", "--tres-bind=gres/gpu:map:2*2"), ["0: 2", "1: 2"]),
        (("-n2", "--gpus-per-task=1"), ["0: 0", "1: 1"]),
        (("-n2", "--gpus-per-task=1", "--gpu-bind=none"), ["0: 0,1", "1: 0,1"]),
        (("-n2", "--gres=shard:2", "--tres-bind=gres/shard:per_task:1"), ["0: 0", "1: 0"]),
    ],
)
def test_what_tasks_print(cluster: LiveCluster, words: tuple[str, ...], expected: list[str]) -> None:
    assert tasks(cluster, *words) == expected


def test_steps_of_a_job_have_their_own_of_its_gpus(cluster: LiveCluster) -> None:
    """The job's numbers stay; the step's are beside them. What was said to sbatch of binding holds for its steps."""
    show = "sh -c 'echo $SLURM_JOB_GPUS $SLURM_STEP_GPUS $CUDA_VISIBLE_DEVICES'"
    text = f"{SRUN} -n1 --exact -G2 {show}; {SRUN} -n2 {show} | sort"
    job = cluster.sbatch("-n2", "-G3", "--gpu-bind=single:1", "-o", "steps.txt", "--wrap", text)
    cluster.wait_ends(job)
    lines = (cluster.work / "steps.txt").read_text().splitlines()
    first, *rest = [line for line in lines if line[:1].isdigit()]
    assert first == "0,1,2 0,1 0"
    assert rest == ["0,1,2 0,1,2 0", "0,1,2 0,1,2 1"]


def test_verbose_and_what_is_ignored_stand_on_standard_error(cluster: LiveCluster) -> None:
    done = cluster.run("srun", "-n2", "-G2", "--gpu-bind=verbose,single:1", "--gpu-freq=high", "true")
    assert done.status == 0
    assert sorted(done.err.splitlines()) == [
        "gpu-bind: usable_gres=0x1; bit_alloc=0x3; local_inx=1; global_list=0; local_list=0",
        "gpu-bind: usable_gres=0x2; bit_alloc=0x3; local_inx=1; global_list=1; local_list=1",
        "slurmstepd: error: --gpu-freq=high is ignored: clocks of GPUs are not changed on this node",
    ]


@pytest.mark.parametrize(
    ("gres_conf", "expected"),
    [
        ("NodeName=n1 Name=gpu Type=h200 Count=4", [
            ORDER, "CUDA_VISIBLE_DEVICES=0", "GPU_DEVICE_ORDINAL=0", f"NVIDIA_VISIBLE_DEVICES={UUID % 0}",
            "ROCR_VISIBLE_DEVICES=0", "SLURM_GPUS_ON_NODE=1", "SLURM_JOB_GPUS=0", "ZE_AFFINITY_MASK=0",
        ]),
        ("AutoDetect=nvml\nName=gpu Type=h200 Count=4 Flags=env_uuid", [
            ORDER, f"CUDA_VISIBLE_DEVICES={UUID % 0}", f"NVIDIA_VISIBLE_DEVICES={UUID % 0}", "SLURM_GPUS_ON_NODE=1",
            "SLURM_JOB_GPUS=0",
        ]),
        ("Name=gpu Type=h200 Count=4 Flags=amd_gpu_env", [
            "ROCR_VISIBLE_DEVICES=0", "SLURM_GPUS_ON_NODE=1", "SLURM_JOB_GPUS=0",
        ]),
    ],
)  # fmt: skip
def test_flags_of_gres_conf(gres_conf: str, expected: list[str]) -> None:
    with cluster_with(gres_conf + "\n") as made:
        assert printed(made, "--gres=gpu:1") == expected


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_behind_a_fence_numbers_begin_at_0(tmp_path: Path) -> None:
    """Device files that are nobody's: who was given one gets ENXIO, others EPERM. Prolog and Epilog stand outside."""
    found = cgroup_find.detect("look", str(tmp_path))
    cgroup_find.remove_subtree(found)
    if found.kind == "none" or not (found.can("devices") or found.kind == "v2"):
        pytest.skip("no control groups of devices")
    files = [str(tmp_path / f"gpu{number}") for number in range(4)]
    for number, path in enumerate(files):
        subprocess.run(["mknod", "-m", "666", path, "c", "195", str(210 + number)], check=True)
    conf = f"AutoDetect=off\nName=gpu Type=h200 Count=4 File={tmp_path}/gpu[0-3] Flags=nvidia_gpu_env\n"
    with cluster_with(conf, "ConstrainDevices=yes\n") as made:
        for parent in (tmp_path, *tmp_path.parents):
            if not parent.stat().st_mode & 0o001:
                parent.chmod(parent.stat().st_mode | 0o001)
        hold = made.sbatch("--gres=gpu:3", "--wrap", "exec sleep 300")
        made.wait_state(hold, "RUNNING")
        look = "; ".join(f"(: <{path}) 2>&1 | sed 's/.*: //'" for path in files)
        job = made.sbatch("--gres=gpu:1", "-o", "fence.txt", "--wrap", f"{SHOW}; {look}")
        made.wait_state(job, "COMPLETED")
        lines = (made.work / "fence.txt").read_text().splitlines()
        assert lines[:5] == [
            ORDER, "CUDA_VISIBLE_DEVICES=0", f"NVIDIA_VISIBLE_DEVICES={UUID % 3}", "SLURM_GPUS_ON_NODE=1",
            "SLURM_JOB_GPUS=3",
        ]  # fmt: skip
        assert lines[5:9] == ["Operation not permitted"] * 3 + ["No such device or address"]
        none = made.sbatch("-o", "none.txt", "--wrap", SHOW)
        made.wait_state(none, "COMPLETED")
        assert (made.work / "none.txt").read_text().splitlines() == [ORDER, "NVIDIA_VISIBLE_DEVICES=void"]
