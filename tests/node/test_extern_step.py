"""A job's holder on a node: prolog, hold, epilog, with real processes; what fails, hangs, or tries to get in."""

import asyncio
import os
import stat
from pathlib import Path

import pytest
from openway import open_way

from penstock.v1 import node_pb2
from tests.node.fakectl import EXTERN, cluster, eventually, lines

ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def run(coroutine):
    return asyncio.run(coroutine)


def program(path: Path, body: str) -> str:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


def site(tmp_path: Path, **more) -> node_pb2.NodeSettings:
    """A prolog and an epilog that write what happens into one file."""
    log = tmp_path / "order"
    prolog = program(tmp_path / "prolog.sh", f"echo $SLURM_SCRIPT_CONTEXT $SLURM_JOB_ID >> {log}")
    epilog = program(tmp_path / "epilog.sh", f"echo $SLURM_SCRIPT_CONTEXT $SLURM_JOB_ID >> {log}")
    return node_pb2.NodeSettings(**{"prolog": [prolog], "epilog": [epilog], **more})


def test_prolog_job_epilog_in_this_order(tmp_path):
    async def scenario():
        async with cluster(tmp_path, settings=site(tmp_path)) as (controller, _):
            controller.hold(1)
            await controller.step_started(1, EXTERN)
            controller.launch(1, f"echo job >> {tmp_path}/order", work_dir=str(tmp_path).encode())
            await controller.step_exited(1, -5)
            assert lines(tmp_path / "order") == ["prolog_slurmd 1", "job"]
            controller.terminate(1, step_id=EXTERN)
            ended = await controller.step_exited(1, EXTERN)
            assert (ended.failure, ended.holder_stage, ended.exit.code) == ("", "", 0)
            assert lines(tmp_path / "order") == ["prolog_slurmd 1", "job", "epilog_slurmd 1"]

    run(scenario())


def test_the_environment_is_a_list_of_names_whatever_a_job_brings(tmp_path):
    evil = [
        b"LD_PRELOAD=/tmp/evil.so", b"BASH_ENV=/tmp/evil", b"PYTHONPATH=/tmp", b"SPANK_x=1", b"PATH=/tmp", b"IFS=x",
        b"A\nLD_AUDIT=/tmp/evil.so=1", b"=C=x", b"SLURM_JOB_UID=0", b"ENV=/tmp/evil",
    ]  # fmt: skip

    async def scenario():
        dump = f"/usr/bin/env -0 > {tmp_path}/$SLURM_SCRIPT_CONTEXT.env"
        settings = site(tmp_path, prolog=[program(tmp_path / "p", dump)], epilog=[program(tmp_path / "e", dump)])
        async with cluster(tmp_path, settings=settings) as (controller, _):
            added = {"SLURM_JOB_CONSTRAINTS": "a&b", "LD_PRELOAD": "/tmp/evil.so", "SLURM_X": "1"}
            controller.hold(1, added, env=evil, work_dir=b"/data\nLD_PRELOAD=/x")
            await controller.step_started(1, EXTERN)
            note = "SLURM_JOB_EXIT_CODE=256 SLURM_JOB_EXIT_CODE2=1:0 LD_PRELOAD=/tmp/evil.so"
            controller.terminate(1, note=note, step_id=EXTERN)
            await controller.step_exited(1, EXTERN)
        found = {}
        for context in ("prolog_slurmd", "epilog_slurmd"):
            entries = (tmp_path / f"{context}.env").read_bytes().split(b"\0")[:-1]
            found[context] = env = dict(entry.split(b"=", 1) for entry in entries)
            assert env[b"SLURM_SCRIPT_CONTEXT"] == context.encode()
            assert env[b"SLURM_JOB_UID"] == str(os.getuid()).encode()
            assert env[b"SLURM_JOB_CONSTRAINTS"] == b"a&b"
            assert env[b"SLURM_JOB_WORK_DIR"] == b"/data\nLD_PRELOAD=/x"
            assert env[b"PATH"].startswith(b"/usr/local/sbin:")
            names = {name for name in env if not name.startswith(b"SLURM")}
            assert names <= {b"PATH", b"PWD", b"SHLVL", b"_", b"OLDPWD"}
            assert not names & {b"LD_PRELOAD", b"LD_AUDIT", b"BASH_ENV", b"ENV"}
        assert found["epilog_slurmd"][b"SLURM_JOB_EXIT_CODE"] == b"256"
        assert found["epilog_slurmd"][b"SLURM_JOB_EXIT_CODE2"] == b"1:0"
        assert b"SLURM_JOB_EXIT_CODE" not in found["prolog_slurmd"]

    run(scenario())


def test_an_epilog_knows_how_the_job_ended_though_the_daemon_died_during_the_prolog(tmp_path):
    """The restarted daemon repeated the order to end, without what the epilog is to know."""

    async def scenario():
        began, gate, seen = tmp_path / "began", tmp_path / "gate", tmp_path / "seen"
        waits = program(tmp_path / "p", f"touch {began}; while ! [ -e {gate} ]; do sleep 0.05; done")
        says = program(tmp_path / "e", f"echo $SLURM_JOB_EXIT_CODE > {seen}")
        async with cluster(tmp_path, settings=site(tmp_path, prolog=[waits], epilog=[says])) as (controller, daemon):
            controller.hold(1)
            await eventually(began.exists)
            order = controller.terminate(1, note="SLURM_JOB_EXIT_CODE=256", step_id=EXTERN)
            assert await controller.acked(order) == ""
            await daemon.kill()
            await daemon.start()
            await controller.connected(2)
            gate.touch()
            await controller.step_exited(1, EXTERN)
            assert lines(seen) == ["256"]

    run(scenario())


def test_a_prolog_that_fails_is_told_with_its_name_and_the_epilog_runs(tmp_path):
    async def scenario():
        bad = program(tmp_path / "bad.sh", "echo no GPU here >&2; exit 3")
        async with cluster(tmp_path, settings=site(tmp_path, prolog=[bad])) as (controller, daemon):
            controller.hold(1)
            ended = await controller.step_exited(1, EXTERN)
            assert (ended.holder_stage, ended.failure) == ("prolog", f"{bad}: exit status 3")
            assert (ended.start_at_us, ended.exit.signal) == (0, 0)
            assert lines(tmp_path / "order") == ["epilog_slurmd 1"]
            await eventually(lambda: "prolog printed: no GPU here" in daemon.text())

    run(scenario())


@pytest.mark.parametrize("stage", ["prolog", "epilog"])
def test_a_program_that_hangs_is_killed_as_a_group(tmp_path, stage):
    async def scenario():
        body = f"sleep 1000 & echo $! > {tmp_path}/child; (setsid sleep 1000 & echo $! > {tmp_path}/far; wait); wait"
        hang = program(tmp_path / "hang.sh", body)
        settings = site(tmp_path, prolog_epilog_timeout_s=1, **{stage: [hang]})
        async with cluster(tmp_path, settings=settings) as (controller, _):
            controller.hold(1)
            if stage == "epilog":
                await controller.step_started(1, EXTERN)
                controller.terminate(1, step_id=EXTERN)
            ended = await controller.step_exited(1, EXTERN)
            assert ended.holder_stage == stage
            assert ended.failure == f"{hang}: killed, it did not end within 1 s"
            assert ended.exit.signal == 9
            pids = [int((tmp_path / name).read_text()) for name in ("child", "far")]
            await eventually(lambda: not any(alive(pid) for pid in pids))

    run(scenario())


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_told_to_end_during_the_prolog(tmp_path):
    async def scenario():
        os.mkfifo(tmp_path / "go")
        slow = program(tmp_path / "slow.sh", f"read x < {tmp_path}/go; echo prolog done >> {tmp_path}/order")
        async with cluster(tmp_path, settings=site(tmp_path, prolog=[slow])) as (controller, _):
            controller.hold(1)
            await controller.acked(controller.terminate(1, grace_ms=1, step_id=EXTERN))
            await asyncio.to_thread((tmp_path / "go").write_text, "\n")
            ended = await controller.step_exited(1, EXTERN)
            assert (ended.failure, ended.holder_stage) == ("", "")
            assert lines(tmp_path / "order") == ["prolog done", "epilog_slurmd 1"]

    run(scenario())


def test_several_programs_by_pattern_and_one_at_a_time(tmp_path):
    async def scenario():
        folder = tmp_path / "prolog.d"
        folder.mkdir()
        for name in ("20-b", "10-a"):
            program(folder / name, f"echo {name} >> {tmp_path}/order; test $SLURM_JOB_ID != 2 || exit 1")
        lock = f"mkdir {tmp_path}/lock || exit 9; rmdir {tmp_path}/lock"
        program(folder / "30-c", lock)
        settings = site(tmp_path, prolog=[f"{folder}/*"], epilog=[], prolog_flags=["ALLOC", "SERIAL"])
        async with cluster(tmp_path, settings=settings) as (controller, _):
            controller.hold(1)
            await controller.step_started(1, EXTERN)
            assert lines(tmp_path / "order") == ["10-a", "20-b"]
            controller.hold(2)
            ended = await controller.step_exited(2, EXTERN)
            assert ended.failure == f"{folder}/10-a: exit status 1"
            assert lines(tmp_path / "order") == ["10-a", "20-b", "10-a"]
            for job in range(3, 9):
                controller.hold(job)
            for job in range(3, 9):
                await controller.step_started(job, EXTERN)
            for job in (1, *range(3, 9)):
                controller.terminate(job, step_id=EXTERN)
                await controller.step_exited(job, EXTERN)

    run(scenario())


def test_a_prolog_that_ends_while_the_daemon_is_away_is_heard_of(tmp_path):
    async def scenario():
        os.mkfifo(tmp_path / "go")
        slow = program(tmp_path / "slow.sh", f"read x < {tmp_path}/go; echo done > {tmp_path}/done")
        async with cluster(tmp_path, settings=site(tmp_path, prolog=[slow])) as (controller, daemon):
            controller.hold(1)
            await eventually(lambda: daemon.folders() == ["1.1.-4"] and (daemon.spool / "steps/1.1.-4/record").exists())
            await daemon.kill()
            await asyncio.to_thread((tmp_path / "go").write_text, "\n")
            await eventually((tmp_path / "done").exists)
            await daemon.start()
            await controller.step_started(1, EXTERN)
            controller.terminate(1, step_id=EXTERN)
            await controller.step_exited(1, EXTERN)

    run(scenario())


def test_a_restart_of_the_daemon_finds_the_holder_again(tmp_path):
    async def scenario():
        async with cluster(tmp_path, settings=site(tmp_path)) as (controller, daemon):
            controller.hold(1)
            await controller.step_started(1, EXTERN)
            await daemon.kill()
            await daemon.start()
            await controller.connected(2)
            controller.terminate(1, step_id=EXTERN)
            await controller.step_exited(1, EXTERN)
            assert lines(tmp_path / "order") == ["prolog_slurmd 1", "epilog_slurmd 1"]

    run(scenario())


@pytest.mark.root
@ROOT
def test_with_run_in_job_the_programs_are_in_the_jobs_groups_and_what_they_leave_is_killed(tmp_path):
    async def scenario():
        leave = program(tmp_path / "leave.sh", f"sleep 1000 & echo $! > {tmp_path}/left; cat /proc/self/cgroup")
        look = program(tmp_path / "look.sh", f"kill -0 $(cat {tmp_path}/left) && echo lives > {tmp_path}/found; true")
        settings = site(tmp_path, prolog=[leave], epilog=[look], prolog_flags=["RUNINJOB"])
        async with cluster(tmp_path, settings=settings) as (controller, daemon):
            if "control groups none" in daemon.text():
                return
            controller.hold(1)
            await controller.step_started(1, EXTERN)
            left = int((tmp_path / "left").read_text())
            assert "1.1" in Path(f"/proc/{left}/cgroup").read_text()
            controller.terminate(1, step_id=EXTERN)
            await controller.step_exited(1, EXTERN)
            assert not alive(left) and not (tmp_path / "found").exists()

    run(scenario())


@pytest.mark.root
@ROOT
def test_private_folders(disk_path):
    open_way(disk_path)

    async def scenario():
        shared = Path("/mnt")
        base = disk_path / "base"
        folders = [str(shared), "/dev/shm"]
        settings = site(disk_path, private_tmp=str(base), private_tmp_folders=folders)
        async with cluster(disk_path, settings=settings) as (controller, _):
            for job in (1, 2):
                controller.hold(job, user_id=65534, group_id=65534, user_name="nobody")
                await controller.step_started(job, EXTERN)
            mark = f"penstock-{os.getpid()}"
            write = f"echo one > {shared}/{mark}; echo shm > /dev/shm/{mark}; ln -s /etc /mnt/link; mkdir -p /mnt/a/b/c"
            output = {"std_out": b"/dev/null", "work_dir": b"/"}
            who = {"user_id": 65534, "group_id": 65534, "user_name": "nobody", **output}
            controller.launch(1, f"{write}; stat -c '%u %a' {shared} | grep -qx '65534 700' || exit 5", **who)
            one = await controller.step_exited(1, -5)
            assert (one.failure, one.exit.code) == ("", 0)
            look = f"test ! -e {shared}/{mark} -a ! -e /dev/shm/{mark}"
            controller.launch(2, look, **who)
            two = await controller.step_exited(2, -5)
            assert (two.failure, two.exit.code) == ("", 0)
            assert not (shared / mark).exists() and not Path("/dev/shm", mark).exists()
            assert (base / "n1" / "1.1" / "0" / mark).read_text() == "one\n"
            assert stat.S_IMODE(base.stat().st_mode) == 0o700
            for job in (1, 2):
                controller.terminate(job, step_id=EXTERN)
                assert (await controller.step_exited(job, EXTERN)).failure == ""
            assert list((base / "n1").iterdir()) == []
            assert Path("/etc/passwd").exists()

    run(scenario())


@pytest.mark.root
@ROOT
def test_private_folders_that_would_hide_the_spool_are_refused(tmp_path):
    async def scenario():
        settings = site(tmp_path, private_tmp=str(tmp_path / "base"), private_tmp_folders=[str(tmp_path.parent)])
        async with cluster(tmp_path, settings=settings) as (controller, _):
            controller.hold(1)
            ended = await controller.step_exited(1, EXTERN)
            assert ended.holder_stage == "prolog"
            assert "would hide the spool folder" in ended.failure

    run(scenario())


@pytest.mark.root
@ROOT
def test_private_folders_that_nobody_has_any_more_are_removed(tmp_path):
    async def scenario():
        base = tmp_path / "base"
        settings = site(tmp_path, private_tmp=str(base), private_tmp_folders=["/mnt"])
        async with cluster(tmp_path, settings=settings) as (controller, daemon):
            for job in (1, 2):
                controller.hold(job)
                await controller.step_started(job, EXTERN)
            deep = base / "n1" / "1.1" / "0"
            for _ in range(100):
                deep /= "d"
                deep.mkdir()
            (base / "n1" / "1.1" / "0" / "link").symlink_to("/etc")
            started = next(s for s in controller.starts(1) if s.key.step_id == EXTERN)
            os.kill(started.pid, 9)
            await controller.step_exited(1, EXTERN)
            await daemon.kill()
            await daemon.start()
            await controller.connected(2)
            await eventually(lambda: os.listdir(base / "n1") == ["2.1"])
            assert Path("/etc/passwd").exists()
            controller.terminate(2, step_id=EXTERN)
            assert (await controller.step_exited(2, EXTERN)).failure == ""

    run(scenario())
