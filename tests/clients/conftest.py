"""A cluster like a site's, for unmodified programs: commands first on PATH, a partition called debug."""

import getpass
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from livecluster import ClusterConf, LiveCluster, logs_if_failed

#: All commands that a program may call.
COMMANDS = (
    "sbatch", "salloc", "srun", "squeue", "sinfo", "sacct", "sacctmgr", "scancel", "scontrol", "sstat", "sattach", "sbcast", "sdiag",
    "sprio", "sshare", "seff", "sreport",
)  # fmt: skip
#: Four nodes, so that some are idle while others work: a check that needs an idle node finds one.
CONF = ClusterConf(
    cpus=4,
    memory_mb=4000,
    gpus=2,
    partitions=("PartitionName=debug Nodes=ALL Default=YES MaxTime=UNLIMITED State=UP",),
)
ROOT = Path(__file__).resolve().parents[2]


def commands_folder(folder: Path) -> Path:
    """The folder of our commands: the installed ones beside this Python, or, in a tree that is not installed, wrappers
    in `folder`."""
    installed = Path(sys.executable).parent
    if all((installed / name).exists() for name in COMMANDS):
        return installed
    folder.mkdir()
    for name in COMMANDS:
        wrapper = folder / name
        wrapper.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -P -m cli.{name} "$@"\n')
        wrapper.chmod(0o755)
    return folder


class ClientCluster(LiveCluster):
    """A LiveCluster whose environment is a user's: it only locates the commands and the cluster."""

    def user_environment(self, commands: Path, first: Mapping[str, str]) -> dict[str, str]:
        """The environment of a program. `first`: variables that it needs."""
        env = self.environment()
        del env["PYTHONPATH"], env["PYTHONFAULTHANDLER"]
        # The commands alone, not everything beside this Python: programs search PATH for their own.
        links = self.home / "commands"
        if not links.exists():
            links.mkdir()
            for name in COMMANDS:
                (links / name).symlink_to(commands / name)
        return {**env, "PATH": f"{links}:/usr/local/bin:/usr/bin:/bin", "USER": getpass.getuser(), **first}


@pytest.fixture(scope="session")
def shared_cluster() -> Iterator[ClientCluster]:
    with ClientCluster(4, CONF) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def commands(shared_cluster: ClientCluster) -> Path:
    return commands_folder(shared_cluster.home / "wrappers")


@pytest.fixture
def cluster(shared_cluster: ClientCluster, request: pytest.FixtureRequest) -> Iterator[ClientCluster]:
    with logs_if_failed(shared_cluster, request.session):
        yield shared_cluster


@pytest.fixture
def scratch(shared_cluster: ClientCluster, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A folder shared by all nodes, removed afterwards."""
    folder = shared_cluster.home / "scratch" / request.node.name.translate(str.maketrans("[]/", "___"))
    folder.mkdir(parents=True)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
