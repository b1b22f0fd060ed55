"""What the controller's configuration says to this node, as of its last word (NodeSettings).

It comes with each registration and after each reload, holds for orders from then on, and is kept nowhere: a node
daemon that has not registered since its start has no commands to obey either.
"""

from collections.abc import Callable

from penstock.v1 import node_pb2


class Site:
    """The present settings; `listeners` are called after a change."""

    def __init__(self) -> None:
        self.settings = node_pb2.NodeSettings()
        self.listeners: list[Callable[[], None]] = []

    def take(self, settings: node_pb2.NodeSettings) -> None:
        """From now on these hold."""
        self.settings.CopyFrom(settings)
        for listener in self.listeners:
            listener()
