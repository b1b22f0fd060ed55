"""Heterogeneous jobs on command lines: components, what they inherit, srun's parts of a step."""

import os

import pytest

from cli.base.run import CommandError
from cli.sbatch import body as sbatch
from cli.steps.het import environment_from_outside, environment_of, named_job, number_tasks, pieces_of, settle_nodes
from cli.steps.stepopts import COMMAND as SRUN
from penstock.v1.controller_pb2 import SubmitJobReply
from penstock.v1.steps_pb2 import StepSpec
from tests.cli.fake_controller import FakeClient, run_body

SCRIPT = """#!/bin/sh
#SBATCH -J pair -t 5 -n1 --mem=100
#SBATCH hetjob
#SBATCH -n2 -p gpu
#SBATCH packjob
#SBATCH -n3 -t 9
true
"""
ENV = {
    "HOME": "/h", "SLURM_HET_SIZE": "2", "SLURM_JOB_ID": "12", "SLURM_NTASKS": "1", "SLURM_NNODES": "1",
    "SLURM_CPUS_PER_TASK": "4", "SLURM_JOB_ID_HET_GROUP_0": "12", "SLURM_JOB_ID_HET_GROUP_1": "13",
    "SLURM_NTASKS_HET_GROUP_0": "1", "SLURM_NTASKS_HET_GROUP_1": "8", "SLURM_JOB_NUM_NODES_HET_GROUP_1": "2",
}  # fmt: skip


@pytest.fixture(autouse=True)
def clean(monkeypatch, tmp_path):
    for name in list(os.environ):
        if name.startswith(("SBATCH_", "SLURM_", "SRUN_")):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def asked(capsys, monkeypatch, *argv):
    client = FakeClient(SubmitJob=SubmitJobReply(job_id=1)).install(monkeypatch)
    status, _, err = run_body(capsys, "sbatch", sbatch, *argv)
    assert (status, err) == (0, "")
    return [client.request.job, *client.request.components]


def test_a_script_of_three(capsys, monkeypatch, tmp_path):
    (tmp_path / "a.sh").write_text(SCRIPT)
    jobs = asked(capsys, monkeypatch, "a.sh")
    assert [(job.name, job.ntasks, job.time_limit_s) for job in jobs] == [
        ("pair", 1, 300), ("pair", 2, 300), ("pair", 3, 540),
    ]  # fmt: skip
    assert [list(job.partitions) for job in jobs] == [[], ["gpu"], []]
    assert [job.HasField("mem_per_node_mb") for job in jobs] == [True, False, False]


def test_the_command_line_stands_above_the_script(capsys, monkeypatch, tmp_path):
    (tmp_path / "a.sh").write_text(SCRIPT)
    monkeypatch.setenv("SBATCH_ACCOUNT", "physics")
    jobs = asked(capsys, monkeypatch, "-n9", ":", ":", "-n7", ":", "-n5", "a.sh", ":", "arg")
    assert [(job.ntasks, job.account) for job in jobs] == [
        (9, "physics"),
        (2, "physics"),
        (7, "physics"),
        (5, "physics"),
    ]


def test_a_plain_submission_has_no_components(capsys, monkeypatch):
    assert len(asked(capsys, monkeypatch, "-n2", "--wrap", "a : b")) == 1


def test_each_group_has_the_variables_of_its_component():
    found = environment_of(ENV, 1)
    assert {name: found[name] for name in found if not name.startswith("SLURM_HET")} == {
        "HOME": "/h", "SLURM_JOB_ID": "13", "SLURM_NTASKS": "8", "SLURM_JOB_NUM_NODES": "2",
        **{name: text for name, text in ENV.items() if "_HET_GROUP_" in name},
    }  # fmt: skip


def test_pieces():
    pieces = pieces_of(SRUN, ["--het-group=0-1", "prog", "x"], ENV)
    assert [(p.group, p.job_id, p.values.all.get("ntasks"), p.command) for p in pieces] == [
        (0, 12, 1, ["prog", "x"]), (1, 13, 8, ["prog", "x"]),
    ]  # fmt: skip
    pieces = pieces_of(SRUN, ["--het-group=1", "-n2", "a", ":", "--het-group=0", "b"], ENV)
    assert [(p.group, p.job_id, p.command) for p in pieces] == [(0, 12, ["b"]), (1, 13, ["a"])]
    pieces = pieces_of(SRUN, ["-n2", ":", "-n3", "a"], {})
    assert [(p.job_id, p.values.all.get("ntasks"), p.command) for p in pieces] == [(0, 2, ["a"]), (0, 3, ["a"])]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--het-group=0,0", "a"], "het group 0 is named twice"),
        (["--het-group=2", "a"], "het group value of 2, but the job allocation has maximum value of 1"),
        (["a", ":", "b", ":", "c"], "het group value of 2"),
        (["-n1", ":"], "No command given to execute."),
        (["--pty", "a", ":", "b"], "--pty cannot be used with several components"),
        (["--mpi=pmi2", "a", ":", "b"], "MPI over several components is not supported yet"),
    ],
)
def test_what_cannot_be(argv, message):
    with pytest.raises(CommandError, match=message):
        pieces_of(SRUN, argv, ENV)


def test_a_part_takes_streams_and_labels_from_those_before_it():
    argv = ["-l", "-o", "a", "-i", "none", "-n2", "x", ":", "-e", "b", "y", ":", "-o", "c", "z"]
    found = [piece.values for piece in pieces_of(SRUN, argv, {})]
    assert [[values.all.get(key) for key in ("label", "output", "error", "input", "ntasks")] for values in found] == [
        [True, "a", None, "none", 2], [True, "a", "b", "none", None], [True, "c", "b", "none", None],
    ]  # fmt: skip


def test_components_of_a_job_named_from_outside():
    other = {"HOME": "/h", "SLURM_JOB_ID": "5", "SLURM_NTASKS": "7", "SLURM_NTASKS_HET_GROUP_0": "7"}
    argv = ["--jobid=12", "--het-group=0,1", "prog"]
    assert (named_job(SRUN, argv, other), named_job(SRUN, argv, ENV), named_job(SRUN, ["a"], other)) == (12, 0, 0)
    assert named_job(SRUN, ["--jobid=12+1", "a"], other) == 13
    env = environment_from_outside(other, 12, ENV)
    pieces = pieces_of(SRUN, argv, env)
    assert [(p.group, p.job_id, p.values.all.get("ntasks"), p.values.all.get("nodes")) for p in pieces] == [
        (0, 12, None, None), (1, 13, None, (2, 2)),
    ]  # fmt: skip
    with pytest.raises(CommandError, match="het group value of 1, but the job allocation has maximum value of 0"):
        pieces_of(SRUN, argv, environment_from_outside(other, 12, {"SLURM_JOB_ID": "12"}))


def test_parts_in_a_job_that_is_not_heterogeneous():
    env = {"SLURM_JOB_ID": "12", "SLURM_NTASKS": "6", "SLURM_NNODES": "3", "SLURM_JOB_NUM_NODES": "3"}
    pieces = pieces_of(SRUN, ["-n2", "a", ":", "-N2", "b"], env)
    assert [(p.job_id, p.values.all.get("ntasks"), p.values.all.get("nodes"), p.command) for p in pieces] == [
        (12, 2, None, ["a"]), (12, None, (2, 2), ["b"]),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("specs", "cpus", "is_own", "nodes"),
    [
        ([{"ntasks": 1}, {"ntasks": 16}], [[8, 8, 8]] * 2, False, [1, 2]),
        ([{"ntasks": 1}, {"ntasks": 15}], [[8, 8]] * 2, False, [1, 2]),  # the nodes are shared
        ([{"ntasks": 1}, {"ntasks": 99}], [[8, 8]] * 2, False, [1, 1]),  # the controller refuses it
        ([{}, {"ntasks": 4, "cpus_per_task": 3}], [[8, 8, 8]] * 2, False, [1, 2]),
        ([{}, {"ntasks": 3, "ntasks_per_node": 1}], [[8] * 4] * 2, False, [1, 3]),
        ([{}, {"ntasks": 20, "overcommit": True}], [[8] * 4] * 2, False, [1, 1]),
        ([{"nodes_min": 2}, {"ntasks": 9}], [[8] * 4] * 2, False, [2, 2]),
        ([{}, {"ntasks": 3}], [[1, 1], [2, 1]], True, [2, 2]),
    ],
)
def test_parts_without_a_number_of_nodes(specs, cpus, is_own, nodes):
    parts = [StepSpec(**spec) for spec in specs]
    settle_nodes(parts, cpus, is_own=is_own)
    assert [part.nodes_min for part in parts] == nodes


def test_ranks_count_on():
    specs = [StepSpec(ntasks=2, nodes_min=1), StepSpec(nodes_min=2, ntasks_per_node=3), StepSpec(nodes_min=4)]
    number_tasks(specs)
    assert [(s.rank_offset, s.ntasks, s.node_offset, s.het_ntasks, s.het_nodes) for s in specs] == [
        (0, 2, 0, 12, 7), (2, 6, 1, 12, 7), (8, 4, 3, 12, 7),
    ]  # fmt: skip
    alone = StepSpec(nodes_min=2)
    number_tasks([alone])
    assert alone == StepSpec(nodes_min=2)
