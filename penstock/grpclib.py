"""Support for the programs that do use the library grpc to reach a controller: its options, and its errors in our
words.

Imported by no command (penstock/h2call.py says why); by `penstock.aclient`, by a node that asks for its certificate, and
by the node daemon.
"""

import os
import time

# Any: gRPC's errors are also calls, which its types do not express
from typing import Any, Final

from penstock.calls import CODE_KEY, MESSAGE_BYTES_MAX, CallFailed

CHANNEL_OPTIONS: Final = (
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    ("grpc.enable_http_proxy", 0),  # a user's http_proxy does not apply to the controller
    ("grpc.enable_retries", 0),  # tokens are for one use; penstock.calls retries
    ("grpc.use_local_subchannel_pool", 1),  # a new channel starts without the old one's back-off
)
#: The library's text for a request that was never sent, for want of a connection.
_NOT_CONNECTED: Final = "failed to connect to all addresses"


def quiet_grpc() -> None:
    """Keeps gRPC's own log lines off a program's stderr. By putenv, so that a job's environment (os.environ) stays
    clean."""
    if "GRPC_VERBOSITY" not in os.environ:
        os.putenv("GRPC_VERBOSITY", "NONE")


def call_failed(error: Any) -> CallFailed:
    """Translates an error of the library to that of any call."""
    details = error.details() or ""
    number = next((value for key, value in error.trailing_metadata() or () if key == CODE_KEY), "")
    failed = CallFailed(error.code().name, details, str(number))
    failed.is_sent = not details.startswith(_NOT_CONNECTED)
    return failed


def time_left(deadline: float) -> float | None:
    """The seconds until the deadline in gRPC's form, with None for no deadline."""
    left_s = deadline - time.monotonic()
    return None if left_s == float("inf") else max(left_s, 0.001)
