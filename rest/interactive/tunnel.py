"""The way from this daemon to the program of a session: the controller says where and gives the key (AttachStep), with the
session's token; then one connection to the node, over TLS with the node's certificate, and after its WELCOME plain bytes.
"""

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from cli.steps.stepquery import endpoints
from cli.steps.trust import Trust, UntrustedPeer
from penstock.values.packing import pack_values
from penstock.values.stepframes import (
    ANSWER_BYTES_MAX,
    ANSWER_NO,
    ANSWER_OK,
    HEAD,
    FrameKind,
    StreamRole,
    frame,
    greeting,
)
from penstock.values.text import clean_line

if TYPE_CHECKING:
    from ssl import SSLSocket

    from penstock.v1.steps_pb2 import AttachStepReply

#: Time to reach a session's program.
OPEN_TIMEOUT_S: Final = 10.0
#: Bytes that are read before back-pressure; asyncio holds twice as many.
BUFFER_BYTES: Final = 64 * 1024
_WELCOME_BYTES_MAX: Final = 4096


class NoTunnel(Exception):
    """The session cannot be reached; the text is a sentence for its user."""


class OpenTunnel(NamedTuple):
    """Bytes to and from the program of a session."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


async def open_tunnel(attached: "AttachStepReply", trust: Trust) -> OpenTunnel:
    """Reaches the program. Raises NoTunnel."""
    try:
        async with asyncio.timeout(OPEN_TIMEOUT_S):
            return await _opened(attached, trust)
    except TimeoutError:
        raise NoTunnel("the node of the session does not answer") from None
    except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        raise NoTunnel(f"the node of the session cannot be reached: {clean_line(str(error))}") from None


async def _opened(attached: "AttachStepReply", trust: Trust) -> OpenTunnel:
    places = [one for one in endpoints(attached) if one.port]
    if not places:
        raise NoTunnel("the node of the session has no port for streams")
    place = places[0]
    reader, writer = await asyncio.open_connection(place.host, place.port, limit=BUFFER_BYTES)
    try:
        writer.write(greeting(attached.job_id, attached.attempt, attached.step_id))
        answer = await reader.readuntil(b"\n")
        if answer != ANSWER_OK:
            text = answer[:ANSWER_BYTES_MAX].removeprefix(ANSWER_NO).decode("utf-8", "replace")
            raise NoTunnel(f"the session cannot be reached: {clean_line(text.strip())}")
        if place.tls:
            await writer.start_tls(trust.context())
            trust.check(place.node, cast("SSLSocket", writer.get_extra_info("ssl_object")))
        writer.write(frame(FrameKind.HELLO, pack_values(attached.io_key, int(StreamRole.TUNNEL), 0)))
        kind, _, _, length = HEAD.unpack(await reader.readexactly(HEAD.size))
        payload = await reader.readexactly(min(length, _WELCOME_BYTES_MAX))
        if kind == FrameKind.FAILED:
            raise NoTunnel(clean_line(payload.decode("utf-8", "replace")))
        if kind != FrameKind.WELCOME:
            raise NoTunnel("the node of the session gives no answer that is known: its Penstock may be older")
    except UntrustedPeer as error:
        writer.close()
        raise NoTunnel(f"the node of the session is not who it should be: {error}") from None
    except BaseException:
        writer.close()
        raise
    return OpenTunnel(reader, writer)
