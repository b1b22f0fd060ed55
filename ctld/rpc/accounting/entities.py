"""Bulk changes, and lists of wckeys, TRES and licences of accounting, for the Governance service.

Lists are read from the core between two steps, like those of nodes.
"""

from ctld.core.queue import tres
from ctld.core.records.effects import ChangedMany, Refusal
from ctld.core.records.events import ChangeMany
from ctld.core.records.mig import shown_gres
from ctld.core.state.state import ClusterState
from ctld.rpc.accounting.changes import changed_reply, many_changes
from ctld.rpc.gate.auth import caller
from ctld.rpc.gate.context import Context
from ctld.rpc.gate.refusals import refuse_as, translated
from ctld.rpc.gate.services import Services
from ctld.rpc.gate.visibility import account_visibility
from penstock.exporter.pace import WorkPace
from penstock.v1 import governance_pb2
from penstock.values.tres import there_is


class Entities:
    """The methods about entities."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @translated
    async def ChangeMany(
        self, request: governance_pb2.ChangeManyRequest, context: Context
    ) -> governance_pb2.ChangeManyReply:
        """Makes many changes: all of them or none."""
        runtime = self._services.runtime
        actor = caller()
        pace = WorkPace()
        changes = tuple([one async for one in pace.over(many_changes(actor, request))])
        event = ChangeMany(actor, changes, request.check_only, runtime.new_reply_to())
        body: ChangedMany | Refusal = await runtime.ask(event)
        if isinstance(body, Refusal):
            await refuse_as(context, body)
        reply = governance_pb2.ChangeManyReply()
        async for one in pace.over(body.changes):
            reply.replies.append(changed_reply(one))
        return reply

    @translated
    async def ListWckeys(
        self, request: governance_pb2.ListWckeysRequest, context: Context
    ) -> governance_pb2.ListWckeysReply:
        """Returns wckeys by user and name; with PrivateData=users the caller's own, and those of users below accounts
        that the caller coordinates.
        """
        view = await self._services.view(request.cluster)
        state = view.state
        visibility = account_visibility(state, view.actor)
        people, found = state.shares.people, []
        for (name, user), row in sorted(state.shares.wckeys.items(), key=lambda item: (item[0][1], item[0][0])):
            if row.deleted and not request.with_deleted:
                continue
            if not visibility.sees_user(user, (assoc.account for assoc in state.shares.by_user.get(user, ()))):
                continue
            is_default = user in people and people[user].default_wckey == name
            found.append(
                governance_pb2.WckeyInfo(
                    id=row.wckey_id, name=name, user=user, is_default=is_default, deleted=row.deleted
                )
            )
        return governance_pb2.ListWckeysReply(wckeys=found)

    @translated
    async def ListTres(self, request: governance_pb2.ListTresRequest, context: Context) -> governance_pb2.ListTresReply:
        """Returns TRES by number."""
        state = (await self._services.view(request.cluster)).state
        counts = tres_counts(state)
        found = []
        for name, number in sorted(tres.known(state).items(), key=lambda item: item[1]):
            type_, _, rest = name.partition("/")
            found.append(governance_pb2.TresInfo(id=number, type=type_, name=rest, count=counts.get(name, 0)))
        return governance_pb2.ListTresReply(tres=found)

    @translated
    async def ListClusters(
        self, request: governance_pb2.ListClustersRequest, context: Context
    ) -> governance_pb2.ListClustersReply:
        """Returns the clusters of the same database by name: those that can be read here while they are down."""
        return governance_pb2.ListClustersReply(
            clusters=[
                governance_pb2.ClusterInfo(
                    name=row.name,
                    controller_host=row.control_host,
                    controller_port=row.control_port,
                    registered_at_us=row.registered_at_us,
                )
                for row in await self._services.neighbours.rows()
            ]
        )

    @translated
    async def ListResources(
        self, request: governance_pb2.ListResourcesRequest, context: Context
    ) -> governance_pb2.ListResourcesReply:
        """Returns licences by name and server."""
        state = (await self._services.view(request.cluster)).state
        rows = [row for _, row in sorted(state.registry.resources.items()) if not row.deleted]
        found = []
        for row in rows:
            free = (
                int(state.free_licenses[state.layout.license_kinds[row.key]])
                if row.key in state.layout.license_kinds
                else 0
            )
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
    """Returns the cluster's amount of each kind."""
    counts = there_is((node.cpus, node.config.real_memory_mb, shown_gres(node)) for node in state.node_list)
    counts["billing"] = counts["cpu"]
    counts |= {f"license/{name}": count for name, count in state.layout.licenses.items()}
    return counts
