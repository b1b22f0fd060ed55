"""Readers of workload logs: what they make of a log, and what they say of a bad one."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from penstock.values.errors import BadValue
from sim.tracefile import TraceError
from sim.traces import read_trace
from sim.workload import FILTERS, Workload, from_columns, window

SWF = """; Version: 2.2
; MaxNodes: 4
; MaxProcs: 8
   2  10   5  100   4  90.5 2048  4  200 2048  1 17 3 -1 -1 -1 -1 -1
   1  10   0   50   2  -1   -1   -1   -1   -1  1 12 3 -1 -1 -1 -1 -1

   3   5  -1   -1  -1  -1   -1    6  600   -1  5 17 4 -1 -1 -1 -1 -1
"""
SACCT = """JobID|State|User|Account|Submit|Start|End|Elapsed|Timelimit|NNodes|NCPUS|ReqTRES|AllocTRES
7|COMPLETED|ann|phys|2026-01-01T00:00:00|2026-01-01T00:01:00|2026-01-01T01:01:00|01:00:00|1-00:00:00|1|8|cpu=4,mem=8G,node=1,gres/gpu=2|cpu=8,mem=8G,node=1,gres/gpu=2
7.batch|COMPLETED|||2026-01-01T00:01:00|2026-01-01T00:01:00|2026-01-01T01:01:00|01:00:00||1|8||cpu=8
8_3|CANCELLED by 1000|bob|chem|2026-01-01T00:00:30|Unknown|2026-01-01T00:02:00|00:00:00|UNLIMITED|1|0||
9|RUNNING|bob|chem|2026-01-01T00:00:30|2026-01-01T00:00:40|Unknown|00:00:00|UNLIMITED|1|2||cpu=2
10|TIMEOUT|bob|chem|2026-01-01T00:00:10|2026-01-01T00:00:10|2026-01-01T00:00:40|00:00:30|Partition_Limit|1|2|cpu=2|cpu=2
"""


def write(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return str(path)


def columns(workload: Workload, *names: str) -> list[tuple[int, ...]]:
    return list(zip(*(getattr(workload, name).tolist() for name in names), strict=True))


@pytest.mark.parametrize("name", ["small.swf", "small.swf.gz"])
def test_swf(tmp_path: Path, name: str) -> None:
    workload = read_trace(write(tmp_path, name, SWF))
    assert (workload.name, workload.processors) == ("small", 8)
    assert columns(
        workload, "job_id", "submit_s", "wait_s", "run_s", "allocated", "procs", "requested_s", "mem_mb"
    ) == [
        (3, 5, -1, -1, -1, 6, 600, -1),
        (1, 10, 0, 50, 2, 2, -1, -1),
        (2, 10, 5, 100, 4, 4, 200, 8),
    ]
    assert [workload.user_names[k] for k in workload.user] == ["17", "12", "17"]


def test_swf_knows_the_nodes_if_not_the_processors(tmp_path: Path) -> None:
    assert read_trace(write(tmp_path, "a.swf", SWF.replace("MaxProcs", "Other"))).processors == 4


def test_sacct(tmp_path: Path) -> None:
    workload = read_trace(write(tmp_path, "log.txt", SACCT))
    assert columns(workload, "job_id", "submit_s", "wait_s", "run_s", "requested_s", "procs", "allocated", "nodes") == [
        (7, 0, 60, 3600, 86_400, 4, 8, 1),
        (10, 10, 0, 30, -1, 2, 2, 1),
    ]
    assert columns(workload, "mem_mb", "gpu_milli") == [(8192, 2000), (-1, 0)]
    assert [workload.user_names[k] for k in workload.user] == ["ann", "bob"]
    assert [workload.group_names[k] for k in workload.group] == ["phys", "chem"]
    assert workload.skipped == {"never started": 1, "has not ended": 1}


def test_sacct_with_other_columns(tmp_path: Path) -> None:
    text = "ReqCPUS|End|Start|Submit|JobIDRaw|TimelimitRaw|ElapsedRaw\n3|200|150|100|5|10|50\n"
    assert columns(read_trace(write(tmp_path, "x", text)), "job_id", "wait_s", "run_s", "requested_s", "procs") == [
        (5, 50, 50, 600, 3)
    ]
    text = "JobID|Submit|Start|End|AllocTRES\n5|100|150|200|cpu=3\n"
    assert columns(read_trace(write(tmp_path, "x", text)), "run_s", "procs", "allocated") == [(50, 3, 3)]


@pytest.mark.parametrize(
    ("tres", "mem_mb", "gpu_milli"),
    [
        ("cpu=4,mem=62.50G,node=1,energy=1.5K", 64_000, 0),
        ("billing=4,cpu=4,gres/gpu:a100=2,gres/gpu:h100=1,mem=1000M", 1000, 3000),
        ("cpu=4,gres/gpu=2,gres/gpu:a100=2,mem=1048576K", 1024, 2000),
        ("cpu=4", -1, 0),
    ],
)
def test_sacct_rounds_and_types(tmp_path: Path, tres: str, mem_mb: int, gpu_milli: int) -> None:
    text = f"JobID|Submit|Elapsed|AllocTRES\n5|100|1:00|{tres}\n"
    assert columns(read_trace(write(tmp_path, "x", text)), "procs", "mem_mb", "gpu_milli") == [(4, mem_mb, gpu_milli)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (SWF + "1 2 3\n", "log:8: 3 fields, and SWF has 18: fix or remove the line"),
        (SWF.replace("90.5", "many"), "log:4: field 6 is 'many', not a number: write -1 for what is not known"),
        (SWF.replace("90.5", "nan"), "log:4: field 6 is 'nan', not a number: write -1 for what is not known"),
        ("; only a header\n", "log: no jobs in it"),
        ("1 2 3\n4 5 6\n", "log:1: 3 fields, and SWF has 18: fix or remove the line"),
        (
            "",
            "log:1: not a known format: write Standard Workload Format, or the output of `sacct -P` with its header line",
        ),
        ("hello\n", "log:1: not a known format"),
        (
            "name,cpu_milli,gpu_milli\n",
            "log:1: a list of pods without creation_time, scheduled_time and deletion_time has no times to simulate: ",
        ),
        (
            "JobID|Submit|Elapsed\n",
            "log:1: no column ncpus or alloccpus or reqcpus or alloctres or reqtres; ask sacct for it",
        ),
        ("JobID|Submit|NCPUS\n", "log:1: no column elapsed or elapsedraw or end; ask sacct for it"),
        ("JobID|Submit|Elapsed|NCPUS\n", "log: no finished job in it"),
        (
            "JobID|Submit|Elapsed|NCPUS\n1|0|1:00\n",
            "log:2: 3 fields, and the header has 4: leave out columns that contain |",
        ),
        (
            "JobID|Submit|Elapsed|NCPUS\n1|soon|1:00|1\n",
            "log:2: Submit is 'soon', not a date as 2026-01-31T12:00:00; fix or",
        ),
        ("JobID|Submit|Elapsed|AllocTRES\n1|0|1:00|cpu=x\n", "log:2: alloctres has 'cpu=x', not an amount as cpu=4"),
        ("JobID|Submit|Elapsed|NCPUS\n1|0|1:00|x\n", "log:2: 'x' is not a whole number; fix or remove the line"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, said: str) -> None:
    path = write(tmp_path, "log", text)
    with pytest.raises(TraceError) as error:
        read_trace(path)
    assert str(error.value).startswith(path.removesuffix("log") + said)


def test_a_broken_archive_is_said(tmp_path: Path) -> None:
    path = tmp_path / "log.gz"
    path.write_bytes(gzip.compress(SWF.encode() * 100)[:60])
    with pytest.raises(TraceError, match="broken gzip file"):
        read_trace(str(path))


def jobs(**known: list[int]) -> Workload:
    return from_columns("w", job_id=list(range(len(next(iter(known.values()))))), **known)


def test_filters() -> None:
    log = jobs(
        submit_s=[0, 1, 2, 3, 4, 5],
        run_s=[10, -1, 0, 99, 10, 10],
        wait_s=[0] * 6,
        requested_s=[5, 5, 5, -1, 5, 20],
        allocated=[1, 1, 1, 1, 9, -1],
        procs=[-1, -1, -1, -1, -1, 2],
    )
    kept = FILTERS["usable"](log, 8)
    assert columns(kept, "job_id", "run_s", "requested_s") == [(0, 10, 5), (2, 0, 5), (3, 99, 99), (5, 10, 20)]
    assert kept.skipped == {"no run time": 1, "more processors than the machine has": 1}
    assert columns(FILTERS["sc15"](log, 8), "job_id", "run_s", "requested_s") == [(0, 5, 5), (5, 10, 20)]
    assert columns(FILTERS["batsim"](log, 8), "job_id") == [(0,), (2,), (3,)]


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("1:3", [1, 2]),
        (":2", [0, 1]),
        ("2:", [2, 3]),
        ("0s:1m", [0, 1]),
        ("1m:2h", [2, 3]),
        ("0:61s", [0, 1, 2]),
        ("60s:", [2, 3]),
    ],
)
def test_windows(text: str, ids: list[int]) -> None:
    log = jobs(submit_s=[100, 110, 160, 190], run_s=[1] * 4)
    assert window(log, text).job_id.tolist() == ids


@pytest.mark.parametrize("text", ["5", "x:y", "9:", "3:2", "1m:5", "1w:2w"])
def test_bad_windows(text: str) -> None:
    with pytest.raises(BadValue, match=f"window '{text}'"):
        window(jobs(submit_s=[100, 110], run_s=[1, 1]), text)


def test_ties_are_in_order_of_id() -> None:
    log = from_columns("w", job_id=[3, 1, 2], submit_s=[5, 5, 0], run_s=[1, 1, 1])
    assert log.job_id.tolist() == [2, 1, 3]
    assert np.array_equal(log.procs, [-1, -1, -1])
