"""A node whose disk stands still: its heartbeats go on, what needs a record waits, and then happens once."""

import asyncio
from pathlib import Path

import pytest
from stalldisk import StalledDisk

from tests.node.fakectl import cluster, lines


def test_heartbeats_go_on_while_the_disk_stands_still(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = StalledDisk(tmp_path / "still")
    env = disk.env()
    monkeypatch.setenv("LD_PRELOAD", env["LD_PRELOAD"])
    monkeypatch.setenv("STALLDISK_GATE", env["STALLDISK_GATE"])

    async def scenario() -> None:
        async with cluster(tmp_path) as (controller, _):
            with disk.still():
                controller.launch(1, "echo ran >>out; exit 3", work_dir=str(tmp_path).encode())
                await controller.until(disk.is_waited_for)  # asked again at every message, and these are heartbeats
                heard = controller.heartbeats
                await controller.until(lambda: controller.heartbeats >= heard + 3)
                assert lines(tmp_path / "out") == []
            assert (await controller.exited(1)).exit.code == 3
            assert lines(tmp_path / "out") == ["ran"]
            assert len(controller.registrations) == 1

    asyncio.run(scenario())
