"""The examples with torch: torchrun on each node, and srun alone. All ranks end with the same loss and the same weights."""

import re
import shutil
import sys
from pathlib import Path

import jobtraces
import pytest
from livecluster import LiveCluster
from mpivenv import programs_of
from patience import END_S

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "torch-ddp"
LINE = re.compile(r"rank (\d) of 4 on (n\d): (loss \d+\.\d+ weights -?\d+\.\d+)")


#: The start of ranks by srun alone is also what test_hang.py has.
@pytest.mark.parametrize("script", ["torchrun.sbatch", pytest.param("srun.sbatch", marks=pytest.mark.slow)])
def test_all_ranks_train_the_same_model(cluster: LiveCluster, script: str) -> None:
    programs = programs_of("torch")
    folder = cluster.work / script
    shutil.copytree(EXAMPLES, folder)
    path = f"{programs}:{cluster.work}/bin:{cluster.environment()['PATH']}"
    env = {"PATH": path, "GLOO_SOCKET_IFNAME": "lo", **jobtraces.FAULT_HANDLER}
    job = int(cluster.run("sbatch", "--parsable", script, cwd=folder, env=env).ok().out)
    with jobtraces.shown(job, folder):
        (ended,) = cluster.wait_ends(job, limit_s=END_S)
        output = next(folder.glob(f"*-{job}.out")).read_text()
        assert ended.state == "COMPLETED", output
    lines = sorted(LINE.findall(output))
    assert [rank for rank, _, _ in lines] == ["0", "1", "2", "3"], output
    assert len({result for _, _, result in lines}) == 1
    assert len({node for _, node, _ in lines}) == 2


HANGS = """#!/bin/sh
#SBATCH -N2 -o hang-%j.out -e hang-%j.err
srun {python} -u -c '
import threading
def waits_for_its_peers():
    print("rank waits", flush=True)
    threading.Event().wait()
waits_for_its_peers()
'
"""


def test_a_job_that_hangs_shows_its_output_and_stacks(cluster: LiveCluster) -> None:
    """A stand-in for ranks that wait for each other."""
    folder = cluster.work / "hangs"
    folder.mkdir()
    (folder / "job.sh").write_text(HANGS.format(python=sys.executable))
    path = f"{cluster.work}/bin:{cluster.environment()['PATH']}"
    env = {"PATH": path, **jobtraces.FAULT_HANDLER}
    job = int(cluster.run("sbatch", "--parsable", "job.sh", cwd=folder, env=env).ok().out)
    output = folder / f"hang-{job}.out"
    cluster.wait(lambda: output.exists() and output.read_text().count("rank waits") == 2, "both ranks wait")
    with pytest.raises(AssertionError, match="waited in vain") as caught, jobtraces.shown(job, folder):
        raise AssertionError("waited in vain")
    text = str(caught.value)
    assert f"---- {output.name}\nrank waits\nrank waits\n" in text
    assert text.count("in waits_for_its_peers") == 2, text
    threads = re.findall(r"  thread \d+ python\S*: S \(sleeping\), waits in \S+", text)
    assert len(threads) >= 2, text
    assert "gone" not in text.partition("----")[0]


def test_a_job_that_has_ended_shows_its_output(tmp_path: Path) -> None:
    (tmp_path / "slurm-7.out").write_text("the last words")
    with (
        pytest.raises(AssertionError, match="(?s)state.*no process of job 7 is left.*the last words"),
        jobtraces.shown(7, tmp_path),
    ):
        raise AssertionError("state")
