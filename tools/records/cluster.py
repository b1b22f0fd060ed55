"""Field tables of nodes, GPUs, partitions and reservations, and of their events."""

from typing import Final

from tools.records.declare import BIG, BYTES, INT, TEXT, Field, Kind, Record, made

_FLAGS: Final = Kind("NodeFlag", "Integer", "int({0})", "NodeFlag({0})")

NODE: Final = Record(
    "node", "NodeRow", ("name",),
    fields=(
        Field("name", TEXT),
        Field("flags", _FLAGS),
        Field("reason", TEXT, default='""'),
        Field("reason_uid", BIG, default="0"),
        Field("reason_at_us", BIG, default="0"),
        Field("comment", TEXT, default='""'),
        Field("boot_id", TEXT, default='""'),
        Field("spool_id", TEXT, default='""'),
        Field("version", TEXT, default='""'),
        Field("last_busy_at_us", BIG, default="0"),
        Field("extra", TEXT, default='""', existing=""),
        Field("resume_after_us", BIG, "of its automatic resumption; 0 = none", "0", existing="0"),
        Field("instance_id", TEXT, "of a machine in a cloud", '""', existing=""),
        Field("instance_type", TEXT, default='""', existing=""),
    ),
)  # fmt: skip

GPU: Final = Record(
    "gpu", "Gpu", ("node", "uuid"), is_document=True,
    fields=(
        made("node", TEXT, "row.node"),
        made("uuid", TEXT, "row.uuid"),
        made("slot", INT, "row.slot"),
        made("state", INT, "int(row.state())", stored="penstock.values.gpustates"),
        made("reason", TEXT, "row.reason()"),
        made("record", BYTES, "gpu_json(row)"),
    ),
)  # fmt: skip

PARTITION: Final = Record(
    "partition_state", "PartitionRow", ("name",),
    fields=(
        Field("name", TEXT),
        Field("state", TEXT),
    ),
)  # fmt: skip

RESERVATION: Final = Record(
    "reservation", "Reservation", ("name",), is_document=True,
    fields=(
        made("name", TEXT, "row.name"),
        made("resv_id", INT, "row.resv_id", stored="rises with each creation"),
        made("start_at_us", BIG, "row.start_at_us"),
        made("end_at_us", BIG, "row.end_at_us"),
        made("flags", BIG, "int(row.flags)"),
        made("record", BYTES, "encode_json(row)"),
    ),
)  # fmt: skip

NODE_EVENT: Final = Record(
    "node_event", "NodeEvent", ("node", "start_at_us"),
    fields=(
        Field("node", TEXT, '"" = the cluster'),
        Field("start_at_us", BIG),
        Field("end_at_us", BIG, "0 = it continues"),
        Field("state", TEXT, stored="DOWN, DRAIN, FAIL, DOWN+DRAIN, ..."),
        Field("reason", TEXT),
        Field("reason_uid", BIG),
        Field("tres", TEXT),
    ),
)  # fmt: skip

RESERVATION_SPAN: Final = Record(
    "reservation_span", "ReservationSpan", ("resv_id", "start_at_us"),
    fields=(
        Field("resv_id", BIG),
        Field("start_at_us", BIG),
        Field("end_at_us", BIG, stored="as planned, until it ends in another way"),
        Field("name", TEXT),
        Field("flags", BIG),
        Field("nodes", TEXT, stored="a compressed hostlist"),
        Field("tres", TEXT),
        Field("who", TEXT, stored="users and accounts, separated by commas"),
        Field("node_tres", TEXT, 'of a maintenance: lines of "hostlist tres"', '""', existing="",
              stored="of nodes of which as much is kept, a line"),
    ),
)  # fmt: skip

TOKEN_REVOCATION: Final = Record(
    "token_revocation", "TokenRevocation", ("user_name",),
    fields=(
        Field("user_name", TEXT, '"" = everybody'),
        Field("at_us", BIG),
    ),
)  # fmt: skip

PERSONAL_TOKEN: Final = Record(
    "personal_token", "PersonalToken", ("token_id",),
    fields=(
        Field("token_id", TEXT, "the claim of the token that refers to it"),
        Field("user_name", TEXT),
        Field("name", TEXT, "unique among those of its user"),
        Field("scope", INT, "penstock.values.scopes.Scope"),
        Field("created_at_us", BIG),
        Field("ends_at_us", BIG),
        Field("used_at_us", BIG, "when a use was last noted; 0 = never", "0"),
        Field("used_from", TEXT, "the address of that use", '""'),
    ),
)  # fmt: skip

RECORDS: Final = (NODE, GPU, PARTITION, RESERVATION, NODE_EVENT, RESERVATION_SPAN, TOKEN_REVOCATION, PERSONAL_TOKEN)
