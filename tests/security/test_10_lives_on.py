"""Item 10: an error of ours refuses one request, and no request, job or timer ends two processes."""

import asyncio
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ctld.core.records.events import JobSubmission, Quarantine, SubmitJob, Tick
from ctld.core.records.job import Job
from ctld.core.state.timers import Timer
from ctld.runtime.fatalcauses import FatalCauses, fingerprint, suspect
from penstock.errors import PenstockError
from penstock.v1 import controller_pb2, explain_pb2
from penstock.values.refusals import Code
from tests.core.world import SPEC, World, make_config
from tests.rpc.clusterkit import Process, Site, submission, submit

#: A controller that fails over one name, after it has begun to apply.
BREAKS = """
import sys
from ctld.core.requests import submit
real = submit.refresh
def broken(state, job, now_us):
    if job.request.name == "bomb":
        raise IndexError("list index out of range")
    return real(state, job, now_us)
submit.refresh = broken
from ctld.main import main
sys.exit(main(sys.argv[1:]))
"""


def now_event(world: World, **fields: Any) -> SubmitJob:
    return SubmitJob(world.actor("ann"), "k" * 32, world.now_us, JobSubmission(**fields), SPEC, False, world.reply_to())


def test_a_handler_that_fails_refuses_its_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged with its stack, and counted; the rules of alarms have the counter."""
    site = Site(tmp_path)

    def broken(*_: object) -> None:
        raise ZeroDivisionError

    async def story() -> None:
        async with site.controller() as controller, site.client() as client:
            monkeypatch.setattr("ctld.rpc.cluster.clusterinfo.partition_info", broken)
            monkeypatch.setattr("ctld.core.requests.het_submit.submit.would_start", broken)
            with pytest.raises(PenstockError) as error:
                await client.call("ListPartitions", controller_pb2.ListPartitionsRequest())
            assert error.value.code == Code.INTERNAL and "log" in error.value.text
            tested = submission()
            tested.test_only = True
            with pytest.raises(PenstockError) as error:
                await client.call("SubmitJob", tested)
            assert error.value.code == Code.INTERNAL
            assert await submit(client)
            reply = await client.call("Diagnostics", explain_pb2.DiagnosticsRequest())
            assert reply.spared == 2
            assert controller.runtime.metrics.spared == 2

    with caplog.at_level(logging.ERROR):
        asyncio.run(story())
    stacks = [record.exc_info[0] for record in caplog.records if record.exc_info]
    assert stacks.count(ZeroDivisionError) == 2
    rules = Path(__file__).resolve().parents[2] / "packaging" / "observability" / "rules.yml"
    assert "increase(penstock_spared_total[1h]) > 0" in rules.read_text()


def test_the_planner_that_fails_starts_nothing_and_ends_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    site = Site(tmp_path)

    async def story() -> None:
        async with site.controller() as controller, site.client() as client:
            runtime = controller.runtime
            future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            future.set_exception(IndexError())
            runtime.passes.finished(runtime.core.state.scheduling.revision, 0, 0, future)
            assert await submit(client)
            assert runtime.metrics.spared == 1
            assert not runtime.core.state.scheduling.full_pass_in_flight

    with caplog.at_level(logging.ERROR):
        asyncio.run(story())
    assert "the planner failed" in caplog.text


def test_last_words_bar_what_is_alike(tmp_path: Path) -> None:
    world, path = world_of_two(), tmp_path / "lastwords.json"
    event = now_event(world, name="bomb")
    FatalCauses(path, 1).write("the core failed", IndexError("x"), event, None, 1_000)
    assert path.stat().st_mode & 0o777 == 0o600
    after = FatalCauses(path, 2_000)
    again = SubmitJob(world.actor("ann"), "j" * 32, world.now_us + 5, JobSubmission(name="bomb"), SPEC, False, 99)
    assert after.bars(event) and after.bars(again)
    assert not after.bars(now_event(world, name="other"))
    assert not after.bars(SubmitJob(world.actor("bob"), "j" * 32, 0, JobSubmission(name="bomb"), SPEC, False, 99))
    assert after.quarantine() is None
    assert not FatalCauses(path, 1_000 + 3_600_000_001).bars(event)  # after an hour


def world_of_two() -> World:
    return World(make_config())


def test_last_words_know_the_job_and_the_timer(tmp_path: Path) -> None:
    path = tmp_path / "lastwords.json"
    world = world_of_two()
    world.submit(JobSubmission())
    job = world.core.state.jobs[1]
    with pytest.raises(KeyError) as found:
        _fails_with(job)
    assert suspect(found.tb) == 0  # not a frame of the core
    scope: dict[str, Any] = {"__name__": "ctld.core.somewhere"}
    exec("def f(job):\n    raise KeyError(1)", scope)
    try:
        scope["f"](job)
    except KeyError as error:
        FatalCauses(path, 1).write("the core failed", error, None, (Timer.DEADLINE, 1, 0), 1_000)
    assert FatalCauses(path, 2_000).quarantine() == Quarantine((1,), (("DEADLINE", 1),))


def _fails_with(job: Job) -> None:
    raise KeyError(job.job_id)


def test_what_says_nothing_of_its_own_is_never_barred(tmp_path: Path) -> None:
    path = tmp_path / "lastwords.json"
    FatalCauses(path, 1).write("the core failed", KeyError(), Tick(), None, 1_000)
    assert not FatalCauses(path, 2_000).bars(Tick())
    assert fingerprint(Tick()) == fingerprint(Tick())


def test_a_damaged_file_is_no_reason_not_to_start(tmp_path: Path) -> None:
    path = tmp_path / "lastwords.json"
    path.write_text("{")
    assert FatalCauses(path, 1).quarantine() is None
    assert not FatalCauses(path, 1).bars(Tick())


def test_a_bomb_ends_one_process_and_not_the_next(tmp_path: Path) -> None:
    """An error after something was applied: a real process ends, the next refuses the same and serves everybody else."""
    site = Site(tmp_path)
    script = tmp_path / "bomb.py"
    script.write_text(BREAKS)

    class Broken(Process):
        def __init__(self, site: Site) -> None:
            (site.state / "cluster.json").unlink(missing_ok=True)
            self.site, self.log = site, site.folder / "ctld.log"
            with open(self.log, "ab") as log:
                words = [sys.executable, str(script), "--config", str(site.conf)]
                root = str(Path(__file__).parents[2])
                self.child = subprocess.Popen(words, env={**os.environ, "PYTHONPATH": root}, stderr=log)

    async def story() -> None:
        first = Broken(site)
        await first.up()
        async with site.client() as client:
            waiting = asyncio.ensure_future(client.call("SubmitJob", submission(name="bomb")))
            assert await first.ended() == 70
            waiting.cancel()
            await asyncio.wait([waiting])
        second = Broken(site)
        await second.up()
        try:
            async with site.client() as client:
                with pytest.raises(PenstockError, match="has ended over a request like this one"):
                    await client.call("SubmitJob", submission(name="bomb"))
                assert await submit(client)
        finally:
            assert second.stop() == 0

    asyncio.run(story())
