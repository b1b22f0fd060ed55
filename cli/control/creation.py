"""`scontrol create|delete partition|node`: parses the words and sends the request. Values are validated by the
controller.

Both forms of Slurm are accepted: `create PartitionName=x KEY=VALUE` and `create partition x KEY=VALUE`, `delete
NodeName=x` and `delete node x`.
"""

from collections.abc import Iterable
from typing import NamedTuple

from cli.base.request import request_once
from cli.base.run import CommandError
from cli.control.keywords import NAME, KeywordCall, words_of
from penstock.v1 import controller_pb2 as pb

PARTITION, NODE = "partition", "node"
ENTITIES = {"partition": PARTITION, "partitionname": PARTITION, "node": NODE, "nodename": NODE, "nodes": NODE}
#: Keys of slurm.conf's lines, by entity. The controller rejects those that it does not use.
KEYS = {
    PARTITION: words_of(
        "allocnodes allowaccounts allowgroups allowqos alternate cpubind default defaulttime defcpupergpu defmempercpu "
        "defmempergpu defmempernode denyaccounts denyqos disablerootjobs exclusive exclusivetopo exclusiveuser gracetime "
        "hidden jobdefaults lln maxcpuspernode maxcpuspersocket maxmempercpu maxmempernode maxnodes maxtime minnodes nodes "
        "oversubscribe overtimelimit powerdownonidle preemptmode priority priorityjobfactor prioritytier qos reqresv "
        "resumetimeout rootonly selecttypeparameters shared state suspendtime suspendtimeout topology tresbillingweights "
        "penstockallownewprivs"
    ),
    NODE: words_of(
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


def create(call: KeywordCall, entity: str) -> int:
    """`create PartitionName=|NodeName=`."""
    name = ""
    first, *words = call.words
    if "=" in first:
        words = call.words
    elif words and "=" not in words[0]:
        name, *words = words
    elif not words:
        raise CommandError(f"Invalid input: {first}  Request aborted")
    new = read_words(words, entity, name)
    if entity == PARTITION:
        partition = pb.CreatePartitionRequest(name=new.name, changes=new.changes)
        request_once(NAME, "CreatePartition", partition, "Error creating the partition")
    else:
        nodes = pb.CreateNodesRequest(names=new.name, changes=new.changes)
        request_once(NAME, "CreateNodes", nodes, "Error creating the node(s)")
    return 0


def delete(call: KeywordCall, entity: str) -> int:
    """`delete PartitionName=|NodeName=`."""
    first, *words = call.words
    _, equals, name = first.partition("=")
    if not equals and len(words) == 1:
        name = words[0]
    elif words or not name:
        raise CommandError("Proper format is 'delete <ENTITY>=<ID>' or 'delete <ENTITY> <ID>'")
    if entity == PARTITION:
        request_once(
            NAME, "DeletePartition", pb.DeletePartitionRequest(name=name), f"delete_partition {' '.join(call.words)}"
        )
    else:
        request_once(NAME, "DeleteNodes", pb.DeleteNodesRequest(names=name), f"delete_node {' '.join(call.words)}")
    return 0
