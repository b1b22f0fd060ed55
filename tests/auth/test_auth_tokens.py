"""User tokens: good once, for this cluster, for a minute, from a controller or login host; anything else is refused."""

import dataclasses
import time
from functools import cache

import msgspec
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.security import tokens as tokens_module
from penstock.security.ca import create_ca, issue_to_folder, load_credentials
from penstock.security.tokens import Claims, Envelope, TokenIssuer, TokenRefused, TokenVerifier

NOW = time.time_ns() // 1000
S = 1_000_000


@pytest.fixture
def ca(tmp_path):
    return create_ca(tmp_path / "ca", "c", NOW)


@pytest.fixture
def issuer(ca, tmp_path):
    return member(ca, tmp_path, "controller", "h")


@pytest.fixture
def verifier(ca):
    return TokenVerifier(ca.certificate, "c", NOW)


def member(ca, tmp_path, role, name, at=NOW):
    folder = tmp_path / f"{ca.cluster}-{role}-{name}"
    issue_to_folder(ca, folder, role, name, at)
    return TokenIssuer(load_credentials(folder, role, None))


def reason(verifier, token, at=NOW):
    with pytest.raises(TokenRefused) as caught:
        verifier.verify(token, at)
    assert caught.value.code == 2002 and "Access/permission denied" in caught.value.text
    return caught.value.reason


def test_a_good_token_names_its_user(issuer, verifier):
    claims = verifier.verify(issuer.issue(65534, 100, NOW), NOW + 2 * S)
    assert (claims.uid, claims.gid, claims.host, claims.role) == (65534, 100, "h", "controller")


def test_a_login_host_may_sign(ca, tmp_path, verifier):
    assert verifier.verify(member(ca, tmp_path, "login", "l1").issue(5, 5, NOW), NOW).host == "l1"


def test_a_node_speaks_only_for_those_who_have_a_job_there(ca, tmp_path, verifier):
    node = member(ca, tmp_path, "node", "n1")
    assert reason(verifier, node.issue(5, 5, NOW)) == "no-job"  # until somebody says otherwise, nobody has one
    jobs = {("n1", 5), ("n2", 6)}
    verifier.has_job = lambda name, uid: (name, uid) in jobs
    token = node.issue(5, 6, NOW)
    said = verifier.verify(token, NOW)
    assert (said.uid, said.gid, said.host, said.role) == (5, 6, "n1", "node")
    assert reason(verifier, token) == "replayed"
    assert reason(verifier, node.issue(6, 6, NOW)) == "no-job"  # that job is on another node
    assert not verifier.verify(node.issue(0, 0, NOW), NOW).has_job  # root needs none to drain the node
    jobs.clear()
    assert reason(verifier, node.issue(5, 5, NOW)) == "no-job"  # the job has ended


def test_a_node_cannot_sign_in_another_hosts_name(ca, tmp_path, verifier):
    verifier.has_job = lambda name, uid: True
    member(ca, tmp_path, "node", "n1")
    held = load_credentials(tmp_path / "c-node-n1", "node", None)
    node = TokenIssuer(dataclasses.replace(held, identity=dataclasses.replace(held.identity, name="n2")))
    assert reason(verifier, node.issue(5, 5, NOW)) == "cluster"


def test_replay_is_refused_and_does_not_wear_off(issuer, verifier):
    token = issuer.issue(1, 1, NOW)
    verifier.verify(token, NOW)
    assert [reason(verifier, token, NOW + n * S) for n in (0, 1, 60, 90)] == ["replayed"] * 4
    assert reason(verifier, token, NOW + 91 * S) == "expired"


def test_times(issuer, verifier):
    token = issuer.issue(1, 1, NOW)
    assert reason(verifier, token, NOW - 31 * S) == "skew"
    assert reason(verifier, token, NOW + 91 * S) == "expired"
    verifier.verify(token, NOW + 89 * S)  # a clock that is 29 s apart is good enough
    verifier.verify(issuer.issue(1, 1, NOW + 29 * S), NOW)


def test_a_token_from_before_the_start_could_be_a_replay(ca, issuer):
    token = issuer.issue(1, 1, NOW - 1)
    with pytest.raises(TokenRefused) as caught:
        TokenVerifier(ca.certificate, "c", NOW).verify(token, NOW)
    assert caught.value.reason == "stale" and caught.value.passing


def test_another_cluster(tmp_path, ca, issuer, verifier):
    other_ca = create_ca(tmp_path / "other", "c", NOW)  # of the same name, even
    assert reason(verifier, member(other_ca, tmp_path / "x", "controller", "h").issue(1, 1, NOW)) == "signer"
    assert reason(TokenVerifier(ca.certificate, "d", NOW), issuer.issue(1, 1, NOW)) == "cluster"


def test_a_signer_out_of_term_or_revoked(ca, tmp_path, issuer, verifier):
    old = member(ca, tmp_path, "login", "old", NOW - 91 * 86400 * S)
    assert reason(verifier, old.issue(1, 1, NOW)) == "signer"
    verifier.verify(issuer.issue(1, 1, NOW), NOW)
    serial = load_credentials(tmp_path / "c-controller-h", "controller", NOW).certificate.serial_number
    verifier.denied = frozenset({serial})
    assert reason(verifier, issuer.issue(1, 1, NOW)) == "signer"  # although its certificate was good a moment ago


def forged(tmp_path, issuer, **changes):
    """A token that its host signed with claims that the issuer would never make."""
    envelope = msgspec.msgpack.decode(issuer.issue(7, 7, NOW), type=Envelope)
    claims = msgspec.structs.replace(msgspec.msgpack.decode(envelope.claims, type=Claims), **changes)
    raw = msgspec.msgpack.encode(claims)
    key = load_credentials(tmp_path / "c-controller-h", "controller", None).key
    signature = key.sign(b"penstock user token 1\n" + raw, ec.ECDSA(hashes.SHA256()))
    return msgspec.msgpack.encode(msgspec.structs.replace(envelope, claims=raw, signature=signature))


def test_a_host_cannot_stretch_what_it_may_say(tmp_path, issuer, verifier):
    verifier.verify(forged(tmp_path, issuer), NOW)
    assert reason(verifier, forged(tmp_path, issuer, exp_us=NOW + 3600 * S)) == "malformed"
    assert reason(verifier, forged(tmp_path, issuer, host="another")) == "cluster"
    assert reason(verifier, forged(tmp_path, issuer, aud="d")) == "cluster"


def test_claims_under_another_signature(issuer, verifier):
    one, two = (msgspec.msgpack.decode(issuer.issue(uid, 1, NOW), type=Envelope) for uid in (0, 1000))
    mixed = msgspec.structs.replace(two, claims=one.claims)
    assert reason(verifier, msgspec.msgpack.encode(mixed)) == "signature"


def test_memory_of_seen_tokens_is_bounded(monkeypatch, issuer, verifier):
    monkeypatch.setattr(tokens_module, "SEEN_MAX", 10)
    for _ in range(10):
        verifier.verify(issuer.issue(1, 1, NOW), NOW)
    assert reason(verifier, issuer.issue(1, 1, NOW)) == "busy"
    for _ in range(10):  # the others are forgotten
        verifier.verify(issuer.issue(1, 1, NOW + 100 * S), NOW + 100 * S)
    assert reason(verifier, issuer.issue(1, 1, NOW + 100 * S), NOW + 100 * S) == "busy"


@cache
def shared(folder):
    authority = create_ca(folder, "c", NOW)
    return authority, member(authority, folder, "controller", "h").issue(1000, 1000, NOW)


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_no_altered_token_is_accepted(tmp_path_factory, data):
    folder = tmp_path_factory.getbasetemp() / "tokens-shared"
    ca, token = shared(folder)
    at = data.draw(st.integers(0, len(token) - 1))
    altered = bytearray(token)
    altered[at] ^= data.draw(st.integers(1, 255))
    verifier = TokenVerifier(ca.certificate, "c", NOW)
    try:
        claims = verifier.verify(bytes(altered), NOW)
    except TokenRefused:
        return
    assert (claims.uid, claims.gid) == (1000, 1000)  # a byte that means nothing (a signature has several spellings)


@settings(max_examples=200, deadline=None)
@given(junk=st.binary(max_size=5000))
def test_junk_is_refused_in_words(tmp_path_factory, junk):
    ca, _ = shared(tmp_path_factory.getbasetemp() / "tokens-shared")
    assert reason(TokenVerifier(ca.certificate, "c", NOW), junk) == "malformed"
