"""Partitions and reservations as documents: scontrol show partition|reservation --json (see cli.document)."""

from collections.abc import Iterable

from cli.document import Json, document, number, time_object
from cli.jsonsinfo import partition_object
from penstock.v1.controller_pb2 import PartitionInfo, ReservationInfo


def partitions_document(partitions: Iterable[PartitionInfo], cluster: str, now_us: int) -> Json:
    """The whole answer."""
    items = [partition_object(partition) for partition in partitions]
    return document("partitions", items, cluster, last_update=time_object(now_us))


def reservations_document(reservations: Iterable[ReservationInfo], cluster: str, now_us: int) -> Json:
    """The whole answer."""
    items = [reservation_object(reservation) for reservation in reservations]
    return document("reservations", items, cluster, last_update=time_object(now_us))


def reservation_object(reservation: ReservationInfo) -> Json:
    """One reservation."""
    return {
        "accounts": ",".join(reservation.accounts),
        "burst_buffer": "",
        "core_count": reservation.core_count,
        "core_specializations": [],
        "end_time": time_object(reservation.end_at_us),
        "features": reservation.features,
        "flags": reservation.flags.split(",") if reservation.flags else [],
        "groups": ",".join(reservation.groups),
        "licenses": ",".join(reservation.licenses),
        "max_start_delay": 0,
        "name": reservation.name,
        "node_count": reservation.node_count,
        "node_list": reservation.node_list,
        "partition": reservation.partition,
        "purge_completed": {"time": number(None)},
        "start_time": time_object(reservation.start_at_us),
        "watts": number(0),
        "tres": reservation.tres,
        "users": ",".join(reservation.users),
    }
