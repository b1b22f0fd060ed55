"""Short words for changes of accounting in the core's world, made by anybody by name."""

from typing import Any

from ctld.core.queue.rights import level_of
from ctld.core.records.effects import Changed, ChangedMany
from ctld.core.records.events import AccountAction, Actor, ChangeAccounts, ChangeMany, ChangeQos, QosAction
from tests.core.world import World, make_config

#: So that names can be given as they are: the uid is the sum of the characters' numbers, root's is 0.
ADD, MODIFY, REMOVE = AccountAction.ADD, AccountAction.MODIFY, AccountAction.REMOVE


def make(**extra: object) -> World:
    """One node with GPUs, multifactor priorities, its daemon there."""
    settings: dict[str, Any] = {"nodes": 1, "gpus": 2, "def_mem_per_cpu_mb": 1, "priority_type": "priority/multifactor"}
    world = World(make_config(**{**settings, **extra}))
    world.register("n1")
    return world


def actor(world: World, name: str) -> Actor:
    """Returns a user with their present level."""
    uid = 0 if name == "root" else 1000 + sum(map(ord, name))
    return Actor(uid, uid, name, name, (name,), level_of(world.core.state, name))


def wish(action: AccountAction, entity: str, *names: str, **more: Any) -> ChangeAccounts:
    """Changes without a caller: accounts, parents, partitions, users, where, check_only; everything else is a key."""
    fields = {name: more.pop(name) for name in ("accounts", "parents", "partitions", "users", "where") if name in more}
    check_only, signs = more.pop("check_only", False), {"plus": "+", "minus": "-"}
    changes = {}
    for key, value in more.items():
        name, _, sign = key.partition("_")
        changes[name + signs.get(sign, "")] = str(value)
    nobody = Actor(-1, -1, "", "")
    return ChangeAccounts(nobody, action, entity, names, changes, check_only=check_only, **fields)


def change(world: World, action: AccountAction, entity: str, *names: str, user: str = "root", **more: Any) -> str:
    """The names that were changed, or the refusal."""
    event = wish(action, entity, *names, **more)
    return ask(world, event, user)


def qos(world: World, action: QosAction, *names: str, user: str = "root", **more: Any) -> str:
    """The same, of QOS: "done" or the refusal."""
    changes = {key.replace("_plus", "+").replace("_minus", "-"): str(value) for key, value in more.items()}
    return ask(world, ChangeQos(Actor(-1, -1, "", ""), action, names, changes), user)


def many(world: World, *changes: ChangeAccounts | ChangeQos, user: str = "root", check_only: bool = False) -> str:
    """All or none."""
    return ask(world, ChangeMany(Actor(-1, -1, "", ""), changes, check_only), user)


def ask(world: World, event: Any, user: str) -> str:
    """Who asks is said here."""
    import msgspec

    reply_to = world.reply_to()
    event = msgspec.structs.replace(event, actor=actor(world, user), reply_to=reply_to)
    lines = [line for line in world.do(event) if line.startswith(("refused", "done"))]
    body = world.replies[reply_to]
    if isinstance(body, Changed):
        return " ".join(body.names)
    if isinstance(body, ChangedMany):
        return "; ".join(" ".join(one.names) for one in body.changes)
    return lines[0]


def books(world: World) -> dict[str, Any]:
    """All of accounting that the core holds, in an order that does not depend on its history."""
    state = world.core.state
    tree = state.shares

    def ordered(table: dict[Any, Any]) -> list[Any]:
        return sorted(table.items(), key=lambda item: str(item[0]))

    return {
        "assocs": [(a.row(), a.usage, a.at_us, sorted(a.children), id(a)) for _, a in sorted(tree.by_id.items())],
        "indexes": [ordered({k: a.assoc_id for k, a in t.items()}) for t in (tree.accounts, tree.users, tree.in_partition)],
        "places": ordered({user: sorted(a.assoc_id for a in found) for user, found in tree.by_user.items()}),
        "people": [ordered(t) for t in (tree.people, tree.gone_people, tree.default_accounts, tree.coordinator_of)],
        "about": [ordered(t) for t in (tree.about, tree.gone_accounts, tree.gone)],
        "others": [ordered(t) for t in (tree.wckeys, state.registry.resources, state.qos, state.registry.qos_deleted)],
        "numbers": (tree.next_id, state.registry.own_accounts),
        "dirty": [
            ordered(t)
            for t in (
                state.outputs.dirty_assocs, state.outputs.dirty_usage, state.outputs.dirty_accounts, state.outputs.dirty_users, state.registry.dirty_wckeys,
                state.registry.dirty_resources, state.outputs.dirty_qos,
            )
        ],
    }  # fmt: skip


def lasting(world: World) -> dict[str, Any]:
    """What of it a restart must bring back."""
    found = books(world)
    found["assocs"] = [(row, children) for row, _, _, children, _ in found["assocs"]]
    del found["dirty"]
    return found
