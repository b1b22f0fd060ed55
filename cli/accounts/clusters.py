"""Several clusters in sacctmgr: `show cluster` lists all that this machine knows, and `cluster=` names those of a line.

Each cluster keeps its own accounts, so a line without `cluster=` concerns the own cluster alone, and one that names several
runs on each in turn: not as one transaction. The header of a table is printed once.
"""

from collections.abc import Callable

from cli.accounts.tree import AssociationTree
from cli.accounts.words import ParsedLine
from cli.base.clusters import in_turn
from cli.base.options import OptionValues
from cli.base.run import CommandError, complain
from penstock.client import Client
from penstock.clusterfile import ClusterFile
from penstock.clusters import known_clusters
from penstock.errors import PenstockError
from penstock.v1.shares_pb2 import ListAssociationsReply

NAME = "sacctmgr"


def on_named(
    said: ParsedLine,
    options: OptionValues,
    act: Callable[[Client, ParsedLine, OptionValues], int],
    key: str = "cluster",
    *,
    needs_all: bool = False,
) -> int:
    """Runs a line on each cluster that it names, by default on the own one. `key`: the condition with the names. Unless
    the line needs all of them, a cluster that is not known is one that has nothing."""
    with Client.open() as client:
        names = said.conditions.get(key, [])
        known = known_clusters(client.cluster) if names and not needs_all else {}
        names = names if needs_all else [name for name in names if name in known]
        if not names or all(name == client.cluster.cluster_name for name in names):
            return act(client, said, options)
        found = _find(names, client.cluster)

    def on_one(client: Client, number: int) -> int:
        own = said._replace(conditions=said.conditions | {key: [client.cluster.cluster_name]})
        return act(client, own, OptionValues(options, noheader=True) if number else options)

    return in_turn(NAME, found, on_one)


def _find(names: list[str], own: ClusterFile) -> list[ClusterFile]:
    known = known_clusters(own)
    for name in names:
        if name not in known:
            raise CommandError(
                f" This cluster '{name}' doesn't exist.\n        Contact your admin to add it to accounting.",
                plain=True,
            )
    return [known[name] for name in dict.fromkeys(names)]


def load_trees(client: Client, with_deleted: bool) -> list[AssociationTree]:
    """Loads the accounts of all known clusters. One that does not answer is reported, and shown without its address, as a
    cluster in Slurm whose controller has not registered.
    """
    trees = []
    for cluster in known_clusters(client.cluster).values():
        if cluster == client.cluster:
            trees.append(AssociationTree.load(client, with_deleted))
            continue
        try:
            with Client.open(cluster=cluster) as other:
                trees.append(AssociationTree.load(other, with_deleted))
        except PenstockError as error:
            complain(NAME, f"{NAME}: cluster {cluster.cluster_name}: {error.text}", plain=True)
            trees.append(AssociationTree.of(ListAssociationsReply(cluster=cluster.cluster_name)))
    return trees
