"""The type of a call's context, as handlers and the gate see it.

The gate reads the bytes of a request itself (receiving.py), so `read` gives bytes; what is written is a message of
penstock.v1, or the bytes of one that was made before.
"""

from typing import TypeAlias

import grpc.aio
from google.protobuf.message import Message

#: Of the calls that the gate admits.
Context: TypeAlias = "grpc.aio.ServicerContext[bytes, Message | bytes]"


def address_of(peer: str) -> str:
    """Returns the address in gRPC's name of the other side, without its port: ipv4:10.0.0.1:4711 -> 10.0.0.1."""
    kind, _, rest = peer.partition(":")
    if kind not in ("ipv4", "ipv6"):
        return kind
    return rest.rpartition(":")[0].replace("%5B", "[").replace("%5D", "]")
