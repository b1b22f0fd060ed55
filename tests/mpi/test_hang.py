"""A program of torch whose ranks wait in a collective of gloo for one that never comes, and what `penstock doctor` says of it."""

import json
import re

# Any: a document
from typing import Any

from livecluster import ClusterConf, LiveCluster
from mpivenv import programs_of

from tests.mpi.conftest import lay_commands

PROGRAM = """\
import os, sys
import torch
import torch.distributed as dist

def waits_for_data():
    os.read(os.pipe()[0], 1)

def train(rank):
    for step in range(10**6):
        if rank == 2 and step == 5:
            waits_for_data()
        gradient = torch.ones(1000)
        dist.all_reduce(gradient)

rank, ranks = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
dist.init_process_group("gloo", rank=rank, world_size=ranks, init_method="file://" + sys.argv[1])
open(sys.argv[1] + f".{rank}", "w").close()
train(rank)
"""


def test_the_rank_that_the_others_wait_for_is_shown_first() -> None:
    programs = programs_of("torch")
    conf = ClusterConf(cpus=4, more=("PenstockHangAfter=6", "JobAcctGatherFrequency=1"))
    with LiveCluster(2, conf) as cluster:
        lay_commands(cluster)
        path = f"{programs}:{cluster.work}/bin:{cluster.environment()['PATH']}"
        env = {"PATH": path, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
        line = f"srun --overlap -N2 -n4 --acctg-freq=task=1 python3 {cluster.script('hang.py', PROGRAM)} {cluster.work}/meet"
        words = ("--parsable", "-N2", "-n4", "-o", "/dev/null", "--acctg-freq=task=1", "--wrap", line)
        job = int(cluster.run("sbatch", *words, env=env).ok().out)

        def doctor(*words: str) -> Any:
            """The step as a document; nothing before it runs."""
            done = cluster.run("penstock", "doctor", f"{job}.0", "--json", *words, env=env)
            return json.loads(done.out).get("steps", [{"suspicions": []}])

        # before that one may be behind: it has begun early, and waits for the others' imports
        cluster.wait(lambda: len(list(cluster.work.glob("meet.*"))) == 4, "all have met")
        cluster.wait(lambda: [one["kind"] for one in doctor()[0]["suspicions"]] == ["idle"], "all wait")
        (step,) = doctor("--stacks")
        elsewhere, waiting = step["stacks"]
        assert (elsewhere["ranks"], waiting["ranks"]) == ([2], [0, 1, 3])
        assert re.search(r"MainThread\"\n    waits_for_data \(hang.py:6\)\n    train", "\n".join(elsewhere["lines"]))
        assert re.search(r"MainThread\"\n    all_reduce \(torch/distributed/", "\n".join(waiting["lines"]))
        assert "stacks" in doctor()[0] and not doctor()[0]["stacks"]
        print(cluster.run("penstock", "doctor", f"{job}.0", "--stacks", env=env).out)
