"""JSON web tokens at the gate: who a caller is, what is refused, what a revocation ends, how keys are read."""

import asyncio
import contextlib
import json
import os
import pwd
import stat
import time
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from penstock.calls import USER_NAME_KEY, USER_TOKEN_KEY, find_rpc
from penstock.errors import PenstockError
from penstock.security.jwt import SigningKey
from penstock.security.names import CONTROLLER_OPTIONS
from penstock.security.tls import client_channel
from penstock.transport import read_ca
from penstock.v1 import controller_pb2 as c
from penstock.v1 import governance_pb2 as g
from penstock.values.refusals import Code
from tests.rpc.clusterkit import Site, code_of, jobs_of, submission

OWN = pwd.getpwuid(os.getuid())
#: Another user of this machine, and of every other.
NOBODY = pwd.getpwnam("nobody")
SECRET = bytes(range(32))
KEY = SigningKey(SECRET)
DENIED = (grpc.StatusCode.UNAUTHENTICATED, Code.ACCESS_DENIED)


def site_of(tmp_path, more: str = "", named: bool = True) -> Site:
    key = tmp_path / "jwt.key"
    key.write_bytes(SECRET)
    key.chmod(0o600)
    parameters = f"jwt_key={key}{more}" if named else more.removeprefix(",")
    line = f"AuthAltParameters={parameters}\n" if parameters else ""
    return Site(tmp_path, extra=f"AuthAltTypes=auth/jwt\n{line}")


def bearer(token: str) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {token}"),)


def header(token: str, name: str = "") -> tuple[tuple[str, str], ...]:
    return ((USER_TOKEN_KEY, token), *(((USER_NAME_KEY, name),) if name else ()))


def token_of(name: str, issued_s: float | None = None, **more: object) -> str:
    now_s = int(time.time())
    claims = {"sun": name, "iat": now_s if issued_s is None else issued_s, "exp": now_s + 600, **more}
    return jwt.encode(claims, SECRET, "HS256")


@contextlib.asynccontextmanager
async def channel(site: Site, remote: bool) -> AsyncIterator[grpc.aio.Channel]:
    cluster = site.cluster()
    if remote:
        made = grpc.aio.secure_channel(cluster.address, client_channel(read_ca(cluster)), options=CONTROLLER_OPTIONS)
    else:
        made = grpc.aio.insecure_channel(f"unix:{cluster.socket}")
    async with made as opened:
        yield opened


async def call(site: Site, metadata, method: str, request: Any, remote: bool = True) -> Any:
    rpc = find_rpc(method, request)
    async with channel(site, remote) as opened:
        return await opened.unary_unary(rpc.path, rpc.serialize, rpc.deserialize)(request, metadata=metadata)


async def user_of(site: Site, metadata, remote: bool = True) -> str:
    """Submits a held job and asks whose it is."""
    submitted = await call(site, metadata, "SubmitJob", submission(hold=True), remote)
    async with site.client() as client:
        jobs = await jobs_of(client)
    return next(job.user_name for job in jobs if job.job_id == submitted.job_id)


async def denied(site: Site, metadata, method: str = "Ping", request: Any = None) -> tuple[tuple[Any, Code], str]:
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await call(site, metadata, method, request or c.PingRequest())
    return (error.value.code(), code_of(error.value)), error.value.details() or ""


def run(story) -> None:
    asyncio.run(story())


def test_a_token_proves_its_user_from_every_host(tmp_path) -> None:
    site = site_of(tmp_path)

    async def story():
        async with site.controller():
            for remote in (True, False):
                assert await user_of(site, bearer(token_of(NOBODY.pw_name)), remote) == NOBODY.pw_name
                assert await user_of(site, header(token_of(NOBODY.pw_name)), remote) == NOBODY.pw_name
            assert await user_of(site, header(token_of(NOBODY.pw_name), NOBODY.pw_name)) == NOBODY.pw_name
            # Its user's roles are its own: SlurmUser administers with one.
            await call(site, bearer(token_of(OWN.pw_name)), "UpdatePartition", drained())
            status, text = await denied(site, bearer(token_of(NOBODY.pw_name)), "UpdatePartition", drained())
            assert status == (grpc.StatusCode.PERMISSION_DENIED, Code.ACCESS_DENIED) and "administrator" in text

    run(story)


def drained() -> c.UpdatePartitionRequest:
    return c.UpdatePartitionRequest(name="debug", changes={"state": "drain"})


def test_what_is_refused_says_why_and_never_shows_the_token(tmp_path) -> None:
    site = site_of(tmp_path)
    now_s = time.time()
    good = token_of(NOBODY.pw_name)
    cases = (
        (bearer(token_of(NOBODY.pw_name, exp=now_s - 10)), "has expired"),
        (bearer(token_of("no such user")), "does not know the token's user"),
        (bearer(token_of("x" * 300)), "does not know the token's user"),
        (bearer(token_of("65534")), "does not know the token's user"),
        (bearer(token_of(NOBODY.pw_name, aud="other")), "not for cluster 'test'"),
        (bearer(good[:-4] + "AAAA"), "signature is wrong"),
        (bearer("junk"), "cannot be read"),
        (bearer(""), "cannot be read"),
        (header(good, OWN.pw_name), "the token is another user's"),
        ((*header(good), *bearer(token_of(OWN.pw_name))), "several tokens"),
        ((*header(good, "a"), (USER_NAME_KEY, "b")), "several tokens or names"),
        ((("authorization", "Basic bm9ib2R5Og=="),), "carries no token"),
        (((USER_NAME_KEY, OWN.pw_name),), "carries no token"),
    )

    async def story():
        async with site.controller():
            for metadata, words in cases:
                status, text = await denied(site, metadata)
                assert status == DENIED and words in text, (metadata, text)
                assert not any(value in text for key, value in metadata if len(value) > 20)

    run(story)


def test_root_speaks_for_others_and_nobody_else_does(tmp_path) -> None:
    """SlurmUser's token may name another user; it then has that user's rights."""
    site = site_of(tmp_path)

    async def story():
        async with site.controller():
            asked = header(token_of(OWN.pw_name), NOBODY.pw_name)
            assert await user_of(site, asked) == NOBODY.pw_name
            status, _ = await denied(site, asked, "UpdatePartition", drained())
            assert status[0] is grpc.StatusCode.PERMISSION_DENIED
            status, text = await denied(site, header(token_of(OWN.pw_name), "no such user"))
            assert status == DENIED and "does not know" in text

    run(story)


def test_a_revocation_counts_at_once_and_after_a_restart(tmp_path) -> None:
    site = site_of(tmp_path)
    theirs, ours = bearer(token_of(NOBODY.pw_name)), bearer(token_of(OWN.pw_name))
    timeless = bearer(jwt.encode({"sun": NOBODY.pw_name, "exp": int(time.time()) + 600}, SECRET, "HS256"))

    async def story():
        async with site.controller(), site.client() as client:
            for metadata in (theirs, ours, timeless):
                await call(site, metadata, "Ping", c.PingRequest())
            status, _ = await denied(site, theirs, "RevokeTokens", c.RevokeTokensRequest(for_user=OWN.pw_name))
            assert status[0] is grpc.StatusCode.PERMISSION_DENIED
            status, _ = await denied(site, theirs, "RevokeTokens", c.RevokeTokensRequest(everybody=True))
            assert status[0] is grpc.StatusCode.PERMISSION_DENIED
            await call(site, theirs, "RevokeTokens", c.RevokeTokensRequest())
            for metadata in (theirs, timeless):
                assert "has been revoked" in (await denied(site, metadata))[1]
            await call(site, ours, "Ping", c.PingRequest())
            fresh = (await client.call("IssueToken", c.IssueTokenRequest(for_user=NOBODY.pw_name))).token
            await call(site, bearer(fresh), "Ping", c.PingRequest())  # made in the same second
        async with site.controller(), site.client() as client:
            for metadata in (theirs, timeless):
                assert "has been revoked" in (await denied(site, metadata))[1]
            await call(site, bearer(fresh), "Ping", c.PingRequest())
            await client.call("RevokeTokens", c.RevokeTokensRequest(everybody=True))
            for metadata in (ours, bearer(fresh)):
                assert "has been revoked" in (await denied(site, metadata))[1]
            newest = (await client.call("IssueToken", c.IssueTokenRequest())).token
            await call(site, bearer(newest), "Ping", c.PingRequest())
            both = c.RevokeTokensRequest(everybody=True, for_user=NOBODY.pw_name)
            with pytest.raises(PenstockError, match="a user, or everybody"):
                await client.call("RevokeTokens", both)
            records = [page async for page in client.stream("ListAudit", g.ListAuditRequest())]
            said = [one.record for page in records for one in page.records if '"revoke tokens"' in one.record]
            assert len(said) == 2 and "JSON web token" in said[0] and "all users" in said[1]

    run(story)


def test_a_token_makes_no_token(tmp_path) -> None:
    site = site_of(tmp_path, ",max_token_lifespan=120")

    async def story():
        async with site.controller(), site.client() as client:
            for name in (NOBODY.pw_name, OWN.pw_name):
                status, text = await denied(site, bearer(token_of(name)), "IssueToken", c.IssueTokenRequest())
                assert status[1] is Code.ACCESS_DENIED and "makes no other one" in text
            lasting = (await client.call("IssueToken", c.IssueTokenRequest(lifespan_s=3600))).token
            assert (
                jwt.decode(lasting, SECRET, ["HS256"], audience="test")["exp"] > time.time() + 3000
            )  # administrators have no limit
            issued = await site.call_as(NOBODY.pw_uid, "IssueToken", c.IssueTokenRequest())
            assert jwt.decode(issued.token, SECRET, ["HS256"], audience="test")["exp"] <= time.time() + 121
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await site.call_as(NOBODY.pw_uid, "IssueToken", c.IssueTokenRequest(lifespan_s=121))
            assert code_of(refused.value) is Code.INVALID_VALUE

    run(story)


def test_a_cluster_without_keys_makes_one(tmp_path) -> None:
    site = site_of(tmp_path, named=False)

    async def story():
        async with site.controller(), site.client() as client:
            path = site.state / "jwt_hs256.key"
            assert stat.S_IMODE(path.stat().st_mode) == 0o600 and len(path.read_bytes()) == 32
            made = (await client.call("IssueToken", c.IssueTokenRequest())).token
            await call(site, bearer(made), "Ping", c.PingRequest())
            status, _ = await denied(site, bearer(token_of(OWN.pw_name)))
            assert status == DENIED  # of another key
        async with site.controller():
            await call(site, bearer(made), "Ping", c.PingRequest())

    run(story)


def test_keys_are_read_again_with_the_configuration(tmp_path) -> None:
    """A file that cannot be used is named, and the keys before stay."""
    site = site_of(tmp_path, f",jwks={tmp_path / 'jwks.json'}")
    private = rsa.generate_private_key(65537, 2048)
    provided = bearer(
        jwt.encode({"sun": NOBODY.pw_name, "exp": int(time.time()) + 600}, private, "RS256", {"kid": "k"})
    )
    good = bearer(token_of(NOBODY.pw_name))

    async def story():
        async with site.controller(), site.client() as client:
            assert "accepts no JSON web tokens" in (await denied(site, good))[1]
            with pytest.raises(PenstockError, match="jwks.json: No such file"):
                await client.call("IssueToken", c.IssueTokenRequest())
            entry = jwt.algorithms.RSAAlgorithm.to_jwk(private.public_key(), as_dict=True) | {"kid": "k"}
            (tmp_path / "jwks.json").write_text(json.dumps({"keys": [entry]}))
            assert not (await client.call("Reconfigure", c.ReconfigureRequest())).warnings
            for metadata in (good, provided):
                await call(site, metadata, "Ping", c.PingRequest())
            (tmp_path / "jwt.key").chmod(0o644)
            warnings = (await client.call("Reconfigure", c.ReconfigureRequest())).warnings
            assert len(warnings) == 1 and "other users have access to it" in warnings[0]
            for metadata in (good, provided):
                await call(site, metadata, "Ping", c.PingRequest())

    run(story)


def test_without_auth_jwt_there_are_no_tokens(tmp_path) -> None:
    site = Site(tmp_path)

    async def story():
        async with site.controller(), site.client() as client:
            assert "accepts no JSON web tokens" in (await denied(site, bearer(token_of(NOBODY.pw_name))))[1]
            with pytest.raises(PenstockError) as refused:
                await client.call("IssueToken", c.IssueTokenRequest())
            assert refused.value.text == "Unable to generate JWT: AuthAltTypes=auth/jwt is not set"
            assert not (site.state / "jwt_hs256.key").exists()

    run(story)
