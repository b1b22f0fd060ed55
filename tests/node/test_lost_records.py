"""Issue 14, number 19: what becomes of a step whose record is lost or damaged while it runs.

It is never reported as never started, and nothing is reported before its processes have ended: found, with a record or without.
"""

import asyncio
import os
import shutil
import signal

import pytest

from nodedaemon.daemon.supervisors import NEVER_STARTED, RECORD_LOST
from nodedaemon.spool.steprecord import NEVER, STEPD, Claim, read_record, write_claim
from tests.node.fakectl import cluster, eventually, lines, processes_with

KEY = "1.1.-5"


def run(coroutine):
    return asyncio.run(coroutine)


def _unlink(steps):
    os.unlink(steps / KEY / "record")


def _truncate(steps):
    os.truncate(steps / KEY / "record", 0)


def _halve(steps):
    os.truncate(steps / KEY / "record", os.stat(steps / KEY / "record").st_size // 2)


def _garble(steps):
    with open(steps / KEY / "record", "r+b") as file:
        file.seek(10)
        file.write(b"\xff" * 8)


def _folder_gone(steps):
    shutil.rmtree(steps / KEY)


def _all_gone(steps):
    for name in os.listdir(steps):
        shutil.rmtree(steps / name)


def _is_folder(steps):
    _unlink(steps)
    os.mkdir(steps / KEY / "record")


def _is_link(steps):
    _unlink(steps)
    os.symlink("/dev/zero", steps / KEY / "record")


def _folder_is_file(steps):
    _folder_gone(steps)
    (steps / KEY).write_text("x")


def _anothers(steps):
    """The record of a step that has ended, put in the place."""
    shutil.copy(steps / "2.1.-5" / "record", steps / KEY / "record")


def _never(steps):
    """A daemon found nothing and said so, and died before it could tell."""
    _unlink(steps)
    fd = os.open(steps / KEY, os.O_RDONLY)
    os.close(write_claim(fd, Claim(NEVER, 1, 0, 0, 1, b"", KEY)))
    os.close(fd)


DAMAGES = [
    _unlink, _truncate, _halve, _garble, _folder_gone, _all_gone, _is_folder, _is_link, _folder_is_file, _anothers, _never,
]  # fmt: skip


async def running(controller, tmp_path):
    """A step that has ended, and one that runs, of a marked process and one in a session of its own."""
    controller.ack_reports = True
    controller.launch(2, "true", work_dir=str(tmp_path).encode())
    await controller.exited(2)
    mark = f"{tmp_path.parent.name}-{tmp_path.name}-lost"  # workers have folders of the same names
    script = f"setsid sh -c 'while :; do sleep 0.1; : {mark}; done' & while :; do sleep 0.1; : {mark}; done"
    controller.launch(1, script, work_dir=str(tmp_path).encode(), argv=[mark.encode()])
    await controller.started(1)
    await eventually(lambda: len(processes_with(mark)) >= 2)
    return mark


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda function: function.__name__)
def test_19_a_record_that_is_lost_while_no_daemon_is_there(tmp_path, damage):
    async def scenario():
        async with cluster(tmp_path) as (controller, daemon):
            mark = await running(controller, tmp_path)
            await daemon.kill()
            assert processes_with(mark)
            damage(daemon.spool / "steps")
            await daemon.start()
            end = await controller.exited(1)
            assert processes_with(mark) == [], daemon.text()  # before it was told
            assert (end.failure, end.exit.signal, end.untried) == (RECORD_LOST, signal.SIGKILL, False)
            assert end.start_at_us
            assert len(controller.exits(1)) == 1
            controller.launch(3, "echo on", work_dir=str(tmp_path).encode())  # the node goes on
            assert (await controller.exited(3)).failure == ""

    run(scenario())


@pytest.mark.parametrize("damage", [d for d in DAMAGES if d is not _never], ids=lambda function: function.__name__)
def test_19_a_record_that_is_lost_under_a_running_daemon(tmp_path, damage):
    """Orders still reach its supervisor, and its end is reported as unknown."""

    async def scenario():
        async with cluster(tmp_path) as (controller, daemon):
            mark = await running(controller, tmp_path)
            damage(daemon.spool / "steps")
            controller.terminate(1, grace_ms=500)
            end = await controller.exited(1)
            assert processes_with(mark) == []
            assert (end.failure, end.untried) == (RECORD_LOST, False)
            assert end.start_at_us
            assert len(controller.exits(1)) == 1
            controller.launch(3, "echo on", work_dir=str(tmp_path).encode())
            assert (await controller.exited(3)).failure == ""

    run(scenario())


def test_19_supervisor_and_record_are_both_gone(tmp_path):
    """Only the script's own words are left to find it by."""

    async def scenario():
        async with cluster(tmp_path) as (controller, daemon):
            mark = f"{tmp_path.parent.name}-{tmp_path.name}-lost"  # workers have folders of the same names
            controller.launch(
                1, f"while :; do sleep 0.1; : {mark}; done", work_dir=str(tmp_path).encode(), argv=[mark.encode()]
            )
            start = await controller.started(1)
            with open(f"/proc/{start.pid}/stat") as file:
                stepd_pid = int(file.read().rpartition(")")[2].split()[1])
            await daemon.kill()
            os.kill(stepd_pid, signal.SIGKILL)
            _unlink(daemon.spool / "steps")
            await daemon.start()
            end = await controller.exited(1)
            assert (end.failure, end.untried) == (RECORD_LOST, False)
            assert processes_with(mark) == []

    run(scenario())


def test_19_a_journal_that_was_damaged_forgets_steps_and_their_processes_are_ended(tmp_path):
    """Before the daemon registers: the controller takes them for gone."""

    async def scenario():
        async with cluster(tmp_path) as (controller, daemon):
            mark = await running(controller, tmp_path)
            await daemon.kill()
            size = os.stat(daemon.spool / "journal").st_size
            with open(daemon.spool / "journal", "r+b") as file:  # behind what was written at the very beginning
                file.seek(size // 3)
                file.write(b"\xff" * 16)
            await daemon.start()
            await controller.connected(2)
            assert processes_with(mark) == []
            said = ("supervise steps without a record", "is not in the spool")
            await eventually(lambda: any(text in daemon.text() for text in said))

    run(scenario())


def test_19_a_step_that_never_began_is_still_told_so(tmp_path):
    async def scenario():
        async with cluster(tmp_path) as (controller, daemon):
            await daemon.stop()
            await daemon.start(crash_at="launch.ordered")
            await controller.connected(2)
            controller.launch(1, "echo hello > ran", work_dir=str(tmp_path).encode())
            await eventually(lambda: daemon.process.returncode is not None)
            await daemon.start()
            end = await controller.exited(1)
            if end.untried:  # else its supervisor was quicker
                assert end.failure == NEVER_STARTED
                assert not (tmp_path / "ran").exists()
            else:
                assert lines(tmp_path / "ran") == ["hello"]

    run(scenario())


def test_19_records_say_whose_they_are(tmp_path):
    os.mkdir(tmp_path / KEY)
    folder = os.open(tmp_path / KEY, os.O_RDONLY)
    os.close(write_claim(folder, Claim(STEPD, 1, 2, 3, 4, b"a", KEY)))
    steps = os.open(tmp_path, os.O_RDONLY)
    found, _ = read_record(steps, f"{KEY}/record", KEY)
    assert found is not None and found.key == KEY
    assert read_record(steps, f"{KEY}/record", "2.1.-5") == (None, None)
    os.close(folder)
    os.close(steps)
