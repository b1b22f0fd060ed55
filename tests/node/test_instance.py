"""--instance-id, --instance-type and --extra of the node daemon."""

import asyncio

import pytest

from ctld.rpc import nodelink
from ctld.runtime.errors import BadRequest
from penstock.v1 import node_pb2
from tests.node.fakectl import Noded, cluster


def test_the_daemon_reports_its_instance(tmp_path):
    async def scenario():
        words = ("--instance-id", "i-1", "--instance-type", "p5.48xlarge", "--extra", "rack=7 é")
        async with cluster(tmp_path, *words) as (controller, _):
            found = controller.registrations[0]
            assert (found.instance_id, found.instance_type, found.extra) == ("i-1", "p5.48xlarge", "rack=7 é")

    asyncio.run(scenario())


@pytest.mark.parametrize("text", ["a\nb", "x" * 257])
def test_a_text_that_the_controller_would_refuse_stops_it(tmp_path, text):
    async def scenario():
        daemon = Noded(tmp_path, f"unix:{tmp_path}/ctl.sock", "--instance-id", text)
        await daemon.start()
        assert await daemon.process.wait() == 78
        assert "Invalid --instance-id: " in daemon.text()

    asyncio.run(scenario())


def test_the_controller_limits_it():
    whole = node_pb2.Register(protocol=nodelink.PROTOCOL, boot_id="b", spool_id="s", extra="x" * nodelink.TEXT_MAX)
    nodelink.check(whole)
    whole.extra += "x"
    with pytest.raises(BadRequest, match="longer than 256 characters"):
        nodelink.check(whole)
