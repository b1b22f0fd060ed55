"""The site's submit filter: what it may change, refuse and say, what becomes of its failures, and that it delays nobody."""

import asyncio
import os
import pwd
from pathlib import Path

import grpc
import pytest

from ctld.rpc.jobs.filterfields import FIELDS, SPEC, apply, record_of
from penstock.submitfilter import FACTS, SubmittedJob
from penstock.v1 import common_pb2, periodic_pb2
from penstock.v1 import controller_pb2 as c
from penstock.v1.explain_pb2 import DiagnosticsRequest
from penstock.values.errors import BadValue
from penstock.values.refusals import Code
from tests.rpc.clusterkit import Site, code_of, jobs_of, submission

NOBODY = pwd.getpwnam("nobody").pw_uid
OTHER = 54_322
HEAD = "from penstock.submitfilter import Refuse, log_user\n"


def site_with(folder: Path, text: str, more: str = "") -> Site:
    path = folder / "filter.py"
    path.write_text(HEAD + text)
    path.chmod(0o600)
    return Site(folder, extra=f"PenstockSubmitFilter={path}\nPenstockSubmitFilterTimeout=1\n{more}")


def rewrite(site: Site, text: str) -> None:
    (site.folder / "filter.py").write_text(HEAD + text)


async def refused(call) -> tuple[Code, str]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return code_of(caught.value), str(caught.value.details())


def test_it_changes_fields_and_speaks_to_the_user(tmp_path):
    site = site_with(
        tmp_path,
        """
def job_submit(job, submitter):
    job.comment = f"{submitter.user_name} {submitter.role} {job.user_id} {job.name} {job.time_limit}"
    job.time_limit, job.tres_per_node, job.nice = 90, None, 7
    job.environment["SITE"] = "yes"
    job.script = job.script + "# checked\\n"
    log_user("time limit set to 90 minutes\\nbe well")
""",
    )

    async def story():
        async with site.controller() as controller:
            request = submission(name="x", time_limit_s=600, gres_per_node=[common_pb2.GresCount(name="gpu", count=1)])
            reply = await site.call_as(NOBODY, "SubmitJob", request)
            assert list(reply.user_messages) == ["time limit set to 90 minutes", "be well"]
            job = controller.runtime.core.state.jobs[reply.job_id]
            assert job.request.comment == f"nobody user {NOBODY} x 10"
            assert (job.time_limit_s, job.request.nice, job.request.gres_per_node) == (5400, 7, ())
            spec = controller.services.store.spec(job.spec_hash)
            assert spec.script == b"#!/bin/sh\ntrue\n# checked\n" and spec.environment == (b"A=1", b"SITE=yes")

    asyncio.run(story())


def test_a_refusal_and_a_repetition_of_what_was_accepted(tmp_path):
    site = site_with(
        tmp_path,
        """
def job_submit(job, submitter):
    log_user("first")
    if job.account is None:
        raise Refuse("name an account\\nwith --account")
    if job.account == "nosuch":
        job.partition = "nosuch"
""",
    )

    async def story():
        async with site.controller(), site.client() as client:
            code, text = await refused(site.call_as(NOBODY, "SubmitJob", submission()))
            assert (code, text) == (Code.FILTER_REFUSED, "Unspecified error: first\nname an account\nwith --account")
            assert await jobs_of(client) == []
            accepted = submission(account="physics")
            first = (await site.call_as(NOBODY, "SubmitJob", accepted)).job_id
            rewrite(site, "def job_submit(job, submitter):\n    raise Refuse('closed')\n")
            await client.call("Reconfigure", c.ReconfigureRequest())
            assert (await site.call_as(NOBODY, "SubmitJob", accepted)).job_id == first
            assert (await refused(site.call_as(NOBODY, "SubmitJob", submission(account="physics"))))[1] == (
                "Unspecified error: closed"
            )
            d = await client.call("Diagnostics", DiagnosticsRequest())
            assert (d.filter_calls, d.filter_refusals, d.filter_failures) == (3, 2, 0)

    asyncio.run(story())


def test_the_changed_request_is_checked_as_any(tmp_path):
    site = site_with(tmp_path, "def job_submit(job, submitter):\n    job.partition = 'nosuch'\n")

    async def story():
        async with site.controller():
            code, text = await refused(site.call_as(NOBODY, "SubmitJob", submission()))
            assert (code, text) == (Code.INVALID_PARTITION, "Invalid partition name specified: nosuch")

    asyncio.run(story())


FAILURES = {
    "raises": "def job_submit(job, submitter):\n    {}['x']\n",
    "ends": "import os\ndef job_submit(job, submitter):\n    os._exit(3)\n",
    "exits": "def job_submit(job, submitter):\n    raise SystemExit(0)\n",
    "hangs": "import os\ndef job_submit(job, submitter):\n    os.read(os.pipe()[0], 1)\n",
    "type": "def job_submit(job, submitter):\n    job.min_nodes = 'two'\n",
    "range": "def job_submit(job, submitter):\n    job.min_nodes = -1\n",
    "bound": "def job_submit(job, submitter):\n    job.comment = 'a\\x1b'\n",
    "fact": "def job_submit(job, submitter):\n    job.user_id = 0\n",
    "name": "def job_submit(job, submitter):\n    job.partitions = 'x'\n",
    "object": "def job_submit(job, submitter):\n    job.comment = object()\n",
    "memory": "def job_submit(job, submitter):\n    bytearray(1 << 40)\n",
}


@pytest.mark.parametrize("kind", FAILURES)
@pytest.mark.parametrize("rule", ["refuse", "accept"])
def test_a_failure_is_decided_by_the_rule(tmp_path, kind: str, rule: str):
    site = site_with(tmp_path, FAILURES[kind], f"PenstockSubmitFilterFailure={rule}\n")

    async def story():
        async with site.controller(), site.client() as client:
            for failures in (1, 2):
                call = site.call_as(NOBODY, "SubmitJob", submission(comment="mine"))
                if rule == "accept":
                    assert (await call).job_id
                else:
                    code, text = await refused(call)
                    assert code is Code.FILTER_FAILED and text.startswith(
                        "The submit filter of this cluster has failed"
                    )
                assert (await client.call("Diagnostics", DiagnosticsRequest())).filter_failures == failures
            assert [job.request.comment for job in await jobs_of(client)] == (["mine"] * 2 if rule == "accept" else [])

    asyncio.run(story())


def test_a_filter_that_hangs_on_one_user_delays_no_other_and_order_is_kept(tmp_path):
    site = site_with(
        tmp_path,
        """
import os
def job_submit(job, submitter):
    if job.name == "hang":
        os.read(os.pipe()[0], 1)
""",
        "PenstockSubmitFilterFailure=accept\n",
    )

    async def story():
        async with site.controller() as controller, site.client() as client:
            ids: dict[str, int] = {}  # in the order of the replies
            underway = controller.gate.underway.calls

            async def send(uid: int, name: str) -> None:
                ids[name] = (await site.call_as(uid, "SubmitJob", submission(name=name))).job_id

            hanging = asyncio.create_task(send(NOBODY, "hang"))
            while not (await client.call("Diagnostics", DiagnosticsRequest())).filter_calls:
                pass
            behind = []
            for number in range(3):
                behind.append(asyncio.create_task(send(NOBODY, f"b{number}")))
                while underway[NOBODY] < 2 + number:
                    await asyncio.sleep(0.001)
            await send(OTHER, "other")
            assert not hanging.done() and not any(task.done() for task in behind)
            await asyncio.gather(hanging, *behind)
            assert list(ids)[:2] == ["other", "hang"]
            assert sorted(ids, key=ids.__getitem__) == ["other", "hang", "b0", "b1", "b2"]

    asyncio.run(story())


def test_every_component_and_every_entry_of_a_crontab_is_seen(tmp_path):
    site = site_with(
        tmp_path,
        """
def job_submit(job, submitter):
    if job.name == "bad":
        raise Refuse("no bad jobs")
    job.comment = f"{job.het_job_offset} {job.script is None}"
    log_user(job.name)
""",
        "ScronParameters=enable\n",
    )

    async def story():
        async with site.controller(), site.client() as client:
            request = submission(name="a")
            request.components.append(common_pb2.JobRequest(name="b", work_dir=b"/tmp"))
            assert list((await site.call_as(NOBODY, "SubmitJob", request)).user_messages) == ["a", "b"]
            assert [job.request.comment for job in await jobs_of(client)] == ["0 False", "1 True"]
            allocation = submission(name="s", kind=common_pb2.SALLOC)
            allocation.spec.Clear()
            await site.call_as(NOBODY, "SubmitJob", allocation)
            assert "None True" in [job.request.comment for job in await jobs_of(client)]

            def entry(name: str) -> periodic_pb2.CrontabEntry:
                lines = periodic_pb2.LineRange(first=3, last=3)
                job = common_pb2.JobRequest(name=name)
                spec = common_pb2.JobSpec(script=b"#!/bin/sh\n")
                return periodic_pb2.CrontabEntry(job=job, spec=spec, cron="0 5 * * *", lines=lines)

            update = periodic_pb2.UpdateCrontabRequest(text="x\n", entries=[entry("tick"), entry("bad")])
            reply = await site.call_as(NOBODY, "UpdateCrontab", update)
            assert (reply.code, reply.text) == (Code.FILTER_REFUSED, "Unspecified error: no bad jobs")
            assert reply.failed_lines.first == 3 and not reply.job_ids
            update = periodic_pb2.UpdateCrontabRequest(text="x\n", entries=[entry("tick")])
            reply = await site.call_as(NOBODY, "UpdateCrontab", update)
            assert list(reply.user_messages) == ["tick"] and len(reply.job_ids) == 1

    asyncio.run(story())


def test_updates(tmp_path):
    site = site_with(
        tmp_path,
        """
def job_modify(job, changes, submitter):
    if job.name == "fixed":
        raise Refuse(f"job {job.job_id} of {job.user_name} is {job.job_state}")
    if "comment" in changes:
        changes["comment"] += f" by {submitter.user_name}"
    if "starttime" in changes:
        changes["starttime"] = "2030-01-01T00:00:00"
    changes.pop("nice", None)
    log_user("seen")
""",
    )

    async def story():
        async with site.controller() as controller:
            ids = []
            for name in ("a", "fixed", "b"):
                ids.append((await site.call_as(NOBODY, "SubmitJob", submission(name=name, hold=True))).job_id)
            changes = {"comment": "new", "nice": "50", "starttime": "2029-01-01T00:00:00"}
            update = c.UpdateJobsRequest(ids=[*map(str, ids), "999"], changes=changes)
            reply = await site.call_as(NOBODY, "UpdateJobs", update)
            results = {one.id: (one.code, one.text) for one in reply.results}
            assert results[str(ids[0])] == results[str(ids[2])] == (0, "")
            assert results[str(ids[1])] == (
                Code.FILTER_REFUSED, f"Unspecified error: job {ids[1]} of nobody is PENDING"
            )  # fmt: skip
            assert results["999"][0] == Code.INVALID_JOB_ID
            assert list(reply.user_messages) == ["seen", "seen"]
            requests = [controller.runtime.core.state.jobs[job_id].request for job_id in ids]
            assert [(one.comment, one.nice) for one in requests] == [
                ("new by nobody", 0),
                ("", 0),
                ("new by nobody", 0),
            ]
            assert requests[0].begin_at_us // 1_000_000 > 1_893_000_000

    asyncio.run(story())


def test_reload_checks_first(tmp_path):
    site = site_with(tmp_path, "def job_submit(job, submitter):\n    job.comment = 'old'\n")

    async def story():
        async with site.controller(), site.client() as client:
            path = tmp_path / "filter.py"
            for text, wrong in (
                ("def job_submit(job, submitter)\n    pass\n", f"{path}:2: expected ':'"),
                ("import nosuchmodule\n", f"{path}:2: ModuleNotFoundError"),
                ("x = 1\n", f"{path}: it has neither job_submit nor job_modify"),
            ):
                rewrite(site, text)
                code, said = await refused(site.call_as(0, "Reconfigure", c.ReconfigureRequest()))
                assert code is Code.CONFIG_INVALID and wrong in said, said
                preview = await client.call("Reconfigure", c.ReconfigureRequest(dry_run=True))
                assert wrong in preview.problems[0]
            path.chmod(0o622)
            _, said = await refused(site.call_as(0, "Reconfigure", c.ReconfigureRequest()))
            assert "others than its owner can write to it" in said
            path.chmod(0o600)
            if os.geteuid() == 0:
                os.chown(path, NOBODY, 0)
                _, said = await refused(site.call_as(0, "Reconfigure", c.ReconfigureRequest()))
                assert f"it belongs to uid {NOBODY}" in said
                os.chown(path, 0, 0)
            await site.call_as(NOBODY, "SubmitJob", submission())
            rewrite(site, "def job_submit(job, submitter):\n    job.comment = 'new'\n")
            await client.call("Reconfigure", c.ReconfigureRequest())
            await site.call_as(NOBODY, "SubmitJob", submission())
            site.write()
            await client.call("Reconfigure", c.ReconfigureRequest())
            await site.call_as(NOBODY, "SubmitJob", submission())
            assert [job.request.comment for job in await jobs_of(client)] == ["old", "new", ""]

    asyncio.run(story())


def test_a_file_that_cannot_be_loaded_at_the_start_fails_by_the_rule(tmp_path):
    site = site_with(tmp_path, "def\n")

    async def story():
        async with site.controller():
            assert (await refused(site.call_as(NOBODY, "SubmitJob", submission())))[0] is Code.FILTER_FAILED

    asyncio.run(story())


@pytest.mark.root
def test_it_is_not_root(tmp_path):
    site = site_with(
        tmp_path,
        """
import os
def job_submit(job, submitter):
    job.comment = f"{os.getresuid()} {os.getresgid()} {os.getgroups()}"
""",
        "PenstockSubmitFilterUser=daemon\n",
    )

    async def story():
        async with site.controller(), site.client() as client:
            await site.call_as(NOBODY, "SubmitJob", submission())
            daemon = pwd.getpwnam("daemon")
            (job,) = await jobs_of(client)
            assert job.request.comment == f"{(daemon.pw_uid,) * 3} {(daemon.pw_gid,) * 3} {[daemon.pw_gid]}"

    asyncio.run(story())


@pytest.mark.root
@pytest.mark.parametrize(("name", "why"), [("root", "filters never run as root"), ("nosuch", "there is no such user")])
def test_a_user_that_it_cannot_be(tmp_path, name: str, why: str):
    site = site_with(tmp_path, "def job_submit(job, submitter):\n    pass\n")

    async def story():
        async with site.controller():
            path = tmp_path / "filter.py"
            site.write(f"PenstockSubmitFilter={path}\nPenstockSubmitFilterUser={name}\n")
            _, said = await refused(site.call_as(0, "Reconfigure", c.ReconfigureRequest()))
            assert said.endswith(f"PenstockSubmitFilterUser={name}: {why}")
            await site.call_as(NOBODY, "SubmitJob", submission())  # the old ones stay in force

    asyncio.run(story())


# ---- the table of fields -------------------------------------------------------------------------------------------


def test_the_table_has_the_fields_of_the_record():
    assert {*FIELDS, *SPEC, *FACTS} == set(SubmittedJob.__slots__)


VALUES = {
    "partition": "a,b", "mail_type": "END,FAIL", "time_limit": 90, "time_min": 5, "begin_time": 1_900_000_000,
    "deadline": 1_900_000_000, "tres_per_job": "gres/gpu:2", "tres_per_node": "gres/gpu:a100:2,gres/shard:4",
    "tres_per_socket": "gres/gpu:1", "tres_per_task": "gres/gpu:1", "cpus_per_tres": "gres/gpu:8",
    "mem_per_tres": "gres/gpu:1024", "priority": 0, "shared": 2, "kill_on_node_fail": False, "open_mode": "append",
}  # fmt: skip


@pytest.mark.parametrize("name", FIELDS)
def test_each_field_is_put_back_as_it_was_read(name: str):
    kind = FIELDS[name].kind
    value = VALUES.get(name, "x" if kind is str else True if kind is bool else 3)
    job = common_pb2.JobRequest()
    assert record_of(job, None, {})[name] is None
    apply({name: value}, job, None)
    assert job != common_pb2.JobRequest() and record_of(job, None, {})[name] == value
    apply({name: None}, job, None)
    assert job == common_pb2.JobRequest()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("time_limit", True), ("time_limit", 1.5), ("time_limit", 1 << 70), ("name", 3), ("name", "\udcff"), ("shared", 9),
        ("open_mode", "x"), ("cpus_per_tres", "gpu"), ("tres_per_node", "gres/gpu:x:y:z"), ("nosuch", 1), ("user_id", 0),
        ("min_nodes", -1), ("min_nodes", []), ("script", "x"), ("contiguous", 2),
    ],
)  # fmt: skip
def test_a_bad_value_is_named(name: str, value: object):
    with pytest.raises(BadValue, match=f"the filter has set {name}: "):
        apply({name: value}, common_pb2.JobRequest(), None)


def test_bytes_that_are_no_text_pass_unchanged():
    job = common_pb2.JobRequest(work_dir=b"/\xff")
    spec = common_pb2.JobSpec(script=b"#!\xff", argv=[b"\xfe"], environment=[b"A=\xff=1", b"B="])
    found = record_of(job, spec, {})
    again = common_pb2.JobSpec()
    changed = common_pb2.JobRequest()
    apply({"work_dir": found["work_dir"]}, changed, again)
    apply({name: found[name] for name in SPEC}, changed, again)
    assert changed == job and again == spec
