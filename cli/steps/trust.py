"""Whom a client of a step believes to be a node: the holder of a certificate of the cluster's CA for role node, that name.

A node's certificate is made for calling the controller, not for serving (penstock/security/ca.py says why), so OpenSSL
would refuse it for its purpose. It proves that the other side holds the certificate's key; whose certificate that is,
is looked at here, after the handshake and before anything is sent.
"""

import ssl
import time
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
        self._known: set[tuple[str, bytes]] = set()

    def context(self) -> ssl.SSLContext:
        """For the handshake. It does not look at the certificate: `check` must follow."""
        if self._context is None:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            self._context.minimum_version = ssl.TLSVersion.TLSv1_3
            self._context.check_hostname = False
            self._context.verify_mode = ssl.CERT_NONE
        return self._context

    def check(self, node: str, certificate_der: bytes | None) -> None:
        """Raises Distrust."""
        if certificate_der is None:
            raise Distrust("it has shown no certificate")
        if (node, certificate_der) in self._known:
            return
        from cryptography import x509

        from penstock.client import read_ca
        from penstock.security.ca import BadCertificate, check_certificate, parse_certificate

        if not self._cluster.ca:
            raise PenstockError(Code.CONFIG_INVALID, "the cluster file names no ca: streams of nodes cannot be checked")
        ca = parse_certificate(read_ca(self._cluster), self._cluster.ca)
        try:
            shown = x509.load_der_x509_certificate(certificate_der)
            identity = check_certificate(shown, ca, time.time_ns() // 1000)
        except (BadCertificate, ValueError, x509.InvalidVersion) as error:
            raise Distrust(str(error)) from error
        name = self._cluster.cluster_name
        if (identity.role, identity.name) != ("node", node) or (name and identity.cluster != name):
            raise Distrust(f"it has shown the certificate of {identity.uri}")
        self._known.add((node, certificate_der))
