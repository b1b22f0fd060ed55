"""Identifies the holder of a certificate by its names, for clients, without importing `cryptography`.

All daemons have certificates of one CA, so its signature does not identify a role: the certificates of nodes, login
hosts and the controller differ only in their names. A client therefore always checks the role.

- Clients that do their own TLS read the one URI name, penstock://CLUSTER/ROLE/NAME, after the handshake.
- gRPC does not give clients the certificate, and compares host names. So a controller's certificate, and no other,
  contains the host name CONTROLLER_HOST, which no host has, and gRPC is configured to require it.

gRPC compares the common name if a certificate has no host names, so those of nodes and login hosts have neither.
"""

from collections.abc import Mapping

# Any: ssl's description of a certificate: texts and nested lists by name
from typing import Any, Final

CONTROLLER_HOST: Final = "controller.penstock.internal"
#: Options for grpc channels to a controller.
CONTROLLER_OPTIONS: Final = (("grpc.ssl_target_name_override", CONTROLLER_HOST),)


def uri_name(certificate: Mapping[str, Any] | None) -> str:
    """Returns the URI name in the result of `SSLSocket.getpeercert`, or "" if there is not exactly one."""
    names = [str(pair[1]) for pair in (certificate or {}).get("subjectAltName", ()) if pair[0] == "URI"]
    return names[0] if len(names) == 1 else ""


def is_controller(uri: str) -> bool:
    """Whether the URI name is a controller's."""
    parts = uri.split("/")
    return len(parts) == 5 and parts[:2] == ["penstock:", ""] and parts[3] == "controller"
