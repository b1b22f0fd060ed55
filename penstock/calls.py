"""The retry and failover rules of one request over all its attempts, without I/O: both clients follow them.

`penstock.client` and `penstock.aclient` do the I/O; this module decides what they send, when they retry and what they
raise.

Retries. An answer of UNAVAILABLE (the controller restarts, or died in the middle) or CANCELLED (gRPC ended the call by
itself, as it does to some while another user's thousands arrive) is retried with growing pauses until the deadline, even
for methods that change something, unless they are not idempotent (penstock/lost.py, which also defines the outcome of a
request whose answer was lost). If no call of this program has reached the controller yet and it refuses connections, the
call fails quickly unless `retry` is set. An answer in pages that breaks off is requested again from its first page. A
refusal is never retried, with one exception: a controller that limits requests sends a pause, which does not count
towards the deadline.

    attempts = Attempts(method, contact, deadline)
    while True:
        try:                      # a fresh token, for it is for one use; then the call
            ...
        except FAILURES as error:
            pause = attempts.failed(error, now)      # raises the caller's error, when it is over
            ...                   # wait for pause.pause_s
        else:
            attempts.succeeded()
"""

import sys
from functools import cache

# Any: the reply message of a method, which its callers know
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, cast

from penstock.errors import (
    CONNECT_FAILURE_TEXT,
    RECEIVE_FAILURE,
    RECEIVE_FAILURE_TEXT,
    NotProven,
    PenstockError,
    Unreachable,
)
from penstock.lost import CallOutcome
from penstock.values.refusals import TEXT, Code

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping
    from typing import TypeAlias

    from google.protobuf.message import Message

    #: Metadata of a call that proves its user.
    Proof: TypeAlias = tuple[tuple[str, str | bytes], ...]

TIMEOUT_S: Final = 10.0
PAUSE_FIRST_S: Final = 0.05
PAUSE_GROWTH: Final = 1.7
PAUSE_MAX_S: Final = 1.0  # a restarted controller is found within a second
#: Longest total wait of a user who sends more requests than the site allows; it does not count towards a deadline.
LIMITED_MAX_S: Final = 600.0
LIMITED_TEXT: Final = "RPC rate limited {} time(s). Sleeping for {:.1f} seconds then trying again."
#: Hint for the owner of a cluster that `penstock up` made.
LOCAL_HINT: Final = "; `penstock up` starts what is not running"
#: A token is some 800 bytes; more than this is not a token.
TOKEN_BYTES_MAX: Final = 4096
#: A script (4 MiB) with its environment (1 MiB) fits with room for growth; the server's limits are the strict ones.
MESSAGE_BYTES_MAX: Final = 64 * 1024 * 1024
TOKEN_KEY: Final = "penstock-token-bin"  # noqa: S105 (a metadata key)
CODE_KEY: Final = "penstock-code"
#: A JSON web token of the user (SLURM_JWT), in place of the token of this machine; Slurm's names in its REST interface.
USER_TOKEN_KEY: Final = "x-slurm-user-token"  # noqa: S105 (a metadata key)
USER_NAME_KEY: Final = "x-slurm-user-name"
USER_TOKEN_VARIABLE: Final = "SLURM_JWT"  # noqa: S105 (a variable)
UNTRUSTED_TEXT: Final = "The controller's certificate is not one of this cluster's"
NO_AUTH_SOCKET: Final = "the cluster file names no auth_socket: this machine gives no tokens"

#: Statuses without a refusal's number: from gRPC itself, or from a server that is not our controller.
_CODE_OF_STATUS: Final = {
    "UNAUTHENTICATED": Code.ACCESS_DENIED,
    "PERMISSION_DENIED": Code.ACCESS_DENIED,
    "INVALID_ARGUMENT": Code.INVALID_VALUE,
    "UNIMPLEMENTED": Code.NOT_SUPPORTED,
    "RESOURCE_EXHAUSTED": Code.BUSY,
}

#: Statuses of a controller that could not take the call, or lost it. Neither client returns from its own cancellation.
_TRANSIENT: Final = frozenset({"UNAVAILABLE", "CANCELLED"})

#: Of a method that the call socket does not serve.
NOT_SERVED: Final = "UNIMPLEMENTED"

#: gRPC reports a certificate that it does not trust as UNAVAILABLE, with these texts of its libraries. Waiting does not
#: help then. Only the quick and clear answer depends on them: with an unknown text the call ends at the deadline
#: instead.
_UNTRUSTED_WORDS: Final = ("CERTIFICATE_VERIFY_FAILED", "certificate signature failure", "Hostname Verification")


# ---- failures of an attempt


class CallFailed(Exception):
    """A call that did not end with OK. `status` is gRPC's name, `code` the refusal's number as text or "".

    `is_sent`: the whole request was sent, and it is not known to be rejected.
    """

    def __init__(self, status: str, details: str, code: str = "", *, is_sent: bool = False) -> None:
        super().__init__(f"{status}: {details}")
        self.status = status
        self.details = details
        self.code = code
        self.is_sent = is_sent


class TryAgain(Exception):
    """A transient failure of an attempt. `seen`: a controller was reached, so it is worth waiting for it.

    `pause_s`: the pause that the controller demands (its limit of requests); 0 = none.
    """

    def __init__(self, error: PenstockError, seen: bool, pause_s: float = 0.0) -> None:
        super().__init__(error.text)
        self.error = error
        self.seen = seen
        self.pause_s = pause_s


#: The controller sends something on a stream of changes every 15 s. One that is silent for so long is given up.
SILENT_S: Final = 60.0
#: Exceptions of an attempt.
FAILURES: Final = (CallFailed, TryAgain, PenstockError)


def failure_of(failed: CallFailed) -> TryAgain | PenstockError:
    """Classifies a failure: TryAgain for a transient one, PenstockError for a refusal, Unreachable for no answer."""
    status = failed.status
    details = failed.details
    number = failed.code
    if status in _TRANSIENT:
        if any(words in details for words in _UNTRUSTED_WORDS):
            return PenstockError(Code.ACCESS_DENIED, UNTRUSTED_TEXT, details)
        return TryAgain(Unreachable(CONNECT_FAILURE_TEXT, details), seen=True)
    if status == "DEADLINE_EXCEEDED":
        return Unreachable(RECEIVE_FAILURE_TEXT, details, RECEIVE_FAILURE)
    kind = NotProven if status == "UNAUTHENTICATED" else PenstockError
    if number.isascii() and number.isdigit():
        refusal = kind(int(number), details)
        if refusal.code == Code.RATE_LIMITED:
            return TryAgain(refusal, seen=True, pause_s=pause_asked_s(details))
        return refusal
    code = _CODE_OF_STATUS.get(status, Code.INTERNAL)
    return kind(code, TEXT[code], details)


def final_error(failed: CallFailed) -> PenstockError:
    """Classifies the failure of a request that is sent once."""
    failure = failure_of(failed)
    return failure.error if isinstance(failure, TryAgain) else failure


def raise_for_socket(error: OSError, where: str) -> NoReturn:
    """Raises the error of a failed socket: TryAgain when no process listens or no answer comes in time, PenstockError for a
    forbidden path.
    """
    detail = f"{where}: {error.strerror or error}"
    if isinstance(error, PermissionError):
        raise PenstockError(Code.ACCESS_DENIED, TEXT[Code.ACCESS_DENIED], detail) from error
    # A reset, or a full backlog: the server is running, so it is worth waiting for it.
    seen = isinstance(error, ConnectionResetError | BlockingIOError)
    raise TryAgain(Unreachable(detail=detail), seen=seen) from error


def pause_asked_s(details: str) -> float:
    """The pause that a refusal's text demands: milliseconds at its end."""
    digits = details.rpartition(": ")[2]
    return min(int(digits), 60_000) / 1000 if digits.isascii() and digits.isdigit() else PAUSE_MAX_S


def check_token(token: bytes, auth_socket: str) -> bytes:
    """Checks that the auth socket's answer can be a token."""
    if not token:
        raise TryAgain(Unreachable(detail=f"{auth_socket}: gave no token"), seen=True)
    if len(token) > TOKEN_BYTES_MAX:
        raise PenstockError(Code.INTERNAL, f"{auth_socket}: answers more than a token")
    return token


# ---- all attempts of one request


class Contact:
    """The state of a program's connection to its controller; all its requests share it."""

    __slots__ = ("is_local", "is_patient")

    def __init__(self, is_local: bool, is_patient: bool) -> None:
        self.is_local = is_local  # `penstock up` made the cluster
        self.is_patient = is_patient  # the controller was reached, or the caller said that it will be


class Pause(NamedTuple):
    """The pause before the next attempt, and the message to show, if any."""

    pause_s: float
    notice: str = ""  # the controller limits requests
    reconnect: bool = True  # the connection is in doubt


class Attempts:
    """The attempts of one request. Times are those of time.monotonic(); a `deadline` of inf is none."""

    __slots__ = ("_contact", "_outcome", "_limited", "_limited_max_s", "_limited_s", "_pause_s", "deadline")

    def __init__(self, method: str, contact: Contact, deadline: float, limited_max_s: float = LIMITED_MAX_S) -> None:
        """`limited_max_s`: 0 = the caller itself waits while the controller limits requests."""
        self.deadline = deadline
        self._limited_max_s = limited_max_s
        self._contact = contact
        self._outcome = CallOutcome(method)
        self._pause_s = PAUSE_FIRST_S
        self._limited = 0
        self._limited_s = 0.0

    def connect_s(self, now: float) -> float:
        """The time-out of fetching a token, or of connecting."""
        return min(self.deadline - now, TIMEOUT_S)

    def succeeded(self) -> None:
        """Records an answer of the controller."""
        self._contact.is_patient = True

    def failed(self, error: CallFailed | TryAgain | PenstockError, now: float) -> Pause:
        """Decides what to do after an attempt that raised this; raises the caller's error if it is final."""
        failure: TryAgain | PenstockError
        if isinstance(error, CallFailed):
            if error.is_sent:
                self._outcome.sent(error.status, error.code)
            failure = failure_of(error)
        else:
            failure = error
        if isinstance(failure, PenstockError):
            raise self._outcome.final_error(failure) from (error if failure is not error else error.__cause__)
        if failure.pause_s:
            if self._limited_s + failure.pause_s > self._limited_max_s:
                raise self._outcome.final_error(failure.error) from error
            self._limited += 1
            self._limited_s += failure.pause_s
            self.deadline += failure.pause_s
            return Pause(failure.pause_s, LIMITED_TEXT.format(self._limited, failure.pause_s), reconnect=False)
        contact = self._contact
        contact.is_patient = contact.is_patient or failure.seen
        if not contact.is_patient or self._outcome.is_over() or now + self._pause_s >= self.deadline:
            if contact.is_local and not contact.is_patient:
                failure.error.detail += LOCAL_HINT
            raise self._outcome.final_error(failure.error) from error
        pause_s = self._pause_s
        self._pause_s = min(self._pause_s * PAUSE_GROWTH, PAUSE_MAX_S)
        return Pause(pause_s)


def ignore_notice(text: str) -> None:
    """The default `on_notice`: drops notices that a client waits for the controller's limit of requests."""


def own_proof(environment: "Mapping[str, str]", cluster: str) -> "Proof | None":
    """Returns the metadata that proves the user to a cluster by SLURM_JWT; None: the kernel of this machine does. A token
    that names other clusters (its claim `aud`) is not sent: who receives it could use it there. Raises PenstockError."""
    token = environment.get(USER_TOKEN_VARIABLE, "")
    if not token or not _is_for(token, cluster):
        return None
    if not token.isascii() or not token.isprintable():
        raise PenstockError(Code.ACCESS_DENIED, f"{USER_TOKEN_VARIABLE} is no token: it has characters that none has")
    return ((USER_TOKEN_KEY, token),)


def _is_for(token: str, cluster: str) -> bool:
    """Whether a token may be shown to that cluster. What cannot be read is judged there."""
    from penstock.values.base64url import claims_of

    audience = claims_of(token).get("aud")
    if isinstance(audience, list):
        return cluster in audience
    return audience is None or audience == cluster


# ---- methods


class Rpc:
    """A method's path, and how its messages are encoded and decoded."""

    __slots__ = ("deserialize", "is_stream", "path", "serialize")

    def __init__(
        self, path: str, serialize: "Callable[[Message], bytes]", deserialize: "Callable[[bytes], Any]", is_stream: bool
    ) -> None:
        self.path = path
        self.serialize = serialize
        self.deserialize = deserialize
        self.is_stream = is_stream


def find_rpc(method: str, request: "Message") -> Rpc:
    """Finds the method among the services of the file that declares the request, a protobuf message."""
    return _rpc_of(method, cast("Hashable", type(request)))  # its stubs say that it has no hash


@cache  # a search of all services is a tenth of a daemon's part of a call
def _rpc_of(method: str, request: "type[Message]") -> Rpc:
    from google.protobuf.message_factory import GetMessageClass

    kind: Any = request.DESCRIPTOR
    for service in kind.file.services_by_name.values():
        found = service.methods_by_name.get(method)
        if found is not None and found.input_type is kind:
            path = f"/{service.full_name}/{method}"
            reply = GetMessageClass(found.output_type)
            return Rpc(path, request.SerializeToString, reply.FromString, bool(found.server_streaming))
    raise ValueError(f"no method {method} takes a {kind.name}")


def find_stream(method: str, request: "Message") -> Rpc:
    """As find_rpc(), for a method that answers in pages."""
    rpc = find_rpc(method, request)
    if not rpc.is_stream:
        raise ValueError(f"{method} answers once: use call()")
    return rpc


def make_messages() -> None:
    """Makes the message classes of all imported services, in a process that will fork callers."""
    from google.protobuf.message_factory import GetMessageClass

    files = [m for name, m in sorted(sys.modules.items()) if name.startswith("penstock.v1.") and name.endswith("_pb2")]
    for service in (s for file in files for s in file.DESCRIPTOR.services_by_name.values()):
        for method in service.methods:
            GetMessageClass(method.input_type)
            GetMessageClass(method.output_type)
