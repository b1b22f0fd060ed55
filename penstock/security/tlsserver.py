"""TLS of servers that are asyncio's own, from a daemon's certificate. gRPC's are in tls.py."""

import os
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.security.ca import Credentials


def server_context(credentials: "Credentials") -> ssl.SSLContext:
    """Returns a context that shows the certificate and the CA's, and asks the client for none. Raises OSError.

    `ssl` reads keys from files alone: this one is in memory, and gone when the context is made.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    number = os.memfd_create("certificate", os.MFD_CLOEXEC)
    try:
        with open(number, "wb", closefd=False) as file:
            file.write(credentials.key_pem + credentials.certificate_pem + credentials.ca_pem)
        context.load_cert_chain(f"/proc/self/fd/{number}")
    finally:
        os.close(number)
    return context


def renewing_context(now: "Callable[[], Credentials]") -> Callable[[], ssl.SSLContext]:
    """Returns a function that returns the context of the present certificate, made again only after a renewal."""
    shown = now()
    context = server_context(shown)

    def present() -> ssl.SSLContext:
        nonlocal shown, context
        if (credentials := now()) is not shown:
            shown, context = credentials, server_context(credentials)
        return context

    return present
