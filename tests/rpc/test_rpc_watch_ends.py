"""A stream of changes and the rights behind it: it ends with its token, and goes on with the rights of each moment."""

import asyncio
import contextlib
import json
import time
from collections.abc import Callable, Mapping
from typing import Any

import grpc
import jwt
import pytest
from patience import ANSWER_S

from ctld.rpc.gate.usertokens import UserTokens
from ctld.rpc.watch import service
from penstock.v1 import controller_pb2 as c
from penstock.v1 import shares_pb2 as s
from tests.rpc.clusterkit import EOF, FakeNode, Site, submission
from tests.rpc.test_rpc_user_tokens import NOBODY, SECRET, site_of, token_of
from tests.rpc.watchkit import watching

ENDED = grpc.StatusCode.UNAUTHENTICATED
SAM = 54_322  # nobody's uid here
Action = s.ChangeAccountsRequest.Action


@pytest.fixture(autouse=True)
def _no_heartbeat(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream's end must not wait for its next message."""
    monkeypatch.setattr(service, "HEARTBEAT_S", 1e6)


async def submit_as(site: Site, uid: int) -> str:
    return str((await site.call_as(uid, "SubmitJob", submission(hold=True))).job_id)


def change(action: Action, entity: str, *names: str, **more) -> s.ChangeAccountsRequest:
    fields = {name: more.pop(name) for name in ("users", "accounts") if name in more}
    return s.ChangeAccountsRequest(action=action, entity=entity, names=names, changes=more, **fields)


def test_a_quiet_stream_ends_when_its_token_does(tmp_path) -> None:
    site = site_of(tmp_path)

    async def story():
        async with site.controller(), watching(site) as watch:
            for lifespan_s in (1, ANSWER_S / 4):  # longer on a machine that was too busy
                watcher = watch(token_of(NOBODY.pw_name, exp=time.time() + lifespan_s))
                with contextlib.suppress(grpc.aio.AioRpcError):
                    await watcher.reply()
                    break
            assert watcher.last, "open while its token held"
            status, text = await watcher.ended()
            assert status is ENDED and "Access/permission denied: the token has expired" in text

    asyncio.run(story())


def test_no_message_is_sent_to_a_token_that_has_ended(tmp_path, monkeypatch) -> None:
    site = site_of(tmp_path)
    ahead_us = 0

    def made(revoked: Mapping[str, int], clock_us: Callable[[], int], *more: Any) -> UserTokens:
        return UserTokens(revoked, lambda: clock_us() + ahead_us, *more)

    monkeypatch.setattr("ctld.daemon.UserTokens", made)

    async def story():
        nonlocal ahead_us
        async with site.controller(), watching(site) as watch:
            theirs, local = watch(token_of(NOBODY.pw_name)), watch(NOBODY.pw_uid)
            for watcher in (theirs, local):
                await watcher.reply()
            one = await submit_as(site, SAM)
            for watcher in (theirs, local):
                assert [job.id for job in await watcher.changes(1)] == [one]
            ahead_us = 601 * 1_000_000
            two = await submit_as(site, SAM)
            assert [job.id for job in await local.changes(1)] == [two]
            status, text = await theirs.ended()
            assert status is ENDED and "has expired" in text

    asyncio.run(story())


def test_a_revocation_ends_the_streams_of_its_tokens(tmp_path) -> None:
    site = site_of(tmp_path)

    async def story():
        async with site.controller(), watching(site) as watch, site.client() as client:
            ours = (await client.call("IssueToken", c.IssueTokenRequest())).token
            theirs = [watch(token_of(NOBODY.pw_name)) for _ in range(3)]
            mine, local = watch(ours), watch(NOBODY.pw_uid)
            for watcher in (*theirs, mine, local):
                await watcher.reply()
            await client.call("RevokeTokens", c.RevokeTokensRequest(for_user=NOBODY.pw_name))
            for watcher in theirs:
                status, text = await watcher.ended()
                assert status is ENDED and "the token has been revoked" in text
            one = await submit_as(site, SAM)
            for watcher in (mine, local):
                assert [job.id for job in await watcher.changes(1)] == [one]
            await client.call("RevokeTokens", c.RevokeTokensRequest(everybody=True))
            assert (await mine.ended())[0] is ENDED
            two = await submit_as(site, SAM)
            assert [job.id for job in await local.changes(1)] == [two], "it has no such token"

    asyncio.run(story())


def test_a_key_that_is_replaced_ends_the_streams_of_its_tokens(tmp_path) -> None:
    site = site_of(tmp_path)

    async def story():
        async with site.controller(), watching(site) as watch, site.client() as client:
            watcher = watch(token_of(NOBODY.pw_name))
            await watcher.reply()
            await client.call("Reconfigure", c.ReconfigureRequest())
            one = await submit_as(site, SAM)
            assert [job.id for job in await watcher.changes(1)] == [one], "the key is the same"
            (tmp_path / "jwt.key").write_bytes(bytes(reversed(SECRET)))
            await client.call("Reconfigure", c.ReconfigureRequest())
            await submit_as(site, SAM)
            status, text = await watcher.ended()
            assert status is ENDED and "signature is wrong" in text
            fresh = jwt.encode({"sun": NOBODY.pw_name, "exp": time.time() + 600}, bytes(reversed(SECRET)), "HS256")
            await watch(fresh).reply()

    asyncio.run(story())


def test_a_role_counts_for_the_messages_after_its_change(tmp_path) -> None:
    site = site_of(tmp_path)
    text = site.conf.read_text()
    site.conf.write_text(f"PrivateData=jobs\n{text}")

    async def story():
        async with site.controller(), watching(site) as watch, site.client() as client:

            async def reconfigured(first: str) -> None:
                site.conf.write_text(f"{first}{text}")
                await client.call("Reconfigure", c.ReconfigureRequest())

            async def seen(own: str, *others: str) -> None:
                """That both get exactly these, up to one of their own."""
                for watcher in watchers:
                    assert [job.id for job in await watcher.changes(len(others) + 1)] == [*others, own]

            watchers = [watch(who, kinds=["job"]) for who in (token_of(NOBODY.pw_name), NOBODY.pw_uid)]
            for watcher in watchers:
                await watcher.reply()
            await submit_as(site, SAM)
            await seen(await submit_as(site, NOBODY.pw_uid))
            await reconfigured(f"PrivateData=jobs\nPenstockOperators={NOBODY.pw_name}\n")
            other = await submit_as(site, SAM)
            await seen(await submit_as(site, NOBODY.pw_uid), other)
            await reconfigured("PrivateData=jobs\n")
            await submit_as(site, SAM)
            await seen(await submit_as(site, NOBODY.pw_uid))
            for request in (
                change(Action.ADD, "account", "physics"),
                change(Action.ADD, "user", NOBODY.pw_name, accounts=["physics"]),
            ):
                await client.call("ChangeAccounts", request)
            for level, is_seen in (("Operator", True), ("None", False)):
                await client.call("ChangeAccounts", change(Action.MODIFY, "user", NOBODY.pw_name, adminlevel=level))
                other = await submit_as(site, SAM)
                await seen(await submit_as(site, NOBODY.pw_uid), *([other] if is_seen else []))
            await client.call("ChangeAccounts", change(Action.ADD, "user", str(SAM), accounts=["physics"]))
            for action, is_seen in ((Action.ADD, True), (Action.REMOVE, False)):
                await client.call("ChangeAccounts", change(action, "coordinator", "physics", users=[NOBODY.pw_name]))
                other = await submit_as(site, SAM)
                await seen(await submit_as(site, NOBODY.pw_uid), *([other] if is_seen else []))
            await reconfigured("")
            other = await submit_as(site, SAM)
            await seen(await submit_as(site, NOBODY.pw_uid), other)
            await reconfigured("PrivateData=jobs\n")
            await submit_as(site, SAM)
            await seen(await submit_as(site, NOBODY.pw_uid))

    asyncio.run(story())


def test_a_node_whose_certificate_is_denied_loses_its_stream(tmp_path) -> None:
    site = Site(tmp_path, nodes=2)

    async def story():
        async with site.controller(), site.client() as client, FakeNode(site) as one, FakeNode(site, "n2") as two:
            for node in (one, two):
                await node.register()
            serial = f"{one.credentials.certificate.serial_number:X}"
            (site.state / "ca" / "denied.json").write_text(json.dumps([serial]))
            await client.call("Reconfigure", c.ReconfigureRequest())
            async with asyncio.timeout(ANSWER_S):
                while await one.call.read() is not EOF:
                    pass
            assert (await two.read()).WhichOneof("kind") == "settings"

    asyncio.run(story())
