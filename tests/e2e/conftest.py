"""Clusters for the end-to-end tests.

`cluster`: four nodes with pretended CPUs and GPUs, shared by all tests of a worker that do not disturb daemons; jobs
that a test leaves running are cancelled. `new_cluster(...)`: a test's own cluster, for tests that kill daemons. When a
test fails, its report ends with the daemons' logs.
"""

from collections.abc import Callable, Generator, Iterator

import pytest
from livecluster import ClusterConf, LiveCluster

SHARED = ClusterConf(
    gpus=4,
    features={"n1": "old", "n2": "old", "n3": "new", "n4": "new,big"},
    partitions=(
        "PartitionName=main Nodes=ALL Default=YES MaxTime=UNLIMITED State=UP",
        "PartitionName=short Nodes=n1,n2 MaxTime=10 DefaultTime=5 State=UP",
    ),
)

_alive: list[LiveCluster] = []


@pytest.fixture(scope="session")
def shared_cluster() -> Iterator[LiveCluster]:
    cluster = LiveCluster(4, SHARED)
    _alive.append(cluster)
    with cluster:
        yield cluster
    _alive.remove(cluster)


@pytest.fixture
def cluster(shared_cluster: LiveCluster) -> Iterator[LiveCluster]:
    yield shared_cluster
    shared_cluster.clean()


@pytest.fixture
def new_cluster() -> Iterator[Callable[..., LiveCluster]]:
    made: list[LiveCluster] = []

    def make(nodes: int = 1, conf: ClusterConf | None = None, start: bool = True) -> LiveCluster:
        cluster = LiveCluster(nodes, conf)
        made.append(cluster)
        _alive.append(cluster)
        return cluster.start() if start else cluster

    yield make
    for cluster in made:
        cluster.close()
        _alive.remove(cluster)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds the daemons' logs to the report of a failure."""
    report = yield
    if report.failed:
        for cluster in _alive:
            report.sections.append((f"daemons in {cluster.home.name}", cluster.logs()))
    return report
