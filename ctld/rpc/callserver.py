"""The call socket: calls of this machine's users, over a Unix socket and without tokens (penstock/frames.py).

gRPC serves other machines, nodes, and streams without an end. callconnection.py has a client's connection.
"""

import asyncio
import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ctld.rpc.callconnection import CallerConnection, Method, Shared
from ctld.rpc.gate.receiving import RECEIVE_S
from ctld.rpc.gate.unread import UnreadReplies
from penstock.security.authd import listen

BACKLOG: Final = 256
#: Interval of the checks of time limits.
SWEEP_S: Final = 1.0


class CallServer:
    """The listener and its connections. Belongs to one event loop."""

    def __init__(
        self,
        path: Path,
        methods: Mapping[str, Method],
        unread: UnreadReplies,
        sweep_s: float = SWEEP_S,
        receive_s: float = RECEIVE_S,
    ) -> None:
        """`unread`: counts the replies until they are read."""
        self.path = path
        self.shared = Shared(methods, unread, sweep_s, receive_s)
        self._sweep_s = sweep_s
        self._loop = asyncio.get_running_loop()
        self._server: asyncio.Server | None = None
        self._inode = 0
        self._sweeper: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        """Starts listening. Raises BadSetup when the path cannot be used."""
        listener = listen(self.path, BACKLOG)
        self._inode = os.stat(self.path).st_ino
        self._server = await self._loop.create_unix_server(
            lambda: CallerConnection(self.shared), sock=listener, backlog=BACKLOG
        )
        self._sweeper = self._loop.call_later(self._sweep_s, self._sweep)

    async def stop(self, grace_s: float) -> None:
        """Stops listening, waits up to `grace_s` for calls in progress, and closes all connections.

        The inbox is closed by then: a call that begins now is refused, so that its caller knows that it was not done.
        """
        if self._server is None:
            return
        self._server.close()
        self._server = None
        with contextlib.suppress(FileNotFoundError):
            if os.stat(self.path).st_ino == self._inode:
                os.unlink(self.path)
        if self._sweeper is not None:
            self._sweeper.cancel()
        tasks = [call.task for connection in self.shared.connections for call in connection.calls.values()]
        if tasks:
            await asyncio.wait(tasks, timeout=grace_s)
        self.shared.flush()
        for connection in tuple(self.shared.connections):
            connection.close()

    def _sweep(self) -> None:
        now = self._loop.time()
        for connection in tuple(self.shared.connections):
            connection.sweep(now)
        self._sweeper = self._loop.call_later(self._sweep_s, self._sweep)
