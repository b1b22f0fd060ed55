"""Clusters whose accounting the own controller reads for a command, as they are in its database (docs/clusters.md).

A command asks a cluster's own controller if a cluster file names it. If there is no such file, or that controller does not
answer, the own controller answers from the database what it can: requests that name a cluster. Anything else needs the
cluster's controller.
"""

from typing import TYPE_CHECKING

from penstock.client import Client
from penstock.clusterfile import ClusterFile
from penstock.errors import PenstockError, Unreachable
from penstock.values.refusals import Code

if TYPE_CHECKING:
    from penstock.client import Message

_FIELD = "cluster"


def registered(own: Client) -> list[str]:
    """The names of the other clusters of the own controller's database. None while it is down, which is reported where it is
    asked itself, and of an older one. Raises PenstockError when the database cannot be read."""
    from penstock.v1.governance_pb2 import ListClustersRequest

    try:
        found = own.call("ListClusters", ListClustersRequest()).clusters
    except PenstockError as error:
        if isinstance(error, Unreachable) or error.code == Code.NOT_SUPPORTED:
            return []
        raise
    return [one.name for one in found if one.name != own.cluster.cluster_name]


def only_registered(name: str) -> ClusterFile:
    """Stands for a cluster that no file of this machine names."""
    return ClusterFile(name)


def is_only_registered(cluster: ClusterFile) -> bool:
    """Whether the cluster can be reached through the own controller alone."""
    return not (cluster.socket or cluster.address)


def why_only_read(name: str) -> str:
    """Why a change is refused."""
    return (
        f"cluster {name} can only be read here, from the database: a change needs its controller, which must be up, and "
        "known on this machine (docs/clusters.md)"
    )


class NeighbourClient(Client):
    """Reads a cluster through the controller of `own`."""

    def __init__(self, own: Client, name: str) -> None:
        super().__init__(own.cluster, own.timeout_s)
        self.cluster = own.cluster._replace(cluster_name=name)  # for listings; the addresses stay

    def addressed(self, method: str, request: "Message") -> "Message":
        """Returns the request with the cluster's name. Raises PenstockError for what the database does not answer."""
        if _FIELD not in request.DESCRIPTOR.fields_by_name:
            raise PenstockError(Code.NOT_SUPPORTED, why_only_read(self.cluster.cluster_name), method)
        named = type(request)()
        named.CopyFrom(request)
        setattr(named, _FIELD, self.cluster.cluster_name)
        return named
