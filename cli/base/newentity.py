"""A partition or node that is made at run time: the words of its line of slurm.conf, as settings.

`scontrol create partition|node` and the REST interface read them here. Values are validated by the controller.
"""

from collections.abc import Iterable
from typing import NamedTuple

from cli.base.run import CommandError


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


PARTITION, NODE = "partition", "node"
ENTITIES = {"partition": PARTITION, "partitionname": PARTITION, "node": NODE, "nodename": NODE, "nodes": NODE}
#: Keys of slurm.conf's lines, by entity. The controller rejects those that it does not use.
KEYS = {
    PARTITION: _words(
        "allocnodes allowaccounts allowgroups allowqos alternate cpubind default defaulttime defcpupergpu defmempercpu "
        "defmempergpu defmempernode denyaccounts denyqos disablerootjobs exclusive exclusivetopo exclusiveuser gracetime "
        "hidden jobdefaults lln maxcpuspernode maxcpuspersocket maxmempercpu maxmempernode maxnodes maxtime minnodes nodes "
        "oversubscribe overtimelimit powerdownonidle preemptmode priority priorityjobfactor prioritytier qos reqresv "
        "resumetimeout rootonly selecttypeparameters shared state suspendtime suspendtimeout topology tresbillingweights "
        "penstockallownewprivs"
    ),
    NODE: _words(
        "bcastaddr boards corespeccount corespersocket cpubind cpus cpuspeclist feature features gres memspeclimit nodeaddr "
        "nodehostname parameters port procs realmemory reason restrictedcorespergpu sockets socketsperboard state "
        "threadspercore tmpdisk topology weight"
    ),
}


def entity_of(word: str) -> str | None:
    """partition, node, or None."""
    lowered = word.partition("=")[0].lower()
    return ENTITIES.get(lowered) or next(
        (found for name, found in ENTITIES.items() if len(lowered) >= 3 and name.startswith(lowered)), None
    )


class NewEntity(NamedTuple):
    """A name, and the settings by key."""

    name: str
    changes: dict[str, str]


def read_words(words: Iterable[str], entity: str, name: str = "") -> NewEntity:
    """Parses the words of slurm.conf's line, of which one may give the name. Raises CommandError."""
    changes: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        lowered = key.lower()
        if not equals:
            raise CommandError(f"Invalid input: {word}  Request aborted")
        quoted = len(value) >= 2 and value[0] in "\"'" and value[-1] == value[0]
        value = value[1:-1] if quoted else value
        if ENTITIES.get(lowered) == entity and lowered != "nodes":
            name = value
        elif lowered not in KEYS[entity]:
            raise CommandError(f"Update of this parameter is not supported: {word}\n\nRequest aborted")
        elif lowered in changes:
            raise CommandError(f"{key} is given more than once\nRequest aborted")
        else:
            changes[lowered] = value
    if not name:
        missing = "PartitionName" if entity == PARTITION else "NodeName"
        raise CommandError(f"{missing} must be given.", plain=True)
    return NewEntity(name, changes)
