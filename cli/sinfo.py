"""sinfo: lists the partitions and their nodes.

Two calls (ListPartitions, ListNodes), one table. The pairs of partition and node that pass the filters are grouped into
lines by the shown fields (cli.listings.sinfo_fields says which fields separate lines). A partition without such a node
still has a line (`0 n/a`), except in reports about nodes (-N, -R).
"""

from collections.abc import Iterable, Iterator
from itertools import chain

from cli.base.clusters import on_each
from cli.base.document import DOCUMENT_OPTIONS, is_wanted
from cli.base.format import Column, DisplayClock, body_line, header_line, parse_names, parse_percent
from cli.base.listing import (
    FORMAT_OR_LONG,
    date_line,
    emit,
    environment,
    now_us,
    report_rate_limits,
    sort_rows,
    unsorted,
    words,
)
from cli.base.options import YES, Command, Option, OptionValues, parse
from cli.base.run import CommandError, complain, run
from cli.control.reservation import table
from cli.listings.nodestate import StateFilter, parse_states
from cli.listings.sinfo_fields import LETTERS, NAMES, NodeGroup, NodeView, sort_key
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
#: The states of nodes that -R lists.
REASON_STATES = "down,drain,fail"
STATE_WORDS = (
    "unknown,down,idle,allocated,mixed,future,drain,drained,draining,no_respond,reserved,perfctrs,cloud,completing,"
    "powering_down,powered_down,power_down,powering_up,fail,maint,reboot,reboot^,inval,planned"
)

COMMAND = Command(
    "sinfo",
    "[OPTIONS]",
    (
        Option("future", "F", help="also nodes that do not exist yet (FUTURE)"),
        Option("all", "a", env="SINFO_ALL", help="show all partitions, also hidden ones"),
        Option("dead", "d", help="show only non-responding nodes"),
        Option("exact", "e", help="group nodes only on exact match of configuration"),
        Option("noheader", "h", help="no headers on output"),
        Option("hide", help="do not show hidden partitions (the default)"),
        Option("iterate", "i", YES, help="repeat the report at this interval, in seconds", metavar="seconds"),
        *DOCUMENT_OPTIONS,
        Option("long", "l", help="long output - displays more information"),
        Option("local", env="SINFO_LOCAL", help="show the local cluster only (the default)"),
        Option("federation", env="SINFO_FEDERATION", help="the same, as no cluster is a member of one"),
        Option("clusters", "M", YES, "SLURM_CLUSTERS", "clusters to list one after the other, or all", "names"),
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
        Option("helpformat", help="list the letters of --format"),
        Option("helpFormat", help="list the fields of --Format"),
        Option("helpstate", help="list the states of --states"),
    ),
)


def main() -> None:
    """The command sinfo."""
    run("sinfo", body)


def body(argv: list[str]) -> int:
    """Runs sinfo once. Other arguments are ignored, as by Slurm."""
    options = parse(COMMAND, argv, environment()).values
    given = parse(COMMAND, argv).values
    if any(options.flag(name) for name in ("helpstate", "helpformat", "helpFormat")):
        from cli.listings.helplists import asked_lines

        emit(asked_lines(options, LETTERS, NAMES, STATE_WORDS.split(",")))
        return 0
    if given.flag("all") and given.text("partition"):
        raise CommandError("Conflicting options, -a and -p, specified. Please choose one or the other.")
    if given.flag("long") and {"format", "Format"} & given.keys():
        raise CommandError(f"sinfo: fatal: {FORMAT_OR_LONG}", plain=True)
    states = _state_filter(options)
    return on_each(
        "sinfo", options, lambda client, is_named: _report(client, options, given, states, is_named),
        document=is_wanted(options),
    )  # fmt: skip


def _state_filter(options: OptionValues) -> StateFilter | None:
    if options.get("states") == "":
        return StateFilter(())
    text = options.text("states") or (REASON_STATES if options.flag("list_reasons") else "")
    try:
        return parse_states(text) if text else None
    except BadValue as error:
        raise CommandError(f'Bad state string: "{error}"\nvalid states: {STATE_WORDS}') from error


def _report(
    client: Client, options: OptionValues, given: OptionValues, states: StateFilter | None, heading: bool
) -> int:
    report_rate_limits("sinfo", client, options)
    clock = DisplayClock.of_environment(now_us())
    view = NodeView(clock, not options.flag("noconvert"), client.cluster.cluster_name)
    lines = [f"CLUSTER: {view.cluster}"] if heading else []
    hide_hidden = not (options.flag("all") or options.text("partition"))
    partitions = list(client.call("ListPartitions", ListPartitionsRequest(hide_hidden=hide_hidden)).partitions)
    if options.flag("reservation"):
        found = client.call("ListReservations", ListReservationsRequest()).reservations
        emit(lines + table(found, clock.now_us, clock.style, header=not options.flag("noheader")))
        return 0
    nodes = list(client.call("ListNodes", ListNodesRequest()).nodes)
    if not (options.flag("future") or "fut" in options.text("states").lower()):
        nodes = [node for node in nodes if node.base_state != "FUTURE"]
    pairs = list(select(partitions, nodes, options, states))
    if is_wanted(options):
        from cli.base.document import write_document
        from cli.listings.jsonsinfo import nodes_document

        write_document(nodes_document(pairs, view.cluster, clock.now_us, by_node=options.flag("Node")), options)
        return 0
    text, columns = make_columns(options, given)
    if options.flag("verbose"):
        from cli.listings.verbose import head, sinfo_options

        is_default = not ("format" in options or "Format" in given)
        shown = sinfo_options(options, text or given.text("Format"), is_default, columns)
        lines += head(shown, clock.now_us, options, blank=1)
    groups = make_groups(pairs, columns, options, view)
    sort_rows(groups, _sort_text(options), lambda letter: sort_key(letter) or unsorted, view)
    columns = _fit(text, columns, groups, view)
    if not options.flag("noheader"):
        if (options.flag("long") or options.text("iterate")) and not options.flag("verbose"):
            lines.append(date_line(clock.now_us))
        lines.append(header_line(columns))
    emit(chain(lines, (body_line(columns, group, view) for group in groups)))
    return 0


_Pair = tuple[int, PartitionInfo, list[NodeInfo]]


def select(
    partitions: Iterable[PartitionInfo],
    nodes: Iterable[NodeInfo],
    options: OptionValues,
    states: StateFilter | None,
) -> Iterator[_Pair]:
    """The partitions to show, in the configuration's order, each with those of its nodes that are to be shown."""
    wanted = set(words(options.text("partition")))
    names = set(expand(options.text("nodes"))) if "nodes" in options else None
    by_name = {node.name: node for node in nodes if _is_shown(node, options, names, states)}
    for position, partition in enumerate(partitions):
        if "partition" in options and partition.name not in wanted:
            continue
        yield position, partition, [by_name[name] for name in partition.nodes if name in by_name]


def _is_shown(node: NodeInfo, options: OptionValues, names: set[str] | None, states: StateFilter | None) -> bool:
    silent = "NO_RESPOND" in node.flags
    if (options.flag("dead") and not silent) or (options.flag("responding") and silent):
        return False
    if names is not None and node.name not in names and node.hostname not in names:
        return False
    if node.is_warning and options.flag("list_reasons") and "states" not in options:
        return True  # its state is good so far, and its reason announces a problem
    return states is None or states.takes(node)


def make_columns(options: OptionValues, given: OptionValues) -> tuple[str, list[Column]]:
    """The format's text ("" for -O) and columns."""
    if "Format" in given and "format" not in given:
        if given.text("Format").lower() == "all":
            columns, unknown = parse_percent("%all", LETTERS)
        else:
            columns, unknown = parse_names(given.text("Format"), NAMES)
        for part in unknown:
            complain("sinfo", f"Invalid job format specification: {part.what}")
        return "", columns
    text = _format_text(options, given)
    columns, unknown = parse_percent(text.replace("#", "") if text in _SIZED else text, LETTERS)
    for part in unknown:
        complain("sinfo", f"Invalid node format specification: {part.what}", plain=True)
    return text, columns


_SIZED = frozenset((FORMAT, FORMAT_LONG, FORMAT_SUMMARY, FORMAT_NODES, FORMAT_NODES_LONG))


def _format_text(options: OptionValues, given: OptionValues) -> str:
    if "format" in given:
        return given.text("format")
    is_long = options.flag("long")
    if options.flag("summarize"):
        return FORMAT_SUMMARY
    if options.flag("Node"):
        return FORMAT_NODES_LONG if is_long else FORMAT_NODES
    if options.flag("list_reasons"):
        return FORMAT_REASONS_LONG if is_long else FORMAT_REASONS
    return options.text("format") or (FORMAT_LONG if is_long else FORMAT)


def _fit(text: str, columns: list[Column], groups: list[NodeGroup], view: NodeView) -> list[Column]:
    """Sets the widths that depend on the shown values."""
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


def make_groups(
    pairs: Iterable[_Pair], columns: list[Column], options: OptionValues, view: NodeView
) -> list[NodeGroup]:
    """Groups the nodes that are equal in the shown fields."""
    exact = options.flag("exact")
    one_by_one = options.flag("Node")
    shows_partition = any(c.field in (LETTERS["P"], LETTERS["R"]) for c in columns)
    about_nodes = one_by_one or options.flag("list_reasons") or not shows_partition
    fields = [f for f in (c.field for c in columns) if f and (f.splits or (exact and f not in _COUNTED))]
    if exact and any(c.field is LETTERS["C"] for c in columns):
        fields.append(LETTERS["c"])
    groups: dict[tuple[str, ...], NodeGroup] = {}
    seen: dict[tuple[str, ...], set[str]] = {}
    for position, partition, nodes in pairs:
        for one in [[node] for node in nodes] or ([] if about_nodes else [[]]):
            alone = NodeGroup(partition, one, position)
            key = tuple(field.value(alone, view) for field in fields)
            if one_by_one:
                key = (partition.name, one[0].name, *key)
            group = groups.setdefault(key, NodeGroup(partition, [], position))
            names = seen.setdefault(key, set())
            if one and one[0].name not in names:  # a node that is in two partitions counts once
                names.add(one[0].name)
                group.nodes.append(one[0])
    return list(groups.values())


#: Fields that count or list a line's nodes: they do not separate lines, not even with -e.
_COUNTED = frozenset(LETTERS[letter] for letter in "ACDFN")


def _sort_text(options: OptionValues) -> str:
    default = "N" if options.flag("Node") else "-t" if options.flag("list_reasons") else "#P,-t"
    return options.text("sort", default)


if __name__ == "__main__":
    main()
