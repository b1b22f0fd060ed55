#!/usr/bin/env python3
# requires: base
"""hydra --multirun with hydra/launcher=submitit_slurm: three runs as one job array."""

import os
import subprocess
import sys
import tempfile
import traceback

NAME = "hydra_submitit"
LIMIT_S = float(os.environ.get("CASE_LIMIT_S", "240"))
PART = os.environ.get("PARTITION", "debug")
APP = """
import os, hydra
from omegaconf import DictConfig, OmegaConf
@hydra.main(version_base="1.3", config_path=None, config_name="c")
def main(cfg):
    open("res.txt", "w").write(f"{cfg.x} {os.environ['SLURM_ARRAY_TASK_ID']} {os.environ['SLURM_ARRAY_TASK_COUNT']}")
    return cfg.x
from hydra.core.config_store import ConfigStore
ConfigStore.instance().store(name="c", node={"x": 0})
if __name__ == "__main__":
    main()
"""


def main():
    d = tempfile.mkdtemp(prefix="case-hydra-", dir=os.environ.get("CASE_TMP", "/tmp"))
    open(d + "/app.py", "w").write(APP)
    p = subprocess.run(
        [
            sys.executable,
            "app.py",
            "--multirun",
            "x=5,6,7",
            "hydra/launcher=submitit_slurm",
            f"hydra.launcher.partition={PART}",
            "hydra.launcher.timeout_min=3",
            "hydra.launcher.mem_per_cpu=200M",
            "hydra.launcher.cpus_per_task=1",
            "hydra.launcher.array_parallelism=2",
            "hydra.job.chdir=True",
            f"hydra.sweep.dir={d}/sweep",
        ],
        cwd=d,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_S,
    )
    assert p.returncode == 0, p.stdout
    for i, x in enumerate((5, 6, 7)):
        got = open(f"{d}/sweep/{i}/res.txt").read()
        assert got == f"{x} {i} 3", got


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
