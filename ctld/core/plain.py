"""Requests of jobs that ask for what most jobs ask for, in a third of the room.

A `JobRequest` has over a hundred fields, of which a job sets some twenty. With 100,000 jobs waiting, what they do not
ask for would be most of the controller's memory. So a request whose rare fields all have their defaults is kept as a
`PlainRequest`: it has the common fields alone, and the defaults of the others stand in its class. Who reads a request
sees no difference, and both are written alike (defaults are left out).

Rules
    - A request that the state keeps has passed `plain`, is the decoder's, or comes from `with_changes`.
    - It is changed with `with_changes`, never with msgspec.structs.replace: a plain one has no room for a rare field.
"""

from operator import attrgetter
from typing import Any, cast

import msgspec

from ctld.core.model import JobRequest

#: What many jobs set. The rest may be anything that JobRequest has, also what is added to it later.
COMMON = frozenset(
    (
        "name", "partitions", "account", "qos", "comment", "work_dir", "std_out", "std_err", "time_limit_s", "nodes_min",
        "nodes_max", "nodes_asked", "ntasks", "ntasks_asked", "cpus_per_task", "cpus_per_task_asked", "ntasks_per_node",
        "mem_per_node_mb", "mem_per_cpu_mb", "gres_per_node", "features", "exclusive", "dependency", "array", "requeue",
        "rlimits", "umask", "submit_line", "export_env", "submit_host", "submit_dir", "command", "wckey", "gres_per_job",
        "gres_per_task", "kind", "mail_types", "mail_user",
    )
)  # fmt: skip

_FIELDS = msgspec.structs.fields(JobRequest)
_RARE = {field.name: field.default for field in _FIELDS if field.name not in COMMON}


def _equals(one: JobRequest, other: object) -> bool:
    """Equal to a `JobRequest` that says the same, too."""
    if type(other) is JobRequest:
        other = plain(other)
    return type(other) is type(one) and _common_of(one) == _common_of(other)


def _hash(one: JobRequest) -> int:
    """As that of an equal `JobRequest`. Nothing that is done often asks for it."""
    return hash(whole(one))


PlainRequest: Any = msgspec.defstruct(
    "PlainRequest",
    [(field.name, field.type, field.default) for field in _FIELDS if field.name in COMMON],
    namespace={
        **_RARE,
        "has_owner": JobRequest.has_owner,
        "gres": JobRequest.gres,
        "__eq__": _equals,
        "__hash__": _hash,
    },
    module=__name__,
    frozen=True,
    gc=False,
    omit_defaults=True,
    forbid_unknown_fields=True,
)
_rare_of, _usual = attrgetter(*_RARE), tuple(_RARE.values())
_common_of = attrgetter(*PlainRequest.__struct_fields__)
_read_plain = msgspec.json.Decoder(PlainRequest).decode
_read_any = msgspec.json.Decoder(JobRequest).decode


def plain(request: JobRequest) -> JobRequest:
    """The request as it is kept."""
    if type(request) is not JobRequest or _rare_of(request) != _usual:
        return request
    return cast(JobRequest, PlainRequest(*_common_of(request)))


def whole(request: JobRequest) -> JobRequest:
    """The request with all its fields, for who goes through them."""
    return request if type(request) is JobRequest else JobRequest(**msgspec.structs.asdict(request))


def with_changes(request: JobRequest, **values: Any) -> JobRequest:
    """The request with other values, as it is kept."""
    if type(request) is not JobRequest and COMMON.issuperset(values):
        return msgspec.structs.replace(request, **values)
    return plain(msgspec.structs.replace(whole(request), **values))


def read_request(record: bytes) -> JobRequest:
    """From JSON, as it is kept. Raises msgspec.ValidationError."""
    try:
        return cast(JobRequest, _read_plain(record))
    except msgspec.ValidationError:  # it has a rare field
        return _read_any(record)
