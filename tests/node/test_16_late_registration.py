"""A registration says the node's time of the moment when the controller can read it, however long it kept the node waiting.

The controller takes the times of a node for ages by that; an older one made events 20 s later than they were.
"""

import asyncio
from pathlib import Path

from nodedaemon.base.nodeclock import NodeClock
from tests.node.fakectl import FakeController, Noded, cluster


def test_16_a_registration_is_made_when_the_controller_serves_the_stream(tmp_path: Path) -> None:
    async def story() -> None:
        address = f"unix:{tmp_path}/ctl.sock"
        node = Noded(tmp_path, address)
        async with FakeController(address) as controller:
            controller.door.clear()
            await node.start()
            try:
                await controller.until(lambda: controller.calls)
                begun_us = NodeClock().now_us()
                controller.door.set()
                await controller.connected()
                [registration] = controller.registrations
                assert registration.at_us >= begun_us
            finally:
                await node.stop()

    asyncio.run(story())


def test_16_the_time_is_said_anew_before_what_is_reported_late(tmp_path: Path) -> None:
    """A registration that had to wait all the same is corrected before the reports that waited for the stream."""

    async def story() -> None:
        async with cluster(tmp_path) as (controller, node):
            controller.ack_reports = False
            controller.launch(1, "true", work_dir=str(tmp_path).encode())
            await controller.exited(1)
            await node.stop()
            await node.start()
            await controller.connected(2)
            await controller.until(lambda: controller.kinds.count("report") > 1)
            assert controller.kinds[0] == "heartbeat"

    asyncio.run(story())
