"""seff: what a job used of what it had, as text, as JSON, and as advice."""

import json
from typing import Any

import pytest

from cli.listings import jobefficiency
from cli.listings.efficiency import size_text
from cli.seff import body
from cli.steps import stepquery
from penstock.errors import BadSetup
from penstock.v1.accounting_pb2 import ListProfilesReply, ListRecordsReply, ProfileRecord, StepMetric
from penstock.v1.common_pb2 import ExitStatus, Usage, UsageMetric
from penstock.v1.steps_pb2 import AttachStepReply
from penstock.values.profile import GPU, encode_profile
from penstock.values.timeline import SampleLine
from tests.cli import reports
from tests.cli.fake_controller import run_body

GB = 1024 * 1024  # in KB


@pytest.fixture(autouse=True)
def now(monkeypatch):
    monkeypatch.setattr(jobefficiency, "now_us", lambda: reports.NOW_US)


def metric(kind, total, high=None, low=None):
    return StepMetric(
        kind=kind, total=total, max=total if high is None else high, min=total if low is None else low, max_node="n1",
        min_node="n1",
    )  # fmt: skip


def gpus(util, memory_kb, joules, *, least=None, card_kb=140 * GB, cards=2):
    return [
        metric(UsageMetric.GPU_UTIL, util, 99, least),
        metric(UsageMetric.GPU_MEM_KB, memory_kb),
        metric(UsageMetric.ENERGY_J, joules),
        metric(UsageMetric.GPU_MEM_HELD_KB, card_kb * cards, card_kb, card_kb),
    ]


def step(step_id, start_s, end_s, *, cpu_s=0, rss_kb=0, tasks=1, metrics=(), state="COMPLETED"):
    return reports.step(
        state, step_id=step_id, start_at_us=reports.at(start_s), end_at_us=reports.at(end_s) if end_s is not None else 0,
        tasks=tasks, usage=Usage(user_cpu_us=cpu_s * reports.S, max_rss_kb=rss_kb), metrics=metrics, node_list="n1",
    )  # fmt: skip


def record(job_id=12, state="COMPLETED", steps=(), start_s=-3600, end_s=0, cores=4, gpus=0, **more):
    tres = f"cpu={cores},mem=16G,node=1,billing={cores}" + (f",gres/gpu={gpus}" if gpus else "")
    return reports.record(
        job_id, state, steps=list(steps), start_at_us=reports.at(start_s) if start_s is not None else 0,
        end_at_us=reports.at(end_s) if end_s is not None else 0, cpus_alloc=cores, nodes_alloc=1, tres_alloc=tres,
        **({"time_limit_s": 7200} | more),
    )  # fmt: skip


def run(monkeypatch, capsys, *argv, records=(), **answers):
    answers = {"ListProfiles": [], **answers}
    client = reports.install(monkeypatch, ListRecords=[ListRecordsReply(records=records)], **answers)
    client.cluster = reports.CLUSTER
    return run_body(capsys, "seff", body, *argv)


def test_a_job_with_gpus(monkeypatch, capsys):
    """The script did nothing itself; two steps used the GPUs one after the other, one of them half the time."""
    steps = [
        step(-5, -3600, 0, cpu_s=10, rss_kb=1024, metrics=gpus(0, 0, 1000)),
        step(0, -3600, -1800, cpu_s=3000, rss_kb=2 * GB, metrics=gpus(160, 200 * GB, 900_000)),
        step(1, -1800, 0, cpu_s=4000, rss_kb=3 * GB, metrics=gpus(80, 210 * GB, 600_000)),
    ]
    status, out, err = run(monkeypatch, capsys, "12", records=[record(steps=steps, gpus=2)])
    assert (status, err) == (0, "")
    assert out.splitlines() == [
        "Job ID: 12",
        "Cluster: tiny",
        "User/Group: ann/users",
        "State: COMPLETED (exit code 0)",
        "Nodes: 1",
        "Cores per node: 4",
        "CPU Utilized: 01:56:50",
        "CPU Efficiency: 48.68% of 04:00:00 core-walltime",
        "Job Wall-clock time: 01:00:00",
        "Memory Utilized: 3.00 GB",
        "Memory Efficiency: 18.76% of 16.00 GB (16.00 GB/node)",
        "Time Efficiency: 50.00% of 02:00:00 time limit",
        "GPUs: 2",
        "GPU Utilized: 01:12:00",
        "GPU Efficiency: 60.00% of 02:00:00 GPU-walltime",
        "GPU Memory Utilized: 210.00 GB",
        "GPU Memory Efficiency: 75.00% of 280.00 GB (140.00 GB/GPU)",
        "GPU Energy: 1501000 J (0.417 kWh)",
        "Advice:",
        "  It used 3.00 GB of memory: --mem=3700M would have been enough.",
        "  Of 4 cores it kept 2 busy: use fewer CPUs (--cpus-per-task, --ntasks).",
    ]


def profile(step_id, *points, uuid="GPU-1"):
    """A step's profile: at so many seconds, so many percent, throttled or not."""
    line = SampleLine(5)
    for at_s, percent, is_slow in points:
        line.add(at_s * 10, (percent * 10, None, None, None, 1000 * is_slow))
    data = encode_profile([(GPU, uuid, line)])
    return ProfileRecord(job_id=12, attempt=0, step_id=step_id, node="n1", profile=data)


def test_idle_time_is_when_no_step_uses_the_gpu(monkeypatch, capsys):
    """A script does nothing for 1000 s; its step works for the 500 s in their middle, throttled for 100 of them."""
    steps = [step(-5, -1000, 0, metrics=gpus(0, 0, 1, cards=1)), step(0, -750, -250, metrics=gpus(90, GB, 1, cards=1))]
    found = [
        profile(-5, (500, 0, False), (1000, 0, False)),
        profile(0, (100, 90, True), (500, 90, False)),
        profile(7, (5000, 0, True)),  # of a step that is not in the record
    ]
    answer = {"ListProfiles": [ListProfilesReply(profiles=found)]}
    records = [record(steps=steps, gpus=1, start_s=-1000)]
    _, out, err = run(monkeypatch, capsys, "12", records=records, **answer)
    assert err == ""
    assert "GPU Idle: 50.00% of 00:16:40 below 5% utilisation; throttled 10.00%" in out.splitlines()
    _, out, _ = run(monkeypatch, capsys, "--json", "12", records=records, **answer)
    gpu = json.loads(out)["gpu"]
    assert (gpu["profiled"], gpu["idle"], gpu["throttled"]) == (1000, 500, 100)
    broken = ProfileRecord(job_id=12, step_id=0, node="n1", profile=b"?")
    _, out, err = run(monkeypatch, capsys, "12", records=records, ListProfiles=[ListProfilesReply(profiles=[broken])])
    assert "GPU Idle" not in out and err == ""


def test_steps_at_the_same_time_are_added(monkeypatch, capsys):
    steps = [
        step(0, -600, -300, rss_kb=GB, metrics=gpus(90, GB, 1, cards=1)),
        step(1, -600, -300, rss_kb=2 * GB, metrics=gpus(90, 2 * GB, 1, cards=1)),
        step(2, -300, 0, rss_kb=2 * GB, metrics=gpus(90, 2 * GB, 1, cards=1)),
    ]
    _, out, _ = run(monkeypatch, capsys, "12", records=[record(steps=steps, gpus=2, start_s=-600)])
    assert "Memory Utilized: 3.00 GB" in out and "GPU Memory Utilized: 3.00 GB" in out
    assert "GPU Efficiency: 67.50% of 00:20:00" in out


ADVICE: tuple[tuple[dict[str, Any], Any, str], ...] = (
    (dict(), gpus(0, 0, 5), "Its GPUs were never used: leave --gres and --gpus out, or check whether the program finds them."),
    (dict(), gpus(20, 200 * GB, 5), "Its GPUs were idle 90% of the time: find out what the program waits for (reading data, one CPU)."),
    (dict(), gpus(90, 200 * GB, 5, least=0), "Of its 2 GPUs at least one was not used: request fewer, or use all of them."),
    (dict(), gpus(100, 14 * GB, 5), "It used 14.00 GB of 280.00 GB of GPU memory: a smaller GPU or a part of one (--gres=shard, MIG) may do."),
    (dict(state="OUT_OF_MEMORY"), gpus(190, 200 * GB, 5), "It ran out of memory: request more than 16.00 GB (--mem)."),
    (dict(state="TIMEOUT", time_limit_s=3600), gpus(190, 200 * GB, 5), "Its time limit of 01:00:00 ended it: request more (--time), or let it save its state."),
    (dict(time_limit_s=86400), gpus(190, 200 * GB, 5), "It ran for 01:00:00 of 1-00:00:00: with a shorter limit (--time) it may start earlier."),
    (dict(), gpus(190, 200 * GB, 5), None),
)  # fmt: skip


@pytest.mark.parametrize(("job", "metrics", "sentence"), ADVICE)
def test_advice(monkeypatch, capsys, job, metrics, sentence):
    steps = [step(-5, -3600, 0, cpu_s=4 * 3600, rss_kb=12 * GB, metrics=metrics)]
    _, out, _ = run(monkeypatch, capsys, "12", records=[record(steps=steps, gpus=2, **job)])
    told = out.partition("Advice:\n")[2].splitlines()
    assert told == ([f"  {sentence}"] if sentence else [])


def test_a_short_job_says_nothing_about_the_next(monkeypatch, capsys):
    _, out, _ = run(monkeypatch, capsys, "12", records=[record(steps=[step(-5, -9, 0)], start_s=-9)])
    assert "Advice" not in out and "Memory Utilized: 0.00 MB" in out


def test_one_core(monkeypatch, capsys):
    steps = [step(-5, -100, 0, cpu_s=90, rss_kb=15 * GB, tasks=2)]
    _, out, _ = run(monkeypatch, capsys, "12", records=[record(steps=steps, cores=1, start_s=-100, time_limit_s=-1)])
    assert out.splitlines()[4:] == [
        "Cores: 1",
        "CPU Utilized: 00:01:30",
        "CPU Efficiency: 90.00% of 00:01:40 core-walltime",
        "Job Wall-clock time: 00:01:40",
        "Memory Utilized: 15.00 GB (estimated maximum)",
        "Memory Efficiency: 93.75% of 16.00 GB (16.00 GB/node)",
    ]


def test_an_array_is_shown_as_a_whole(monkeypatch, capsys):
    good = [step(-5, -3600, 0, cpu_s=4 * 3600, rss_kb=12 * GB)]
    bad = [step(-5, -1800, 0, cpu_s=0, rss_kb=14 * GB)]
    records = [
        record(12, steps=good, array_job_id=12, array_task_id=0),
        record(13, "FAILED", steps=bad, start_s=-1800, array_job_id=12, array_task_id=1, exit=ExitStatus(code=3)),
    ]
    _, out, _ = run(monkeypatch, capsys, "12", records=records)
    assert out.splitlines()[:9] == [
        "Job ID: 12", "Jobs: 2", "Cluster: tiny", "User/Group: ann/users", "State: 1 COMPLETED, 1 FAILED", "Nodes: 1",
        "Cores per node: 4", "CPU Utilized: 04:00:00", "CPU Efficiency: 66.67% of 06:00:00 core-walltime",
    ]  # fmt: skip
    assert "Memory Utilized: 14.00 GB" in out and "Job Wall-clock time: 01:30:00" in out


def test_a_task_of_an_array(monkeypatch, capsys):
    records = [record(13, "FAILED", array_job_id=12, array_task_id=1, exit=ExitStatus(code=3))]
    _, out, _ = run(monkeypatch, capsys, "12_1", records=records)
    assert out.splitlines()[:5] == [
        "Job ID: 13", "Array Job ID: 12_1", "Cluster: tiny", "User/Group: ann/users", "State: FAILED (exit code 3)",
    ]  # fmt: skip


def test_a_waiting_job(monkeypatch, capsys):
    status, out, _ = run(monkeypatch, capsys, "12", records=[record(state="PENDING", start_s=None, end_s=None)])
    assert status == 0
    assert out.splitlines()[-2:] == ["State: PENDING", "Efficiency not available for jobs in the PENDING state."]


def test_a_running_job_is_asked_on_its_nodes(monkeypatch, capsys):
    answer = {"tasks": 1, "metrics": [[UsageMetric.CPU_MS, 7200_000, 7200_000, 0, 0, 0], [UsageMetric.RSS_KB, GB, GB, 0, GB, 0],
              [UsageMetric.GPU_UTIL, 75, 99, 0, 75, 0], [77, 1, 1, 0, 1, 0]]}  # fmt: skip
    monkeypatch.setattr(stepquery, "ask", lambda *given: stepquery.Answers({"n1": answer}, {"n2": "no answer in time"}))
    steps = [step(-5, -3600, None, state="RUNNING"), step(-4, -3600, None, state="RUNNING")]
    status, out, err = run(
        monkeypatch, capsys, "12", records=[record(state="RUNNING", steps=steps, end_s=None, gpus=1)],
        AttachStep=lambda request: AttachStepReply(job_id=request.job_id, step_id=request.step_id),
    )  # fmt: skip
    assert (status, err) == (0, "seff: error: node n2 does not answer: no answer in time\n")
    assert "CPU Utilized: 02:00:00" in out and "Memory Utilized: 1.00 GB" in out and "GPU Efficiency: 75.00%" in out
    assert out.splitlines()[-1] == "WARNING: Efficiency statistics may be misleading for RUNNING jobs."


def test_who_may_not_ask_sees_the_record(monkeypatch, capsys):
    steps = [step(-5, -3600, None, state="RUNNING")]
    status, out, err = run(
        monkeypatch, capsys, "12", records=[record(state="RUNNING", steps=steps, end_s=None)], AttachStep=BadSetup("no")
    )  # fmt: skip
    assert status == 0 and err.startswith("seff: error: 12.batch: ") and "State: RUNNING" in out


def test_energy_that_is_an_estimate_in_one_step_is_one_of_the_job(monkeypatch, capsys):
    rough = [metric(UsageMetric.ENERGY_J, 1000), metric(UsageMetric.ENERGY_ESTIMATED_J, 1000)]
    steps = [step(-5, -3600, 0, metrics=gpus(20, GB, 3_599_000)), step(0, -3600, 0, metrics=rough)]
    _, out, _ = run(monkeypatch, capsys, "12", records=[record(steps=steps, gpus=2)])
    assert "GPU Energy: 3600000 J (1.000 kWh, estimated)" in out.splitlines()
    _, out, _ = run(monkeypatch, capsys, "--json", "12", records=[record(steps=steps, gpus=2)])
    assert json.loads(out)["gpu"]["energy_is_estimate"] is True


def test_json(monkeypatch, capsys):
    steps = [step(-5, -3600, 0, cpu_s=7200, rss_kb=4 * GB, metrics=gpus(20, 14 * GB, 36))]
    _, out, _ = run(monkeypatch, capsys, "--json", "12", records=[record(steps=steps, gpus=2)])
    shown = json.loads(out)
    assert shown["gpu"] == {
        "count": 2, "used": 720.0, "allocated": 7200, "efficiency_percent": 10.0, "memory_used": 14 * GB * 1024,
        "memory_allocated": 280 * GB * 1024, "memory_efficiency_percent": 5.0, "energy_joules": 36,
        "energy_is_estimate": False, "profiled": None, "idle": None, "throttled": None,
    }  # fmt: skip
    assert (shown["cpu"]["efficiency_percent"], shown["memory"]["efficiency_percent"]) == (50.0, 25.0)
    assert (shown["states"], shown["time"]["limit"], len(shown["advice"])) == (["COMPLETED"], 7200, 3)


@pytest.mark.parametrize(
    ("argv", "status", "words"),
    [
        (["99"], 2, "Job not found.\n"),
        ([], 1, "Usage: seff [--json] JOB (a job id, like 12 or 12_3)\n"),
        (["1", "2"], 1, "Usage: seff [--json] JOB (a job id, like 12 or 12_3)\n"),
        (["12.0"], 1, "seff: error: 12.0: give one job id, like 12 or 12_3; steps are shown by sacct\n"),
        (["1,2"], 1, "seff: error: 1,2: give one job id, like 12 or 12_3; steps are shown by sacct\n"),
    ],
)
def test_bad_input(monkeypatch, capsys, argv, status, words):
    assert run(monkeypatch, capsys, *argv) == (status, "", words)


def test_what_is_no_job_id(monkeypatch, capsys):
    status, out, err = run(monkeypatch, capsys, "nonsense")
    assert (status, out) == (1, "") and err.startswith("seff: error: Bad job specified: nonsense: ")


@pytest.mark.parametrize(
    ("kb", "text"), [(0, "0.00 MB"), (556, "556.00 KB"), (1.5 * GB, "1.50 GB"), (GB * 2048, "2.00 TB")]
)
def test_sizes(kb, text):
    assert size_text(kb) == text


def test_options_of_slurms(monkeypatch, capsys):
    """-v is the version there, -d shows raw data for debugging."""
    status, shown, _ = run_body(capsys, "seff", body, "-v")
    assert status == 0 and shown.startswith("slurm ")
    status, shown, told = run(monkeypatch, capsys, "-d", "12", records=[record()])
    assert (status, told) == (0, "") and shown.startswith("Job ID: 12\n")
