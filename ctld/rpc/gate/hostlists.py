"""Expands the lists of nodes in requests."""

from ctld.runtime.errors import BadRequest
from penstock.values.errors import BadValue
from penstock.values.hostlist import expand
from penstock.values.refusals import TEXT, Code


def expand_nodes(text: str) -> tuple[str, ...]:
    """Expands a hostlist of a request, each name once. Raises BadRequest."""
    try:
        return tuple(dict.fromkeys(expand(text)))
    except BadValue as error:
        raise BadRequest(Code.INVALID_NODE_NAME, f"{TEXT[Code.INVALID_NODE_NAME]}: {error}") from None
