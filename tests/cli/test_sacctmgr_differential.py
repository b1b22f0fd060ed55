"""Beside the real sacctmgr, as far as that goes without slurmdbd: what both print, and how they end, is the same."""

import os
import subprocess
from pathlib import Path

import pytest
from patience import ANSWER_S

from cli import sacctmgr
from tests.cli.fake_controller import run_body
from tests.cli.treeworld import world

REAL = Path("/usr/bin/sacctmgr")
CONF = """ClusterName=tiny
SlurmctldHost=localhost
SlurmUser=root
AuthType=auth/munge
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=localhost
AccountingStoragePort=1
NodeName=n1
PartitionName=main Nodes=n1
"""
#: What slurmdbd's absence adds.
NOISE = (
    "slurm_persist_conn_open_without_init",
    "Sending PersistInit msg",
    "DBD_GET_CLUSTERS failure",
    "Problem getting clusters",
)


@pytest.mark.skipif(not REAL.exists(), reason="Slurm's own sacctmgr is not installed")
@pytest.mark.parametrize(
    "words",
    [
        ("frob", "user"), ("a", "b"), ("show",), ("dump",), ("load",), ("load", "/nonexistent"), ("load", "a", "b"),
        ("version", "x"), ("dump", "tiny", "big"),
    ],
)  # fmt: skip
def test_the_same_words(words, monkeypatch, tmp_path, capsys):
    conf = tmp_path / "slurm.conf"
    conf.write_text(CONF)
    env = {"SLURM_CONF": str(conf), "PATH": os.environ["PATH"]}
    done = subprocess.run(
        [REAL, *words], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=ANSWER_S, check=False
    )
    told = [line for line in done.stderr.splitlines() if not any(noise in line for noise in NOISE)]
    world(monkeypatch)
    status, shown, wrong = run_body(capsys, "sacctmgr", sacctmgr.body, *words)
    assert status == done.returncode == 1
    lines = wrong.splitlines()
    assert [line for line in told if "Unable to read" not in line] == [
        line for line in lines if "Unable to read" not in line
    ]
    if words[0] == "version":  # the real one prints its version all the same
        assert shown == ""
    else:
        assert shown == done.stdout
