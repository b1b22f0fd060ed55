"""Joining: one use, one hour, one name, and nothing is sent to a server that is not the controller."""

import time

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding

from penstock.errors import BadSetup, PenstockError, Unreachable
from penstock.security import join as join_module
from penstock.security.ca import create_ca, identity_of, make_key
from penstock.security.join import JoinRefused, JoinTokens, admit, join, parse_join_token

NOW = time.time_ns() // 1000
HOUR = 3_600_000_000
SECRET = bytes(range(16))


@pytest.fixture
def ca(tmp_path):
    return create_ca(tmp_path / "ca", "c", NOW)


@pytest.fixture
def tokens(ca, tmp_path):
    return JoinTokens(tmp_path / "join.json", "c", ca.certificate, "h:6817")


def csr(key=None, name="whatever"):
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    return builder.sign(key or make_key(), hashes.SHA256()).public_bytes(Encoding.PEM)


def reason(action):
    with pytest.raises(JoinRefused) as caught:
        action()
    return caught.value.reason


def test_a_token_gives_one_certificate_for_its_node(ca, tokens):
    token, expires_at_us = tokens.create("n1", SECRET, NOW)
    assert expires_at_us == NOW + HOUR
    key = make_key()
    pem, ca_pem = admit(ca, tokens, token, "n1", csr(key, "root"), NOW + 1)
    certificate = x509.load_pem_x509_certificate(pem)
    assert identity_of(certificate).uri == "penstock://c/node/n1" and ca_pem == ca.pem
    assert certificate.public_key() == key.public_key()
    assert reason(lambda: admit(ca, tokens, token, "n1", csr(), NOW + 2)) == "used"


def test_other_name_and_expired(ca, tokens):
    token, _ = tokens.create("n1", SECRET, NOW)
    assert reason(lambda: admit(ca, tokens, token, "n2", csr(), NOW)) == "name"
    assert reason(lambda: admit(ca, tokens, token, "n1", csr(), NOW + HOUR + 1)) == "expired"
    admit(ca, tokens, token, "n1", csr(), NOW + HOUR)  # a refusal has not used it up


def test_tokens_outlive_a_restart_and_so_does_their_use(ca, tokens, tmp_path):
    token, _ = tokens.create("n1", SECRET, NOW)

    def restarted():
        return JoinTokens(tmp_path / "join.json", "c", ca.certificate, "h:6817")

    admit(ca, restarted(), token, "n1", csr(), NOW)
    assert reason(lambda: admit(ca, restarted(), token, "n1", csr(), NOW)) == "used"


def test_the_file_does_not_give_the_secret_away(ca, tokens, tmp_path):
    token, _ = tokens.create("n1", SECRET, NOW)
    stored = (tmp_path / "join.json").read_bytes()
    assert parse_join_token(token).secret == SECRET
    assert SECRET not in stored and SECRET.hex().encode() not in stored and token.encode() not in stored
    assert (tmp_path / "join.json").stat().st_mode & 0o777 == 0o600
    (tmp_path / "join.json").chmod(0o644)
    with pytest.raises(BadSetup, match="table of join tokens is accessible by others"):
        JoinTokens(tmp_path / "join.json", "c", ca.certificate, "h:6817")


def test_a_token_of_nobody(ca, tokens, tmp_path):
    other = JoinTokens(tmp_path / "other.json", "c", ca.certificate, "h:6817")
    token, _ = other.create("n1", bytes(16), NOW)
    assert reason(lambda: admit(ca, tokens, token, "n1", csr(), NOW)) == "unknown"


@pytest.mark.parametrize("text", ["", "x", "penstock-join-1.", "penstock-join-1.@@@", "penstock-join-1.AAAA", "é" * 10])
def test_not_a_token(text):
    assert reason(lambda: parse_join_token(text)) == "malformed"


def test_a_bad_request_does_not_use_the_token_up(ca, tokens):
    token, _ = tokens.create("n1", SECRET, NOW)
    other_curve = csr(ec.generate_private_key(ec.SECP384R1()))
    rsa_key = csr(rsa.generate_private_key(65537, 2048))
    swapped = bytearray(csr())
    swapped[120] ^= 1
    for bad in (b"", b"junk", other_curve, rsa_key, bytes(swapped), b"x" * 20_000):
        assert reason(lambda bad=bad: admit(ca, tokens, token, "n1", bad, NOW)) == "request"
    admit(ca, tokens, token, "n1", csr(), NOW)


def test_the_table_is_bounded_and_swept(ca, tokens, monkeypatch):
    monkeypatch.setattr(join_module, "TOKENS_MAX", 3)
    for n in range(3):
        tokens.create(f"n{n}", bytes([n]) * 16, NOW)
    with pytest.raises(PenstockError, match="waiting already"):
        tokens.create("n9", bytes([9]) * 16, NOW)
    tokens.create("n9", bytes([9]) * 16, NOW + 2 * HOUR + 1)
    for n in range(2):  # the three have made room
        tokens.create(f"m{n}", bytes([8, n]) * 8, NOW + 2 * HOUR + 1)
    with pytest.raises(PenstockError, match="waiting already"):
        tokens.create("m2", bytes([8, 2]) * 8, NOW + 2 * HOUR + 1)


def test_a_node_joins(started, tmp_path):
    token, _ = started.join_tokens.create("n1", SECRET, NOW)
    held = join(token, "n1", tmp_path / "n1", time.time_ns() // 1000)
    assert held.identity.uri == "penstock://tiny/node/n1"
    assert {p.name: p.stat().st_mode & 0o777 for p in (tmp_path / "n1").iterdir()} == {
        "node.key": 0o600,
        "node.pem": 0o644,
        "ca.pem": 0o644,
    }
    assert [method for method, _ in started.calls] == ["JoinNode"]


def test_the_wrong_node_does_not_even_ask(started, tmp_path):
    token, _ = started.join_tokens.create("n1", SECRET, NOW)
    assert reason(lambda: join(token, "n2", tmp_path / "n2", NOW)) == "name"
    assert reason(lambda: join(token, "n1", tmp_path / "n1", NOW + 2 * HOUR)) == "expired"
    assert started.calls == [] and not (tmp_path / "n1").exists()


def test_an_impostor_is_told_nothing(started, tmp_path):
    other = create_ca(tmp_path / "elsewhere", "tiny", NOW)  # the cluster that the person meant
    address = f"127.0.0.1:{started.ports['command']}"
    token, _ = JoinTokens(tmp_path / "j.json", "tiny", other.certificate, address).create("n1", SECRET, NOW)
    assert reason(lambda: join(token, "n1", tmp_path / "n1", NOW)) == "pin"
    assert started.calls == [] and not (tmp_path / "n1").exists()


def test_the_controller_is_known_by_its_role_and_not_by_its_address(misnamed, tmp_path):
    """Who holds a token knows the CA by its fingerprint; the address is only where to look. tests/security has impostors."""
    token, _ = misnamed.join_tokens.create("n1", SECRET, time.time_ns() // 1000)
    assert join(token, "n1", tmp_path / "n1", time.time_ns() // 1000).identity.name == "n1"


def test_nobody_there(ca, tmp_path):
    token, _ = JoinTokens(tmp_path / "j.json", "c", ca.certificate, "127.0.0.1:1").create("n1", SECRET, NOW)
    with pytest.raises(Unreachable, match="Unable to contact"):
        join(token, "n1", tmp_path / "n1", NOW)
