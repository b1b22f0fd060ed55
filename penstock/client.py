"""A connection of one program to its controller: `call` for one answer, `stream` for pages of them.

    with Client.open() as client:
        reply = client.call("SubmitJob", SubmitJobRequest(...))

Every attempt carries a fresh one-use token from this machine's auth socket, which knows the caller by the kernel's
word. The reply's type is found through the request's descriptor, so no generated service module is imported; gRPC
itself is imported at the first call, because a command's start-up time is a feature.

Trying again. An answer of UNAVAILABLE (the controller restarts, or broke off in the middle) is tried again with growing
pauses until the deadline; also for SubmitJob, whose request_key makes that safe. A controller that nobody has seen yet
in this program is another matter: if it refuses connections, a person wants to know at once, so this fails quickly
unless `retry` is asked for. A stream is tried again only before its first page. A refusal is never tried again.

`penstock.aclient.AsyncClient` is the same for asyncio programs (also reachable from here by name).
"""

import os
import socket
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self, TypeVar

from penstock.cluster import ClusterFile, find_cluster
from penstock.errors import CONNECT_FAILURE_TEXT, RECEIVE_FAILURE, RECEIVE_FAILURE_TEXT, PenstockError, Unreachable
from penstock.values.refusals import TEXT, Code

if TYPE_CHECKING:
    import grpc
    from google.protobuf.message import Message

    from penstock.aclient import AsyncClient as AsyncClient

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

    def __init__(self, cluster: ClusterFile, timeout_s: float = TIMEOUT_S, *, retry: bool = False) -> None:
        self.cluster = cluster
        self.timeout_s = timeout_s
        self._patient = retry
        self.tell: Callable[[str], None] = _nobody  # told when the controller's limit of requests makes us wait
        self._channel: grpc.Channel | None = None

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
        """Drop the connection. A later call makes a new one."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def call(self, method: str, request: "Message", timeout_s: float | None = None) -> Any:
        """One request, one answer. timeout_s: None = the client's, math.inf = as long as it takes (AwaitJob)."""
        rpc = find_rpc(method, request)

        def attempt(left_s: float | None, token: bytes) -> Any:
            stub = self._connect().unary_unary(rpc.path, rpc.serialize, rpc.deserialize)
            return stub(request, timeout=left_s, metadata=((TOKEN_KEY, token),))

        return self._persist(attempt, self._deadline(timeout_s))

    def stream(self, method: str, request: "Message", timeout_s: float | None = None) -> Iterator[Any]:
        """One request, pages of answers."""
        rpc = find_rpc(method, request)
        if not rpc.is_stream:
            raise ValueError(f"{method} answers once: use call()")

        def attempt(left_s: float | None, token: bytes) -> tuple[Any, Any]:
            stub = self._connect().unary_stream(rpc.path, rpc.serialize, rpc.deserialize)
            pages: Any = stub(request, timeout=left_s, metadata=((TOKEN_KEY, token),))
            return next(pages, None), pages

        first, pages = self._persist(attempt, self._deadline(timeout_s))
        if first is None:
            return
        yield first
        import grpc

        try:
            yield from pages
        except grpc.RpcError as error:
            try:
                raise_for(error)
            except TryAgain as broken:
                raise broken.error from error
        finally:
            pages.cancel()

    def _deadline(self, timeout_s: float | None) -> float:
        return time.monotonic() + (self.timeout_s if timeout_s is None else timeout_s)

    def _persist(self, attempt: Callable[[float | None, bytes], T], deadline: float) -> T:
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
            self.close()
            time.sleep(pause_s)
            pause_s = min(pause_s * 1.7, PAUSE_MAX_S)

    def _attempt(self, attempt: Callable[[float | None, bytes], T], deadline: float) -> T:
        left_s = deadline - time.monotonic()
        token = fetch_token(self.cluster.auth_socket, min(left_s, TIMEOUT_S))
        if not self._patient and self._channel is None:
            look(self.cluster, min(left_s, TIMEOUT_S))
        quiet_grpc()
        import grpc

        try:
            result = attempt(time_left(deadline), token)
        except grpc.RpcError as error:
            raise_for(error)
        self._patient = True
        return result

    def _connect(self) -> "grpc.Channel":
        if self._channel is None:
            import grpc

            if uses_socket(self.cluster):
                self._channel = grpc.insecure_channel(f"unix:{self.cluster.socket}", options=CHANNEL_OPTIONS)
            else:
                from penstock.security.tls import client_channel

                credentials = client_channel(read_ca(self.cluster))
                self._channel = grpc.secure_channel(self.cluster.address, credentials, options=CHANNEL_OPTIONS)
        return self._channel


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


def look(cluster: ClusterFile, timeout_s: float) -> None:
    """See whether anybody listens where the controller should be. Tells "not there" from "there, but not now"."""
    try:
        if uses_socket(cluster):
            where = cluster.socket
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
                connection.settimeout(max(timeout_s, 0.001))
                connection.connect(cluster.socket)
        else:
            where = cluster.address
            socket.create_connection(split_address(cluster.address), max(timeout_s, 0.001)).close()
    except OSError as error:
        raise_for_socket(error, where)


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
    """Translate a gRPC error: TryAgain for what may pass, PenstockError for a refusal, Unreachable for silence."""
    status: str = error.code().name
    details: str = error.details() or ""
    number = next((v for k, v in error.trailing_metadata() or () if k == CODE_KEY), None)
    if status == "UNAVAILABLE":
        if any(words in details for words in _DISTRUST_WORDS):
            text = "The controller's certificate is not one of this cluster's"
            raise PenstockError(Code.ACCESS_DENIED, text, details) from error
        raise TryAgain(Unreachable(CONNECT_FAILURE_TEXT, details), seen=True) from error
    if status == "DEADLINE_EXCEEDED":
        raise Unreachable(RECEIVE_FAILURE_TEXT, details, RECEIVE_FAILURE) from error
    if number is not None and str(number).isdigit():
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
