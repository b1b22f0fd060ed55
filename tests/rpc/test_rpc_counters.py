"""ListCounters: what has been used of limits, as texts under the limits' names."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from ctld.core.records.events import JobSubmission, Tick
from ctld.rpc.accounting import counters
from ctld.rpc.gate.scans import Scans
from ctld.rpc.gate.services import Services
from ctld.rpc.gate.unread import UnreadReplies
from penstock.v1 import governance_pb2
from tests.core import test_borrow
from tests.core.limitscript import set_limits
from tests.core.world import World, make_config

JOB = JobSubmission(name="job", work_dir=b"/tmp", account="physics", ntasks=2, time_limit_s=600)


def make_world(**more: Any) -> World:
    world = World(make_config(**({"enforce": ("associations", "limits")} | more)))
    set_limits(world, {"account": "physics"}, {"grptres": "cpu=8", "grptresmins": "cpu=1000"})
    for user in ("ann", "bob"):
        set_limits(world, {"account": "physics", "user": user}, {})
    set_limits(world, {"qos": "normal"}, {"maxtresperuser": "cpu=6"})
    world.do(Tick())
    for name in world.running:
        world.register(name)
    for user in ("ann", "ann", "bob"):
        world.submit(JOB, user)
    world.advance(300)
    return world


def _listed(world: World, user: str = "root", **asked: Any) -> list[Any]:
    async def view(cluster: str) -> SimpleNamespace:
        return SimpleNamespace(state=world.core.state, actor=world.actor(user), without_jobs=False)

    service = counters.CountersService(
        cast(Services, SimpleNamespace(view=view, scans=Scans(), unread=UnreadReplies()))
    )
    request = governance_pb2.ListCountersRequest(**asked)

    async def collect() -> list[Any]:
        return [one async for page in service.ListCounters(request, None) for one in page.counters]

    return asyncio.run(collect())


def test_what_is_used() -> None:
    found = _listed(make_world())
    by_name = {(one.account, one.user, one.qos): one for one in found}
    physics = by_name["physics", "", ""]
    assert dict(physics.limits) == {"grptres": "cpu=8", "grptresmins": "cpu=1000"}
    assert physics.used["grpjobs"] == physics.used["grpsubmitjobs"] == "3"
    assert physics.used["grptres"] == "cpu=6,mem=600M,node=2,billing=6"
    assert (
        physics.used["grptresrunmins"] == "cpu=30,mem=3000M,node=15,billing=15"
        or "cpu=30" in physics.used["grptresrunmins"]
    )
    assert "cpu=29" in physics.used["grptresmins"]  # five minutes, a little of which is forgotten
    assert by_name["physics", "ann", ""].used["maxjobs"] == "2"
    assert by_name["root", "", ""].used["grpjobs"] == "3"
    assert by_name["", "", "normal"].used["grpjobs"] == "3"
    assert list(by_name["", "", "normal"].users_with_jobs) == ["ann", "bob"]
    assert by_name["", "ann", "normal"].used["maxtresperuser"].startswith("cpu=4,")
    assert by_name["physics", "", "normal"].used["maxjobsperaccount"] == "3"


def test_what_is_asked_for() -> None:
    world = make_world()
    found = _listed(world, what=["qos"], users=["ann"])
    assert [(one.qos, one.user, one.account) for one in found] == [("normal", "", ""), ("normal", "ann", "")]
    found = _listed(world, what=["assoc"], accounts=["physics"], users=["bob"])
    assert [(one.account, one.user) for one in found] == [("physics", "bob")]


def test_private_data() -> None:
    found = _listed(make_world(private_data=("usage",)), user="bob")
    assert {one.user for one in found} == {"", "bob"}


def test_without_enforcement_nothing_is_counted() -> None:
    found = _listed(make_world(enforce=()))
    assert found and not any(one.used for one in found)


def test_who_borrows_and_what_is_left_to_borrow() -> None:
    """Accounts a and b have 4 GPUs each; a uses 6, and of b's all are idle until a job of its own wants some of them."""
    world = test_borrow.cluster(lend="gres/gpu=4")

    def standing() -> dict[str, tuple[str | None, str | None]]:
        found = _listed(world, what=["assoc"], accounts=["a", "b"])
        return {one.account: (one.used.get("borrow"), one.used.get("lend")) for one in found if not one.user}

    test_borrow.submit(world, "ann", 6)
    world.advance(5)
    assert test_borrow.states(world) == "B"
    assert standing() == {"a": ("gres/gpu=2", None), "b": (None, "gres/gpu=4")}
    test_borrow.submit(world, "bob", 2)
    world.advance(5)
    assert standing() == {"a": ("gres/gpu=2", None), "b": (None, "gres/gpu=2")}
    for name in "ab":
        test_borrow.change(world, name, borrow="")
    world.advance(5)
    assert standing() == {"a": (None, None), "b": (None, None)}  # nobody may borrow any more
