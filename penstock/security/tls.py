"""gRPC credentials made from a daemon's key and certificates. One function per kind of connection, nothing else.

A server sends the CA's certificate along with its own: a node that joins knows the CA by its fingerprint only and
takes the certificate from there (see join). This module stays light, commands use it: `cryptography` is not imported
here.
"""

from typing import TYPE_CHECKING, Any

import grpc

if TYPE_CHECKING:
    from penstock.security.ca import Credentials


def command_port(credentials: "Credentials") -> Any:
    """The port for commands: the controller proves itself, the caller comes with a token."""
    return grpc.ssl_server_credentials([_own(credentials)])


def node_port(credentials: "Credentials") -> Any:
    """The port for node daemons: both sides prove themselves, or there is no connection."""
    return grpc.ssl_server_credentials(
        [_own(credentials)], root_certificates=credentials.ca_pem, require_client_auth=True
    )


def node_channel(credentials: "Credentials") -> Any:
    """A daemon's connection to the node port."""
    return grpc.ssl_channel_credentials(credentials.ca_pem, credentials.key_pem, credentials.certificate_pem)


def client_channel(ca_pem: bytes) -> Any:
    """A command's connection to the command port."""
    return grpc.ssl_channel_credentials(root_certificates=ca_pem)


def _own(credentials: "Credentials") -> tuple[bytes, bytes]:
    return credentials.key_pem, credentials.certificate_pem + credentials.ca_pem
