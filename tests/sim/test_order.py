"""`penstock sim order`: figures are those of `penstock sim run`, and a hostile log gets an answer and no more. Each order has a
process of its own, under its own limits."""

import json
import os
import resource
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import pytest
from patience import ANSWER_S
from warmstart import ROOT, starter

from sim import __main__ as sim
from sim.order import POINTS

BIG = 2**53
HEADER = "JobID|User|Account|Submit|Start|End|ElapsedRaw|TimelimitRaw|NNodes|NCPUS|ReqCPUS|AllocTRES|State\n"
NODES = [{"count": 2, "cpus": 8, "memory_mb": 8000, "gpus": 4, "weight": 1}]
SWF = "; MaxProcs: 4\n1 0 6 10 3 -1 -1 3 10 -1 1 7 1 -1 -1 -1 -1 -1\n2 1 9 10 4 -1 -1 4 10 -1 1 7 1 -1 -1 -1 -1 -1\n"


def row(number: int = 1, **changes: object) -> str:
    """A job of a log of sacct."""
    values = {"user": "ann", "submit": 1000, "start": 1010, "end": 1110, "run": 100, "limit": 5, "nodes": 1, "cpus": 4,
              "tres": "cpu=4,mem=1G,gres/gpu=1"} | changes  # fmt: skip
    v = values
    return (
        f"{number}|{v['user']}|lab|{v['submit']}|{v['start']}|{v['end']}|{v['run']}|{v['limit']}|{v['nodes']}|{v['cpus']}"
        f"|{v['cpus']}|{v['tres']}|COMPLETED\n"
    )


def order(log: str | bytes, *policies: str, **changes: Any) -> tuple[int, dict[str, Any]]:
    """The status and the answer; nothing may be on standard error."""
    given = {
        "name": "log",
        "policies": policies or ("easy",),
        "processors": 0,
        "nodes": [],
        "is_memory_allocated": True,
    }
    data = log.encode() if isinstance(log, str) else log
    with TemporaryFile() as asked, ExitStack() as stack:
        asked.write(json.dumps(given | changes).encode() + b"\n" + data)
        asked.seek(0)
        pipes = [os.pipe(), os.pipe()]  # it may write to no file
        answer, errors = (stack.enter_context(open(reading, "rb")) for reading, _ in pipes)
        with open(pipes[0][1], "wb") as output, open(pipes[1][1], "wb") as more:
            child = starter("sim", False).start(["sim", "order"], (asked, output, more), ROOT, os.environ)
        found = answer.read()
        assert errors.read() == b""
        return child.wait(ANSWER_S), json.loads(found)


def test_the_figures_are_those_of_sim_run_and_the_lines_fit_them(tmp_path: Path) -> None:
    log, result = tmp_path / "log", tmp_path / "result.json"
    log.write_text(SWF)
    assert sim.main(["run", "--trace", str(log), "--policy", "easy", "--policy", "sjf", "--json", str(result)]) == 0
    expected = {one["policy"]: one["metrics"] for one in json.loads(result.read_text())["runs"]}
    status, answer = order(SWF, "easy", "sjf")
    assert status == 0 and (answer["jobs"], answer["processors"]) == (2, 4)
    assert [one["policy"] for one in answer["runs"]] == ["recorded", "easy", "sjf"]
    for one in answer["runs"]:
        assert {figure["name"]: figure["value"] for figure in one["figures"]} == expected[one["policy"]]
        lines = {line["name"]: line for line in one["lines"]}
        assert set(lines) == {"wait_mean_s", "jobs_waiting", "cpu_percent"}
        assert all(len(line["means"]) == POINTS for line in lines.values())
        used_s = sum(lines["cpu_percent"]["means"]) / 100 * answer["interval_s"] * 4
        assert used_s == pytest.approx(70, rel=0.01)  # 3 CPUs and 4 CPUs for 10 s each
        waited_s = sum(lines["jobs_waiting"]["means"]) * answer["interval_s"]
        assert waited_s == pytest.approx(expected[one["policy"]]["wait_mean_s"] * 2, rel=0.01)


def test_a_machine_of_nodes_has_gpus_and_memory() -> None:
    status, answer = order(HEADER + "".join(row(number) for number in range(20)), "easy", "wfp3", nodes=NODES)
    assert status == 0 and answer["processors"] == 16
    assert {line["name"] for line in answer["runs"][1]["lines"]} >= {"gpu_percent", "mem_percent", "cpu_percent"}
    assert [one["engine"] for one in answer["runs"]] == ["log", "nodes", "nodes"]


CONF = """ClusterName=c
SlurmctldHost=h
SelectTypeParameters=CR_CPU_Memory
PriorityType=priority/multifactor
PriorityWeightJobSize=1000
Prolog=/no/such
NodeName=n[0-1] CPUs=8 Sockets=8 RealMemory=8000 Gres=gpu:4
NodeName=n2 CPUs=2 RealMemory=100
PartitionName=gpus Nodes=n[0-1] Default=YES MaxTime=INFINITE
PartitionName=small Nodes=n2
GresTypes=gpu
"""


def test_the_sites_own_policy_is_that_of_sim_run_with_its_file(tmp_path: Path) -> None:
    """It may order by size, which none of the others does; they do not change with it."""
    log = HEADER + "".join(row(number, cpus=2 + 6 * (number % 2), user=f"u{number % 3}") for number in range(1, 30))
    for name, text in (("log", log), ("conf", CONF)):
        (tmp_path / name).write_text(text)
    words = ["--trace", str(tmp_path / "log"), "--conf", str(tmp_path / "conf"), "--json", str(tmp_path / "result")]
    assert sim.main(["run", *words, "--policy", "site"]) == 0
    expected = {one["policy"]: one["metrics"] for one in json.loads((tmp_path / "result").read_text())["runs"]}
    status, answer = order(log, "easy", "site", nodes=NODES, conf=CONF)
    assert status == 0, answer
    found = {one["policy"]: {each["name"]: each["value"] for each in one["figures"]} for one in answer["runs"]}
    assert found["site"] == expected["site"] and found["site"]["wait_mean_s"] != found["easy"]["wait_mean_s"]
    assert {one["policy"]: one["engine"] for one in answer["runs"]} == {
        "recorded": "log",
        "easy": "nodes",
        "site": "core",
    }
    assert not [note for one in answer["runs"] for note in one["notes"] if "partition" in note]
    _, alone = order(log, "easy", nodes=NODES)
    assert {each["name"]: each["value"] for each in alone["runs"][1]["figures"]} == found["easy"]
    small = NODES[0] | {"count": 1}
    _, answer = order(log, "site", nodes=[small], conf=CONF)
    assert answer["runs"][1]["notes"][0] == "all jobs run in partition gpus, which has 2 of 1 nodes"
    for changes, word in (
        ({"conf": "NodeName=x\nWrong"}, "configuration cannot be used here"), ({"partition": "none"}, "choose one"),
        ({"partition": "small"}, "no job"), ({"conf": CONF, "nodes": []}, "policy"),
    ):  # fmt: skip
        status, answer = order(log, "site", **({"nodes": NODES, "conf": CONF} | changes))
        assert status == 1 and word in answer["error"], answer


HOSTILE: dict[str, str | bytes] = {
    "empty": "", "zeros": "\0" * 100, "head": HEADER, "markup": "<script>alert(1)</script>", "nested": '{"jobs":' + "[" * 100_000,
    "json": json.dumps({"jobs": [{"job_id": 1e300, "time": {"submission": BIG * 4, "start": 1, "end": 2}}]}),
    "nodes": HEADER + row(nodes=BIG) + row(2, nodes=2**31) + row(3, nodes=2**32 + 1),
    "cpus": HEADER + row(cpus=2**31) + row(2, cpus=BIG) + row(3, cpus=0, tres=""),
    "memory": HEADER + row(tres=f"cpu=4,mem={BIG - 1}M,gres/gpu=1"), "sizes": HEADER + row(tres="cpu=4,mem=99999999999999999999P"),
    "gpus": HEADER + row(tres="cpu=4,mem=1G,gres/gpu=4000000000000"), "limit": HEADER + row(limit=BIG // 60 - 1),
    "far": HEADER + row() + row(2, submit=BIG - 10**8, start=BIG - 10**8 + 1, end=BIG - 10**8 + 100), "shell": HEADER + row(user="$(id)"),
    "negative": "1 -5 -10 -100 -4 -1 -1 -4 -100 -1 1 1 1 -1 -1 -1 -1 -1\n", "infinite": "1e308 " * 18 + "\n", "nan": "nan " * 18 + "\n",
    "processors": "; MaxProcs: 1" + "9" * 5000 + "\n" + SWF, "a line": "x" * 5_000_000, "gzip": b"\x1f\x8b" + b"\0" * 64,
    "not a text": b"\xff\xfe\xff",
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_log_gets_an_answer(name: str) -> None:
    for nodes in ([], NODES):
        status, answer = order(HOSTILE[name], "learned", processors=0 if nodes else 16, nodes=nodes)
        assert status == 0 or (set(answer) == {"error"} and "internal" not in answer["error"]), answer


def test_policies_that_are_none_or_need_the_whole_core_are_refused() -> None:
    for policy in ("site", "none", "backfill=x", "a" * 100, "--json"):
        status, answer = order(SWF, policy)
        assert status == 1 and answer["error"].startswith("policy"), policy
    status, answer = order(SWF, "conservative", nodes=NODES)
    assert status == 1 and "there are fcfs" in answer["error"]


def test_it_limits_itself_before_it_reads() -> None:
    """The limits are those of the process that has answered: files, children, memory, processor time."""
    code = (
        "import resource, sys; from sim.order import limit_self; limit_self();"
        "print([resource.getrlimit(one) for one in (resource.RLIMIT_FSIZE, resource.RLIMIT_NPROC, resource.RLIMIT_CPU)])\n"
        "try: bytearray(4 * 1024**3)\nexcept MemoryError: print('memory')\n"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "[(0, 0), (0, 0), (60, 60)]\nmemory\n", done.stderr
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 0
