"""The token of a session: who gets one, and that it reaches one job and nothing else."""

import asyncio
import time

import grpc

from penstock.v1 import controller_pb2 as c
from penstock.v1 import steps_pb2 as s
from penstock.values.jobid import BATCH_STEP
from penstock.values.refusals import Code
from tests.rpc.clusterkit import Site, submission
from tests.rpc.test_rpc_personal_tokens import made, refused
from tests.rpc.test_rpc_user_tokens import NOBODY, bearer, call, denied, header, site_of, token_of

FORBIDDEN = (grpc.StatusCode.PERMISSION_DENIED, Code.ACCESS_DENIED)


async def token_for(site: Site, job_id: int, **more: object) -> str:
    """The token of a session of the cluster's owner, its administrator."""
    async with site.client() as client:
        request = c.IssueTokenRequest(session_job_id=job_id, **more)  # type: ignore[arg-type]  # members of the message
        return str((await client.call("IssueToken", request)).token)


def test_a_token_reaches_one_session_and_nothing_else(tmp_path) -> None:
    site = site_of(tmp_path)

    async def story() -> None:
        async with site.controller():
            async with site.client() as client:
                job, other = [(await client.call("SubmitJob", submission(hold=True))).job_id for _ in range(2)]
            theirs = (await site.call_as(NOBODY.pw_uid, "SubmitJob", submission(hold=True))).job_id
            token = bearer(await token_for(site, job, lifespan_s=60))
            attach = s.AttachStepRequest(job_id=job, step_id=BATCH_STEP)
            assert (await denied(site, token, "AttachStep", attach))[0][1] == Code.INVALID_STEP  # it does not run
            for method, request in (
                ("Ping", c.PingRequest()), ("ListJobs", c.ListJobsRequest()), ("SubmitJob", submission(hold=True)),
                ("CancelJobs", c.CancelJobsRequest(filter=c.JobFilter(ids=[str(job)]))), ("RevokeTokens", c.RevokeTokensRequest()),
                ("CreatePersonalToken", c.CreatePersonalTokenRequest(name="x", scope="TOKEN_SCOPE_ADMIN")),
                ("ListSteps", s.ListStepsRequest()), ("GetBatchScript", c.GetBatchScriptRequest(job_id=job)),
            ):  # fmt: skip
                status, text = await denied(site, token, method, request)
                assert status == FORBIDDEN and "that of a session" in text, method
            for number in (other, theirs):
                elsewhere = s.AttachStepRequest(job_id=number, step_id=BATCH_STEP)
                assert (await denied(site, token, "AttachStep", elsewhere))[0][1] == Code.ACCESS_DENIED
            for issue in (
                c.IssueTokenRequest(), c.IssueTokenRequest(session_job_id=other), c.IssueTokenRequest(session_job_id=theirs),
                c.IssueTokenRequest(session_job_id=job, for_user="nobody"),
            ):  # fmt: skip
                assert (await denied(site, token, "IssueToken", issue))[0][1] == Code.ACCESS_DENIED, issue
            following = (await call(site, token, "IssueToken", c.IssueTokenRequest(session_job_id=job))).token
            assert (await denied(site, bearer(following), "AttachStep", attach))[0][1] == Code.INVALID_STEP
            status, text = await denied(site, header(following, "nobody"), "AttachStep", attach)
            assert status[0] is grpc.StatusCode.UNAUTHENTICATED and "nobody but its owner" in text
            # An administrator gets none for another user's job, a user none for an administrator's; nor a longer one.
            assert "no session of yours" in await refused(token_for(site, theirs))
            asked = c.IssueTokenRequest(session_job_id=job)
            assert "no session of yours" in await refused(site.call_as(NOBODY.pw_uid, "IssueToken", asked))
            assert "no session of yours" in await refused(token_for(site, 999))
            assert "3600" in await refused(token_for(site, job, lifespan_s=3601))
            async with site.client() as client:
                await client.call("RevokeTokens", c.RevokeTokensRequest())
            status, text = await denied(site, bearer(following), "AttachStep", attach)
            assert status[0] is grpc.StatusCode.UNAUTHENTICATED and "revoked" in text
            async with site.client() as client:
                await client.call("CancelJobs", c.CancelJobsRequest(filter=c.JobFilter(ids=[str(job)])))
            assert "has ended" in await refused(token_for(site, job))

    asyncio.run(story())


def test_it_ends_with_the_personal_token_by_which_it_was_made(tmp_path) -> None:
    site = site_of(tmp_path)

    async def story() -> None:
        async with site.controller():
            async with site.client() as client:
                job = (await client.call("SubmitJob", submission(hold=True))).job_id
            theirs = (await site.call_as(NOBODY.pw_uid, "SubmitJob", submission(hold=True))).job_id
            issue = c.IssueTokenRequest(session_job_id=job)
            attach = s.AttachStepRequest(job_id=job, step_id=BATCH_STEP)
            for scope in ("read", "submit"):  # they open no terminal
                status, text = await denied(site, bearer(await made(site, scope, scope)), "IssueToken", issue)
                assert status == FORBIDDEN and scope in text
            admin = await made(site, "admin", "admin")
            first = (await call(site, bearer(admin), "IssueToken", issue)).token
            second = (await call(site, bearer(first), "IssueToken", issue)).token
            for token in (first, second):
                assert (await denied(site, bearer(token), "AttachStep", attach))[0][1] == Code.INVALID_STEP
            # Nor does an administrator who speaks for another user get into that user's session.
            by_admin = header(admin, NOBODY.pw_name)
            status, text = await denied(site, by_admin, "IssueToken", c.IssueTokenRequest(session_job_id=theirs))
            assert "no session of yours" in text
            async with site.client() as client:
                await client.call("RevokePersonalToken", c.RevokePersonalTokenRequest(name="admin"))
            for token in (first, second):
                status, text = await denied(site, bearer(token), "AttachStep", attach)
                assert status[0] is grpc.StatusCode.UNAUTHENTICATED and "revoked" in text

    asyncio.run(story())


def test_where_users_make_no_tokens_a_session_is_part_of_the_one_that_they_were_given(tmp_path) -> None:
    """Its token, and each by which it is renewed, ends with that one. Administrators are not concerned."""
    site = site_of(tmp_path, ",disable_token_creation")

    async def story() -> None:
        async with site.controller():
            async with site.client() as client:
                own = (await client.call("SubmitJob", submission(hold=True))).job_id
            theirs = (await site.call_as(NOBODY.pw_uid, "SubmitJob", submission(hold=True))).job_id
            mine, issue = c.IssueTokenRequest(session_job_id=own), c.IssueTokenRequest(session_job_id=theirs)
            assert "make no tokens" in await refused(site.call_as(NOBODY.pw_uid, "IssueToken", issue))
            end_s = int(time.time()) + 90
            given = token_of(NOBODY.pw_name, exp=end_s)
            first = await call(site, bearer(given), "IssueToken", issue)
            second = await call(site, bearer(first.token), "IssueToken", issue)
            assert [first.ends_at_us, second.ends_at_us] == [end_s * 1_000_000] * 2
            brief = await call(
                site, bearer(given), "IssueToken", c.IssueTokenRequest(session_job_id=theirs, lifespan_s=5)
            )
            longer = await call(site, bearer(brief.token), "IssueToken", issue)
            assert brief.ends_at_us < longer.ends_at_us == end_s * 1_000_000
            entered = await token_for(site, own)  # by the kernel's word
            renewed = await call(site, bearer(entered), "IssueToken", mine)
            assert renewed.ends_at_us > (end_s + 1_000) * 1_000_000

    asyncio.run(story())
