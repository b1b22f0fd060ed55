"""Distributes a node's shares of GPUs (GRES shard and mps) over its GPUs, and reports inconsistent counts.

By default shares are distributed evenly: `Gres=gpu:8,shard:32` gives each GPU four. A share with a type is distributed
over the GPUs of that type. Lines of gres.conf with File override this: a line's Count is distributed evenly over its
files. This requires the files of the GPUs, too, to identify them.
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
    """Adds `units` to shares of the node that are not evenly distributed. `gpu_files`: by index; () = unknown."""
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
    """Returns the shares of each GPU from the lines' files; () if the lines do not determine them, or all are equal."""
    mine = [line for line in lines if one.type in ("", line[0]) or not line[0]]
    units = dict.fromkeys(gpu_files, 0)
    for _, count, files in mine:
        if not files or count % len(files) or any(file not in units for file in files):
            return ()
        for file in files:
            units[file] += count // len(files)
    found = tuple(units.values())
    return found if sum(found) == one.count and len(set(found)) > 1 else ()
