"""Item 2, for JSON web tokens: what a token is worth to who holds it, who can make one, and what a revocation ends."""

import asyncio
import json
import os
import pwd
import stat
import time
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from patience import ANSWER_S

from ctld.rpc.gate.usertokens import Presented, UserTokens
from ctld.runtime.lookups import Lookups
from penstock.calls import USER_TOKEN_KEY, find_rpc, own_proof
from penstock.errors import PenstockError
from penstock.security.jwt import BadKey, SigningKey, read_key_file, read_signing_key
from penstock.security.jwtkeys import CLOCK_SKEW_S, JwtKeys, JwtRefused
from penstock.security.tls import client_channel
from penstock.transport import read_ca
from penstock.v1 import controller_pb2 as c
from tests.rpc.clusterkit import AutoNode, Site, submission, wait_for
from tests.security.test_02_join_tokens import said, signer

SECRET = bytes(range(32))
#: Another user of this machine, and of every other.
NOBODY = pwd.getpwnam("nobody")
US = 1_000_000


def site_of(tmp_path: Path) -> Site:
    key = tmp_path / "jwt.key"
    key.write_bytes(SECRET)
    key.chmod(0o600)
    return Site(tmp_path, extra=f"AuthAltTypes=auth/jwt\nAuthAltParameters=jwt_key={key}\n")


def token_of(name: str, **more: object) -> str:
    now_s = int(time.time())
    return jwt.encode({"sun": name, "iat": now_s, "exp": now_s + 600, **more}, SECRET, "HS256")


async def answer(site: Site, token: str) -> str:
    """ "ok", or why the token is refused."""
    request = c.PingRequest()
    rpc = find_rpc("Ping", request)
    cluster = site.cluster()
    async with grpc.aio.secure_channel(cluster.address, client_channel(read_ca(cluster))) as channel:
        call = channel.unary_unary(rpc.path, rpc.serialize, rpc.deserialize)
        try:
            await call(request, metadata=((USER_TOKEN_KEY, token),), timeout=ANSWER_S)
        except grpc.aio.AioRpcError as error:
            return error.details() or ""
    return "ok"


def test_02_a_nodes_word_makes_no_token(tmp_path: Path) -> None:
    """A node speaks for users who have a job there, and no longer: a token would be good for years, and from everywhere."""
    site = site_of(tmp_path)

    async def story() -> None:
        async with site.controller(), site.client() as client:
            node = AutoNode(site)
            node.code = None
            serving = asyncio.create_task(node.run())
            job = await site.call_as(NOBODY.pw_uid, "SubmitJob", submission())
            await wait_for(client, job.job_id, "RUNNING")
            stolen = signer(site, "node", "n1")
            assert await said(site, stolen, NOBODY.pw_uid, "ListJobs", c.ListJobsRequest()) == "ok"
            text = await said(site, stolen, NOBODY.pw_uid, "IssueToken", c.IssueTokenRequest(lifespan_s=300_000_000))
            assert "would outlive them" in text
            front = signer(site, "login", "front1")  # that is where users sit
            assert await said(site, front, NOBODY.pw_uid, "IssueToken", c.IssueTokenRequest()) == "ok"
            serving.cancel()

    asyncio.run(story())


def test_02_a_revocation_holds_for_all_names_of_a_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Directories know users by several names: in upper case, with a domain. Here `Nobody` is one."""
    plain = Lookups.caller_uid

    async def caller_uid(self: Lookups, name: str, for_uid: int) -> int | None:
        return await plain(self, name.lower(), for_uid)

    async def uid_of(self: Lookups, name: str, for_uid: int) -> int | None:
        return await plain(self, name.lower(), for_uid)

    monkeypatch.setattr(Lookups, "caller_uid", caller_uid)
    monkeypatch.setattr(Lookups, "uid_of", uid_of)
    site = site_of(tmp_path)
    names = (NOBODY.pw_name, NOBODY.pw_name.capitalize(), NOBODY.pw_name.upper())

    async def story() -> None:
        async with site.controller(), site.client() as client:
            for revoked in names:
                before = token_of(revoked)
                assert (
                    await answer(site, (await client.call("IssueToken", c.IssueTokenRequest(for_user=revoked))).token)
                    == "ok"
                )
                await client.call("RevokeTokens", c.RevokeTokensRequest(for_user=revoked))
                for token in (before, *map(token_of, names)):
                    assert "has been revoked" in await answer(site, token)
            for unknown in ("no such user", "4000000123"):
                with pytest.raises(PenstockError, match="Invalid user id"):  # and not: done
                    await client.call("RevokeTokens", c.RevokeTokensRequest(for_user=unknown))
            numbered = await client.call("IssueToken", c.IssueTokenRequest(for_user=str(NOBODY.pw_uid)))
            assert jwt.decode(numbered.token, SECRET, ["HS256"], audience="test", leeway=60)["sun"] == NOBODY.pw_name

    asyncio.run(story())


@pytest.mark.parametrize("ahead_s", [0, 1, CLOCK_SKEW_S])
def test_02_a_revocation_ends_tokens_of_a_clock_that_is_ahead(ahead_s: int) -> None:
    """As much as is tolerated when it is read. A token that was made afterwards, in the same microsecond too, is valid."""
    now = [1_800_000_000 * US]
    revoked: dict[str, int] = {}
    tokens = UserTokens(revoked, lambda: now[0])
    key = SigningKey(SECRET)
    tokens.keys = tokens.keys._replace(verifying=JwtKeys("test", key), signing=key)

    def is_valid(token: str) -> bool:
        proven = tokens.verify(Presented(token, ""))
        try:
            tokens.check_revoked(proven, "ann")
        except JwtRefused:
            return False
        return True

    def made() -> str:
        return key.make("ann", tokens.issue_at_s("ann"), 3600, "test")

    provided = key.make("ann", now[0] / US + ahead_s, 3600)
    own = [made()]
    for _ in range(3):
        assert is_valid(own[-1])
        revoked["ann"] = now[0]
        assert not any(map(is_valid, [provided, *own]))
        now[0] += 1
        own.append(made())
        assert is_valid(own[-1])
        now[0] += US
    now[0] += 100 * US
    assert not any(map(is_valid, [provided, *own[:-1]]))
    assert is_valid(own[-1]) and is_valid(made())


@pytest.mark.parametrize("claims", [
    {"iat": -1e308}, {"exp": 1e308}, {"exp": -1e308}, {"nbf": 1e12}, {"iat": 10**30}, '"sun": "root"', '"exp": 1', '"x": {"y": 1, "y": 2}',
])  # fmt: skip
def test_02_times_without_end_and_names_that_come_twice(claims: dict[str, float] | str) -> None:
    """An overflow of one refused the call as an internal error; of two users others may have checked the first."""
    key = SigningKey(SECRET)
    now_s = int(time.time())
    plain = {"sun": "ann", "exp": now_s + 600}
    text = json.dumps(plain | claims) if isinstance(claims, dict) else f"{json.dumps(plain)[:-1]}, {claims}}}"
    token = jwt.api_jws.encode(text.encode(), SECRET, "HS256")
    with pytest.raises(JwtRefused) as refused:
        JwtKeys("test", key).verify(token, now_s)
    assert refused.value.reason == "claims" and len(refused.value.explanation) < 120
    assert JwtKeys("test", key).verify(jwt.api_jws.encode(json.dumps(plain).encode(), SECRET, "HS256"), now_s)


def test_02_a_token_is_not_shown_to_other_clusters() -> None:
    """One that receives it could use it on the cluster that it is for."""
    ours = SigningKey(SECRET).make("ann", time.time(), 600, "ours")
    both = token_of("ann", aud=["ours", "theirs"])
    for token, cluster, is_sent in (
        (ours, "ours", True), (ours, "theirs", False), (both, "theirs", True), (both, "third", False),
        (token_of("ann"), "theirs", True), (token_of("ann", aud=None), "theirs", True), (token_of("ann", aud=7), "ours", False),
        ("junk", "ours", True), ("a.b.c", "ours", True), ("a.W10.c", "ours", True), ("a." + "W" * 9_000, "ours", True),
    ):  # fmt: skip
        assert (own_proof({"SLURM_JWT": token}, cluster) is not None) == is_sent, (token, cluster)
    assert own_proof({}, "ours") is None


def test_02_what_others_know_is_no_secret(tmp_path: Path) -> None:
    """A wrong file behind jwt_key: each would let everybody sign."""
    keys: list[Any] = [rsa.generate_private_key(65537, 2048), ec.generate_private_key(ec.SECP256R1())]
    formats = serialization.PublicFormat
    known = [json.dumps({"keys": [{"kty": "oct"}], "comment": "x" * 40}).encode(), b"\0" * 64, b"0" * 32, b"secret" * 9]
    for key in keys:
        public = key.public_key()
        known += [
            public.public_bytes(encoding, formats.SubjectPublicKeyInfo)
            for encoding in (serialization.Encoding.DER, serialization.Encoding.PEM)
        ]
        known.append(public.public_bytes(serialization.Encoding.OpenSSH, formats.OpenSSH))
    small = rsa.generate_private_key(65537, 1024)
    private = serialization.PrivateFormat.PKCS8
    known.append(small.private_bytes(serialization.Encoding.PEM, private, serialization.NoEncryption()))
    for data in known:
        with pytest.raises(BadKey):
            SigningKey(data)
    for data in (
        os.urandom(32),
        os.urandom(31) + b"\n",
        os.urandom(32).hex().encode(),
        b"{" + os.urandom(40),
        b"0\x82" + SECRET,
    ):
        SigningKey(data)


def test_02_key_files_of_others_are_refused(tmp_path: Path) -> None:
    """A pipe does not hold the controller, who may write a set of keys may be everybody, and links are followed."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    for path in (pipe, tmp_path, Path("/dev/zero")):
        with pytest.raises((BadKey, OSError)):
            read_signing_key(str(path))
    key_set = tmp_path / "jwks.json"
    key_set.write_text("{}")
    for mode, is_read in ((0o644, True), (0o664, True), (0o646, False), (0o666, False)):
        key_set.chmod(mode)
        if is_read:
            assert read_key_file(str(key_set), stat.S_IWOTH, "", 10) == b"{}"
            continue
        with pytest.raises(BadKey, match="other users"):
            read_key_file(str(key_set), stat.S_IWOTH, "", 10)
    link = tmp_path / "link"
    link.symlink_to(key_set)
    key_set.chmod(0o644)
    assert read_key_file(str(link), stat.S_IWOTH, "", 10) == b"{}"


@pytest.mark.root
def test_02_a_key_file_of_another_user_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_bytes(SECRET)
    path.chmod(0o600)
    os.chown(path, NOBODY.pw_uid, NOBODY.pw_gid)
    with pytest.raises(BadKey, match=f"belongs to uid {NOBODY.pw_uid}"):
        read_signing_key(str(path))
