"""Readers of published GPU logs and of `sacct --json`, encodings, and jobs whose times cannot be true."""

import json
from pathlib import Path

import pytest

from sim import __main__ as sim
from sim.tracefile import TraceError
from sim.traces import read_trace
from sim.workload import Workload

PHILLY = json.dumps([
    {"status": "Pass", "vc": "v1", "jobid": "application_1", "user": "ann", "submitted_time": "2017-10-09 07:00:00", "attempts": [
        {"start_time": "2017-10-09 07:01:00", "end_time": "2017-10-09 07:02:00", "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}, {"ip": "m2", "gpus": ["gpu0"]}]},
        {"start_time": "2017-10-09 07:05:00", "end_time": "2017-10-09 07:06:30", "detail": [{"ip": "m1", "gpus": ["gpu0"]}]}]},
    {"status": "Killed", "vc": "v1", "jobid": "application_2", "user": "bob", "submitted_time": "2017-10-09 07:00:30", "attempts": []},
    {"status": "Killed", "vc": "v1", "jobid": "application_3", "user": "bob", "submitted_time": "2017-10-09 07:00:30", "attempts": [
        {"start_time": "2017-10-09 07:01:00", "end_time": None, "detail": []}]},
])  # fmt: skip
HELIOS = """job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
j1,u1,vc1,8,64,1,COMPLETED,2020-04-01 00:00:00,2020-04-01 00:01:00,2020-04-01 01:01:00,3600,60
j2,u2,vc1,0,4,1,CANCELLED,2020-04-01 00:00:10,None,2020-04-01 00:01:00,0,50
j3,u2,vc1,0,4,1,COMPLETED,2020-04-01 00:00:10,2020-04-01 00:02:00,2020-04-01 00:01:00,0,50
"""
PAI = """4f057009a5d481acec67b088,tensorflow,2,Terminated,1000.0,1600.0,600.0,29.5,50.0,MISC
4f057009a5d481acec67b088,ps,1,Terminated,1000.0,1600.0,400.0,,,CPU
7aa,worker,1,Running,1200.0,,600.0,29.5,100.0,V100
"""
PODS = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
p0,12000,16384,1,460,,LS,Running,100,500,130
p1,6500,12288,2,1000,,BE,Pending,200,500,
"""
JSON = json.dumps({"jobs": [
    {"job_id": 7, "user": "ann", "account": "phys", "allocation_nodes": 2, "state": {"current": ["COMPLETED"]},
     "time": {"submission": 100, "start": 160, "end": 260, "elapsed": 100, "limit": {"set": True, "infinite": False, "number": 10}},
     "required": {"CPUs": 4},
     "tres": {"allocated": [{"type": "cpu", "name": "", "count": 8}, {"type": "mem", "name": "", "count": 512}, {"type": "gres", "name": "gpu:a100", "count": 4}],
              "requested": [{"type": "cpu", "count": 4}]}},
    {"job_id": 8, "user": "ann", "account": "phys", "allocation_nodes": 1, "state": {"current": "TIMEOUT"},
     "time": {"submission": 110, "start": 120, "end": 180, "limit": 1}, "required": {"CPUs": 3}, "tres": {}},
    {"job_id": 9, "user": "ann", "state": {"current": ["PENDING"]}, "time": {"submission": 100, "start": 0, "end": 0}, "tres": {}},
    {"job_id": 10, "user": "ann", "state": {"current": ["RUNNING"]}, "time": {"submission": 100, "start": 200, "end": 0}, "tres": {}},
]})  # fmt: skip
NAMES = ("submit_s", "wait_s", "run_s", "requested_s", "procs", "nodes", "gpu_milli", "mem_mb")


def log(folder: Path, text: str, encoding: str = "utf-8") -> Workload:
    (folder / "log").write_bytes(text.encode(encoding))
    return read_trace(str(folder / "log"))


@pytest.mark.parametrize(
    ("text", "rows", "skipped"),
    [
        (PHILLY, [(0, 60, 150, -1, 3, 2, 3000, -1)], {"never started": 1, "has not ended": 1}),
        (HELIOS, [(0, 60, 3600, -1, 64, 1, 8000, -1)], {"never started": 1, "ends before it starts": 1}),
        (
            PAI,
            [(0, 0, 600, -1, 12, -1, 1000, 60_416), (0, 0, 600, -1, 4, -1, 0, -1)],
            {"has not ended": 1},
        ),
        (PODS, [(0, 30, 370, -1, 12, 1, 460, 16_384)], {"never started": 1}),
        (
            JSON,
            [(0, 60, 100, 600, 4, 2, 4000, 512), (10, 10, 60, 60, 3, 1, 0, -1)],
            {"never started": 1, "has not ended": 1},
        ),
    ],
)
def test_formats(tmp_path: Path, text: str, rows: list[tuple[int, ...]], skipped: dict[str, int]) -> None:
    found = log(tmp_path, text)
    assert list(zip(*(getattr(found, name).tolist() for name in NAMES), strict=True)) == rows
    assert (found.skipped, found.doubts) == (skipped, {})


def test_a_table_of_2020_with_its_header(tmp_path: Path) -> None:
    header = "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type\n"
    assert log(tmp_path, header + PAI).procs.tolist() == [12, 4]


SWF = "1 0 0 10 3 -1 -1 3 10 -1 1 7 1 -1 -1 -1 -1 -1\n"


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("text", [SWF, HELIOS, JSON, "JobID|Submit|Elapsed|NCPUS|User\n1|0|1:00|1|Zo\u00eb\n"])
def test_encodings_of_windows(tmp_path: Path, text: str, encoding: str) -> None:
    found = log(tmp_path, text.replace("\n", "\r\n") if text is not JSON else text, encoding)
    assert len(found) == (2 if text is JSON else 1)
    assert "Zo\u00eb" not in text or found.user_names == ("Zo\u00eb",)


def test_times_that_cannot_be_true_are_counted(tmp_path: Path, capsys) -> None:
    lines = [
        SWF,
        SWF.replace("1 0 0", "2 -5 0"),
        SWF.replace("0 10 3", "0 -9 3"),
        SWF.replace("0 10 3", "0 40000000 3"),
        SWF,
        SWF.replace("1 0 0", "4 0 -9"),
        SWF.replace("1 0 0 10", "5 0 0 90000"),
    ]
    found = log(tmp_path, "".join(lines))
    assert found.job_id.tolist() == [1, 1, 4, 5]
    assert found.skipped == {
        "submit time before the beginning of the log": 1,
        "ends before it starts": 1,
        "runs for more than 366 days": 1,
    }
    assert found.doubts == {
        "the id of another job": 3,
        "starts before its submission": 1,
        "runs for a day more than its time limit": 1,
    }
    assert sim.main(["run", "--trace", str(tmp_path / "log"), "--procs", "9"]) == 0
    assert capsys.readouterr().out.splitlines()[2] == (
        "kept, but odd: the id of another job: 3; starts before its submission: 1; runs for a day more than its time limit: 1"
    )


def test_ids_of_an_array_are_not_the_same(tmp_path: Path) -> None:
    assert log(tmp_path, "JobID|Submit|Elapsed|NCPUS\n8_1|0|1:00|1\n8_2|0|1:00|1\n").doubts == {}
    assert log(tmp_path, "JobID|Submit|Elapsed|NCPUS\n8|0|1:00|1\n8|9|1:00|1\n").doubts == {"the id of another job": 1}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"jobs": 1}', "log: not the output of sacct --json"),
        ("{", "log: not the output of sacct --json"),
        ('{"jobs": [{"job_id": "x", "time": {}}]}', "log: no finished job in it"),
        (
            '{"jobs": [{"job_id": 1, "time": {"submission": "x"}}]}',
            "log: job number 1: 'x' is not a whole number; fix or",
        ),
        ("[1]", "log: not the JSON of a cluster_job_log"),
        (HELIOS.replace("8,64", "8,many"), "log: line 2: could not convert string to float: 'many'; fix or remove it"),
        (HELIOS.replace("8,64,1", "8,64"), "log:2: 11 fields, and there are 12 columns"),
        (
            HELIOS.replace("vc,gpu_num,cpu_num", "vc,gpu_num,cpus"),
            "log: line 2: no column 'cpu_num'; fix or remove it",
        ),
        (PODS.replace("12000", "-1"), "log: line 2: cpu_milli is '-1', not a number"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(TraceError) as error:
        log(tmp_path, text)
    assert str(error.value).startswith(f"{tmp_path}/{said}")


def test_an_odd_number_of_bytes_is_no_utf_16(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(SWF.encode("utf-16") + b"x")
    with pytest.raises(TraceError, match="not a text in UTF-8 or UTF-16"):
        read_trace(str(tmp_path / "log"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "JobID|Submit|Elapsed|NCPUS\n1|99999999999999999999|1:00|1\n",
            "log: job 1: submit_s is too large; fix or remove",
        ),
        ("JobID|Submit|Elapsed|AllocTRES\n1|1|1:00|cpu=" + "9" * 400 + "\n", "log:2: alloctres has 'cpu=999"),
        ("JobID|Submit|Elapsed|NCPUS\n|1|1:00|1\n", "log:2: a job without JobID"),
    ],
)
def test_hostile_numbers_are_said(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(TraceError) as error:
        log(tmp_path, text)
    assert str(error.value).startswith(f"{tmp_path}/{said}")
