"""Several clusters in sacctmgr: `show cluster` lists all that this machine knows, and `cluster=` names those of a line.

Each cluster keeps its own accounts, so a line without `cluster=` concerns the own cluster alone, and one that names several
runs on each in turn: not as one transaction. The header of a table is printed once. What is only shown of a cluster whose
controller does not answer comes from the own controller's database, if it is there.
"""

from collections.abc import Callable

from cli.accounts.tree import AssociationTree
from cli.accounts.words import ParsedLine
from cli.base.clusters import in_turn, read_one, with_registered
from cli.base.neighbours import is_only_registered, why_only_read
from cli.base.options import OptionValues
from cli.base.run import CommandError, complain
from penstock.client import Client
from penstock.clusters import known_clusters
from penstock.errors import PenstockError, Unreachable
from penstock.v1.shares_pb2 import ListAssociationsReply

NAME = "sacctmgr"


def on_named(
    said: ParsedLine,
    options: OptionValues,
    act: Callable[[Client, ParsedLine, OptionValues], int],
    key: str = "cluster",
    *,
    needs_all: bool = False,
    changes: bool = True,
) -> int:
    """Runs a line on each cluster that it names, by default on the own one. `key`: the condition with the names. Unless
    the line needs all of them, a cluster that is not known is one that has nothing. A line that changes something needs
    each cluster's own controller."""
    with Client.open() as client:
        names = said.conditions.get(key, [])
        if not names or all(name == client.cluster.cluster_name for name in names):
            return act(client, said, options)
        known = known_clusters(client.cluster)
        if any(name not in known for name in names):
            known = with_registered(NAME, known, client)
        if needs_all and (unknown := [name for name in names if name not in known]):
            raise CommandError(
                f" This cluster '{unknown[0]}' doesn't exist.\n        Contact your admin to add it to accounting.",
                plain=True,
            )
        found = [known[name] for name in dict.fromkeys(names) if name in known]
        if changes and (read_only := [one.cluster_name for one in found if is_only_registered(one)]):
            raise CommandError(why_only_read(read_only[0]))
        if not found:
            return act(client, said, options)

        def on_one(client: Client, number: int) -> int:
            own = said._replace(conditions=said.conditions | {key: [client.cluster.cluster_name]})
            try:
                return act(client, own, OptionValues(options, noheader=True) if number else options)
            except Unreachable as error:
                if not changes:
                    raise  # another client may have the answer
                text = f"{error.text}: a change of cluster {client.cluster.cluster_name} needs its controller to be up"
                raise CommandError(text, detail=error.detail) from error

        return in_turn(NAME, found, on_one, None if changes else client)


def load_trees(client: Client, with_deleted: bool) -> list[AssociationTree]:
    """Loads the accounts of all known clusters. One that does not answer is reported, and shown without its address, as a
    cluster in Slurm whose controller has not registered.
    """
    trees = []
    for cluster in with_registered(NAME, known_clusters(client.cluster), client).values():
        try:
            trees.append(read_one(cluster, lambda other: AssociationTree.load(other, with_deleted), client))
        except PenstockError as error:
            if cluster == client.cluster:
                raise
            complain(NAME, f"{NAME}: cluster {cluster.cluster_name}: {error.text}", plain=True)
            trees.append(AssociationTree.of(ListAssociationsReply(cluster=cluster.cluster_name)))
    return trees
