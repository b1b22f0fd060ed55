"""Clusters for scenarios about places: switches, blocks, features, sockets, devices. All nodes are called n1, n2, ...

`site` reads keys (each `key=value`, all of them optional):
    nodes=8 mem=4000 gpus=0 cpus=4              as in `cluster`; cpus follows from the next three where they are given
    sockets=2 cores=4 threads=2                 of each node
    system=2,3,6,7 system_mb=1000               CPUs and memory of each node for the system
    near=0,0,1,1                                the socket of each GPU
    links=-1,2,1;2,-1,1;1,1,-1                  the links of each GPU
    leaves=4,4 / blocks=4,4 block_sizes=4,8     topology/tree with one switch above all leaves / topology/block
    features=n1:a+b;n[2-3]:a                    by node
    lln                                         of the partition
    hres=flat/2;top/n[1-4]/24;low/n[1-2]/12     a hierarchical resource (MODE_2), its layers; several: with |
    KEY=VALUE                                   any field of Config
"""

from collections.abc import Callable
from dataclasses import replace

from penstock.values.config import Config, DeviceConfig
from penstock.values.hostlist import expand
from penstock.values.hres import Hres, HresLayer
from penstock.values.licenses import parse_licenses
from penstock.values.topology import Switch, Topology
from tests.core.world import make_config


def make_site(flags: list[str], keys: dict[str, str], value: Callable[[str], object]) -> Config:
    """The configuration that the keys describe; `value` reads fields of Config."""
    take = lambda key, default: int(keys.pop(key, default))  # noqa: E731
    sockets, cores, threads = take("sockets", 1), take("cores", 0), take("threads", 1)
    shape = {key: take(key, default) for key, default in (("nodes", 2), ("gpus", 0), ("cpus", 4))}
    shape["cpus"] = sockets * cores * threads if cores else shape["cpus"]
    shape["mem_mb"], system_mb = take("mem", 4000), take("system_mb", 0)
    system = sum(1 << cpu for cpu in _numbers(keys.pop("system", "")))
    near, links = _numbers(keys.pop("near", "")), [_numbers(text) for text in keys.pop("links", "").split(";") if text]
    groups = {kind: _numbers(keys.pop(kind, "")) for kind in ("leaves", "blocks")}
    sizes = tuple(_numbers(keys.pop("block_sizes", "")))
    features = _features(keys.pop("features", ""))
    more: dict[str, object] = {key: value(text) for key, text in keys.items()}
    for key, read in (
        ("licenses", parse_licenses),
        ("hres", _hres),
        ("select_type_parameters", lambda text: tuple(text.split(","))),
    ):
        if key in keys:
            more[key] = read(keys[key])
    config = make_config(**shape, **more)  # type: ignore[arg-type]  # keywords of many types
    devices = tuple(
        DeviceConfig("gpu", tuple(range(place * cores, (place + 1) * cores)), tuple(links[i]) if links else ())
        for i, place in enumerate(near)
    )
    nodes = tuple(
        replace(
            node, sockets=sockets, cores_per_socket=cores or node.cpus // sockets, threads_per_core=threads,
            features=features.get(node.name, ()), devices=devices, specialized_cpus=system, mem_spec_limit_mb=system_mb,
        )
        for node in config.nodes
    )  # fmt: skip
    partitions = tuple(replace(partition, lln="lln" in flags) for partition in config.partitions)
    topology = _topology(groups, sizes, [node.name for node in nodes])
    return replace(config, nodes=nodes, partitions=partitions, topology=topology)


def _hres(text: str) -> tuple[Hres, ...]:
    found = []
    for one in text.split("|"):
        head, *layers = [word.split("/") for word in one.split(";")]
        made = [HresLayer(name, tuple(expand(nodes)), int(n), int(n)) for name, nodes, n in layers]
        found.append(Hres(head[0], int(head[1]), tuple(made), (("all", 3),)))
    return tuple(found)


def _numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",") if word]


def _features(text: str) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for entry in filter(None, text.split(";")):
        names, _, words = entry.partition(":")
        found |= dict.fromkeys(expand(names), tuple(words.split("+")))
    return found


def _topology(groups: dict[str, list[int]], sizes: tuple[int, ...], names: list[str]) -> Topology:
    counts, letter = groups["leaves"] or groups["blocks"], "s" if groups["leaves"] else "b"
    base, first = [], 0
    for i, count in enumerate(counts, start=1):
        base.append(Switch(f"{letter}{i}", 0, tuple(names[first : first + count])))
        first += count
    if not base:
        return Topology()
    inside = tuple(names[:first])
    if groups["leaves"]:
        return Topology("tree", (*base, Switch("top", 1, inside, tuple(s.name for s in base))))
    return Topology("block", tuple(base), sizes)
