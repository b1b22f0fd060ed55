"""Of the Governance service: many changes at once, and lists of wckeys, TRES and licences that accounting knows.

Lists are read from the core between two steps, like those of nodes.
"""

from typing import Any

from ctld.core import tres
from ctld.core.effects import ChangedMany, Refusal
from ctld.core.mig_model import shown_gres
from ctld.core.state import ClusterState
from ctld.rpc.auth import caller
from ctld.rpc.changes import changed_reply, many_event
from ctld.rpc.refusals import refuse_as, translated
from ctld.rpc.services import Services
from ctld.rpc.sight import account_sight
from penstock.v1 import governance_pb2
from penstock.values.tres import there_is


class Entities:
    """Its methods."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @translated
    async def ChangeMany(self, request: Any, context: Any) -> Any:
        """All of it or nothing."""
        runtime = self._services.runtime
        body: ChangedMany | Refusal = await runtime.ask(many_event(caller(), request, runtime.new_reply_to()))
        if isinstance(body, Refusal):
            await refuse_as(context, body)
        return governance_pb2.ChangeManyReply(replies=[changed_reply(one) for one in body.changes])

    @translated
    async def ListWckeys(self, request: Any, context: Any) -> Any:
        """By user and name; with PrivateData=users one's own, and those of users below accounts that one coordinates."""
        state = self._services.runtime.core.state
        sight = account_sight(state, caller())
        people, found = state.shares.people, []
        for (name, user), row in sorted(state.shares.wckeys.items(), key=lambda item: (item[0][1], item[0][0])):
            if row.deleted and not request.with_deleted:
                continue
            if not sight.sees_user(user, (assoc.account for assoc in state.shares.places.get(user, ()))):
                continue
            is_default = user in people and people[user].default_wckey == name
            found.append(
                governance_pb2.WckeyInfo(
                    id=row.wckey_id, name=name, user=user, is_default=is_default, deleted=row.deleted
                )
            )
        return governance_pb2.ListWckeysReply(wckeys=found)

    @translated
    async def ListTres(self, request: Any, context: Any) -> Any:
        """By number."""
        state = self._services.runtime.core.state
        counts = tres_counts(state)
        found = []
        for name, number in sorted(tres.known(state).items(), key=lambda item: item[1]):
            type_, _, rest = name.partition("/")
            found.append(governance_pb2.TresInfo(id=number, type=type_, name=rest, count=counts.get(name, 0)))
        return governance_pb2.ListTresReply(tres=found)

    @translated
    async def ListResources(self, request: Any, context: Any) -> Any:
        """By name and server."""
        state = self._services.runtime.core.state
        rows = [row for _, row in sorted(state.registry.resources.items()) if not row.deleted]
        found = []
        for row in rows:
            free = int(state.free_licenses[state.license_kinds[row.key]]) if row.key in state.license_kinds else 0
            found.append(
                governance_pb2.ResourceInfo(
                    name=row.name,
                    server=row.server,
                    type=row.type,
                    count=row.total,
                    allowed=row.allowed_percent,
                    last_consumed=max(0, row.ours - free),
                    manager=row.manager,
                    description=row.description,
                )
            )
        return governance_pb2.ListResourcesReply(resources=found)


def tres_counts(state: ClusterState) -> dict[str, int]:
    """What the cluster has of each kind."""
    counts = there_is((node.cpus, node.real_memory_mb, shown_gres(node)) for node in state.node_list)
    counts["billing"] = counts["cpu"]
    counts |= {f"license/{name}": count for name, count in state.license_totals.items()}
    return counts
