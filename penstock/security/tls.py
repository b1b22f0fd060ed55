"""Creates gRPC credentials from a daemon's key and certificates: one function per kind of connection.

A server sends the CA's certificate along with its own: a joining node knows only the CA's fingerprint and takes the
certificate from there (see join). Commands import this module, so it does not import `cryptography`.
"""

from collections.abc import Callable

# Any: gRPC's certificate configuration, which has no type
from typing import TYPE_CHECKING, Any

import grpc

if TYPE_CHECKING:
    from penstock.security.ca import Credentials


def command_port(now: "Callable[[], Credentials]") -> grpc.ServerCredentials:
    """Returns credentials of the port for commands: the controller authenticates itself, the caller sends a token."""
    return _port(now, False)


def node_port(now: "Callable[[], Credentials]") -> grpc.ServerCredentials:
    """Returns credentials of the port for node daemons: both sides authenticate with certificates."""
    return _port(now, True)


def _port(now: "Callable[[], Credentials]", is_mutual: bool) -> grpc.ServerCredentials:
    """Returns credentials that are taken from `now` for each connection. gRPC calls it in its own threads."""
    shown = now()

    def configuration(credentials: "Credentials") -> grpc.ServerCertificateConfiguration:
        roots = credentials.ca_pem if is_mutual else None
        return grpc.ssl_server_certificate_configuration([_own(credentials)], root_certificates=roots)

    def renewed() -> Any:
        nonlocal shown
        credentials = now()
        if credentials is shown:
            return None
        shown = credentials
        return configuration(credentials)

    return grpc.dynamic_ssl_server_credentials(configuration(shown), renewed, is_mutual)


def node_channel(credentials: "Credentials") -> grpc.ChannelCredentials:
    """Returns credentials of a daemon's connection to the node port."""
    return grpc.ssl_channel_credentials(credentials.ca_pem, credentials.key_pem, credentials.certificate_pem)


def client_channel(ca_pem: bytes) -> grpc.ChannelCredentials:
    """Returns credentials of a command's connection to the command port."""
    return grpc.ssl_channel_credentials(root_certificates=ca_pem)


def _own(credentials: "Credentials") -> tuple[bytes, bytes]:
    return credentials.key_pem, credentials.certificate_pem + credentials.ca_pem
