"""The REST application in this process, with a controller of the test's choice in place of the client.

rest = FakeRest({"Ping": PingReply(cluster_name="x")})
reply = rest.get("/slurm/v0.0.46/ping")
rest.calls                      # (method, request, proof) of each call to the controller
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx

from penstock.clusterfile import ClusterFile
from rest.app import make_app
from rest.callers import UnixPeer
from rest.contract.facts import load
from rest.limits import Requests
from rest.oidc import OidcLogin
from rest.pages import StaticFile
from rest.passwords import PasswordLogin
from rest.sessions import LoginWays

TOKEN = {"X-SLURM-USER-TOKEN": "a.b.c"}
#: The answer to a method: a message, an exception, or a function of the request.
Reply = Any


class FakeClient:
    """Answers as told, and notes what was asked."""

    cluster = ClusterFile("test")

    def __init__(self, replies: Mapping[str, Reply]) -> None:
        self.replies = dict(replies)
        self.calls: list[tuple[str, Any, Any]] = []

    async def call(self, method: str, request: Any, timeout_s: float | None = None, *, proof: Any = None) -> Any:
        self.calls.append((method, request, proof))
        reply = self.replies[method]
        if callable(reply) and not isinstance(reply, Exception):
            reply = reply(request)
        if asyncio.iscoroutine(reply):
            reply = await reply
        if isinstance(reply, Exception):
            raise reply
        return reply

    async def follow(
        self, method: str, request: Any, timeout_s: float | None = None, *, proof: Any = None, read_as: Any = None
    ) -> AsyncIterator[Any]:
        yield await self.call(method, request, timeout_s, proof=proof)


class FakeRest:
    """The application, and requests to it."""

    def __init__(
        self,
        replies: Mapping[str, Reply] | None = None,
        requests: Requests | None = None,
        peer_uid: int | None = None,
        files: Mapping[str, StaticFile] | None = None,
        oidc: OidcLogin | None = None,
        passwords: PasswordLogin | None = None,
    ) -> None:
        self.client = FakeClient(replies or {})
        app = make_app(self.client, "test", load(), requests, files=files, ways=LoginWays(oidc, passwords))
        peer: Any = ("127.0.0.1", 40_000) if peer_uid is None else UnixPeer("unix", peer_uid)
        self.transport = httpx.ASGITransport(app, client=peer)

    @property
    def calls(self) -> list[tuple[str, Any, Any]]:
        return self.client.calls

    def request(self, method: str, path: str, **more: Any) -> httpx.Response:
        """One request; with a token unless `headers` say otherwise."""

        async def send() -> httpx.Response:
            async with self.session() as session:
                return await session.request(method, path, **{"headers": TOKEN} | more)

        return asyncio.run(send())

    def session(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=self.transport, base_url="http://rest")

    def get(self, path: str, **more: Any) -> httpx.Response:
        return self.request("GET", path, **more)

    def post(self, path: str, body: Any, **more: Any) -> httpx.Response:
        return self.request("POST", path, json=body, **more)
