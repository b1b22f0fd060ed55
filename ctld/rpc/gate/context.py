"""The type of a call's context, as handlers and the gate see it.

The gate reads the bytes of a request itself (receiving.py), so `read` gives bytes; what is written is a message of
penstock.v1, or the bytes of one that was made before.
"""

from typing import TypeAlias

import grpc.aio
from google.protobuf.message import Message

#: Of the calls that the gate admits.
Context: TypeAlias = "grpc.aio.ServicerContext[bytes, Message | bytes]"
