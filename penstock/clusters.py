"""The other clusters that commands of this machine know: the cluster files of one directory.

A machine knows another cluster when its administrator, or the owner of a private cluster, puts that cluster's file, or a
link to it, into the directory `clusters` beside the own cluster file. Without such a file no other cluster exists, so
nothing is reached that was not set up. Each cluster has its own certificate authority and its own tokens: knowing a
cluster grants no rights on it (docs/security.md).

PENSTOCK_CLUSTERS, a list of files and directories separated by colons, replaces the directory. Where SLURM_CONF leads to
the own cluster file, which is then in the controller's folder, the directory of the machine is used as well.
"""

import os

from penstock.cluster import candidate_paths
from penstock.clusterfile import ClusterFile, read_cluster
from penstock.errors import PenstockError
from penstock.values.refusals import Code

#: The variable that replaces the directories.
VARIABLE = "PENSTOCK_CLUSTERS"
FOLDER = "clusters"
MACHINE_FOLDER = "/etc/penstock/clusters"
#: The most files that are read: a command that names all clusters calls each of them.
CLUSTERS_MAX = 64


def known_clusters(own: ClusterFile) -> dict[str, ClusterFile]:
    """Reads all known clusters, the own one among them, by name in alphabetical order. Of two files of one name the first
    counts. Raises PenstockError for a file that cannot be used.
    """
    found = {own.cluster_name: own}
    paths = [path for place in _cluster_paths(own) for path in _files(place)]
    if len(paths) > CLUSTERS_MAX:
        text = f"{len(paths)} files of clusters, the limit is {CLUSTERS_MAX}"
        raise PenstockError(Code.CONFIG_INVALID, text, f"looked in {', '.join(_cluster_paths(own))}")
    for path in paths:
        try:
            cluster = read_cluster(path)
        except FileNotFoundError:  # a link whose daemon has not run yet
            continue
        found.setdefault(cluster.cluster_name, cluster)
    return dict(sorted(found.items()))


def select_cluster(chosen: ClusterFile, own: ClusterFile) -> None:
    """Makes a cluster the one of this call and of the programs that it starts: find_cluster() returns it afterwards."""
    if chosen == own:
        return
    os.environ[VARIABLE] = ":".join([*_cluster_paths(own), os.path.abspath(own.path)])
    os.environ["PENSTOCK_CLUSTER"] = chosen.path


def _cluster_paths(own: ClusterFile) -> list[str]:
    if named := os.environ.get(VARIABLE):
        return [os.path.abspath(place) for place in named.split(":") if place]
    if not own.path:
        return []
    beside = os.path.join(os.path.dirname(os.path.abspath(own.path)), FOLDER)
    return [beside] if own.path in candidate_paths() else [beside, MACHINE_FOLDER]


def _files(place: str) -> list[str]:
    """The cluster files in a directory, or the file itself."""
    try:
        names = sorted(os.listdir(place))
    except (FileNotFoundError, NotADirectoryError):
        return [place] if os.path.isfile(place) else []
    except OSError as error:
        raise PenstockError(Code.CONFIG_INVALID, f"{place}: cannot be read: {error.strerror}") from error
    return [os.path.join(place, name) for name in names if name.endswith(".json") and not name.startswith(".")]
