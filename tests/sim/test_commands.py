"""`penstock sim run` and `compare` as a user sees them: output, files, errors, statuses."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest
from patience import ANSWER_S

from sim import __main__ as sim

ROOT = Path(__file__).parents[2]
LOG = """; MaxProcs: 4
1  0 -1 10 3 -1 -1 3 10 -1 1 7 1 -1 -1 -1 -1 -1
2  1 -1 10 4 -1 -1 4 10 -1 1 7 1 -1 -1 -1 -1 -1
3  2 -1  5 1 -1 -1 1  8 -1 1 8 1 -1 -1 -1 -1 -1
4  3 -1 -1 1 -1 -1 1  8 -1 5 8 1 -1 -1 -1 -1 -1
"""
CONF = """ClusterName=c
SlurmctldHost=h
GresTypes=gpu
NodeName=n[1-2] CPUs=4 RealMemory=1000 Gres=gpu:2
PartitionName=p Nodes=ALL Default=YES
"""
TABLE = """small: 3 jobs, P = 4, window all, filter usable, tau = 10 s
left out: no run time: 1

                          fcfs           easy
estimate             requested      requested
engine, mode     replay, batch  replay, batch
wait_mean_s                9.0            3.0
wait_median_s              9.0            0.0
"""


@pytest.fixture
def log(tmp_path: Path) -> str:
    path = tmp_path / "small.swf"
    path.write_text(LOG)
    return str(path)


def test_the_table(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert sim.main(["run", "--trace", log, "--policy", "fcfs", "--policy", "easy"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith(TABLE)
    assert [line.split()[0] for line in said.out.splitlines()[6:]] == [
        *(
            "wait_mean_s",
            "wait_median_s",
            "wait_p95_s",
            "wait_p99_s",
            "wait_max_s",
            "bsld_mean",
            "bsld_p95",
            "bsld_rms",
        ),
        *("flow_mean_s", "flow_area_s", "wait_area_s", "makespan_s", "jain_user_bsld", "starved_jobs", "starved_share"),
        *("preemptions", "goodput", "util_cpu", "util_steady_cpu", "(jobs/s)"),
    ]
    assert said.err == ""


def test_files(log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", "--trace", log, "--json", str(tmp_path / "r.json"), "--csv", str(tmp_path / "r.csv")]
    assert sim.main([*words, "--out", str(tmp_path / "a" / "b"), "--policy", "easy", "--window", "0:2"]) == 0
    document = json.loads((tmp_path / "r.json").read_text())
    assert (document["jobs"], document["processors"], document["tau_s"], document["window"]) == (2, 4, 10, "0:2")
    assert document["runs"][0]["metrics"]["wait_mean_s"] == 4.5
    rows = list(csv.DictReader((tmp_path / "r.csv").open()))
    assert [(row["policy"], row["wait_mean_s"], row["estimate"]) for row in rows] == [("easy", "4.5", "requested")]
    assert sorted(path.name for path in (tmp_path / "a" / "b").iterdir()) == [
        "jobs-easy.csv",
        "result.csv",
        "result.json",
    ]
    assert (tmp_path / "a" / "b" / "jobs-easy.csv").read_text() == (
        "job_id,user,procs,submit_s,start_s,end_s\n1,7,3,0,0,10\n2,7,4,1,10,20\n"
    )


def test_pictures(log: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    assert sim.main(["run", "--trace", log, "--pictures", str(tmp_path / "p"), "--policy", "order=shortest"]) == 0
    names = ["chart-order-shortest.png", "queue.png", "utilisation.png", "waits.png"]
    assert sorted(path.name for path in (tmp_path / "p").iterdir()) == names
    assert all((tmp_path / "p" / name).read_bytes().startswith(b"\x89PNG") for name in names)


def test_pictures_without_matplotlib(log: str, tmp_path: Path, monkeypatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert sim.main(["run", "--trace", log, "--pictures", str(tmp_path / "p")]) == 1
    assert (
        capsys.readouterr().err == "penstock sim run: error: --pictures needs matplotlib: pip install 'penstock[sim]'\n"
    )


def test_the_machine_of_a_slurm_conf(log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    conf = tmp_path / "slurm.conf"
    conf.write_text(CONF)
    assert sim.main(["run", "--trace", log, "--conf", str(conf)]) == 0
    out = capsys.readouterr().out
    assert "P = 8," in out
    assert {"util_cpu", "util_gres/gpu", "util_mem"} <= {line.split()[0] for line in out.splitlines() if line}
    assert sim.main(["run", "--trace", log, "--conf", str(conf), "--procs", "5", "--engine", "replay"]) == 0
    assert "P = 5," in capsys.readouterr().out


def test_compare(log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = str(tmp_path / "a.json"), str(tmp_path / "b")
    assert sim.main(["run", "--trace", log, "--policy", "fcfs", "--json", a]) == 0
    assert sim.main(["run", "--trace", log, "--policy", "easy", "--out", b]) == 0
    capsys.readouterr()
    assert sim.main(["compare", a, b]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "A  small: 3 jobs, P = 4, window all, filter usable, tau = 10 s"
    assert lines[5].split() == [
        "A",
        "fcfs",
        "(replay,",
        "requested,",
        "batch)",
        "B",
        "easy",
        "(replay,",
        "requested,",
        "batch)",
        "B",
        "-",
        "A",
        "%",
    ]
    assert lines[6].split() == ["wait_mean_s", "9.0", "3.0", "-6.0", "-66.7"]


def test_compare_matches_policies(log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b, c = (str(tmp_path / name) for name in "abc")
    for out, policies in ((a, ("fcfs", "easy")), (b, ("sjf", "easy")), (c, ("sjf", "conservative"))):
        words = [word for policy in policies for word in ("--policy", policy)]
        assert sim.main(["run", "--trace", log, "--out", out, *words]) == 0
    capsys.readouterr()
    assert sim.main(["compare", a, b]) == 0
    assert capsys.readouterr().out.count("B - A") == 1
    assert sim.main(["compare", a, c]) == 1
    assert "no policy is in both: A has fcfs, easy; B has sjf, conservative" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "Missing option '--trace'."),
        (["--trace", "LOG", "--procs", "0"], "Invalid value for '--procs': 0 is not in the range x>=1."),
        (["--trace", "LOG", "--policy", "best"], "policy 'best': there are fcfs"),
        (["--trace", "LOG", "--window", "7:"], "window '7:': no job of 3 is in it"),
        (["--trace", "nowhere"], "nowhere: No such file or directory"),
        (
            ["--trace", "LOG", "--engine", "x"],
            "Invalid value for '--engine': 'x' is not one of 'auto', 'replay', 'nodes', 'core'.",
        ),
        (["--trace", "LOG", "--filter", "batsim"], "no job of 4 passes the filter batsim on 4 processors"),
        (["--trace", "LOG", "--conf", "LOG"], "LOG:1: "),
    ],
)
def test_mistakes_are_one_line(log: str, words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert sim.main(["run", *(log if word == "LOG" else word for word in words)]) == 1
    output = capsys.readouterr()
    assert output.out == ""
    told = said.replace("LOG", log).removesuffix(".")
    assert output.err.startswith((f"penstock sim run: error: {told}", f"penstock sim run: {told}\nTry"))


def test_a_log_that_does_not_tell_its_processors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.swf"
    path.write_text(LOG.partition("\n")[2])
    assert sim.main(["run", "--trace", str(path)]) == 1
    assert "does not say how many processors the machine has: give --procs or --conf" in capsys.readouterr().err


def test_what_is_no_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("{}", "[", '{"format": "penstock-sim-1", "runs": [{}]}', "[1]"):
        (tmp_path / "x.json").write_text(text)
        assert sim.main(["compare", str(tmp_path / "x.json"), str(tmp_path / "x.json")]) == 1
        assert "not a result of penstock sim run" in capsys.readouterr().err


def test_help_and_unknown_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert sim.main(["run", "--help"]) == 0
    assert "Usage: penstock sim run [OPTIONS]" in capsys.readouterr().out
    assert sim.main([]) == 0
    assert "  run " in capsys.readouterr().out
    assert sim.main(["fly"]) == 1
    assert "unrecognized command 'fly'" in capsys.readouterr().err


def test_a_reader_that_goes_away_is_no_mistake(log: str) -> None:
    """`penstock sim run | head -0` in processes of their own."""
    words = [sys.executable, "-m", "sim", "run", "--trace", log]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        run.stdout.close()
        assert run.stderr.read() == ""
        assert run.wait(ANSWER_S) == 141


def test_the_result_is_the_same_under_another_hash_seed(log: str, tmp_path: Path) -> None:
    texts = []
    for seed in ("1", "2"):
        words = [sys.executable, "-m", "sim", "run", "--trace", log, "--csv", str(tmp_path / seed)]
        done = subprocess.run(
            words, cwd=ROOT, env={"PYTHONHASHSEED": seed, "PATH": ""}, capture_output=True, timeout=ANSWER_S
        )
        assert done.returncode == 0, done.stderr
        texts.append((tmp_path / seed).read_bytes())
    assert texts[0] == texts[1]
