"""`scontrol show topology`, `topoconf` and `licenses`: the cluster's resources other than nodes.

The lines of a topology are Slurm's: one for each switch or block, the lowest level first. LinkSpeed is always 1: it is
parsed and not used. SLURM_TOPO_LEN is the most characters of a line.
"""

import os
from collections.abc import Iterator

from cli.base.run import CommandError, complain
from cli.control.keywords import NAME, KeywordCall, ask
from cli.listings.show import NULL
from penstock.cluster import find_cluster
from penstock.v1 import controller_pb2 as pb
from penstock.values.hostlist import expand
from penstock.values.numbers import is_digits


def show_topology(call: KeywordCall) -> int:
    """`show topology [[unit=]NAME] [[node=]NODE]`: all, one switch or block, or those above a node."""
    reply = _load()
    wanted = [word.partition("=")[2] or word for word in call.words]
    if not reply.switches:
        complain(NAME, _no_unit(wanted[0]) if wanted else "No topology information available")
        return 0
    for name in wanted or [""]:
        lines = [_line(reply, i) for i, one in enumerate(reply.switches) if not name or _is_about(one, name)]
        if not lines:
            raise CommandError(_no_unit(name))
        print("\n".join(line[: _line_chars_max()] for line in lines))  # noqa: T201
    return 0


def _no_unit(name: str) -> str:
    return f"Topology information contains no switch or node named {name}"


def _line_chars_max() -> int | None:
    """The most characters of a line; None = all of it."""
    text = os.environ.get("SLURM_TOPO_LEN", "")[:9]
    return int(text) if is_digits(text) and int(text) > 0 else None


def _load() -> pb.ShowTopologyReply:
    reply: pb.ShowTopologyReply = ask("ShowTopology", pb.ShowTopologyRequest(), "slurm_load_topo")
    return reply


def _is_about(one: pb.SwitchInfo, name: str) -> bool:
    return one.name == name or name in expand(one.nodes)


def _line(reply: pb.ShowTopologyReply, index: int) -> str:
    one = reply.switches[index]
    if reply.kind == "block":
        word = "AggregatedBlock" if one.level else "BlockName"
        return f"{word}={one.name} BlockIndex={index} Nodes={one.nodes} BlockSize={one.node_count}"
    line = f"SwitchName={one.name} Level={one.level} LinkSpeed=1 Nodes={one.nodes}"
    return f"{line} Switches={one.children}" if one.children else line


def show_topoconf(call: KeywordCall) -> int:
    """`show topoconf`: the topology in the syntax of topology.conf."""
    reply = _load()
    for one in reply.switches:
        if reply.kind == "tree":
            below = f"Switches={one.children}" if one.children else f"Nodes={one.nodes}"
            print(f"SwitchName={one.name} {below}")  # noqa: T201
        elif not one.level:
            print(f"BlockName={one.name} Nodes={one.nodes}")  # noqa: T201
    if reply.block_sizes:
        print(f"BlockSizes={','.join(map(str, reply.block_sizes))}")  # noqa: T201
    return 0


def _layer_lines(one: pb.LicenseInfo) -> Iterator[str]:
    """Returns what is shown of a layer of a hierarchical resource, beside its counts."""
    if not one.layer_name:
        return
    configured = "INFINITE" if one.count_configured < 0 else one.count_configured
    used = sum(int(entry.rpartition(":")[2]) for entry in one.base)
    yield (
        f"LayerName={one.layer_name} Nodes={one.nodes or NULL} Mode={one.mode} DisableHRES=false DisableLayer=false "
        f"ConfTotal={configured} BaseUsage={used}"
    )
    yield f"Base={','.join(one.base) or NULL}"


def show_licenses(call: KeywordCall) -> int:
    """`show licenses [NAME]`."""
    found = ask("ListLicenses", pb.ListLicensesRequest(), "slurm_load_licenses").licenses
    found = sorted(found, key=lambda one: one.name)  # layers keep the order of the file
    wanted = {name for word in call.words for name in word.split(",")}
    if call.wants_document():
        call.put_document(
            "licenses_document", [one for one in found if not wanted or one.name in wanted], find_cluster().cluster_name
        )
        return 0
    if not found and not wanted:
        print("No licenses configured in Slurm.")  # noqa: T201
    join = " " if call.options.flag("oneliner") else "\n    "
    for one in found:
        if not wanted or one.name in wanted:
            free = "INFINITE" if one.count_configured < 0 else max(0, one.total - one.used)
            total = "INFINITE" if one.count_configured < 0 else one.total
            counts = f"Total={total} Used={one.used} Free={free} Reserved={one.reserved} "
            counts += f"Remote={'yes' if one.remote else 'no'}"
            print(join.join((f"LicenseName={one.name}", counts, *_layer_lines(one))))  # noqa: T201
    missing = sorted(wanted - {one.name for one in found})
    for name in missing:
        complain(NAME, f"License {name} not found", plain=True)
    return 1 if missing else 0
