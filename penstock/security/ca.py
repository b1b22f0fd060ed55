"""The cluster's own certificate authority, and the certificates that it issues to daemons.

All keys are EC P-256. A certificate identifies its holder by one URI name, penstock://CLUSTER/ROLE/NAME; the role is
controller, node or login. Only a controller's certificate also has host names, one of which identifies the role
(names.py), so a stolen certificate of a node or login host cannot be used to impersonate the controller. Nodes are
servers as well, for the streams of their steps; clients of these check for that node's URI name. Certificates are valid
for 90 days and are renewed when a third of that is left.

The CA's key stays on the controller's machine (or is kept offline; certificates are then issued manually). There is no
intermediate CA and no CRL: the serial number of a stolen certificate is added to `denied.json`, which the controller
reads.
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
from penstock.security import issued
from penstock.security.keyfiles import PUBLIC, SECRET, read_public, read_secret, write_files
from penstock.security.names import CONTROLLER_HOST, why_reserved

ROLES: Final = ("controller", "node", "login")
CA_DAYS: Final = 3650
DAY_S: Final = 86_400
CERTIFICATE_DAYS: Final = 90
RENEW_DAYS: Final = 30
#: Certificates are valid from this long before their issue, for machines whose clocks are behind.
BACKDATE_S: Final = 300
NAME_LENGTH_MAX: Final = 64

_NAME = re.compile(rf"[A-Za-z0-9_.-]{{1,{NAME_LENGTH_MAX}}}")


class BadCertificate(Exception):
    """A presented certificate is not acceptable; the message states the reason."""


@dataclass(frozen=True, slots=True)
class CertifiedIdentity:
    """The identity of a certificate's holder."""

    cluster: str
    role: str
    name: str

    @property
    def uri(self) -> str:
        """The URI name in the certificate."""
        return f"penstock://{self.cluster}/{self.role}/{self.name}"


@dataclass(frozen=True, slots=True)
class Credentials:
    """A daemon's credentials: its key, its certificate and the CA's, as objects and as PEM for gRPC."""

    identity: CertifiedIdentity
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate
    ca: x509.Certificate
    key_pem: bytes
    certificate_pem: bytes
    ca_pem: bytes


@dataclass(frozen=True, slots=True)
class Authority:
    """The CA with its key, which can issue certificates."""

    cluster: str
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate
    folder: Path  # contains the list of issued certificates

    @property
    def pem(self) -> bytes:
        """The CA's certificate as PEM, for distribution."""
        return to_pem(self.certificate)

    def issue(
        self,
        role: str,
        name: str,
        public_key: ec.EllipticCurvePublicKey,
        now_us: int,
        hosts: tuple[str, ...] = (),
        *,
        life_s: int = CERTIFICATE_DAYS * DAY_S,
        renews: int = 0,
    ) -> x509.Certificate:
        """Issues a certificate for the holder of this key, and records it. Raises BadSetup.

        `hosts`: host names or addresses, for a controller only. `renews`: the serial of the certificate that this one
        replaces; 0 = none.
        """
        if role not in ROLES:
            raise BadSetup(f"role {role!r} is not one of {', '.join(ROLES)}")
        if hosts and role != "controller":
            raise BadSetup(f"a {role} certificate carries no host names: it must not be able to pose as the controller")
        uri = CertifiedIdentity(self.cluster, role, check_label(name, "name")).uri
        if role == "controller":
            hosts = (*hosts, CONTROLLER_HOST)
        elif not renews and (why := why_reserved(name)):
            raise BadSetup(f"{name} {why}: a {role} cannot be called so")
        names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(uri), *map(_host_name, dict.fromkeys(hosts))]
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH]
        if role in ("controller", "node"):
            usages.append(ExtendedKeyUsageOID.SERVER_AUTH)
        certificate = (
            _builder(_subject(role, name), self.certificate.subject, public_key, now_us, life_s)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .sign(self.key, hashes.SHA256())
        )
        start_s, end_s = (
            int(at.timestamp()) for at in (certificate.not_valid_before_utc, certificate.not_valid_after_utc)
        )
        before = issued.serial_text(renews) if renews else ""
        serial = issued.serial_text(certificate.serial_number)
        issued.note(self.folder, issued.Issued(serial, role, name, start_s, end_s, before))
        return certificate


def check_label(text: str, what: str) -> str:
    """Validates a cluster's, node's or host's name for a certificate."""
    if not _NAME.fullmatch(text):
        raise BadSetup(f"{what} {text!r} may only have 1 to {NAME_LENGTH_MAX} letters, digits, '_', '-' and '.'")
    return text


def create_ca(folder: Path, cluster: str, now_us: int) -> Authority:
    """Creates a CA in ca.pem and ca.key. Never overwrites an existing one, on which all certificates depend; but completes
    one of which a crash left only the key, and that has issued nothing. Raises BadSetup.
    """
    check_label(cluster, "cluster name")
    is_begun = (folder / "ca.key").exists()
    has_issued = (folder / issued.FILE).exists() or (folder / "controller.pem").exists()
    if is_begun and has_issued and not (folder / "ca.pem").exists():
        raise BadSetup(
            f"{folder / 'ca.pem'}: is missing, and certificates were issued with it: restore it from a backup"
        )
    if (folder / "ca.pem").exists():
        raise BadSetup(f"{folder}: there is a CA already; every certificate of the cluster depends on it")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise BadSetup(f"{folder}: cannot be made: {error.strerror}") from error
    key = _load_key(read_secret(folder / "ca.key"), folder / "ca.key") if is_begun else make_key()
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.COMMON_NAME, f"Penstock CA {cluster}"[:64]),
            x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, cluster),
        ]
    )
    certificate = (
        _builder(subject, subject, key.public_key(), now_us, CA_DAYS * DAY_S)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    write_files((folder / "ca.key", key_to_pem(key), SECRET), (folder / "ca.pem", to_pem(certificate), PUBLIC))
    return Authority(cluster, key, certificate, folder)


def load_ca(folder: Path) -> Authority:
    """Loads the CA with its key. Raises BadSetup if the key is missing, unsafe or not the certificate's."""
    key = _load_key(read_secret(folder / "ca.key"), folder / "ca.key")
    certificate = parse_certificate(read_public(folder / "ca.pem"), str(folder / "ca.pem"))
    if certificate.public_key() != key.public_key():
        raise BadSetup(f"{folder}: ca.key is not the key of ca.pem")
    units = certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATIONAL_UNIT_NAME)
    if len(units) != 1:
        raise BadSetup(f"{folder / 'ca.pem'}: not a Penstock CA: it names no cluster")
    return Authority(str(units[0].value), key, certificate, folder)


def issue_to_folder(
    authority: Authority,
    folder: Path,
    role: str,
    name: str,
    now_us: int,
    hosts: tuple[str, ...] = (),
    key: ec.EllipticCurvePrivateKey | None = None,
) -> None:
    """Creates a key and a certificate for a daemon: ROLE.key, ROLE.pem and ca.pem in its folder. `key`: that of ROLE.key,
    which stays, so that key and certificate match at each moment.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise BadSetup(f"{folder}: cannot be made: {error.strerror}") from error
    held = key or make_key()
    certificate = authority.issue(role, name, held.public_key(), now_us, hosts)
    made = () if key is not None else ((folder / f"{role}.key", key_to_pem(held), SECRET),)
    write_files(
        *made, (folder / f"{role}.pem", to_pem(certificate), PUBLIC), (folder / "ca.pem", authority.pem, PUBLIC)
    )


def ensure_controller(folder: Path, name: str, hosts: tuple[str, ...], now_us: int) -> Credentials:
    """Returns the controller's credentials. The certificate is reissued if it is missing, about to expire, without one of
    the host names or for another key; the key stays, so that a crash in between leaves a pair that can be used.
    """
    path = folder / "controller.key"
    key = _load_key(read_secret(path), path) if path.exists() else None
    if key is not None and _is_for(folder / "controller.pem", key):
        held = load_credentials(folder, "controller", None)
        runs_out = held.certificate.not_valid_after_utc - timedelta(days=RENEW_DAYS) <= to_datetime(now_us)
        if not runs_out and set(map(_host_name, (*hosts, CONTROLLER_HOST))) <= set(
            _alternative_names(held.certificate)
        ):
            return held
    issue_to_folder(load_ca(folder), folder, "controller", name, now_us, hosts, key)
    return load_credentials(folder, "controller", now_us)


def _is_for(path: Path, key: ec.EllipticCurvePrivateKey) -> bool:
    """Whether the certificate is there, and for that key."""
    return path.exists() and parse_certificate(read_public(path), str(path)).public_key() == key.public_key()


def load_credentials(folder: Path, role: str, now_us: int | None) -> Credentials:
    """Loads a daemon's key and certificates, and checks that they match. `now_us` None: expired ones are accepted."""
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


def check_certificate(certificate: x509.Certificate, ca: x509.Certificate, now_us: int | None) -> CertifiedIdentity:
    """Returns the holder of the certificate if the CA signed it and it is valid now. Raises BadCertificate."""
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


def identity_of(certificate: x509.Certificate) -> CertifiedIdentity:
    """Parses the one penstock:// name of a certificate, without verifying the certificate. Raises BadCertificate."""
    uris = [n.value for n in _alternative_names(certificate) if isinstance(n, x509.UniformResourceIdentifier)]
    if len(uris) != 1:
        raise BadCertificate("the certificate does not have exactly one URI name")
    scheme, _, rest = uris[0].partition("://")
    parts = rest.split("/")
    if scheme != "penstock" or len(parts) != 3 or parts[1] not in ROLES or not all(map(_NAME.fullmatch, parts)):
        raise BadCertificate(f"the certificate's URI name {uris[0]!r} is not penstock://CLUSTER/ROLE/NAME")
    return CertifiedIdentity(*parts)


def load_denied(path: Path) -> frozenset[int]:
    """Loads the serial numbers of revoked certificates, and of their renewals, from a JSON list of hex texts beside the
    CA's key. A missing file is an empty list.
    """
    if not path.exists():
        return frozenset()
    try:
        denied = frozenset(int(serial, 16) for serial in json.loads(read_public(path, "deny list")))
    except (ValueError, TypeError) as error:
        raise BadSetup(f"{path}: must be a JSON list of serial numbers in hex, as texts: {error}") from error
    return issued.with_renewals(denied, issued.read(path.parent))


def make_key() -> ec.EllipticCurvePrivateKey:
    """Creates a private key."""
    return ec.generate_private_key(ec.SECP256R1())


def key_to_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Returns the key as unencrypted PEM. The file's mode protects it: a daemon starts unattended, without a password."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def to_pem(certificate: x509.Certificate) -> bytes:
    """Returns the certificate as PEM."""
    return certificate.public_bytes(serialization.Encoding.PEM)


def to_der(certificate: x509.Certificate) -> bytes:
    """Returns the certificate as DER, the form that is signed and fingerprinted."""
    return certificate.public_bytes(serialization.Encoding.DER)


def fingerprint(certificate_der: bytes) -> bytes:
    """Returns the SHA-256 digest of a certificate."""
    return hashlib.sha256(certificate_der).digest()


def to_datetime(at_us: int) -> datetime:
    """Converts a point in time to the form that certificates use: whole seconds, UTC."""
    return datetime.fromtimestamp(at_us // 1_000_000, UTC)


def parse_certificate(pem: bytes, what: str) -> x509.Certificate:
    """Parses the first certificate of a PEM text. Raises BadSetup."""
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


def host_names(certificate: x509.Certificate) -> tuple[str, ...]:
    """Returns the host names and addresses in a certificate, which only a controller's has."""
    names = _alternative_names(certificate)
    return tuple(str(name.value) for name in names if isinstance(name, x509.DNSName | x509.IPAddress))


def _host_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(check_host(host))


def check_host(host: str) -> str:
    """Validates a host name for a certificate."""
    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,253}", host):
        raise BadSetup(f"host name {host!r} is neither a host's name nor an address")
    return host


def _subject(role: str, name: str) -> x509.Name:
    """Returns the subject, for display. Only a controller's has a common name: without host names, clients would
    compare it.
    """
    if role == "controller":
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    unit, holder = NameOID.ORGANIZATIONAL_UNIT_NAME, NameOID.USER_ID
    return x509.Name([x509.NameAttribute(unit, role), x509.NameAttribute(holder, name)])


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public_key: ec.EllipticCurvePublicKey,
    now_us: int,
    life_s: int,
) -> x509.CertificateBuilder:
    now = to_datetime(now_us)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(seconds=BACKDATE_S))
        .not_valid_after(now + timedelta(seconds=life_s))
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
