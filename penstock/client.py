"""A connection of one program to its controller: `call` for one answer, `stream` for pages of them.

    with Client.open() as client:
        reply = client.call("SubmitJob", SubmitJobRequest(...))

On the controller's machine calls go over its call socket, where the kernel reports the caller (`penstock.callsocket`).
Calls from elsewhere, and `follow`, use gRPC: every attempt carries a fresh one-use token from this machine's auth socket,
which identifies the caller by the kernel's peer credentials. With SLURM_JWT in the environment all calls use gRPC and
carry that token instead: the caller is the token's user, from any machine. `penstock.calls` decides what is retried and
which errors are raised; this is its blocking form, and `penstock.aclient.AsyncClient` the one for asyncio programs. The
reply's type is found through the request's descriptor, so no generated service module is imported; and the library grpc
is not either: `penstock.h2call` takes its place, and is imported when it is needed, because a command's start-up time is a
feature.
"""

import math
import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from types import TracebackType

# Any: the reply message of a method, which its callers know
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypeVar

from penstock.calls import (
    CODE_KEY,
    FAILURES,
    MESSAGE_BYTES_MAX,
    NOT_SERVED,
    SILENT_S,
    TIMEOUT_S,
    TOKEN_KEY,
    Attempts,
    CallFailed,
    Contact,
    Rpc,
    final_error,
    find_rpc,
    find_stream,
    ignore_notice,
    own_proof,
)
from penstock.callsocket import CallConnection, dial_calls
from penstock.cluster import find_cluster
from penstock.clusterfile import ClusterFile
from penstock.errors import PenstockError
from penstock.transport import dial, fetch_token, secure, uses_socket
from penstock.values.refusals import TEXT, Code

if TYPE_CHECKING:
    from google.protobuf.message import Message as Message

    from penstock.h2call import Connection
    from penstock.keep import Keeper

T = TypeVar("T")
#: The answer to a call: the message that the service's description names for the method. The method is given by name,
#: so the type checker does not know which; callers that need it annotate it.
ReplyMessage: TypeAlias = Any


class Client:
    """One program's connection. Not for use by several threads at once."""

    #: Holders of connections that outlive a client: only in workers of the command server (cli/commandserver/served.py).
    keeper: "Keeper[Connection] | None" = None
    calls_keeper: "Keeper[CallConnection] | None" = None

    def __init__(
        self, cluster: ClusterFile, timeout_s: float = TIMEOUT_S, *, retry: bool = False, by_token: bool = True
    ) -> None:
        self.cluster = cluster
        self.timeout_s = timeout_s
        self.on_notice: Callable[[str], None] = ignore_notice  # called while the limit of requests makes us wait
        self._proof = own_proof(os.environ, cluster.cluster_name) if by_token else None
        self._contact = Contact(bool(cluster.local), retry)
        self._connection: Connection | None = None
        self._calls: CallConnection | None = None

    @classmethod
    def open(
        cls,
        timeout_s: float = TIMEOUT_S,
        *,
        retry: bool = False,
        cluster: ClusterFile | None = None,
        by_token: bool = True,
    ) -> Self:
        """Finds the cluster, without connecting. `retry`: wait (to the deadline) for a controller that is down.
        `by_token`: False = the kernel proves the user, even if SLURM_JWT is set.
        """
        return cls(cluster or find_cluster(), timeout_s, retry=retry, by_token=by_token)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections. A later call opens a new one."""
        calls = self._calls
        self._calls = None
        if calls is not None and not (self.calls_keeper is not None and self.calls_keeper.keep(calls)):
            calls.close()
        connection = self._connection
        self._connection = None
        if connection is not None and not (self.keeper is not None and self.keeper.keep(connection)):
            connection.close()

    def addressed(self, method: str, request: "Message") -> "Message":
        """Returns what is sent for a request: for a client that reads another cluster, which the request then names."""
        return request

    def call(self, method: str, request: "Message", timeout_s: float | None = None) -> ReplyMessage:
        """Sends one request and returns one answer. timeout_s: None = the client's, math.inf = as long as it takes
        (AwaitJob).
        """
        rpc = find_rpc(method, request)
        body = rpc.serialize(self.addressed(method, request))

        def attempt(connect_s: float, deadline: float) -> object:
            calls = self._connect_calls(connect_s) if not rpc.is_stream else None
            if calls is not None:
                return rpc.deserialize(calls.call(rpc.path, body, deadline, MESSAGE_BYTES_MAX))
            answers = list(self._begin(rpc, body, connect_s, deadline))
            if len(answers) != 1:
                raise PenstockError(Code.INTERNAL, TEXT[Code.INTERNAL], f"{method}: {len(answers)} answers")
            return rpc.deserialize(answers[0])

        return self._persist(attempt, self._attempts(method, timeout_s))

    def stream(self, method: str, request: "Message", timeout_s: float | None = None) -> Iterator[ReplyMessage]:
        """Sends one request and yields the pages of its answer once all have arrived: one that broke off is requested
        again from its first page, so no caller sees a page twice or a part of a listing. The time-out is that of each page:
        a long listing may take longer.
        """
        rpc = find_stream(method, request)
        body = rpc.serialize(self.addressed(method, request))
        page_s = self.timeout_s if timeout_s is None else timeout_s

        def attempt(connect_s: float, deadline: float) -> deque[bytes]:
            if (calls := self._connect_calls(connect_s)) is not None:
                try:
                    return calls.pages(rpc.path, body, page_s, MESSAGE_BYTES_MAX)
                except CallFailed as error:
                    if error.status != NOT_SERVED:  # by a controller of an earlier release
                        raise
            return deque(self._begin(rpc, body, connect_s, math.inf, page_s))

        pages = self._persist(attempt, self._attempts(method, timeout_s))
        while pages:
            yield rpc.deserialize(pages.popleft())

    def follow(self, method: str, request: "Message") -> Iterator[ReplyMessage]:
        """Sends one request and yields messages as they arrive, without an end (Watch). Nothing is sent again: raises
        Unreachable when the controller goes away, or is silent.
        """
        rpc = find_stream(method, request)
        body = rpc.serialize(self.addressed(method, request))

        def attempt(connect_s: float, deadline: float) -> tuple[bytes | None, Iterator[bytes]]:
            messages = self._begin(rpc, body, connect_s, math.inf, SILENT_S)
            return next(messages, None), messages

        first, messages = self._persist(attempt, self._attempts(method, None))
        if first is None:
            return
        yield rpc.deserialize(first)
        try:
            for message in messages:
                yield rpc.deserialize(message)
        except CallFailed as error:
            raise final_error(error) from error

    def _attempts(self, method: str, timeout_s: float | None) -> Attempts:
        deadline = time.monotonic() + (self.timeout_s if timeout_s is None else timeout_s)
        return Attempts(method, self._contact, deadline)

    def _persist(self, attempt: Callable[[float, float], T], attempts: Attempts) -> T:
        """Repeats the attempt until it succeeds, is refused, or the time is up."""
        while True:
            try:
                result = attempt(attempts.connect_s(time.monotonic()), attempts.deadline)
            except FAILURES as error:
                pause = attempts.failed(error, time.monotonic())
            else:
                attempts.succeeded()
                return result
            if pause.notice:
                self.on_notice(pause.notice)
            if pause.reconnect:
                self._drop()
            time.sleep(pause.pause_s)

    def _connect_calls(self, timeout_s: float) -> CallConnection | None:
        """Returns the connection to the call socket; None: this cluster offers none here, or a token proves the user."""
        if self._proof is not None:
            return None
        if self._calls is not None and not self._calls.usable():
            self._drop()
        if self._calls is None and self.calls_keeper is not None:
            self._calls = self.calls_keeper.take(self.cluster)
        if self._calls is None and (wire := dial_calls(self.cluster, timeout_s)) is not None:
            if self.calls_keeper is not None:
                wire = self.calls_keeper.reserve_number(wire, self.cluster)
            self._calls = CallConnection(wire)
        return self._calls

    def _begin(
        self, rpc: Rpc, body: bytes, connect_s: float, deadline: float, silent_s: float = math.inf
    ) -> Iterator[bytes]:
        proof = self._proof or ((TOKEN_KEY, fetch_token(self.cluster.auth_socket, connect_s)),)
        connection = self._connect(deadline)
        return connection.call(rpc.path, body, proof, deadline, MESSAGE_BYTES_MAX, silent_s)

    def _connect(self, deadline: float) -> "Connection":
        from penstock.h2call import Connection

        if self._connection is not None and not self._connection.usable():
            self._drop()
        if self._connection is None and self.keeper is not None:
            self._connection = self.keeper.take(self.cluster)
        if self._connection is None:
            timeout_s = min(deadline - time.monotonic(), TIMEOUT_S)
            wire = dial(self.cluster, timeout_s)
            if self.keeper is not None:
                wire = self.keeper.reserve_number(wire, self.cluster)
            if uses_socket(self.cluster):
                self._connection = Connection(wire, "localhost", CODE_KEY)
            else:
                wire = secure(wire, self.cluster, timeout_s)
                self._connection = Connection(wire, self.cluster.address, CODE_KEY, secure=True)
        return self._connection

    def _drop(self) -> None:
        """Closes the connections, whatever their state."""
        for connection in (self._connection, self._calls):
            if connection is not None:
                connection.close()
        self._connection = None
        self._calls = None
