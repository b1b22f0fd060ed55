"""Personal tokens: what each scope allows, how long they live, who sees and revokes them, and what is noted of their use."""

import asyncio
import json

import grpc
import grpc.aio
import pytest

from ctld.core.records.token_events import PersonalTokenUsed
from ctld.rpc.gate.rights import RIGHTS, LeastRole
from ctld.rpc.gate.tokenuses import ADDRESSES_MAX, WINDOW_US, TokenUses
from penstock.errors import PenstockError
from penstock.v1 import controller_pb2 as c
from penstock.v1 import governance_pb2 as g
from penstock.values.refusals import Code
from penstock.values.scopes import Scope
from tests.core.test_audit import ANN
from tests.rpc.clusterkit import Site, submission
from tests.rpc.test_rpc_user_tokens import KEY, NOBODY, OWN, bearer, call, denied, drained, header, site_of, token_of

DENIED = (grpc.StatusCode.UNAUTHENTICATED, Code.ACCESS_DENIED)
FORBIDDEN = (grpc.StatusCode.PERMISSION_DENIED, Code.ACCESS_DENIED)


async def made(site: Site, name: str, scope: str = "read", **more) -> str:
    """A token of the owner of the cluster, its administrator."""
    async with site.client() as client:
        request = c.CreatePersonalTokenRequest(name=name, scope=f"TOKEN_SCOPE_{scope.upper()}", **more)
        return (await client.call("CreatePersonalToken", request)).token


async def listed(site: Site, **whose) -> list[c.PersonalTokenInfo]:
    async with site.client() as client:
        return list((await client.call("ListPersonalTokens", c.ListPersonalTokensRequest(**whose))).tokens)


async def refused(awaitable) -> str:
    """The text of a refusal, to our client or to gRPC's."""
    with pytest.raises((PenstockError, grpc.aio.AioRpcError)) as error:
        await awaitable
    if isinstance(error.value, grpc.aio.AioRpcError):
        return error.value.details() or ""
    assert isinstance(error.value, PenstockError)
    return error.value.text


def run(story) -> None:
    asyncio.run(story())


def test_each_scope_allows_what_it_says(tmp_path) -> None:
    """The token of an administrator: with `read` and `submit` its holder is a plain user, and of its own jobs alone."""
    site = site_of(tmp_path)

    async def story():
        async with site.controller():
            read, submit, admin = [bearer(await made(site, scope, scope)) for scope in ("read", "submit", "admin")]
            for token in (read, submit, admin):
                await call(site, token, "ListJobs", c.ListJobsRequest())
            status, text = await denied(site, read, "SubmitJob", submission(hold=True))
            assert status == FORBIDDEN and "the scope of the token 'read' is read" in text
            job = await call(site, submit, "SubmitJob", submission(hold=True))
            assert (
                await denied(site, read, "CancelJobs", c.CancelJobsRequest(filter=c.JobFilter(ids=[str(job.job_id)])))
            )[0] == FORBIDDEN
            assert (await denied(site, read, "GetBatchScript", c.GetBatchScriptRequest(job_id=job.job_id)))[
                0
            ] == FORBIDDEN
            await call(site, submit, "CancelJobs", c.CancelJobsRequest(filter=c.JobFilter(ids=[str(job.job_id)])))
            others = await site.call_as(NOBODY.pw_uid, "SubmitJob", submission(hold=True))
            assert (await denied(site, submit, "GetBatchScript", c.GetBatchScriptRequest(job_id=others.job_id)))[0][1]
            for method, request in (
                ("UpdatePartition", drained()),
                ("RevokeTokens", c.RevokeTokensRequest()),
                ("IssueToken", c.IssueTokenRequest()),
                ("ListPersonalTokens", c.ListPersonalTokensRequest()),
                ("RevokePersonalToken", c.RevokePersonalTokenRequest(name="admin")),
                ("CreatePersonalToken", c.CreatePersonalTokenRequest(name="more", scope="TOKEN_SCOPE_ADMIN")),
            ):
                for token in (read, submit):
                    assert (await denied(site, token, method, request))[0] == FORBIDDEN, method
            await call(site, admin, "UpdatePartition", drained())

    run(story)


def test_every_method_is_in_the_scope_that_it_should_be() -> None:
    """A new method is not allowed to tokens with a scope unless somebody has said so."""
    submitting = {name.rpartition("/")[2] for name, least in RIGHTS.items() if least is LeastRole.JOBS}
    assert submitting == {
        "SubmitJob", "CancelJobs", "ControlJobs", "UpdateJobs", "GetBatchScript", "GetCrontab", "UpdateCrontab",
    }  # fmt: skip


def test_a_token_makes_no_other_one(tmp_path) -> None:
    site = site_of(tmp_path)

    async def story():
        async with site.controller():
            admin = bearer(await made(site, "admin", "admin"))
            wanted = c.CreatePersonalTokenRequest(name="more", scope="TOKEN_SCOPE_READ")
            for token in (admin, bearer(token_of(OWN.pw_name))):
                for method, request in (("CreatePersonalToken", wanted), ("IssueToken", c.IssueTokenRequest())):
                    _, text = await denied(site, token, method, request)
                    assert "a token makes no other one" in text

    run(story)


def test_only_that_of_scope_admin_names_another_user(tmp_path) -> None:
    site = site_of(tmp_path)

    async def story():
        async with site.controller():
            for scope in ("read", "submit"):
                status, text = await denied(site, header(await made(site, scope, scope), NOBODY.pw_name))
                assert status == DENIED and "for nobody but its owner" in text
            await call(site, header(await made(site, "admin", "admin"), NOBODY.pw_name), "Ping", c.PingRequest())

    run(story)


def test_a_record_that_is_gone_ends_the_token(tmp_path) -> None:
    """Revoked alone, with all of its user, and of everybody; also after a restart."""
    site = site_of(tmp_path)

    async def story():
        async with site.controller():
            one, two = [bearer(await made(site, name)) for name in ("one", "two")]
            async with site.client() as client:
                await client.call("RevokePersonalToken", c.RevokePersonalTokenRequest(name="one"))
                said = await refused(client.call("RevokePersonalToken", c.RevokePersonalTokenRequest(name="one")))
                assert f"{OWN.pw_name} has no token 'one'" in said
            status, text = await denied(site, one)
            assert status == DENIED and "has been revoked" in text
            await call(site, two, "Ping", c.PingRequest())
        async with site.controller():
            assert (await denied(site, one))[0] == DENIED
            await call(site, two, "Ping", c.PingRequest())
            assert [token.name for token in await listed(site)] == ["two"]
            async with site.client() as client:
                await client.call("RevokeTokens", c.RevokeTokensRequest())
            assert (await denied(site, two))[0] == DENIED and await listed(site) == []
            three = bearer(await made(site, "three"))
            await call(site, three, "Ping", c.PingRequest())
            async with site.client() as client:
                await client.call("RevokeTokens", c.RevokeTokensRequest(everybody=True))
            assert (await denied(site, three))[0] == DENIED and await listed(site, everybody=True) == []

    run(story)


def test_a_forged_id_is_no_record(tmp_path) -> None:
    """Nor is that of another user's token, were the site's key used for it."""
    site = site_of(tmp_path)

    async def story():
        async with site.controller():
            await made(site, "mine", "admin")
            forged = bearer(token_of(NOBODY.pw_name, penstock_token="AAAAAAAAAAAAAAAA"))
            assert (await denied(site, forged))[0] == DENIED
            odds: tuple[object, ...] = (7, ["x"], None, {})
            for odd in odds:
                assert (await denied(site, bearer(token_of(OWN.pw_name, penstock_token=odd))))[0] == DENIED

    run(story)


def test_names_ends_and_numbers_have_limits(tmp_path) -> None:
    site = site_of(tmp_path, ",max_token_lifespan=3600")

    async def story():
        async with site.controller():
            await made(site, "ci", lifespan_s=1)
            assert "there is a token 'ci' already" in await refused(made(site, "ci"))
            assert "needs a name" in await refused(made(site, ""))
            assert await refused(made(site, "x" * 300)) and await refused(made(site, "a\nb"))
            assert "lifespan" in await refused(made(site, "long", lifespan_s=367 * 86400))
            wanted = c.CreatePersonalTokenRequest(name="n", scope="TOKEN_SCOPE_READ", lifespan_s=3601)
            assert "lifespan" in await refused(site.call_as(NOBODY.pw_uid, "CreatePersonalToken", wanted))
            wanted.ClearField("scope")
            assert "read, submit or admin" in await refused(site.call_as(NOBODY.pw_uid, "CreatePersonalToken", wanted))

    run(story)


def test_who_sees_and_revokes_which(tmp_path) -> None:
    site = site_of(tmp_path)

    async def story():
        async with site.controller():
            await made(site, "mine")
            theirs = c.CreatePersonalTokenRequest(name="theirs", scope="TOKEN_SCOPE_SUBMIT")
            await site.call_as(NOBODY.pw_uid, "CreatePersonalToken", theirs)
            seen = await site.call_as(NOBODY.pw_uid, "ListPersonalTokens", c.ListPersonalTokensRequest())
            assert [(token.user, token.name) for token in seen.tokens] == [(NOBODY.pw_name, "theirs")]
            for request in (c.ListPersonalTokensRequest(everybody=True), c.ListPersonalTokensRequest(user=OWN.pw_name)):
                assert await refused(site.call_as(NOBODY.pw_uid, "ListPersonalTokens", request))
            stolen = c.RevokePersonalTokenRequest(name="mine", for_user=OWN.pw_name)
            assert await refused(site.call_as(NOBODY.pw_uid, "RevokePersonalToken", stolen))
            assert [token.name for token in await listed(site, everybody=True)] == ["mine", "theirs"]
            assert [token.name for token in await listed(site, user=NOBODY.pw_name)] == ["theirs"]
            async with site.client() as client:
                gone = c.RevokePersonalTokenRequest(name="theirs", for_user=NOBODY.pw_name)
                await client.call("RevokePersonalToken", gone)
            assert await listed(site, user=NOBODY.pw_name) == []

    run(story)


def test_creation_use_and_end_are_in_the_audit_log(tmp_path) -> None:
    """A use once an hour for each address; the owner's list has it, too."""
    site = site_of(tmp_path)

    async def story():
        async with site.controller():
            token = await made(site, "ci", "admin")
            for _ in range(3):
                await call(site, bearer(token), "Ping", c.PingRequest())
            await call(site, bearer(token), "UpdatePartition", drained())
            async with site.client() as client:
                await client.call("RevokePersonalToken", c.RevokePersonalTokenRequest(name="ci"))
                records = [
                    one async for page in client.stream("ListAudit", g.ListAuditRequest()) for one in page.records
                ]
            told = [json.loads(record.record) for record in records]
            acts = [(one["action"], one["auth"], one["objects"]) for one in told if one["action"] != "start"]
            whose = [f"token ci of {OWN.pw_name}"]
            assert acts == [
                ("create token", "socket", whose),
                ("use token", "personal token ci", whose),
                ("modify partition", "personal token ci", ["partition debug"]),
                ("revoke token", "socket", whose),
            ]
            assert token not in str(told)

    run(story)


def test_the_list_says_when_and_from_where(tmp_path) -> None:
    site = site_of(tmp_path)

    async def story():
        async with site.controller():
            token = await made(site, "ci")
            assert [(one.used_at_us, one.used_from) for one in await listed(site)] == [(0, "")]
            await call(site, bearer(token), "Ping", c.PingRequest())
            await call(
                site, bearer(token_of(OWN.pw_name)), "SubmitJob", submission(hold=True)
            )  # after the note of the use
            (one,) = await listed(site)
            assert one.used_at_us > one.created_at_us and one.used_from == "127.0.0.1"

    run(story)


def test_uses_are_reported_once_an_hour_and_of_few_addresses() -> None:
    now_us = [WINDOW_US]
    told: list[PersonalTokenUsed] = []
    uses = TokenUses(told.append, lambda: now_us[0])
    for address in (*["10.0.0.1"] * 5, *(f"10.0.1.{i}" for i in range(50))):
        uses.note(ANN, "id", address)
    assert [event.address for event in told] == ["10.0.0.1", *(f"10.0.1.{i}" for i in range(ADDRESSES_MAX - 1))]
    now_us[0] += WINDOW_US
    uses.note(ANN, "id", "10.0.0.1")
    assert len(told) == ADDRESSES_MAX + 1
    now_us[0] -= 5 * WINDOW_US  # the clock was set back
    uses.note(ANN, "id", "10.0.0.1")
    assert len(told) == ADDRESSES_MAX + 2


def test_scopes_are_ordered() -> None:
    assert Scope.READ < Scope.SUBMIT < Scope.ADMIN and KEY is not None
