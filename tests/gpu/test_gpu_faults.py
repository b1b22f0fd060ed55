"""GPUs that fail under real daemons and real jobs: the GPU, the node, the job and its record. The card is the fake.

Two nodes with two GPUs each, and a fake library for each node. Faults are written into the fakes' states while the
daemons run, as the driver would show them. The judge's rules by themselves are tests/node/test_gpu_policy.py's.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fakenvml import FakeNvml
from livecluster import ClusterConf, LiveCluster, logs_if_failed, shown
from patience import ANSWER_S

from penstock.v1 import controller_pb2 as c

N1, N2 = "n1", "n2"
#: What would take minutes on a card takes a second here.
LIMITS = "slow_s=0.5 hung_s=1.5 kill_s=1 restart_first_s=0.1 restart_most_s=1 retry_s=0.5 return_s=0.5 merge_s=0.05"
FOREVER = "while [ ! -e {gate} ]; do sleep 0.1; done"


class Faulty(LiveCluster):
    """Each node has a fake of its own."""

    def __init__(self, folder: Path, conf: ClusterConf) -> None:
        self.fakes = {
            name: FakeNvml(folder / f"{name}.state", changes=dict(_changes(number)))
            for number, name in enumerate((N1, N2))
        }
        self.log_at: dict[str, int] = {}  # where in each fake's log its present daemon begins
        self.kmsg = {name: folder / f"{name}.kmsg" for name in self.fakes}  # files: read when a daemon starts
        for path in self.kmsg.values():
            path.touch()
        super().__init__(2, conf)

    def start_node(self, name: str, **env: str) -> Any:
        log = self.fakes[name].log
        self.log_at[name] = log.stat().st_size if log.exists() else 0
        fake = {
            **self.fakes[name].env(),
            "PENSTOCK_GPU_LIMITS": LIMITS,
            "PENSTOCK_KMSG": str(self.kmsg[name]),
            "PENSTOCK_GPU_PIDS": "here",
        }
        return super().start_node(name, **{**fake, **env})

    def xid(self, name: str, gpu: int, number: int) -> None:
        """The driver says so, once somebody listens."""
        self.wait_listens(name)
        self.fakes[name].event(gpu, number)

    def wait_listens(self, name: str) -> None:
        """Wait until the node's daemon waits for XIDs: it does so again and again, and has begun with all that follow."""
        log = self.fakes[name].log
        so_far = log.stat().st_size if log.exists() else 0
        self.wait(
            lambda: log.exists() and b"nvmlEventSetWait" in log.read_bytes()[max(so_far, self.log_at[name]) :],
            f"{name} waits for XIDs",
        )

    def gpu(self, name: str, number: int) -> c.GpuInfo:
        """One GPU, by its number in the fake."""
        uuid = self.fakes[name].uuid(number)
        found = [gpu for gpu in self.node(name).gpus if gpu.uuid == uuid]
        assert len(found) == 1, f"{name} knows {[gpu.uuid for gpu in self.node(name).gpus]}, not {uuid}"
        return found[0]

    def states(self, name: str) -> list[tuple[str, str]]:
        return [(gpu.state, gpu.reason) for gpu in self.node(name).gpus]

    def wait_gpu(self, name: str, number: int, state: str, reason: str = "") -> c.GpuInfo:
        """Wait until a GPU is in a state, for that reason."""

        def look() -> c.GpuInfo | None:
            gpu = self.gpu(name, number)
            return gpu if gpu.state == state and reason in gpu.reason else None

        found = self.wait(look, f"GPU {number} of {name} is {state} ({reason})", show=lambda: self.states(name))
        assert found is not None
        return found

    def wait_well(self) -> None:
        """Wait until nothing is wrong with any GPU or node."""
        for name in (N1, N2):
            self.wait(
                lambda name=name: (
                    all(gpu.state == "HEALTHY" for gpu in self.node(name).gpus)  # type: ignore[misc]  # mypy types no default of a lambda
                    and not set(self.node(name).flags) & {"DRAIN", "FAIL"}
                ),
                f"{name} and its GPUs are well",
                show=lambda name=name: (self.states(name), self.node(name).reason, list(self.node(name).flags)),  # type: ignore[misc]  # mypy types no default of a lambda
            )

    def hold(self, *words: str, gpus: int = 1, node: str = "") -> int:
        """A job that runs until it is ended."""
        gate = self.home / "gate"
        where = [f"--nodelist={node}"] if node else []
        return self.sbatch(*words, *where, f"--gres=gpu:{gpus}", "-o", "/dev/null", "--wrap", FOREVER.format(gate=gate))

    def gpu_of(self, job_id: int) -> tuple[str, int]:
        """Where a running job with one GPU is: node, and number of the GPU in its fake."""
        for name, fake in self.fakes.items():
            for gpu in self.node(name).gpus:
                if job_id in gpu.job_ids:
                    return name, [fake.uuid(0), fake.uuid(1)].index(gpu.uuid)
        raise AssertionError(f"job {job_id} has no GPU: {shown(self.job(job_id))}")

    def wait_gpu_of(self, job_id: int) -> tuple[str, int]:
        self.wait_state(job_id, "RUNNING")
        return self.gpu_of(job_id)

    def reboot(self, name: str, number: int) -> None:
        """The node's machine goes down and comes up."""
        self.kill(name)
        self.boot_ids[name] = f"boot-{number}"
        self.start_node(name)
        self.wait_nodes(name)

    def resume(self, name: str, number: int) -> None:
        """As an administrator does: what was held against the GPU is forgotten."""
        uuid = self.fakes[name].uuid(number)
        if self.gpu(name, number).state == "HEALTHY":
            self.run("scontrol", "update", f"nodename={name}", f"gres=gpu:{uuid}", "state=drain", "reason=look").ok()
        self.run("scontrol", "update", f"nodename={name}", f"gres=gpu:{uuid}", "state=resume", "reason=seen").ok()


def _changes(node: int) -> Iterator[tuple[str, object]]:
    """Names of their own for the GPUs of each node."""
    for gpu in (0, 1):
        yield f"gpu.{gpu}.uuid", f"GPU-{node + 1:08x}-0000-0000-0000-{gpu:012x}"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Faulty]:
    conf = ClusterConf(found_gpus=2, cpus=8, more=("PenstockGpuPollSeconds=1", "UnkillableStepTimeout=5"))
    with Faulty(tmp_path_factory.mktemp("fakes"), conf) as cluster:
        yield cluster


@pytest.fixture
def cluster(running: Faulty, request: pytest.FixtureRequest) -> Iterator[Faulty]:
    with logs_if_failed(running, request.session):
        yield running


def test_an_xid_that_no_table_names_is_counted_and_shown(cluster: Faulty) -> None:
    """It is the first report of this GPU, so there was none in the minute before."""
    cluster.xid(N2, 1, 9998)
    cluster.wait(
        lambda: [(one.xid, one.times) for one in cluster.gpu(N2, 1).xids] == [(9998, 1)],
        "the controller knows of the XID",
        show=lambda: str(cluster.gpu(N2, 1)),
    )
    lines = cluster.run("scontrol", "show", "node", N2).ok().out.splitlines()
    (line,) = [line for line in lines if cluster.fakes[N2].uuid(1) in line]
    assert " Health=HEALTHY " in line and line.endswith(" Xids=9998")


def test_a_gpu_that_falls_off_the_bus_is_failed_alone(cluster: Faulty) -> None:
    """Its job runs again on the other node; the job on the other GPU goes on; a reboot brings it back."""
    other = cluster.hold(node=N1)
    hit = cluster.hold("-w", N1, "--requeue")
    name, number = cluster.wait_gpu_of(hit)
    other_name, other_number = cluster.wait_gpu_of(other)
    assert (name, other_name, {number, other_number}) == (N1, N1, {0, 1})
    cluster.run("scontrol", "update", f"jobid={hit}", "nodelist=")  # may run elsewhere
    fake = cluster.fakes[N1]
    fake.put({f"gpu.{number}.lost": 1})
    cluster.xid(N1, number, 79)
    cluster.wait_gpu(N1, number, "FAILED")
    cluster.wait(
        lambda: cluster.job(hit).admin_comment, "the job's record has the cause", show=lambda: shown(cluster.job(hit))
    )
    assert "GPU_ERROR: " in cluster.job(hit).admin_comment and fake.uuid(number) in cluster.job(hit).admin_comment
    assert cluster.gpu(N1, other_number).state == "HEALTHY"
    assert cluster.job(other).state == "RUNNING" and not cluster.job(other).admin_comment
    assert not set(cluster.node(N1).flags) & {"DRAIN"}
    wants_two = cluster.hold(gpus=2, node=N1)
    cluster.wait(
        lambda: cluster.job(wants_two).reason,
        "the job that wants both waits",
        show=lambda: shown(cluster.job(wants_two)),
    )
    assert cluster.job(wants_two).state == "PENDING"
    cluster.clean()
    fake.put({f"gpu.{number}.lost": None})
    cluster.reboot(N1, 2)
    cluster.wait_well()


def test_a_contained_error_marks_its_job(cluster: Faulty) -> None:
    gate = cluster.home / "end-1"
    job = cluster.sbatch(
        "--no-requeue", "--gres=gpu:1", "-o", "/dev/null", "--wrap", f"while [ ! -e {gate} ]; do sleep 0.1; done"
    )
    name, number = cluster.wait_gpu_of(job)
    cluster.xid(name, number, 94)
    cause = f"GPU_ERROR: XID 94 on {cluster.fakes[name].uuid(number)}"
    cluster.wait(
        lambda: cause in cluster.job(job).admin_comment, "the job is marked", show=lambda: shown(cluster.job(job))
    )
    assert cluster.job(job).state == "RUNNING" and cluster.gpu(name, number).state == "HEALTHY"
    gate.touch()
    assert [job.state for job in cluster.wait_ends(job)] == ["FAILED"]


def test_a_program_that_fails_with_its_gpu_is_known_to_have_been_failed_by_it(cluster: Faulty) -> None:
    """It ends in the moment of the XID, before anybody has heard of that; it runs again, and not there."""
    fake, other = cluster.fakes[N1], cluster.fakes[N2]
    state, begun = fake.path, cluster.home / "begun"
    event = fake.next_event()
    other.next_event()
    breaks = f"cp {state} {state}.new; echo {event}=$1,8,119,-1,-1 >> {state}.new; mv {state}.new {state}; exit 1"
    script = f"#!/bin/sh\n[ -e {begun} ] && exit 0\ntouch {begun}\nset -- 0\n"
    script += f"[ $SLURM_JOB_GPUS = {cluster.gpu(N1, 0).index} ] || set -- 1\n{breaks}\n"
    path = cluster.home / "breaks.sh"
    path.write_text(script)
    cluster.run("scontrol", "update", f"nodename={N2}", "state=drain", "reason=not yet").ok()
    cluster.wait_listens(N1)
    job = cluster.sbatch("--requeue", "--gres=gpu:1", "-o", "/dev/null", str(path))
    cluster.wait(lambda: cluster.job(job).attempt == 1, "it is to run again", show=lambda: shown(cluster.job(job)))
    assert cluster.job(job).admin_comment.startswith("GPU_ERROR: XID 119 on GPU-")
    assert cluster.job(job).state == "PENDING"
    cluster.run("scontrol", "update", f"nodename={N2}", "state=resume").ok()
    assert [job.state for job in cluster.wait_ends(job)] == ["COMPLETED"]
    for number in (0, 1):
        cluster.resume(N1, number)
    cluster.wait_well()


def test_an_error_of_the_program_is_noted(cluster: Faulty) -> None:
    job = cluster.hold()
    name, number = cluster.wait_gpu_of(job)
    cluster.xid(name, number, 31)
    cause = f"XID 31 on {cluster.fakes[name].uuid(number)}"
    cluster.wait(
        lambda: cause in cluster.job(job).admin_comment, "the job has heard", show=lambda: shown(cluster.job(job))
    )
    assert "GPU_ERROR" not in cluster.job(job).admin_comment and cluster.gpu(name, number).state == "HEALTHY"


@pytest.mark.parametrize(
    ("fault", "state", "reason"),
    [
        ({"field.230": 1}, "DRAINED", "recovery action 1"),
        ({"error": 16}, "DRAINED", "reset required"),
        ({"remap_pending": 1}, "DRAINED", "row remap pending"),
        ({"temp": 99}, "SUSPECT", "temperature 99 C"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_goes_by_itself(cluster: Faulty, fault: dict[str, object], state: str, reason: str) -> None:
    fake = cluster.fakes[N2]
    before = {key: fake.keys.get(f"gpu.0.{key}") for key in fault}
    fake.put({f"gpu.0.{key}": value for key, value in fault.items()})
    cluster.wait_gpu(N2, 0, state, reason)
    assert cluster.gpu(N2, 1).state == "HEALTHY" and "DRAIN" not in cluster.node(N2).flags
    fake.put({f"gpu.0.{key}": value for key, value in before.items()})
    cluster.wait_gpu(N2, 0, "HEALTHY")
    cluster.resume(N2, 0)  # the next fault is not one too many for a day


def test_a_driver_that_wants_a_reboot_drains_the_node(cluster: Faulty) -> None:
    fake = cluster.fakes[N2]
    fake.put({"gpu.0.field.230": 2})
    cluster.wait_gpu(N2, 0, "DRAINED", "recovery action 2")
    cluster.wait(lambda: "DRAIN" in cluster.node(N2).flags, "the node is drained")
    assert "recovery action 2 (reboot)" in cluster.node(N2).reason
    fake.put({"gpu.0.field.230": 0})
    cluster.reboot(N2, 2)
    cluster.wait_well()


def test_a_hang_is_named_and_drains_the_node_until_it_answers(cluster: Faulty) -> None:
    """What runs goes on; nothing new starts."""
    job = cluster.hold(node=N2)
    name, number = cluster.wait_gpu_of(job)
    fake = cluster.fakes[name]
    fake.put({f"gpu.{1 - number}.hang": 1})
    cluster.wait_gpu(name, 1 - number, "UNRESPONSIVE", "NVML hung in nvml")
    cluster.wait(
        lambda: "DRAIN" in cluster.node(name).flags, "the node is drained", show=lambda: cluster.node(name).reason
    )
    assert cluster.node(name).reason.startswith("NVML hung in nvml")
    assert cluster.job(job).state == "RUNNING" and cluster.gpu(name, number).state == "HEALTHY"
    fake.put({f"gpu.{1 - number}.hang": None})
    cluster.wait_well()
    assert cluster.job(job).state == "RUNNING"
    cluster.resume(name, 1 - number)


def test_flapping_ends_after_three_times_a_day(cluster: Faulty) -> None:
    fake = cluster.fakes[N2]
    for _ in range(3):
        fake.put({"gpu.1.remap_pending": 1})
        cluster.wait_gpu(N2, 1, "DRAINED", "row remap pending")
        fake.put({"gpu.1.remap_pending": 0})
        cluster.wait_gpu(N2, 1, "HEALTHY")
    fake.put({"gpu.1.remap_pending": 1})
    cluster.wait_gpu(N2, 1, "DRAINED", "row remap pending")
    fake.put({"gpu.1.remap_pending": 0})
    fake.put({"gpu.0.temp": 99})  # two more polls are seen by this
    cluster.wait_gpu(N2, 0, "SUSPECT")
    fake.put({"gpu.0.temp": 40})
    cluster.wait_gpu(N2, 0, "HEALTHY")
    assert cluster.gpu(N2, 1).state == "DRAINED"
    cluster.resume(N2, 1)
    cluster.wait_well()


def test_a_new_driver_under_the_daemon_drains_the_node_until_it_answers(cluster: Faulty) -> None:
    fake = cluster.fakes[N2]
    calls = ("fn.nvmlInitWithFlags", "fn.nvmlDeviceGetCount_v2")
    fake.put(dict.fromkeys(calls, 18))
    cluster.wait_gpu(N2, 0, "FAILED", "NVML does not answer")
    cluster.wait_gpu(N2, 1, "FAILED", "NVML does not answer")
    cluster.wait(lambda: "DRAIN" in cluster.node(N2).flags, "the node is drained")
    fake.put(dict.fromkeys(calls))
    cluster.wait_well()
    for number in (0, 1):
        cluster.resume(N2, number)


def test_a_record_follows_its_gpu_when_a_reboot_changes_the_order(cluster: Faulty) -> None:
    fake = cluster.fakes[N2]
    fake.put({"gpu.0.remap_failure": 1})
    cluster.wait_gpu(N2, 0, "FAILED", "RMA")
    keys = ("busid", "minor")
    swapped = {f"gpu.{1 - gpu}.{key}": fake.keys[f"gpu.{gpu}.{key}"] for gpu in (0, 1) for key in keys}
    indexes = [cluster.gpu(N2, number).index for number in (0, 1)]
    fake.put({**swapped, "gpu.0.remap_failure": 0})
    cluster.reboot(N2, 3)
    assert [cluster.gpu(N2, number).index for number in (0, 1)] == indexes[::-1]
    cluster.wait_gpu(N2, 0, "FAILED", "RMA")
    assert cluster.gpu(N2, 1).state == "HEALTHY"
    cluster.resume(N2, 0)
    cluster.wait_well()


def test_a_daemon_that_is_killed_remembers_who_has_which_gpu(cluster: Faulty) -> None:
    job = cluster.hold("--requeue", node=N1)
    name, number = cluster.wait_gpu_of(job)
    cluster.kill(name)
    cluster.start_node(name)
    cluster.wait_nodes(name)
    cluster.xid(name, number, 31)
    cause = f"XID 31 on {cluster.fakes[name].uuid(number)}"
    cluster.wait(
        lambda: cause in cluster.job(job).admin_comment, "the job has heard", show=lambda: shown(cluster.job(job))
    )
    assert cluster.job(job).state == "RUNNING"


def test_an_xid_that_comes_while_the_daemon_is_down_is_not_lost(cluster: Faulty) -> None:
    """It is read from the kernel's log at the next start, and at that one only."""
    job = cluster.hold(node=N1)
    name, number = cluster.wait_gpu_of(job)
    uuid, bus = cluster.fakes[name].uuid(number), cluster.fakes[name].keys[f"gpu.{number}.busid"]
    at_us = int(float(Path("/proc/uptime").read_text().split()[0]) * 1e6)

    def restart(heard: str) -> None:
        cluster.start_node(name)
        cluster.wait_nodes(name)
        cluster.wait(
            lambda: f"{heard} on {uuid}" in cluster.job(job).admin_comment,
            f"the job has heard of {heard}",
            show=lambda: shown(cluster.job(job)),
        )

    cluster.kill(name)
    with cluster.kmsg[name].open("a") as log:
        log.write(f"6,1,{at_us},-;NVRM: Xid (PCI:{bus}): 43, pid=4242, name=python, Ch 00000008\n")
    restart("XID 43")
    cluster.kill(name)
    with cluster.kmsg[name].open("a") as log:
        log.write(f"6,2,{at_us},-;NVRM: Xid (PCI:{bus}): 45, pid=4242, name=python, Ch 00000008\n")
    restart("XID 45")
    kept = json.loads((cluster.home / "noded" / name / "gpu-health.json").read_bytes())
    assert {xid: kept["records"][uuid]["counted"][xid] for xid in ("43", "45")} == {"43": 1, "45": 1}
    assert kept["log_read"] == 2 and cluster.job(job).state == "RUNNING"
    cluster.kmsg[name].write_text("")


def test_what_a_job_left_on_a_gpu_is_killed_and_the_gpu_drained_until_then(cluster: Faulty) -> None:
    """A process in another group and session, which only its environment still names: the job's user has left it."""
    job = cluster.hold(node=N1)
    name, number = cluster.wait_gpu_of(job)
    fake = cluster.fakes[name]
    env = {**os.environ, "SLURM_JOB_ID": str(job)}
    left = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], env=env, start_new_session=True)
    try:
        fake.put({f"gpu.{number}.proc.0": f"{left.pid},{5 << 30},C,0,40"})
        cluster.run("scancel", str(job)).ok()
        assert left.wait(ANSWER_S) == -signal.SIGKILL
        cluster.wait_gpu(name, number, "DRAINED", f"pid {left.pid}, which does not exist")
        fake.put({f"gpu.{number}.proc.0": None})
        cluster.wait_well()
    finally:
        left.kill()
        left.wait()
        fake.put({f"gpu.{number}.proc.0": None})


def test_a_launch_in_the_moment_of_a_hang_costs_no_job(cluster: Faulty) -> None:
    """A launch asks nothing of NVML: the job starts, or waits until the driver answers; it ends well either way."""
    for name in (N1, N2):
        cluster.fakes[name].put({"gpu.0.hang": 1})
    jobs = [cluster.sbatch("--gres=gpu:2", "-o", "/dev/null", "--wrap", "true") for _ in range(2)]
    for name in (N1, N2):
        cluster.wait_gpu(name, 0, "UNRESPONSIVE", "NVML hung")
    late = cluster.sbatch("--gres=gpu:1", "-o", "/dev/null", "--wrap", "true")
    for name in (N1, N2):
        cluster.fakes[name].put({"gpu.0.hang": None})
    assert [job.state for job in cluster.wait_ends(*jobs, late)] == ["COMPLETED"] * 3
    cluster.wait_well()


def test_nothing_is_ever_set_on_a_card(cluster: Faulty) -> None:
    """Also after all of the above: this is the last test of the file."""
    for name in (N1, N2):
        assert cluster.fakes[name].set_calls() == []
