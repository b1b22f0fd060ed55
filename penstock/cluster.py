"""Cluster discovery: finds the cluster file without an option that names it.

The file itself is clusterfile.py's. A command must not reach another cluster by accident: a variable that is set is the
only source; without one, the first file that exists of a short list of places is the cluster; and a file that exists
but cannot be used is an error, never skipped. Paths are strings here: importing pathlib would cost every command some
milliseconds.
"""

import contextlib
import os

from penstock.clusterfile import ClusterFile, read_cluster
from penstock.errors import PenstockError
from penstock.values.refusals import Code

#: The usual places of slurm.conf.
CONF_PATHS = ("/etc/penstock/slurm.conf", "/etc/slurm/slurm.conf")
#: Variables that name the cluster; the first that is set is the only source.
_VARIABLES = ("PENSTOCK_CLUSTER", "PENSTOCK_HOME", "SLURM_CONF")

NOT_FOUND = "no cluster found: run `penstock up` to start one, or set PENSTOCK_CLUSTER to a cluster.json"


def conf_path() -> str:
    """The slurm.conf of this machine: SLURM_CONF, else the usual places; the first of these when there is none."""
    if named := os.environ.get("SLURM_CONF"):
        return named
    return next((path for path in CONF_PATHS if os.path.exists(path)), CONF_PATHS[0])


def own_conf_path() -> str:
    """The default slurm.conf of a check: of the cluster that commands talk to, else conf_path().

    It is beside the cluster file, or the one that the file names. PENSTOCK_CLUSTER and PENSTOCK_HOME count before
    SLURM_CONF, as in find_cluster(), and lead to no other cluster's slurm.conf: then the path is that of a missing file.
    """
    named = next((name for name in _VARIABLES if os.environ.get(name)), "")
    beside = ""
    for path in () if named == "SLURM_CONF" else candidate_paths():
        beside = os.path.join(os.path.dirname(path), "slurm.conf")
        if not os.path.exists(path):
            continue
        if os.path.exists(beside):
            return beside
        with contextlib.suppress(PenstockError, FileNotFoundError):  # who needs the cluster says what is wrong with it
            if conf := read_cluster(path).conf:
                return conf
    return beside if named in _VARIABLES[:2] else conf_path()


def candidate_paths() -> list[str]:
    """The possible cluster files, in the order in which they are tried. The one that SLURM_CONF leads to is not among
    them.
    """
    if explicit := os.environ.get("PENSTOCK_CLUSTER"):
        return [explicit]
    if home := os.environ.get("PENSTOCK_HOME"):
        return [os.path.join(home, "cluster.json")]
    return [os.path.expanduser("~/.penstock/cluster.json"), "/etc/penstock/cluster.json"]


def find_cluster() -> ClusterFile:
    """Finds the cluster of this user on this machine. Raises PenstockError when there is none or its file is unusable.

    SLURM_CONF, where no variable of Penstock's own is set, names the cluster: its file is beside that slurm.conf, or in
    the StateSaveLocation that it names, or in the usual places if it is a file of the cluster of that name.
    """
    variable = next((name for name in _VARIABLES if os.environ.get(name)), "")
    looked = candidate_paths()
    if variable == "SLURM_CONF":
        from penstock.conffind import cluster_of_conf

        return cluster_of_conf(os.environ[variable], looked)
    for path in looked:
        try:
            return read_cluster(path)
        except FileNotFoundError:
            continue
    if not variable and os.path.exists(CONF_PATHS[1]):
        from penstock.conffind import cluster_of_conf

        try:
            return cluster_of_conf(CONF_PATHS[1], [])
        except PenstockError:
            looked.append(CONF_PATHS[1])  # Slurm's own, on a machine that has both
    places = ", ".join(looked) + (f" (as {variable} says)" if variable else "")
    raise PenstockError(Code.CONFIG_INVALID, NOT_FOUND, f"looked for {places}")
