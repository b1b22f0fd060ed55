"""The members of a change, as the stream of events and webhooks have them: JSON, with units in seconds since 1970."""

from collections.abc import Callable
from typing import Final

from penstock.v1.watch_pb2 import ChangedObject

_US: Final = 1_000_000
#: Members, by name: the type in JSON, and the value.
CHANGE_MEMBERS: Final[dict[str, tuple[str, Callable[[ChangedObject], object]]]] = {
    "sequence": ("integer", lambda one: one.sequence),
    "at": ("number", lambda one: one.at_us / _US),
    "kind": ("string", lambda one: one.kind.lower()),
    "id": ("string", lambda one: one.id),
    "state": ("string", lambda one: one.state),
    "reason": ("string", lambda one: one.reason),
    "gone": ("boolean", lambda one: one.is_gone),
    "nodes": ("string", lambda one: one.node_list),
    "start_time": ("integer", lambda one: one.start_at_us // _US),
    "end_time": ("integer", lambda one: one.end_at_us // _US),
    "job_id": ("integer", lambda one: one.job_id),
    "array_job_id": ("integer", lambda one: one.array_job_id),
    "user_name": ("string", lambda one: one.user_name),
    "user_id": ("integer", lambda one: one.user_id),
    "account": ("string", lambda one: one.account),
    "partition": ("string", lambda one: one.partition),
    "name": ("string", lambda one: one.name),
    "exit_code": ("integer", lambda one: one.exit.code),
    "attempt": ("integer", lambda one: one.attempt),
    "flags": ("array", lambda one: list(one.flags)),
}


def change_data(change: ChangedObject) -> dict[str, object]:
    """Returns a change as an object."""
    return {name: value(change) for name, (_, value) in CHANGE_MEMBERS.items()}
