"""job_submit.lua: Slurm's interface as site scripts use it."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from ctld.runtime.filterworker import answer, load
from penstock.sitefilters.base import FilterFailed
from penstock.v1 import controller_pb2 as c
from penstock.values.refusals import Code
from tests.rpc.clusterkit import ROOT, Site, jobs_of, submission
from tests.rpc.test_submit_filter import NOBODY, refused

JOB: dict[str, Any] = {
    "name": "x", "account": None, "partition": None, "qos": None, "time_limit": None, "min_nodes": None,
    "num_tasks": None, "cpus_per_task": None, "min_mem_per_cpu": None, "tres_per_node": None, "shared": None,
    "comment": None, "priority": None, "script": "#!/bin/sh\n", "argv": ["a"], "environment": {"A": "1"},
    "user_id": 7, "requeue": None, "mail_type": None, "begin_time": None,
}  # fmt: skip
PARTITION = {"name": "debug", "flag_default": 1, "max_time": 120, "default_time": 0, "state_up": "UP", "allow_qos": ""}


def run(text: str, function: str = "job_submit", record: Any = None, **job: Any) -> dict[str, Any]:
    filters = load([["lua", "/etc/job_submit.lua", text]])
    call = {
        "function": function, "job": {**JOB, **job} if function == "job_submit" else job, "partitions": [PARTITION],
        "submitter": {"user_id": 7, "default_account": "physics"}, "record": record or {},
    }  # fmt: skip
    return answer(filters, call)


def submit(body: str, **job: Any) -> dict[str, Any]:
    text = f"function slurm_job_submit(job_desc, part_list, submit_uid)\n{body}\nend\nreturn slurm.SUCCESS\n"
    return run(text, **job)


def test_a_common_script():
    body = """
    if job_desc.account == nil then job_desc.account = job_desc.default_account end
    if job_desc.time_limit == slurm.NO_VAL then
        slurm.log_user("limit set to %d minutes for %s", 60, job_desc.name)
        job_desc.time_limit = 60
    end
    if job_desc.min_nodes == slurm.NO_VAL and job_desc.cpus_per_task == slurm.NO_VAL16 then job_desc.min_nodes = 2 end
    for name, part in pairs(part_list) do
        if part.flag_default == 1 and part.allow_qos == nil then job_desc.partition = name .. part.max_time end
    end
    if string.find(job_desc.script, "bin/sh") then job_desc.environment.SITE = "yes" end
    slurm.log_info("seen %d %s", submit_uid, job_desc.argc)
    return slurm.SUCCESS"""
    found = submit(body)
    assert found["changed"] == {
        "account": "physics", "time_limit": 60, "min_nodes": 2, "partition": "debug120",
        "environment": {"A": "1", "SITE": "yes"},
    }  # fmt: skip
    assert found["messages"] == ["limit set to 60 minutes for x"] and found["notes"] == ["info: seen 7 1"]


@pytest.mark.parametrize(
    ("line", "job", "changed"),
    [
        ("", {}, {}),
        ("job_desc.nosuch = 1", {}, {}),
        ("job_desc.time_limit = slurm.INFINITE", {}, {"time_limit": -1}),
        ("job_desc.time_limit = slurm.NO_VAL", {"time_limit": 5}, {"time_limit": None}),
        (
            "job_desc.time_limit = slurm.NO_VAL8",
            {"time_limit": 5},
            {"time_limit": 0xFE},
        ),  # a number like any other there
        ("job_desc.min_nodes = slurm.NO_VAL16", {}, {"min_nodes": 0xFFFE}),
        ("job_desc.cpus_per_task = slurm.NO_VAL16", {"cpus_per_task": 5}, {"cpus_per_task": None}),
        ("job_desc.cpus_per_task = slurm.NO_VAL", {"cpus_per_task": 5}, {"cpus_per_task": None}),
        ("job_desc.account = nil", {"account": "a"}, {"account": None}),
        ("job_desc.gres = 'gpu:2'", {}, {"tres_per_node": "gpu:2"}),
        ("job_desc.tres_per_node = 'gres/gpu:2'", {"tres_per_node": "gres/gpu:1"}, {"tres_per_node": "gres/gpu:2"}),
        ("job_desc.shared = 0", {}, {"shared": 0}),
        ("job_desc.requeue = 1", {}, {"requeue": True}),
        ("job_desc.mail_type = slurm.MAIL_JOB_END + slurm.MAIL_JOB_FAIL", {}, {"mail_type": "END,FAIL"}),
        ("job_desc.priority = 0", {}, {"priority": 0}),
        ("if job_desc.min_mem_per_cpu == nil then job_desc.min_mem_per_cpu = 4096 end", {}, {"min_mem_per_cpu": 4096}),
        ("job_desc.comment = job_desc.min_cpus", {"num_tasks": 3, "cpus_per_task": 2}, {"comment": 6}),
        ("job_desc.script = job_desc.script .. '\\255'", {}, {"script": "#!/bin/sh\n\udcff"}),
    ],
)
def test_fields(line: str, job: dict[str, Any], changed: dict[str, object]):
    assert submit(line + "\nreturn slurm.SUCCESS", **job)["changed"] == changed


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("return slurm.ERROR", -1), ("return slurm.FAILURE", -1), ("return 1", 1),
        ("return slurm.ESLURM_INVALID_ACCOUNT", int(Code.INVALID_ACCOUNT)), ("return slurm.ESLURM_OTHER", -1),
    ],
)  # fmt: skip
def test_a_refusal(line: str, code: int):
    found = submit(f"slurm.user_msg('no')\n{line}")
    assert (found["refused"], found["messages"]) == ([code, ""], ["no"])


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("local x = nil; return x.y", "/etc/job_submit.lua:2: attempt to index a nil value"),
        ("error({})", "/etc/job_submit.lua"),
        ("return 'yes'", "slurm_job_submit returned no number"),
        ("slurm.log_user('%d', 'x')", "bad argument"),
        ("return python.eval('1')", "attempt to index a nil value"),
        ("return require('python')", "module 'python' not found"),
        ("return slurm.log_user.__class__", "attempt to index a function value"),
    ],
)
def test_a_failure_names_its_line(line: str, said: str):
    assert said in submit(line)["failed"]


@pytest.mark.parametrize("text", ["function x(", "error('no')", "x = 1"])
def test_a_file_that_cannot_be_loaded(text: str):
    with pytest.raises(FilterFailed, match=r"^/etc/job_submit.lua"):
        load([["lua", "/etc/job_submit.lua", text]])


def test_modify():
    text = """
    function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
        if job_desc.time_limit ~= slurm.NO_VAL and job_desc.time_limit > 120 then job_desc.time_limit = 120 end
        if job_desc.account == nil then job_desc.comment = job_rec.name .. modify_uid end
        return slurm.SUCCESS
    end
    """
    record = {"name": "old", "time_limit": 100}
    found = run(text, "job_modify", record, timelimit="+30", partition="debug")
    assert found["changed"] == {"timelimit": "120", "comment": "old7"}
    assert run(text, "job_modify", record, timelimit="1:00:00", account="a")["changed"] == {}
    for odd in ("--5", "9" * 30, "9" * 4000, "\u00b2", "-"):  # left to the controller, whose parser refuses them
        assert run(text, "job_modify", record, nice=odd, numnodes=odd, account="a")["changed"] == {}


def test_the_example_of_the_page():
    found = re.search(r"```lua\n(.*?)```", (ROOT / "docs" / "hooks.md").read_text(), re.S)
    assert found is not None
    assert run(found[1], time_limit=5)["changed"] == {"account": "physics"}
    told = run(found[1])
    assert told["refused"] == [int(Code.INVALID_TIME_LIMIT), ""] and told["messages"] == [
        "set a time limit with --time"
    ]


def test_it_is_run_by_the_controller(tmp_path: Path):
    (tmp_path / "job_submit.lua").write_text(
        """
        function slurm_job_submit(job_desc, part_list, submit_uid)
            if job_desc.name == "bad" then slurm.log_user("no bad jobs"); return slurm.ESLURM_ACCESS_DENIED end
            job_desc.comment = job_desc.user_name .. part_list["debug"].name
            return slurm.SUCCESS
        end
        """
    )
    (tmp_path / "job_submit.lua").chmod(0o644)
    site = Site(tmp_path, extra="JobSubmitPlugins=lua\n")

    async def story():
        async with site.controller(), site.client() as client:
            await site.call_as(NOBODY, "SubmitJob", submission())
            (job,) = await jobs_of(client)
            assert job.request.comment == "nobodydebug"
            code, text = await refused(site.call_as(NOBODY, "SubmitJob", submission(name="bad")))
            assert (code, text) == (Code.ACCESS_DENIED, "Access/permission denied: no bad jobs")
            (tmp_path / "job_submit.lua").write_text("x = = 1\n")
            _, text = await refused(site.call_as(0, "Reconfigure", c.ReconfigureRequest()))
            assert f"{tmp_path}/job_submit.lua:1: unexpected symbol near '='" in text

    asyncio.run(story())
