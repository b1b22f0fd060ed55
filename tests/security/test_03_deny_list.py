"""Item 3: the list of certificates that are denied, when it is damaged: nothing of a configuration is applied without it."""

import asyncio
from pathlib import Path

import pytest

from penstock.errors import PenstockError
from penstock.v1 import controller_pb2 as c
from tests.rpc.clusterkit import Site


@pytest.mark.parametrize("text", ["{garbage", '["zz"]', "[1]", "7"])
def test_03_a_damaged_list_applies_nothing(tmp_path: Path, text: str) -> None:
    site = Site(tmp_path)

    async def story() -> None:
        async with site.controller() as running, site.client() as client:
            state = running.runtime.core.state
            before = state.config.kill_wait_s
            site.conf.write_text(f"{site.conf.read_text()}KillWait={before + 7}\n")
            (site.state / "ca" / "denied.json").write_text(text)
            with pytest.raises(PenstockError, match=r"denied\.json: must be a JSON list"):
                await client.call("Reconfigure", c.ReconfigureRequest())
            assert state.config.kill_wait_s == before
            (site.state / "ca" / "denied.json").write_text("[]")
            await client.call("Reconfigure", c.ReconfigureRequest())
            assert state.config.kill_wait_s == before + 7

    asyncio.run(story())
