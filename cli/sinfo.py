"""sinfo: the partitions and their nodes.

Two calls (ListPartitions, ListNodes), one table. Every pair of partition and node that passes the filters joins the
line of the pairs that look the same in the fields that the format shows (cli.sinfo_fields says which fields tell lines
apart). A partition that has no such node still has a line (`0 n/a`), except in reports about nodes (-N, -R).
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from cli.document import DOCUMENT_OPTIONS, is_wanted
from cli.format import Clock, Column, body_line, header_line, parse_names, parse_percent
from cli.listing import check_clusters, date_line, emit, environment, now_us, repeat, sort_rows, tell_of_limits, words
from cli.nodestate import StateFilter, parse_states
from cli.options import YES, Command, Option, parse
from cli.reservation import table
from cli.run import CommandError, complain, run
from cli.sinfo_fields import LETTERS, NAMES, Group, NodeView, sort_key
from penstock.client import Client
from penstock.v1.controller_pb2 import (
    ListNodesRequest,
    ListPartitionsRequest,
    ListReservationsRequest,
    NodeInfo,
    PartitionInfo,
)
from penstock.values.errors import BadValue
from penstock.values.hostlist import expand

# "#" stands for the width of the longest partition name or node list.
FORMAT = "%#P %.5a %.10l %.6D %.6t %N"
FORMAT_LONG = "%#P %.5a %.10l %.10s %.4r %.8h %.10g %.6D %.11T %.11i %N"
FORMAT_SUMMARY = "%#P %.5a %.10l %.16F %N"
FORMAT_NODES = "%#N %.6D %.#P %6t"
FORMAT_NODES_LONG = "%#N %.6D %.#P %.11T %4c %.8z %.6m %.8d %.6w %.8f %20E"
FORMAT_REASONS = "%20E %9u %19H %N"
FORMAT_REASONS_LONG = "%20E %12U %19H %6t %N"
PARTITION_WIDTH_MIN = 9
NODES_WIDTH_MIN = 9
#: Nodes that -R is about.
REASON_STATES = "down,drain,fail"
STATE_WORDS = (
    "unknown,down,idle,allocated,mixed,future,drain,drained,draining,no_respond,reserved,perfctrs,cloud,completing,"
    "powering_down,powered_down,power_down,powering_up,fail,maint,reboot,reboot^,inval,planned"
)

COMMAND = Command(
    "sinfo",
    "[OPTIONS]",
    (
        Option("future", "F", help="also nodes that are not there yet (FUTURE)"),
        Option("all", "a", env="SINFO_ALL", help="show all partitions, also hidden ones"),
        Option("dead", "d", help="show only non-responding nodes"),
        Option("exact", "e", help="group nodes only on exact match of configuration"),
        Option("noheader", "h", help="no headers on output"),
        Option("hide", help="do not show hidden partitions (the default)"),
        Option("iterate", "i", YES, help="repeat the report every so many seconds", metavar="seconds"),
        *DOCUMENT_OPTIONS,
        Option("long", "l", help="long output - displays more information"),
        Option("local", env="SINFO_LOCAL", help="show the local cluster only (the default)"),
        Option("federation", env="SINFO_FEDERATION", help="the same, as no cluster is a member of one"),
        Option("clusters", "M", YES, "SLURM_CLUSTERS", "name the cluster to ask, or all", "names"),
        Option("cluster", "", YES, dest="clusters"),
        Option("nodes", "n", YES, help="report on specific node(s)", metavar="NODES"),
        Option("noconvert", help="do not convert units (2048M stays, not 2G)"),
        Option("Node", "N", help="Node-centric format"),
        Option("format", "o", YES, "SINFO_FORMAT", "format specification", "format"),
        Option("Format", "O", YES, help="long format specification", metavar="format"),
        Option("partition", "p", YES, "SINFO_PARTITION", "report on specific partition(s)", "PARTITION"),
        Option("responding", "r", help="report only responding nodes"),
        Option("list-reasons", "R", help="list reason nodes are down or drained"),
        Option("summarize", "s", help="report state summary only"),
        Option("sort", "S", YES, "SINFO_SORT", "comma separated list of fields to sort on", "fields"),
        Option("states", "t", YES, help="the states of nodes to view (a,b or a&b, !a)", metavar="node_state"),
        Option("reservation", "T", help="show only reservation information"),
        Option("verbose", "v", help="verbosity level", counted=True),
    ),
)


def main() -> None:
    """The command sinfo."""
    run("sinfo", body)


def body(argv: list[str]) -> int:
    """One run of sinfo. Words that are no options are ignored, as Slurm ignores them."""
    options = parse(COMMAND, argv, environment()).values
    given = parse(COMMAND, argv).values
    states = _state_filter(options)
    with Client.open() as client:
        tell_of_limits("sinfo", client, options)
        heading = check_clusters(options.get("clusters"), client.cluster.cluster_name)
        return repeat("sinfo", options.get("iterate"), lambda: _report(client, options, given, states, heading))


def _state_filter(options: dict[str, Any]) -> StateFilter | None:
    if options.get("states") == "":
        return StateFilter(())
    text = options.get("states") or (REASON_STATES if options.get("list_reasons") else "")
    try:
        return parse_states(text) if text else None
    except BadValue as error:
        raise CommandError(f'Bad state string: "{error}"\nvalid states: {STATE_WORDS}') from error


def _report(
    client: Client, options: dict[str, Any], given: dict[str, Any], states: StateFilter | None, heading: bool
) -> int:
    clock = Clock.of_environment(now_us())
    view = NodeView(clock, not options.get("noconvert"), client.cluster.cluster_name)
    lines = [f"CLUSTER: {view.cluster}"] if heading else []
    hide_hidden = not (options.get("all") or options.get("partition"))
    partitions = list(client.call("ListPartitions", ListPartitionsRequest(hide_hidden=hide_hidden)).partitions)
    if options.get("reservation"):
        found = client.call("ListReservations", ListReservationsRequest()).reservations
        emit(lines + table(found, clock.now_us, clock.style, header=not options.get("noheader")))
        return 0
    nodes = list(client.call("ListNodes", ListNodesRequest()).nodes)
    if not (options.get("future") or "fut" in options.get("states", "").lower()):
        nodes = [node for node in nodes if node.base_state != "FUTURE"]
    pairs = list(select(partitions, nodes, options, states))
    if is_wanted(options):
        from cli.document import write_document
        from cli.jsonsinfo import nodes_document

        write_document(nodes_document(pairs, view.cluster, clock.now_us, by_node=bool(options.get("Node"))), options)
        return 0
    text, columns = make_columns(options, given)
    groups = make_groups(pairs, columns, options, view)
    sort_rows(
        groups, _sort_text(options), lambda letter: sort_key(letter) if letter[-1:].isalpha() else _unsorted, view
    )
    columns = _fit(text, columns, groups, view)
    if not options.get("noheader"):
        if options.get("long") or options.get("iterate"):
            lines.append(date_line(clock.now_us))
        lines.append(header_line(columns))
    emit(chain(lines, (body_line(columns, group, view) for group in groups)))
    return 0


Pair = tuple[int, PartitionInfo, list[NodeInfo]]


def select(
    partitions: Iterable[PartitionInfo],
    nodes: Iterable[NodeInfo],
    options: dict[str, Any],
    states: StateFilter | None,
) -> Iterator[Pair]:
    """The partitions to show, in the configuration's order, each with those of its nodes that are to be shown."""
    wanted = set(words(options.get("partition")))
    names = set(expand(options["nodes"])) if options.get("nodes") else None
    by_name = {node.name: node for node in nodes if _is_shown(node, options, names, states)}
    for position, partition in enumerate(partitions):
        if "partition" in options and partition.name not in wanted:
            continue
        yield position, partition, [by_name[name] for name in partition.nodes if name in by_name]


def _is_shown(node: NodeInfo, options: dict[str, Any], names: set[str] | None, states: StateFilter | None) -> bool:
    silent = "NO_RESPOND" in node.flags
    if (options.get("dead") and not silent) or (options.get("responding") and silent):
        return False
    if names is not None and node.name not in names and node.hostname not in names:
        return False
    return states is None or states.takes(node)


def _unsorted(group: Group, view: NodeView) -> int:
    """A sign that is no letter: sinfo says nothing of it, as Slurm's."""
    return 0


def make_columns(options: dict[str, Any], given: dict[str, Any]) -> tuple[str, list[Column]]:
    """The format's text ("" for -O) and columns."""
    if "Format" in given and "format" not in given:
        if given["Format"].lower() == "all":
            columns, unknown = parse_percent("%all", LETTERS)
        else:
            columns, unknown = parse_names(given["Format"], NAMES)
        for part in unknown:
            complain("sinfo", f"Invalid job format specification: {part.what}")
        return "", columns
    text = _format_text(options, given)
    columns, unknown = parse_percent(text.replace("#", "") if text in _SIZED else text, LETTERS)
    for part in unknown:
        complain("sinfo", f"Invalid node format specification: {part.what}", plain=True)
    return text, columns


_SIZED = frozenset((FORMAT, FORMAT_LONG, FORMAT_SUMMARY, FORMAT_NODES, FORMAT_NODES_LONG))


def _format_text(options: dict[str, Any], given: dict[str, Any]) -> str:
    if "format" in given:
        return str(given["format"])
    is_long = bool(options.get("long"))
    if options.get("summarize"):
        return FORMAT_SUMMARY
    if options.get("Node"):
        return FORMAT_NODES_LONG if is_long else FORMAT_NODES
    if options.get("list_reasons"):
        return FORMAT_REASONS_LONG if is_long else FORMAT_REASONS
    return str(options.get("format") or (FORMAT_LONG if is_long else FORMAT))


def _fit(text: str, columns: list[Column], groups: list[Group], view: NodeView) -> list[Column]:
    """Widths that depend on what is shown."""
    if text not in _SIZED:
        return columns
    at_least = {"P": PARTITION_WIDTH_MIN} | ({"N": NODES_WIDTH_MIN} if "%#N" in text else {})
    fitted = []
    for column in columns:
        for letter, width in at_least.items():
            field = LETTERS[letter]
            if column.field is field:
                needed = (len(field.value(group, view)) for group in groups)
                column = column._replace(width=max(width, *needed, 0))
        fitted.append(column)
    return fitted


def make_groups(pairs: Iterable[Pair], columns: list[Column], options: dict[str, Any], view: NodeView) -> list[Group]:
    """Put what looks alike on one line."""
    exact = bool(options.get("exact"))
    one_by_one = bool(options.get("Node"))
    shows_partition = any(c.field in (LETTERS["P"], LETTERS["R"]) for c in columns)
    about_nodes = one_by_one or bool(options.get("list_reasons")) or not shows_partition
    fields = [f for f in (c.field for c in columns) if f and (f.splits or (exact and f not in _COUNTED))]
    if exact and any(c.field is LETTERS["C"] for c in columns):
        fields.append(LETTERS["c"])
    groups: dict[tuple[str, ...], Group] = {}
    seen: dict[tuple[str, ...], set[str]] = {}
    for position, partition, nodes in pairs:
        for one in [[node] for node in nodes] or ([] if about_nodes else [[]]):
            alone = Group(partition, one, position)
            key = tuple(field.value(alone, view) for field in fields)
            if one_by_one:
                key = (partition.name, one[0].name, *key)
            group = groups.setdefault(key, Group(partition, [], position))
            names = seen.setdefault(key, set())
            if one and one[0].name not in names:  # a node that is in two partitions counts once
                names.add(one[0].name)
                group.nodes.append(one[0])
    return list(groups.values())


#: Fields that count or list a line's nodes: they tell nothing apart, not even with -e.
_COUNTED = frozenset(LETTERS[letter] for letter in "ACDFN")


def _sort_text(options: dict[str, Any]) -> str:
    default = "N" if options.get("Node") else "-t" if options.get("list_reasons") else "#P,-t"
    return str(options.get("sort", default))


if __name__ == "__main__":
    main()
