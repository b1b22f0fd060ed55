"""A very large change of accounting is seen as a whole or not at all, and listings of jobs and nodes do not wait for its end."""

import asyncio
import os
import pwd
from pathlib import Path

import pytest
from patience import ANSWER_S

from ctld.core.records.events import Role
from ctld.daemon import Controller
from ctld.runtime import loop as loop_module
from penstock.aclient import AsyncClient
from penstock.errors import PenstockError
from penstock.v1 import controller_pb2, governance_pb2, shares_pb2
from tests.rpc.clusterkit import Site, submit

ADD = shares_pb2.ChangeAccountsRequest.ADD
#: A user of every machine, who is none of the controller's administrators.
NOBODY = pwd.getpwnam("nobody")
NUMBER = 400


def load(last_account: str) -> governance_pb2.ChangeManyRequest:
    """Makes `nobody` an operator first, then adds many users; the last one to this account."""

    def added(entity: str, name: str, account: str = "", **changes: str) -> governance_pb2.Change:
        accounts = [account] if account else []
        request = shares_pb2.ChangeAccountsRequest(
            action=ADD, entity=entity, names=[name], accounts=accounts, changes=changes
        )
        return governance_pb2.Change(accounts=request)

    changes = [added("account", "lab"), added("user", NOBODY.pw_name, "lab", adminlevel="Operator")]
    changes += [added("user", f"u{number}", "lab") for number in range(NUMBER)]
    return governance_pb2.ChangeManyRequest(changes=[*changes, added("user", "last", last_account)])


def role(controller: Controller) -> Role:
    return controller.authenticator.roles.role(NOBODY.pw_uid, NOBODY.pw_name)


async def in_progress(controller: Controller) -> None:
    async with asyncio.timeout(ANSWER_S):
        while (
            not controller.runtime.core.in_progress or NOBODY.pw_name not in controller.runtime.core.state.shares.people
        ):
            await asyncio.sleep(0)


@pytest.mark.skipif(os.geteuid() == NOBODY.pw_uid, reason="nobody is the controller's own user here")
def test_09_listings_do_not_wait_for_a_long_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_module, "PUMP_S", 0.0)

    async def story() -> None:
        site = Site(tmp_path)
        async with site.controller() as controller, site.client() as client, site.client() as other:
            await submit(client)
            changing = asyncio.create_task(client.call("ChangeMany", load("nosuch")))
            await in_progress(controller)
            assert await jobs(other) == 1
            assert (await other.call("ListNodes", controller_pb2.ListNodesRequest())).nodes
            assert role(controller) is Role.USER  # half of it counts for nobody
            waiting = asyncio.create_task(other.call("ListQos", controller_pb2.ListQosRequest()))
            assert await jobs(client) == 1
            assert controller.runtime.core.in_progress and not waiting.done()
            with pytest.raises(PenstockError, match="nosuch|account"):
                await changing
            assert (await waiting).qos
            assert role(controller) is Role.USER
            await client.call("ChangeMany", load("lab"))
            assert role(controller) is Role.OPERATOR

    asyncio.run(story())


async def jobs(client: AsyncClient) -> int:
    pages = [page async for page in client.stream("ListJobs", controller_pb2.ListJobsRequest())]
    return sum(len(page.jobs) for page in pages)


def test_09_with_private_jobs_they_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who coordinates which account decides what they see."""
    monkeypatch.setattr(loop_module, "PUMP_S", 0.0)

    async def story() -> None:
        site = Site(tmp_path, extra="PrivateData=jobs\n")
        async with site.controller() as controller, site.client() as client, site.client() as other:
            await submit(client)
            changing = asyncio.create_task(client.call("ChangeMany", load("lab")))
            await in_progress(controller)
            assert await jobs(other) == 1
            assert not controller.runtime.core.in_progress
            await changing

    asyncio.run(story())
