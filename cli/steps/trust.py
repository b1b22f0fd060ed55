"""Whom a client of a step believes to be a node: the holder of a certificate of the cluster's CA for role node, that name.

OpenSSL checks the signature and the dates in the handshake. Names of hosts play no part: a node's certificate has none.
It names the node by an URI (penstock/security/ca.py), and that is compared here, before anything is sent.
"""

import ssl
from typing import TYPE_CHECKING

from penstock.errors import PenstockError
from penstock.values.refusals import Code

if TYPE_CHECKING:
    from penstock.cluster import ClusterFile


class Distrust(Exception):
    """The other side is not the node that it should be; the message says why."""


class Trust:
    """What is needed to check nodes of one cluster; nothing is read before the first check."""

    def __init__(self, cluster: "ClusterFile") -> None:
        self._cluster = cluster
        self._context: ssl.SSLContext | None = None

    def context(self) -> ssl.SSLContext:
        """For the handshake. It proves the CA's word, not yet for whom: `check` must follow."""
        if self._context is None:
            from penstock.client import read_ca

            if not self._cluster.ca:
                text = "the cluster file names no ca: streams of nodes cannot be checked"
                raise PenstockError(Code.CONFIG_INVALID, text)
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.minimum_version = ssl.TLSVersion.TLSv1_3
            context.check_hostname = False
            context.load_verify_locations(cadata=read_ca(self._cluster).decode("ascii", "replace"))
            self._context = context
        return self._context

    def check(self, node: str, sock: ssl.SSLSocket) -> None:
        """After the handshake: is it this node? Raises Distrust."""
        found = sock.getpeercert() or {}
        # `ssl` gives names as pairs of kind and text; typeshed has them as something wider.
        names = [str(pair[1]) for pair in found.get("subjectAltName", ()) if pair[0] == "URI"]
        uri = names[0] if len(names) == 1 else "nobody in particular"
        wanted = f"penstock://{self._cluster.cluster_name}/node/{node}"
        if uri != wanted:
            raise Distrust(f"it has shown the certificate of {uri}, not of {wanted}")
