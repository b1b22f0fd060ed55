"""A connection of one program to its controller: `call` for one answer, `stream` for pages of them.

    with Client.open() as client:
        reply = client.call("SubmitJob", SubmitJobRequest(...))

Every attempt carries a fresh one-use token from this machine's auth socket, which knows the caller by the kernel's
word. The reply's type is found through the request's descriptor, so no generated service module is imported; and the
library grpc is not either (`penstock.h2call` takes its place), because a command's start-up time is a feature.

Trying again. An answer of UNAVAILABLE (the controller restarts, or broke off in the middle) is tried again with growing
pauses until the deadline; also for SubmitJob, whose request_key makes that safe. A controller that nobody has seen yet
in this program is another matter: if it refuses connections, a person wants to know at once, so this fails quickly
unless `retry` is asked for. A stream is tried again only before its first page. A refusal is never tried again.

`penstock.aclient.AsyncClient` is the same for asyncio programs (also reachable from here by name).
"""

import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self, TypeVar

from penstock.cluster import ClusterFile, find_cluster
from penstock.errors import CONNECT_FAILURE_TEXT, RECEIVE_FAILURE, RECEIVE_FAILURE_TEXT, PenstockError, Unreachable
from penstock.h2call import CallFailed, Connection
from penstock.values.refusals import TEXT, Code

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from penstock.aclient import AsyncClient as AsyncClient
    from penstock.keep import Keeper

T = TypeVar("T")

TIMEOUT_S: Final = 10.0
PAUSE_FIRST_S: Final = 0.05
#: A user who asks more than the site allows waits this long in all; time spent so does not count to a deadline.
LIMITED_MAX_S: Final = 600.0
LIMITED_TEXT: Final = "RPC rate limited {} time(s). Sleeping for {:.1f} seconds then trying again."
PAUSE_MAX_S: Final = 1.0  # a restarted controller is found within a second of its being there
#: For the owner of a cluster that `penstock up` made.
LOCAL_HINT: Final = "; `penstock up` starts what is not running"
#: A token is some 800 bytes; more than this is not a token.
TOKEN_BYTES_MAX: Final = 4096
#: A script (4 MiB) with its environment (1 MiB) fits with room for growth; the server's limits are the strict ones.
MESSAGE_BYTES_MAX: Final = 64 * 1024 * 1024
TOKEN_KEY: Final = "penstock-token-bin"  # noqa: S105 (a metadata key)
CODE_KEY: Final = "penstock-code"
DISTRUST_TEXT: Final = "The controller's certificate is not one of this cluster's"
#: A connection over which nothing comes for this long is looked after, so that a call without a deadline ends when the
#: controller's machine is gone.
KEEPALIVE_S: Final = 30

CHANNEL_OPTIONS: Final = (
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    ("grpc.enable_http_proxy", 0),  # a user's http_proxy is not meant for the controller
    ("grpc.enable_retries", 0),  # tokens are for one use; trying again is done here
    ("grpc.use_local_subchannel_pool", 1),  # a new channel starts without the old one's back-off
)

#: Statuses that come without a refusal's number: from gRPC itself, or from something that is not our controller.
_CODE_OF_STATUS: Final = {
    "UNAUTHENTICATED": Code.ACCESS_DENIED,
    "PERMISSION_DENIED": Code.ACCESS_DENIED,
    "INVALID_ARGUMENT": Code.INVALID_VALUE,
    "UNIMPLEMENTED": Code.NOT_SUPPORTED,
    "RESOURCE_EXHAUSTED": Code.BUSY,
}

#: gRPC reports a certificate that it will not trust as UNAVAILABLE, in these words of its libraries. Waiting does not
#: help then. Only the quick and clear answer depends on them: an unknown wording ends at the deadline instead.
_DISTRUST_WORDS: Final = ("CERTIFICATE_VERIFY_FAILED", "certificate signature failure", "Hostname Verification")


class TryAgain(Exception):
    """An attempt failed in a way that may pass. `seen`: a controller was there, so it is worth waiting for it.

    `pause_s`: the controller itself says when to ask again (its limit of requests); 0 = it does not.
    """

    def __init__(self, error: PenstockError, seen: bool, pause_s: float = 0.0) -> None:
        super().__init__(error.text)
        self.error = error
        self.seen = seen
        self.pause_s = pause_s


class Client:
    """One program's connection. Not for use by several threads at once."""

    #: Where connections go that outlive a client: only in workers of the command server (cli/served.py).
    keeper: "Keeper | None" = None

    def __init__(self, cluster: ClusterFile, timeout_s: float = TIMEOUT_S, *, retry: bool = False) -> None:
        self.cluster = cluster
        self.timeout_s = timeout_s
        self._patient = retry
        self._connection: Connection | None = None
        self.tell: Callable[[str], None] = _nobody  # told when the controller's limit of requests makes us wait

    @classmethod
    def open(cls, timeout_s: float = TIMEOUT_S, *, retry: bool = False, cluster: ClusterFile | None = None) -> Self:
        """Find the cluster; nothing is sent yet. `retry`: wait (to the deadline) for a controller that is away."""
        return cls(cluster or find_cluster(), timeout_s, retry=retry)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Done with the connection. A later call makes a new one."""
        connection, self._connection = self._connection, None
        if connection is not None and not (self.keeper is not None and self.keeper.keep(connection)):
            connection.close()

    def _drop(self) -> None:
        """Whatever state the connection is in, nobody uses it again."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def call(self, method: str, request: "Message", timeout_s: float | None = None) -> Any:
        """One request, one answer. timeout_s: None = the client's, math.inf = as long as it takes (AwaitJob)."""
        rpc = find_rpc(method, request)
        body = rpc.serialize(request)

        def attempt(token: bytes, deadline: float) -> Any:
            answers = list(self._begin(rpc, body, token, deadline))
            if len(answers) != 1:
                raise PenstockError(Code.INTERNAL, TEXT[Code.INTERNAL], f"{method}: {len(answers)} answers")
            return rpc.deserialize(answers[0])

        return self._persist(attempt, self._deadline(timeout_s))

    def stream(self, method: str, request: "Message", timeout_s: float | None = None) -> Iterator[Any]:
        """One request, pages of answers."""
        rpc = find_rpc(method, request)
        if not rpc.is_stream:
            raise ValueError(f"{method} answers once: use call()")
        body = rpc.serialize(request)

        def attempt(token: bytes, deadline: float) -> tuple[bytes | None, Iterator[bytes]]:
            pages = self._begin(rpc, body, token, deadline)
            return next(pages, None), pages

        first, pages = self._persist(attempt, self._deadline(timeout_s))
        if first is None:
            return
        yield rpc.deserialize(first)
        try:
            for page in pages:
                yield rpc.deserialize(page)
        except CallFailed as error:
            try:
                raise_for_status(error.status, error.details, error.code, error)
            except TryAgain as broken:
                raise broken.error from error

    def _begin(self, rpc: "Rpc", body: bytes, token: bytes, deadline: float) -> Iterator[bytes]:
        connection = self._connect(deadline)
        return connection.call(rpc.path, body, ((TOKEN_KEY, token),), deadline, MESSAGE_BYTES_MAX)

    def _deadline(self, timeout_s: float | None) -> float:
        return time.monotonic() + (self.timeout_s if timeout_s is None else timeout_s)

    def _persist(self, attempt: Callable[[bytes, float], T], deadline: float) -> T:
        """Make the attempt until it succeeds, is refused, or the time is up."""
        pause_s = PAUSE_FIRST_S
        limited, limited_s = 0, 0.0
        while True:
            try:
                return self._attempt(attempt, deadline)
            except TryAgain as failed:
                if failed.pause_s:
                    if limited_s + failed.pause_s > LIMITED_MAX_S:
                        raise failed.error from failed
                    limited, limited_s, deadline = limited + 1, limited_s + failed.pause_s, deadline + failed.pause_s
                    self.tell(LIMITED_TEXT.format(limited, failed.pause_s))
                    time.sleep(failed.pause_s)
                    continue
                self._patient = self._patient or failed.seen
                if not self._patient or time.monotonic() + pause_s >= deadline:
                    if self.cluster.local and not self._patient:
                        failed.error.detail += LOCAL_HINT
                    raise failed.error from failed
            self._drop()
            time.sleep(pause_s)
            pause_s = min(pause_s * 1.7, PAUSE_MAX_S)

    def _attempt(self, attempt: Callable[[bytes, float], T], deadline: float) -> T:
        token = fetch_token(self.cluster.auth_socket, min(deadline - time.monotonic(), TIMEOUT_S))
        try:
            result = attempt(token, deadline)
        except CallFailed as error:
            raise_for_status(error.status, error.details, error.code, error)
        self._patient = True
        return result

    def _connect(self, deadline: float) -> Connection:
        if self._connection is not None and not self._connection.usable():
            self._drop()
        if self._connection is None and self.keeper is not None:
            self._connection = self.keeper.take(self.cluster)
        if self._connection is None:
            timeout_s = min(deadline - time.monotonic(), TIMEOUT_S)
            wire = dial(self.cluster, timeout_s)
            if self.keeper is not None:
                wire = self.keeper.place(wire, self.cluster)
            if uses_socket(self.cluster):
                self._connection = Connection(wire, "localhost", CODE_KEY)
            else:
                wire = secure(wire, self.cluster, timeout_s)
                self._connection = Connection(wire, self.cluster.address, CODE_KEY, secure=True)
        return self._connection


def _nobody(text: str) -> None:
    """Whoever wants to know that we wait says so (Client.tell)."""


class Rpc:
    """Where a method is and how its messages are read and written."""

    __slots__ = ("deserialize", "is_stream", "path", "serialize")

    def __init__(self, path: str, serialize: Any, deserialize: Any, is_stream: bool) -> None:
        self.path = path
        self.serialize = serialize
        self.deserialize = deserialize
        self.is_stream = is_stream


def find_rpc(method: str, request: "Message") -> Rpc:
    """Look the method up among the services of the file that declares the request."""
    from google.protobuf.message_factory import GetMessageClass

    kind: Any = request.DESCRIPTOR
    for service in kind.file.services_by_name.values():
        found = service.methods_by_name.get(method)
        if found is not None and found.input_type is kind:
            path = f"/{service.full_name}/{method}"
            reply = GetMessageClass(found.output_type)
            return Rpc(path, type(request).SerializeToString, reply.FromString, bool(found.server_streaming))
    raise ValueError(f"no method {method} takes a {kind.name}")


def make_messages() -> None:
    """Make the message classes of all methods whose files are imported: for a process that will fork callers."""
    from google.protobuf.message_factory import GetMessageClass

    files = [m for name, m in sorted(sys.modules.items()) if name.startswith("penstock.v1.") and name.endswith("_pb2")]
    for service in (s for file in files for s in file.DESCRIPTOR.services_by_name.values()):
        for method in service.methods:
            GetMessageClass(method.input_type)
            GetMessageClass(method.output_type)


def new_request_key(now_us: int, random: bytes) -> str:
    """A UUID version 7 in hex: 48 bits of milliseconds, then 74 random bits (10 bytes are used)."""
    if len(random) < 10:
        raise ValueError("10 random bytes are needed")
    tail = int.from_bytes(random[:10], "big")
    high = (now_us // 1000 & 0xFFFFFFFFFFFF) << 16 | 0x7000 | tail >> 64 & 0xFFF
    low = 0x8000000000000000 | tail & 0x3FFFFFFFFFFFFFFF
    return f"{high:016x}{low:016x}"


def time_left(deadline: float) -> float | None:
    """Seconds until the deadline for gRPC, which knows "no deadline" as None."""
    left_s = deadline - time.monotonic()
    return None if left_s == float("inf") else max(left_s, 0.001)


def uses_socket(cluster: ClusterFile) -> bool:
    """The controller's Unix socket serves when it is on this machine, or when there is nothing else."""
    return bool(cluster.socket) and (os.path.exists(cluster.socket) or not cluster.address)


def fetch_token(auth_socket: str, timeout_s: float) -> bytes:
    """Connect, read until the end: the other side says nothing but the token, and is told nothing."""
    if not auth_socket:
        raise PenstockError(Code.CONFIG_INVALID, "the cluster file names no auth_socket: this machine gives no tokens")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as connection:
        connection.settimeout(max(timeout_s, 0.001))
        try:
            connection.connect(auth_socket)
            token = connection.recv(TOKEN_BYTES_MAX)
            while token and (more := connection.recv(TOKEN_BYTES_MAX)):
                token += more
                if len(token) > TOKEN_BYTES_MAX:
                    raise PenstockError(Code.INTERNAL, f"{auth_socket}: answers more than a token")
        except OSError as error:
            raise_for_socket(error, auth_socket)
    if not token:
        raise TryAgain(Unreachable(detail=f"{auth_socket}: gave no token"), seen=True)
    return token


def raise_for_socket(error: OSError, where: str) -> NoReturn:
    """Nobody listens, no answer in time: unreachable, and may pass. A forbidden path does not."""
    detail = f"{where}: {error.strerror or error}"
    if isinstance(error, PermissionError):
        raise PenstockError(Code.ACCESS_DENIED, TEXT[Code.ACCESS_DENIED], detail) from error
    raise TryAgain(Unreachable(detail=detail), seen=isinstance(error, ConnectionResetError)) from error


def dial(cluster: ClusterFile, timeout_s: float) -> socket.socket:
    """A connection to where the controller should be. Raises TryAgain when nobody listens there."""
    where = cluster.socket if uses_socket(cluster) else cluster.address
    try:
        if not uses_socket(cluster):
            wire = socket.create_connection(split_address(cluster.address), max(timeout_s, 0.001))
            wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_S)
            return wire
        wire = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            wire.settimeout(max(timeout_s, 0.001))
            wire.connect(where)
        except BaseException:
            wire.close()
            raise
        return wire
    except OSError as error:
        raise_for_socket(error, where)


def secure(wire: socket.socket, cluster: ClusterFile, timeout_s: float) -> socket.socket:
    """TLS over a connection: the other side proves with the cluster's CA that it is the controller of that name."""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # checks the certificate and its name
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.set_alpn_protocols(["h2"])
    try:
        context.load_verify_locations(cadata=read_ca(cluster).decode("ascii", "replace"))
        wire.settimeout(max(timeout_s, 0.001))
        return context.wrap_socket(wire, server_hostname=split_address(cluster.address)[0])
    except ssl.SSLCertVerificationError as error:
        wire.close()
        raise PenstockError(Code.ACCESS_DENIED, DISTRUST_TEXT, str(error)) from error
    except OSError as error:
        wire.close()
        raise_for_socket(error, cluster.address)


def split_address(address: str) -> tuple[str, int]:
    """host:port, with IPv6 hosts in brackets."""
    host, _, port = address.rpartition(":")
    if not host or not port.isascii() or not port.isdigit():
        raise PenstockError(Code.CONFIG_INVALID, f"the cluster file's address {address!r} is not host:port")
    return host.removeprefix("[").removesuffix("]"), int(port)


def read_ca(cluster: ClusterFile) -> bytes:
    """The certificate that the controller's must be signed with."""
    try:
        with open(cluster.ca, "rb") as file:
            return file.read(TOKEN_BYTES_MAX * 16)
    except OSError as error:
        text = f"{cluster.ca or 'the cluster file names no ca, which'}: cannot be read: {error.strerror}"
        raise PenstockError(Code.CONFIG_INVALID, text) from error


def quiet_grpc() -> None:
    """Keep gRPC's own log lines off a command's stderr. By putenv: a job's environment (os.environ) stays clean."""
    if "GRPC_VERBOSITY" not in os.environ:
        os.putenv("GRPC_VERBOSITY", "NONE")


def raise_for(error: Any) -> NoReturn:
    """Translate an error of the library grpc, for those who use it."""
    number = next((v for k, v in error.trailing_metadata() or () if k == CODE_KEY), "")
    raise_for_status(error.code().name, error.details() or "", str(number), error)


def raise_for_status(status: str, details: str, number: str, error: Exception) -> NoReturn:
    """TryAgain for what may pass, PenstockError for a refusal, Unreachable for silence."""
    if status == "UNAVAILABLE":
        if any(words in details for words in _DISTRUST_WORDS):
            raise PenstockError(Code.ACCESS_DENIED, DISTRUST_TEXT, details) from error
        raise TryAgain(Unreachable(CONNECT_FAILURE_TEXT, details), seen=True) from error
    if status == "DEADLINE_EXCEEDED":
        raise Unreachable(RECEIVE_FAILURE_TEXT, details, RECEIVE_FAILURE) from error
    if number.isascii() and number.isdigit():
        refusal = PenstockError(int(number), details)
        if refusal.code == Code.RATE_LIMITED:
            raise TryAgain(refusal, seen=True, pause_s=_pause_s(details)) from error
        raise refusal from error
    code = _CODE_OF_STATUS.get(status, Code.INTERNAL)
    raise PenstockError(code, TEXT[code], details) from error


def _pause_s(details: str) -> float:
    """When to ask again, out of the words of a refusal: milliseconds stand at their end."""
    digits = details.rpartition(": ")[2]
    return min(int(digits), 60_000) / 1000 if digits.isascii() and digits.isdigit() else PAUSE_MAX_S


def __getattr__(name: str) -> Any:
    """`penstock.client.AsyncClient` without the price of asyncio for those who do not use it."""
    if name == "AsyncClient":
        from penstock.aclient import AsyncClient

        return AsyncClient
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
