"""Compact forms of job requests whose rare fields have their defaults, in a fourth or a third of the memory.

A `JobRequest` has over a hundred fields, of which a job sets some twenty. With 100,000 pending jobs, unset fields would
take most of the controller's memory. So a request whose rare fields all have their defaults is kept as one of two smaller
classes, which have only the fields that nearly all jobs set, or those that many do; the defaults of the others are class
attributes. Readers see no difference, and all forms are encoded equally (defaults are omitted).

Rules
    - A request in the state comes from `compact`, from the decoder, or from `with_changes`.
    - It is changed with `with_changes`, never with msgspec.structs.replace: a compact one cannot store a rare field.
    - Code that asks for the form compares with `JobRequest`; of any other, the fields outside of COMMON have their defaults.
"""

from collections.abc import Callable, Collection
from operator import attrgetter

# Any: msgspec creates the classes at run time, so their fields have no types
from typing import Any, NamedTuple

import msgspec

from ctld.core.records.request import JobRequest

#: The fields that nearly every job sets.
FREQUENT = frozenset(
    (
        "name", "partitions", "account", "qos", "comment", "work_dir", "std_out", "time_limit_s", "nodes_min", "nodes_max",
        "nodes_asked", "ntasks", "ntasks_asked", "cpus_per_task", "cpus_per_task_asked", "mem_per_node_mb",
        "mem_per_cpu_mb", "gres_per_node", "rlimits", "umask", "submit_line", "export_env", "submit_host", "submit_dir",
        "command",
    )
)  # fmt: skip
#: Those, and the ones that many jobs set. The others may be any field of JobRequest, also new ones.
COMMON = FREQUENT | {
    "std_err", "ntasks_per_node", "features", "exclusive", "dependency", "array", "requeue", "wckey", "gres_per_job",
    "gres_per_task", "gpus_per_node_asked", "kind", "mail_types", "mail_user",
}  # fmt: skip

_FIELDS = msgspec.structs.fields(JobRequest)


def _equals(one: JobRequest, other: object) -> bool:
    """Compares equal to another form with the same values, too."""
    if type(other) is JobRequest:
        other = compact(other)
    return type(other) in _CLASSES and _common_of(one) == _common_of(other)


def _hash(one: JobRequest) -> int:
    """Returns the hash of an equal `JobRequest`. Not for hot paths."""
    return hash(whole(one))


def _class(name: str, fields: Collection[str]) -> Any:  # Any: as above
    """Creates a compact class with these fields."""
    return msgspec.defstruct(
        name,
        [(field.name, field.type, field.default) for field in _FIELDS if field.name in fields],
        namespace={
            **{field.name: field.default for field in _FIELDS if field.name not in fields},
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


SmallRequest = _class("SmallRequest", FREQUENT)
CompactRequest = _class("CompactRequest", COMMON)
_CLASSES = (SmallRequest, CompactRequest)  # the smallest first
_common_of = attrgetter(*(field.name for field in _FIELDS if field.name in COMMON))


class _Form(NamedTuple):
    """What makes a compact request of a class."""

    make: Callable[..., JobRequest]
    fields_of: Callable[[JobRequest], tuple[object, ...]]
    others_of: Callable[[JobRequest], tuple[object, ...]]
    usual: tuple[object, ...]  # values of the others


def _form(kind: Any) -> _Form:  # Any: as above
    others = {field.name: field.default for field in _FIELDS if field.name not in kind.__struct_fields__}
    return _Form(kind, attrgetter(*kind.__struct_fields__), attrgetter(*others), tuple(others.values()))


_FORMS = tuple(map(_form, _CLASSES))
_READERS: list[Callable[[bytes], JobRequest]] = [msgspec.json.Decoder(kind).decode for kind in _CLASSES]
_read_any = msgspec.json.Decoder(JobRequest).decode


def compact(request: JobRequest) -> JobRequest:
    """Returns the smallest form of a request."""
    if type(request) is JobRequest:
        for form in _FORMS:
            if form.others_of(request) == form.usual:
                return form.make(*form.fields_of(request))
    return request


def whole(request: JobRequest) -> JobRequest:
    """Returns the request with all its fields, for code that iterates over them."""
    return request if type(request) is JobRequest else JobRequest(**msgspec.structs.asdict(request))


def with_changes(request: JobRequest, **values: object) -> JobRequest:
    """Returns the request with other values, in compact form."""
    if type(request) is not JobRequest and values.keys() <= set(request.__struct_fields__):
        return msgspec.structs.replace(request, **values)
    return compact(msgspec.structs.replace(whole(request), **values))


def read_request(record: bytes) -> JobRequest:
    """Decodes a stored request from JSON. Raises msgspec.ValidationError."""
    for read in _READERS:
        try:
            return read(record)
        except msgspec.ValidationError:  # it has a rare field
            continue
    return _read_any(record)
