"""Requests designed to be expensive: from the descriptors of every service, with each field set to its worst value. A
case is a method, a field, its value, and what makes the request's bytes: each time with a key of its own. Methods are not listed by name, except where fields are
needed to pass the first check, so that a new method or field is covered automatically.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from google.protobuf.descriptor import FieldDescriptor as F
from google.protobuf.message_factory import GetMessageClass

from ctld.core.queue.defaults import COUNT_MAX
from ctld.rpc.gate import bounds
from ctld.rpc.server import FILES
from penstock.v1 import common_pb2, controller_pb2, periodic_pb2

#: The method that ends the controller; the stream of nodes has its own tests.
LEFT_OUT = frozenset({"Shutdown", "Connect"})
#: Methods that wait by design: their callers do not wait long.
WAITING = frozenset({"Watch", "AwaitJob", "AwaitAllocation", "AwaitStep"})
DEPTH_MAX = 3
#: Bytes of a name that ends a process whose NSS modules put it on their stack.
LONG_NAME = 4_300_000
HOSTS = "n[0-65534]"
TASKS = "1_[0-3999998:2,1-3999999:3,0-3999999:5]"
#: The tasks of job 1: the test splits off the first ones.
ARRAY = "0-3999998:20"
ARRAY_STEP = 20
SPLIT_TASKS = 500

SIGNED = {F.TYPE_INT32, F.TYPE_INT64, F.TYPE_SINT32, F.TYPE_SINT64}
INTS = SIGNED | {F.TYPE_UINT32, F.TYPE_UINT64}
WIDTH = {F.TYPE_INT32: 31, F.TYPE_SINT32: 31, F.TYPE_UINT32: 32, F.TYPE_INT64: 63, F.TYPE_SINT64: 63, F.TYPE_UINT64: 63}


class Case(NamedTuple):
    method: str  # /package.Service/Name
    path: str
    what: str
    make: Callable[[], bytes]
    is_stream: bool = False

    @property
    def waits(self) -> bool:
        """Whether it may wait for something that does not happen."""
        return self.method.rpartition("/")[2] in WAITING

    def __str__(self) -> str:
        return f"{self.method.rpartition('/')[2]} {self.path}={self.what}"


def _crontab(cron: str) -> Any:
    entry = periodic_pb2.CrontabEntry(
        cron=cron, job=common_pb2.JobRequest(work_dir=b"/tmp"), spec=common_pb2.JobSpec(script=b"#!/bin/sh\n")
    )
    text = "\n".join([f"{cron} true"] * 500)
    return periodic_pb2.UpdateCrontabRequest(text=text, entries=[entry] * 500)


def _job(key: str, components: int = 0, **fields: Any) -> Any:
    job = common_pb2.JobRequest(work_dir=b"/tmp", **fields)
    spec = common_pb2.JobSpec(script=b"#!/bin/sh\n")
    return controller_pb2.SubmitJobRequest(request_key=key, job=job, spec=spec, components=[job] * components)


def _components(key: str) -> Any:
    made = _job(key, contiguous=True, nodes_min=1, nodes_max=400)
    for number in range(1, 128):
        made.components.add(work_dir=b"/tmp", contiguous=True, nodes_min=1, nodes_max=400 - number)
    return made


#: Requests whose fields are costly together; by one field alone they are refused or cheap.
TOGETHER: tuple[tuple[str, str, Callable[[str], Any]], ...] = (
    (
        "Controller/SubmitJob",
        "contiguous nodes",
        lambda key: _job(key, contiguous=True, nodes_min=1, nodes_max=COUNT_MAX),
    ),
    (
        "Controller/SubmitJob",
        "contiguous tasks",
        lambda key: _job(key, contiguous=True, spread_job=True, ntasks=COUNT_MAX, nodes_min=1, nodes_max=COUNT_MAX),
    ),
    ("Controller/SubmitJob", "tasks of no GPU", lambda key: _job(key, ntasks=1, ntasks_per_gpu=1)),
    ("Controller/SubmitJob", "tasks of a node", lambda key: _job(key, ntasks=COUNT_MAX, ntasks_per_node=1)),
    (
        "Controller/SubmitJob",
        "components",
        lambda key: _job(key, 127, nodes_excluded=",".join(f"n{i}" for i in range(2, 50))),
    ),
    ("Controller/SubmitJob", "contiguous components", lambda key: _components(key)),
    (
        "Controller/SubmitJob",
        "dependencies",
        lambda key: _job(key, dependency="afterok:" + ":".join(str(2 + i % 19) for i in range(7_000))),
    ),
    ("Periodic/UpdateCrontab", "leap days", lambda key: _crontab("0 0 29 2 *")),
    ("Periodic/UpdateCrontab", "hours", lambda key: _crontab("0 * * * *")),
    ("Periodic/UpdateCrontab", "lists", lambda key: _crontab(",".join(["1"] * 400) + " 1 1 1 *")),
)

#: Fields that a method checks first.
BASES: dict[str, Callable[[str], Any]] = {
    "SubmitJob": lambda key: controller_pb2.SubmitJobRequest(
        request_key=key, job=common_pb2.JobRequest(work_dir=b"/tmp"), spec=common_pb2.JobSpec(script=b"#!/bin/sh\n")
    ),
    "ControlJobs": lambda key: controller_pb2.ControlJobsRequest(action="HOLD"),
    "UpdateJobs": lambda key: controller_pb2.UpdateJobsRequest(ids=["1"]),
    "ChangeQos": lambda key: controller_pb2.ChangeQosRequest(action="ADD", check_only=True),
}


def methods() -> Iterator[tuple[str, Any, bool]]:
    """(path, request descriptor, whether the answer is a stream)."""
    for file in FILES:
        for service in file.services_by_name.values():
            for method in service.methods:
                if method.name not in LEFT_OUT:
                    yield f"/{service.full_name}/{method.name}", method.input_type, method.server_streaming


def cases(new_key: Callable[[], str], everything: bool = False) -> Iterator[Case]:
    """Sizes for every repeated and text field; with `everything` values for all others, too."""
    for method, descriptor, is_stream in methods():
        kind = GetMessageClass(descriptor)
        base = BASES.get(method.rpartition("/")[2], lambda key, kind=kind: kind())
        for path, fields in paths_of(descriptor, (), 0):
            for what, fill in _fills(fields[-1], everything):
                yield Case(method, path, what, partial(_filled, base, new_key, fields, fill), is_stream)
    for method, what, make in TOGETHER:
        yield Case(f"/penstock.v1.{method}", "together", what, partial(_made, make, new_key))


def _made(make: Callable[[str], Any], new_key: Callable[[], str]) -> bytes:
    data: bytes = make(new_key()).SerializeToString()
    return data


def _filled(
    base: Callable[[str], Any], new_key: Callable[[], str], fields: tuple[Any, ...], fill: Callable[[Any], None]
) -> bytes:
    message = base(new_key())
    fill(parent_of(message, fields))
    data: bytes = message.SerializeToString()
    return data


def paths_of(descriptor: Any, above: tuple[Any, ...], depth: int) -> Iterator[tuple[str, tuple[Any, ...]]]:
    for field in descriptor.fields:
        fields = (*above, field)
        yield ".".join(one.name for one in fields), fields
        is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
        if field.message_type is not None and not is_map and depth < DEPTH_MAX:
            yield from paths_of(field.message_type, fields, depth + 1)


def parent_of(message: Any, fields: tuple[Any, ...]) -> Any:
    for field in fields[:-1]:
        value = getattr(message, field.name)
        message = (value[0] if len(value) else value.add()) if field.is_repeated else value
    return message


def _fills(field: Any, everything: bool) -> Iterator[tuple[str, Callable[..., None]]]:
    name, bound = field.name, bounds.bound_of(field)
    if isinstance(bound, bounds.Pairs):
        yield from _map_fills(field, bound, everything)
    elif isinstance(bound, bounds.Each):
        yield from _list_fills(field, bound, everything)
    elif field.type == F.TYPE_STRING:
        limit = bound.limit if isinstance(bound, bounds.Text) else 4096
        for what, text in _texts(limit, everything):
            yield what, lambda parent, text=text: setattr(parent, name, text)
    elif everything and field.type == F.TYPE_BYTES:
        yield "bytes", lambda parent: setattr(parent, name, b"\xff\n" * 50_000)
    elif everything and field.type in INTS:
        numbers = (-1, 1, (1 << WIDTH[field.type]) - 1, 1 << min(62, WIDTH[field.type] - 1), -(1 << 31))
        for number in numbers if field.type in SIGNED else numbers[1:4]:
            yield str(number), lambda parent, number=number: setattr(parent, name, number)
    elif everything and field.type == F.TYPE_ENUM:
        yield "enum", lambda parent: setattr(parent, name, 77)


def _texts(limit: int, everything: bool) -> Iterator[tuple[str, str]]:
    yield "hosts", ",".join([HOSTS] * max(1, min(limit // 11, 5_000)))
    yield "tasks", TASKS
    if everything:
        yield "letters", "a" * limit
        yield "commas", "a," * (limit // 2)
        yield "ranges", f"n[{','.join(['0-9'] * (limit // 4 - 2))}]"
        yield "ids", "afterok" + ":1" * (limit // 2 - 4)
        yield "parentheses", "(" * limit
        yield "features", "[" + "|".join(["a*2"] * (limit // 4 - 2)) + "]"
        yield "signs", "+=" * (limit // 2)
        yield "too long", "x" * (limit + 1)
        yield "megabytes", "x" * 15_000_000
        yield "escape", "a\x1b[2Jb\nJobId=1"
        yield "bidi", "a\u202eb"


def _list_fills(field: Any, bound: Any, everything: bool) -> Iterator[tuple[str, Callable[..., None]]]:
    name, limit = field.name, bound.limit
    if field.message_type is not None:
        kind = GetMessageClass(field.message_type)
        for number in (limit, 300_000) if everything else (limit,):
            yield f"{number} messages", lambda parent, n=number: getattr(parent, name).extend([kind()] * n)
    elif field.type == F.TYPE_STRING:
        lists: dict[str, Callable[[], list[str]]] = {
            "hosts": lambda: [HOSTS] * min(100, limit), "more hosts": lambda: [HOSTS] * min(900, limit),
            "tasks": lambda: [TASKS] * 20, "names": lambda: [f"x{i}" for i in range(limit)],
            "numbers": lambda: [str(i) for i in range(1, limit + 1)],
        }  # fmt: skip
        if name == "ids":
            lists |= _ids_of_tasks(limit)
        if everything:
            lists |= {
                "300,000": lambda: [f"x{i}" for i in range(300_000)], "15 MB": lambda: ["x" * 1000] * 15_000,
                "empty": lambda: [""] * 2_000_000, "escape": lambda: ["a\x1b[2J"], "a long one": lambda: ["x" * LONG_NAME],
                "uids": lambda: [str(i) for i in range(1_000_000, 1_000_000 + limit)],
            }  # fmt: skip
        for what, values in lists.items():
            yield what, lambda parent, values=values: getattr(parent, name).extend(values())
    elif everything and field.type == F.TYPE_BYTES:
        yield "words", lambda parent: getattr(parent, name).extend([b"A=1"] * limit)
        yield "empty words", lambda parent: getattr(parent, name).extend([b""] * 2_000_000)
    elif everything and field.type in INTS:
        yield "numbers", lambda parent: getattr(parent, name).extend([7] * (limit + 1))


def _ids_of_tasks(limit: int) -> dict[str, Callable[[], list[str]]]:
    """Ids that are all valid: of one array's tasks that have records of their own, again and again."""
    one = [f"1_{i * ARRAY_STEP}" for i in range(SPLIT_TASKS)]
    return {
        "task ids again": lambda: [one[i % SPLIT_TASKS] for i in range(limit)],
        "task ids in another order": lambda: [one[i * 7 % SPLIT_TASKS] for i in range(limit)],
        "steps of tasks": lambda: [f"{one[i % SPLIT_TASKS]}.{i}" for i in range(limit)],
        "steps of an array": lambda: [f"1.{i}" for i in range(limit)],
    }


def _map_fills(field: Any, bound: Any, everything: bool) -> Iterator[tuple[str, Callable[..., None]]]:
    name, limit = field.name, bound.limit
    if field.message_type.fields_by_name["value"].type != F.TYPE_STRING:
        yield "limits", lambda parent: getattr(parent, name).update({f"L{i}": 1 << 62 for i in range(limit)})
        return
    for key in (
        "nodes",
        "nodelist",
        "excnodelist",
        "reqnodelist",
        "partition",
        "features",
        "starttime",
        "users",
        "where",
    ):
        yield f"{key}=hosts", lambda parent, key=key: getattr(parent, name).update({key: ",".join([HOSTS] * 5_000)})
    yield "entries", lambda parent: getattr(parent, name).update({f"k{i}": HOSTS for i in range(limit)})
    if everything:
        yield "many", lambda parent: getattr(parent, name).update({f"k{i}": "v" for i in range(100_000)})
        for key in ("users", "groups", "allowgroups", "account"):
            yield f"{key}=long", lambda parent, key=key: getattr(parent, name).update({key: "x" * LONG_NAME})
