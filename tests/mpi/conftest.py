"""One cluster of four node daemons for all tests of MPI and torch. Its jobs find our commands on their PATH."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from livecluster import ClusterConf, LiveCluster

#: At most 64 ranks in 4 nodes.
CONF = ClusterConf(cpus=16)
PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture(scope="session")
def shared_cluster() -> Iterator[LiveCluster]:
    with LiveCluster(4, CONF) as cluster:
        lay_commands(cluster)
        yield cluster


def lay_commands(cluster: LiveCluster) -> None:
    """Puts commands into the cluster's folder `bin`: libraries' launchers and scripts call them by name."""
    (cluster.work / "bin").mkdir()
    for name in ("srun", "scontrol"):
        script = cluster.work / "bin" / name
        script.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m cli.{name} "$@"\n')
        script.chmod(0o755)


@pytest.fixture
def cluster(shared_cluster: LiveCluster, request: pytest.FixtureRequest) -> Iterator[LiveCluster]:
    yield shared_cluster
    if getattr(request.node, "failed", False):
        print(shared_cluster.logs())
    shared_cluster.clean()
