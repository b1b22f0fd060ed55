"""JSON web tokens: what a valid one states, and every way in which one is not valid."""

import base64
import hashlib
import hmac
import json
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from hypothesis import given
from hypothesis import strategies as st

from penstock.security.jwt import BadKey, SigningKey, read_signing_key
from penstock.security.jwtkeys import CLOCK_SKEW_S, JWT_BYTES_MAX, KNOWN_MAX, JwtKeys, JwtRefused, UserClaims

NOW_S = 1_800_000_000
SECRET = bytes(range(32))
OWN = SigningKey(SECRET)
RSA_KEY = rsa.generate_private_key(65537, 2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
PEM = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def part(value: object) -> str:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def forged(header: object, payload: object, secret: bytes = SECRET, digest: str = "sha256") -> str:
    """A token as an attacker writes it, signed by HMAC."""
    text = f"{part(header)}.{part(payload)}"
    return f"{text}.{part(hmac.digest(secret, text.encode(), digest))}"


def claims(**more: object) -> dict[str, object]:
    return {"sun": "ann", "iat": NOW_S, "exp": NOW_S + 60, **more}


def key_set(*keys: Mapping[str, object]) -> bytes:
    return json.dumps({"keys": keys}).encode()


def public(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey, **more: object) -> dict[str, object]:
    if isinstance(key, rsa.RSAPrivateKey):
        return jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key(), as_dict=True) | more
    return jwt.algorithms.ECAlgorithm.to_jwk(key.public_key(), as_dict=True) | more


HEAD = {"alg": "HS256", "typ": "JWT"}
KEYS = JwtKeys("c", OWN)


def reason(keys: JwtKeys, token: str, now_s: float = NOW_S) -> str:
    with pytest.raises(JwtRefused) as refused:
        keys.verify(token, now_s)
    assert len(token) < 20 or token[-20:] not in refused.value.explanation
    return refused.value.reason


def test_what_scontrol_makes_is_valid() -> None:
    token = OWN.make("ann", NOW_S, 60)
    assert KEYS.verify(token, NOW_S + 59) == UserClaims("ann", NOW_S, NOW_S + 60)
    assert reason(KEYS, token, NOW_S + 60) == "expired"
    signed, _, signature = token.rpartition(".")
    assert signature == part(hmac.new(SECRET, signed.encode(), hashlib.sha256).digest())
    pem = SigningKey(RSA_KEY.private_bytes(*PEM))
    assert pem.algorithm == "RS256"
    assert JwtKeys("c", pem).verify(pem.make("bob", NOW_S, 60), NOW_S).user_name == "bob"


def test_a_signature_is_read_once_and_the_times_at_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """A token that is sent with each question of a page; more than are known are verified again, and so is any other text."""
    read: list[str] = []
    decode = jwt.api_jws.decode_complete

    def counted(token: str, *rest: object, **more: object) -> object:
        read.append(token)
        return decode(token, *rest, **more)  # type: ignore[arg-type]  # passed on as they came

    monkeypatch.setattr(jwt.api_jws, "decode_complete", counted)
    keys = JwtKeys("c", OWN, key_set(public(RSA_KEY, kid="r")))
    token = jwt.encode(claims(nbf=NOW_S - 10), RSA_KEY, "RS256", {"kid": "r"})
    assert reason(keys, token, NOW_S - 11 - CLOCK_SKEW_S) == "early"  # and what was refused is not known
    for now_s in (NOW_S, NOW_S + 59, NOW_S - 10):
        assert keys.verify(token, now_s) == UserClaims("ann", NOW_S, NOW_S + 60)
    assert read == [token] * 2
    assert reason(keys, token, NOW_S + 60) == "expired"
    assert reason(keys, token, NOW_S - 11 - CLOCK_SKEW_S) == "early"
    assert reason(keys, forged(HEAD, claims(), b"x" * 32)) == "signature"
    assert reason(JwtKeys("c", OWN), token) == "algorithm"
    last = [OWN.make(f"user{number}", NOW_S, 60) for number in range(KNOWN_MAX)]
    for one in last:
        keys.verify(one, NOW_S)
    read.clear()
    keys.verify(last[0], NOW_S)
    keys.verify(token, NOW_S)
    assert read == [token]


def test_keys_of_an_identity_provider() -> None:
    keys = JwtKeys("c", OWN, key_set(public(RSA_KEY, kid="r"), public(EC_KEY, kid="e")))
    for key, algorithm, kid in ((RSA_KEY, "RS256", "r"), (EC_KEY, "ES256", "e")):
        assert keys.verify(jwt.encode(claims(), key, algorithm, {"kid": kid}), NOW_S).user_name == "ann"
    assert keys.verify(OWN.make("ann", NOW_S, 60), NOW_S).user_name == "ann"
    assert reason(keys, jwt.encode(claims(), RSA_KEY, "RS256", {"kid": "e"})) == "algorithm"
    assert reason(keys, jwt.encode(claims(), RSA_KEY, "RS256", {"kid": "other"})) == "algorithm"
    single = JwtKeys("c", OWN, key_set(public(RSA_KEY, kid="r")))  # as providers with one key: its tokens name none
    for token in (jwt.encode(claims(), RSA_KEY, "RS256"), jwt.encode(claims(), SECRET, "HS256")):
        assert single.verify(token, NOW_S).user_name == "ann"
    assert reason(single, jwt.encode(claims(), RSA_KEY, "RS256", {"kid": "other"})) == "algorithm"
    assert reason(single, jwt.encode(claims(), EC_KEY, "ES256")) == "algorithm"
    assert reason(keys, jwt.encode(claims(), RSA_KEY, "RS256")) == "algorithm"
    alone = JwtKeys("c", None, key_set(public(RSA_KEY, kid="r")))
    assert alone.verify(jwt.encode(claims(), RSA_KEY, "RS256"), NOW_S).user_name == "ann"
    assert reason(alone, jwt.encode(claims(), EC_KEY, "ES256", {"kid": "x"})) == "key"
    other = rsa.generate_private_key(65537, 2048)
    assert reason(alone, jwt.encode(claims(), other, "RS256", {"kid": "r"})) == "signature"


def test_a_public_key_is_no_secret() -> None:
    """Key confusion: the provider's public key, used as an HMAC secret in each form in which it is known."""
    keys = JwtKeys("c", None, key_set(public(RSA_KEY, kid="r")))
    formats = serialization.PublicFormat.SubjectPublicKeyInfo
    for encoding in (serialization.Encoding.PEM, serialization.Encoding.DER):
        secret = RSA_KEY.public_key().public_bytes(encoding, formats)
        for head in ({"alg": "HS256", "kid": "r"}, {"alg": "HS256"}, {"alg": "RS256", "kid": "r"}):
            assert reason(keys, forged(head, claims(), secret)) in ("algorithm", "signature")


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        (f"{part({'alg': 'none'})}.{part(claims())}.", "algorithm"),
        (f"{part({'alg': 'None', 'typ': 'JWT'})}.{part(claims())}.", "algorithm"),
        (f"{part({'typ': 'JWT'})}.{part(claims())}.", "malformed"),
        (forged({"alg": "HS512"}, claims(), digest="sha512"), "algorithm"),
        (forged({**HEAD, "crit": ["exp"]}, claims()), "malformed"),
        (forged({**HEAD, "b64": False}, claims()), "malformed"),
        (forged(HEAD, claims(), SECRET[:-1] + b"x"), "signature"),
        (forged(HEAD, claims()).rpartition(".")[0] + ".", "signature"),
        (forged(HEAD, {"sun": "ann", "iat": NOW_S}), "claims"),
        (forged(HEAD, claims(exp=None)), "claims"),
        (forged(HEAD, claims(exp="9999999999")), "claims"),
        (forged(HEAD, claims(exp=True)), "claims"),
        (forged(HEAD, b'{"sun": "ann", "exp": 1e999}'), "claims"),
        (forged(HEAD, b'{"sun": "ann", "exp": NaN}'), "claims"),
        (forged(HEAD, b'{"sun": "ann", "exp": ' + b"9" * 5000 + b"}"), "malformed claims expired"),
        (forged(HEAD, claims(exp=-1)), "expired"),
        (forged(HEAD, claims(nbf=NOW_S + CLOCK_SKEW_S + 1)), "early"),
        (forged(HEAD, claims(iat=NOW_S + CLOCK_SKEW_S + 1)), "early"),
        (forged(HEAD, claims(aud="d")), "audience"),
        (forged(HEAD, claims(aud=[])), "audience"),
        (forged(HEAD, claims(aud={"c": 1})), "claims"),
        (forged(HEAD, {"exp": NOW_S + 60}), "user"),
        (forged(HEAD, claims(sun="")), "user"),
        (forged(HEAD, claims(sun=0)), "user"),
        (forged(HEAD, claims(sun=["root"])), "user"),
        (forged(HEAD, claims(username="root")), "user"),
        (forged(HEAD, b"[" * 4000), "claims"),
        (forged(HEAD, b"[]"), "claims"),
        (forged(HEAD, b"\xff\xfe"), "claims"),
        (forged(b"[" * 4000, claims()), "malformed"),
        (forged([], claims()), "malformed"),
        ("", "malformed"),
        ("a.b", "malformed"),
        ("a.b.c.d", "malformed"),
        ("é.é.é", "malformed"),
        ("a" * (JWT_BYTES_MAX + 1), "malformed"),
    ],
)
def test_refused(token: str, expected: str) -> None:
    assert reason(KEYS, token) in expected.split()


def test_accepted_claims() -> None:
    skew = claims(nbf=NOW_S + CLOCK_SKEW_S, iat=NOW_S + CLOCK_SKEW_S, aud=["other", "c"], exp=NOW_S + 0.5)
    assert KEYS.verify(forged(HEAD, skew), NOW_S).user_name == "ann"
    assert KEYS.verify(forged(HEAD, {"username": "bob", "exp": NOW_S + 60}), NOW_S) == UserClaims("bob", 0, NOW_S + 60)
    assert KEYS.verify(forged(HEAD, claims(username="ann")), NOW_S).user_name == "ann"
    named = JwtKeys("c", OWN, user_claim="preferred_username")
    assert named.verify(forged(HEAD, claims(preferred_username="eve")), NOW_S).user_name == "eve"
    assert named.verify(forged(HEAD, claims()), NOW_S).user_name == "ann"  # made by scontrol token
    assert reason(named, forged(HEAD, {"exp": NOW_S + 60})) == "user"


def test_another_audience_and_claim_are_the_providers_alone() -> None:
    """A token of the site's own key is for this cluster, and names the user as scontrol token does."""
    keys = JwtKeys("c", OWN, key_set(public(RSA_KEY, kid="r")), "login", "client")
    provider, own = (
        partial(jwt.encode, key=RSA_KEY, algorithm="RS256"),
        partial(jwt.encode, key=SECRET, algorithm="HS256"),
    )
    found = keys.verify(provider({"login": "eve", "sun": "ann", "aud": "client", "exp": NOW_S + 60}), NOW_S)
    assert found.user_name == "eve"
    assert keys.verify(provider({"login": "eve", "aud": ["x", "c"], "exp": NOW_S + 60}), NOW_S).user_name == "eve"
    assert reason(keys, provider({"sun": "ann", "aud": "client", "exp": NOW_S + 60})) == "user"
    assert reason(keys, provider({"login": "eve", "aud": "other", "exp": NOW_S + 60})) == "audience"
    assert reason(keys, provider({"login": "eve", "aud": "", "exp": NOW_S + 60})) == "audience"
    assert reason(keys, own({"sun": "ann", "aud": "client", "exp": NOW_S + 60})) == "audience"
    assert keys.verify(own({"sun": "ann", "aud": "c", "exp": NOW_S + 60}), NOW_S).user_name == "ann"
    without = JwtKeys("c", OWN, key_set(public(RSA_KEY, kid="r")), "login")
    assert reason(without, provider({"login": "eve", "aud": "", "exp": NOW_S + 60})) == "audience"


@given(at=st.integers(0, 200), byte=st.integers(0, 255), cut=st.integers(0, 200))
def test_a_changed_token_is_refused(at: int, byte: int, cut: int) -> None:
    """Whatever is changed: it is refused, and nothing else happens."""
    token = OWN.make("ann", NOW_S, 60)
    changed = bytearray(token.encode())
    changed[at % len(changed)] = byte
    for text in (bytes(changed).decode("latin-1"), token[:cut], token + token[:cut]):
        try:
            found = KEYS.verify(text, NOW_S)
        except JwtRefused:
            continue
        # The last character of a signature has two bits that belong to no byte.
        assert found.user_name == "ann" and text[:-1] == token[:-1]


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_any_header_and_any_claims(head: bytes, payload: bytes) -> None:
    for token in (forged(head, payload), forged(HEAD, payload)):
        try:
            KEYS.verify(token, NOW_S)
        except JwtRefused:
            continue
        raise AssertionError(token)


def test_key_sets_that_are_refused() -> None:
    short = rsa.generate_private_key(65537, 1024)
    secret = {"kty": "oct", "k": part(SECRET), "kid": "s"}
    private = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(RSA_KEY)) | {"kid": "p"}
    curve = public(ec.generate_private_key(ec.SECP384R1()))
    encryption = public(RSA_KEY, use="enc")
    for text in (
        b"", b"{}", b"[]", b'{"keys": []}', b'{"keys": 1}', b"\xff", b"[" * 9000, b'{"keys": [1]}',
        key_set(secret), key_set(private), key_set(public(short)), key_set(curve), key_set(encryption),
        key_set(public(RSA_KEY, alg="RS512")), key_set(*[public(RSA_KEY, kid=str(n)) for n in range(65)]),
    ):  # fmt: skip
        with pytest.raises(BadKey):
            JwtKeys("c", None, text)
    mixed = JwtKeys("c", None, key_set(secret, public(EC_KEY, kid="e")))
    assert reason(mixed, forged({"alg": "HS256", "kid": "s"}, claims())) == "key"


def test_key_files(tmp_path: Path) -> None:
    path = tmp_path / "key"
    for data in (b"", b"x" * 31, b"-----BEGIN PRIVATE KEY-----\nx", b"x" * 70_000, EC_KEY.private_bytes(*PEM)):
        path.write_bytes(data)
        path.chmod(0o600)
        with pytest.raises(BadKey):
            read_signing_key(str(path))
    path.write_bytes(SECRET)
    for mode, is_private in ((0o600, True), (0o640, True), (0o604, False), (0o602, False), (0o601, False)):
        os.chmod(path, mode)
        if is_private:
            assert read_signing_key(str(path)).algorithm == "HS256"
            continue
        with pytest.raises(BadKey, match="chmod 600"):
            read_signing_key(str(path))
    with pytest.raises(OSError):
        read_signing_key(str(tmp_path / "none"))
