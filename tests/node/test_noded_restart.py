"""The node daemon dies and comes back: nothing that runs is lost, nothing is started twice, every accepted step ends once."""

import asyncio
import os
import signal

import pytest
from patience import END_S

from nodedaemon.spool.steprecord import read_record
from penstock.crash import NODE_POINTS
from penstock.v1 import node_pb2
from tests.node.fakectl import FakeController, Noded, cluster, eventually, lines, processes_with

STATE = node_pb2.HeldStep.State
STEPS = 20


def run(coroutine):
    return asyncio.run(coroutine)


def held(registration: node_pb2.Register) -> dict[int, str]:
    return {step.key.job_id: STATE.Name(step.state) for step in registration.held}


def test_twenty_running_steps_outlive_a_killed_daemon(tmp_path):
    async def scenario():
        gate = tmp_path / "gate"
        script = f"echo begin; while ! [ -e {gate} ]; do sleep 0.1; done; echo end; exit $SLURM_JOB_ID"
        async with cluster(tmp_path) as (controller, daemon):
            jobs = range(1, STEPS + 1)
            for job in jobs:
                controller.launch(job, script, work_dir=str(tmp_path).encode())
            starts = [await controller.started(job) for job in jobs]
            await daemon.kill()
            os.kill(starts[0].pid, signal.SIGKILL)  # one ends while nobody is there
            await daemon.start()
            await controller.connected(2)
            states = held(controller.registrations[1])
            assert states.pop(1) in ("EXITED", "RUNNING")  # its supervisor may still be writing
            assert states == {job: "RUNNING" for job in jobs if job != 1}
            assert (await controller.exited(1)).exit.signal == signal.SIGKILL
            assert await controller.acked(controller.launch(2, script)) == ""  # known: nothing starts
            controller.terminate(3, grace_ms=5000)  # orders reach adopted steps
            assert (await controller.exited(3)).exit.signal == signal.SIGTERM
            gate.touch()
            for job in jobs:
                end = await controller.exited(job)
                assert end.failure == ""
                if job not in (1, 3):
                    assert (end.exit.code, end.exit.signal) == (job, 0)
                    assert lines(tmp_path / f"slurm-{job}.out") == ["begin", "end"]
                assert end.start_at_us == starts[job - 1].at_us
                assert len(controller.exits(job)) == 1

    run(scenario())


def test_a_restarted_daemon_asks_a_step_to_end_again_and_says_why_once(tmp_path):
    async def scenario():
        note, output = "*** JOB 1 CANCELLED ***", tmp_path / "slurm-1.out"
        async with cluster(tmp_path) as (controller, daemon):
            script = "trap 'echo term' TERM; echo ready; while :; do sleep 0.05; done"
            controller.launch(1, script, work_dir=str(tmp_path).encode())
            await eventually(lambda: lines(output) == ["ready"])
            controller.terminate(1, grace_ms=600_000, note=note)
            await eventually(lambda: {"term", note} <= set(lines(output)))
            await daemon.kill()
            await daemon.start()
            await controller.connected(2)
            await eventually(lambda: lines(output).count("term") == 2)
            controller.terminate(1, grace_ms=0)
            assert (await controller.exited(1)).exit.signal == signal.SIGKILL
            assert lines(output).count(note) == 1

    run(scenario())


def test_a_supervisor_killed_while_no_daemon_is_there(tmp_path):
    async def scenario():
        async with cluster(tmp_path) as (controller, daemon):
            mark = tmp_path.name + "-lost"
            controller.launch(
                1, f"while :; do sleep 0.1; : {mark}; done #", work_dir=str(tmp_path).encode(), argv=[mark.encode()]
            )
            start = await controller.started(1)
            with open(f"/proc/{start.pid}/stat") as file:
                stepd_pid = int(file.read().rpartition(")")[2].split()[1])
            await daemon.kill()
            os.kill(stepd_pid, signal.SIGKILL)
            await daemon.start()
            end = await controller.exited(1)
            assert (end.failure, end.start_at_us) == ("supervisor lost", start.at_us)
            await eventually(lambda: processes_with(mark) == [])

    run(scenario())


def test_reports_wait_for_the_controller_and_are_told_once_it_is_back(tmp_path):
    async def scenario():
        async with cluster(tmp_path) as (controller, daemon):
            controller.ack_reports = False
            controller.launch(1, "sleep 0.2; exit 4", work_dir=str(tmp_path).encode())
            await controller.started(1)
            await controller.stop()
            steps_fd = os.open(daemon.spool / "steps", os.O_RDONLY)
            await eventually(lambda: read_record(steps_fd, "1.1.-5/record")[1])
            os.close(steps_fd)
            await daemon.kill()
            await daemon.start()
            controller.reports.clear()
            controller.ack_reports = True
            controller.epoch = 2
            await controller.start()
            assert (await controller.exited(1)).exit.code == 4
            sequences = [report.sequence for report in controller.reports]
            assert sequences == sorted(set(sequences))  # each once, in order, and none used again
            controller.launch(2, "true", work_dir=str(tmp_path).encode())
            await controller.exited(2)
            assert min(r.sequence for r in controller.reports if r.exited.key.job_id == 2) > max(sequences)
            assert controller.registrations[-1].epoch_seen == 1

    run(scenario())


def test_a_controller_with_an_older_epoch_is_left_alone(tmp_path):
    async def scenario():
        async with cluster(tmp_path) as (controller, daemon):
            controller.epoch = 5
            controller.hang_up()
            await controller.connected(2)
            controller.epoch = 4
            controller.hang_up()
            await eventually(lambda: "epoch 4 is lower than 5" in daemon.text())
            controller.epoch = 5
            seen = len(controller.registrations)
            await controller.connected(seen + 1)
            controller.launch(1, "true", work_dir=str(tmp_path).encode())
            assert (await controller.exited(1)).exit.code == 0

    run(scenario())


def test_a_refused_registration_is_tried_again(tmp_path):
    async def scenario():
        address = f"unix:{tmp_path}/ctl.sock"
        daemon = Noded(tmp_path, address)
        async with FakeController(address) as controller:
            controller.refusal = "node n1 is not in the configuration"
            await daemon.start()
            await controller.until(lambda: len(controller.registrations) >= 2)
            controller.refusal = ""
            await controller.connected(3)
            text = "registration refused: node n1 is not in the configuration"
            await eventually(lambda: text in daemon.text())
            assert await daemon.stop() == 0

    run(scenario())


def test_a_reboot_ends_what_ran_before(tmp_path):
    async def scenario():
        async with cluster(tmp_path) as (controller, daemon):
            controller.launch(1, "sleep 1000", work_dir=str(tmp_path).encode())
            start = await controller.started(1)
            await daemon.kill()
            await daemon.start(boot_id="another-boot")
            end = await controller.exited(1)
            assert (end.failure, end.start_at_us) == ("the node was rebooted", start.at_us)
            assert controller.registrations[-1].boot_id == "another-boot"
            os.kill(start.pid, signal.SIGKILL)  # the reboot was only told

    run(scenario())


def test_two_daemons_on_one_spool_and_other_mistakes(tmp_path):
    async def scenario():
        async with cluster(tmp_path) as (_, daemon):
            second = Noded(tmp_path, daemon.address)
            second.log = tmp_path / "second.log"
            await second.start()
            assert await asyncio.wait_for(second.process.wait(), END_S) == 78
            assert "another node daemon runs with the spool folder" in second.text()
        third = Noded(tmp_path, "127.0.0.1:1")
        third.log = tmp_path / "third.log"
        await third.start()
        assert await asyncio.wait_for(third.process.wait(), END_S) == 78
        assert "--cert-dir is needed" in third.text() and "Traceback" not in third.text()
        fourth = Noded(tmp_path, daemon.address, "--gpus", "many")
        fourth.log = tmp_path / "fourth.log"
        await fourth.start()
        assert await asyncio.wait_for(fourth.process.wait(), END_S) == 78
        assert "--gpus" in fourth.text() and "Traceback" not in fourth.text()

    run(scenario())


def test_the_list_of_crash_points_is_what_the_code_has():
    import pathlib
    import re

    import nodedaemon

    folder = pathlib.Path(nodedaemon.__file__).parent
    found = {
        name
        for path in folder.rglob("*.py")
        for line in path.read_text().splitlines()
        if "crash_point(" in line and "def crash_point" not in line
        for name in re.findall(r'"([a-z]+\.[a-z]+)"', line)
    }
    assert found == set(NODE_POINTS)


@pytest.mark.parametrize("point", NODE_POINTS)
def test_a_crash_at_each_point_loses_nothing_and_starts_nothing_twice(tmp_path, point):
    """Launch, crash, restart, launch again as a controller does, until the end is reported; then look at what ran."""

    async def scenario():
        address = f"unix:{tmp_path}/ctl.sock"
        daemon = Noded(tmp_path, address)
        runs = tmp_path / "runs"
        script = f"echo ran >> {runs}; exit 3"
        async with FakeController(address) as controller:
            await daemon.start()  # makes the spool
            await controller.connected()
            await daemon.stop()
            await daemon.start(crash_at=point)
            await controller.connected(2)
            controller.launch(1, script, work_dir=str(tmp_path).encode())
            if point == "forget.swept":
                await controller.exited(1)
                controller.forget(1)
            if not point.startswith("stepd"):
                await asyncio.wait_for(daemon.process.wait(), END_S)
                assert daemon.process.returncode == (75 if point.startswith("launcher") else 137)
            else:
                await controller.exited(1)
                await daemon.kill()
            controller.hang_up()
            times = len(controller.registrations)
            await daemon.start()
            await controller.connected(times + 1)
            known = held(controller.registrations[-1])
            if point != "forget.swept":
                assert await controller.acked(controller.launch(1, script, work_dir=str(tmp_path).encode())) == ""
            else:
                assert known == {}
            end = await controller.exited(1)
            assert len(controller.exits(1)) == 1
            ran = lines(runs)
            assert ran in ([], ["ran"])
            if end.failure == "":
                assert (ran, end.exit.code) == (["ran"], 3)
            elif end.start_at_us == 0:
                assert ran == []
            else:
                assert end.failure == "supervisor lost"
            controller.forget(1)
            await eventually(lambda: "1.1.-5" not in daemon.folders())
            assert await daemon.stop() == 0

    run(scenario())


@pytest.mark.parametrize("released_by_then", [True, False], ids=["while it is down", "after its return"])
def test_a_step_that_begins_without_a_daemon_is_reported(tmp_path, released_by_then):
    """Its supervisor's report had nobody to receive it: the next daemon asks."""

    async def scenario():
        came, gate, up = tmp_path / "came", tmp_path / "gate", tmp_path / "up"
        prolog = tmp_path / "prolog"
        prolog.write_text(f"#!/bin/sh\n: > {came}\nwhile ! [ -e {gate} ]; do sleep 0.02; done\n")
        prolog.chmod(0o755)
        async with cluster(tmp_path) as (controller, daemon):
            spec = {"task_prolog": os.fsencode(prolog)}
            controller.launch_step(1, ["sh", "-c", f": > {up}; exec sleep 600"], spec=spec)
            await eventually(came.exists)
            await daemon.kill()
            if released_by_then:
                gate.touch()
                await eventually(up.exists)
            await daemon.start()
            await controller.connected(2)
            assert held(controller.registrations[1]) == {1: "ACCEPTED"} or released_by_then
            gate.touch()
            await controller.step_started(1, 0)
            assert len(controller.starts(1)) == 1
            controller.terminate(1, step_id=0)
            assert (await controller.step_exited(1, 0)).start_at_us == controller.starts(1)[0].at_us

    run(scenario())
