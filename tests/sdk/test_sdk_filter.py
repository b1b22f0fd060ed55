"""Lines of a site's submit filter, for programs."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from livecluster import ClusterConf, LiveCluster

from sdk.aio import AsyncCluster
from sdk.cluster import Cluster
from sdk.errors import RequestRefused
from sdk.runcommand import main

FILTER = """
from penstock.submitfilter import Refuse, log_user

def job_submit(job, submitter):
    log_user(f"{job.name} is seen")
    if job.name == "bad":
        raise Refuse("no bad jobs")

def job_modify(job, changes, submitter):
    log_user(f"{job.name} gets {changes['comment']}")
"""


@pytest.fixture
def filtered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    path = tmp_path / "filter.py"
    path.write_text(FILTER)
    path.chmod(0o600)
    with LiveCluster(1, ClusterConf(more=(f"PenstockSubmitFilter={path}",))) as live:
        for name, value in live.environment().items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(live.work)
        with Cluster(live.cluster_file) as cluster:
            yield cluster


def test_its_lines_are_given(filtered: Cluster, capfd: pytest.CaptureFixture[str]) -> None:
    job = filtered.submit_command(["true"], job_name="good", hold=True)
    assert job.messages == ("good is seen",) and filtered.job(job.id).messages == ()
    assert job.update(comment="x") == ("good gets x",)
    assert filtered.would_start(job_name="good").messages == ("good is seen",)
    with pytest.raises(RequestRefused, match="bad is seen\nno bad jobs"):
        filtered.submit_command(["true"], job_name="bad")

    async def story() -> None:
        async with AsyncCluster() as cluster:
            job = await cluster.submit_command(["true"], job_name="good", hold=True)
            assert job.messages == ("good is seen",)
            assert await job.update(comment="y") == ("good gets y",)
            await job.cancel()

    asyncio.run(story())
    assert main(["--job-name", "good", "true"]) == 0
    sys.stdout.flush()
    assert capfd.readouterr().err == "penstock run: good is seen\n"
    job.cancel()
