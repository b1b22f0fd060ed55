"""One cluster with two nodes of two GPUs for the tests of the Python interface, whose working directory is the jobs'."""

from collections.abc import Generator, Iterator

import pytest
from livecluster import ClusterConf, LiveCluster

from sdk.cluster import Cluster

_alive: list[LiveCluster] = []


@pytest.fixture(scope="session")
def shared_live() -> Iterator[LiveCluster]:
    with LiveCluster(2, ClusterConf(gpus=2)) as live:
        _alive.append(live)
        yield live
        _alive.remove(live)


@pytest.fixture
def live(shared_live: LiveCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[LiveCluster]:
    """The shared one; jobs that a test leaves are cancelled."""
    for name, value in shared_live.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(shared_live.work)
    yield shared_live
    shared_live.clean()


@pytest.fixture
def cluster(live: LiveCluster) -> Iterator[Cluster]:
    with Cluster(live.cluster_file) as found:
        yield found


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds the daemons' logs to the report of a failure."""
    report = yield
    if report.failed:
        report.sections += [(f"daemons of {live.home}", live.logs()) for live in _alive]
    return report
