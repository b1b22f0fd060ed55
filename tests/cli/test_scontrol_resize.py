"""scontrol update of a job's nodes: the scripts for the job's shell."""

import os
import stat
from pathlib import Path

import pytest

from cli.scontrol import body
from penstock.v1 import controller_pb2 as pb
from tests.cli.fake_controller import FakeClient, run_body
from tests.cli.test_scontrol import JOB

SAID = """To reset Slurm environment variables, execute
  For bash or sh shells:  . ./slurm_job_7_resize.sh
  For csh shells:         source ./slurm_job_7_resize.csh
"""
OF_JOB = {
    "SLURM_JOBID": "7", "SLURM_NODELIST": "n[1-4]", "SLURM_JOB_NODELIST": "n[1-4]", "SLURM_NNODES": "4",
    "SLURM_JOB_NUM_NODES": "4", "SLURM_JOB_CPUS_PER_NODE": "2(x4)", "SLURM_TASKS_PER_NODE": "1(x4)",
}  # fmt: skip


@pytest.fixture
def inside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder in which scontrol runs, in a job."""
    for name in list(os.environ):
        if name.startswith("SLURM_"):
            monkeypatch.delenv(name)
    for name, value in OF_JOB.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def shrink(monkeypatch, capsys, *words, results=()):
    FakeClient(UpdateJobs=pb.JobResultsReply(results=results), ListJobs=[pb.ListJobsReply(jobs=[JOB])]).install(
        monkeypatch
    )
    return run_body(capsys, "scontrol", body, "update", *words)


@pytest.mark.parametrize("word", ["numnodes=2", "NodeList=n1,n2", "NumNodes=2"])
def test_in_a_job_it_writes_both_scripts(monkeypatch, capsys, inside, word):
    (inside / "elsewhere").write_text("kept")
    (inside / "slurm_job_7_resize.sh").symlink_to("elsewhere")
    assert shrink(monkeypatch, capsys, "jobid=7", word) == (0, SAID, "")
    plain, csh = (inside / f"slurm_job_7_resize.{shell}" for shell in ("sh", "csh"))
    assert plain.read_text() == (
        'export SLURM_NODELIST="n[1-2]"\nexport SLURM_JOB_NODELIST="n[1-2]"\nexport SLURM_NNODES=2\n'
        'export SLURM_JOB_NUM_NODES=2\nexport SLURM_JOB_CPUS_PER_NODE="2(x2)"\n'
        "unset SLURM_NPROCS\nunset SLURM_NTASKS\nunset SLURM_TASKS_PER_NODE\n"
    )
    assert csh.read_text().startswith('setenv SLURM_NODELIST "n[1-2]"\n')
    assert csh.read_text().endswith("unsetenv SLURM_TASKS_PER_NODE\n")
    assert {stat.S_IMODE(path.lstat().st_mode) for path in (plain, csh)} == {0o700}
    assert (inside / "elsewhere").read_text() == "kept"


def test_it_writes_only_what_the_environment_has(monkeypatch, capsys, inside):
    for name in OF_JOB.keys() - {"SLURM_JOBID", "SLURM_NNODES"}:
        monkeypatch.delenv(name)
    shrink(monkeypatch, capsys, "jobid=7", "numnodes=2")
    assert (inside / "slurm_job_7_resize.sh").read_text() == "export SLURM_NNODES=2\n"


def test_outside_of_a_job_and_after_a_refusal_it_writes_nothing(monkeypatch, capsys, inside):
    refused = [pb.JobResult(id="7", code=2007, text="Node count specification invalid")]
    out = shrink(monkeypatch, capsys, "jobid=7", "numnodes=9", results=refused)
    assert out == (1, "", "Node count specification invalid for job 7\n")
    assert shrink(monkeypatch, capsys, "jobid=7", "comment=x") == (0, "", "")
    monkeypatch.delenv("SLURM_JOBID")
    assert shrink(monkeypatch, capsys, "jobid=7", "numnodes=2") == (0, "", "")
    assert list(inside.iterdir()) == []


def test_a_file_that_cannot_be_written_is_named(monkeypatch, capsys, inside):
    (inside / "slurm_job_7_resize.csh").mkdir()
    status, _, said = shrink(monkeypatch, capsys, "jobid=7", "numnodes=2")
    assert (status, said) == (1, "Could not create file slurm_job_7_resize.csh: Is a directory\n")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("StepId=7.0", "TimeLimit=+5"), (["7.0"], {"steptimelimit": "+5"})),
        (("stepid=7", "ti=1-0"), (["7"], {"steptimelimit": "1-0"})),
    ],
)
def test_the_time_limit_of_steps(monkeypatch, capsys, words, expected):
    client = FakeClient(UpdateJobs=pb.JobResultsReply()).install(monkeypatch)
    assert run_body(capsys, "scontrol", body, "update", *words) == (0, "", "")
    assert (list(client.request.ids), dict(client.request.changes)) == expected


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("StepId=7.x", "TimeLimit=5"), "Invalid StepID parameter: StepId=7.x\nRequest aborted\n"),
        (("StepId=7.0", "Name=a"), "Update of this parameter is not supported: Name=a\nRequest aborted\n"),
        (("StepId=7.0",), "No changes specified\n"),
        (("StepId=7.9", "TimeLimit=5"), "slurm_update error: Invalid job id specified\n"),
    ],
)
def test_updates_of_steps_that_are_refused(monkeypatch, capsys, words, said):
    refused = pb.JobResult(id="7.9", code=2017, text="Invalid job id specified")
    FakeClient(UpdateJobs=pb.JobResultsReply(results=[refused])).install(monkeypatch)
    assert run_body(capsys, "scontrol", body, "update", *words) == (1, "", said)


@pytest.mark.parametrize(
    ("fields", "lines"),
    [
        ({"instance_id": "i-7", "instance_type": "large"}, ["   InstanceId=i-7 InstanceType=large"]),
        ({"instance_type": "large", "extra": "e"}, ["   Extra=e", "   InstanceType=large"]),
        ({}, []),
    ],
)
def test_a_node_shows_its_instance(monkeypatch, capsys, fields, lines):
    node = pb.NodeInfo(name="n1", base_state="IDLE", **fields)
    FakeClient(ListNodes=pb.ListNodesReply(nodes=[node])).install(monkeypatch)
    shown = run_body(capsys, "scontrol", body, "show", "node", "n1")[1].splitlines()
    assert [line for line in shown if "Instance" in line or "Extra" in line] == lines
