"""Verifies that the peer of a step's client is the node: it must hold a certificate of the cluster's CA for role node
and that name.

OpenSSL checks the signature and the dates in the handshake. Host names are not checked: a node's certificate has none.
It identifies the node by a URI (penstock/security/ca.py), which is compared here, before anything is sent.
"""

import ssl
from functools import lru_cache
from typing import TYPE_CHECKING

from penstock.errors import PenstockError
from penstock.security.names import uri_name
from penstock.values.refusals import Code

if TYPE_CHECKING:
    from penstock.clusterfile import ClusterFile


class UntrustedPeer(Exception):
    """The peer is not the expected node; the message says why."""


class Trust:
    """The data to verify nodes of one cluster, loaded at the first check."""

    def __init__(self, cluster: "ClusterFile") -> None:
        self._cluster = cluster
        self._context: ssl.SSLContext | None = None

    def context(self) -> ssl.SSLContext:
        """The context for the handshake. It verifies the CA's signature, not the name: `check` must follow."""
        if self._context is None:
            from penstock.transport import read_ca

            if not self._cluster.ca:
                text = "the cluster file names no ca: streams of nodes cannot be checked"
                raise PenstockError(Code.CONFIG_INVALID, text)
            self._context = _context_of(read_ca(self._cluster).decode("ascii", "replace"))
        return self._context

    def check(self, node: str, sock: ssl.SSLSocket) -> None:
        """Verifies after the handshake that the peer is this node. Raises UntrustedPeer."""
        uri = uri_name(sock.getpeercert()) or "nobody in particular"
        wanted = f"penstock://{self._cluster.cluster_name}/node/{node}"
        if uri != wanted:
            raise UntrustedPeer(f"it has shown the certificate of {uri}, not of {wanted}")


@lru_cache(1)
def _context_of(ca: str) -> ssl.SSLContext:
    """The context for this CA. To make one costs 0.7 ms, and a worker of the command server runs many calls; it holds nothing
    of a call, as no session is resumed."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.load_verify_locations(cadata=ca)
    return context
