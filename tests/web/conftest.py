"""A cluster with GPUs, its REST daemon with the web interface, and a browser, for the tests of a module.

The browser's driver runs an event loop in the thread of the tests, so it ends with the module.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from livecluster import ClusterConf, LiveCluster
from liverest import LiveRest

if TYPE_CHECKING:
    from webpages import WebPages

#: Templates of the site: one that is, one that is not.
TEMPLATES = {
    "torch.sh": "#!/bin/bash\n# Title: PyTorch <one node>\n# Description: all GPUs of a node\n#SBATCH --gpus=8 --time=30\nhostname\n",
    "broken.sh": "hostname\n",
}
CONF = ClusterConf(cpus=16, gpus=8, more=("AuthAltTypes=auth/jwt",))
#: Who has which role: users of every machine. The coordinator is one of account lab, below which nobody is a user in account team.
USER, COORDINATOR, OPERATOR = "nobody", "bin", "sys"


@pytest.fixture(scope="module")
def rest() -> Iterator[LiveRest]:
    with LiveCluster(2, CONF) as cluster:
        folder = cluster.home / "templates"
        folder.mkdir()
        for name, text in TEMPLATES.items():
            (folder / name).write_text(text)
        rest = LiveRest(cluster, "--web", "--web-templates", str(folder))
        rest.start()
        try:
            yield rest
        finally:
            print(cluster.logs())


@pytest.fixture(scope="module")
def pages(rest: LiveRest) -> Iterator["WebPages"]:
    from webpages import WebPages  # only where playwright is installed

    with WebPages(rest) as pages:
        yield pages


@pytest.fixture
def web(pages: "WebPages") -> Iterator["WebPages"]:
    """The browser; afterwards no page may have had an error, and jobs that a test leaves are cancelled."""
    yield pages
    try:
        pages.check()
    finally:
        pages.close_pages()
        pages.rest.cluster.clean()


@pytest.fixture(scope="module")
def roles(rest: LiveRest) -> LiveCluster:
    """A coordinator and an operator, beside the administrator who runs the tests and a user with no rights over others."""
    cluster = rest.cluster
    for words in (
        ("add", "account", "lab", "maxjobs=10"), ("add", "account", "team", "parent=lab"), ("add", "account", "other"),
        ("add", "user", USER, "account=team", "maxjobs=3"), ("add", "user", COORDINATOR, "account=lab"),
        ("add", "coordinator", "account=lab", f"names={COORDINATOR}"),
        ("add", "user", OPERATOR, "account=other", "adminlevel=Operator"),
    ):  # fmt: skip
        cluster.run("sacctmgr", "-i", *words).ok()
    return cluster
