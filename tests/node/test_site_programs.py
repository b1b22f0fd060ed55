"""HealthCheckProgram and RebootProgram on a node, with a real daemon."""

import asyncio

import pytest

from nodedaemon.daemon.siteprograms import applies
from penstock.v1 import node_pb2
from tests.node.fakectl import cluster, eventually, lines
from tests.node.test_extern_step import program


@pytest.mark.parametrize(
    ("states", "busy", "expected"),
    [
        ("ANY", True, True), ("", False, True), ("IDLE", True, False), ("IDLE", False, True), ("ALLOC", False, False),
        ("MIXED,IDLE", True, True), ("CYCLE", True, True), ("IDLE,CYCLE", True, False), ("START_ONLY", False, False),
        ("NONDRAINED_IDLE", False, True),
    ],
)  # fmt: skip
def test_which_states_are_checked(states, busy, expected):
    assert applies(states, busy) is expected


def test_the_health_check_runs_at_the_start_and_then_by_state(tmp_path):
    async def scenario():
        log = tmp_path / "checks"
        check = program(tmp_path / "check.sh", f"echo $SLURM_SCRIPT_CONTEXT $SLURMD_NODENAME >> {log}; exit 7")
        settings = node_pb2.NodeSettings(
            health_check_program=check, health_check_interval_s=1, health_check_node_state="IDLE"
        )
        async with cluster(tmp_path, settings=settings) as (controller, daemon):
            await eventually(lambda: len(lines(log)) >= 2)
            assert set(lines(log)) == {"health_check n1"}
            await eventually(lambda: f"{check}: exit status 7" in daemon.text())
            assert all(report.WhichOneof("kind") != "notice" for report in controller.reports)

    asyncio.run(scenario())


def test_settings_that_change_hold_at_once(tmp_path):
    async def scenario():
        check = program(tmp_path / "check.sh", f"echo x >> {tmp_path}/checks")
        async with cluster(tmp_path) as (controller, _):
            settings = node_pb2.NodeSettings(health_check_program=check)
            controller.send(node_pb2.ControllerMessage(settings=settings))
            await eventually(lambda: lines(tmp_path / "checks") == ["x"])

    asyncio.run(scenario())


def test_a_reboot_is_refused_while_steps_are_here(tmp_path):
    async def scenario():
        reboot = program(tmp_path / "reboot.sh", f"echo $SLURM_SCRIPT_CONTEXT >> {tmp_path}/log")
        settings = node_pb2.NodeSettings(reboot_program=reboot)
        async with cluster(tmp_path, settings=settings) as (controller, _):
            controller.launch(1, "sleep 1000", std_out=b"/dev/null")
            await controller.started(1)
            order = {"reboot": node_pb2.RebootNode(reason="kernel")}
            assert await controller.acked(controller.command(**order)) == "step 1.1.-5 runs here"
            controller.terminate(1, grace_ms=0)
            await controller.exited(1)
            assert await controller.acked(controller.command(**order)) == ""
            await eventually(lambda: lines(tmp_path / "log") == ["reboot"])

    asyncio.run(scenario())
