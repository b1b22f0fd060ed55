"""Whole nodes, and GPUs that do not divide, as scripts of users see them."""

from livecluster import ClusterConf, LiveCluster

#: A fine-tuning job as people write it; its program only says where it is.
FINETUNE = """#!/bin/bash
#SBATCH --job-name=llm-finetune
#SBATCH --nodes=4
#SBATCH --gres=gpu:8
#SBATCH --time=48:00:00
#SBATCH --exclusive
#SBATCH --constraint=ib_hdr # Require InfiniBand HDR
echo tasks $SLURM_TASKS_PER_NODE cpus $SLURM_JOB_CPUS_PER_NODE gpus $SLURM_GPUS_ON_NODE
srun echo --nnodes=$SLURM_NNODES --nproc_per_node=8 --rdzv_id=$SLURM_JOB_ID \\
  --rdzv_endpoint=$(scontrol show hostnames | head -1):29500
"""
TASK = "echo $SLURM_PROCID $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES"


def output(cluster: LiveCluster, job_id: int) -> list[str]:
    cluster.wait_ends(job_id)
    lines = (cluster.work / f"slurm-{job_id}.out").read_text().splitlines()
    assert cluster.job(job_id).state == "COMPLETED", lines
    return lines


def test_23_steps_start_in_a_job_that_has_its_nodes_alone(new_cluster) -> None:
    names = [f"n{i}" for i in range(1, 5)]
    conf = ClusterConf(
        cpus=8,
        gpus=8,
        features=dict.fromkeys(names, "ib_hdr"),
        more=("DefMemPerCPU=2000", "SelectTypeParameters=CR_Core_Memory"),
    )
    cluster: LiveCluster = new_cluster(4, conf)
    cluster.wait_nodes(*names)
    done = cluster.run("salloc", "-N1", "--exclusive", "srun", "echo", "here")
    assert (done.status, done.out) == (0, "here\n")
    (cluster.work / "finetune.sbatch").write_text(FINETUNE)
    job = cluster.sbatch(str(cluster.work / "finetune.sbatch"))
    lines = output(cluster, job)
    assert lines[0] == "tasks 8(x4) cpus 8(x4) gpus 8"
    assert lines[1:] == [f"--nnodes=4 --nproc_per_node=8 --rdzv_id={job} --rdzv_endpoint=n1:29500"] * 4
    done = cluster.run("sacct", "-nXP", "-j", str(job), "-o", "AllocTRES").ok()
    assert done.out == "billing=32,cpu=32,gres/gpu=32,gres/gpu:h200=32,mem=64000M,node=4\n"


def test_24_tasks_have_their_gpus_where_these_do_not_divide(new_cluster) -> None:
    cluster: LiveCluster = new_cluster(2, ClusterConf(cpus=4, gpus=2))
    cluster.wait_nodes("n1", "n2")
    job = cluster.sbatch("-n3", "--gpus-per-task=1", "--wrap", f"srun bash -c '{TASK}' | sort")
    assert output(cluster, job) == ["0 n1 0", "1 n1 1", "2 n2 0"]
    job = cluster.sbatch(
        "-G3", "--ntasks-per-gpu=2", "--wrap", f"echo $SLURM_NTASKS $SLURM_TASKS_PER_NODE; srun bash -c '{TASK}' | sort"
    )
    assert output(cluster, job) == ["6 4,2", "0 n1 0", "1 n1 0", "2 n1 1", "3 n1 1", "4 n2 0", "5 n2 0"]
    job = cluster.sbatch("-G3", "--wrap", f"echo $SLURM_GPUS $SLURM_NNODES; srun bash -c '{TASK}' | sort")
    assert output(cluster, job) == ["3 2", "0 n1 0,1", "1 n2 0"]
    for options, tasks in (
        (("-G3", "--ntasks-per-gpu=2"), ["0 n1 0", "1 n1 0", "2 n1 1", "3 n1 1", "4 n2 0", "5 n2 0"]),
        (("-G3", "--gpus-per-task=1"), ["0 n1 0", "1 n1 1", "2 n2 0"]),
        (("-G3", "--tres-per-task=gres/gpu:1"), ["0 n1 0", "1 n1 1", "2 n2 0"]),
    ):
        assert sorted(cluster.run("srun", *options, "bash", "-c", TASK).ok().out.splitlines()) == tasks
