"""The examples with torch: torchrun on each node, and srun alone. All ranks end with the same loss and the same weights."""

import re
import shutil
from pathlib import Path

import pytest
from livecluster import LiveCluster
from mpivenv import programs_of
from patience import END_S

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "torch-ddp"
LINE = re.compile(r"rank (\d) of 4 on (n\d): (loss \d+\.\d+ weights -?\d+\.\d+)")


@pytest.mark.parametrize("script", ["torchrun.sbatch", "srun.sbatch"])
def test_all_ranks_train_the_same_model(cluster: LiveCluster, script: str) -> None:
    programs = programs_of("torch")
    folder = cluster.work / script
    shutil.copytree(EXAMPLES, folder)
    path = f"{programs}:{cluster.work}/bin:{cluster.environment()['PATH']}"
    job = int(
        cluster.run("sbatch", "--parsable", script, cwd=folder, env={"PATH": path, "GLOO_SOCKET_IFNAME": "lo"}).ok().out
    )
    (ended,) = cluster.wait_ends(job, limit_s=END_S)
    output = next(folder.glob(f"*-{job}.out")).read_text()
    assert ended.state == "COMPLETED", output
    lines = sorted(LINE.findall(output))
    assert [rank for rank, _, _ in lines] == ["0", "1", "2", "3"], output
    assert len({result for _, _, result in lines}) == 1
    assert len({node for _, node, _ in lines}) == 2
