"""A plug-in of pytest: the fixture `penstock_cluster`, a private cluster for the tests of a program that submits jobs.

    def test_it_trains(penstock_cluster):
        job = penstock_cluster.submit("train.sbatch", gpus=1)
        assert job.wait(60).succeeded

One cluster for all tests, started by `penstock up` in a folder of its own and removed at the end; nothing of it needs root
or touches the user's cluster. In pytest's settings: `penstock_nodes` (1), `penstock_cpus` (2) and `penstock_gpus` (none) of
each node; GPUs are pretended, as with `penstock up --gpus-per-node`.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from sdk.cluster import Cluster

#: By setting: the option of `penstock up`, its default, what is said of it.
SETTINGS: Final = {
    "penstock_nodes": ("--nodes", "1", "nodes of the fixture penstock_cluster"),
    "penstock_cpus": ("--cpus-per-node", "2", "CPUs of each node of the fixture penstock_cluster"),
    "penstock_gpus": ("--gpus-per-node", "", "pretended GPUs of each node of the fixture penstock_cluster"),
}
_VARIABLES: Final = ("PENSTOCK_HOME", "PENSTOCK_CLUSTER", "SLURM_CONF", "SLURM_JWT")


def pytest_addoption(parser: pytest.Parser) -> None:
    """The settings."""
    for name, (_, default, text) in SETTINGS.items():
        parser.addini(name, text, default=default)


@pytest.fixture(scope="session")
def penstock_cluster(request: pytest.FixtureRequest) -> "Iterator[Cluster]":
    """A running private cluster. Commands find it too while the tests run: PENSTOCK_HOME names its folder."""
    from sdk.cluster import Cluster

    home = tempfile.mkdtemp(prefix="penstock-")
    before = {name: os.environ.pop(name, None) for name in _VARIABLES}
    os.environ["PENSTOCK_HOME"] = home
    given = [(option, str(request.config.getini(name))) for name, (option, _, _) in SETTINGS.items()]
    words = [word for option, value in given if value for word in (option, value)]
    try:
        _penstock("up", *words)
        with Cluster() as cluster:
            yield cluster
    finally:
        _penstock("down", "--purge")
        shutil.rmtree(home, ignore_errors=True)
        del os.environ["PENSTOCK_HOME"]
        os.environ.update({name: value for name, value in before.items() if value is not None})


def _penstock(*words: str) -> None:
    """One of penstock's commands. Raises RuntimeError with what it said."""
    done = subprocess.run([sys.executable, "-m", "cli.penstock", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"penstock {words[0]} ended with {done.returncode}: {done.stderr.strip() or done.stdout}")
