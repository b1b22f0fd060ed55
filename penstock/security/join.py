"""How a new node gets its certificate: a one-use join token, carried over by a person.

The controller makes the token (`penstock node token NAME`): 128 random bits, good for one hour, one use and one node
name, with the CA's fingerprint and the controller's address inside. The node makes its key itself, and the key never
leaves it. Before it sends anything it looks at the chain that the server shows, takes the CA certificate whose
fingerprint is in the token, and opens the real connection trusting that one alone: who sits in between sees neither
token nor request.

The controller keeps only hashes of the secrets, in a 0600 file that is synced before a token is handed out and before
a certificate is. A used token is kept until it would have expired, to tell "used twice" (somebody else may have used
it) from "never existed". A node may join again, with a new token, for a new certificate. A login host joins in the same
way, with a token for the role login.
"""

import base64
import hashlib
import socket
import ssl
from pathlib import Path
from typing import Any, Final

import msgspec
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

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
from penstock.security.keyfiles import read_secret, write_public, write_secret
from penstock.values.refusals import TEXT, Code

LIFETIME_US: Final = 3_600_000_000
SECRET_BYTES: Final = 16
#: A controller's certificate is never given over the network.
JOIN_ROLES: Final = ("node", "login")
#: Nodes that may be waiting to join at one time; a cluster of this size is set up within the hour of one token's life.
TOKENS_MAX: Final = 10_000
CSR_BYTES_MAX: Final = 16 * 1024
TOKEN_TEXT_MAX: Final = 2048
CHAIN_MAX: Final = 4
CONNECT_TIMEOUT_S: Final = 10.0
_PREFIX: Final = "penstock-join-1."


class JoinRefused(PenstockError):
    """A node may not join with this token. `reason` is one word for tables and tests."""

    def __init__(self, reason: str, explanation: str) -> None:
        super().__init__(Code.ACCESS_DENIED, f"{TEXT[Code.ACCESS_DENIED]}: {explanation}")
        self.reason = reason


class JoinToken(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What a join token says."""

    cluster: str
    node: str
    address: str
    ca_fingerprint: bytes
    secret: bytes
    expires_at_us: int
    role: str = "node"

    def to_text(self) -> str:
        """The form that is copied by a person."""
        return _PREFIX + base64.urlsafe_b64encode(msgspec.msgpack.encode(self)).decode().rstrip("=")


def parse_join_token(text: str) -> JoinToken:
    """Read a token. Raises JoinRefused when it is not one."""
    body = text.strip().removeprefix(_PREFIX)
    if body == text.strip() or len(body) > TOKEN_TEXT_MAX:
        raise JoinRefused("malformed", "this is not a join token: make one with `penstock node token NAME`")
    try:
        data = base64.b64decode(body + "=" * (-len(body) % 4), altchars=b"-_", validate=True)
        return msgspec.msgpack.decode(data, type=JoinToken)
    except (ValueError, msgspec.MsgspecError) as error:
        raise JoinRefused("malformed", "the join token is damaged: copy all of it") from error


class Pending(msgspec.Struct):
    """What the controller keeps of a token."""

    node: str
    expires_at_us: int
    used: bool = False
    role: str = "node"


class JoinTokens:
    """The controller's side: the tokens that were given out. One process uses the file."""

    def __init__(self, path: Path, cluster: str, ca: x509.Certificate, address: str) -> None:
        self._path = path
        self._cluster = cluster
        self._fingerprint = fingerprint(to_der(ca))
        self._address = address
        self._pending = self._read()

    def create(self, node: str, secret: bytes, now_us: int, role: str = "node") -> tuple[str, int]:
        """A token for this node or login host, and when it expires. secret: 16 random bytes."""
        if len(secret) != SECRET_BYTES:
            raise ValueError(f"a secret has {SECRET_BYTES} bytes")
        check_label(node, "node name")
        if role not in JOIN_ROLES:
            raise PenstockError(Code.INVALID_VALUE, f"role {role[:64]!r} is not one of {', '.join(JOIN_ROLES)}")
        self._sweep(now_us)
        if len(self._pending) >= TOKENS_MAX:
            raise PenstockError(Code.BUSY, f"{TOKENS_MAX} join tokens are waiting already: they expire within the hour")
        expires_at_us = now_us + LIFETIME_US
        pending = {**self._pending, _hash(secret): Pending(node, expires_at_us, role=role)}
        self._store(pending)
        token = JoinToken(self._cluster, node, self._address, self._fingerprint, secret, expires_at_us, role)
        return token.to_text(), expires_at_us

    def redeem(self, text: str, node: str, now_us: int) -> Pending:
        """Use the token up for this node; returns what it was for. Raises JoinRefused, and then nothing has changed."""
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
        """Forget tokens an hour after they have expired; until then they are refused by their proper reason."""
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


def admit(
    authority: Authority, tokens: JoinTokens, token: str, node: str, csr_pem: bytes, now_us: int
) -> tuple[bytes, bytes]:
    """The controller's whole answer to JoinNode: the node's certificate and the CA's, as PEM. Raises JoinRefused.

    Of the request for a certificate only the key is taken: name and role come from the table of tokens.
    """
    public_key = _key_of_request(csr_pem)
    redeemed = tokens.redeem(token, node, now_us)
    return to_pem(authority.issue(redeemed.role, redeemed.node, public_key, now_us)), authority.pem


def _key_of_request(csr_pem: bytes) -> ec.EllipticCurvePublicKey:
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
    """The node's side: get a certificate, write ROLE.key, ROLE.pem, ca.pem. address: another way to the controller."""
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
    certificate_pem = _ask(address, ca, token_text.strip(), node, csr_pem, timeout_s)
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
    write_secret(folder / f"{token.role}.key", key_to_pem(key))
    write_public(folder / f"{token.role}.pem", certificate_pem)
    write_public(folder / "ca.pem", to_pem(ca))
    return load_credentials(folder, token.role, now_us)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise BadSetup(f"{folder}: cannot be made: {error.strerror}") from error


def pinned_ca(address: str, ca_fingerprint: bytes, timeout_s: float) -> x509.Certificate:
    """The CA certificate that the server shows, if it has this fingerprint. Nothing is sent but a handshake."""
    from penstock.client import split_address

    host, port = split_address(address)
    # Not verified on purpose: the fingerprint decides, and the connection that carries anything is verified in full.
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
    """The certificates that the server sent. A public method since Python 3.13; before, the same one a level below."""
    public: Any = getattr(secured, "get_unverified_chain", None)
    if public is not None:
        return list(public())
    lower: Any = getattr(secured, "_sslobj", None)
    return [ssl.PEM_cert_to_DER_cert(certificate.public_bytes()) for certificate in lower.get_unverified_chain() or ()]


def _ask(address: str, ca: x509.Certificate, token: str, node: str, csr_pem: bytes, timeout_s: float) -> bytes:
    import grpc

    from penstock.client import CHANNEL_OPTIONS, TryAgain, find_rpc, quiet_grpc, raise_for
    from penstock.security.tls import client_channel
    from penstock.v1.controller_pb2 import JoinNodeRequest

    quiet_grpc()
    request = JoinNodeRequest(token=token, node_name=node, csr_pem=csr_pem)
    rpc = find_rpc("JoinNode", request)
    with grpc.secure_channel(address, client_channel(to_pem(ca)), options=CHANNEL_OPTIONS) as channel:
        call: Any = channel.unary_unary(rpc.path, rpc.serialize, rpc.deserialize)
        try:
            return bytes(call(request, timeout=timeout_s).certificate_pem)
        except grpc.RpcError as error:
            try:
                raise_for(error)
            except TryAgain as broken:
                raise broken.error from error


def _hash(secret: bytes) -> str:
    """Plain SHA-256 will do: the secret has 128 random bits, there is nothing to guess."""
    return hashlib.sha256(secret).hexdigest()
