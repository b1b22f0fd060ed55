"""A job's request as the site's submit filters see it, and their changes put back: one table, FIELDS.

Names, units and values are those of penstock.submitfilter.Job. A filter's process is not believed: each value is checked
here for its type, and the changed message passes the gate's bounds like any that arrives (filtering.py); what the
values mean is checked by the core.
"""

from collections.abc import Callable, Iterable, Mapping, MutableSequence
from typing import Final, NamedTuple, TypeAlias, cast

from penstock.v1.common_pb2 import GresCount, JobRequest, JobSpec
from penstock.values.errors import BadValue
from penstock.values.gres import parse_gres

#: A field's value in JSON; None = not given.
FilterValue: TypeAlias = str | int | bool | None
Get: TypeAlias = Callable[[JobRequest], FilterValue]
Put: TypeAlias = Callable[[JobRequest, FilterValue], None]

SECOND_US: Final = 1_000_000
#: Slurm's numbers of JobRequest's kinds of sharing.
EXCLUSIVE, OVERSUBSCRIBE, BY_USER, BY_MCS, BY_TOPOLOGY = range(5)


class FilterField(NamedTuple):
    """One field: how it is read, and written. `kind`: the type of its value."""

    get: Get
    put: Put
    kind: type[str] | type[int] | type[bool]


def _plain(name: str, kind: type[str] | type[int] | type[bool], encoded: bool = False) -> FilterField:
    """A field with the same value; its zero is "not given", unless it is `optional` on the wire."""
    optional = JobRequest.DESCRIPTOR.fields_by_name[name].has_presence

    def get(job: JobRequest) -> FilterValue:
        if optional and not job.HasField(name):  # type: ignore[arg-type]  # a name of the table
            return None
        value = getattr(job, name)
        if encoded:
            value = value.decode("utf-8", "surrogateescape")
        return value if value or optional else None

    def put(job: JobRequest, value: FilterValue) -> None:
        job.ClearField(name)  # type: ignore[arg-type]
        if value is not None:
            setattr(job, name, str(value).encode("utf-8", "surrogateescape") if encoded else value)

    return FilterField(get, put, kind)


def _scaled(name: str, factor: int) -> FilterField:
    """A field in another unit: `factor` of the wire's are one here."""
    plain = _plain(name, int)

    def get(job: JobRequest) -> FilterValue:
        value = cast("int | None", plain.get(job))
        return value if value is None or value < 0 else -(-value // factor)

    def put(job: JobRequest, value: FilterValue) -> None:
        number = cast("int | None", value)
        plain.put(job, number if number is None or number < 0 else number * factor)

    return FilterField(get, put, int)


def _listed(name: str) -> FilterField:
    """A list of words, as a text with commas."""

    def put(job: JobRequest, value: FilterValue) -> None:
        job.ClearField(name)  # type: ignore[arg-type]
        getattr(job, name).extend(word for word in str(value or "").split(",") if word)

    return FilterField(lambda job: ",".join(getattr(job, name)) or None, put, str)


def _gres(name: str) -> FilterField:
    """A list of GRES, as Slurm's TRES: gres/gpu:a100:2."""

    def get(job: JobRequest) -> FilterValue:
        words = (f"gres/{':'.join(filter(None, (one.name, one.type)))}:{one.count}" for one in getattr(job, name))
        return ",".join(words) or None

    def put(job: JobRequest, value: FilterValue) -> None:
        job.ClearField(name)  # type: ignore[arg-type]
        found = parse_gres(_without_gres(str(value))) if value else ()
        getattr(job, name).extend(GresCount(name=one.name, type=one.type, count=one.count) for one in found)

    return FilterField(get, put, str)


def _without_gres(text: str) -> str:
    """Returns a list of TRES without `gres/`, or `gres:` of older releases."""
    return ",".join(word[5:] if word[:5] in ("gres/", "gres:") else word for word in text.split(","))


def _of_gpu(name: str) -> FilterField:
    """An amount for each GPU, as Slurm's TRES: gres/gpu:4."""
    plain = _plain(name, int)

    def get(job: JobRequest) -> FilterValue:
        value = plain.get(job)
        return None if value is None else f"gres/gpu:{value}"

    def put(job: JobRequest, value: FilterValue) -> None:
        head, _, number = str(value or "").rpartition(":")
        if value and (head not in ("gres/gpu", "gres:gpu") or not number.isdecimal()):
            raise BadValue(f"{value!r} is not gres/gpu:NUMBER")
        plain.put(job, int(number) if number else None)

    return FilterField(get, put, str)


def _get_priority(job: JobRequest) -> FilterValue:
    if job.hold:
        return 0
    return job.priority if job.HasField("priority") else None


def _put_priority(job: JobRequest, value: FilterValue) -> None:
    job.hold = value == 0 and value is not None
    job.ClearField("priority")
    if value:
        job.priority = int(value)


def _get_shared(job: JobRequest) -> FilterValue:
    said = (
        (job.exclusive_user, BY_USER), (job.exclusive_mcs, BY_MCS), (job.exclusive_topo, BY_TOPOLOGY),
        (job.exclusive, EXCLUSIVE),
    )  # fmt: skip
    found = next((number for is_set, number in said if is_set), None)
    if found is None and job.HasField("oversubscribe"):
        return OVERSUBSCRIBE if job.oversubscribe else EXCLUSIVE
    return found


def _put_shared(job: JobRequest, value: FilterValue) -> None:
    if value not in (None, EXCLUSIVE, OVERSUBSCRIBE, BY_USER, BY_MCS, BY_TOPOLOGY):
        raise BadValue(f"{value!r} is not one of 0 to {BY_TOPOLOGY}")
    job.exclusive, job.exclusive_user = value == EXCLUSIVE and value is not None, value == BY_USER
    job.exclusive_mcs, job.exclusive_topo = value == BY_MCS, value == BY_TOPOLOGY
    job.ClearField("oversubscribe")
    if value == OVERSUBSCRIBE:
        job.oversubscribe = True


def _put_no_kill(job: JobRequest, value: FilterValue) -> None:
    job.no_kill = value is False


def _get_open_mode(job: JobRequest) -> FilterValue:
    return "append" if job.open_append else "truncate" if job.open_truncate else None


def _put_open_mode(job: JobRequest, value: FilterValue) -> None:
    if value not in (None, "append", "truncate"):
        raise BadValue(f"{value!r} is neither append nor truncate")
    job.open_append = value == "append"
    job.ClearField("open_truncate")
    if value == "truncate":
        job.open_truncate = True


_TEXTS: Final = {
    "name": "name", "account": "account", "qos": "qos", "reservation": "reservation", "wckey": "wckey",
    "comment": "comment", "extra": "extra", "mcs_label": "mcs_label", "licenses": "licenses", "network": "network",
    "container": "container", "dependency": "dependency", "array_inx": "array", "features": "features",
    "prefer": "prefer", "batch_features": "batch_features", "req_nodes": "nodes_required",
    "exc_nodes": "nodes_excluded", "mail_user": "mail_user",
}  # fmt: skip
_NUMBERS: Final = {
    "nice": "nice", "delay_boot": "delay_boot_s", "min_nodes": "nodes_min", "max_nodes": "nodes_max",
    "num_tasks": "ntasks", "cpus_per_task": "cpus_per_task", "ntasks_per_node": "ntasks_per_node",
    "ntasks_per_socket": "ntasks_per_socket", "ntasks_per_core": "ntasks_per_core",
    "ntasks_per_tres": "ntasks_per_gpu", "sockets_per_node": "sockets_per_node",
    "cores_per_socket": "cores_per_socket", "threads_per_core": "threads_per_core", "pn_min_cpus": "mincpus",
    "pn_min_tmp_disk": "tmp_disk_mb", "min_mem_per_node": "mem_per_node_mb", "min_mem_per_cpu": "mem_per_cpu_mb",
    "core_spec": "core_spec", "req_switch": "switches_max", "wait4switch": "switches_wait_s",
}  # fmt: skip
_FLAGS: Final = ("contiguous", "overcommit", "requeue", "reboot")
_PATHS: Final = ("work_dir", "std_in", "std_out", "std_err")
#: By the names of penstock.submitfilter.Job; a test compares.
FIELDS: Final[dict[str, FilterField]] = {
    **{name: _plain(wire, str) for name, wire in _TEXTS.items()},
    **{name: _plain(wire, int) for name, wire in _NUMBERS.items()},
    **{name: _plain(name, bool) for name in _FLAGS},
    **{name: _plain(name, str, encoded=True) for name in _PATHS},
    "partition": _listed("partitions"),
    "mail_type": _listed("mail_types"),
    "time_limit": _scaled("time_limit_s", 60),
    "time_min": _scaled("time_min_s", 60),
    "begin_time": _scaled("begin_at_us", SECOND_US),
    "deadline": _scaled("deadline_at_us", SECOND_US),
    "tres_per_job": _gres("gres_per_job"),
    "tres_per_node": _gres("gres_per_node"),
    "tres_per_socket": _gres("gres_per_socket"),
    "tres_per_task": _gres("gres_per_task"),
    "cpus_per_tres": _of_gpu("cpus_per_gpu"),
    "mem_per_tres": _of_gpu("mem_per_gpu_mb"),
    "priority": FilterField(_get_priority, _put_priority, int),
    "shared": FilterField(_get_shared, _put_shared, int),
    "kill_on_node_fail": FilterField(lambda job: False if job.no_kill else None, _put_no_kill, bool),
    "open_mode": FilterField(_get_open_mode, _put_open_mode, str),
}
#: Fields of the script.
SPEC: Final = ("script", "argv", "environment")


def record_of(job: JobRequest, spec: JobSpec | None, facts: Mapping[str, object]) -> dict[str, object]:
    """Returns the fields of a Job; `spec` None: a component after the first."""
    found: dict[str, object] = {name: field.get(job) for name, field in FIELDS.items()}
    found |= {"script": None, "argv": None, "environment": {}}
    if spec is not None:
        if spec.script:
            found["script"] = _text(spec.script)
            found["argv"] = [_text(word) for word in spec.argv]
        found["environment"] = dict(_text(line).partition("=")[::2] for line in spec.environment)
    found |= {"submit_line": job.submit_line or None, "alloc_node": job.submit_host or None}
    return {**found, "het_job_offset": None, "test_only": False, **facts}


def apply(changed: Mapping[str, object], job: JobRequest, spec: JobSpec | None) -> None:
    """Puts changed fields into the messages. Raises BadValue."""
    for name, value in changed.items():
        try:
            if name in FIELDS:
                FIELDS[name].put(job, _checked(value, FIELDS[name].kind))
            elif name in SPEC and spec is not None:
                _put_spec(spec, name, value)
            else:
                raise BadValue("a filter cannot change it")
        except (BadValue, ValueError, OverflowError) as error:  # of protobuf: a number out of range, a lone surrogate
            raise BadValue(f"the filter has set {name[:64]}: {error}") from None


def _checked(value: object, kind: type[str] | type[int] | type[bool]) -> FilterValue:
    if value is None or (isinstance(value, kind) and (kind is bool or not isinstance(value, bool))):
        return cast("FilterValue", value)
    if kind is int and isinstance(value, float) and value.is_integer():  # Lua's numbers
        return int(value)
    if kind is bool and value in (0, 1):
        return bool(value)
    raise BadValue(f"{value!r:.80} is not {kind.__name__}")


def _put_spec(spec: JobSpec, name: str, value: object) -> None:
    if name == "script":
        if not isinstance(value, str) or not value:
            raise BadValue("not a text")
        spec.script = _bytes(value)
    elif name == "argv":
        if not isinstance(value, list):
            raise BadValue("not a list of texts")
        _put_lines(spec.argv, value)
    else:
        if not isinstance(value, dict):
            raise BadValue("not a dictionary of texts")
        for key, one in value.items():
            if not isinstance(one, str) or not key or "=" in key:
                raise BadValue(f"a variable {key!r:.64} of {one!r:.64}")
        _put_lines(spec.environment, [f"{key}={one}" for key, one in value.items()])


def _put_lines(lines: MutableSequence[bytes], values: Iterable[object]) -> None:
    words = list(values)
    if not all(isinstance(word, str) for word in words):
        raise BadValue("not a list of texts")
    del lines[:]
    lines.extend(_bytes(str(word)) for word in words)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
