"""The contract of the planner, compiled or oracle: its rules, its columns, its reasons, the check of its input.

A pass is a function of one `PlanInput`, without clock, state or randomness. It takes the pending rows in the order of
`rows` (the caller has sorted them by rank; ties by job id) and decides for each what starts now, when and where the
rest is expected to start, which running jobs are preempted, and why a row does not start.

Rules
-----
0. Time is in whole seconds, absolute. A row needs `d = limit_min_s` seconds. Running jobs release their resources at
   `run_end_s` (at least now_s + 1). A planned start is now_s, or later: then a multiple of `resolution_s` (rounded up),
   and less than now_s + window_s. It is never before `earliest_s`; a row whose start would be after `latest_s` has none.
   Later times that are tried, rounded up: earliest_s; resv_from_s of its reservation; and the end of each running job,
   planned row or block of another reservation that is on an up node of its mask (exclusive 4 and 5: or on any node of the
   leaf switch of one) or has licenses of a requested kind.
   No other time is tried (3a and 3b choose greedily, so a row might also fit at times in between).
1. Capacity of a node. c, m and g are the least free cpu units, memory and GRES over the whole interval [s, s + d), after
   all that runs there or was planned there before this row, less the blocks of reservations to which the row does not
   belong. A job with `tasks` tasks on a node takes k = tasks * cpus_per_task cpus, rounded up to a multiple of the node's
   `cpu_quantum`; these are k * cpu_units units. Memory and GRES are as in 2. k is at most the number of the node's cpus,
   total_cpus // units_per_cpu: where jobs share cpus and a cpu is several units, no job has a cpu twice.
   t = the largest number of tasks that fits; at most ntasks_per_node if that is not 0; at most ntasks - nodes_min + 1,
   so that each other required node gets one; exactly ntasks or none when nodes_max is 1. GRES is counted once a node,
   not by task. A resource that the job does not take may have a negative free amount. nodes_max is at most ntasks; with
   segment > 0 it is nodes_min.
   exclusive 1: no other job may be on the node during the interval; the job takes all of its cpu units (total_cpus), and
   the result names total_cpus // cpu_units cpus. exclusive 2 (user): only jobs of the same `user` may be on the node
   during the interval, and no job of another user may start there meanwhile; likewise a job that is not exclusive may
   not use a node with an exclusive-user job of another user.
   exclusive 4 (leaf): no other job may be on any node, up or not, of a leaf switch (level 0 of `switches`; with levels = 0 the
   node itself) on which the job has one, during the interval, and none may start there meanwhile; blocks of other
   reservations on the leaf's other nodes count as jobs. What it takes on its nodes is as with 0. It holds nothing on the
   leaf's other nodes, but is there for all rules. exclusive 5 is both 4 and 1.
   A running job of these kinds is given as run_exclusive 1, with a part of nothing on each other node of its leaves.
2. Memory. mem_node_mb >= 0: that much on each node (0 = the node's total); else mem_cpu_mb >= 0: that much for each cpu
   (k; all cpus of the node when exclusive is 1 or 5); else none, or the node's total if exclusive is 1 or 5.
3. Choice of nodes. The candidates are the up nodes of the row's mask with t >= 1. Node order, with c and g of rule 1:
   by `order` (kind 0); by weight_class, then most free cpu units over the interval, then `order` (kind 1, LLN); by
   weight_class, then fewest free units of the requested GRES (all kinds summed; of cpu if it requests none), then
   `order` (kind 2, best fit).
   a. Groups (`group` >= 0: sets of (mask, count), for features with counts or required nodes). For each entry of the
      set, in order, the first candidates of its mask are taken until `count` of the taken nodes are in the mask. If
      there are too few: no fit. Taken nodes precede all others in c; b and c choose among the rest.
   b. Topology (levels > 0 and nodes_max > 1). For level 0, 1, ...: of the switches whose candidates, together with the
      nodes taken by groups, suffice in c, the one with the fewest candidates, then the lowest index; the candidates are
      limited to it. If no level has such a switch, all candidates stay. Then candidates of leaf switches with most
      candidates come first (ties: lower index), within a leaf in node order.
      switches_max > 0: no fit if the chosen nodes are under more leaf switches than that.
      segment > 0: nodes are taken in segments of that many, each within one leaf (block). A leaf has floor(candidates /
      segment) segments. Of the leaves that have all segments the one with the fewest (ties: lower index); if there is
      none, leaves with most segments first (ties: lower index), and as few segments of the last as needed. Of a leaf its
      first candidates in node order are taken. nodes_min is a multiple of segment, and no more nodes than that are
      taken; no fit if they have no room for ntasks. Of the rest of b only switches_max applies then; segments are not
      combined with groups.
   c. The shortest prefix of the candidates with at least nodes_min nodes and room for ntasks. If the first nodes_max
      have no such room: candidates with the largest t first (ties: in their present order), as few as needed.
      spread 1: further candidates are added, up to nodes_max.
      No fit if groups took more than nodes_max.
      The chosen nodes are filled one after the other: those taken by groups, then the others, both in `order`. Each leaves
      for each node that follows one task, or as many (at most t) as its cpu_quantum holds; but takes one.
   A job gets its whole set of nodes at once, or nothing (gang).
4. Start. The earliest time by rule 0 at which rule 3 gives a set of nodes and the licenses are free over [s, s + d) (free
   ones plus those released by then, less those blocked by reservations). If it is now: STARTED, and the granted limit is
   as long as nothing conflicts with what the row takes where it was placed (nodes, licenses, resv_to_s), at least d, at
   most limit_s.
5. Reservations (`resv` = v >= 0): only nodes of resv_mask[v], and the whole of [s, s + d) within [resv_from_s,
   resv_to_s]; with resv_flex only the row's own mask counts, and any time. Blocks of v do not count against the row, and
   what it takes in their time is subtracted from the rest of these blocks.
   The rest, of each resource (node by node) and kind of license at each second: the blocks of v, less what rows of v
   were given in this pass, at least 0. A block with cpus -1 closes the node for others, whatever rows of v take.
6. Copies: a row stands for `count` equal jobs (an array). As many as possible start now; of the others up to copies_max
   are planned one after the other, none earlier than the one before it, up to one that has no start or takes nothing.
7. Waiting rows reserve resources. A row that does not start now but later takes what it needs from then on for d seconds,
   so that no later row delays it, if `reserve` is 1 and fewer than reserve_max waiting rows reserve something (-1: no
   limit; copies, alternatives and the components of a heterogeneous job count once). reserve_max 0 is pure first fit, 1
   is EASY, -1 conservative backfill. A row that may not reserve is planned without taking, and only if `estimate` is 1;
   else it is only tried for now.
8. Alternatives. Adjacent rows with the same `job` are alternatives: for each copy the earliest start wins (ties: the
   first); `count` of the first counts for all. An alternative that may not reserve can win too; then nothing is taken. Only
   the winner of the first waiting copy has start_s and plan nodes. When all copies start, rows that started none are
   NOT_TESTED. When an alternative occurs again later (another partition with another rank), the copies that have not
   started are tried for now only (no preemption), unless there are none or one is PREEMPTING (NOT_TESTED). Decisions at
   the first occurrence stay, and so does its reservation.
   Adjacent rows with the same `het` > 0 and different jobs are one heterogeneous job: all start at the same time, each
   taking after the one before it, at the earliest time at which all can (of the times of any of them). It has no
   alternatives, and starts once, if each count is at least 1. It reserves if all have `reserve`. The granted limits are
   extended, in the order of the rows, after all were placed. The reasons are those of each row alone.
9. Preemption. A row with `preempts` != 0 that cannot start now, although rules 0 and 5 allow that and its licenses are
   free, may have running jobs removed whose run_class is among its bits. Rules 1 to 3 over [now, now + d) as if all of
   these and all earlier victims were gone; candidates in the order of (number of such jobs on the node, sum of their
   run_cost, node order). The victims are as many preemptable jobs on the chosen nodes as needed, lowest (run_cost, index)
   first; then each, highest first, is spared if the others suffice for the chosen nodes. If none is needed, there is no
   preemption. The row reserves its nodes from now on for d seconds (whatever rule 7 says; it counts there), its reason is
   PREEMPTING, its planned start is now; a victim ends at now_s + 1, so that nothing starts now on what it still has. One
   copy of a row in a pass, the others are not considered; of alternatives the first that can. Victims are listed in the
   order (run_cost, index). Heterogeneous jobs do not preempt. With exclusive 4 or 5 jobs on a leaf's other nodes are not
   as if gone, unless they are on the node, too: they are no victims of this row.
10. Reason of a row of which a copy does not start: the first that applies, as of when that copy was tried for now.
   BAD_CONSTRAINTS (no fit even on its whole mask, empty and up, without reservations of others, licenses aside);
   NODES_DOWN (no fit on its up nodes, empty); a row with one of these two, or a heterogeneous job with such a component,
   is neither planned nor does it preempt. DEADLINE (latest_s < now_s or earliest_s; or it was planned without a start,
   latest_s < now_s + window_s and latest_s < FOREVER); PREEMPTING; LICENSES (cannot start now, but could without its
   request for licenses); RESERVED (cannot start now, but could without blocks of nodes and licenses; or its reservation,
   not flex, has not begun); PRIORITY (each up node of its mask is in the mask of an earlier row with PREEMPTING or a
   reason after that in this list); else RESOURCES.
   "Its mask": in a reservation that is not flex, the intersection with resv_mask.
   NOT_TESTED: the pass ended before it or in it, or it has no copies. The pass ends before a row (or alternatives, or a
   heterogeneous job) if `stop` is set, it extends past position rows_max, or starts_max copies have started; before a
   copy (or a whole heterogeneous job) that is tried for now when so many have started, or that would start as more than
   so many; and before one whose nodes would be more than PLACEMENTS_MAX (those of starts; those of plan_node).

Both planners verify what `check` verifies before they begin, since the compiled one runs without bounds checks (it does
so in C, and calls `check` for the message). Numbers inside a job's row are not checked: an invalid row can run nowhere
and gets BAD_CONSTRAINTS, so that it does not stop the pass for all others. Valid is:
1 <= nodes_min <= nodes_max, nodes_min <= ntasks, cpus_per_task >= 1, cpu_units >= 1, ntasks_per_node >= 0, all gres and
licenses >= 0, 1 <= limit_min_s <= limit_s <= FOREVER, exclusive 0, 1, 2, 4 or 5, order_kind <= 2, switches_max >= 0, segment >= 0
and a divisor of nodes_min (0: any), not both segment and group.
"""

from collections.abc import Mapping

# Any: tables of arrays by name; NumPy's types say neither the number of axes nor which table it is
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
U8 = NDArray[np.uint8]
U64 = NDArray[np.uint64]

NOT_TESTED: Final = 0
STARTED: Final = 1
RESOURCES: Final = 2
PRIORITY: Final = 3
NODES_DOWN: Final = 4
BAD_CONSTRAINTS: Final = 5
LICENSES: Final = 6
RESERVED: Final = 7
PREEMPTING: Final = 8
DEADLINE: Final = 9

#: A value of `exclusive`, or a bit of it beside 1.
LEAF: Final = 4

#: "Never", in seconds: no time limit, no deadline, no end. Sums of two of it still fit in 64 bits.
FOREVER: Final = 1 << 60

# A pass returns at most this many (start, node) pairs, so that its buffers stay below 150 MB; the next pass continues
# from there. 65,536 nodes of 64 cpus can take that many one-cpu tasks.
PLACEMENTS_MAX = 1 << 22


class Nodes(NamedTuple):
    """N nodes, G kinds of GRES, S levels of switches."""

    total_cpus: I32  # [N] units
    total_mem_mb: I64  # [N]
    total_gres: I32  # [N, G]
    free_cpus: I32  # [N] now; may be negative: a node can shrink under its jobs
    free_mem_mb: I64  # [N]
    free_gres: I32  # [N, G]
    cpu_quantum: I32  # [N] cpus are given in multiples of it
    order: I32  # [N] node indices, the preferred first
    weight_class: I32  # [N] rank of the node's weight, low first
    up: U8  # [N]
    switches: I32  # [S, N] index of the switch above the node at each level, 0 = leaf (or block)


class Running(NamedTuple):
    """R jobs that hold resources, and P parts: what one of them holds on one node. Unused entries: part_run is -1."""

    run_end_s: I64  # [R]
    run_user: I32  # [R]
    run_exclusive: U8  # [R] 0 no, 1 job, 2 user
    run_class: I32  # [R] class for preemption, 0 to 63; -1 = may not be preempted
    run_cost: I64  # [R] jobs with lower costs are preempted first
    run_licenses: I32  # [R, L]
    part_run: I32  # [P]
    part_node: I32  # [P]
    part_cpus: I32  # [P] units
    part_mem_mb: I64  # [P]
    part_gres: I32  # [P, G]


class Reservations(NamedTuple):
    """V reservations, B blocks: what a reservation keeps on one node, less what its own running jobs use of it.

    F license blocks.
    """

    resv_from_s: I64  # [V]
    resv_to_s: I64  # [V]
    resv_mask: I32  # [V]
    resv_flex: U8  # [V]
    block_resv: I32  # [B]
    block_node: I32  # [B]
    block_from_s: I64  # [B]
    block_to_s: I64  # [B]
    block_cpus: I32  # [B] units; -1 = the whole node
    block_mem_mb: I64  # [B]
    block_gres: I32  # [B, G]
    licblock_resv: I32  # [F]
    licblock_kind: I32  # [F]
    licblock_count: I32  # [F]
    licblock_from_s: I64  # [F]
    licblock_to_s: I64  # [F]


class Jobs(NamedTuple):
    """J rows of pending jobs. Only those listed in PlanInput.rows are considered."""

    job: I64  # [J]
    mask: I32  # [J] row of PlanInput.masks
    nodes_min: I32
    nodes_max: I32
    ntasks: I32
    cpus_per_task: I32
    ntasks_per_node: I32  # 0 = any
    mem_node_mb: I64  # -1 = not requested in this form
    mem_cpu_mb: I64
    gres: I32  # [J, G] on each node
    exclusive: U8  # 0 no, 1 job, 2 user, 4 leaf, 5 leaf and job
    user: I32
    count: I32  # type: ignore[assignment]  # hides tuple.count
    cpu_units: I32  # units that one cpu takes
    spread: U8
    limit_s: I64
    limit_min_s: I64
    earliest_s: I64
    latest_s: I64
    reserve: U8
    resv: I32  # -1 = none
    preempts: U64  # bits of run_class
    switches_max: I32  # 0 = any
    segment: I32  # 0 = none
    order_kind: U8
    group: I32  # set of PlanInput.group_first, -1 = none
    licenses: I32  # [J, L]
    het: I32  # 0 = alone


class PlanLimits(NamedTuple):
    """The parameters of a pass."""

    now_s: int
    resolution_s: int = 1
    window_s: int = FOREVER
    starts_max: int = 1 << 30
    rows_max: int = 1 << 30
    copies_max: int = 20
    reserve_max: int = -1
    estimate: bool = True
    units_per_cpu: int = 1  # cpu units of a cpu, where jobs may share it


class PlanInput(NamedTuple):
    """The whole input of a pass."""

    nodes: Nodes
    running: Running
    reservations: Reservations
    jobs: Jobs
    rows: I64  # rows of `jobs`, highest rank first
    masks: U64  # [M, W] sets of nodes: bit i % 64 of word i // 64
    group_first: I32  # [D + 1] set s has the entries group_first[s] up to group_first[s + 1]
    group_mask: I32
    group_count: I32
    free_licenses: I32  # [L]
    limits: PlanLimits
    stop: U8  # [1] another thread may set it to 1 to end the pass early


class PlanResult(NamedTuple):
    """Starts in order of decision: start s has the entries node_first[s] up to node_first[s + 1] of node ... mem_mb.

    By position in `rows`: start_s (-1 = none known), reason, and plan_first / plan_node: the nodes of the first waiting
    copy. Victims: entry v means that row position victim_row[v] preempts running job victim_run[v].
    """

    job: I32  # position in `rows`
    node_first: I32
    node: I32
    cpus: I32  # cpus, not units
    tasks: I32
    mem_mb: I64
    limit_s: I64  # by start
    reason: U8  # by position
    start_s: I64
    plan_first: I32
    plan_node: I32
    victim_row: I32
    victim_run: I32


#: Columns by table: name: (dtype, axes). Equal letters are equal lengths; "1" is one. Letters as in the class docstrings.
GROUPS: Final[dict[str, dict[str, tuple[type, str]]]] = {
    "nodes": {
        "total_cpus": (np.int32, "N"), "total_mem_mb": (np.int64, "N"), "total_gres": (np.int32, "NG"),
        "free_cpus": (np.int32, "N"), "free_mem_mb": (np.int64, "N"), "free_gres": (np.int32, "NG"),
        "cpu_quantum": (np.int32, "N"), "order": (np.int32, "N"), "weight_class": (np.int32, "N"),
        "up": (np.uint8, "N"), "switches": (np.int32, "SN"),
    },
    "running": {
        "run_end_s": (np.int64, "R"), "run_user": (np.int32, "R"), "run_exclusive": (np.uint8, "R"),
        "run_class": (np.int32, "R"), "run_cost": (np.int64, "R"), "run_licenses": (np.int32, "RL"),
        "part_run": (np.int32, "P"), "part_node": (np.int32, "P"), "part_cpus": (np.int32, "P"),
        "part_mem_mb": (np.int64, "P"), "part_gres": (np.int32, "PG"),
    },
    "reservations": {
        "resv_from_s": (np.int64, "V"), "resv_to_s": (np.int64, "V"), "resv_mask": (np.int32, "V"),
        "resv_flex": (np.uint8, "V"), "block_resv": (np.int32, "B"), "block_node": (np.int32, "B"),
        "block_from_s": (np.int64, "B"), "block_to_s": (np.int64, "B"), "block_cpus": (np.int32, "B"),
        "block_mem_mb": (np.int64, "B"), "block_gres": (np.int32, "BG"), "licblock_resv": (np.int32, "F"),
        "licblock_kind": (np.int32, "F"), "licblock_count": (np.int32, "F"), "licblock_from_s": (np.int64, "F"),
        "licblock_to_s": (np.int64, "F"),
    },
    "jobs": {
        "job": (np.int64, "J"), "mask": (np.int32, "J"), "nodes_min": (np.int32, "J"), "nodes_max": (np.int32, "J"),
        "ntasks": (np.int32, "J"), "cpus_per_task": (np.int32, "J"), "ntasks_per_node": (np.int32, "J"),
        "mem_node_mb": (np.int64, "J"), "mem_cpu_mb": (np.int64, "J"), "gres": (np.int32, "JG"),
        "exclusive": (np.uint8, "J"), "user": (np.int32, "J"), "count": (np.int32, "J"), "cpu_units": (np.int32, "J"),
        "spread": (np.uint8, "J"), "limit_s": (np.int64, "J"), "limit_min_s": (np.int64, "J"),
        "earliest_s": (np.int64, "J"), "latest_s": (np.int64, "J"), "reserve": (np.uint8, "J"),
        "resv": (np.int32, "J"), "preempts": (np.uint64, "J"), "switches_max": (np.int32, "J"),
        "segment": (np.int32, "J"), "order_kind": (np.uint8, "J"), "group": (np.int32, "J"),
        "licenses": (np.int32, "JL"), "het": (np.int32, "J"),
    },
    "": {
        "rows": (np.int64, "Q"), "masks": (np.uint64, "MW"), "group_first": (np.int32, "E"),
        "group_mask": (np.int32, "D"), "group_count": (np.int32, "D"), "free_licenses": (np.int32, "L"),
        "stop": (np.uint8, "1"),
    },
}  # fmt: skip

_TABLES: Final[dict[str, Any]] = {
    "nodes": Nodes, "running": Running, "reservations": Reservations, "jobs": Jobs,
}  # fmt: skip


def empty(group: str, **lengths: int) -> Any:
    """Returns a `Nodes`, `Running`, `Reservations` or `Jobs` of zeros with these lengths; other axes have length 0."""
    return _TABLES[group](
        **{
            name: np.zeros([lengths.get(axis, 0) for axis in axes], dtype)
            for name, (dtype, axes) in GROUPS[group].items()
        }
    )


def _bad(name: str, text: str) -> ValueError:
    return ValueError(f"plan: {name} {text}")


def check(given: PlanInput) -> None:
    """Raises ValueError, naming the column, if one does not fit the others or an index is out of range."""
    arrays: dict[str, Any] = {}
    lengths: dict[str, int] = {"1": 1}
    for group, columns in GROUPS.items():
        source = getattr(given, group) if group else given
        for name, (dtype, axes) in columns.items():
            array = arrays[name] = getattr(source, name)
            if array.dtype != dtype or array.ndim != len(axes) or not array.flags.c_contiguous:
                wanted = f"{np.dtype(dtype)}[{','.join(axes)}]"
                raise _bad(name, f"is {array.dtype} with {array.ndim} axes, expected a contiguous {wanted}")
            for axis, length in zip(axes, array.shape, strict=True):
                if length != lengths.setdefault(axis, length):
                    raise _bad(name, f"has length {length} on axis {axis}, the others have {lengths[axis]}")
    _check_indices(arrays, lengths)


def _check_indices(arrays: Mapping[str, Any], lengths: Mapping[str, int]) -> None:
    nodes = lengths["N"]
    masks = lengths["M"]
    reservations = lengths["V"]
    if lengths["W"] != (nodes + 63) // 64:
        raise _bad("masks", f"has {lengths['W']} words a row, {nodes} nodes need {(nodes + 63) // 64}")
    if not np.array_equal(np.sort(arrays["order"]), np.arange(nodes)):
        raise _bad("order", f"must name each of the {nodes} nodes exactly once")
    for name in ("total_cpus", "total_mem_mb", "total_gres"):
        if arrays[name].min(initial=0) < 0:
            raise _bad(name, f"must not be negative, its lowest entry is {arrays[name].min()}")
    if arrays["cpu_quantum"].min(initial=1) < 1:
        raise _bad("cpu_quantum", "must be at least 1")
    rows, first = arrays["rows"], arrays["group_first"]
    _in_range("rows", rows, 0, lengths["J"])
    if not len(first) or first[0] != 0 or first[-1] != lengths["D"] or (np.diff(first) < 0).any():
        raise _bad("group_first", "must rise from 0 to the number of group entries")
    for name, index, low, high in (
        ("mask", arrays["mask"][rows], 0, masks),
        ("resv", arrays["resv"][rows], -1, reservations),
        ("group", arrays["group"][rows], -1, len(first) - 1),
        ("part_run", arrays["part_run"], -1, lengths["R"]),
        ("part_node", arrays["part_node"][arrays["part_run"] >= 0], 0, nodes),
        ("resv_mask", arrays["resv_mask"], 0, masks),
        ("block_resv", arrays["block_resv"], 0, reservations),
        ("block_node", arrays["block_node"], 0, nodes),
        ("licblock_resv", arrays["licblock_resv"], 0, reservations),
        ("licblock_kind", arrays["licblock_kind"], 0, lengths["L"]),
        ("group_mask", arrays["group_mask"], 0, masks),
        ("switches", arrays["switches"], 0, max(nodes, 1)),
    ):
        _in_range(name, index, low, high)


def _in_range(name: str, index: Any, low: int, high: int) -> None:
    if index.size and (int(index.min()) < low or int(index.max()) >= high):
        raise _bad(name, f"names {index.min()} to {index.max()}, expected {low} to {high - 1}")
