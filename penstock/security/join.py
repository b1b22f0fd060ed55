"""Joining: a new node gets its certificate with a one-use join token, which the administrator transfers.

The first machine that presents the token becomes that node, so tokens are never passed on a command line, which all
users of a machine can read.

The controller creates the token (`penstock node token NAME`): 128 random bits, valid for one hour, one use and one node
name, with the CA's fingerprint and the controller's address. The node creates its own key, which never leaves it.
Before it sends anything, it examines the certificate chain that the server presents, takes the CA certificate whose
fingerprint is in the token, and opens the real connection trusting that one only: a machine in the middle can read
neither token nor request.

The controller stores only hashes of the secrets, in a file with mode 0600 that is synced before a token is returned and
before a certificate is. A used token is kept until it would have expired, to distinguish "used twice" (possibly by an
attacker) from "never existed". A node may join again, with a new token, for a new certificate; a new token voids an
unused one for the same node, which may have been disclosed. A login host joins in the same way, with a token for the
role login.
"""

import hashlib
import socket
import ssl
from collections.abc import Iterable
from pathlib import Path

# Any: methods of ssl that newer versions expose and older ones hide, and gRPC's calls, which have no types
from typing import TYPE_CHECKING, Any, Final

import msgspec
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from penstock.clusterfile import split_address
from penstock.errors import BadSetup, PenstockError, Unreachable
from penstock.security.ca import (
    Authority,
    BadCertificate,
    Credentials,
    check_certificate,
    check_label,
    fingerprint,
    key_to_pem,
    load_credentials,
    make_key,
    parse_certificate,
    to_der,
    to_pem,
)
from penstock.security.keyfiles import PUBLIC, SECRET, read_secret, write_files, write_secret
from penstock.security.names import CONTROLLER_OPTIONS, why_reserved
from penstock.values import base64url
from penstock.values.refusals import TEXT, Code

if TYPE_CHECKING:
    import grpc
    from google.protobuf.message import Message

LIFETIME_US: Final = 3_600_000_000
SECRET_BYTES: Final = 16
#: Roles that may join. Controllers' certificates are never sent over the network.
JOIN_ROLES: Final = ("node", "login")
#: Nodes that may be waiting to join: a cluster of this size can be set up within the lifetime of a token.
TOKENS_MAX: Final = 10_000
CSR_BYTES_MAX: Final = 16 * 1024
TOKEN_TEXT_MAX: Final = 2048
CHAIN_MAX: Final = 4
CONNECT_TIMEOUT_S: Final = 10.0
#: Length of a name in a message.
NAME_SHOWN_MAX: Final = 64
_PREFIX: Final = "penstock-join-1."


class JoinRefused(PenstockError):
    """A refusal of a join token. `reason` is one word for tables and tests."""

    def __init__(self, reason: str, explanation: str) -> None:
        super().__init__(Code.ACCESS_DENIED, f"{TEXT[Code.ACCESS_DENIED]}: {explanation}")
        self.reason = reason


class JoinToken(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The content of a join token."""

    cluster: str
    node: str
    address: str
    ca_fingerprint: bytes
    secret: bytes
    expires_at_us: int
    role: str = "node"

    def to_text(self) -> str:
        """Formats the token as the text that the administrator copies."""
        return _PREFIX + base64url.to_text(msgspec.msgpack.encode(self))


def parse_join_token(text: str) -> JoinToken:
    """Parses a token. Raises JoinRefused."""
    body = text.strip().removeprefix(_PREFIX)
    if body == text.strip() or len(body) > TOKEN_TEXT_MAX:
        raise JoinRefused("malformed", "this is not a join token: make one with `penstock node token NAME`")
    try:
        return msgspec.msgpack.decode(base64url.to_bytes(body), type=JoinToken)
    except (ValueError, msgspec.MsgspecError) as error:
        raise JoinRefused("malformed", "the join token is damaged: copy all of it") from error


class Pending(msgspec.Struct):
    """The controller's record of a token."""

    node: str
    expires_at_us: int
    used: bool = False
    role: str = "node"


class JoinTokens:
    """The controller's table of issued tokens. Only one process may use the file."""

    def __init__(self, path: Path, cluster: str, ca: x509.Certificate, address: str) -> None:
        self._path = path
        self._cluster = cluster
        self._fingerprint = fingerprint(to_der(ca))
        self._address = address
        self._pending = self._read()

    def create(self, node: str, secret: bytes, now_us: int, role: str = "node") -> tuple[str, int]:
        """Creates a token for this node or login host; returns it and its expiry. `secret`: 16 random bytes."""
        if len(secret) != SECRET_BYTES:
            raise ValueError(f"a secret has {SECRET_BYTES} bytes")
        check_label(node, "node name")
        if role not in JOIN_ROLES:
            raise PenstockError(Code.INVALID_VALUE, f"role {role[:64]!r} is not one of {', '.join(JOIN_ROLES)}")
        self._sweep(now_us)
        if len(self._pending) >= TOKENS_MAX:
            raise PenstockError(Code.BUSY, f"{TOKENS_MAX} join tokens are waiting already: they expire within the hour")
        expires_at_us = now_us + LIFETIME_US
        kept = {k: p for k, p in self._pending.items() if p.used or (p.node, p.role) != (node, role)}
        pending = {**kept, _hash(secret): Pending(node, expires_at_us, role=role)}
        self._store(pending)
        token = JoinToken(self._cluster, node, self._address, self._fingerprint, secret, expires_at_us, role)
        return token.to_text(), expires_at_us

    def redeem(self, text: str, node: str, now_us: int) -> Pending:
        """Marks the token as used by this node; returns its record. If it raises JoinRefused, nothing has changed."""
        key = _hash(parse_join_token(text).secret)
        pending = self._pending.get(key)
        if pending is None:
            raise JoinRefused("unknown", "the join token is not known to this controller, or has expired long ago")
        if pending.expires_at_us < now_us:
            raise JoinRefused("expired", "the join token has expired: make a new one with `penstock node token NAME`")
        if pending.used:
            raise JoinRefused(
                "used", "the join token has been used before: if not by you, the node's name is in wrong hands"
            )
        if pending.node != node:
            raise JoinRefused("name", "the join token is for another node")
        used = Pending(pending.node, pending.expires_at_us, used=True, role=pending.role)
        self._store({**self._pending, key: used})
        return used

    def _sweep(self, now_us: int) -> None:
        """Drops tokens an hour after their expiry; until then they are refused with the specific reason."""
        kept = {k: p for k, p in self._pending.items() if p.expires_at_us + LIFETIME_US >= now_us}
        if len(kept) != len(self._pending):
            self._store(kept)

    def _store(self, pending: dict[str, Pending]) -> None:
        write_secret(self._path, msgspec.json.encode(pending))
        self._pending = pending

    def _read(self) -> dict[str, Pending]:
        if not self._path.exists():
            return {}
        try:
            return msgspec.json.decode(read_secret(self._path, "table of join tokens"), type=dict[str, Pending])
        except msgspec.MsgspecError as error:
            raise BadSetup(
                f"{self._path}: not a table of join tokens: {error}; remove it to void all of them"
            ) from error


def check_joins(name: str, controllers: Iterable[str] = ()) -> None:
    """Checks that a node or login host may join by that name. `controllers`: the controller's own. Raises JoinRefused."""
    if why := why_reserved(name, controllers):
        raise JoinRefused(
            "reserved", f"{name[:NAME_SHOWN_MAX]} {why}: give the host another name (NodeName, beside NodeAddr)"
        )


def admit(
    authority: Authority,
    tokens: JoinTokens,
    token: str,
    node: str,
    csr_pem: bytes,
    now_us: int,
    controllers: Iterable[str] = (),
) -> tuple[bytes, bytes]:
    """Handles JoinNode: returns the node's certificate and the CA's, as PEM. Raises JoinRefused.

    Only the key of the certificate request is used: name and role come from the table of tokens. `controllers`: names
    that no host may have, since a token may be older than they are.
    """
    public_key = key_of_request(csr_pem)
    check_joins(node, controllers)
    redeemed = tokens.redeem(token, node, now_us)
    return to_pem(authority.issue(redeemed.role, redeemed.node, public_key, now_us)), authority.pem


def key_of_request(csr_pem: bytes) -> ec.EllipticCurvePublicKey:
    """Returns the key of a certificate request, which must be signed with it. Raises JoinRefused."""
    if len(csr_pem) > CSR_BYTES_MAX:
        raise JoinRefused("request", "the certificate request is too long")
    try:
        request = x509.load_pem_x509_csr(csr_pem)
        valid = request.is_signature_valid
        key = request.public_key()
    except (ValueError, TypeError, x509.InvalidVersion, UnsupportedAlgorithm) as error:
        raise JoinRefused("request", "the certificate request cannot be read") from error
    if not valid or not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise JoinRefused("request", "the certificate request must be for an EC P-256 key and signed with it")
    return key


def join(
    token_text: str, node: str, folder: Path, now_us: int, address: str = "", timeout_s: float = CONNECT_TIMEOUT_S
) -> Credentials:
    """Joins the cluster, on the node: gets a certificate, writes ROLE.key, ROLE.pem and ca.pem.

    `address`: overrides the controller's address in the token.
    """
    token = parse_join_token(token_text)
    if token.node != node:
        raise JoinRefused("name", f"the join token is for node {token.node!r}, this is {node!r}")
    if token.role not in JOIN_ROLES:
        raise JoinRefused("malformed", f"the join token is for the role {token.role[:64]!r}, which is not known here")
    if token.expires_at_us < now_us:
        raise JoinRefused("expired", "the join token has expired (or this machine's clock is wrong)")
    address = address or token.address
    ca = pinned_ca(address, token.ca_fingerprint, timeout_s)
    key = make_key()
    request = x509.CertificateSigningRequestBuilder().subject_name(
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, node[:64])])
    )
    csr_pem = request.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)
    certificate_pem = _request_certificate(address, ca, token_text.strip(), node, csr_pem, timeout_s)
    certificate = parse_certificate(certificate_pem, f"{address}: the answer")
    try:
        identity = check_certificate(certificate, ca, now_us)
    except BadCertificate as error:
        raise BadSetup(f"{address}: gave a certificate that cannot be used here: {error}") from error
    if (identity.cluster, identity.role, identity.name) != (token.cluster, token.role, node):
        raise BadSetup(f"{address}: gave a certificate for {identity.uri}")
    if certificate.public_key() != key.public_key():
        raise BadSetup(f"{address}: gave a certificate for another key")
    _make_folder(folder)
    write_files(
        (folder / f"{token.role}.key", key_to_pem(key), SECRET),
        (folder / f"{token.role}.pem", certificate_pem, PUBLIC),
        (folder / "ca.pem", to_pem(ca), PUBLIC),
    )
    return load_credentials(folder, token.role, now_us)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise BadSetup(f"{folder}: cannot be made: {error.strerror}") from error


def pinned_ca(address: str, ca_fingerprint: bytes, timeout_s: float) -> x509.Certificate:
    """Returns the CA certificate that the server presents, if it has this fingerprint. Sends nothing but a TLS handshake."""
    host, port = split_address(address)
    # Deliberately unverified: the fingerprint decides, and the connection that carries data is fully verified.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["h2"])
    try:
        with (
            socket.create_connection((host, port), timeout_s) as connection,
            context.wrap_socket(connection, server_hostname=host) as secured,
        ):
            chain = _shown_chain(secured)
    except OSError as error:
        raise Unreachable(detail=f"{address}: {error.strerror or error}") from error
    for der in chain[:CHAIN_MAX]:
        if fingerprint(der) == ca_fingerprint:
            return x509.load_der_x509_certificate(der)
    raise JoinRefused(
        "pin", f"{address} is not the controller that made the join token: its CA has another fingerprint"
    )


def _shown_chain(secured: ssl.SSLSocket) -> list[bytes]:
    """Returns the certificates that the server sent. The method is public since Python 3.13; before, it is on `_sslobj`."""
    public: Any = getattr(secured, "get_unverified_chain", None)
    if public is not None:
        return list(public())
    lower: Any = getattr(secured, "_sslobj", None)
    return [ssl.PEM_cert_to_DER_cert(certificate.public_bytes()) for certificate in lower.get_unverified_chain() or ()]


def _request_certificate(
    address: str, ca: x509.Certificate, token: str, node: str, csr_pem: bytes, timeout_s: float
) -> bytes:
    from penstock.security.tls import client_channel
    from penstock.v1.controller_pb2 import JoinNodeRequest

    request = JoinNodeRequest(token=token, node_name=node, csr_pem=csr_pem)
    return ask_certificate("JoinNode", request, address, client_channel(to_pem(ca)), timeout_s)


def ask_certificate(
    method: str, request: "Message", address: str, credentials: "grpc.ChannelCredentials", timeout_s: float
) -> bytes:
    """Sends the request; returns the certificate in the controller's answer, PEM. Raises PenstockError."""
    import grpc

    from penstock.calls import final_error, find_rpc
    from penstock.grpclib import CHANNEL_OPTIONS, call_failed, quiet_grpc

    quiet_grpc()
    rpc = find_rpc(method, request)
    options = (*CHANNEL_OPTIONS, *CONTROLLER_OPTIONS)
    with grpc.secure_channel(address, credentials, options=options) as channel:
        call: Any = channel.unary_unary(rpc.path, rpc.serialize, rpc.deserialize)
        try:
            return bytes(call(request, timeout=timeout_s).certificate_pem)
        except grpc.RpcError as error:
            raise final_error(call_failed(error)) from error


def _hash(secret: bytes) -> str:
    """Returns a plain SHA-256 digest, which suffices: a secret of 128 random bits cannot be guessed."""
    return hashlib.sha256(secret).hexdigest()
