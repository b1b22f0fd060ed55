"""What the planner is told of reservations, and which of them a job may use.

A reservation is a row of `contract.Reservations` for each of its next HORIZON occurrences, or one row for all of them
when it is FLEX, since its jobs do not care for its times. What it keeps are blocks: the whole node, or the part of it
that its own running jobs have not taken yet. The view is made anew only when a reservation, or what runs in one, has
changed (`state.reserved_view`), and with each second of the clock while one floats ahead of it.

A job has one row of columns for each answer of `choices`: where it asks for reservations, the next two occurrences of
each; where it asks for none, the MAGNETIC ones that it may use and then none at all (-1).
"""

from typing import Any, Final, NamedTuple

import numpy as np

from _fastsched import contract
from ctld.core.model import Job, Reservation, ReservedPart
from ctld.core.reserve_nodes import WHOLE, spans_of
from ctld.core.reserve_who import holders, least_s, may_use, names_asked
from ctld.core.shares import GPU, MILLI, WHOLE_MILLI
from ctld.core.state import ClusterState
from penstock.values.reservations import ResvFlag

US: Final = 1_000_000
#: Occurrences that the planner keeps free: a week of nights.
HORIZON: Final = 7
#: Occurrences that a job is planned into: this one, and the next if it does not fit any more.
TRIED: Final = 2


class View(NamedTuple):
    """`arrays` for the planner; `rows`: a reservation's rows of it, soonest first; `names` by row."""

    made_s: int  # -1 = holds until something changes
    masks: Any  # the table of node sets that resv_mask points into
    arrays: contract.Reservations
    rows: dict[str, tuple[int, ...]]
    names: tuple[str, ...]
    magnetic: tuple[str, ...]


class _Row(NamedTuple):
    from_s: int
    to_s: int
    mask: int
    flex: int


class _Block(NamedTuple):
    resv: int
    node: int
    from_s: int
    to_s: int
    cpus: int
    mem_mb: int
    gres: tuple[int, ...]


class _LicenseBlock(NamedTuple):
    resv: int
    kind: int
    number: int
    from_s: int
    to_s: int


def view_of(state: ClusterState, now_us: int) -> View:
    """The view that holds now, made anew if need be."""
    view: View | None = state.reserved_view
    if view is None or view.masks is not state.masks or view.made_s not in (-1, now_us // US):
        view = state.reserved_view = _make(state, now_us)
    return view


def choices(state: ClusterState, job: Job) -> tuple[int, ...]:
    """Rows of the view in which the job may run, -1 for none; () when none of those that it asks for will do."""
    if not state.reservations:
        return () if job.request.reservation else (-1,)
    view = view_of(state, state.now_us)
    asked, now_s = names_asked(job), state.now_us // US
    needed_s = least_s(job) or job.time_limit_s
    found = [
        row
        for name in asked or view.magnetic
        if name in view.rows and may_use(state.reservations[name], job)
        for row in [row for row in view.rows[name] if _can_hold(view, row, needed_s, now_s)][:TRIED]
    ]
    return tuple(found) if asked else (*found, -1)


def _can_hold(view: View, row: int, needed_s: int, now_s: int) -> bool:
    """True when the occurrence is long enough, counted from now."""
    arrays = view.arrays
    if arrays.resv_flex[row] or needed_s < 0:
        return bool(arrays.resv_flex[row])
    return int(arrays.resv_to_s[row]) - max(int(arrays.resv_from_s[row]), now_s) >= needed_s


def crosses(state: ClusterState, now_us: int, nodes: list[int], limit_s: int, reservation: str) -> bool:
    """True when a start that was decided a while ago would by now run into a block of others on one of its nodes."""
    view = view_of(state, now_us)
    blocks = view.arrays
    now_s = now_us // US
    met = (blocks.block_cpus == WHOLE) & (blocks.block_from_s < now_s + limit_s) & (blocks.block_to_s > now_s)
    met &= np.isin(blocks.block_node, nodes)
    return any(view.names[blocks.block_resv[block]] != reservation for block in np.flatnonzero(met).tolist())


def _make(state: ClusterState, now_us: int) -> View:
    rows: list[_Row] = []
    blocks: list[_Block] = []
    license_blocks: list[_LicenseBlock] = []
    rows_of: dict[str, tuple[int, ...]] = {}
    names: list[str] = []
    for reservation in state.reservations.values():
        if reservation.float_us < 0 and reservation.end_at_us <= now_us:
            continue
        spans = spans_of(state, reservation, now_us, HORIZON)
        first, flex = len(rows), bool(reservation.flags & ResvFlag.FLEX)
        mask = _mask(state, reservation)
        for start_us, end_us in spans[:1] if flex else spans:
            rows.append(_Row(-(-start_us // US), end_us // US, mask, flex))
            names.append(reservation.name)
        rows_of[reservation.name] = tuple(range(first, len(rows)))
        for n, (start_us, end_us) in enumerate(spans):
            row, span_s = first + (0 if flex else n), (start_us // US, -(-end_us // US))
            blocks += _blocks(state, reservation, row, span_s, used=n == 0)
            license_blocks += _license_blocks(state, reservation, row, span_s, used=n == 0)
    floats = any(reservation.float_us >= 0 for reservation in state.reservations.values())
    magnetic = tuple(n for n in rows_of if state.reservations[n].flags & ResvFlag.MAGNETIC)
    arrays = _arrays(rows, blocks, license_blocks, len(state.gres_kinds))
    return View(now_us // US if floats else -1, state.masks, arrays, rows_of, tuple(names), magnetic)


def _mask(state: ClusterState, reservation: Reservation) -> int:
    """The row of the nodes that its jobs may use."""
    if reservation.flags & ResvFlag.ANY_NODES and not reservation.parts:
        bits = (1 << len(state.node_list)) - 1
    else:
        bits = sum(1 << state.nodes[part.node].index for part in reservation.parts if part.node in state.nodes)
    key = ("reservation", bits)
    row = state.masks.row(key)
    return state.masks.add(key, bits) if row is None else row


def _blocks(
    state: ClusterState, reservation: Reservation, row: int, span_s: tuple[int, int], used: bool
) -> list[_Block]:
    found = []
    kinds = len(state.gres_kinds)
    for part in reservation.parts:
        node = state.nodes.get(part.node)
        if node is None:
            continue
        if part.cpus == WHOLE:
            found.append(_Block(row, node.index, *span_s, WHOLE, 0, (0,) * kinds))
        else:
            cpus, mem_mb, gres = _left(state, reservation, part, used)
            found.append(_Block(row, node.index, *span_s, cpus, mem_mb, gres))
    return found


def _left(
    state: ClusterState, reservation: Reservation, part: ReservedPart, used: bool
) -> tuple[int, int, tuple[int, ...]]:
    """What of a part its own running jobs have not taken."""
    cpus, mem_mb = part.cpus, part.mem_mb
    gres = [0] * len(state.gres_kinds)
    for name, type_, count in part.gres:
        _count(state, gres, name, type_, count)
    for job in holders(state, reservation.name) if used else ():
        for held in job.alloc:
            if held.node == part.node:
                cpus -= held.cpus
                mem_mb -= held.mem_mb
                for name, type_, mask in held.gres:
                    _count(state, gres, name, type_, -mask.bit_count())
                for share in held.shares:
                    gres[state.gres_kinds[MILLI]] -= WHOLE_MILLI * share.units // share.of
    return max(0, cpus), max(0, mem_mb), tuple(max(0, count) for count in gres)


def _count(state: ClusterState, gres: list[int], name: str, type_: str, count: int) -> None:
    for kind in dict.fromkeys(((name, ""), (name, type_))):
        if kind in state.gres_kinds:
            gres[state.gres_kinds[kind]] += count
    if name == GPU and MILLI in state.gres_kinds:
        gres[state.gres_kinds[MILLI]] += count * WHOLE_MILLI


def _license_blocks(
    state: ClusterState, reservation: Reservation, row: int, span_s: tuple[int, int], used: bool
) -> list[_LicenseBlock]:
    kinds = state.license_kinds
    left = {kinds[name]: count for name, count in reservation.licenses if name in kinds}
    for job in holders(state, reservation.name) if used and left else ():
        for kind, count in enumerate(state.licenses_of(job.request)):
            if kind in left:
                left[kind] = max(0, left[kind] - count)
    return [_LicenseBlock(row, kind, count, *span_s) for kind, count in left.items()]


def _arrays(
    rows: list[_Row], blocks: list[_Block], license_blocks: list[_LicenseBlock], kinds: int
) -> contract.Reservations:
    def column(values: list[Any], dtype: Any) -> Any:
        return np.array(values, dtype)

    i32, i64 = np.int32, np.int64
    return contract.Reservations(
        resv_from_s=column([r.from_s for r in rows], i64),
        resv_to_s=column([r.to_s for r in rows], i64),
        resv_mask=column([r.mask for r in rows], i32),
        resv_flex=column([r.flex for r in rows], np.uint8),
        block_resv=column([b.resv for b in blocks], i32),
        block_node=column([b.node for b in blocks], i32),
        block_from_s=column([b.from_s for b in blocks], i64),
        block_to_s=column([b.to_s for b in blocks], i64),
        block_cpus=column([b.cpus for b in blocks], i32),
        block_mem_mb=column([b.mem_mb for b in blocks], i64),
        block_gres=column([b.gres for b in blocks], i32).reshape(len(blocks), kinds),
        licblock_resv=column([b.resv for b in license_blocks], i32),
        licblock_kind=column([b.kind for b in license_blocks], i32),
        licblock_count=column([b.number for b in license_blocks], i32),
        licblock_from_s=column([b.from_s for b in license_blocks], i64),
        licblock_to_s=column([b.to_s for b in license_blocks], i64),
    )
