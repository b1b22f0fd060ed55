"""Issue 14, number 23: whole nodes on a cluster as `penstock up` makes it, where memory is a consumable resource."""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from livecluster import LAUNCHERS
from patience import ANSWER_S, START_S

#: shared/examples/llm-finetune.sbatch as far as one node without GPUs goes, its program replaced by an echo.
SCRIPT = """#!/bin/bash
#SBATCH --job-name=llm-finetune
#SBATCH --nodes=1
#SBATCH --time=48:00:00
#SBATCH --exclusive
#SBATCH --output=out
srun echo "$SLURM_NNODES $SLURM_TASKS_PER_NODE $SLURM_JOB_CPUS_PER_NODE"
"""


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """The folder of a running cluster; its name is short enough for sockets."""
    folder = Path(tempfile.mkdtemp(prefix="pw-"))
    run(folder / "h", "penstock", "up", limit_s=START_S)
    yield folder / "h"
    run(folder / "h", "penstock", "down", "--purge", limit_s=START_S)
    shutil.rmtree(folder)


def run(home: Path, name: str, *words: str, limit_s: float = ANSWER_S) -> str:
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith(("SLURM_", "SBATCH_", "SALLOC_"))
    }
    argv = [str(LAUNCHERS / name), *words]
    done = subprocess.run(
        argv, env=environment | {"PENSTOCK_HOME": str(home), "PATH": f"{LAUNCHERS}:{os.environ['PATH']}"}, cwd=home.parent, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=limit_s, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("words", [
    ("salloc", "-N1", "--exclusive", "srun", "echo", "here"),
    ("srun", "-N1", "--exclusive", "echo", "here"),
    ("salloc", "-n1", "--exclusive", "--mem=10", "srun", "echo", "here"),
])  # fmt: skip
def test_a_step_starts_in_a_whole_node(home: Path, words: tuple[str, ...]) -> None:
    assert run(home, *words) == "here\n"


def test_a_whole_node_has_all_cpus_and_all_memory(home: Path) -> None:
    (node,) = json.loads(run(home, "scontrol", "show", "node", "--json"))["nodes"]
    (home.parent / "job.sh").write_text(SCRIPT)
    job_id = run(home, "sbatch", "--wait", "--parsable", "job.sh").strip()
    assert (home.parent / "out").read_text() == f"1 {node['cpus']} {node['cpus']}\n"
    (job,) = json.loads(run(home, "scontrol", "show", "job", job_id, "--json"))["jobs"]
    tres = dict(one.split("=", 1) for one in job["tres_alloc_str"].split(","))
    assert (int(tres["cpu"]), tres["mem"], tres["node"]) == (node["cpus"], f"{node['real_memory']}M", "1")
