"""Identifies the holder of a certificate by its names, for clients, without importing `cryptography`.

All daemons have certificates of one CA, so its signature does not identify a role: the certificates of nodes, login
hosts and the controller differ only in their names. A client therefore always checks the role.

- Clients that do their own TLS read the one URI name, penstock://CLUSTER/ROLE/NAME, after the handshake.
- gRPC does not give clients the certificate, and compares host names. So a controller's certificate, and no other,
  contains the host name CONTROLLER_HOST, which no host has, and gRPC is configured to require it.

gRPC compares the common name if a certificate has no host names, so those of nodes and login hosts have neither.

The role decides, whatever the name. A name that a person, or a client of another kind, could take for a controller's is
refused as well when a host joins (`why_reserved`).
"""

import ipaddress
import socket
from collections.abc import Iterable, Mapping

# Any: ssl's description of a certificate: texts and nested lists by name
from typing import Any, Final

CONTROLLER_HOST: Final = "controller.penstock.internal"
#: Options for grpc channels to a controller.
CONTROLLER_OPTIONS: Final = (("grpc.ssl_target_name_override", CONTROLLER_HOST),)
#: Names of the loopback address in hosts(5), beside all below `localhost`.
_LOOPBACK: Final = frozenset(
    {
        "localhost", "localhost.localdomain", "localhost4", "localhost4.localdomain4", "localhost6",
        "localhost6.localdomain6", "ip6-localhost", "ip6-loopback",
    }
)  # fmt: skip


def uri_name(certificate: Mapping[str, Any] | None) -> str:
    """Returns the URI name in the result of `SSLSocket.getpeercert`, or "" if there is not exactly one."""
    names = [str(pair[1]) for pair in (certificate or {}).get("subjectAltName", ()) if pair[0] == "URI"]
    return names[0] if len(names) == 1 else ""


def is_controller(uri: str) -> bool:
    """Whether the URI name is a controller's."""
    parts = uri.split("/")
    return len(parts) == 5 and parts[:2] == ["penstock:", ""] and parts[3] == "controller"


def why_reserved(name: str, controllers: Iterable[str] = ()) -> str:
    """Why no node or login host may have that name; "" = it may. `controllers`: names and addresses of the controller, of
    which the short form of a name counts too.
    """
    plain = _plain(name)
    if plain == CONTROLLER_HOST:
        return "is what controllers are known by"
    if plain in _LOOPBACK or plain.endswith(".localhost"):
        return "is every machine's name for itself"
    if _is_address(plain):
        return "is an address"
    taken = {_plain(one) for one in controllers if one}
    taken |= {one.partition(".")[0] for one in taken if not _is_address(one)}
    return "is a name of the controller" if plain in taken else ""


def _plain(name: str) -> str:
    return name.rstrip(".").lower()


def _is_address(text: str) -> bool:
    """Whether resolvers take it for an address: also `127.1` and `0x7f000001`, but not a plain number."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        if not ("." in text or text.startswith("0x")):
            return False
        try:
            socket.inet_aton(text)
        except OSError:
            return False
    return True
