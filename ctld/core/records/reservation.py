"""Records of reservations, which are never changed, only replaced."""

from typing import NamedTuple

import msgspec

from penstock.values.reservations import ResvFlag


class ReservedPart(NamedTuple):
    """The part of one node that a reservation takes. `cpus` -1 = all of the node; `gres`: (name, type, count)."""

    node: str
    cpus: int
    mem_mb: int
    gres: tuple[tuple[str, str, int], ...]


class ReservationDemand(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The requested resources of a reservation; nodes are chosen by it again when one goes down.

    Stored as JSON in the database, so a field is only ever added, with a default.
    """

    nodes: tuple[str, ...] = ()
    all_nodes: bool = False
    node_count: int = 0
    cpus: int = 0  # in total, over `node_count` nodes if that is given
    cpus_by_node: tuple[int, ...] = ()  # beside `nodes`, or one number for all of them
    gres: tuple[tuple[str, str, int], ...] = ()  # in all
    gres_per_node: tuple[tuple[str, str, int], ...] = ()
    partition: str = ""
    features: str = ""
    allowed_partitions: tuple[str, ...] = ()  # whose jobs alone may use it; () = any


class Reservation(NamedTuple):
    """One reservation: record and committed row in one. It is never changed, only replaced. Primary key name."""

    name: str
    resv_id: int
    start_at_us: int  # of the present or next occurrence
    end_at_us: int
    anchor_at_us: int  # the first start, from which occurrences are counted
    previous_end_at_us: int  # end of the occurrence before, 0 = there was none
    float_us: int  # TIME_FLOAT: how far ahead of now the start always is; -1 = it is fixed
    flags: ResvFlag
    purge_comp_s: int
    idle_since_us: int  # when its last job ended
    ask: ReservationDemand
    parts: tuple[ReservedPart, ...]
    users: tuple[str, ...]
    uids: tuple[int, ...]  # of `users`, or of the members of `groups`
    users_denied: bool
    groups: tuple[str, ...]
    accounts: tuple[str, ...]
    accounts_denied: bool
    licenses: tuple[tuple[str, int], ...]
    comment: str
    created_at_us: int
    qos: tuple[str, ...] = ()
    qos_denied: bool = False


class ReservationSpan(NamedTuple):
    """An interval with its reserved resources (reservations/spans.py). Primary key (resv_id, start_at_us)."""

    # made by tools/records: row of reservation_span
    resv_id: int
    start_at_us: int
    end_at_us: int
    name: str
    flags: int
    nodes: str
    tres: str
    who: str
    node_tres: str = ""  # of a maintenance: lines of "hostlist tres"
    # end of what is made
