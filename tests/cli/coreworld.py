"""sacctmgr's requests answered by a real core: conversions of ctld.rpc, no sockets. Requests are really executed or
refused."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from ctld.core.records.effects import Changed, Refusal
from ctld.core.records.events import Actor, ChangeMany
from ctld.rpc.accounting.changes import accounts_event, changed_reply, many_changes, qos_event
from ctld.rpc.accounting.entities import Entities
from ctld.rpc.accounting.shares import SharesService
from ctld.rpc.control.controller import qos_message
from ctld.rpc.gate.auth import Peer, caller, set_peer
from ctld.rpc.gate.neighbours import View
from ctld.rpc.gate.scans import Scans
from ctld.rpc.gate.unread import UnreadReplies
from ctld.runtime.errors import BadRequest
from penstock.clusterfile import ClusterFile
from penstock.errors import PenstockError
from penstock.v1 import controller_pb2 as pb
from penstock.v1.governance_pb2 import ChangeManyReply
from tests.cli.fake_controller import FakeClient
from tests.core.world import World, make_config


class CoreClient(FakeClient):
    """A client with its own core; `user` is the caller."""

    def __init__(self, user: str = "root", **config: Any) -> None:
        self.world = World(make_config(nodes=1, gpus=4, priority_type="priority/multifactor", **config))
        self.world.register("n1")
        self.user = user
        services: Any = SimpleNamespace(
            runtime=SimpleNamespace(core=self.world.core),
            names=None,
            scans=Scans(),
            unread=UnreadReplies(),
            view=self._view,
        )
        self.shares, self.entities = SharesService(services), Entities(services)
        self.cluster = ClusterFile(self.world.core.state.config.cluster_name)
        names = (
            "ChangeAccounts",
            "ChangeQos",
            "ChangeMany",
            "ListAssociations",
            "ListQos",
            "ListWckeys",
            "ListTres",
            "ListResources",
        )
        super().__init__(**{name: getattr(self, f"_{name}") for name in names})

    async def _view(self, cluster: str) -> View:
        state, nothing = self.world.core.state, cast("Any", None)
        config = state.config
        return View(state, caller(), nothing, nothing, nothing, config.controller_host, config.slurmctld_port)

    def _ask(self, make: Any, request: Any) -> Any:
        reply_to = self.world.reply_to()
        try:
            self.world.do(make(self.world.actor(self.user), request, reply_to))
        except BadRequest as error:
            raise PenstockError(error.code, error.text) from None
        body = self.world.replies[reply_to]
        if isinstance(body, Refusal):
            raise PenstockError(body.code, body.text)
        return body

    def _ChangeAccounts(self, request: Any) -> Any:
        body: Changed = self._ask(accounts_event, request)
        return changed_reply(body)

    def _ChangeQos(self, request: Any) -> Any:
        self._ask(qos_event, request)
        return pb.Empty()

    def _ChangeMany(self, request: Any) -> Any:
        def event(actor: Actor, request: Any, reply_to: int) -> ChangeMany:
            return ChangeMany(actor, tuple(many_changes(actor, request)), request.check_only, reply_to)

        return ChangeManyReply(replies=[changed_reply(one) for one in self._ask(event, request).changes])

    def _async(self, call: Any) -> Any:
        async def run() -> Any:
            set_peer(Peer(actor=self.world.actor(self.user)))
            return await call()

        return asyncio.run(run())

    def _ListAssociations(self, request: Any) -> Any:
        async def pages() -> Any:
            return [page async for page in self.shares.ListAssociations(request, None)]

        return self._async(pages)

    def _ListQos(self, request: Any) -> Any:
        state = self.world.core.state
        known = state.registry.qos_deleted | state.qos if request.with_deleted else state.qos
        return pb.ListQosReply(qos=[qos_message(known[name]) for name in sorted(known)])

    def _ListWckeys(self, request: Any) -> Any:
        return self._async(lambda: self.entities.ListWckeys(request, None))

    def _ListTres(self, request: Any) -> Any:
        return self._async(lambda: self.entities.ListTres(request, None))

    def _ListResources(self, request: Any) -> Any:
        return self._async(lambda: self.entities.ListResources(request, None))
