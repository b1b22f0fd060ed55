"""penstock profile and penstock waste: the chart, CSV, JSON, and what cannot be shown."""

import json
import sys
from pathlib import Path

import pytest

from cli.listings.profilefiles import courses
from cli.listings.profiles import NodeProfile
from cli.subcommands import profile as profile_command
from cli.subcommands import waste as waste_command
from penstock.v1.accounting_pb2 import JobRecord, ListProfilesReply, ListRecordsReply, ProfileRecord
from penstock.v1.governance_pb2 import ReportReply, ReportRow
from penstock.values.profile import GPU, HOST, TASK, decode_profile, encode_profile
from penstock.values.timeline import SampleLine
from tests.cli import reports
from tests.cli.fake_controller import run_body
from tests.conftest import MACHINE_LACKS

UUID = "GPU-aaaaaaaa-0000-4000-8000-000000000000"


def a_profile(step_id: int = 0, node: str = "n1", points: int = 4) -> ProfileRecord:
    host, gpu = SampleLine(4), SampleLine(5)
    for number in range(1, points + 1):
        host.add(150 * number, (1000 * number, 2048, 0, 4096))
        gpu.add(150 * number, (0 if number == 1 else 900, 1024 * 1024, 300_000, 60, 1000 * (number == 4)))
    data = encode_profile([(HOST, "", host), (GPU, UUID, gpu)])
    return ProfileRecord(job_id=12, attempt=0, step_id=step_id, node=node, profile=data)


def a_record() -> JobRecord:
    steps = [
        reports.step("COMPLETED", step_id=number, start_at_us=reports.at(-60), end_at_us=reports.at(0))
        for number in (-5, 0)
    ]
    return reports.record(12, "COMPLETED", steps=steps, start_at_us=reports.at(-60), end_at_us=reports.at(0))


def run(monkeypatch, capsys, *argv, profiles=(), records=None):
    client = reports.install(
        monkeypatch,
        ListRecords=[ListRecordsReply(records=[a_record()] if records is None else records)],
        ListProfiles=[ListProfilesReply(profiles=[one]) for one in profiles],
    )
    client.cluster = reports.CLUSTER
    monkeypatch.setenv("COLUMNS", "72")
    return run_body(capsys, "penstock", profile_command.main, *argv)


def test_the_chart(monkeypatch, capsys):
    status, out, err = run(monkeypatch, capsys, "12", profiles=[a_profile()])
    assert (status, err) == (0, "")
    assert out.splitlines() == [
        "Step 12.0 on n1: 00:01:00",
        "                       MEAN      MAX",
        "       CPU cores       2.50     4.00  ▃▃▃▃▃▃▅▅▅▅▅▅▇▇▇▇▇▇██████",
        "       memory       2.00 MB  2.00 MB  ████████████████████████",
        "       read/s       0.00 MB  0.00 MB  ▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁",
        "       written/s    4.00 KB  4.00 KB  ████████████████████████",
        "GPU 0  busy             68%      90%  ▁▁▁▁▁▁██████████████████",
        "GPU 0  memory       1.00 GB  1.00 GB  ████████████████████████",
        "GPU 0  power          300 W    300 W  ████████████████████████",
        "GPU 0  temperature     60 C     60 C  ████████████████████████",
        "GPU 0  throttled        25%     100%  ▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁██████",
        "",
        "STEP        GPU                                       MEAN  MAX  IDLE  THROTTLED",
        f"12.0 on n1  {UUID}   68%  90%   25%        25%",
    ]


def test_lines_of_tasks_where_they_are_asked_for(monkeypatch, capsys):
    lines = {kind: SampleLine(4) for kind in (HOST, "0", "1")}
    for number in range(1, 5):
        for part, line in enumerate(lines.values()):
            line.add(150 * number, (1000 * number if part == 2 else 0, 2048, 0, 0))
    data = encode_profile(
        [(HOST if name == HOST else TASK, "" if name == HOST else name, line) for name, line in lines.items()]
    )
    stored = ProfileRecord(job_id=12, attempt=0, step_id=0, node="n1", profile=data)
    without = run(monkeypatch, capsys, "12.0", profiles=[stored])[1]
    status, out, err = run(monkeypatch, capsys, "12.0", "--tasks", profiles=[stored])
    assert (status, err) == (0, "") and "task" not in without
    rows = [line.split()[:6] for line in out.splitlines() if line.startswith("task ")]
    assert [row[1] for row in rows] == ["0"] * 4 + ["1"] * 4
    assert [row[:6] for row in rows if "cores" in row] == [
        ["task", "0", "CPU", "cores", "0.00", "0.00"],
        ["task", "1", "CPU", "cores", "2.50", "4.00"],
    ]
    _, out, _ = run(monkeypatch, capsys, "12.0", "--tasks", "--json", profiles=[stored])
    assert [line["device"] for line in json.loads(out)["profiles"][0]["lines"]] == [None, "task 0", "task 1"]


def test_rows_for_programs(monkeypatch, capsys, tmp_path: Path):
    profiles = [a_profile(), a_profile(-5, "n2", points=1)]
    _, out, _ = run(monkeypatch, capsys, "12", "--csv=-", profiles=profiles)
    lines = out.splitlines()
    assert lines[0] == "job,step,node,device,elapsed_s,metric,mean,max" and len(lines) == 1 + 5 * 9
    assert "12,batch,n2,,15.0,cpu_cores,1,1" in lines
    assert f"12,0,n1,{UUID},60.0,gpu_power_watts,300,300" in lines
    monkeypatch.chdir(tmp_path)
    status, out, _ = run(monkeypatch, capsys, "12", "--csv", "p.csv", profiles=profiles)
    assert (status, out) == (0, "p.csv: 10 points\n") and (tmp_path / "p.csv").read_text().splitlines() == lines
    status, _, err = run(monkeypatch, capsys, "12", "--csv", "missing/p.csv", profiles=profiles)
    assert (status, err) == (1, "penstock: error: missing/p.csv: No such file or directory\n")
    _, out, _ = run(monkeypatch, capsys, "12", "--json", profiles=profiles)
    found = json.loads(out)["profiles"]
    assert [(one["step"], one["node"]) for one in found] == [("batch", "n2"), ("0", "n1")]
    host, gpu = found[1]["lines"]
    assert host["device"] is None and host["elapsed_s"] == [15.0, 30.0, 45.0, 60.0]
    assert host["metrics"]["cpu_cores"] == {"mean": 2.5, "max": 4, "means": [1, 2, 3, 4], "maxima": [1, 2, 3, 4]}
    assert (gpu["device"], gpu["known_s"], gpu["idle_s"], gpu["throttled_s"]) == (UUID, 60, 15, 15)


@pytest.mark.parametrize(("argv", "more", "said"), [
    (("12",), {}, "job 12: no profile: it has not run for an interval"),
    (("12",), {"records": []}, "job 12: not found, or not yours to see"),
    (("12",), {"records": [a_record()] * 101}, "job 12: 101 jobs, at most 100 are shown; name one, like 12_3"),
    (("x",), {}, "Invalid job x: "),
    (("12",), {"profiles": [ProfileRecord(job_id=12, node="n1", profile=b"\x1b[2J")]}, "12.0: node n1: a profile that cannot be inflated"),
    (("12",), {"profiles": [ProfileRecord(job_id=13, profile=b"")]}, "job 12: no profile"),
])  # fmt: skip
def test_what_cannot_be_shown(monkeypatch, capsys, argv, more, said):
    status, out, err = run(monkeypatch, capsys, *argv, **more)
    assert (status, out) == (1, "") and said in err and "\x1b" not in err


# ---- waste


def rank(monkeypatch, capsys, *argv, rows=(), records=()):
    client = reports.install(
        monkeypatch, Report=[ReportReply(rows=rows)], ListRecords=[ListRecordsReply(records=list(records))]
    )
    client.cluster = reports.CLUSTER
    return run_body(capsys, "penstock", waste_command.main, *argv), client


ROWS = [
    ReportRow(keys=["ann"], values=[3, 7200 * 10, 7200 * 40, 12, 7200]),
    ReportRow(keys=[""], values=[1, 360, 720, 13, 360]),
]


def test_a_ranking(monkeypatch, capsys):
    one = a_record()
    one.request.submit_line = "sbatch --gpus=8 " + "x" * 200
    (status, out, err), client = rank(monkeypatch, capsys, "--by=account", rows=ROWS, records=[one])
    assert (status, err) == (0, "")
    assert out.splitlines() == [
        "ACCOUNT  JOBS  UNUSED  ALLOCATED  BUSY  WORST  UNUSED  COMMAND",
        f"ann         3   20.00      80.00   75%     12    2.00  sbatch --gpus=8 {'x' * 81}...",
        "-           1    0.10       0.20   50%     13    0.10  -",
    ]
    (report, records) = (request for _, request in client.calls)
    assert list(report.group_by) == ["account"] and report.end_at_us - report.start_at_us == 7 * 86_400 * 10**6
    assert list(records.ids) == ["12", "13"]
    (_, out, _), client = rank(monkeypatch, capsys, "-n1", "--json", rows=ROWS, records=[one])
    (row,) = json.loads(out)["rows"]
    assert (row["name"], row["unused_gpu_s"], row["worst_job"]) == ("ann", 72_000, 12)


def test_nothing_to_rank(monkeypatch, capsys):
    (status, out, _), _ = rank(monkeypatch, capsys)
    assert (status, out) == (0, "no job with measured GPUs has ended since then\n")
    (status, _, err), _ = rank(monkeypatch, capsys, "--since=soon")
    assert status == 1 and "--since: " in err


def test_a_picture_is_drawn_by_matplotlib(monkeypatch, capsys, tmp_path: Path):
    monkeypatch.chdir(tmp_path)
    profiles = [a_profile(), a_profile(-5, "n$2$", points=1)]
    status, out, err = run(monkeypatch, capsys, "12", "--png=p.png", "--csv=p.csv", profiles=profiles)
    assert (status, out, err) == (0, "p.csv: 10 points\np.png: 10 points\n", "")
    data = (tmp_path / "p.png").read_bytes()
    assert data.startswith(b"\x89PNG\r\n") and data.endswith(b"IEND\xaeB`\x82")
    status, _, err = run(monkeypatch, capsys, "12", "--png=missing/p.png", profiles=profiles)
    assert (status, err) == (1, "penstock: error: missing/p.png: No such file or directory\n")


def test_the_courses_of_a_picture():
    record = a_record()
    lines = decode_profile(a_profile().profile)
    found = courses([NodeProfile(record, record.steps[1], "n1", lines)])
    assert list(found)[:2] == ["cpu_cores", "memory_bytes"] and "gpu_power_watts" in found
    [cores] = found["cpu_cores"]
    assert cores == ("12.0 n1", [15.0, 30.0, 45.0, 60.0], [1.0, 2.0, 3.0, 4.0])
    [power] = found["gpu_power_watts"]
    assert power.name == f"12.0 n1 {UUID}" and power.means == [300.0] * 4


@pytest.mark.parametrize(("option", "library"), [("--png", "matplotlib"), ("--parquet", "pyarrow")])
def test_a_library_that_is_not_installed_is_named(option, library, monkeypatch, capsys, tmp_path: Path):
    monkeypatch.chdir(tmp_path)
    for name in [name for name in sys.modules if name.partition(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    status, out, err = run(monkeypatch, capsys, "12", f"{option}=file", profiles=[a_profile()])
    assert (status, out) == (1, "") and not list(tmp_path.iterdir())
    assert err == f"penstock: error: {option} needs {library}: pip install 'penstock[profile]'\n"


def test_parquet_has_the_rows_of_csv(monkeypatch, capsys, tmp_path: Path):
    parquet = pytest.importorskip("pyarrow.parquet", reason=f"{MACHINE_LACKS} pyarrow")
    monkeypatch.chdir(tmp_path)
    status, out, _ = run(monkeypatch, capsys, "12", "--parquet=p.parquet", profiles=[a_profile()])
    assert (status, out) == (0, "p.parquet: 8 points\n")
    rows = parquet.read_table("p.parquet").to_pylist()
    assert len(rows) == 36 and list(rows[0]) == ["job", "step", "node", "device", "elapsed_s", "metric", "mean", "max"]
    assert {"job": "12", "step": "0", "node": "n1", "metric": "gpu_power_watts", "mean": 300.0}.items() <= rows[
        -3
    ].items()
