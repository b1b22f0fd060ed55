"""`scontrol create|delete partition|node`: parses the words and sends the request. Values are validated by the
controller.

Both forms of Slurm are accepted: `create PartitionName=x KEY=VALUE` and `create partition x KEY=VALUE`, `delete
NodeName=x` and `delete node x`.
"""

from cli.base.newentity import PARTITION, read_words
from cli.base.request import request_once
from cli.base.run import CommandError
from cli.control.keywords import NAME, KeywordCall
from penstock.v1 import controller_pb2 as pb


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
        what = f"{NAME}: error: failed to delete nodes {name}\ndelete_node {' '.join(call.words)}"
        request_once(NAME, "DeleteNodes", pb.DeleteNodesRequest(names=name), what)
    return 0
