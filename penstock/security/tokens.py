"""User tokens: "the kernel of HOST states that this is uid U", valid for one call within a minute.

A token is [version, claims, signer's certificate, signature] in msgpack. The signature, by the certificate's EC key,
covers a fixed prefix and the claims. The verifier accepts it if the certificate was issued by the cluster's CA, is
within its term and not on the deny list; the claims name this cluster and the signer's own host; the times are valid;
and the token has not been used. A node may sign only for users who have a job there at that moment, as reported by the
verifier's owner: a stolen node key gives access as those users only. Further restrictions by host and user are in
ctld/rpc/gate/auth.py.

Used tokens are remembered in memory until they expire. A restart clears that memory, so tokens made before it are
refused with "try again": they could be replays, and a client gets a new one in a millisecond.
"""

import os
from collections.abc import Callable
from typing import Final

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from penstock.errors import PenstockError
from penstock.security.ca import BadCertificate, Credentials, check_certificate, to_der
from penstock.values.refusals import TEXT, Code

TOKEN_VERSION: Final = 1
LIFETIME_US: Final = 60_000_000
SKEW_US: Final = 30_000_000
TOKEN_BYTES_MAX: Final = 4096
#: Tokens remembered at one time: 1,000 calls per second for the 90 seconds that each is kept, with room for bursts.
SEEN_MAX: Final = 200_000
#: Hosts whose parsed certificates are cached: nodes whose jobs call the controller, and login hosts.
SIGNERS_MAX: Final = 8192
_PREFIX: Final = b"penstock user token 1\n"
_ECDSA: Final = ec.ECDSA(hashes.SHA256())


class Claims(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The content of a token."""

    uid: int
    gid: int
    host: str
    aud: str
    iat_us: int
    exp_us: int
    jti: bytes


class Caller(msgspec.Struct, frozen=True):
    """The user of a valid token, and the role of the host that signed it."""

    uid: int
    gid: int
    host: str
    role: str  # controller, login or node
    has_job: bool = True  # whether the user has a job on the signing node; only root is accepted without
    signer_serial: int = 0  # of the host's certificate


class Envelope(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A token on the wire."""

    version: int
    claims: bytes
    signer: bytes
    signature: bytes


class TokenRefused(PenstockError):
    """A token is not accepted. `reason` is one word for tables and tests; `passing`: a new token may be accepted."""

    def __init__(self, reason: str, explanation: str, passing: bool = False) -> None:
        super().__init__(Code.ACCESS_DENIED, f"{TEXT[Code.ACCESS_DENIED]}: {explanation}")
        self.reason = reason
        self.explanation = explanation
        self.passing = passing


class TokenIssuer:
    """Signs tokens on behalf of this host."""

    def __init__(self, credentials: Credentials) -> None:
        self._key = credentials.key
        self._signer = to_der(credentials.certificate)
        self._host = credentials.identity.name
        self._cluster = credentials.identity.cluster

    def issue(self, uid: int, gid: int, now_us: int) -> bytes:
        """Returns a token for one call by this user."""
        claims = msgspec.msgpack.encode(
            Claims(uid, gid, self._host, self._cluster, now_us, now_us + LIFETIME_US, os.urandom(16))
        )
        signature = self._key.sign(_PREFIX + claims, _ECDSA)
        return msgspec.msgpack.encode(Envelope(TOKEN_VERSION, claims, self._signer, signature))


class _Signer(msgspec.Struct, frozen=True):
    key: ec.EllipticCurvePublicKey
    host: str
    role: str
    serial: int
    start_us: int  # term of the certificate
    end_us: int


class TokenVerifier:
    """Verifies tokens, and accepts each valid one once."""

    def __init__(
        self, ca: x509.Certificate, cluster: str, started_us: int, denied: frozenset[int] = frozenset()
    ) -> None:
        self.denied = denied
        #: (node, uid) -> whether the user has a job there now. Refuses all until the verifier's owner sets it.
        self.has_job: Callable[[str, int], bool] = lambda node, uid: False
        self._ca = ca
        self._cluster = cluster
        self._started_us = started_us
        self._seen: dict[bytes, int] = {}  # jti -> expiry, in order of arrival
        self._signers: dict[bytes, _Signer] = {}

    def verify(self, token: bytes, now_us: int) -> Caller:
        """Returns the caller of the token. Raises TokenRefused."""
        if len(token) > TOKEN_BYTES_MAX:
            raise TokenRefused("malformed", "the token is too long")
        try:
            envelope = msgspec.msgpack.decode(token, type=Envelope)
            claims = msgspec.msgpack.decode(envelope.claims, type=Claims)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise TokenRefused("malformed", "the token cannot be read") from error
        if envelope.version != TOKEN_VERSION:
            raise TokenRefused("malformed", f"the token's version {envelope.version} is not known")
        signer = self._signer(envelope.signer, now_us)
        try:
            signer.key.verify(envelope.signature, _PREFIX + envelope.claims, _ECDSA)
        except InvalidSignature as error:
            raise TokenRefused("signature", "the token's signature is wrong") from error
        if claims.aud != self._cluster or claims.host != signer.host:
            raise TokenRefused("cluster", f"the token is for cluster {claims.aud!r} from host {claims.host!r}")
        self._check_times(claims, now_us)
        self._remember(claims, now_us)
        caller = Caller(claims.uid, claims.gid, signer.host, signer.role, signer_serial=signer.serial)
        return self.verify_again(caller)

    def verify_again(self, caller: Caller) -> Caller:
        """Returns the caller of a token that was accepted before, if its host may still assert that user: the token's own
        term is that of its first use. Raises TokenRefused."""
        if caller.signer_serial in self.denied:
            raise TokenRefused("signer", "the token's signer has been revoked")
        has_job = caller.role != "node" or self.has_job(caller.host, caller.uid)
        if not has_job and caller.uid != 0:
            raise TokenRefused("no-job", f"uid {caller.uid} has no job on node {caller.host}")
        return msgspec.structs.replace(caller, has_job=has_job)

    def _signer(self, der: bytes, now_us: int) -> _Signer:
        """Verifies the CA's signature once per certificate, its term and the deny list on every use."""
        known = self._signers.get(der)
        signer = known or self._read_signer(der)
        if signer.serial in self.denied:
            raise TokenRefused("signer", "the token's signer has been revoked")
        if not signer.start_us <= now_us <= signer.end_us:
            raise TokenRefused("signer", "the certificate of the token's signer is not in force: renew it")
        if known is None:
            if len(self._signers) >= SIGNERS_MAX:
                self._signers.clear()
            self._signers[der] = signer
        return signer

    def _read_signer(self, der: bytes) -> _Signer:
        certificate = _parse(der)
        try:
            identity = check_certificate(certificate, self._ca, None)
        except BadCertificate as error:
            raise TokenRefused("signer", f"the token's signer is not trusted: {error}") from error
        key = certificate.public_key()
        if not isinstance(key, ec.EllipticCurvePublicKey):
            raise TokenRefused("signer", "the certificate of the token's signer is for another kind of key")
        if identity.cluster != self._cluster:
            raise TokenRefused("cluster", f"the token's signer belongs to cluster {identity.cluster!r}")
        start_s, end_s = (t.timestamp() for t in (certificate.not_valid_before_utc, certificate.not_valid_after_utc))
        return _Signer(
            key,
            identity.name,
            identity.role,
            certificate.serial_number,
            int(start_s) * 1_000_000,
            int(end_s) * 1_000_000,
        )

    def _check_times(self, claims: Claims, now_us: int) -> None:
        if claims.exp_us - claims.iat_us > LIFETIME_US or claims.exp_us < claims.iat_us:
            raise TokenRefused("malformed", "the token's term is not allowed")
        if claims.iat_us > now_us + SKEW_US:
            ahead_s = (claims.iat_us - now_us) // 1_000_000
            raise TokenRefused("skew", f"the clock of {claims.host} is {ahead_s} s ahead of the controller's")
        if claims.exp_us + SKEW_US < now_us:
            ago_s = (now_us - claims.exp_us) // 1_000_000
            raise TokenRefused(
                "expired", f"the token has expired {ago_s} s ago (or the clock of {claims.host} is behind)"
            )
        if claims.iat_us < self._started_us:
            raise TokenRefused("stale", "the token is older than this controller's start; try again", passing=True)

    def _remember(self, claims: Claims, now_us: int) -> None:
        if claims.jti in self._seen:
            raise TokenRefused("replayed", "the token has been used before")
        if len(self._seen) >= SEEN_MAX:
            self._forget(now_us)
            if len(self._seen) >= SEEN_MAX:
                raise TokenRefused("busy", "too many calls within a minute; try again", passing=True)
        self._seen[claims.jti] = claims.exp_us + SKEW_US
        if len(self._seen) & 0xFF == 0:
            self._forget(now_us)

    def _forget(self, now_us: int) -> None:
        """Drops expired tokens, oldest arrivals first; those that arrived out of order stay a little longer."""
        expired = []
        for jti, forget_us in self._seen.items():
            if forget_us >= now_us:
                break
            expired.append(jti)
        for jti in expired:
            del self._seen[jti]


def _parse(der: bytes) -> x509.Certificate:
    try:
        return x509.load_der_x509_certificate(der)
    except (ValueError, x509.InvalidVersion) as error:
        raise TokenRefused("malformed", "the token's certificate cannot be read") from error
