"""sinfo --json: partitions and their nodes as lines of sinfo.

The structure is that of Slurm's data_parser (see cli.base.document): key `sinfo`, an item per line.
"""

import json
from collections.abc import Callable, Iterable

from cli.base.document import Json, document, number, time_object
from cli.listings.jsonpart import partition_object
from cli.listings.nodegres import gres, gres_used
from penstock.v1.controller_pb2 import NodeInfo, PartitionInfo

_Pair = tuple[int, PartitionInfo, list[NodeInfo]]


def nodes_document(pairs: Iterable[_Pair], cluster: str, now_us: int, by_node: bool) -> Json:
    """sinfo --json: nodes of a partition that are equal in all shown fields are one item (-N: each is one)."""
    items: list[Json] = []
    for _, partition, nodes in pairs:
        groups: dict[str, tuple[Json, list[NodeInfo]]] = {}
        for node in nodes:
            shown = node_group_object([node], partition, cluster)
            alike = {key: value for key, value in shown.items() if key != "nodes"}
            key = node.name if by_node else json.dumps(alike, sort_keys=True)
            groups.setdefault(key, (shown, []))[1].append(node)
        items += [node_group_object(members, partition, cluster) for _, members in groups.values()]
    return document("sinfo", items, cluster)


def node_group_object(nodes: list[NodeInfo], partition: PartitionInfo, cluster: str) -> Json:
    """One line of sinfo."""
    from cli.listings.nodestate import json_words
    from cli.listings.sinfo_fields import NodeGroup, counts, cpu_counts

    group = NodeGroup(partition, nodes)
    node = nodes[0]
    used, idle, other, total = counts(group)
    cpus_used, cpus_idle, cpus_other, cpus = cpu_counts(group)
    empty = "" if not node.gres else gres(node)
    free = [n.free_memory_mb if n.version else None for n in nodes]
    known = [mb for mb in free if mb is not None]
    return {
        "port": 0,
        "node": {"state": json_words(node)},
        "nodes": {
            "allocated": used,
            "idle": idle,
            "other": other,
            "total": total,
            "hostnames": [n.hostname or n.name for n in nodes],
            "addresses": [n.addr or n.name for n in nodes],
            "nodes": [n.name for n in nodes],
        },
        "cpus": {
            **_span(nodes, lambda n: n.cpus),
            "load": _span(nodes, lambda n: n.cpu_load_centi),
            "per_node": {"max": number(partition.max_cpus_per_node, infinite=partition.max_cpus_per_node <= 0)},
            "idle": cpus_idle,
            "allocated": cpus_used,
            "other": cpus_other,
            "total": cpus,
        },
        "sockets": _span(nodes, lambda n: n.sockets),
        "cores": _span(nodes, lambda n: n.cores_per_socket),
        "threads": _span(nodes, lambda n: n.threads_per_core),
        "disk": _span(nodes, lambda n: n.tmp_disk_mb),
        "memory": {
            **_span(nodes, lambda n: n.real_memory_mb),
            "free": {"minimum": number(min(known, default=None)), "maximum": number(max(known, default=None))},
            "allocated": sum(n.mem_alloc_mb for n in nodes),
        },
        "weight": _span(nodes, lambda n: n.weight),
        "features": {"total": ",".join(node.features), "active": ",".join(node.features), "planned": ""},
        "gres": {"total": empty, "used": gres_used(node)},
        "cluster": cluster,
        "comment": node.comment,
        "extra": "",
        "reason": {"description": node.reason, "time": time_object(node.reason_at_us), "user": node.reason_user},
        "reservation": node.reservation,
        "partition": partition_object(partition, cluster),
    }


def _span(nodes: Iterable[NodeInfo], value: Callable[[NodeInfo], int]) -> Json:
    values = [value(node) for node in nodes]
    return {"minimum": min(values), "maximum": max(values)}
