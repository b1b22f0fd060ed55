"""What a node daemon holds its jobs to, with real processes; and what it does about those that do not end."""

import asyncio
import contextlib
import os
import sys
from pathlib import Path

import pytest
from processlimit import process_limit

from nodedaemon.base import proctree
from nodedaemon.base.kernelfiles import read_text
from nodedaemon.base.orders import LaunchOrder
from nodedaemon.base.topology_info import flat
from nodedaemon.cgroups import find as cgroup_find
from nodedaemon.daemon.supervisors import NO_SUPERVISOR
from nodedaemon.launch import containment
from nodedaemon.launch.site import Site
from penstock.v1 import common_pb2, node_pb2
from tests.node.fakectl import cluster, eventually, lines, make_launch
from tests.node.test_steps import run_step

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
PYTHON = sys.executable


def run(coroutine):
    return asyncio.run(coroutine)


def site(**cgroup_fields) -> Site:
    found = Site(flat(4))
    found.total_memory_mb = 1000
    settings = node_pb2.NodeSettings(cgroup=node_pb2.CgroupSettings(**cgroup_fields), task_plugin="task/affinity")
    settings.devices.add(name="gpu", index=0, file="/dev/gpu0")
    settings.devices.add(name="gpu", index=1, file="/dev/gpu1")
    settings.devices.add(name="fpga", index=0, file="/dev/fpga0")
    found.take(settings)
    return found


def contained(site: Site, mem_mb=100, cpu_ids=b"\x03", job=None, gres=(), step=None, **own) -> LaunchOrder:
    part = common_pb2.NodeAllocation(node="n1", cpus=1, mem_mb=mem_mb, cpu_ids=cpu_ids)
    for name, index, units in gres:
        part.gres.add(name=name, index=[index], units=units)
    message = make_launch(1, "true", allocation=part, **own)
    if job is not None:
        message.job_allocation.CopyFrom(job)
    order = LaunchOrder(
        key="1.1.-5", user_id=0, group_id=0, user_name="u", script=b"", work_dir=b"/", std_out=b"", node_name="n1"
    )
    containment.contain(order, message, site)
    return order


# -- what an order says


def test_by_default_only_cpus_are_said():
    order = contained(site())
    plain = vars(LaunchOrder(key="1.1.-5", user_id=0, group_id=0, user_name="u"))
    changed = {name: value for name, value in vars(order).items() if plain.get(name) != value}
    for name in ("key", "script", "work_dir", "std_out", "node_name"):
        changed.pop(name, None)
    assert changed == {"cpu_ids": [0, 1]}


def test_a_job_says_how_often_it_is_sampled_and_how_it_dies():
    where = site()
    where.settings.acct_gather_type, where.settings.acct_gather_frequency_s = "jobacct_gather/linux", 30
    assert [contained(where).sample_every_s, contained(where).oom_group] == [30, True]
    assert contained(where, acct_gather_frequency_s=0).sample_every_s == 0
    assert contained(where, acct_gather_frequency_s=5).sample_every_s == 5
    assert contained(where).profile_every_s == 0
    where.settings.profile_every_s = 15
    profiles: tuple[dict[str, int], ...] = (
        {},
        {"acct_gather_frequency_s": 5},
        {"acct_gather_frequency_s": 0},
        {"no_profile": True},
    )
    assert [contained(where, **more).profile_every_s for more in profiles] == [30, 5, 0, 0]
    where.settings.acct_gather_type = ""  # the samples are for profiles alone
    assert [contained(where, **more).profile_every_s for more in profiles] == [15, 5, 0, 0]
    assert contained(where).sample_every_s == 0
    assert [contained(where, oom_kill_step=value).oom_group for value in (False, True)] == [False, True]


@pytest.mark.parametrize(
    ("fields", "given_mb", "limit_mb"),
    [
        ({}, 100, 100),
        ({"allowed_ram_percent": 90}, 100, 90),
        ({"allowed_ram_percent": 120}, 100, 120),
        ({"min_ram_mb": 64}, 10, 64),
        ({"max_ram_percent": 5}, 100, 50),
        ({}, 0, 0),  # memory is not handed out here
    ],
)
def test_limits_of_memory(fields, given_mb, limit_mb):
    assert contained(site(constrain_ram=True, **fields), given_mb).memory_limit_mb == limit_mb
    assert contained(site(**fields), given_mb).memory_limit_mb == 0


@pytest.mark.parametrize(
    ("fields", "swap_mb"),
    [
        ({"constrain_swap": True}, 0),
        ({"constrain_swap": True, "allowed_swap_percent": 50}, 50),
        ({"constrain_swap": True, "allowed_swap_percent": 50, "max_swap_percent": 2}, 20),
        ({}, -1),
    ],
)
def test_limits_of_swap(fields, swap_mb):
    assert contained(site(constrain_ram=True, **fields)).swap_limit_mb == swap_mb


def test_a_step_has_less_than_its_job():
    job = common_pb2.NodeAllocation(node="n1", cpus=3, mem_mb=300, cpu_ids=b"\x07")
    job.gres.add(name="gpu", index=[0, 1])
    order = contained(
        site(constrain_ram=True, constrain_cores=True, constrain_devices=True), job=job, gres=[("gpu", 1, [])]
    )
    assert (order.memory_limit_mb, order.job_memory_limit_mb) == (100, 300)
    assert (order.cpu_ids, order.job_cpu_ids) == ([0, 1], [0, 1, 2])
    assert (order.denied_devices, order.job_denied_devices) == (["/dev/fpga0", "/dev/gpu0"], ["/dev/fpga0"])


def test_a_share_of_a_gpu_is_the_gpus_file():
    order = contained(site(constrain_devices=True), gres=[("shard", 1, [3])])
    assert order.denied_devices == ["/dev/fpga0", "/dev/gpu0"]


def test_cpus_that_are_not_here_bind_nobody():
    assert contained(site(constrain_cores=True), cpu_ids=b"\xff").cpu_ids == []
    assert contained(Site(), cpu_ids=b"\x01").cpu_ids == []


def test_what_cannot_be_obeyed_is_said():
    lines = site(constrain_ram=True, pids_max=5, plugin="cgroup/v2").lacks()
    assert lines == [
        "CgroupPlugin=cgroup/v2: this node has none control groups",
        "ConstrainRAMSpace: no writable control group for it; it is not enforced",
        "PenstockMaxPidsPerJob: no writable control group for it; it is not enforced",
    ]


# -- with real processes


def settings(**cgroup_fields) -> node_pb2.NodeSettings:
    groups = node_pb2.CgroupSettings(**cgroup_fields)
    return node_pb2.NodeSettings(cgroup=groups, task_plugin="task/affinity", kill_wait_s=1)


def needs(tmp_path: Path, *controllers: str) -> None:
    found = cgroup_find.detect("look", str(tmp_path))
    cgroup_find.remove_subtree(found)
    if found.kind != "v1" or not all(found.can(controller) for controller in controllers):
        pytest.skip(f"no v1 control groups of {controllers}")


@pytest.mark.root
@as_root
def test_a_job_in_its_place(tmp_path):
    """All kinds of limits at once, seen from inside; nothing is left behind."""
    needs(tmp_path, "memory", "cpuset", "pids", "devices")
    cpu = min(os.sched_getaffinity(0))
    fields = {"constrain_cores": True, "constrain_ram": True, "constrain_devices": True, "pids_max": 60}

    async def scenario():
        async with cluster(tmp_path, "--cpus=", settings=settings(**fields)) as (controller, daemon):
            part = common_pb2.NodeAllocation(node="n1", cpus=1, mem_mb=64, cpu_ids=b"\x01")
            out = tmp_path / "out"
            script = f"cat /proc/self/cgroup; grep Cpus_allowed_list /proc/self/status > {out}.cpus"
            controller.launch(1, script, allocation=part, std_out=str(out).encode())
            await controller.exited(1)
            for controllers in ("memory", "cpuset", "pids"):
                assert any(f":{controllers}:" in line and line.endswith("/1.1/-5") for line in lines(out)), controllers
            assert any(":freezer:" in line and line.endswith("/1.1.-5") for line in lines(out))
            assert read_text(f"{out}.cpus").split()[1] == str(cpu)
            found = cgroup_find.detect("n1", str(daemon.spool))
            await eventually(lambda: found.leftovers() == [])

    run(scenario())


@pytest.mark.root
@as_root
def test_a_child_that_eats_too_much_is_the_jobs_end(tmp_path):
    """The script itself goes on and ends well; the job is OUT_OF_MEMORY all the same."""
    needs(tmp_path, "memory")

    async def scenario():
        async with cluster(tmp_path, settings=settings(constrain_ram=True)) as (controller, _):
            part = common_pb2.NodeAllocation(node="n1", cpus=1, mem_mb=40)
            eat = f"{PYTHON} -c 'x = b\"x\" * (200 << 20)'"
            controller.launch(1, f"{eat}; exit 0", allocation=part, work_dir=str(tmp_path).encode())
            end = await controller.exited(1)
            assert (end.out_of_memory, end.exit.code, end.exit.signal) == (True, 0, 125)
            fields = {"allocation": part, "ranks": (0, 1), "env": [b"PATH=" + os.environ["PATH"].encode()]}
            await run_step(controller, 2, ["sh", "-c", f"[ $SLURM_PROCID = 0 ] || {eat}"], **fields)
            end = await controller.exited(2)
            assert (end.out_of_memory, end.exit.code, end.exit.signal) == (True, 0, 125)
            controller.launch(3, "true", allocation=part, work_dir=str(tmp_path).encode())
            assert not (await controller.exited(3)).out_of_memory

    run(scenario())


BOMB = f"""#!{PYTHON}
import os
open("begun", "w").close()
while True:
    try:
        os.fork()
    except OSError:
        pass
"""


@pytest.mark.root
@as_root
def test_a_fork_bomb_is_cancelled_like_any_job(tmp_path):
    needs(tmp_path, "pids")

    async def scenario():
        async with cluster(tmp_path, settings=settings(pids_max=50)) as (controller, daemon):
            controller.launch(1, BOMB, work_dir=str(tmp_path).encode())
            await controller.started(1)
            await eventually(lambda: (tmp_path / "begun").exists())
            controller.launch(2, "exit 3", work_dir=str(tmp_path).encode())
            assert (await controller.exited(2)).exit.code == 3  # the daemon and other jobs go on
            controller.terminate(1, grace_ms=0)
            assert (await controller.exited(1)).exit.signal in (9, 15)
            found = cgroup_find.detect("n1", str(daemon.spool))
            await eventually(lambda: found.leftovers() == [])

    run(scenario())


ESCAPE = f"""#!{PYTHON}
import os, sys
for _ in range(2):
    if os.fork():
        os._exit(0) if _ else os.wait()
        os._exit(0)
    os.setsid()
open("escaped", "w").write(str(os.getpid()))
os.execve(sys.executable, [sys.executable, "-c", "import time; time.sleep(1000)"], {{}})
"""


@pytest.mark.parametrize("groups", ["auto", "off"])
def test_nothing_that_a_job_leaves_survives_it(tmp_path, groups):
    """setsid, double fork, an empty environment: held by the group, and without groups by stepd as sub-reaper."""

    async def scenario():
        async with cluster(tmp_path, "--cgroup", groups) as (controller, _):
            controller.launch(1, ESCAPE, work_dir=str(tmp_path).encode())
            await controller.exited(1)
            escaped = tmp_path / "escaped"
            if escaped.exists() and (pid := escaped.read_text()):
                assert not os.path.exists(f"/proc/{pid}")

    run(scenario())


@pytest.mark.root
@as_root
def test_a_process_that_cannot_be_killed_drains_its_node_until_it_ends(tmp_path):
    """A frozen process does not die by SIGKILL: as one in D state."""
    needs(tmp_path)
    program = tmp_path / "unkillable.sh"
    program.write_text(f"#!/bin/sh\necho $SLURM_JOB_ID $SLURM_STEP_ID $SLURMD_NODENAME > {tmp_path}/told\n")
    program.chmod(0o755)
    said = node_pb2.NodeSettings(unkillable_step_program=str(program))

    async def scenario():
        async with cluster(tmp_path, settings=said, unkillable_s=1) as (controller, daemon):
            controller.launch(1, "sleep 1000", work_dir=str(tmp_path).encode())
            start = await controller.started(1)
            found = cgroup_find.detect("n1", str(daemon.spool))
            stuck = Path(f"{found.trees[0].path}/1.1.-5/stuck")
            stuck.mkdir()
            (stuck / "cgroup.procs").write_text(str(start.pid))
            (stuck / "freezer.state").write_text("FROZEN")
            controller.terminate(1, grace_ms=0)
            await controller.until(lambda: len(controller.notices()) == 1)
            notice = controller.notices()[0]
            assert (notice.reason, notice.drain, notice.clear) == ("Kill task failed", True, False)
            assert notice.key.job_id == 1
            await eventually(lambda: lines(tmp_path / "told") == ["1 batch n1"])
            assert controller.exits(1) == []
            (stuck / "freezer.state").write_text("THAWED")
            assert (await controller.exited(1)).exit.signal == 9
            await controller.until(lambda: len(controller.notices()) == 2)
            over = controller.notices()[1]
            assert (over.reason, over.drain, over.clear) == ("Kill task failed", True, True)
            await eventually(lambda: found.leftovers() == [])

    run(scenario())


@contextlib.asynccontextmanager
async def limited(tmp_path):
    """A node daemon whose group may be filled, as a full process table; its controller, and the group."""
    with process_limit(tmp_path) as table:
        async with cluster(tmp_path) as (controller, daemon):
            table.take(daemon.process.pid)
            try:
                yield controller, table
            finally:
                table.free()


@pytest.mark.root
@as_root
def test_without_room_for_a_process_the_launch_fails_cleanly(tmp_path):
    """No task can be started, or, if that of the first step is still busy, no supervisor for it."""

    async def scenario():
        async with limited(tmp_path) as (controller, table):
            controller.launch(1, "true", work_dir=str(tmp_path).encode())
            assert (await controller.exited(1)).exit.code == 0
            table.fill()
            controller.launch(2, "echo ran > ran", work_dir=str(tmp_path).encode())
            end = await controller.exited(2)
            assert (end.start_at_us, end.untried) == (0, True)
            assert end.failure in ("cannot start a process: Resource temporarily unavailable", NO_SUPERVISOR)
            await controller.until(lambda: len(controller.notices()) == 1)
            notice = controller.notices()[0]
            assert (notice.reason, notice.drain) == (end.failure, True)
            assert not (tmp_path / "ran").exists()
            table.free()
            controller.launch(3, "true", work_dir=str(tmp_path).encode())
            assert (await controller.exited(3)).exit.code == 0

    run(scenario())


@pytest.mark.root
@as_root
def test_the_daemon_needs_no_new_thread_when_the_process_table_is_full(tmp_path):
    """It is full before the first step: no supervisor is left, and the daemon reports that and stays."""

    async def scenario():
        async with limited(tmp_path) as (controller, table):
            table.fill()
            for job_id in range(1, 21):
                controller.launch(job_id, "true", work_dir=str(tmp_path).encode())
            for job_id in range(1, 21):
                end = await controller.exited(job_id)
                assert (end.start_at_us, end.untried, end.failure) == (0, True, NO_SUPERVISOR)
            table.free()
            controller.launch(21, "true", work_dir=str(tmp_path).encode())
            assert (await controller.exited(21)).exit.code == 0

    run(scenario())


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cpus")
def test_tasks_are_bound_and_say_so(tmp_path):
    cpus = sorted(os.sched_getaffinity(0))

    async def scenario():
        async with cluster(tmp_path, "--cpus=", settings=settings()) as (controller, _):
            part = common_pb2.NodeAllocation(node="n1", cpus=2, cpu_ids=b"\x03")
            said = "grep Cpus_allowed_list /proc/self/status; echo $SLURM_CPU_BIND"
            spec = {"cpu_bind": "verbose,threads", "mem_bind": "verbose,local"}
            client = await run_step(controller, 1, ["sh", "-c", said], ranks=(0, 1), allocation=part, spec=spec)
            chosen = [client.output[rank, 1].split()[1].decode() for rank in (0, 1)]
            assert sorted(map(int, chosen)) == cpus[:2]
            for rank in (0, 1):
                mask = 1 << int(chosen[rank])
                assert client.output[rank, 1].split()[2].startswith(b"verbose,mask_cpu:0x")
                note = (
                    f"cpu-bind-threads=MASK - n1, task {rank:2} {rank:2} [{client.pids[rank]}]: mask 0x{mask:X} set\n"
                )
                assert note.encode() in client.output[rank, 2]
                assert f"mem-bind=LOC - n1, task {rank:2} {rank:2} ".encode() in client.output[rank, 2]
            refused = controller.launch_step(2, ["true"], allocation=part, spec={"cpu_bind": "map_cpu:4000"})
            assert "CPU binding outside of job step allocation" in await controller.acked(refused)

    run(scenario())


@pytest.mark.root
@as_root
def test_short_memory_is_the_jobs_trouble(tmp_path):
    """Daemon, launcher and stepd are exempt from the kernel's memory killer, and a job is not."""
    own = read_text("/proc/self/oom_score_adj").strip()
    try:
        Path("/proc/self/oom_score_adj").write_text("-1000")
        exempt = "-1000"
    except OSError:  # a container may forbid it; then nothing is changed, and everything goes on
        exempt = own
    Path("/proc/self/oom_score_adj").write_text(own)

    async def scenario():
        async with cluster(tmp_path) as (controller, daemon):
            controller.launch(1, "exec sleep 1000", work_dir=str(tmp_path).encode())
            task = (await controller.started(1)).pid
            below = list(proctree.descendants(daemon.process.pid))
            assert task in below
            score = {pid: read_text(f"/proc/{pid}/oom_score_adj").strip() for pid in (daemon.process.pid, *below)}
            assert score.pop(task) == "0"
            assert set(score.values()) == {exempt}

    run(scenario())
