"""Clusters with a REST daemon for the tests of this folder."""

from collections.abc import Callable, Generator, Iterator, Mapping

import pytest
from livecluster import ClusterConf, LiveCluster
from liverest import JWT, LiveRest

_alive: list[LiveCluster] = []


@pytest.fixture(scope="session")
def shared_rest() -> Iterator[LiveRest]:
    """A cluster of two nodes that takes JSON web tokens, and its REST daemon."""
    with LiveCluster(2, JWT) as cluster:
        _alive.append(cluster)
        rest = LiveRest(cluster)
        rest.start()
        yield rest
        _alive.remove(cluster)


@pytest.fixture
def rest(shared_rest: LiveRest) -> Iterator[LiveRest]:
    """The shared one; jobs that a test leaves are cancelled."""
    yield shared_rest
    shared_rest.cluster.clean()


@pytest.fixture
def new_rest() -> Iterator[Callable[..., LiveRest]]:
    """A test's own, for tests that end daemons."""
    made: list[LiveCluster] = []

    def make(conf: ClusterConf = JWT, constants: Mapping[str, object] | None = None) -> LiveRest:
        cluster = LiveCluster(1, conf)
        made.append(cluster)
        _alive.append(cluster)
        rest = LiveRest(cluster.start())
        rest.constants = constants or {}
        rest.start()
        return rest

    yield make
    for cluster in made:
        cluster.close()
        _alive.remove(cluster)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds the daemons' logs to the report of a failure."""
    report = yield
    if report.failed:
        report.sections += [(f"daemons of {cluster.home}", cluster.logs()) for cluster in _alive]
    return report
