"""Whom the core of a listing asks: the blocking client, or another face of a controller (the REST daemon's)."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from penstock.client import Message, ReplyMessage
    from penstock.clusterfile import ClusterFile


class QueryClient(Protocol):
    """A controller, for one caller."""

    @property
    def cluster(self) -> "ClusterFile":
        """The cluster, whose nodes can be asked."""

    def call(self, method: str, request: "Message") -> "ReplyMessage":
        """One request, one answer. Raises PenstockError."""

    def stream(self, method: str, request: "Message") -> Iterator["ReplyMessage"]:
        """One request, pages of its answer. Raises PenstockError."""
