"""The submit filter of docs/hooks.md with the commands: what sbatch, srun, salloc, scrontab and scontrol print."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from livecluster import ClusterConf, LiveCluster

DOCS = Path(__file__).parents[2] / "docs" / "hooks.md"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    found = re.search(r"```python\n(.*?)```", DOCS.read_text(), re.S)
    assert found is not None
    path = tmp_path_factory.mktemp("filter") / "filter.py"
    path.write_text(found[1])
    partitions = (
        "PartitionName=main Nodes=ALL Default=YES MaxTime=UNLIMITED State=UP",
        "PartitionName=gpu Nodes=ALL MaxTime=UNLIMITED State=UP",
    )
    conf = ClusterConf(gpus=2, more=(f"PenstockSubmitFilter={path}",), partitions=partitions)
    with LiveCluster(nodes=1, conf=conf) as live:
        assert live.run("sacctmgr", "-i", "delete", "user", "root").status == 0  # whose default is account root
        yield live


def test_a_refusal_as_slurm_prints_it(cluster: LiveCluster) -> None:
    for command, words in (
        (("sbatch", "--wrap", "true"), "Batch job submission failed"),
        (("srun", "true"), "Unable to allocate resources"),
        (("salloc", "true"), "Job submit/allocate failed"),
    ):
        done = cluster.run(*command)
        name = command[0]
        assert (done.status, done.out) == (1, "")
        assert done.err.splitlines() == [
            f"{name}: error: name an account: --account=ACCOUNT",
            f"{name}: error: {words}: Unspecified error",
        ]


def test_lines_for_the_user(cluster: LiveCluster) -> None:
    said = "the job needs GPUs: it goes to the partition gpu"
    done = cluster.run("sbatch", "-A", "physics", "--gpus-per-node=1", "--wrap", "true")
    assert done.err == f"sbatch: {said}\n" and done.status == 0
    job = done.out.split()[-1]
    assert cluster.run("squeue", "-h", "-t", "all", "-j", job, "-o", "%P %l").out == "gpu 1:00:00\n"
    for command in ("srun", "salloc"):
        done = cluster.run(command, "-A", "physics", "--gpus-per-node=1", "echo", "hello")
        assert (done.status, done.out) == (0, "hello\n") and f"{command}: {said}\n" in done.err
    quiet = cluster.run("sbatch", "-Q", "-A", "physics", "--gpus-per-node=1", "--wrap", "true")
    assert (quiet.status, quiet.out, quiet.err) == (0, "", "")
    assert "Submit filter:        " in cluster.run("sdiag").out
