"""The facts of a job on the wire: turns a JobFacts message into the values that the table of variables is read with."""

from operator import attrgetter
from typing import Final

from penstock.v1 import node_pb2
from penstock.values.fields import Fields
from penstock.values.jobenv import EnvironmentFacts

_MESSAGE: Final = node_pb2.JobFacts.DESCRIPTOR.fields_by_name
#: Fields with the same name in both; `nodes` is converted, as the message encodes it in runs.
_NAMES: Final = tuple(name for name in EnvironmentFacts.__struct_fields__ if name in _MESSAGE and name != "nodes")
#: Fields in which unset differs from 0.
_OPTIONAL: Final = tuple(name for name in _NAMES if _MESSAGE[name].has_presence)
_ALWAYS: Final = tuple(name for name in _NAMES if name not in _OPTIONAL)
_always_of: Final = attrgetter(*_ALWAYS)


def known_of(message: node_pb2.JobFacts) -> Fields:
    """The values of a message, by the names of EnvironmentFacts; unset ones are left out where the default is not 0."""
    known = dict(zip(_ALWAYS, _always_of(message), strict=True))
    for name in _OPTIONAL:
        if message.HasField(name):
            known[name] = getattr(message, name)
    return known
