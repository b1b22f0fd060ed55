"""`penstock up`, `down`, `status` with stand-in daemons: real processes, files, sockets and RPCs."""

import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.base import daemons
from cli.base.run import status_of
from cli.subcommands import local, localcluster
from cli.subcommands.localconf import ENTRIES
from penstock import interpreter
from penstock.errors import Unreachable

STANDIN = Path(__file__).parents[1] / "support" / "standin.py"
ROOT = Path(__file__).parents[2]


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a name that is short enough for sockets; whatever still runs afterwards is stopped."""
    folder = Path(tempfile.mkdtemp(prefix="ps-"))
    home = folder / "h"
    monkeypatch.setenv("PENSTOCK_HOME", str(home))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setattr(localcluster, "program", lambda name, *words: [sys.executable, str(STANDIN), name, *words])
    yield home
    if cluster := localcluster.LocalCluster.load(home):
        cluster.stop()
    shutil.rmtree(folder)


def pids(capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, int | None]]:
    """Exit status of `penstock status --json`, and its pids."""
    capsys.readouterr()
    code = local.status(["--json"])
    found = json.loads(capsys.readouterr().out)
    rows = {"ctld": found["ctld"]} | {n["name"]: n for n in found["nodes"]}
    assert all((row["pid"] is not None) == row["running"] for row in rows.values())
    return code, {name: row["pid"] for name, row in rows.items()}


def test_verbose_status_names_the_build_of_python(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = interpreter.Build("3.11.7", "/opt/py/bin/python3.11", has_pgo=False, has_lto=False)
    monkeypatch.setattr(interpreter, "running_build", lambda: slow)
    assert local.status(["-v"]) == 1, "no cluster"
    shown = capsys.readouterr().out
    assert f"interpreter {slow.text()}\nwarning: {slow.warning()}\n" in shown
    monkeypatch.setattr(interpreter, "running_build", lambda: slow._replace(has_pgo=True))
    local.status(["--verbose"])
    shown = capsys.readouterr().out
    assert "(/opt/py/bin/python3.11): PGO\n" in shown and "warning" not in shown
    local.status(["-v", "--json"])
    assert json.loads(capsys.readouterr().out)["interpreter"]["has_pgo"] is True
    local.status([])
    assert "interpreter" not in capsys.readouterr().out


def calls(home: Path) -> list[str]:
    return [line for line in (home / "ctld" / "calls").read_text().splitlines() if line != "Ping"]


def test_a_life(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert local.status([]) == 1
    assert "`penstock up` makes one" in capsys.readouterr().out

    assert local.up(["--nodes", "2", "--cpus-per-node=4"]) == 0
    said = capsys.readouterr().out
    assert "cluster local is up: started ctld, n1, n2" in said
    assert "n1 to n2: 4 CPUs" in said
    assert "(pretended sizes)" in said
    assert home.stat().st_mode & 0o777 == 0o700
    assert (home / "certs" / "n2" / "node.pem").exists()
    code, first = pids(capsys)
    assert code == 0
    assert set(first) == {"ctld", "n1", "n2"}

    assert local.up([]) == 0
    assert "is up already" in capsys.readouterr().out
    assert pids(capsys) == (0, first)

    os.kill(first["n1"], signal.SIGTERM)
    os.waitpid(first["n1"], 0)
    code, now = pids(capsys)
    assert code == 1
    assert now == {**first, "n1": None}
    assert local.up(["--nodes=2"]) == 0
    assert "started n1\n" in capsys.readouterr().out
    code, again = pids(capsys)
    assert code == 0
    assert again["n1"] not in (None, first["n1"])
    assert {k: again[k] for k in ("ctld", "n2")} == {k: first[k] for k in ("ctld", "n2")}

    assert status_of("penstock", local.up, ["--nodes", "3"]) == 1
    said = capsys.readouterr().err
    assert "--nodes 3: this cluster has 2" in said
    assert "penstock down --purge" in said

    assert local.down([]) == 0
    assert "stopped ctld, n2, n1\n" in capsys.readouterr().out
    assert pids(capsys) == (1, {"ctld": None, "n1": None, "n2": None})
    assert calls(home) == ["UpdatePartition debug {'state': 'DOWN'}"]

    assert local.up([]) == 0
    assert calls(home)[1:] == ["UpdatePartition debug {'state': 'UP'}"]
    assert local.down(["--purge"]) == 0
    assert not home.exists()
    assert local.down([]) == 0


@pytest.mark.parametrize("token", ["a.b.c", "not\na token"])
def test_a_foreign_token_of_the_environment_is_ignored_and_named(
    token: str, home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_JWT", token)
    assert local.up([]) == 0
    said = capsys.readouterr()
    assert "cluster local is up: started ctld, n1" in said.out
    assert said.err.startswith("penstock up: warning: SLURM_JWT is set: it is not used here")
    assert local.down([]) == 0 and "does not answer" not in capsys.readouterr().out


def test_down_asks_running_jobs_to_end(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    local.up([])
    (home / "ctld" / "jobs").write_text("3")
    assert local.down(["--keep-jobs"]) == 0
    assert not (home / "ctld" / "calls").exists() or calls(home) == []
    local.up([])
    assert local.down([]) == 0
    assert "asking 3 jobs to end" in capsys.readouterr().out
    assert calls(home)[-2:] == [
        "UpdatePartition debug {'state': 'DOWN'}",
        "CancelJobs ['CONFIGURING', 'RUNNING', 'COMPLETING', 'SUSPENDED']",
    ]


def test_down_without_controller_leaves_jobs_alone(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    local.up([])
    cluster = localcluster.LocalCluster.load(home)
    daemons.stop([cluster.processes["ctld"]], 10)
    assert local.down([]) == 0
    assert "running jobs are not ended" in capsys.readouterr().out
    assert pids(capsys) == (1, {"ctld": None, "n1": None})


@pytest.mark.parametrize("name", ["ctld", "n2"])
def test_a_daemon_that_fails_shows_its_log_and_leaves_nothing(
    home: Path, name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    local.up(["--nodes", "2"])
    local.down([])
    monkeypatch.setattr("cli.subcommands.localconf.ENTRIES", (*ENTRIES, f"fail-{name}"))
    (home / f"fail-{name}").touch()
    capsys.readouterr()
    assert status_of("penstock", local.up, []) == 1
    said = capsys.readouterr().err
    assert f"penstock: error: {name} ended; the end of {home}/log/{name}.log:" in said
    assert f"{name}: the disk is on fire" in said
    assert pids(capsys) == (1, {"ctld": None, "n1": None, "n2": None})


@pytest.mark.parametrize(("name", "asked"), [("ctld", "controller_missing"), ("n1", "node_states")])
def test_a_daemon_that_ends_while_it_is_looked_at_is_started(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, asked: str
) -> None:
    """As one that was killed a moment before `penstock up`, and still had a pid when that began."""
    assert local.up(["--nodes", "2"]) == 0
    _, before = pids(capsys)
    victims = [localcluster.LocalCluster.load(home).processes[name]]
    real = getattr(localcluster, asked)

    def ends(client: object) -> object:
        while victims:
            victim = victims.pop()
            os.kill(victim.pid, signal.SIGKILL)
            daemons.stop([victim], 10)
            raise Unreachable("it ended")
        return real(client)

    monkeypatch.setattr(localcluster, asked, ends)
    assert local.up([]) == 0
    assert f"is up: started {name}\n" in capsys.readouterr().out
    code, after = pids(capsys)
    assert code == 0 and {one for one in after if after[one] != before[one]} == {name}


def test_a_daemon_that_never_gets_ready_is_named(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(localcluster, "has_registered", lambda state: False)
    monkeypatch.setattr(localcluster, "START_LIMIT_S", 2.0)
    assert status_of("penstock", local.up, []) == 1
    said = capsys.readouterr().err
    assert "waited 2 s for the nodes, still missing: n1 (IDLE)" in said
    assert f"n1 is not ready; the end of {home}/log/n1.log:" in said
    assert pids(capsys) == (1, {"ctld": None, "n1": None})


def test_the_daemons_do_not_inherit_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SLURM_JOB_ID", "SBATCH_PARTITION", "PENSTOCK_CLUSTER", "MY_OWN"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("PYTHONPATH", ".")
    kept = localcluster.environment()
    assert kept["MY_OWN"] == "x"
    assert kept["PYTHONPATH"] == os.getcwd()
    assert not {"SLURM_JOB_ID", "SBATCH_PARTITION", "PENSTOCK_CLUSTER"} & set(kept)


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--nodes", "0"], "--nodes"),
        (["--nodes", "65"], "64"),
        (["--nodes", "two"], "--nodes"),
        (["--gpus-per-node=-1"], "--gpus-per-node"),
        (["--color"], "No such option '--color'"),
        (["please"], "unexpected extra argument (please)"),
    ],
)
def test_up_refuses_bad_words(home: Path, argv: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of("penstock", local.up, argv) == 1
    assert words in capsys.readouterr().err
    assert not home.exists()


def test_purge_keeps_what_is_not_ours(home: Path) -> None:
    local.up([])
    (home / "notes.txt").write_text("mine")
    assert local.down(["--purge"]) == 0
    assert [p.name for p in home.iterdir()] == ["notes.txt"]


def test_purge_and_keep_jobs_exclude_each_other(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of("penstock", local.down, ["--purge", "--keep-jobs"]) == 1
    assert "give one of them" in capsys.readouterr().err


def test_where_the_commands_are_is_said_until_the_shell_finds_them(tmp_path, monkeypatch):
    here, other = tmp_path / "a b", tmp_path / "other"
    for folder in (here, other):
        folder.mkdir()
        (folder / "sbatch").write_text("#!/bin/sh\n")
        (folder / "sbatch").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(here / "python"))
    for path in ("/nowhere", str(other)):  # another sbatch, perhaps Slurm's, is not ours
        monkeypatch.setenv("PATH", path)
        assert localcluster.how_to_call() == f"export PATH='{here}':$PATH"
    monkeypatch.setenv("PATH", f"{here}:{other}")
    assert localcluster.how_to_call() == ""
