"""The planner's view of reservations, and which of them a job may use.

A reservation is a row of `contract.Reservations` for each of its next HORIZON occurrences, or one row for all of them
when it is FLEX, since its times do not bind its jobs. Its resources are blocks: the whole node, or the part of it that
its own running jobs have not taken yet. The view is rebuilt only when a reservation, or the jobs in one, have changed
(`state.reserved.view`), and with each second of the clock while one floats ahead of it.

A job has one row of columns for each result of `choices`: if it requests reservations, the next two occurrences of
each; if it requests none, the MAGNETIC ones that it may use and then none at all (-1).
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from _fastsched import contract
from ctld.core.records.job import Job
from ctld.core.records.reservation import Reservation, ReservedPart
from ctld.core.reservations.access import allocated_jobs, least_s, may_use, names_asked
from ctld.core.reservations.nodes import WHOLE, spans_of
from ctld.core.state.columns import MaskTable
from ctld.core.state.shares import GPU, MILLI, WHOLE_MILLI
from ctld.core.state.state import ClusterState
from penstock.values.reservations import ResvFlag

US: Final = 1_000_000
#: Occurrences that the planner keeps free: a week of nights.
HORIZON: Final = 7
#: Occurrences that a job is planned into: the present one, and the next if it does not fit any more.
TRIED: Final = 2


class ReservationView(NamedTuple):
    """`arrays` for the planner; `rows`: a reservation's rows of it, soonest first; `names` by row."""

    made_s: int  # -1 = valid until something changes
    masks: MaskTable  # the table of node sets that resv_mask refers to
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


def view_of(state: ClusterState, now_us: int) -> ReservationView:
    """Returns the present view, rebuilt if necessary."""
    view: ReservationView | None = state.reserved.view
    if view is None or view.masks is not state.layout.masks or view.made_s not in (-1, now_us // US):
        view = state.reserved.view = _make(state, now_us)
    return view


def choices(state: ClusterState, job: Job) -> tuple[int, ...]:
    """Returns rows of the view in which the job may run, -1 for none; () when none of the requested ones is usable."""
    if not state.reservations:
        return () if job.request.reservation else (-1,)
    view = view_of(state, state.now_us)
    asked, now_s = names_asked(job), state.now_us // US
    needed_s = least_s(job) or job.time_limit_s
    found = [
        row
        for name in asked or view.magnetic
        if name in view.rows and may_use(state.reservations[name], job)
        for row in [row for row in view.rows[name] if _is_long_enough(view, row, needed_s, now_s)][:TRIED]
    ]
    return tuple(found) if asked else (*found, -1)


def open_to(state: ClusterState, rows: tuple[int, ...], partition: str) -> tuple[int, ...]:
    """Returns those of the rows (of `choices`, which has made the view) that jobs of the partition may use."""
    view: ReservationView | None = state.reserved.view
    if view is None or rows == (-1,):
        return rows

    def is_open(row: int) -> bool:
        allowed = state.reservations[view.names[row]].ask.allowed_partitions
        return not allowed or partition in allowed

    return tuple(row for row in rows if row < 0 or is_open(row))


def _is_long_enough(view: ReservationView, row: int, needed_s: int, now_s: int) -> bool:
    """Whether the occurrence is long enough, counted from now."""
    arrays = view.arrays
    if arrays.resv_flex[row] or needed_s < 0:
        return bool(arrays.resv_flex[row])
    return int(arrays.resv_to_s[row]) - max(int(arrays.resv_from_s[row]), now_s) >= needed_s


def crosses(state: ClusterState, now_us: int, nodes: list[int], limit_s: int, reservation: str) -> bool:
    """Whether a start that was decided earlier would by now overlap a block of others on one of its nodes."""
    view = view_of(state, now_us)
    blocks = view.arrays
    now_s = now_us // US
    met = (blocks.block_cpus == WHOLE) & (blocks.block_from_s < now_s + limit_s) & (blocks.block_to_s > now_s)
    met &= np.isin(blocks.block_node, nodes)
    return any(view.names[blocks.block_resv[block]] != reservation for block in np.flatnonzero(met).tolist())


def _make(state: ClusterState, now_us: int) -> ReservationView:
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
    arrays = _arrays(rows, blocks, license_blocks, len(state.layout.gres_kinds))
    return ReservationView(now_us // US if floats else -1, state.layout.masks, arrays, rows_of, tuple(names), magnetic)


def _mask(state: ClusterState, reservation: Reservation) -> int:
    """Returns the row of the nodes that its jobs may use."""
    if reservation.flags & ResvFlag.ANY_NODES and not reservation.parts:
        bits = (1 << len(state.node_list)) - 1
    else:
        bits = sum(1 << state.nodes[part.node].index for part in reservation.parts if part.node in state.nodes)
    key = ("reservation", bits)
    row = state.layout.masks.row(key)
    return state.layout.masks.add(key, bits) if row is None else row


def _blocks(
    state: ClusterState, reservation: Reservation, row: int, span_s: tuple[int, int], used: bool
) -> list[_Block]:
    found = []
    kinds = len(state.layout.gres_kinds)
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
    """Returns the part that its own running jobs have not taken."""
    cpus, mem_mb = part.cpus, part.mem_mb
    gres = [0] * len(state.layout.gres_kinds)
    for name, type_, count in part.gres:
        _count(state, gres, name, type_, count)
    for job in allocated_jobs(state, reservation.name) if used else ():
        for held in job.alloc:
            if held.node == part.node:
                cpus -= held.cpus
                mem_mb -= held.mem_mb
                for name, type_, mask in held.gres:
                    _count(state, gres, name, type_, -mask.bit_count())
                for share in held.shares:
                    gres[state.layout.gres_kinds[MILLI]] -= WHOLE_MILLI * share.units // share.of
    return max(0, cpus), max(0, mem_mb), tuple(max(0, count) for count in gres)


def _count(state: ClusterState, gres: list[int], name: str, type_: str, count: int) -> None:
    for kind in dict.fromkeys(((name, ""), (name, type_))):
        if kind in state.layout.gres_kinds:
            gres[state.layout.gres_kinds[kind]] += count
    if name == GPU and MILLI in state.layout.gres_kinds:
        gres[state.layout.gres_kinds[MILLI]] += count * WHOLE_MILLI


def _license_blocks(
    state: ClusterState, reservation: Reservation, row: int, span_s: tuple[int, int], used: bool
) -> list[_LicenseBlock]:
    kinds = state.layout.license_kinds
    left = {kinds[name]: count for name, count in reservation.licenses if name in kinds}
    for job in allocated_jobs(state, reservation.name) if used and left else ():
        for kind, count in enumerate(state.licenses_taken(job)):
            if kind in left:
                left[kind] = max(0, left[kind] - count)
    return [_LicenseBlock(row, kind, count, *span_s) for kind, count in left.items()]


S = TypeVar("S", bound=np.generic)


def _arrays(
    rows: list[_Row], blocks: list[_Block], license_blocks: list[_LicenseBlock], kinds: int
) -> contract.Reservations:
    def column(values: Sequence[object], dtype: type[S]) -> npt.NDArray[S]:
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
