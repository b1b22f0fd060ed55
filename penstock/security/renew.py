"""Renews certificates before they expire, for the same holder and key, authenticated by the old certificate.

A daemon requests renewal after two thirds of its certificate's term. It sends the certificate and a request signed with
that certificate's key, which is sufficient proof; the answer is a certificate with the same name, role and key and a
new term. Nothing else of the request is used. As the key does not change, the new certificate replaces the old one
atomically, and key and certificate always match. For a new key the host joins again.

Renewal is refused for certificates that have expired, are denied, or are a controller's (which renews its own, beside
the CA's key), and during the first half of their term, so that no host accumulates certificates. An expired one proves
nothing: its holder joins again with a token, as `ended_text` explains.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding

from penstock.errors import BadSetup
from penstock.security.ca import (
    Authority,
    BadCertificate,
    CertifiedIdentity,
    Credentials,
    check_certificate,
    load_credentials,
    parse_certificate,
    to_datetime,
    to_pem,
)
from penstock.security.join import CONNECT_TIMEOUT_S, JOIN_ROLES, JoinRefused, ask_certificate, key_of_request
from penstock.security.keyfiles import write_public

CERTIFICATE_BYTES_MAX: Final = 16 * 1024
#: Days before expiry at which warnings begin.
WARN_DAYS: Final = 14
#: The same for the CA's certificate, after whose expiry all hosts must join again.
CA_WARN_DAYS: Final = 180
_US: Final = 1_000_000


def end_us(certificate: x509.Certificate) -> int:
    """Returns the end of the certificate's term."""
    return int(certificate.not_valid_after_utc.timestamp()) * _US


def begin_us(certificate: x509.Certificate) -> int:
    """Returns the beginning of the certificate's term."""
    return int(certificate.not_valid_before_utc.timestamp()) * _US


def due_us(certificate: x509.Certificate) -> int:
    """Returns the time of renewal: after two thirds of the term."""
    start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return int((start + (end - start) * 2 / 3).timestamp()) * _US


def ended_text(identity: CertifiedIdentity, certificate: x509.Certificate) -> str:
    """Returns the message for the holder of an expired certificate."""
    login = " --login" if identity.role == "login" else ""
    role = " --role login" if identity.role == "login" else ""
    return (
        f"the certificate of {identity.role} {identity.name} has ended on {certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC: "
        f"join again. On the controller: penstock node token{role} {identity.name}. "
        f"Here: penstock noded{login} --node-name {identity.name} --join - --cert-dir DIR"
    )


def early_text(identity: CertifiedIdentity, certificate: x509.Certificate, now_us: int) -> str:
    """Returns the message for a certificate that is not valid yet, which means that the holder's clock is behind."""
    begins, here = certificate.not_valid_before_utc, datetime.fromtimestamp(now_us / _US, UTC)
    return (
        f"the certificate of {identity.role} {identity.name} begins on {begins:%Y-%m-%d %H:%M} UTC, and the clock of this "
        f"machine says {here:%Y-%m-%d %H:%M} UTC: set the clock (time synchronisation), it then continues automatically"
    )


def renew(
    authority: Authority,
    denied: frozenset[int],
    certificate_pem: bytes,
    csr_pem: bytes,
    now_us: int,
    require_known: Callable[[str, str], None] = lambda role, name: None,
) -> tuple[CertifiedIdentity, x509.Certificate]:
    """Renews a certificate, on the controller; returns the holder and the new certificate.

    If it raises JoinRefused, nothing was issued. `require_known` raises if no host with that role and name exists.
    """
    identity, old = _proved(authority, denied, certificate_pem, csr_pem, now_us)
    start, end = old.not_valid_before_utc, old.not_valid_after_utc
    if to_datetime(now_us) < start + (end - start) / 2:
        raise JoinRefused("early", "less than half of the certificate's term is over")
    require_known(identity.role, identity.name)
    new = authority.issue(identity.role, identity.name, key_of_request(csr_pem), now_us, renews=old.serial_number)
    return identity, new


def _proved(
    authority: Authority, denied: frozenset[int], certificate_pem: bytes, csr_pem: bytes, now_us: int
) -> tuple[CertifiedIdentity, x509.Certificate]:
    if len(certificate_pem) > CERTIFICATE_BYTES_MAX:
        raise JoinRefused("certificate", "the certificate is too long")
    try:
        old = parse_certificate(certificate_pem, "the certificate to be renewed")
        identity = check_certificate(old, authority.certificate, now_us)
    except (BadSetup, BadCertificate) as error:
        raise JoinRefused("certificate", str(error)) from error
    if old.serial_number in denied:
        raise JoinRefused("denied", "the certificate has been revoked")
    if identity.role not in JOIN_ROLES or identity.cluster != authority.cluster:
        raise JoinRefused("role", f"a certificate of {identity.uri} is not renewed over the network")
    if key_of_request(csr_pem) != old.public_key():
        raise JoinRefused("key", "the request is not signed with the certificate's own key")
    return identity, old


def ask(address: str, folder: Path, role: str, now_us: int, timeout_s: float = CONNECT_TIMEOUT_S) -> Credentials:
    """Renews the certificate in the folder, on the daemon, and writes the new one. Blocks. Raises PenstockError."""
    held = load_credentials(folder, role, now_us)
    request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    csr_pem = request.sign(held.key, hashes.SHA256()).public_bytes(Encoding.PEM)
    certificate_pem = _call(address, held, csr_pem, timeout_s)
    new = parse_certificate(certificate_pem, f"{address}: the answer")
    try:
        identity = check_certificate(new, held.ca, now_us)
    except BadCertificate as error:
        raise BadSetup(f"{address}: gave a certificate that cannot be used here: {error}") from error
    if identity != held.identity or new.public_key() != held.key.public_key():
        raise BadSetup(f"{address}: gave a certificate of {identity.uri}, or for another key")
    write_public(folder / f"{role}.pem", to_pem(new))
    return load_credentials(folder, role, now_us)


def _call(address: str, held: Credentials, csr_pem: bytes, timeout_s: float) -> bytes:
    from penstock.security.tls import node_channel
    from penstock.v1.controller_pb2 import RenewCertificateRequest

    request = RenewCertificateRequest(certificate_pem=held.certificate_pem, csr_pem=csr_pem)
    return ask_certificate("RenewCertificate", request, address, node_channel(held), timeout_s)


def days_left(at_us: int, now_us: int) -> int:
    """Returns the whole days until a time; negative if it is past."""
    return timedelta(microseconds=at_us - now_us).days
