"""The plug-in of pytest: a program's tests get a private cluster, and nothing of it is left."""

import os
import subprocess
import sys
from pathlib import Path

import tidytree as tree
from openway import own_temporary_folder
from patience import END_S

TESTS = """
import os
def test_first(penstock_cluster):
    job = penstock_cluster.submit_command(["sh", "-c", "echo $SLURM_JOB_NODELIST"], gpus=1)
    assert job.wait({limit_s}, check=True).gpus == 1
    assert len(penstock_cluster.nodes()) == 2
    open("home", "w").write(os.environ["PENSTOCK_HOME"])
"""
SETTINGS = "[pytest]\npenstock_nodes = 2\npenstock_gpus = 2\n"


def test_a_program_is_tested_with_a_cluster_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TESTS.format(limit_s=END_S))
    (tmp_path / "pytest.ini").write_text(SETTINGS)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment = {**kept, **own_temporary_folder(tmp_path), "PYTHONPATH": str(tree.ROOT), "HOME": str(tmp_path)}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # installed or not, it is loaded by its module's name
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "sdk.testing"]
    done = subprocess.run(
        words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=END_S
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not Path((tmp_path / "home").read_text()).exists()
    assert not (tmp_path / ".penstock").exists()
