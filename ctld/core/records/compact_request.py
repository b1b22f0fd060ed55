"""A compact form of job requests whose rare fields have their defaults, in a third of the memory.

A `JobRequest` has over a hundred fields, of which a job sets some twenty. With 100,000 pending jobs, unset fields would
take most of the controller's memory. So a request whose rare fields all have their defaults is kept as a
`CompactRequest`: it has only the common fields, and the defaults of the others are class attributes. Readers see no
difference, and both are encoded equally (defaults are omitted).

Rules
    - A request in the state comes from `compact`, from the decoder, or from `with_changes`.
    - It is changed with `with_changes`, never with msgspec.structs.replace: a compact one cannot store a rare field.
"""

from collections.abc import Callable
from operator import attrgetter

# Any: msgspec creates the class at run time, so its fields have no types
from typing import Any, cast

import msgspec

from ctld.core.records.request import JobRequest

#: The fields that many jobs set. The others may be any field of JobRequest, also new ones.
COMMON = frozenset(
    (
        "name", "partitions", "account", "qos", "comment", "work_dir", "std_out", "std_err", "time_limit_s", "nodes_min",
        "nodes_max", "nodes_asked", "ntasks", "ntasks_asked", "cpus_per_task", "cpus_per_task_asked", "ntasks_per_node",
        "mem_per_node_mb", "mem_per_cpu_mb", "gres_per_node", "features", "exclusive", "dependency", "array", "requeue",
        "rlimits", "umask", "submit_line", "export_env", "submit_host", "submit_dir", "command", "wckey", "gres_per_job",
        "gres_per_task", "gpus_per_node_asked", "kind", "mail_types", "mail_user",
    )
)  # fmt: skip

_FIELDS = msgspec.structs.fields(JobRequest)
_RARE = {field.name: field.default for field in _FIELDS if field.name not in COMMON}


def _equals(one: JobRequest, other: object) -> bool:
    """Compares equal to a `JobRequest` with the same values, too."""
    if type(other) is JobRequest:
        other = compact(other)
    return type(other) is type(one) and _common_of(one) == _common_of(other)


def _hash(one: JobRequest) -> int:
    """Returns the hash of an equal `JobRequest`. Not for hot paths."""
    return hash(whole(one))


CompactRequest: Any = msgspec.defstruct(
    "CompactRequest",
    [(field.name, field.type, field.default) for field in _FIELDS if field.name in COMMON],
    namespace={
        **_RARE,
        "has_owner": JobRequest.has_owner,
        "gres": JobRequest.gres,
        "is_apart": JobRequest.is_apart,
        "is_alone": JobRequest.is_alone,
        "exclusive_word": JobRequest.exclusive_word,
        "oversubscribe_word": JobRequest.oversubscribe_word,
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
_common_of = attrgetter(*CompactRequest.__struct_fields__)
_read_compact: Callable[[bytes], JobRequest] = msgspec.json.Decoder(CompactRequest).decode
_read_any = msgspec.json.Decoder(JobRequest).decode


def compact(request: JobRequest) -> JobRequest:
    """Returns the compact form of a request."""
    if type(request) is not JobRequest or _rare_of(request) != _usual:
        return request
    return cast(JobRequest, CompactRequest(*_common_of(request)))


def whole(request: JobRequest) -> JobRequest:
    """Returns the request with all its fields, for code that iterates over them."""
    return request if type(request) is JobRequest else JobRequest(**msgspec.structs.asdict(request))


def with_changes(request: JobRequest, **values: object) -> JobRequest:
    """Returns the request with other values, in compact form."""
    if type(request) is not JobRequest and COMMON.issuperset(values):
        return msgspec.structs.replace(request, **values)
    return compact(msgspec.structs.replace(whole(request), **values))


def read_request(record: bytes) -> JobRequest:
    """Decodes a stored request from JSON. Raises msgspec.ValidationError."""
    try:
        return _read_compact(record)
    except msgspec.ValidationError:  # it has a rare field
        return _read_any(record)
