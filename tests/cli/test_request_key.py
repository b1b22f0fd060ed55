"""A submission whose answer was lost is not said to have failed, and can be given again: sbatch, salloc, srun."""

import re

import pytest

import cli.salloc
import cli.sbatch
import cli.srun
from penstock.clusterfile import ClusterFile
from penstock.errors import CONNECT_FAILURE_TEXT, RECEIVE_FAILURE, RECEIVE_FAILURE_TEXT, NotKnown, Unreachable
from penstock.v1.controller_pb2 import SubmitJobReply
from tests.cli.fake_controller import FakeClient, run_body

KEY = "0199c0ffee007000800000000000000a"
COMMANDS = {
    "sbatch": (cli.sbatch.body, ["-J", "my job", "--wrap=x"]),
    "salloc": (cli.salloc.body, ["-J", "my job", "--no-shell"]),
    "srun": (cli.srun.body, ["-J", "my job", "x"]),
}


@pytest.fixture(autouse=True)
def outside_jobs(monkeypatch):
    for name in ("SLURM_JOB_ID", "SLURM_JOBID", "SLURM_EXIT_ERROR"):
        monkeypatch.delenv(name, raising=False)


def ask(capsys, monkeypatch, name, error, *more):
    client = FakeClient(SubmitJob=error)
    client.cluster = ClusterFile("tux")
    client.install(monkeypatch)
    body, words = COMMANDS[name]
    return client, run_body(capsys, name, body, *more, *words)


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("text", [CONNECT_FAILURE_TEXT, RECEIVE_FAILURE_TEXT])
def test_18_a_lost_answer_is_not_a_failure(capsys, monkeypatch, name, text):
    client, (status, out, err) = ask(capsys, monkeypatch, name, NotKnown(text, "", RECEIVE_FAILURE))
    key = client.request.request_key
    assert re.fullmatch("[0-9a-f]{32}", key)
    assert (status, out) == (1, "")
    assert err == (
        f"{name}: error: It is not known whether the job was submitted: {text}\n"
        f"{name}: look with `squeue --me -n 'my job'`, or give the same command with\n"
        f"{name}: --request-key={key} within 10 minutes: the same key is the same job\n"
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_the_key_is_given_again(capsys, monkeypatch, name):
    client, (status, _, err) = ask(capsys, monkeypatch, name, NotKnown(), f"--request-key={KEY}")
    assert client.request.request_key == KEY and f"--request-key={KEY} " in err and status == 1


@pytest.mark.parametrize("name", COMMANDS)
def test_what_was_never_sent_has_failed(capsys, monkeypatch, name):
    _, (status, _, err) = ask(capsys, monkeypatch, name, Unreachable())
    assert status == 1 and "not known" not in err and CONNECT_FAILURE_TEXT in err


def test_a_script_cannot_hold_a_key(capsys, monkeypatch, tmp_path):
    """It would make every submission of it the same job."""
    script = tmp_path / "s.sh"
    script.write_text(f"#!/bin/sh\n#SBATCH --request-key={KEY}\ntrue\n")
    client = FakeClient(SubmitJob=SubmitJobReply(job_id=3)).install(monkeypatch)
    assert run_body(capsys, "sbatch", cli.sbatch.body, str(script))[0] == 0
    assert client.request.request_key != KEY


def test_the_cluster_is_named_that_was_asked(capsys, monkeypatch):
    """With several names another cluster may be chosen the next time."""
    client, (status, _, err) = ask(capsys, monkeypatch, "sbatch", NotKnown(), "-M", "tux")
    assert status == 1 and "look with `squeue --clusters=tux --me -n 'my job'`" in err
    assert f"sbatch: --clusters=tux --request-key={client.request.request_key} within" in err
