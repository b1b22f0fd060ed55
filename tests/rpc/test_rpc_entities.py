"""Accounting's entities over the wire: many changes at once, what the lists show, a level that counts at once, what
coordinators and users see and may do."""

import asyncio
import os
import pwd

import pytest

from ctld.core.records.accounting_rows import UserRow
from ctld.rpc.gate.auth import Roles
from penstock.errors import PenstockError
from penstock.v1 import controller_pb2 as c
from penstock.v1 import governance_pb2 as g
from penstock.v1 import shares_pb2 as s
from penstock.values.config import Config
from tests.rpc.clusterkit import Site
from tests.rpc.test_rpc_services import OTHER, USER, denial

Action = s.ChangeAccountsRequest.Action
ADD, MODIFY, REMOVE = Action.ADD, Action.MODIFY, Action.REMOVE


def ask(action: s.ChangeAccountsRequest.Action, entity: str, *names: str, **more) -> s.ChangeAccountsRequest:
    fields = ("accounts", "partitions", "users", "where", "check_only")
    own = {name: more.pop(name) for name in fields if name in more}
    return s.ChangeAccountsRequest(action=action, entity=entity, names=names, changes=more, **own)


def all_of(*requests) -> g.ChangeManyRequest:
    kinds = {s.ChangeAccountsRequest: "accounts", c.ChangeQosRequest: "qos"}
    return g.ChangeManyRequest(changes=[g.Change(**{kinds[type(one)]: one}) for one in requests])


PLANT = (
    ask(ADD, "account", "physics", fairshare="30", grptres="cpu=64", budget="1000gpu-hours/month"),
    ask(ADD, "account", "optics", parent="physics"),
    c.ChangeQosRequest(action="ADD", names=["gold"], changes={"maxjobspu": "3", "usagethreshold": "0.5"}),
    ask(MODIFY, "account", "physics", qos="normal,gold", defaultqos="gold"),
    ask(ADD, "user", str(USER), accounts=["optics"], partitions=["debug"], maxjobs="4"),
    ask(ADD, "user", str(OTHER), accounts=["physics"]),
    ask(ADD, "coordinator", "physics", users=[str(OTHER)]),
    ask(ADD, "wckey", "genome", users=[str(USER)]),
    ask(ADD, "resource", "matlab", count="10", server="flex", percentallowed="50"),
)


async def listed(caller, **asked) -> s.ListAssociationsReply:
    pages = [page async for page in caller.stream("ListAssociations", s.ListAssociationsRequest(**asked))]
    whole = pages[0]
    for page in pages[1:]:
        whole.associations.extend(page.associations)
    return whole


def test_many_changes_and_what_is_listed(tmp_path):
    site = Site(tmp_path, extra="Licenses=local:3\nGresTypes=gpu\n")

    async def story():
        async with site.controller(), site.client() as client:
            done = await client.call("ChangeMany", all_of(*PLANT))
            assert [list(reply.names) for reply in done.replies][:4] == [["physics"], ["optics"], ["gold"], ["physics"]]
            new = done.replies[4].associations[0]
            assert (new.account, new.user, new.parent, new.partition) == ("optics", str(USER), "optics", "debug")
            with pytest.raises(PenstockError) as refused:
                await client.call("ChangeMany", all_of(ask(ADD, "account", "x"), ask(ADD, "user", "y", accounts=["z"])))
            assert refused.value.text.endswith("This account 'z' doesn't exist; change 2: add user y")
            reply = await listed(client)
            await client.call("ChangeAccounts", ask(REMOVE, "user", str(USER)))
            gone = await listed(client, with_deleted=True)
            lists = [
                await client.call("ListTres", g.ListTresRequest()),
                await client.call("ListWckeys", g.ListWckeysRequest(with_deleted=True)),
                await client.call("ListResources", g.ListResourcesRequest()),
                await client.call("ListQos", c.ListQosRequest(names=["gold"])),
            ]
            return reply, gone, lists

    reply, gone, (tres, wckeys, resources, qos) = asyncio.run(story())
    assert [(a.account, a.user, a.partition, a.depth) for a in reply.associations] == [
        ("root", "", "", 0), ("root", "root", "", 1), ("physics", "", "", 1), ("physics", str(OTHER), "", 2), ("optics", "", "", 2),
        ("optics", str(USER), "debug", 3),
    ]  # fmt: skip
    physics, mine = reply.associations[2], reply.associations[5]
    assert (dict(physics.limits), physics.budget) == ({"grptres": "cpu=64"}, "1000gpu-hours/month")
    assert (list(mine.qos), list(mine.own_qos), dict(mine.limits)) == (["normal", "gold"], [], {"maxjobs": "4"})
    assert [(a.name, list(a.coordinators)) for a in reply.accounts] == [
        ("optics", []), ("physics", [str(OTHER)]), ("root", []),
    ]  # fmt: skip
    assert [(u.name, u.default_account, u.admin_level, list(u.coordinator_of)) for u in reply.users] == [
        (str(USER), "optics", "None", []), (str(OTHER), "physics", "None", ["physics"]),
        ("root", "root", "Administrator", []),
    ]  # fmt: skip
    assert [(a.user, a.partition) for a in gone.associations if a.deleted] == [(str(USER), "debug")]
    assert [u.name for u in gone.users if u.deleted] == [str(USER)]
    assert [(t.id, f"{t.type}/{t.name}" if t.name else t.type) for t in tres.tres] == [
        (1, "cpu"), (2, "mem"), (3, "energy"), (4, "node"), (5, "billing"), (6, "fs/disk"), (7, "vmem"), (8, "pages"),
        (1001, "gres/gpu"), (1002, "license/local"), (1003, "license/matlab@flex"),
    ]  # fmt: skip
    assert {t.name: t.count for t in tres.tres if t.type == "license"} == {"local": 3, "matlab@flex": 5}
    assert [(w.id, w.name, w.user, w.deleted) for w in wckeys.wckeys] == [(1, "genome", str(USER), True)]
    (matlab,) = resources.resources
    assert (matlab.name, matlab.server, matlab.count, matlab.allowed, matlab.type) == (
        "matlab",
        "flex",
        10,
        50,
        "License",
    )
    assert (qos.qos[0].id, dict(qos.qos[0].limits), qos.qos[0].usage_threshold_ppm) == (
        2,
        {"maxjobsperuser": "3"},
        500_000,
    )


def test_a_level_counts_at_once_and_only_as_long_as_it_is_given(tmp_path):
    site = Site(tmp_path)
    new_qos = c.ChangeQosRequest(action="ADD", names=["silver"])

    async def story():
        async with site.controller(), site.client() as client:
            await client.call("ChangeMany", all_of(*PLANT))
            await denial(site.call_as(USER, "ChangeQos", new_qos))
            await client.call("ChangeAccounts", ask(MODIFY, "user", str(USER), adminlevel="Operator"))
            await site.call_as(USER, "ChangeQos", new_qos)
            refused = await denial(
                site.call_as(USER, "ChangeAccounts", ask(MODIFY, "user", str(USER), adminlevel="Admin"))
            )
            assert "Access/permission denied: changing a user: who gives the level administrator" in refused.details()
            await client.call("ChangeAccounts", ask(MODIFY, "user", str(USER), adminlevel="None"))
            await denial(site.call_as(USER, "ChangeQos", c.ChangeQosRequest(action="DELETE", names=["silver"])))

    asyncio.run(story())


def test_what_the_configuration_gives_stays(tmp_path):
    people = {"op": UserRow("op", "a", 2), "con": UserRow("con", "a", 0)}
    roles = Roles.of(Config(penstock_operators=("op", "con"), penstock_administrators=("ad",)), people)
    assert [int(roles.role(5000, name)) for name in ("op", "con", "ad", "none")] == [2, 1, 2, 0]
    people["none"] = UserRow("none", "a", 1)
    assert int(roles.role(5000, "none")) == 1
    assert int(roles.role(os.geteuid(), pwd.getpwuid(os.geteuid()).pw_name)) == 2


def test_a_coordinator_changes_what_is_below_him(tmp_path):
    site = Site(tmp_path, extra="PrivateData=users,accounts\n")

    async def story():
        async with site.controller(), site.client() as client:
            await client.call("ChangeMany", all_of(*PLANT))
            await site.call_as(OTHER, "ChangeAccounts", ask(MODIFY, "user", str(USER), maxjobs="2"))
            await site.call_as(OTHER, "ChangeMany", all_of(ask(ADD, "account", "lasers", parent="optics")))
            many = all_of(
                ask(ADD, "account", "more", parent="optics"), ask(MODIFY, "account", "physics", fairshare="9")
            )
            refused = await denial(site.call_as(OTHER, "ChangeMany", many))
            assert "change 2: modify account physics" in refused.details()
            seen = await site.call_as(OTHER, "ListWckeys", g.ListWckeysRequest())
            hidden = await site.call_as(77_777, "ListWckeys", g.ListWckeysRequest())
            return await listed(client), seen, hidden

    reply, seen, hidden = asyncio.run(story())
    assert [a.account for a in reply.associations if not a.user] == ["root", "physics", "optics", "lasers"]
    assert dict(next(a for a in reply.associations if a.user == str(USER)).limits) == {"maxjobs": "2"}
    assert ([w.name for w in seen.wckeys], list(hidden.wckeys)) == (["genome"], [])
