"""Finds the cluster file that belongs to a slurm.conf: how a site's SLURM_CONF leads its commands to the controller.

Imported only where a command has nothing but SLURM_CONF or /etc/slurm/slurm.conf.
"""

import os
from collections.abc import Iterable

from penstock.clusterfile import ClusterFile, read_cluster
from penstock.config.problem import Findings
from penstock.config.syntax import read_statements
from penstock.errors import PenstockError
from penstock.values.refusals import Code


def cluster_of_conf(path: str, usual: Iterable[str]) -> ClusterFile:
    """Finds the cluster of that file. `usual`: places whose file is taken if it has the same ClusterName. Raises
    PenstockError.
    """
    found = _values(path)
    places = [os.path.join(os.path.dirname(os.path.abspath(path)), "cluster.json")]
    if folder := found.get("statesavelocation"):
        places.append(os.path.join(folder, "cluster.json"))
    for place in places:
        try:
            return read_cluster(place)
        except FileNotFoundError:
            continue
        except PenstockError:
            if os.access(
                place, os.R_OK
            ):  # the state folder is the controller's; without access to it, try the usual places
                raise
    name = found.get("clustername", "").lower()
    for place in usual:
        try:
            cluster = read_cluster(place)
        except FileNotFoundError:
            continue
        if cluster.cluster_name == name:
            return cluster
    looked = ", ".join((*places, *usual))
    text = f"no cluster file for {path} (ClusterName={name or 'not set'})"
    raise PenstockError(Code.CONFIG_INVALID, text, f"looked for {looked}; the controller and node daemons write it")


def _values(path: str) -> dict[str, str]:
    """The values of the file and of the files that it includes, by lower-case key. Raises PenstockError."""
    findings = Findings()
    statements, files = read_statements(path, findings)
    if not files:
        raise PenstockError(
            Code.CONFIG_INVALID, f"SLURM_CONF: {findings.problems[0].text}", "set it to a slurm.conf, or unset it"
        )
    return {token.key.lower(): token.value for statement in statements for token in statement.tokens}
