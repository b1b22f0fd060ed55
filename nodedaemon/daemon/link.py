"""The node's one stream to the controller: opened by the node, kept open, opened again with growing, jittered pauses.

Rules
    - The controller greets first, by its call's metadata. The first message up is Register, the first down is Registered; a
      refusal ends the stream. A registration that was made before the controller can read it would say a time that has
      passed, and the controller would take what happened on the node for as much later.
    - Each outgoing message names its stream; those for an old stream are dropped, because the core sends all that
      matters again.
    - Giving a stream up is an error of its session like any other, never a cancellation of this task: in every phase
      (connecting, registering, reading, writing, waiting) it ends in `run`, which opens another one.
    - A refusal (by the controller, or of the controller by the core) is followed by ever longer pauses, since only an
      administrator can resolve it; a stream that merely broke is reopened at once. Each cause is logged once.
    - Silence of several heartbeats is a lost stream, also when TCP has noticed nothing.
    - `contact` records each proof that the controller receives our messages, with the time of sending; or that there is
      no controller, which is equivalent for leases (base/lease.py): it sent a farewell, or its machine refuses
      connections.

Targets: HOST:PORT over mutual TLS with node.pem, node.key and ca.pem; `unix:PATH` without TLS, for a controller on
this machine. Deliberately absent: what commands mean (core), what a registration holds (daemon).
"""

import asyncio
import contextlib
import logging
import os
import random
import stat
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass

# Any: gRPC does not type the calls of a stream
from typing import Any

import grpc
import grpc.aio

from nodedaemon.base import lease
from nodedaemon.core.messages import LinkDown, LinkUp, NodeCoreEvent, ReportsAcked
from nodedaemon.launch import wire
from nodedaemon.spool.contact import ControllerContact
from penstock.clusterfile import split_address
from penstock.crash import crash_point
from penstock.repeats import Repeats
from penstock.security.names import CONTROLLER_OPTIONS
from penstock.v1 import node_pb2, node_pb2_grpc

log = logging.getLogger("penstock.noded")

PAUSE_FIRST_S = 0.1
#: Maximum pause: a restarted controller regains its nodes within this time, and never a thousand of them at once.
PAUSE_MAX_S = 5.0
#: After a refusal, or with an expired certificate: limits logging and load on both sides while the cause lasts for
#: hours.
REFUSED_PAUSE_MAX_S = 30.0
REGISTER_TIMEOUT_S = 20.0
#: How long the registration waits for a controller that does not greet (one of an earlier release).
GREETING_TIMEOUT_S = 10.0
HEARTBEAT_DEFAULT_S = 10.0
#: Time limit of a check of the controller's ports.
PROBE_TIMEOUT_S = 3.0
#: Interval of these checks: well below the shortest lease.
PROBE_PAUSE_S = 4.0
#: Heartbeats without an answer after which the stream counts as lost.
SILENT_HEARTBEATS_MAX = 3
MESSAGE_BYTES_MAX = 16 * 1024 * 1024
#: Messages waiting to be sent. The core's reports are bounded; beyond this the stream is stuck and is given up.
OUTBOX_MAX = 200_000
#: Messages in one bundle: reports and acknowledgements are below a kilobyte or two each, but a report of all GPUs is not.
BUNDLE_MESSAGES_MAX = 256
BUNDLE_BYTES_MAX = 1024 * 1024
#: Delay of a plain acceptance, so that it can be bundled.
ACK_PAUSE_S = 0.02

#: Causes that are counted while they repeat.
WELCOME, LOSS = "welcome", "loss"
#: Statuses with which a controller refuses this node.
_REFUSALS = (
    grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.NOT_FOUND,
)  # fmt: skip
_EOF: object = grpc.aio.EOF  # type: ignore[attr-defined]
_OPTIONS = (
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.use_local_subchannel_pool", 1),  # each attempt opens a new connection
)


async def _greeted(greeting: Awaitable[object]) -> None:
    """Waits until the controller has taken the call; its failure is reported by the next use of the call."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(GREETING_TIMEOUT_S):
            await greeting


class LinkError(Exception):
    """The stream cannot be used; the text goes to the log."""


class RefusedError(LinkError):
    """One side rejects the other, and would do so again at once."""


class BadCredentials(Exception):
    """The certificate folder cannot be used."""


@dataclass(frozen=True)
class LinkTarget:
    """The controller's address, and the credentials for it (None = without TLS)."""

    address: str
    credentials: grpc.ChannelCredentials | None
    cert_dir: str | None = None

    def now(self) -> "LinkTarget":
        """The target with the present certificate of the folder: it is renewed while we run. Raises BadCredentials."""
        if self.cert_dir is None:
            return self
        if ended := _ended(self.cert_dir):
            raise BadCredentials(ended)
        return make_target(self.address, self.cert_dir)


def make_target(address: str, cert_dir: str | None) -> LinkTarget:
    """`unix:PATH`, or HOST:PORT with the certificates of a folder. No folder: without TLS (test set-ups)."""
    if address.startswith("unix:") or cert_dir is None:
        return LinkTarget(address, None)
    parts = [_read_pem(os.path.join(cert_dir, name)) for name in ("ca.pem", "node.key", "node.pem")]
    return LinkTarget(address, grpc.ssl_channel_credentials(*parts), cert_dir)


def _read_pem(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            if path.endswith(".key") and mode & 0o077:
                raise BadCredentials(f"{path}: readable by others (mode {mode:04o}); run: chmod 600 {path}")
            return file.read()
    except OSError as error:
        hint = "join the cluster with `penstock noded --join -`, or name the folder with --cert-dir"
        raise BadCredentials(f"{path}: {error.strerror}; {hint}") from error


def _ended(cert_dir: str) -> str:
    """Returns why the node's certificate is no longer valid; "" = it is. Raises BadCredentials."""
    from nodedaemon.daemon.renewal import (
        wall_us,  # imports `cryptography`, which a daemon without certificates does not need
    )
    from penstock.errors import BadSetup
    from penstock.security import ca, renew

    try:
        certificate = ca.parse_certificate(_read_pem(os.path.join(cert_dir, "node.pem")), cert_dir)
        now_us = wall_us()
        if now_us > renew.end_us(certificate):
            return renew.ended_text(ca.identity_of(certificate), certificate)
        if now_us < renew.begin_us(certificate):
            return renew.early_text(ca.identity_of(certificate), certificate, now_us)
        return ""
    except (BadSetup, ca.BadCertificate) as error:
        raise BadCredentials(str(error)) from error


class Link:
    """Maintains the stream. `post` takes events; `register` makes the first message from the core's present state."""

    def __init__(
        self,
        target: LinkTarget,
        node: wire.NodeFacts,
        register: Callable[[], node_pb2.Register],
        heartbeat: Callable[[], node_pb2.Heartbeat],
        post: Callable[[NodeCoreEvent], None],
        registered: Callable[[node_pb2.Registered], None],
        contact: ControllerContact,
        announced: Callable[[node_pb2.OutputTicket], None],
    ) -> None:
        self._target = target
        self._node = node
        self._register = register
        self._heartbeat = heartbeat
        self._post = post
        self._registered = registered
        self._contact = contact
        self._announced = announced
        self._beats: deque[int] = deque()  # send times of the heartbeats that have not been answered
        self._ports: tuple[str, ...] = (target.address,)  # where a controller would listen: for nodes, and for commands
        self._link = 0  # number of the last stream
        self._call: object = None  # call of the admitted stream
        self._outbox: deque[node_pb2.NodeMessage] = deque()
        self._waiting = asyncio.Event()
        self._ack_timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._received_at = 0.0
        self._given_up: asyncio.Future[None] = self._loop.create_future()  # its exception is the reason
        self._causes = Repeats()

    def send(self, link: int, message: node_pb2.NodeMessage) -> None:
        """Sends on that stream, or drops the message."""
        if link != self._link or self._call is None:
            return
        if len(self._outbox) >= OUTBOX_MAX:
            self.drop(link, f"{OUTBOX_MAX} messages wait to be sent")
            return
        self._outbox.append(message)
        if message.HasField("command_ack") and not message.command_ack.refused:
            if self._ack_timer is None:
                self._ack_timer = self._loop.call_later(
                    ACK_PAUSE_S, self._send_acks
                )  # they mostly travel with a report
        else:
            self._waiting.set()

    def _send_acks(self) -> None:
        self._ack_timer = None
        self._waiting.set()

    def drop(self, link: int, why: str, refused: bool = False) -> None:
        """Closes a stream; another is opened after a pause, which grows each time if this side refuses the
        controller."""
        if link == self._link and self._call is not None and not self._given_up.done():
            self._given_up.set_exception(RefusedError(why) if refused else LinkError(why))

    async def run(self) -> None:
        """Runs until cancelled: opens a stream, serves it, pauses."""
        pause_s = PAUSE_FIRST_S
        while True:
            self._link += 1
            error = await self._attempt(self._link)
            was_admitted = self._call is not None
            self._call = None
            self._outbox.clear()
            if was_admitted:
                self._post(LinkDown(self._link))
            is_refused = _is_refusal(error)
            if was_admitted and not is_refused:
                pause_s = PAUSE_FIRST_S
                self._causes = Repeats()
            if line := self._causes.new(LOSS, _describe(error)):
                log.warning("controller %s: %s; next try in about %.1f s", self._target.address, line, pause_s)
            await self._pause(pause_s * random.uniform(0.5, 1.5))  # noqa: S311 (spreads the nodes, protects nothing)
            pause_s = min(pause_s * 2, REFUSED_PAUSE_MAX_S if is_refused else PAUSE_MAX_S)

    async def _attempt(self, link: int) -> BaseException:
        """Runs one stream, from the connection to its end; returns the error.

        It has a task of its own, because a task group that ends with an error drops a cancellation that comes at the
        same time, and leaves its own request to cancel behind (seen with Python 3.11).
        """
        self._given_up = self._loop.create_future()
        stream = self._loop.create_task(self._outcome(link))
        try:
            await asyncio.wait([stream])
        except asyncio.CancelledError:  # the daemon is stopping
            stream.cancel()
            await asyncio.wait([stream])
            raise
        finally:
            if self._given_up.done():
                self._given_up.exception()  # marks it as retrieved
            else:
                self._given_up.cancel()
        if stream.cancelled():
            return LinkError("the stream was cancelled")  # gRPC's term for a call that this side ended
        return stream.result()

    async def _outcome(self, link: int) -> BaseException:
        error: BaseException = LinkError("closed by the controller")
        try:
            await self._session(link)
        except* (grpc.aio.AioRpcError, LinkError, BadCredentials, asyncio.InvalidStateError, TimeoutError) as group:
            error = next(_leaves(group))
        return error

    async def _pause(self, pause_s: float) -> None:
        """Waits before the next attempt, and checks now and then whether there is a controller at all."""
        until_s = self._loop.time() + pause_s
        while (left_s := until_s - self._loop.time()) > 0:
            checked_at_ns = lease.now_ns()
            if await refuse_connections(self._ports):
                self._contact.no_controller(checked_at_ns)
            await asyncio.sleep(min(max(until_s - self._loop.time(), 0), left_s, PROBE_PAUSE_S))

    async def _session(self, link: int) -> None:
        async with open_channel(self._target) as channel:
            call = node_pb2_grpc.NodeLinkStub(channel).Connect()
            try:
                async with asyncio.timeout(REGISTER_TIMEOUT_S):
                    await _greeted(call.initial_metadata())
                    sent_at_ns = lease.now_ns()
                    await call.write(node_pb2.NodeMessage(register=self._register()))
                    answer = await call.read()
                registered = _registered(answer)
                self._contact.renew(sent_at_ns)
                self._admitted(link, call, registered)
                for message in answer.more:  # commands may travel with the answer
                    self._take(link, message)
                interval_s = registered.heartbeat_interval_ms / 1000 or HEARTBEAT_DEFAULT_S
                async with asyncio.TaskGroup() as tasks:
                    work = (self._write(call), self._beat(interval_s), self._check_stream())
                    side = [tasks.create_task(one) for one in work]
                    await self._read(link, call)
                    for task in side:
                        task.cancel()
            finally:
                call.cancel()

    def _admitted(self, link: int, call: object, registered: node_pb2.Registered) -> None:
        self._call = call
        self._outbox.clear()
        self._beats.clear()
        self._send_beat()  # before all reports: its time corrects that of a registration that had to wait
        if registered.command_port and not self._target.address.startswith("unix:"):
            host = self._target.address.rpartition(":")[0]
            self._ports = (self._target.address, f"{host}:{registered.command_port}")
        self._received_at = asyncio.get_running_loop().time()
        self._registered(registered)
        timeout_us = registered.unkillable_step_timeout_s * 1_000_000
        registered.settings.kill_wait_s = registered.settings.kill_wait_s or registered.kill_wait_s
        self._take_settings(registered.settings)
        self._post(LinkUp(link, registered.epoch, timeout_us))
        if line := self._causes.new(WELCOME, f"cluster {registered.cluster_name}, epoch {registered.epoch}"):
            log.info("registered with %s", line)

    async def _check_stream(self) -> None:
        """Raises the error for which the stream is given up."""
        await asyncio.shield(self._given_up)

    async def _read(self, link: int, call: Any) -> None:
        loop = asyncio.get_running_loop()
        while (bundle := await call.read()) is not _EOF:
            self._received_at = loop.time()
            for message in (bundle, *bundle.more):
                self._take(link, message)

    def _take(self, link: int, message: node_pb2.ControllerMessage) -> None:
        kind = message.WhichOneof("kind")
        if kind == "command":
            event = wire.command_event(link, message.command, self._node)
            if event is None:
                raise RefusedError(f"command {message.command.sequence} is of a kind that this version does not know")
            self._post(event)
        elif kind == "settings":
            self._take_settings(message.settings)
        elif kind == "report_ack":
            self._post(ReportsAcked(message.report_ack.spool_id, message.report_ack.through_sequence))
        elif kind == "heartbeat_ack" and self._beats:
            self._contact.renew(self._beats.popleft())
        elif kind == "output":
            self._announced(message.output)
        elif kind == "farewell":
            self._contact.rest()

    def _take_settings(self, settings: node_pb2.NodeSettings) -> None:
        for line in self._node.site.take(settings):
            log.warning("%s", line, extra={"event": "setting_not_honoured"})

    async def _write(self, call: Any) -> None:
        """Sends waiting messages; those that are ready together are bundled."""
        while True:
            await self._waiting.wait()
            self._waiting.clear()
            while self._outbox:
                bundle = self._outbox.popleft()
                size_bytes = bundle.ByteSize()
                while self._outbox and len(bundle.more) < BUNDLE_MESSAGES_MAX and size_bytes < BUNDLE_BYTES_MAX:
                    size_bytes += self._outbox[0].ByteSize()
                    bundle.more.append(self._outbox.popleft())
                await call.write(bundle)
                if any(message.HasField("report") for message in (bundle, *bundle.more)):
                    crash_point("report.sent")
                else:
                    crash_point("command.acked")

    async def _beat(self, interval_s: float) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(interval_s)
            if loop.time() - self._received_at > interval_s * SILENT_HEARTBEATS_MAX:
                raise LinkError(f"silent for {SILENT_HEARTBEATS_MAX} heartbeats")
            self._send_beat()

    def _send_beat(self) -> None:
        self._outbox.append(node_pb2.NodeMessage(heartbeat=self._heartbeat()))
        self._beats.append(lease.now_ns())
        self._waiting.set()


def open_channel(target: LinkTarget) -> grpc.aio.Channel:
    """Opens a connection; the peer must prove to be a controller."""
    target = target.now()
    if target.credentials is None:
        return grpc.aio.insecure_channel(target.address, options=_OPTIONS)
    return grpc.aio.secure_channel(target.address, target.credentials, options=(*_OPTIONS, *CONTROLLER_OPTIONS))


async def refuse_connections(addresses: tuple[str, ...]) -> bool:
    """True when every one of these refuses connections at once: the machine is up, but no controller runs on it."""
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
    except OSError:  # includes TimeoutError: no answer proves nothing
        return False
    writer.close()
    return False


def _registered(answer: Any) -> node_pb2.Registered:
    if answer is _EOF or not answer.HasField("registered"):
        raise LinkError("the stream ended before it answered the registration")
    registered: node_pb2.Registered = answer.registered
    if registered.refusal:
        raise RefusedError(f"registration refused: {registered.refusal}")
    return registered


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for one in group.exceptions:
        if isinstance(one, BaseExceptionGroup):
            yield from _leaves(one)
        else:
            yield one


def _is_refusal(error: BaseException) -> bool:
    """True for errors that the next attempt would meet again, however soon."""
    if isinstance(error, grpc.aio.AioRpcError):
        return error.code() in _REFUSALS
    return isinstance(error, RefusedError | BadCredentials)  # an administrator must fix our own credentials


def _describe(error: BaseException) -> str:
    if isinstance(error, grpc.aio.AioRpcError):
        return f"{error.code().name}: {error.details()}"
    return str(error) or type(error).__name__
