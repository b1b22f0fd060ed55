"""Shares of GPUs (GRES shard and mps): how many of a node's belong to each of its GPUs, and what does not add up.

`Gres=gpu:8,shard:32` gives each GPU four: the shares are spread evenly, over the GPUs of its type if the share has one.
Lines of gres.conf may say otherwise, each with the File of its GPUs: a line's Count is spread evenly over its files. That
needs the files of the GPUs too, so that it can be seen which is which.
"""

from dataclasses import replace

from penstock.config.problem import Findings, Where
from penstock.values.config import NodeConfig
from penstock.values.gres import SHARED_NAMES, SHARES_OF_GPU_MAX, Gres

#: A line of gres.conf for a share: (type, count, files).
Line = tuple[str, int, tuple[str, ...]]


def with_shares(
    node: NodeConfig, lines: dict[str, list[Line]], gpu_files: tuple[str, ...], where: Where, findings: Findings
) -> NodeConfig:
    """The node with `units` for shares that are not spread evenly. `gpu_files` by index; () = not known."""
    types = [one.type for one in node.gres if one.name == "gpu" for _ in range(one.count)]
    gres = list(node.gres)
    for at, one in enumerate(gres):
        if one.name not in SHARED_NAMES:
            continue
        having = [gpu for gpu, type_ in enumerate(types) if one.type in ("", type_)]
        units = _by_file(one, lines.get(one.name, []), gpu_files)
        if not having:
            which = f"of type {one.type}" if one.type else "in its Gres"
            findings.error(where, f"node {node.name} has {one.count} {one.name} and no gpu {which} to share")
        elif not units and one.count % len(having):
            findings.error(
                where,
                f"node {node.name} has {one.count} {one.name} for {len(having)} GPUs, which cannot be spread evenly: "
                f"write a multiple of {len(having)}, or a line with File and Count for each GPU into gres.conf",
            )
        elif max(units, default=one.count // len(having)) > SHARES_OF_GPU_MAX:
            findings.error(where, f"node {node.name} has more than {SHARES_OF_GPU_MAX} {one.name} for one GPU")
        else:
            gres[at] = replace(one, units=units)
    return replace(node, gres=tuple(gres))


def _by_file(one: Gres, lines: list[Line], gpu_files: tuple[str, ...]) -> tuple[int, ...]:
    """Shares of each GPU as the lines' files say; () when they do not, or say that all have the same."""
    mine = [line for line in lines if one.type in ("", line[0]) or not line[0]]
    units = dict.fromkeys(gpu_files, 0)
    for _, count, files in mine:
        if not files or count % len(files) or any(file not in units for file in files):
            return ()
        for file in files:
            units[file] += count // len(files)
    found = tuple(units.values())
    return found if sum(found) == one.count and len(set(found)) > 1 else ()
