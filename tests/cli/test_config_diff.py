"""penstock config diff and the documents of penstock config check."""

import json
from pathlib import Path

import pytest

from cli.subcommands.configcheck import main as check
from cli.subcommands.configdiff import EX_CONFIG, main

WHOLE = (
    "ClusterName=c\nSlurmctldHost=h\nSlurmUser=root\nNodeName=n[1-4] CPUs=8\nPartitionName=main Nodes=ALL Default=YES\n"
)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old.conf").write_text(WHOLE)
    (tmp_path / "new.conf").write_text(WHOLE.replace("n[1-4]", "n[1-3,5]") + "KillWait=5\n")
    (tmp_path / "bad.conf").write_text(WHOLE + "KillWayt=5\n")
    return tmp_path


def test_two_files(files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["old.conf", "new.conf"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "changes:",
        "  KillWait: 30 -> 5",
        "  nodes added: n5",
        "  nodes removed: n4",
        "  partition main: Nodes: n[1-4] -> n[1-3,5]",
    ]
    assert main(["old.conf", "old.conf"]) == 0
    assert capsys.readouterr().out == "nothing would change\n"
    monkeypatch.setenv("SLURM_CONF", "old.conf")
    assert main(["--json", "new.conf"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["changes"][1] == "nodes added: n5"
    killwait = {"what": "", "names": "", "key": "KillWait", "running": "30", "file": "5", "needs_restart": False}
    assert found["differences"][0] == killwait
    assert found["differences"][1] == killwait | {
        "what": "node",
        "names": "n5",
        "key": "",
        "running": "",
        "file": "present",
    }
    assert main(["old.conf", "bad.conf"]) == EX_CONFIG
    assert "bad.conf:6: unknown parameter KillWayt (did you mean KillWait?)" in capsys.readouterr().err
    assert main(["a", "b", "c"]) == 2 and main(["--nonsense"]) == 2 and main(["--help"]) == 0


def test_check_as_a_document(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "slurm.conf").write_text(
        WHOLE + "AccountingStoragePass=secret\nSlurmctldParameters=cloud_dns,enable_configless\n"
    )
    assert check(["--json", "slurm.conf"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["usable"], found["nodes"], found["cpus"], found["cluster"]) == (True, 4, 32, "c")
    assert found["partitions"] == [{"name": "main", "nodes": 4, "default": True}]
    password, cloud = found["ignored"]
    assert (password["parameter"], password["value"], password["line"]) == ("AccountingStoragePass", "", 6)
    assert password["in_slurm"] and password["here"]
    assert (cloud["parameter"], cloud["word"]) == ("SlurmctldParameters", "cloud_dns")
    assert check(["--json", "bad.conf"]) == 78
    assert json.loads(capsys.readouterr().out)["problems"][0]["line"] == 6


def test_files_beside_it_are_told_of(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "slurm.conf").write_text(WHOLE)
    (files / "plugstack.conf").write_text("required spank.so\n")
    (files / "slurmdbd.conf").write_text(
        "DbdHost=h\nStoragePass=secret\nPrivateData=jobs\nTrackWCKey=yes\nPurgeJobAfter=12months\n"
    )
    assert check(["--json", "slurm.conf"]) == 0
    text = capsys.readouterr().out
    assert "secret" not in text
    assert [one["parameter"] for one in json.loads(text)["ignored"]] == [
        "DbdHost", "StoragePass", "plugstack.conf",
    ]  # fmt: skip
