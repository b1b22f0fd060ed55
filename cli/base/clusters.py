"""The clusters that -M, --clusters or SLURM_CLUSTERS name, and commands that run on one or on each of them.

Without a name a command uses its own cluster and reads no other file. Names that no file of this machine has are
reported in Slurm's words; the command continues with the others. A cluster that does not answer fails alone, unless the
command only reads accounting and the own controller has it in its database (`own`; neighbours.py).
"""

from collections.abc import Callable
from typing import TypeVar

from cli.base.listing import repeat, words
from cli.base.options import OptionValues
from cli.base.run import STATUS_BROKEN_PIPE, STATUS_INTERRUPTED, CommandError, complain, status_of
from penstock.client import Client
from penstock.clusterfile import ClusterFile
from penstock.errors import PenstockError, Unreachable

ALL = "all"
_Found = TypeVar("_Found")
#: What a command does on one cluster: `is_named` asks for the heading with the cluster's name.
_Report = Callable[[Client, bool], int]


def named_clusters(command: str, text: str | None, own: ClusterFile, reader: Client | None = None) -> list[ClusterFile]:
    """Resolves the names, each once, in their order; `all` is all known clusters by name. Raises CommandError when none is
    known. `reader`: the own client of a command that only reads accounting, which knows those of the database as well.
    """
    names = list(dict.fromkeys(word.lower() for word in words(text)))
    if all(name == own.cluster_name for name in names):
        return [own]
    from penstock.clusters import known_clusters

    known = known_clusters(own)
    if reader is not None and any(name not in known for name in names):
        known = with_registered(command, known, reader)
    if ALL in names:
        return list(known.values())
    for name in names:
        if name not in known:
            complain(command, f"No cluster '{name}' known by database.")
    found = [known[name] for name in names if name in known]
    if not found:
        raise CommandError(
            f"'{text}' can't be reached now, or it is an invalid entry for --cluster.  "
            "Use 'sacctmgr list clusters' to see available clusters."
        )
    return found


def with_registered(command: str, known: dict[str, ClusterFile], own: Client) -> dict[str, ClusterFile]:
    """The known clusters with those that are in the own controller's database alone, by name. A database that cannot be
    read is reported, and the command continues with those that it knows."""
    from cli.base.neighbours import only_registered, registered

    try:
        more = registered(own)
    except PenstockError as error:
        complain(command, error.text)
        more = []
    return dict(sorted(({name: only_registered(name) for name in more} | known).items()))


def one_cluster(command: str, text: str | None, own: ClusterFile) -> ClusterFile:
    """Resolves the names for a command that uses a single cluster. Raises CommandError for several."""
    found = named_clusters(command, text, own)
    if len(found) > 1:
        raise CommandError(f"Only one cluster can be used at a time with {command}", level="fatal")
    return found[0]


def open_one(command: str, text: str | None) -> Client:
    """Opens a client of the one named cluster, which find_cluster() returns afterwards."""
    client = Client.open()
    chosen = one_cluster(command, text, client.cluster)
    if chosen == client.cluster:
        return client
    from penstock.clusters import select_cluster

    select_cluster(chosen, client.cluster)
    return Client.open(cluster=chosen)


def on_each(
    command: str, options: OptionValues, report: _Report, *, document: bool = False, reads_accounting: bool = False
) -> int:
    """Runs a report on each named cluster, repeatedly with --iterate, with a heading before each. `document`: the output is
    JSON or YAML, one document a cluster, and has no headings. `reads_accounting`: the report only reads accounting, also of
    clusters that are in the own controller's database alone.
    """
    text, iterate = options.text("clusters"), options.of(str, "iterate")

    def section(client: Client, number: int) -> int:
        if not document:
            gap = "\n" if number else ""
            print(f"{gap}CLUSTER: {client.cluster.cluster_name}")  # noqa: T201
        return report(client, False)

    with Client.open() as client:
        reader = client if reads_accounting else None
        found = named_clusters(command, text, client.cluster, reader)
        if found == [client.cluster]:
            return repeat(command, iterate, lambda: report(client, bool(words(text))))
        return repeat(command, iterate, lambda: in_turn(command, found, section, reader))


def in_turn(
    command: str, clusters: list[ClusterFile], act: Callable[[Client, int], int], own: Client | None = None
) -> int:
    """Runs `act` with a client of each cluster and its number. A failure is reported, and the next cluster's turn comes;
    returns the highest status. `own`: what only reads accounting goes to this client's controller where another does not answer.
    """
    status = 0
    for number, cluster in enumerate(clusters):
        status = max(status, _guarded(command, cluster, number, act, own))
        if status in (STATUS_INTERRUPTED, STATUS_BROKEN_PIPE):
            break
    return status


def collect(
    command: str, clusters: list[ClusterFile], load: Callable[[Client], _Found], own: Client
) -> tuple[list[_Found], int]:
    """Loads from each cluster what one table shows of all; with the exit status."""
    found: list[_Found] = []

    def take(client: Client, number: int) -> int:
        found.append(load(client))
        return 0

    status = in_turn(command, clusters, take, own)
    return found, status


def _guarded(
    command: str, cluster: ClusterFile, number: int, act: Callable[[Client, int], int], own: Client | None
) -> int:
    def body(argv: list[str]) -> int:
        return read_one(cluster, lambda client: act(client, number), own)

    return status_of(command, body, [])


def read_one(cluster: ClusterFile, act: Callable[[Client], _Found], own: Client | None) -> _Found:
    """Runs `act` with a client of the cluster, or with `own` for what that can read of it."""
    if own is not None and cluster == own.cluster:
        return act(own)
    from cli.base.neighbours import NeighbourClient, is_only_registered, registered

    if own is None or not is_only_registered(cluster):
        try:
            with Client.open(cluster=cluster) as client:
                return act(client)
        except Unreachable:
            if own is None or cluster.cluster_name not in registered(own):
                raise
    with NeighbourClient(own, cluster.cluster_name) as client:
        return act(client)
