"""The Python interface against a cluster that runs: both faces, every method, errors by class."""

import asyncio
import signal
import threading
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from livecluster import CTLD, LiveCluster
from patience import ANSWER_S, END_S

from penstock.errors import PenstockError
from penstock.v1.governance_pb2 import ReportReply, ReportRequest, ReportRow
from sdk import questions
from sdk.aio import AsyncCluster
from sdk.cluster import Cluster
from sdk.errors import InvalidRequest, JobFailed, JobNotFound, RequestRefused, WaitTimeout, WillNotRun
from sdk.executor import ClusterExecutor
from sdk.functioncall import FOLDER, FunctionFailed
from sdk.output import OutputNotHere
from sdk.records import UsageRecord

#: Runs until a file is there.
WAITS = "#!/bin/sh\nuntil [ -e go ]; do sleep 0.05; done\n"
MODULE = """
def square(number):
    return number * number
def fails(text):
    raise ValueError(text)
"""


def test_a_script_is_submitted_watched_and_read(cluster: Cluster, live: LiveCluster) -> None:
    script = live.script("job.sh", "#!/bin/sh\n#SBATCH -n9 -J scripted\necho got $1; echo $EXTRA; echo bad >&2\n")
    job = cluster.submit(script, "two words", env={"EXTRA": "more"}, ntasks=1, error="err.%j", time=5, comment="hello")
    record = job.wait(END_S, check=True)
    assert (record.state, record.exit_code, record.signal, record.has_ended) == ("COMPLETED", 0, 0, True)
    assert (record.name, record.tasks, record.comment) == ("scripted", 1, "hello")
    assert record.time_limit == timedelta(minutes=5)
    assert record.elapsed is not None and record.elapsed >= timedelta()
    assert record.nodes and set(record.nodes) <= {"n1", "n2"}
    assert record.submit_time is not None and record.submit_time.tzinfo is UTC
    assert job.output() == "got two words\nmore\n" and job.output(1) == "more\n" and job.output(0) == ""
    assert job.output(error=True) == "bad\n"
    assert job.script().startswith("#!/bin/sh\n#SBATCH -n9")
    assert "".join(job.follow()) == job.output()
    assert job.id == record.shown_id == str(record.job_id)


def test_a_command_is_not_for_a_shell(cluster: Cluster) -> None:
    job = cluster.submit_command(["printf", "%s", "$HOME `id`\n"], gpus=1)
    assert job.wait(END_S).gpus == 1
    assert job.output() == "$HOME `id`\n"


def test_a_job_that_fails_and_one_that_lasts(cluster: Cluster, live: LiveCluster) -> None:
    failed = cluster.submit_text("#!/bin/sh\necho the reason\nexit 3\n")
    with pytest.raises(JobFailed, match="exit code 3") as caught:
        failed.wait(END_S, check=True)
    assert caught.value.detail == "the reason\n" and caught.value.record.state == "FAILED"
    lasting = cluster.submit_text(WAITS)
    with pytest.raises(WaitTimeout, match="has not ended after 0 s"):
        lasting.wait(0)
    (live.work / "go").touch()
    assert lasting.wait(END_S).succeeded
    (live.work / "go").unlink()


def test_jobs_are_controlled(cluster: Cluster) -> None:
    held = cluster.submit_text("#!/bin/sh\ntrue\n", hold=True, job_name="held")
    assert held.state() == "PENDING" and held.record().reason == "JobHeldUser"
    assert "held" in " ".join(held.why().obstacles)
    held.update(timelimit=timedelta(minutes=7), comment="changed")
    assert (held.record().time_limit, held.record().comment) == (timedelta(minutes=7), "changed")
    assert [job.name for job in cluster.jobs(names=["held"])] == ["held"]
    held.release()
    assert held.wait(END_S).succeeded
    assert cluster.jobs(names=["held"]) == []
    assert [job.name for job in cluster.jobs(names=["held"], states=["COMPLETED"])] == ["held"]
    running = cluster.submit_text(
        "#!/bin/sh\ntrap 'exit 5' USR1\ntouch ready.$SLURM_JOB_ID\nwhile :; do sleep 0.1; done\n"
    )
    ready = Path(f"ready.{running.id}")
    wait_for(ready, cluster, running.id)
    running.cancel()
    assert running.wait(END_S).state == "CANCELLED"
    running.cancel()


def wait_for(path: Path, cluster: Cluster, job_id: str) -> None:
    """Until the job has made the file."""
    deadline = threading.Event()
    for _ in range(round(END_S / 0.05)):
        if path.exists():
            return
        assert not cluster.job(job_id).record().has_ended
        deadline.wait(0.05)
    raise AssertionError(f"{path} was not made")


def test_a_signal_reaches_the_steps(cluster: Cluster) -> None:
    script = "#!/bin/sh\nsrun sh -c 'trap \"exit 5\" USR1; touch step.'$SLURM_JOB_ID'; while :; do sleep 0.1; done'\n"
    job = cluster.submit_text(script)
    wait_for(Path(f"step.{job.id}"), cluster, job.id)
    job.signal(signal.SIGUSR1)
    assert job.wait(END_S).exit_code == 5


def test_what_there_is_and_what_would_start(cluster: Cluster) -> None:
    one, two = cluster.nodes()
    assert (one.name, two.name, one.gpus, one.gpus_allocated) == ("n1", "n2", 2, 0)
    assert [node.name for node in cluster.nodes("n2")] == ["n2"]
    start = cluster.would_start(gpus_per_node=2, nodes=2)
    assert start.nodes == ("n1", "n2") and start.start_time is not None
    with pytest.raises(WillNotRun):
        cluster.would_start(gpus_per_node=3)
    job = cluster.submit_text("#!/bin/sh\ntrue\n", job_name="told")
    job.wait(END_S)
    since = datetime.now(UTC) - timedelta(hours=1)
    assert [record.job_id for record in cluster.history(since) if record.name == "told"] == [int(job.id)]


def test_usage_of_hours_that_are_over(cluster: Cluster) -> None:
    """In the form of any, whether there are some or none yet."""
    job = cluster.submit_text("#!/bin/sh\ntrue\n")
    job.wait(END_S)
    now = datetime.now(UTC)
    found = cluster.usage(now - timedelta(hours=2), now, group_by=["account"], tres=["cpu"])
    assert all(list(one.group) == ["account"] and one.tres == "cpu" and one.tres_s >= 0 for one in found)
    assert cluster.usage(now, now, users=["nobody"]) == []
    with pytest.raises(RequestRefused, match="moon"):
        cluster.usage(now, now, group_by=["moon"])


def test_rows_of_a_report_are_records() -> None:
    request = questions.used(
        datetime(2026, 1, 1, 10, 30, tzinfo=UTC), datetime(2026, 1, 1, 11, 1, tzinfo=UTC), ["account", "user"], ["gres/gpu"], (), ()
    )  # fmt: skip
    asked = request.request
    assert isinstance(asked, ReportRequest)
    hours = [datetime.fromtimestamp(at_us / 1_000_000, UTC).hour for at_us in (asked.start_at_us, asked.end_at_us)]
    assert hours == [10, 12]
    pages = [
        ReportReply(rows=[ReportRow(keys=["lab", name], tres="gres/gpu", values=[120])]) for name in ("ann", "bob")
    ]
    assert request.answer(pages) == [
        UsageRecord({"account": "lab", "user": name}, "gres/gpu", 120) for name in ("ann", "bob")
    ]


def test_an_array_is_waited_for_whole(cluster: Cluster) -> None:
    job = cluster.submit_text("#!/bin/sh\nexit $((SLURM_ARRAY_TASK_ID % 2))\n", array="0-3", output="task.%a")
    job.wait(END_S)
    assert [cluster.job(f"{job.id}_{task}").state() for task in range(4)] == ["COMPLETED", "FAILED"] * 2


def test_errors_have_classes(cluster: Cluster) -> None:
    with pytest.raises(JobNotFound) as caught:
        cluster.job(4_000_000).record()
    assert isinstance(caught.value, LookupError)
    with pytest.raises(InvalidRequest):
        cluster.job("17; rm -rf /")
    with pytest.raises(InvalidRequest, match="is a step"):
        cluster.job("17.0")
    with pytest.raises(InvalidRequest):
        cluster.submit_text("#!/bin/sh\n", partition="nowhere")
    gone = cluster.submit_text("#!/bin/sh\nrm -f slurm-$SLURM_JOB_ID.out\n")
    gone.wait(END_S)
    with pytest.raises(OutputNotHere, match="No such file or directory"):
        gone.output()


def test_a_repeated_key_is_the_same_job(cluster: Cluster) -> None:
    key = cluster.new_key()
    first = cluster.submit_text("#!/bin/sh\ntrue\n", key=key, hold=True)
    assert cluster.submit_text("#!/bin/sh\ntrue\n", key=key, hold=True).id == first.id


def test_threads_share_a_cluster(cluster: Cluster) -> None:
    found: list[bool] = []

    def works() -> None:
        found.append(cluster.submit_text("#!/bin/sh\ntrue\n").wait(END_S).succeeded)

    threads = [threading.Thread(target=works) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(END_S)
    assert found == [True] * 4


def test_the_same_from_asyncio(live: LiveCluster) -> None:
    script = live.script("async.sh", "#!/bin/sh\necho from $1\n")

    async def works() -> Sequence[str]:
        async with AsyncCluster(live.cluster_file) as cluster:
            jobs = await asyncio.gather(*(cluster.submit(script, str(n)) for n in range(3)))
            records = await asyncio.gather(*(job.wait(END_S, check=True) for job in jobs))
            assert [record.succeeded for record in records] == [True] * 3
            held = await cluster.submit_command(["true"], hold=True)
            assert (await held.why()).reason == "JobHeldUser"
            await held.update(comment="async")
            assert (await held.record()).comment == "async"
            await held.release()
            assert (await held.wait(END_S)).succeeded
            with pytest.raises(JobNotFound):
                await cluster.job(4_000_000).record()
            assert {node.name for node in await cluster.nodes()} == {"n1", "n2"}
            assert (await cluster.would_start(nodes=2)).nodes == ("n1", "n2")
            assert "".join([text async for text in jobs[0].follow()]) == "from 0\n"
            return sorted([await job.output() for job in jobs])

    assert asyncio.run(works()) == ["from 0\n", "from 1\n", "from 2\n"]


def test_functions_run_as_jobs(cluster: Cluster, live: LiveCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    (live.work / "mymodule.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(live.work))
    import mymodule  # type: ignore[import-not-found]  # the test writes it

    with ClusterExecutor(cluster, time=5) as executor:
        squares = list(executor.map(mymodule.square, [2, 3], timeout=END_S))
        broken = executor.submit(mymodule.fails, "why")
        with pytest.raises(FunctionFailed, match="ValueError: why"):
            broken.result(END_S)
    assert squares == [4, 9]
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(mymodule.square, 1)
    assert list((live.work / FOLDER).iterdir()) == []


def test_a_future_that_is_cancelled_takes_its_job_along(
    cluster: Cluster, live: LiveCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    (live.work / "othermodule.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(live.work))
    import othermodule  # type: ignore[import-not-found]  # the test writes it

    with ClusterExecutor(cluster, hold=True) as executor:
        future = executor.submit(othermodule.square, 1)
        (job,) = cluster.jobs(names=["square"])
        assert future.cancel()
    assert cluster.job(job.job_id).wait(ANSWER_S).state == "CANCELLED"


def test_changes_survive_a_restart_of_the_controller() -> None:
    """What happened meanwhile is not known any more, which is said; then they go on."""
    with LiveCluster(1) as own, Cluster(own.cluster_file) as cluster:
        changes = cluster.watch(after=cluster.sequence(), kinds=["JOB"])
        first = cluster.submit_text("#!/bin/sh\n", hold=True)
        assert (found := next(changes)).id == first.id and found.state == "PENDING"
        own.kill(CTLD)
        own.start_controller()
        assert (missed := next(changes)).missed and missed.sequence > found.sequence
        second = cluster.submit_text("#!/bin/sh\n", hold=True)
        assert next(changes).id == second.id


def test_changes_come_to_asyncio(live: LiveCluster) -> None:
    async def works() -> None:
        async with AsyncCluster(live.cluster_file) as cluster:
            now = await cluster.sequence()
            job = await cluster.submit_command(["true"], job_name="seen")
            states = []
            async for change in cluster.watch(after=now, kinds=["JOB"]):
                states += [change.state] if change.id == job.id else []
                if change.id == job.id and change.state == "COMPLETED":
                    break
            # Several changes of one commit are one: a job may start with its submission.
            assert states[-1] == "COMPLETED" and len(states) == len(set(states)) > 1
            with pytest.raises(RequestRefused, match="no kind of change"):
                await anext(cluster.watch(kinds=["MOON"]))

    asyncio.run(works())


def test_without_a_cluster_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path))
    monkeypatch.delenv("PENSTOCK_CLUSTER", raising=False)
    with pytest.raises(PenstockError, match="no cluster found"):
        Cluster()
