"""Sick GPUs are reset and checked by the site's programs, idle ones cost their job something: real daemons, real jobs.

One node with the fake's two GPUs. The site's programs are scripts that the test tells how to end. The controller's rules by
themselves are scenarios: tests/core/scripts/gpu_*.txt.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fakenvml import FakeNvml
from livecluster import ClusterConf, LiveCluster, shown
from patience import ANSWER_S, END_S

from penstock.v1 import controller_pb2 as c

#: Says that it runs, waits until it is told how to end, and ends so.
PROGRAM = """#!/bin/sh
echo "$PENSTOCK_GPU_UUID" >"$0.runs"
while [ ! -s "$0.end" ]; do sleep 0.1; done
read -r code words <"$0.end"
rm "$0.end" "$0.runs"
echo "$words"
exit "$code"
"""
SRUN = f"{sys.executable} -P -m cli.srun"
LIMITS = "restart_first_s=0.1 restart_most_s=1 retry_s=0.5 return_s=0.5 merge_s=0.05"
#: The controller looks for GPUs to be reset every second, not every 30 s, when it was not told at the right moment.
OFTEN = {"ctld.core.gpus.care:CHECK_US": 1_000_000}


class Care(LiveCluster):
    """`check` and `reset` are the site's programs."""

    def __init__(self, folder: Path) -> None:
        self.fake = FakeNvml(folder / "state", changes={"gpu.0.util_gpu": 50, "gpu.1.util_gpu": 50})
        self.check, self.reset = folder / "check", folder / "reset"
        for program in (self.check, self.reset):
            program.write_text(PROGRAM)
            program.chmod(0o755)
        keys = (
            "PenstockGpuPollSeconds=1", f"PenstockGpuCheckProgram={self.check}", f"PenstockGpuResetProgram={self.reset}",
            "PenstockGpuIdleWarn=2", "PenstockGpuIdleLimit=1", "PenstockGpuIdleAction=cancel",
        )  # fmt: skip
        super().__init__(1, ClusterConf(found_gpus=2, cpus=8, more=keys, constants=OFTEN))

    def start_node(self, name: str, **env: str) -> Any:
        return super().start_node(name, **{**self.fake.env(), "PENSTOCK_GPU_LIMITS": LIMITS, **env})

    def gpu(self, number: int) -> c.GpuInfo:
        """By its number in the fake."""
        return next(gpu for gpu in self.node("n1").gpus if gpu.uuid == self.fake.uuid(number))

    def wait_gpu(self, number: int, state: str, reason: str) -> None:
        self.wait(
            lambda: (self.gpu(number).state, self.gpu(number).reason) == (state, reason),
            f"GPU {number} is {state} ({reason})",
            END_S,
            show=lambda: [(gpu.state, gpu.reason) for gpu in self.node("n1").gpus],
        )

    def wait_program(self, program: Path, number: int) -> None:
        """Wait until it runs for that GPU."""
        self.wait_text(program.with_name(program.name + ".runs"), self.fake.uuid(number), END_S)

    def end_program(self, program: Path, code: int, words: str = "fine") -> None:
        new = program.with_name(program.name + ".new")
        new.write_text(f"{code} {words}\n")
        new.rename(program.with_name(program.name + ".end"))

    def xid(self, gpu: int, number: int) -> None:
        log = self.fake.log
        so_far = log.stat().st_size if log.exists() else 0
        self.wait(lambda: b"nvmlEventSetWait" in log.read_bytes()[so_far:], "somebody waits for XIDs")
        self.fake.event(gpu, number)

    def number_of(self, job_id: int) -> int:
        """Of the GPU that a running job has."""
        uuid = next(gpu.uuid for gpu in self.node("n1").gpus if job_id in gpu.job_ids)
        return [self.fake.uuid(0), self.fake.uuid(1)].index(uuid)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Care]:
    with Care(tmp_path_factory.mktemp("care")) as running:
        yield running


def test_reset_then_checked_then_given_again(cluster: Care) -> None:
    job = cluster.sbatch("--no-requeue", "--gres=gpu:1", "--wrap", "sleep 1000")
    cluster.wait_state(job, "RUNNING")
    number = cluster.number_of(job)
    cluster.xid(number, 48)
    assert cluster.wait_ends(job)[0].state == "FAILED"
    cause = f"GPU_ERROR: XID 48 on {cluster.fake.uuid(number)}"
    assert cluster.job(job).admin_comment.startswith(cause), shown(cluster.job(job))
    assert cluster.run("sacct", "-nX", "-j", str(job), "-o", "comment%200").ok().out.strip().startswith(cause)
    cluster.wait_program(cluster.reset, number)
    cluster.end_program(cluster.reset, 0)
    cluster.wait_program(cluster.check, number)
    waits = cluster.sbatch("--gres=gpu:2", "--wrap", "true")
    cluster.wait(
        lambda: "is being checked" in cluster.job(waits).reason_detail,
        "the job that waits knows what for",
        show=lambda: shown(cluster.job(waits)),
    )
    cluster.kill("ctld")
    cluster.start_controller()
    cluster.wait_nodes("n1")
    cluster.end_program(cluster.check, 0)
    cluster.wait_gpu(number, "HEALTHY", "")
    assert cluster.wait_ends(waits)[0].state == "COMPLETED"


def test_a_failed_check_drains_with_the_programs_words(cluster: Care) -> None:
    cluster.fake.put({"gpu.1.remap_pending": 1})
    cluster.wait_gpu(1, "DRAINED", "row remap pending")
    cluster.wait_program(cluster.reset, 1)
    cluster.fake.put({"gpu.1.remap_pending": 0})
    cluster.end_program(cluster.reset, 0)
    cluster.wait_program(cluster.check, 1)
    cluster.end_program(cluster.check, 3, "memory test: 17 errors")
    cluster.wait(lambda: "memory test: 17 errors" in cluster.gpu(1).reason, "the reason is the program's", END_S)
    assert cluster.gpu(1).state == "DRAINED" and cluster.gpu(0).state == "HEALTHY"
    cluster.run("scontrol", "update", "nodename=n1", "gres=gpu:1", "state=resume").ok()
    cluster.wait_gpu(1, "HEALTHY", "")


def test_a_job_that_does_nothing_with_its_gpu_is_told_and_cancelled(cluster: Care) -> None:
    cluster.fake.put({"gpu.0.util_gpu": 0, "gpu.1.util_gpu": 0})
    job = cluster.sbatch("--gres=gpu:1", "-o", "idle.out", "--wrap", "sleep 1000")
    ended = cluster.wait_ends(job, limit_s=END_S)[0]
    assert ended.state == "CANCELLED" and "GPU_IDLE: GPU " in ended.admin_comment
    told = cluster.wait_text(cluster.work / "idle.out", "the job is cancelled")
    assert "has done nothing for 00:00:0" in told
    cluster.fake.put({"gpu.0.util_gpu": 50, "gpu.1.util_gpu": 50})


def test_the_owner_of_an_allocation_is_told_why(cluster: Care) -> None:
    salloc = cluster.popen("salloc", "--gres=gpu:1", "sleep", "1000")
    job_id = cluster.wait(
        lambda: next((job.job_id for job in cluster.jobs(states=["RUNNING"])), 0),
        "the allocation is there",
        show=lambda: (shown(cluster.jobs()[-1]), [(gpu.state, gpu.reason) for gpu in cluster.node("n1").gpus]),
    )
    srun = cluster.popen("srun", f"--jobid={job_id}", "sleep", "1000")  # not salloc's child, which salloc would end
    cluster.wait(lambda: cluster.held_steps("n1"), "its step runs")
    number = cluster.number_of(job_id)
    cluster.xid(number, 62)
    said = salloc.communicate(timeout=ANSWER_S)[1].decode()
    cause = f"GPU_ERROR: XID 62 on {cluster.fake.uuid(number)}"
    of_step = srun.communicate(timeout=ANSWER_S)[1].decode()
    assert f"DUE TO {cause} ***" in of_step, of_step
    assert f"Job allocation {job_id} has been revoked: {cause}" in said, said
