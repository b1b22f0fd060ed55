"""Decodes a request for a step to the core's StepRequest, with the limits that protect the controller itself.

As with submissions (submission.py), sizes are checked here and validity is checked by the core.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from ctld.core.records.step import RankCommand, StepRequest
from ctld.rpc.jobs.submission import check_size
from ctld.runtime.errors import BadRequest
from penstock.v1.steps_pb2 import RankCommand as RankCommandMessage
from penstock.v1.steps_pb2 import StepSpec
from penstock.values.allowance import Allowance
from penstock.values.errors import BadValue
from penstock.values.fields import Fields, made_of
from penstock.values.hostlist import expand
from penstock.values.refusals import TEXT, Code
from penstock.values.rlimits import check_rlimits

TEXT_MAX: Final = 4096
LINE_MAX: Final = 64 * 1024
ENTRIES_MAX: Final = 1024
#: --multi-prog: maximum lines of its file, and their total bytes.
COMMANDS_MAX: Final = 16_384
COMMAND_BYTES_MAX: Final = 1024 * 1024
PATH_BYTES_MAX: Final = 4096
#: Maximum total size. --multi-prog is the largest part.
REQUEST_BYTES_MAX: Final = COMMAND_BYTES_MAX + 512 * 1024
#: Lists of nodes, and the line as typed, may be longer than other texts.
_LONG: Final = ("nodes_required", "nodes_excluded", "submit_line")
_KINDS: Final = ("gres_per_node", "gres_per_step", "gres_per_task", "gres_per_socket")
_HOSTLISTS: Final = ("nodes_required", "nodes_excluded")


def wanted_step(message: StepSpec) -> StepRequest:
    """Decodes a step's fields. Raises BadRequest."""
    check_size("the step's request without its program", message, REQUEST_BYTES_MAX)
    fields: Fields = {}
    allowance = Allowance()
    for descriptor, value in message.ListFields():
        name = descriptor.name
        kind = type(value)
        if kind is str:
            _check_length(name, len(value), LINE_MAX if name in _LONG else TEXT_MAX)
        elif kind is bytes:
            _check_length(name, len(value), PATH_BYTES_MAX)
            if b"\0" in value:
                raise BadRequest(Code.INVALID_VALUE, f"{name} has a NUL byte at position {value.index(0)}")
        elif name != "multi_prog" and hasattr(value, "__len__"):
            _check_length(name, len(value), ENTRIES_MAX)
        if name in _KINDS:
            value = tuple((g.name, g.type, g.count) for g in value)
        elif name in _HOSTLISTS:
            value = _nodes(name, value, allowance)
        elif name == "rlimits":
            value = _rlimits(value)
        elif name == "multi_prog":
            value = _commands(value)
        elif name == "het_groups":
            value = tuple(value)
        fields[name] = value
    return made_of(StepRequest, fields)


def _check_length(name: str, length: int, limit: int) -> None:
    if length > limit:
        raise BadRequest(Code.INVALID_VALUE, f"{TEXT[Code.INVALID_VALUE]}: {name} has {length}, the limit is {limit}")


def _rlimits(value: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    try:
        return check_rlimits(value)
    except BadValue as error:
        raise BadRequest(Code.INVALID_VALUE, f"{TEXT[Code.INVALID_VALUE]}: {error}") from None


def _nodes(name: str, text: str, allowance: Allowance) -> tuple[str, ...]:
    try:
        return tuple(expand(text, allowance))
    except BadValue as error:
        raise BadRequest(Code.INVALID_NODE_NAME, f"{TEXT[Code.INVALID_NODE_NAME]}: {name}: {error}") from None


def _commands(entries: Sequence[RankCommandMessage]) -> tuple[RankCommand, ...]:
    _check_length("multi_prog", len(entries), COMMANDS_MAX)
    found = tuple(RankCommand(one.ranks, tuple(one.argv)) for one in entries)
    size = sum(len(one.ranks) + sum(map(len, one.argv)) for one in found)
    _check_length("multi_prog", size, COMMAND_BYTES_MAX)
    if any(b"\0" in word for one in found for word in one.argv):
        raise BadRequest(Code.INVALID_VALUE, "multi_prog has a NUL byte")
    return found
