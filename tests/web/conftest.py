"""A cluster with GPUs, its REST daemon with the web interface, and a browser, for the tests of a module.

The browser's driver runs an event loop in the thread of the tests, so it ends with the module.
"""

from collections.abc import Iterator

import pytest
from livecluster import ClusterConf, LiveCluster
from liverest import LiveRest

CONF = ClusterConf(cpus=16, gpus=8, more=("AuthAltTypes=auth/jwt",))


@pytest.fixture(scope="module")
def rest() -> Iterator[LiveRest]:
    with LiveCluster(2, CONF) as cluster:
        rest = LiveRest(cluster, "--web")
        rest.start()
        try:
            yield rest
        finally:
            print(cluster.logs())
