#!/usr/bin/env python3
# requires: lightning
"""Lightning Fabric's SLURMEnvironment: `srun python` x2 finds rank, size, node and master from SLURM_*, and torch (gloo) reduces over them. Wants SLURM_NTASKS_PER_NODE to be a plain integer."""

import os
import subprocess
import sys
import tempfile
import traceback

NAME = "lightning"
LIMIT_S = float(os.environ.get("CASE_LIMIT_S", "240"))
PART = os.environ.get("PARTITION", "debug")
PROG = """
import os, torch
from lightning_fabric import Fabric
from lightning_fabric.plugins.environments import SLURMEnvironment
assert SLURMEnvironment.detect()
e = SLURMEnvironment()
assert e.resolve_root_node_address(os.environ["SLURM_NODELIST"]) and e.job_id() and e.job_name() == "lightcase"
f = Fabric(accelerator="cpu", devices=2, num_nodes=1, strategy="ddp")
assert type(f.strategy.cluster_environment).__name__ == "SLURMEnvironment"
f.launch()
r = f.all_reduce(torch.tensor([float(f.global_rank + 1)]), reduce_op="sum")
if f.global_rank == 0:
    print("RESULT", f.world_size, f.local_rank, f.node_rank, r.item(), flush=True)
torch.distributed.destroy_process_group()  # else its threads may abort the process at its end
"""


def main():
    d = tempfile.mkdtemp(prefix="case-pl-", dir=os.environ.get("CASE_TMP", "/tmp"))
    open(d + "/prog.py", "w").write(PROG)
    open(d + "/job.sh", "w").write(f"""#!/bin/bash -e
#SBATCH --job-name=lightcase
#SBATCH --nodes=1 --ntasks-per-node=2 --cpus-per-task=1 --mem=1500M -t 3 -p {PART}
# test clusters often have node names that do not resolve
getent hosts $(scontrol show hostnames $SLURM_JOB_NODELIST | head -1) >/dev/null || export MASTER_ADDR=127.0.0.1
export OMP_NUM_THREADS=1 GLOO_SOCKET_IFNAME=lo
srun {sys.executable} prog.py
""")
    p = subprocess.run(
        ["sbatch", "--wait", "-D", d, "-o", d + "/out", d + "/job.sh"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_S,
    )
    out = open(d + "/out").read() if os.path.exists(d + "/out") else ""
    assert p.returncode == 0, (p, out[-2000:])
    assert "RESULT 2 0 0 3.0" in out, out[-2000:]


if __name__ == "__main__":
    try:
        main()
    except BaseException as e:
        traceback.print_exc()
        print(f"FAIL {NAME}: {type(e).__name__}: {e}")
        sys.stdout.flush()
        os._exit(1)
    print("ok", NAME)
    sys.stdout.flush()
    os._exit(0)
