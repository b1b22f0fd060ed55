"""What tasks use: the arithmetic on made-up processes, and a real node daemon that samples."""

import asyncio
import os
import resource
from types import SimpleNamespace

import pytest

from nodedaemon.base import proctree
from nodedaemon.base.orders import LaunchOrder, TaskOrder
from nodedaemon.stepd import sampling
from penstock.v1 import node_pb2
from penstock.values.stepframes import NO_TASK, FrameKind, StreamRole
from tests.node.fakectl import cluster
from tests.node.test_steps import attach, finished

MB_KB = 1024
PATH = os.environ["PATH"].encode()
FIELDS = 22


def order(**fields) -> LaunchOrder:
    given = {"user_id": 0, "group_id": 0, "user_name": "u", "script": b"", "work_dir": b"/", "std_out": b""}
    return LaunchOrder(key="7.1.0", **given, **fields)


class Process:
    """A line of /proc/PID/stat."""

    def __init__(self, pid, ppid=1, pgrp=0, session=0, ticks=0, faults=0, rss_kb=0, vsize_kb=0, disk=(0, 0)):
        fields = [b"0"] * FIELDS
        fields[0], fields[1], fields[2], fields[3] = b"S", b"%d" % ppid, b"%d" % pgrp, b"%d" % session
        fields[9], fields[11], fields[19] = b"%d" % faults, b"%d" % ticks, b"%d" % (pid + 1000)
        fields[20], fields[21] = b"%d" % (vsize_kb * 1024), b"%d" % (rss_kb // sampling.PAGE_KB)
        self.pid, self.fields, self.disk = pid, fields, disk


class FakeStep:
    """As much of a supervisor as a sampler sees."""

    def __init__(self):
        self.groups = self
        self.processes: dict[int, Process] = {}
        self.counted: dict[int, tuple[int, int]] = {}

    def members(self):
        return list(self.processes)

    def usage(self, rank):
        return self.counted.get(rank)


def a_task(rank, pid):
    """As much of a task as a sampler sees."""
    return SimpleNamespace(rank=rank, pid=pid)


@pytest.fixture
def step(monkeypatch):
    step = FakeStep()
    monkeypatch.setattr(
        proctree, "stat_fields", lambda pid: step.processes[pid].fields if pid in step.processes else None
    )
    monkeypatch.setattr(sampling, "io_bytes", lambda pid: (*step.processes[pid].disk, 0, 0))
    return step


def sampler_of(step, *pids, **fields):
    found = sampling.Sampler(order(kind="step", tasks=[TaskOrder(rank) for rank in range(len(pids))], **fields))
    found.open(step)
    for rank, pid in enumerate(pids):
        found.forked(a_task(rank, pid))
    return found


def put(step, *processes):
    step.processes = {process.pid: process for process in processes}


def figures(sampler):
    return {metric[0]: metric[1:] for metric in sampler.metrics()}


def test_sums_and_extremes_over_tasks(step):
    sampler = sampler_of(step, 10, 20)
    put(
        step,
        Process(10, ticks=100, rss_kb=8000, vsize_kb=9000, faults=2, disk=(512, 1024)),
        Process(11, ppid=10, ticks=50, rss_kb=400, vsize_kb=500),
        Process(20, ticks=300, rss_kb=2000, vsize_kb=90000),
    )
    sampler.sample()
    assert figures(sampler) == {
        sampling.CPU_MS: [4500, 3000, 1, 1500, 0],
        sampling.RSS_KB: [10400, 8400, 0, 2000, 1],
        sampling.VMSIZE_KB: [99500, 90000, 1, 9500, 0],
        sampling.PAGE_FAULTS: [2, 2, 0, 0, 1],
        sampling.READ_BYTES: [512, 512, 0, 0, 1],
        sampling.WRITE_BYTES: [1024, 1024, 0, 0, 1],
    }


def test_peaks_stay_and_times_go_on_when_processes_end(step):
    sampler = sampler_of(step, 10)
    put(step, Process(10, ticks=100, rss_kb=8000), Process(11, ppid=10, ticks=50, rss_kb=8000))
    sampler.sample()
    put(step, Process(10, ticks=200, rss_kb=4000))
    sampler.sample()
    assert figures(sampler)[sampling.RSS_KB][0] == 16000
    assert figures(sampler)[sampling.CPU_MS][0] == 2000
    used = resource.struct_rusage((2.5, 0.5, 999_999, 0, 0, 0, 0, 7, 0, 8, 16, 0, 0, 0, 0, 0))
    sampler.reaped(10, used)
    put(step)
    assert figures(sampler)[sampling.CPU_MS][0] == 3000
    assert figures(sampler)[sampling.RSS_KB][0] == 999_999
    assert figures(sampler)[sampling.PAGE_FAULTS][0] == 7
    assert (figures(sampler)[sampling.READ_BYTES][0], figures(sampler)[sampling.WRITE_BYTES][0]) == (4096, 8192)
    assert sampler.close()["measured"] == 1


def test_whose_a_process_is(step):
    """By parent, by group, by session, by what was seen before; else the first task's."""
    sampler = sampler_of(step, 10, 20)
    put(step, Process(10), Process(20), Process(21, ppid=20, ticks=100))
    sampler.sample()
    put(
        step,
        Process(10),
        Process(20),
        Process(21, ppid=1, ticks=100),  # its parent has died
        Process(22, ppid=21, ticks=100),
        Process(23, ppid=1, pgrp=20, ticks=100),
        Process(24, ppid=1, session=20, ticks=100),
        Process(25, ppid=1, ticks=100),
    )
    sampler.sample()
    assert figures(sampler)[sampling.CPU_MS] == [5000, 4000, 1, 1000, 0]


def test_groups_know_better(step):
    sampler = sampler_of(step, 10)
    put(step, Process(10, ticks=100, rss_kb=8000))
    step.counted[0] = (9_000_000, 5000)
    sampler.sample()
    assert figures(sampler)[sampling.CPU_MS][0] == 9000
    assert figures(sampler)[sampling.RSS_KB][0] == 8000  # a peak of /proc stays one


def test_a_plain_batch_script_records_nothing_new(step):
    sampler = sampling.Sampler(order(kind="batch"))
    sampler.open(step)
    sampler.forked(a_task(0, 10))
    sampler.reaped(10, resource.getrusage(resource.RUSAGE_CHILDREN))
    assert sampler.close() == {}


def test_a_batch_script_that_is_not_sampled_has_no_sampler():
    assert sampling.make(order(kind="batch")) is None
    assert sampling.make(order(kind="batch", sample_every_s=30)) is not None
    assert sampling.make(order(kind="extern", sample_every_s=30)) is None


def test_who_asks_late_hears_of_what_has_ended_before(step):
    sampler = sampling.Sampler(order(kind="batch"))
    sampler.open(step)
    sampler.forked(a_task(0, 10))
    sampler.count_before(1.5, 2, 4)
    put(step, Process(10, ticks=100, rss_kb=8000))
    sampler.sample()
    assert figures(sampler)[sampling.CPU_MS][0] == 2500
    assert figures(sampler)[sampling.WRITE_BYTES][0] == 4 * 512


#: Each task takes a different piece of memory, writes a file, and waits to be told to end.
WORK = (
    "import os, time\n"
    "x = bytearray((20 + 20 * int(os.environ['SLURM_PROCID'])) << 20)\n"
    "t = time.process_time()\n"
    "while time.process_time() < t + 0.2: pass\n"
    "print('ready', flush=True)\n"
    "input()\n"
)


@pytest.mark.parametrize("gather", ["jobacct_gather/linux", "jobacct_gather/cgroup"])
def test_a_real_step_is_asked_and_recorded(tmp_path, gather):
    settings = node_pb2.NodeSettings(acct_gather_type=gather, acct_gather_frequency_s=1)

    async def scenario():
        async with cluster(tmp_path, settings=settings) as (controller, _):
            spec = {"stdin_to": 1}
            controller.launch_step(3, ["python3", "-c", WORK], ranks=(0, 1, 2), spec=spec, env=[b"PATH=" + PATH])
            client = await attach(controller, 3)
            for rank in range(3):
                await asyncio.to_thread(client.until_output, b"ready", rank)
            for_uid = await attach(controller, 3, StreamRole.QUERY)
            said = await asyncio.to_thread(for_uid.ask, "usage")
            assert said["tasks"] == 3
            live = {metric[0]: metric[1:] for metric in said["metrics"]}
            assert live[sampling.RSS_KB][2] == 2 and live[sampling.RSS_KB][1] > 60 * MB_KB
            assert live[sampling.RSS_KB][4] == 0
            assert live[sampling.CPU_MS][0] >= 600
            for_uid.close()
            client.send(FrameKind.STDIN, b"\n", NO_TASK)
            await finished(client)
            usage = (await controller.exited(3)).usage
            assert usage.tasks == 3
            kinds = {metric.kind: metric for metric in usage.metrics}
            assert set(kinds) == set(range(1, 7))
            assert kinds[sampling.RSS_KB].max_task == 2 and kinds[sampling.RSS_KB].max > 60 * MB_KB
            assert kinds[sampling.CPU_MS].total >= live[sampling.CPU_MS][0]
            assert usage.max_vmsize_kb >= kinds[sampling.VMSIZE_KB].max > 0

    asyncio.run(scenario())
