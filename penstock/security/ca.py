"""The cluster's own certificate authority, and the certificates it gives to daemons.

EC P-256 throughout. A certificate says who its holder is by one URI name, penstock://CLUSTER/ROLE/NAME; the role is
controller, node or login. Only a controller's certificate also carries host names: a node's or login host's
certificate, stolen, cannot pose as the controller. A node serves too, the streams of its steps, to clients that look
for the URI name of that very node. Certificates hold for 90 days and are made anew when a third
is left.

The CA's key stays on the controller's machine (or is taken offline: then certificates are made by hand). There is no
intermediate CA and no CRL: a stolen certificate's serial number goes to `denied.json`, which the controller reads.
"""

import hashlib
import ipaddress
import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from penstock.errors import BadSetup
from penstock.security.keyfiles import read_public, read_secret, write_public, write_secret

ROLES: Final = ("controller", "node", "login")
CA_DAYS: Final = 3650
CERTIFICATE_DAYS: Final = 90
RENEW_DAYS: Final = 30
#: A new certificate is valid a little in the past, for machines whose clocks are behind.
BACKDATE_S: Final = 300
NAME_LENGTH_MAX: Final = 64

_NAME = re.compile(rf"[A-Za-z0-9_.-]{{1,{NAME_LENGTH_MAX}}}")


class BadCertificate(Exception):
    """A certificate that was presented is not acceptable; the message says why."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a certificate's holder is."""

    cluster: str
    role: str
    name: str

    @property
    def uri(self) -> str:
        """The name as it stands in the certificate."""
        return f"penstock://{self.cluster}/{self.role}/{self.name}"


@dataclass(frozen=True, slots=True)
class Credentials:
    """What one daemon holds: its key, its certificate and the CA's, ready for use and as PEM for gRPC."""

    identity: Identity
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate
    ca: x509.Certificate
    key_pem: bytes
    certificate_pem: bytes
    ca_pem: bytes


@dataclass(frozen=True, slots=True)
class Authority:
    """The CA with its key: it can issue."""

    cluster: str
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @property
    def pem(self) -> bytes:
        """The CA's certificate, for those who shall trust it."""
        return to_pem(self.certificate)

    def issue(
        self, role: str, name: str, public_key: ec.EllipticCurvePublicKey, now_us: int, hosts: tuple[str, ...] = ()
    ) -> x509.Certificate:
        """A certificate for the holder of this key. hosts (names or addresses): only for a controller, which serves."""
        if role not in ROLES:
            raise BadSetup(f"role {role!r} is not one of {', '.join(ROLES)}")
        if hosts and role != "controller":
            raise BadSetup(f"a {role} certificate carries no host names: it must not be able to pose as the controller")
        uri = Identity(self.cluster, role, check_label(name, "name")).uri
        names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(uri), *map(_host_name, hosts)]
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH]
        if role in ("controller", "node"):
            usages.append(ExtendedKeyUsageOID.SERVER_AUTH)
        return (
            _builder(name, self.certificate.subject, public_key, now_us, CERTIFICATE_DAYS)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .sign(self.key, hashes.SHA256())
        )


def check_label(text: str, what: str) -> str:
    """A cluster's, node's or host's name as it may stand in a certificate."""
    if not _NAME.fullmatch(text):
        raise BadSetup(f"{what} {text!r} may only have 1 to {NAME_LENGTH_MAX} letters, digits, '_', '-' and '.'")
    return text


def create_ca(folder: Path, cluster: str, now_us: int) -> Authority:
    """Make a new CA in ca.pem and ca.key. An existing one is never overwritten: every certificate hangs on it."""
    check_label(cluster, "cluster name")
    if (folder / "ca.key").exists() or (folder / "ca.pem").exists():
        raise BadSetup(f"{folder}: there is a CA already; every certificate of the cluster depends on it")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise BadSetup(f"{folder}: cannot be made: {error.strerror}") from error
    key = make_key()
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.COMMON_NAME, f"Penstock CA {cluster}"[:64]),
            x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, cluster),
        ]
    )
    certificate = (
        _builder("", subject, key.public_key(), now_us, CA_DAYS, subject)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    write_secret(folder / "ca.key", key_to_pem(key))
    write_public(folder / "ca.pem", to_pem(certificate))
    return Authority(cluster, key, certificate)


def load_ca(folder: Path) -> Authority:
    """The CA with its key. Raises BadSetup when the key is missing, unsafe or not the certificate's."""
    key = _load_key(read_secret(folder / "ca.key"), folder / "ca.key")
    certificate = parse_certificate(read_public(folder / "ca.pem"), str(folder / "ca.pem"))
    if certificate.public_key() != key.public_key():
        raise BadSetup(f"{folder}: ca.key is not the key of ca.pem")
    units = certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATIONAL_UNIT_NAME)
    if len(units) != 1:
        raise BadSetup(f"{folder / 'ca.pem'}: not a Penstock CA: it names no cluster")
    return Authority(str(units[0].value), key, certificate)


def issue_to_folder(
    authority: Authority, folder: Path, role: str, name: str, now_us: int, hosts: tuple[str, ...] = ()
) -> None:
    """Make a key and a certificate for a daemon, as ROLE.key, ROLE.pem and ca.pem in its folder."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise BadSetup(f"{folder}: cannot be made: {error.strerror}") from error
    key = make_key()
    certificate = authority.issue(role, name, key.public_key(), now_us, hosts)
    write_secret(folder / f"{role}.key", key_to_pem(key))
    write_public(folder / f"{role}.pem", to_pem(certificate))
    write_public(folder / "ca.pem", authority.pem)


def ensure_controller(folder: Path, name: str, hosts: tuple[str, ...], now_us: int) -> Credentials:
    """The controller's credentials, made anew when they are missing, run out soon or lack one of its host names."""
    if (folder / "controller.pem").exists():
        held = load_credentials(folder, "controller", None)
        runs_out = held.certificate.not_valid_after_utc - timedelta(days=RENEW_DAYS) <= to_datetime(now_us)
        if not runs_out and set(map(_host_name, hosts)) <= set(_alternative_names(held.certificate)):
            return held
    issue_to_folder(load_ca(folder), folder, "controller", name, now_us, hosts)
    return load_credentials(folder, "controller", now_us)


def load_credentials(folder: Path, role: str, now_us: int | None) -> Credentials:
    """A daemon's key and certificates, checked against each other; now_us None = also when they have run out."""
    key_pem = read_secret(folder / f"{role}.key")
    certificate_pem = read_public(folder / f"{role}.pem")
    ca_pem = read_public(folder / "ca.pem")
    key = _load_key(key_pem, folder / f"{role}.key")
    certificate = parse_certificate(certificate_pem, str(folder / f"{role}.pem"))
    ca = parse_certificate(ca_pem, str(folder / "ca.pem"))
    if certificate.public_key() != key.public_key():
        raise BadSetup(f"{folder}: {role}.key is not the key of {role}.pem")
    try:
        identity = check_certificate(certificate, ca, now_us)
    except BadCertificate as error:
        raise BadSetup(f"{folder / (role + '.pem')}: {error}") from error
    if identity.role != role:
        raise BadSetup(f"{folder / (role + '.pem')}: is a certificate for a {identity.role}, not for a {role}")
    return Credentials(identity, key, certificate, ca, key_pem, certificate_pem, ca_pem)


def check_certificate(certificate: x509.Certificate, ca: x509.Certificate, now_us: int | None) -> Identity:
    """Whose certificate this is, if the CA signed it and it is valid now. Raises BadCertificate."""
    try:
        certificate.verify_directly_issued_by(ca)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm) as error:
        raise BadCertificate("the certificate is not signed by this cluster's CA") from error
    if now_us is not None:
        now = to_datetime(now_us)
        if now < certificate.not_valid_before_utc:
            raise BadCertificate(
                f"the certificate is not valid before {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC"
            )
        if now > certificate.not_valid_after_utc:
            raise BadCertificate(f"the certificate has expired on {certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC")
    return identity_of(certificate)


def identity_of(certificate: x509.Certificate) -> Identity:
    """What the one penstock:// name of a certificate says. Says nothing about whether to believe it."""
    uris = [n.value for n in _alternative_names(certificate) if isinstance(n, x509.UniformResourceIdentifier)]
    if len(uris) != 1:
        raise BadCertificate("the certificate does not have exactly one URI name")
    scheme, _, rest = uris[0].partition("://")
    parts = rest.split("/")
    if scheme != "penstock" or len(parts) != 3 or parts[1] not in ROLES or not all(map(_NAME.fullmatch, parts)):
        raise BadCertificate(f"the certificate's URI name {uris[0]!r} is not penstock://CLUSTER/ROLE/NAME")
    return Identity(*parts)


def load_denied(path: Path) -> frozenset[int]:
    """Serial numbers of certificates that are no longer accepted: a JSON list of hex texts. No file = none."""
    if not path.exists():
        return frozenset()
    try:
        return frozenset(int(serial, 16) for serial in json.loads(read_public(path, "deny list")))
    except (ValueError, TypeError) as error:
        raise BadSetup(f"{path}: must be a JSON list of serial numbers in hex, as texts: {error}") from error


def make_key() -> ec.EllipticCurvePrivateKey:
    """A new private key."""
    return ec.generate_private_key(ec.SECP256R1())


def key_to_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Unencrypted: the file's mode protects it, as a daemon starts with nobody there to type a password."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def to_pem(certificate: x509.Certificate) -> bytes:
    """PEM text of a certificate."""
    return certificate.public_bytes(serialization.Encoding.PEM)


def to_der(certificate: x509.Certificate) -> bytes:
    """The bytes that are signed and fingerprinted."""
    return certificate.public_bytes(serialization.Encoding.DER)


def fingerprint(certificate_der: bytes) -> bytes:
    """SHA-256 of a certificate."""
    return hashlib.sha256(certificate_der).digest()


def to_datetime(at_us: int) -> datetime:
    """A point in time in the form that certificates use: whole seconds, UTC."""
    return datetime.fromtimestamp(at_us // 1_000_000, UTC)


def parse_certificate(pem: bytes, what: str) -> x509.Certificate:
    """The first certificate of a PEM text. Raises BadSetup."""
    try:
        return x509.load_pem_x509_certificate(pem)
    except (ValueError, x509.InvalidVersion) as error:
        raise BadSetup(f"{what}: not a certificate: {error}") from error


def _load_key(pem: bytes, path: Path) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError) as error:
        raise BadSetup(f"{path}: not an unencrypted private key in PEM form") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise BadSetup(f"{path}: not an EC P-256 key")
    return key


def _alternative_names(certificate: x509.Certificate) -> list[x509.GeneralName]:
    try:
        return list(certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except x509.ExtensionNotFound:
        return []


def _host_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(check_host(host))


def check_host(host: str) -> str:
    """A host's name as it may stand in a certificate."""
    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,253}", host):
        raise BadSetup(f"host name {host!r} is neither a host's name nor an address")
    return host


def _builder(
    name: str,
    issuer: x509.Name,
    public_key: ec.EllipticCurvePublicKey,
    now_us: int,
    days: int,
    subject: x509.Name | None = None,
) -> x509.CertificateBuilder:
    now = to_datetime(now_us)
    return (
        x509.CertificateBuilder()
        .subject_name(subject or x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(seconds=BACKDATE_S))
        .not_valid_after(now + timedelta(days=days))
    )


def _key_usage(signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
