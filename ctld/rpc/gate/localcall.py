"""A call over the call socket (ctld/rpc/callconnection.py), in the form in which the gate and handlers see any call."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, NoReturn

import grpc
import grpc.aio

from penstock.calls import CODE_KEY

if TYPE_CHECKING:
    from penstock.calls import Proof

#: The other side's address, as gRPC writes that of a Unix socket.
PEER = "unix:"


class LocalCall:
    """One call of the user that the kernel recorded when the connection was made, or of the one that its proof names."""

    __slots__ = ("code", "gid", "proof", "send_page", "status", "text", "uid")

    def __init__(self, uid: int, gid: int, send_page: Callable[[bytes], Awaitable[None]], proof: "Proof" = ()) -> None:
        """`send_page`: sends a page of the answer, and waits while its reader is slow. `proof`: () = the kernel's word."""
        self.proof = proof
        self.send_page = send_page
        self.uid = uid
        self.gid = gid
        self.status = grpc.StatusCode.OK
        self.text = ""
        self.code = ""  # the refusal's number

    async def abort(
        self, code: grpc.StatusCode, details: str = "", trailing_metadata: tuple[tuple[str, str], ...] = ()
    ) -> NoReturn:
        """Ends the call with a refusal."""
        self.status = code
        self.text = details
        self.code = dict(trailing_metadata).get(CODE_KEY, "")
        raise grpc.aio.AbortError

    def details(self) -> str:
        """Returns the text of the refusal."""
        return self.text

    def peer(self) -> str:
        """Returns the address of the other side."""
        return PEER

    def auth_context(self) -> Mapping[str, object]:
        """Returns the properties of a certificate: there is none."""
        return {}

    def invocation_metadata(self) -> "Proof":
        """Returns the call's metadata: its proof alone."""
        return self.proof
