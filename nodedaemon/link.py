"""The node's one stream to the controller: opened by the node, kept open, opened again with growing, jittered pauses.

Rules
    - The first message up is Register, the first down is Registered; a refusal ends the stream.
    - What is sent names the stream it is for; what is left of an old stream is dropped, because the core sends what
      matters again.
    - Silence of several heartbeats is a lost stream, also when TCP has noticed nothing.
    - `contact` is told of each proof that the controller hears us, with the time at which we spoke; or that there is no
      controller, which is as good for leases (lease.py): it said farewell, or its machine refuses connections.

Targets: HOST:PORT over mutual TLS with node.pem, node.key and ca.pem; `unix:PATH` without TLS, for a controller on
this machine. Deliberately absent: what commands mean (core), what a registration holds (daemon).
"""

import asyncio
import logging
import os
import random
import stat
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio

from nodedaemon import lease, wire
from nodedaemon.core.messages import Event, LinkDown, LinkUp, ReportsAcked
from nodedaemon.crash import crash_point
from nodedaemon.lease import Contact
from penstock.client import split_address
from penstock.v1 import node_pb2, node_pb2_grpc
from penstock.values.loglevels import level_of

log = logging.getLogger("penstock.noded")

PAUSE_FIRST_S = 0.1
#: A controller that comes back finds its nodes within this time, and never a thousand of them at once.
PAUSE_MAX_S = 5.0
REGISTER_TIMEOUT_S = 20.0
HEARTBEAT_DEFAULT_S = 10.0
#: How long a look at the controller's ports may take.
PROBE_TIMEOUT_S = 3.0
#: How long until the next look: well below the shortest lease.
PROBE_PAUSE_S = 4.0
#: Heartbeats without an answer after which the stream counts as lost.
SILENT_HEARTBEATS_MAX = 3
MESSAGE_BYTES_MAX = 16 * 1024 * 1024
#: Messages waiting to be written. The core's reports are bounded; beyond this the stream does not move and is given up.
OUTBOX_MAX = 200_000
#: Messages in one bundle: reports and acknowledgements are below a kilobyte or two each.
BUNDLE_MESSAGES_MAX = 256
#: An acknowledgement that says only "accepted" waits so long for company.
ACK_PAUSE_S = 0.02

_EOF: Any = grpc.aio.EOF  # type: ignore[attr-defined]
_OPTIONS = (
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.use_local_subchannel_pool", 1),  # a new try is a new connection
)


class LinkError(Exception):
    """The stream cannot be used; the text goes to the log."""


class BadCredentials(Exception):
    """The certificate folder cannot be used."""


@dataclass(frozen=True)
class Target:
    """Where the controller is, and with what to prove who we are (None = without TLS)."""

    address: str
    credentials: grpc.ChannelCredentials | None


def make_target(address: str, cert_dir: str | None) -> Target:
    """`unix:PATH`, or HOST:PORT with the certificates of a folder. No folder: without TLS (trying things out)."""
    if address.startswith("unix:") or cert_dir is None:
        return Target(address, None)
    parts = [_read_pem(os.path.join(cert_dir, name)) for name in ("ca.pem", "node.key", "node.pem")]
    return Target(address, grpc.ssl_channel_credentials(*parts))


def _read_pem(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            if path.endswith(".key") and mode & 0o077:
                raise BadCredentials(f"{path}: readable by others (mode {mode:04o}); run: chmod 600 {path}")
            return file.read()
    except OSError as error:
        hint = "join the cluster with `penstock noded --join TOKEN`, or name the folder with --cert-dir"
        raise BadCredentials(f"{path}: {error.strerror}; {hint}") from error


class Link:
    """Keeps the stream. `post` takes events; `register` makes the first message from the core's present state."""

    def __init__(
        self,
        target: Target,
        node: wire.NodeFacts,
        register: Callable[[], node_pb2.Register],
        heartbeat: Callable[[], node_pb2.Heartbeat],
        post: Callable[[Event], None],
        registered: Callable[[node_pb2.Registered], None],
        contact: Contact,
    ) -> None:
        self._target = target
        self._node = node
        self._register = register
        self._heartbeat = heartbeat
        self._post = post
        self._registered = registered
        self._contact = contact
        self._beats: deque[int] = deque()  # when the heartbeats were sent that have not been answered
        self._ports: tuple[str, ...] = (target.address,)  # where a controller would listen: for nodes, and for commands
        self._link = 0  # number of the last stream
        self._call: Any = None  # of the admitted stream
        self._outbox: deque[node_pb2.NodeMessage] = deque()
        self._waiting = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._heard_at = 0.0
        self._dropped = ""

    def send(self, link: int, message: node_pb2.NodeMessage) -> None:
        """Send on that stream, or not at all."""
        if link != self._link or self._call is None:
            return
        if len(self._outbox) >= OUTBOX_MAX:
            self.drop(link, f"{OUTBOX_MAX} messages wait to be sent")
            return
        self._outbox.append(message)
        if message.HasField("command_ack") and not message.command_ack.refused:
            self._loop.call_later(ACK_PAUSE_S, self._waiting.set)  # it mostly travels with a report
        else:
            self._waiting.set()

    def drop(self, link: int, why: str) -> None:
        """Give up a stream; another is opened after the usual pause."""
        if link == self._link and self._call is not None:
            self._dropped = why
            self._call.cancel()

    async def run(self) -> None:
        """For ever: open, serve, pause."""
        pause_s = PAUSE_FIRST_S
        while True:
            self._link += 1
            self._dropped = ""
            try:
                await self._session(self._link)
                why = "closed by the controller"
            except* (grpc.aio.AioRpcError, LinkError, asyncio.InvalidStateError, TimeoutError) as group:
                why = self._dropped or _describe(group.exceptions[0])
            was_admitted = self._call is not None
            self._call = None
            self._outbox.clear()
            if was_admitted:
                self._post(LinkDown(self._link))
                pause_s = PAUSE_FIRST_S
            log.warning("controller %s: %s; next try in about %.1f s", self._target.address, why, pause_s)
            await self._pause(pause_s * random.uniform(0.5, 1.5))  # noqa: S311 (spreads the nodes, protects nothing)
            pause_s = min(pause_s * 2, PAUSE_MAX_S)

    async def _pause(self, pause_s: float) -> None:
        """Wait before the next try, and meanwhile see now and then whether there is a controller at all."""
        until_s = self._loop.time() + pause_s
        while (left_s := until_s - self._loop.time()) > 0:
            looked_at_ns = lease.now_ns()
            if await nobody_listens(self._ports):
                self._contact.nobody_there(looked_at_ns)
            await asyncio.sleep(min(max(until_s - self._loop.time(), 0), left_s, PROBE_PAUSE_S))

    async def _session(self, link: int) -> None:
        async with self._channel() as channel:
            call = node_pb2_grpc.NodeLinkStub(channel).Connect()  # type: ignore[no-untyped-call]
            try:
                async with asyncio.timeout(REGISTER_TIMEOUT_S):
                    said_at_ns = lease.now_ns()
                    await call.write(node_pb2.NodeMessage(register=self._register()))
                    answer = await call.read()
                registered = _registered(answer)
                self._contact.renew(said_at_ns)
                self._admitted(link, call, registered)
                for message in answer.more:  # commands may travel with the answer
                    self._take(link, message)
                interval_s = registered.heartbeat_interval_ms / 1000 or HEARTBEAT_DEFAULT_S
                async with asyncio.TaskGroup() as tasks:
                    side = [tasks.create_task(self._write(call)), tasks.create_task(self._beat(interval_s))]
                    await self._read(link, call)
                    for task in side:
                        task.cancel()
            finally:
                call.cancel()

    def _channel(self) -> grpc.aio.Channel:
        if self._target.credentials is None:
            return grpc.aio.insecure_channel(self._target.address, options=_OPTIONS)
        return grpc.aio.secure_channel(self._target.address, self._target.credentials, options=_OPTIONS)

    def _admitted(self, link: int, call: Any, registered: node_pb2.Registered) -> None:
        self._call = call
        self._outbox.clear()
        self._beats.clear()
        if registered.command_port and not self._target.address.startswith("unix:"):
            host = self._target.address.rpartition(":")[0]
            self._ports = (self._target.address, f"{host}:{registered.command_port}")
        self._heard_at = asyncio.get_running_loop().time()
        self._registered(registered)
        timeout_us = registered.unkillable_step_timeout_s * 1_000_000
        registered.settings.kill_wait_s = registered.settings.kill_wait_s or registered.kill_wait_s
        self._take_settings(registered.settings)
        self._post(LinkUp(link, registered.epoch, timeout_us))
        log.info("registered with cluster %s, epoch %d", registered.cluster_name, registered.epoch)

    async def _read(self, link: int, call: Any) -> None:
        loop = asyncio.get_running_loop()
        while (bundle := await call.read()) is not _EOF:
            self._heard_at = loop.time()
            for message in (bundle, *bundle.more):
                self._take(link, message)

    def _take(self, link: int, message: node_pb2.ControllerMessage) -> None:
        kind = message.WhichOneof("kind")
        if kind == "command":
            event = wire.command_event(link, message.command, self._node)
            if event is None:
                raise LinkError(f"command {message.command.sequence} is of a kind that this version does not know")
            self._post(event)
        elif kind == "settings":
            self._take_settings(message.settings)
        elif kind == "report_ack":
            self._post(ReportsAcked(message.report_ack.spool_id, message.report_ack.through_sequence))
        elif kind == "heartbeat_ack" and self._beats:
            self._contact.renew(self._beats.popleft())
        elif kind == "farewell":
            self._contact.rest()

    def _take_settings(self, settings: node_pb2.NodeSettings) -> None:
        if settings.log_level:
            logging.getLogger("penstock").setLevel(level_of(settings.log_level))
        for line in self._node.site.take(settings):
            log.warning("%s", line)

    async def _write(self, call: Any) -> None:
        """Send what waits; what is ready together travels together."""
        while True:
            await self._waiting.wait()
            self._waiting.clear()
            while self._outbox:
                bundle = self._outbox.popleft()
                while self._outbox and len(bundle.more) < BUNDLE_MESSAGES_MAX:
                    bundle.more.append(self._outbox.popleft())
                await call.write(bundle)
                if any(message.HasField("report") for message in (bundle, *bundle.more)):
                    crash_point("report.sent")
                else:
                    crash_point("command.acked")

    async def _beat(self, interval_s: float) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._outbox.append(node_pb2.NodeMessage(heartbeat=self._heartbeat()))
            self._beats.append(lease.now_ns())
            self._waiting.set()
            await asyncio.sleep(interval_s)
            if loop.time() - self._heard_at > interval_s * SILENT_HEARTBEATS_MAX:
                raise LinkError(f"silent for {SILENT_HEARTBEATS_MAX} heartbeats")


async def nobody_listens(addresses: tuple[str, ...]) -> bool:
    """True when every one of these refuses connections at once: the machine is there, and no controller on it."""
    return all([await _refuses(address) for address in addresses])


async def _refuses(address: str) -> bool:
    try:
        async with asyncio.timeout(PROBE_TIMEOUT_S):
            if address.startswith("unix:"):
                _, writer = await asyncio.open_unix_connection(address.removeprefix("unix:"))
            else:
                _, writer = await asyncio.open_connection(*split_address(address))
    except (ConnectionRefusedError, FileNotFoundError):
        return True
    except OSError:  # TimeoutError among them: no answer is no proof
        return False
    writer.close()
    return False


def _registered(answer: Any) -> node_pb2.Registered:
    if answer is _EOF or not answer.HasField("registered"):
        raise LinkError("the stream ended before it answered the registration")
    registered: node_pb2.Registered = answer.registered
    if registered.refusal:
        raise LinkError(f"registration refused: {registered.refusal}")
    return registered


def _describe(error: BaseException) -> str:
    if isinstance(error, grpc.aio.AioRpcError):
        return f"{error.code().name}: {error.details()}"
    return str(error) or type(error).__name__
