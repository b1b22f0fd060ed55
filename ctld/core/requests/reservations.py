"""scontrol create, update and delete of reservations, and who may use one.

A reservation sets nodes, parts of nodes or licenses aside for some users from its start to its end.
reservations/nodes.py chooses the nodes, reservations/recurrence.py computes its occurrences,
lifecycle/reservation_life.py handles its transitions, and reservations/view.py is the planner's view. Rules as in man
scontrol; docs/reservations.md lists the differences.

Rights: operators and administrators create and change them; a USER_DELETE reservation may also be deleted by its users.
A job may use one if its user is on the list of users (or in a group) and its account on the list of accounts, as far as
there are such lists; a list of names with `-` excludes them.
"""

from collections.abc import Iterable
from typing import Final, TypedDict

import msgspec

from ctld.core.gpus.kinds import can_be_asked
from ctld.core.lifecycle.reservation_life import arm, orphan, renew_rows
from ctld.core.queue.defaults import find_qos
from ctld.core.queue.rights import require_role
from ctld.core.records.effects import Created, Done, Refused
from ctld.core.records.events import (
    CreateReservation,
    DeleteReservation,
    ReservationSettings,
    Role,
    UpdateReservation,
)
from ctld.core.records.job import Job
from ctld.core.records.reservation import Reservation, ReservationDemand, ReservedPart
from ctld.core.reservations import nodes as reserve_nodes
from ctld.core.reservations import recurrence
from ctld.core.reservations.access import allocated_jobs, is_active, names_asked, permits
from ctld.core.reservations.nodes import Spans, spans_of
from ctld.core.state.state import ClusterState
from penstock.values.errors import BadValue
from penstock.values.features import parse_features
from penstock.values.gres import SHARED_NAMES
from penstock.values.refusals import Code
from penstock.values.reservations import RECURRING, ResvFlag
from penstock.values.states import JobState
from penstock.values.text import check_name

US: Final = 1_000_000
#: The length of an endless reservation (as in Slurm, a year), and how far in the past a start may lie.
YEAR_S: Final = 365 * 86_400
PAST_US: Final = 60 * US
#: Maximum number of reservations: the planner's view grows with each, and Slurm's numbers for names end here.
RESERVATIONS_MAX: Final = 9_999
NAME_MAX: Final = 255
_COUNTED: Final = ("node_count", "cpus", "gres", "gres_per_node")


def create_reservation(state: ClusterState, now_us: int, event: CreateReservation) -> None:
    """Creates a reservation. Raises Refused."""
    require_role(event.actor, Role.OPERATOR, "creating a reservation")
    if len(state.reservations) >= RESERVATIONS_MAX:
        raise Refused(Code.BUSY, f"there are {RESERVATIONS_MAX} reservations, the limit")
    reservation = _checked(state, now_us, _blank(state, now_us, event), event.wanted, None)
    state.applying()
    state.put_reservation(reservation)
    arm(state, reservation, now_us)
    renew_rows(state, now_us)
    state.reply(event.reply_to, Created(reservation.name))


def update_reservation(state: ClusterState, now_us: int, event: UpdateReservation) -> None:
    """Changes a reservation. Raises Refused."""
    require_role(event.actor, Role.OPERATOR, "changing a reservation")
    old = _find(state, event.name)
    reservation = _checked(state, now_us, old, event.wanted, old)
    state.applying()
    state.put_reservation(reservation)
    arm(state, reservation, now_us)
    renew_rows(state, now_us)
    state.reply(event.reply_to, Done())


def delete_reservation(state: ClusterState, now_us: int, event: DeleteReservation) -> None:
    """Ends a reservation permanently. Raises Refused."""
    reservation = _find(state, event.name)
    user = reservation.flags & ResvFlag.USER_DELETE and permits(reservation, event.actor.uid, event.actor.group_name)
    if not user:
        require_role(event.actor, Role.OPERATOR, "deleting a reservation")
    running = allocated_jobs(state, reservation.name)
    if running:
        raise Refused(Code.RESERVATION_BUSY, f"job {running[0].job_id} runs in it")
    waiting = next((job for job in state.jobs.records() if _waits_for(job, reservation.name)), None)
    if waiting is not None:
        raise Refused(Code.RESERVATION_BUSY, f"job {waiting.job_id} waits for it")
    state.applying()
    orphan(state, now_us, reservation)
    state.drop_reservation(reservation.name)
    renew_rows(state, now_us)
    state.reply(event.reply_to, Done())


def _waits_for(job: Job, name: str) -> bool:
    return job.state is JobState.PENDING and name in names_asked(job)


def _find(state: ClusterState, name: str) -> Reservation:
    found = state.reservations.get(name)
    if found is None:
        raise Refused(Code.RESERVATION_INVALID, name)
    return found


def check_asked(
    state: ClusterState,
    now_us: int,
    text: str,
    uid: int,
    group_name: str,
    account: str,
    qos: str,
    partitions: tuple[str, ...],
) -> str:
    """Checks the reservation names of a submission. Raises Refused."""
    names = tuple(dict.fromkeys(name for name in text.split(",") if name))
    for name in names:
        reservation = state.reservations.get(name)
        if reservation is None or (reservation.float_us < 0 and reservation.end_at_us <= now_us):
            raise Refused(Code.RESERVATION_INVALID, name)
        if not permits(reservation, uid, group_name, account, qos, partitions):
            raise Refused(Code.RESERVATION_ACCESS, name)
    return ",".join(names)


# ---- from settings to a record -------------------------------------------------------------------------------------


def _blank(state: ClusterState, now_us: int, event: CreateReservation) -> Reservation:
    """Returns a record that reserves nothing yet."""
    resv_id = state.registry.reservation_id + 1
    name = event.name
    if name:
        try:
            check_name(name, "reservation name", NAME_MAX)
        except BadValue as error:
            raise Refused(Code.RESERVATION_INVALID, str(error)) from None
        if "," in name or "=" in name or name[0] in "+-" or name.upper() == "ALL":
            raise Refused(Code.RESERVATION_INVALID, f"{name[:64]} cannot be a name")
        if name in state.reservations:
            raise Refused(Code.RESERVATION_INVALID, f"{name} exists already")
    else:
        key = next((n for _, n in event.wanted.accounts or ()), "") or next(
            (n for _, n, _ in event.wanted.users or ()), "resv"
        )
        while not name or name in state.reservations:
            name = f"{key}_{resv_id}"
            resv_id += not name or name in state.reservations
    return Reservation(
        name=name, resv_id=resv_id, start_at_us=0, end_at_us=0, anchor_at_us=0, previous_end_at_us=0, float_us=-1,
        flags=ResvFlag.NONE, purge_comp_s=0, idle_since_us=0, ask=ReservationDemand(), parts=(), users=(), uids=(),
        users_denied=False, groups=(), accounts=(), accounts_denied=False, licenses=(), comment="", created_at_us=now_us,
    )  # fmt: skip


def _checked(
    state: ClusterState, now_us: int, base: Reservation, wanted: ReservationSettings, old: Reservation | None
) -> Reservation:
    """Returns `base` with the requested settings. Raises Refused."""
    found = _with_flags(base, wanted)
    found = _with_access(state, found, wanted)
    found = _with_times(state, now_us, found, wanted, old)
    ask = _requested(state, found, wanted)
    derived = ResvFlag.SPEC_NODES if ask.nodes else ResvFlag.NONE
    if ask.all_nodes:
        derived = ResvFlag.SPEC_NODES | ResvFlag.ALL_NODES
    flags = (found.flags & ~(ResvFlag.SPEC_NODES | ResvFlag.ALL_NODES)) | derived
    found = found._replace(ask=ask, flags=flags)
    found = found._replace(licenses=_licenses(state, now_us, found, wanted))
    if wanted.comment is not None:
        found = found._replace(comment=_text(wanted.comment, "comment"))
    _check_together(found)
    return found._replace(parts=_parts(state, now_us, found, old))


def _text(text: str, what: str) -> str:
    try:
        return check_name(text, what)
    except BadValue as error:
        raise Refused(Code.INVALID_VALUE, str(error)) from None


def _with_flags(base: Reservation, wanted: ReservationSettings) -> Reservation:
    flags = (base.flags | ResvFlag(wanted.flags_on)) & ~ResvFlag(wanted.flags_off)
    recurring = ResvFlag(wanted.flags_on) & RECURRING
    if recurring and not base.flags & RECURRING & ~recurring:
        flags = (flags & ~RECURRING) | recurring
    if (flags & RECURRING).bit_count() > 1:
        raise Refused(Code.INVALID_VALUE, "one of HOURLY, DAILY, WEEKDAY, WEEKEND and WEEKLY, not several")
    purge_comp_s = base.purge_comp_s if wanted.purge_comp_s < 0 else wanted.purge_comp_s
    return base._replace(flags=flags, purge_comp_s=purge_comp_s)


def _check_together(found: Reservation) -> None:
    """Checks for settings that exclude each other. Raises Refused."""
    if not (found.users or found.groups or found.accounts or found.qos or found.ask.allowed_partitions):
        raise Refused(Code.INVALID_USER, "Users, Groups, Accounts, QOS or AllowedPartitions must be given")
    if found.users and found.groups:
        raise Refused(Code.INVALID_VALUE, "Users and Groups exclude each other")
    flags = found.flags
    if flags & ResvFlag.TIME_FLOAT and flags & RECURRING:
        raise Refused(Code.INVALID_VALUE, "TIME_FLOAT cannot recur")
    if flags & ResvFlag.REPLACE and flags & (ResvFlag.SPEC_NODES | ResvFlag.STATIC_ALLOC):
        raise Refused(Code.INVALID_VALUE, "REPLACE needs a number of nodes, not their names, and no STATIC_ALLOC")
    if flags & ResvFlag.PART_NODES and not (found.ask.partition and found.ask.all_nodes):
        raise Refused(Code.INVALID_VALUE, "PART_NODES needs PartitionName= and Nodes=ALL")
    if (
        flags & ResvFlag.MAGNETIC
        and found.users_denied
        and not (found.accounts or found.qos or found.ask.allowed_partitions)
    ):
        raise Refused(Code.INVALID_VALUE, "MAGNETIC needs a list of who may use it")


def edited(
    what: str, have: tuple[str, ...], denied: bool, items: Iterable[tuple[str, str]]
) -> tuple[tuple[str, ...], bool]:
    """Applies an edit to a list of names; also returns whether it lists excluded ones. Raises Refused."""
    signs = {sign for sign, _ in items}
    names = tuple(name for _, name in items)
    if signs <= {""}:
        return tuple(dict.fromkeys(names)), False
    if not have:
        if signs == {"-"}:
            return names, True
        denied = False
    kept = list(have)
    for sign, name in items:
        if (sign == "-") == denied:
            kept += [] if name in kept else [name]
        elif name in kept:
            kept.remove(name)
        else:
            raise Refused(Code.INVALID_VALUE, f"{name} is not among the {what}")
    return tuple(kept), denied and bool(kept)


def _with_access(state: ClusterState, base: Reservation, wanted: ReservationSettings) -> Reservation:
    found = base
    if wanted.users is not None:
        known = dict(zip(base.users, base.uids, strict=False)) | {name: uid for _, name, uid in wanted.users}
        have, denied = (() if base.groups else base.users), base.users_denied
        users, denied = edited("users", have, denied, [(s, n) for s, n, _ in wanted.users])
        found = found._replace(users=users, uids=tuple(known[n] for n in users), users_denied=denied, groups=())
    if wanted.groups is not None:
        if wanted.users:
            raise Refused(Code.INVALID_VALUE, "Users and Groups exclude each other")
        items = [(sign, name) for sign, name, _ in wanted.groups]
        if any(sign for sign, _ in items):
            raise Refused(Code.NOT_SUPPORTED, "Groups is a list of those who may; it takes no signs")
        uids = tuple(dict.fromkeys(uid for _, _, members in wanted.groups for uid in members))
        groups = tuple(dict.fromkeys(name for _, name in items))
        found = found._replace(groups=groups, users=(), uids=uids, users_denied=False)
    if wanted.accounts is not None:
        accounts, denied = edited("accounts", base.accounts, base.accounts_denied, wanted.accounts)
        found = found._replace(accounts=accounts, accounts_denied=denied)
    if wanted.qos is not None:
        named = [(sign, find_qos(state, name)) for sign, name in wanted.qos]
        qos, denied = edited("QOS", base.qos, base.qos_denied, named)
        found = found._replace(qos=qos, qos_denied=denied)
    return found


def _licenses(
    state: ClusterState, now_us: int, base: Reservation, wanted: ReservationSettings
) -> tuple[tuple[str, int], ...]:
    """Returns its licenses, which no two reservations may have at a time. Raises Refused."""
    licenses = base.licenses if wanted.licenses is None else wanted.licenses
    if not licenses:
        return ()
    kept: dict[str, int] = {}
    spans = spans_of(state, base, now_us)
    for other in state.reservations.values():
        if other.name == base.name or not recurrence.overlap(spans, spans_of(state, other, now_us)):
            continue
        for name, count in other.licenses:
            kept[name] = kept.get(name, 0) + count
    for name, count in licenses:
        if name in state.layout.hres or "(" in name:
            raise Refused(Code.INVALID_LICENSES, f"{name}: hierarchical resources cannot be reserved")
        if name not in state.layout.license_totals:
            raise Refused(Code.INVALID_LICENSES, name)
        left = state.layout.license_totals[name] - kept.get(name, 0)
        if count > left:
            raise Refused(Code.INVALID_LICENSES, f"{name}:{count}, {max(0, left)} can be kept")
    return licenses


def _with_times(
    state: ClusterState, now_us: int, base: Reservation, wanted: ReservationSettings, old: Reservation | None
) -> Reservation:
    """Returns start and end, in whole seconds, the planner's resolution. Raises Refused."""
    start_us = base.start_at_us if wanted.start_at_us is None else wanted.start_at_us // US * US
    new_start = wanted.start_at_us is not None and start_us != base.start_at_us
    if old is None and wanted.start_at_us is None:
        raise Refused(Code.INVALID_TIME_VALUE, "StartTime must be given")
    if new_start and start_us < now_us - PAST_US:
        raise Refused(Code.INVALID_TIME_VALUE, "StartTime is in the past")
    if new_start and old is not None and is_active(old, now_us):
        raise Refused(Code.INVALID_TIME_VALUE, "it has begun: its StartTime can no longer be changed")
    floats = bool(base.flags & ResvFlag.TIME_FLOAT)
    offset_us = wanted.float_us if wanted.start_at_us is not None else (base.float_us if base.float_us >= 0 else None)
    if floats and offset_us is None:
        raise Refused(Code.INVALID_TIME_VALUE, "TIME_FLOAT needs a StartTime of the form now+N")
    end_us = _end(start_us, base, wanted, old)
    if end_us <= start_us or (end_us <= now_us and (old is None or wanted.end_at_us is not None)):
        raise Refused(Code.INVALID_TIME_VALUE, "EndTime is not after StartTime and now")
    how = base.flags & RECURRING
    if how and end_us - start_us > recurrence.SHORTEST_S[how] * US:
        raise Refused(Code.INVALID_TIME_VALUE, f"it would last longer than {how.name} gives it time for")
    anchor_us = base.anchor_at_us
    if new_start or old is None or how != (old.flags & RECURRING):
        first_us = next(recurrence.starts(start_us, base.flags, state.config.utc_offsets, start_us))
        anchor_us, start_us, end_us = first_us, first_us, end_us + first_us - start_us
    return base._replace(
        start_at_us=start_us, end_at_us=end_us, anchor_at_us=anchor_us, float_us=(offset_us or 0) if floats else -1
    )


def _end(start_us: int, base: Reservation, wanted: ReservationSettings, old: Reservation | None) -> int:
    length_s = wanted.duration_s
    if length_s is not None and length_s < 0:
        length_s = YEAR_S
    if length_s is not None and wanted.duration_sign:
        if old is None:
            raise Refused(Code.INVALID_TIME_VALUE, "Duration takes no sign in a new reservation")
        length_s = (base.end_at_us - base.start_at_us) // US + (length_s if wanted.duration_sign == "+" else -length_s)
    if wanted.end_at_us is not None:
        end_us = wanted.end_at_us // US * US
        if length_s is not None and start_us + length_s * US != end_us:
            raise Refused(Code.INVALID_TIME_VALUE, "StartTime + Duration does not equal EndTime")
        return end_us
    if length_s is not None:
        return start_us + length_s * US
    return start_us + (YEAR_S * US if old is None else base.end_at_us - base.start_at_us)


class _AskChanges(TypedDict, total=False):
    """The fields of ReservationDemand that a request sets."""

    nodes: tuple[str, ...]
    all_nodes: bool
    node_count: int
    cpus: int
    cpus_by_node: tuple[int, ...]
    gres: tuple[tuple[str, str, int], ...]
    gres_per_node: tuple[tuple[str, str, int], ...]
    partition: str
    features: str
    allowed_partitions: tuple[str, ...]


def _requested(state: ClusterState, base: Reservation, wanted: ReservationSettings) -> ReservationDemand:
    """Returns the requested resources. Raises Refused."""
    ask = base.ask
    changes: _AskChanges = {}
    if wanted.partition is not None:
        if wanted.partition and wanted.partition not in state.partitions:
            raise Refused(Code.INVALID_PARTITION, wanted.partition)
        changes["partition"] = wanted.partition
    if wanted.allowed_partitions is not None:
        changes["allowed_partitions"] = _allowed_partitions(state, ask, wanted.allowed_partitions)
    if wanted.features is not None:
        changes["features"] = _features(state, wanted.features)
    if wanted.cpus is not None:
        changes["cpus"] = wanted.cpus
    if wanted.gres is not None:
        changes["gres"] = wanted.gres
    if wanted.gres_per_node is not None:
        changes["gres_per_node"] = wanted.gres_per_node
    if wanted.node_count is not None:
        sign = {"": 0, "+": 1, "-": -1}[wanted.node_count_sign]
        have = ask.node_count or len(base.parts)
        changes["node_count"] = have + sign * wanted.node_count if sign else wanted.node_count
        if changes["node_count"] < 1:
            raise Refused(Code.INVALID_NODE_COUNT, str(changes["node_count"]))
        changes.update({"nodes": (), "all_nodes": False})
    if wanted.nodes is not None or wanted.all_nodes:
        have_nodes = tuple(part.node for part in base.parts)
        nodes, removed = edited("nodes", have_nodes, False, wanted.nodes or ())
        if removed or (not nodes and not wanted.all_nodes):
            raise Refused(Code.INVALID_NODE_NAME, "no node would be left")
        changes.update({"nodes": nodes, "all_nodes": wanted.all_nodes, "node_count": 0, "cpus_by_node": ()})
        if wanted.node_count is not None:
            raise Refused(Code.INVALID_NODE_COUNT, "Nodes and NodeCnt exclude each other")
    if wanted.cores is not None:
        names = changes.get("nodes", ask.nodes)
        changes.update(_cores(state, wanted.cores, bool(names or changes.get("all_nodes", ask.all_nodes)), names))
    for kind in (changes.get("gres") or ()) + (changes.get("gres_per_node") or ()):
        if not can_be_asked(state, *kind[:2]):
            raise Refused(Code.INVALID_GRES, ":".join(filter(None, kind[:2])))
        if kind[0] in SHARED_NAMES:
            raise Refused(Code.INVALID_GRES, f"{kind[0]}: a reservation keeps whole GPUs")
    found: ReservationDemand = msgspec.structs.replace(ask, **changes)
    if not found.partition and (found.node_count or found.cpus or found.gres or found.gres_per_node):
        default = next((p.name for p in state.partition_list if p.config.is_default), "")
        found = msgspec.structs.replace(found, partition=default)  # the nodes are chosen there
    return found


def _allowed_partitions(
    state: ClusterState, ask: ReservationDemand, items: tuple[tuple[str, str], ...]
) -> tuple[str, ...]:
    names, denied = edited("partitions", ask.allowed_partitions, False, items)
    if denied:
        raise Refused(Code.NOT_SUPPORTED, "AllowedPartitions lists the partitions that may use it, not the others")
    for name in names:
        if name not in state.partitions:
            raise Refused(Code.INVALID_PARTITION, name)
    return names


def _cores(state: ClusterState, cores: tuple[int, ...], named: bool, names: tuple[str, ...]) -> _AskChanges:
    """Converts CoreCnt to CPUs: of each named node by its own threads, or of all nodes together, which are assumed to
    have as many threads as those with the most."""
    most = max((node.config.cpus_per_core() for node in state.node_list), default=1)
    if not named:
        return {"cpus": sum(cores) * most}
    nodes = [state.nodes[name] for name in names if name in state.nodes] or state.node_list
    each = cores if len(cores) > 1 else cores * len(nodes)
    if len(each) != len(nodes):
        return {"cpus_by_node": tuple(count * most for count in each)}  # refused where the nodes are chosen
    return {"cpus_by_node": tuple(count * node.config.cpus_per_core() for count, node in zip(each, nodes, strict=True))}


def _features(state: ClusterState, text: str) -> str:
    known = {feature for node in state.node_list for feature in node.features}
    try:
        for name in parse_features(text).names() if text else ():
            if name not in known:
                raise Refused(Code.INVALID_FEATURE, name)
    except BadValue as error:
        raise Refused(Code.INVALID_FEATURE, str(error)) from None
    return text


def _parts(state: ClusterState, now_us: int, found: Reservation, old: Reservation | None) -> tuple[ReservedPart, ...]:
    """Returns the nodes' parts; the present ones are kept when neither the time nor the request has changed. Raises
    Refused."""
    spans: Spans = spans_of(state, found, now_us)
    if old is not None and old.ask == found.ask and old.parts:
        looser = ResvFlag.OVERLAP | ResvFlag.IGNORE_JOBS | ResvFlag.MAINT
        stricter = (old.flags & looser & ~found.flags) or (old.flags ^ found.flags) & RECURRING
        later = (old.start_at_us, old.anchor_at_us) != (found.start_at_us, found.anchor_at_us)
        if stricter or later or found.end_at_us > old.end_at_us:
            _check_kept(state, now_us, found, spans)
        return old.parts
    return reserve_nodes.choose(state, now_us, found.ask, found.flags, spans, found.name)


def _check_kept(state: ClusterState, now_us: int, found: Reservation, spans: Spans) -> None:
    """Raises Refused when its present nodes are not free at its new times."""
    for part in found.parts:
        if part.cpus == reserve_nodes.WHOLE:
            one = ReservationDemand(nodes=(part.node,))
        else:
            one = ReservationDemand(nodes=(part.node,), cpus_by_node=(part.cpus,))
        reserve_nodes.choose(state, now_us, one, found.flags, spans, found.name)
