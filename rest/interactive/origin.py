"""The listening socket of the origin of sessions, and the proxy behind it."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

from cli.steps.trust import Trust
from rest.interactive.gate import SessionGate
from rest.interactive.heads import HEAD_BYTES_MAX
from rest.interactive.proxy import ServedFile, SessionProxy
from rest.interactive.service import SessionService
from rest.limits import HEAD_TIMEOUT_S

if TYPE_CHECKING:
    import socket

    from penstock.aclient import AsyncClient


class SessionOrigin(NamedTuple):
    """Where sessions are served, and with which certificate ("" = plain)."""

    service: SessionService
    listener: "socket.socket"
    certificate: str
    key: str
    files: Mapping[str, ServedFile]

    @asynccontextmanager
    async def served(self, client: "AsyncClient") -> AsyncIterator[None]:
        """Serves while the block runs. Raises OSError for a certificate that cannot be used."""
        proxy = SessionProxy(self.service, SessionGate(client), Trust(client.cluster), self.files)
        context: ssl.SSLContext | None = None
        if self.certificate:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(self.certificate, self.key)
        server = await asyncio.start_server(
            proxy.accept, sock=self.listener, limit=HEAD_BYTES_MAX, ssl=context,
            ssl_handshake_timeout=HEAD_TIMEOUT_S if context else None,
        )  # fmt: skip
        try:
            yield
        finally:
            server.close()
            await proxy.close()
