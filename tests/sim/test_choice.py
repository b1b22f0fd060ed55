"""The choice of the engine: what a log and a machine hold is counted, or its absence is said."""

from pathlib import Path

import pytest

from sim import __main__ as sim

HEADER = "JobID|User|Submit|Start|End|Timelimit|NNodes|NCPUS|AllocTRES\n"
#: Three jobs of both GPUs of a node, on two nodes: the third waits an hour. Processors alone let all three start.
GPU_JOBS = HEADER + "".join(f"{k}|ann|0|1|3601|02:00:00|1|1|cpu=1,node=1,gres/gpu=2\n" for k in (1, 2, 3))
CONF = """ClusterName=c
SlurmctldHost=h
GresTypes=gpu
NodeName=n[1-2] CPUs=4 RealMemory=1000 Gres=gpu:2
NodeName=n3 CPUs=64
PartitionName=other Nodes=ALL
PartitionName=p Nodes=n[1-2] Default=YES
"""


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    (tmp_path / "jobs.txt").write_text(GPU_JOBS)
    (tmp_path / "slurm.conf").write_text(CONF)
    return ["run", "--trace", str(tmp_path / "jobs.txt"), "--conf", str(tmp_path / "slurm.conf")]


def figures(text: str) -> dict[str, list[str]]:
    return {line.split()[0]: line.split()[1:] for line in text.splitlines() if line}


def test_gpus_and_nodes_are_counted_without_being_asked_for(words: list[str], capsys) -> None:
    assert sim.main(words) == 0
    found = figures(capsys.readouterr().out)
    assert found["engine,"] == ["mode", "log", "nodes,", "batch"]
    assert found["wait_mean_s"] == ["1.0", "1,200.0"]
    assert found["util_gres/gpu"] == ["1.4996", "0.7500"]


def test_the_log_is_beside_the_policies(words: list[str], capsys) -> None:
    """What the site itself did; here nobody can have done it on the two nodes of the file."""
    assert sim.main([*words, "--policy", "fcfs"]) == 0
    text = capsys.readouterr().out
    assert text.splitlines()[1] == "note: recorded: the log uses 1.50 times the machine's gres/gpu at its peak"
    assert text.splitlines()[3].split() == ["recorded", "fcfs"]


def test_the_machine_is_the_default_partition(words: list[str], capsys) -> None:
    assert sim.main(words) == 0
    assert "P = 8," in capsys.readouterr().out


def test_what_the_replay_ignores_is_said(words: list[str], tmp_path: Path, capsys) -> None:
    assert sim.main([*words, "--engine", "replay", "--json", str(tmp_path / "r.json")]) == 0
    lines = capsys.readouterr().out.splitlines()
    notes = [
        "note: easy: engine replay counts processors alone and ignores the GPUs of 3 jobs, the borders of 2 nodes",
        "note: easy: this schedule cannot run: it uses 1.50 times the machine's gres/gpu at its peak",
    ]
    notes = ["note: recorded: the log uses 1.50 times the machine's gres/gpu at its peak", *notes]
    assert lines[1:4] == notes
    assert sim.main(["compare", str(tmp_path / "r.json"), str(tmp_path / "r.json")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("note")] == notes * 2
    assert "A easy (replay, requested, batch)" in lines[9]


def test_gpus_are_missed_without_a_machine(words: list[str], capsys) -> None:
    for engine in ("auto", "core"):
        assert sim.main([*words[:3], "--procs", "8", "--engine", engine]) == 0
        assert "ignores the GPUs of 3 jobs" in capsys.readouterr().out.partition("\n\n")[0]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--procs", "9"], "--conf has 8 CPUs and --procs 9: give one of them, or --engine replay"),
        (["--mode", "event"], "--mode event is the replay's; engine"),
        (
            ["--policy", "easypp"],
            "policy easypp is the replay's, which counts processors alone and would ignore the GPUs",
        ),
    ],
)
def test_what_would_be_ignored_is_refused(words: list[str], more: list[str], said: str, capsys) -> None:
    assert sim.main([*words, *more]) == 1
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith(f"penstock sim run: error: {said}")


def test_the_policy_of_the_site_needs_its_file(words: list[str], capsys) -> None:
    assert sim.main([*words[:3], "--procs", "8", "--policy", "site"]) == 1
    assert "policy site is the configuration of --conf: give --conf" in capsys.readouterr().err
