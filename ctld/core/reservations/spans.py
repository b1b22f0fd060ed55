"""Past intervals of reservations: rows that outlive the reservation, for reports (accounting/tables.py).

A reservation's present or next occurrence has one row, with the planned end. A change of the reserved resources, or an
early end, closes the row of an occurrence that has begun and begins another; one that had not begun becomes a row of no
length. A reservation whose start floats ahead of the clock never begins and has none.
"""

from collections.abc import Mapping

from ctld.core.records.reservation import Reservation, ReservationSpan, ReservedPart
from ctld.core.reservations.nodes import WHOLE
from ctld.core.state.state import ClusterState
from penstock.values.gres import Gres
from penstock.values.hostlist import compress
from penstock.values.reservations import ResvFlag
from penstock.values.tres import format_tres, there_is


def settle(state: ClusterState, now_us: int) -> None:
    """Records the intervals after a step that has changed reservations."""
    touched = state.open_intervals.reservations_touched
    state.open_intervals.reservations_touched = {}
    for name in touched:
        reservation = state.reservations.get(name)
        want = _span(state, reservation) if reservation is not None and reservation.float_us < 0 else None
        _put(state, name, want, now_us)


def _put(state: ClusterState, name: str, want: ReservationSpan | None, now_us: int) -> None:
    known = state.open_intervals.reservation_spans.get(name)
    if known is not None and want is not None and _says_the_same(known, want, now_us):
        return
    if known is not None:
        del state.open_intervals.reservation_spans[name]
        if known.end_at_us > now_us:
            _write(state, known._replace(end_at_us=max(known.start_at_us, now_us)))
        if (
            want is not None
            and known.resv_id == want.resv_id
            and known.start_at_us < now_us
            and known.end_at_us > now_us
        ):
            want = want._replace(start_at_us=max(want.start_at_us, now_us))
    if want is not None:
        state.open_intervals.reservation_spans[name] = want
        _write(state, want)


def _says_the_same(known: ReservationSpan, want: ReservationSpan, now_us: int) -> bool:
    begun = want.start_at_us < known.start_at_us <= now_us  # the row was closed since the start
    return known == want or (begun and known == want._replace(start_at_us=known.start_at_us))


def _write(state: ClusterState, span: ReservationSpan) -> None:
    state.outputs.dirty_reservation_spans[span.resv_id, span.start_at_us] = span


def _span(state: ClusterState, reservation: Reservation) -> ReservationSpan:
    of_nodes = {part.node: _kept(state, part) for part in reservation.parts}
    tres = {"cpu": 0, "mem": 0, "node": 0}
    for kept in of_nodes.values():
        for key, amount in kept.items():
            tres[key] = tres.get(key, 0) + amount
    return ReservationSpan(
        reservation.resv_id,
        reservation.start_at_us,
        reservation.end_at_us,
        reservation.name,
        int(reservation.flags),
        compress(of_nodes),
        format_tres(tres),
        ",".join((*reservation.accounts, *reservation.users)),
        _node_tres(of_nodes) if reservation.flags & ResvFlag.MAINT else "",
    )


def _kept(state: ClusterState, part: ReservedPart) -> dict[str, int]:
    """Returns the reserved part of a node, with the node itself."""
    node = state.nodes.get(part.node)
    if part.cpus != WHOLE:
        return there_is([(part.cpus, part.mem_mb, [Gres(*one) for one in part.gres])])
    if node is not None:
        return there_is([(node.cpus, node.config.real_memory_mb, node.config.gres)])
    return {"node": 1}


def _node_tres(of_nodes: Mapping[str, Mapping[str, int]]) -> str:
    """Returns each node's TRES: maintenances may overlap, and the same node's time must count as planned down once."""
    alike: dict[str, list[str]] = {}
    for name, kept in of_nodes.items():
        alike.setdefault(format_tres(kept), []).append(name)
    return "\n".join(f"{compress(names)} {tres}" for tres, names in alike.items())
