"""The usual mix of GPU requests, and the free part of each GPU: the data by which queue/gpu_sharing.py places jobs."""

import numpy as np

from _fastsched.fragment_contract import GPUS_MAX, MODELS_MAX
from _fastsched.fragment_pick import milli_of
from _fastsched.fragment_tables import Tables
from ctld.core.records.node import Node
from ctld.core.state import shares

#: CPU milli, GPUs, share in milli, mask of models.
Class = tuple[int, int, int, int]


class Mix:
    """The expected mix of requests, and the free part of each GPU, by node index."""

    def __init__(self, nodes: list[Node], policy: int, names: tuple[str, ...]) -> None:
        self.policy = policy
        types = dict.fromkeys(type_ for node in nodes for type_ in node.inside.gpu_types)
        self.models = {type_: number for number, type_ in enumerate(types)}
        self.supply = np.zeros(max(1, len(self.models)), np.int64)
        count = len(nodes)
        self.gpus = np.zeros(count, np.int32)
        self.model = np.zeros(count, np.int32)
        width = max([1, *(len(node.inside.gpu_types) for node in nodes)])
        self.usable = width <= GPUS_MAX and len(self.models) <= MODELS_MAX
        #: By name of share, and for whole GPUs: thousandths free of each GPU
        self.free = {name: np.zeros((count, width), np.int32) for name in (shares.GPU, *names)}
        #: Shares of each GPU of the node; 0 = they differ, or are of several models
        self.units = {name: np.zeros(count, np.int32) for name in names}
        self.counts: dict[Class, int] = {}
        self.prepared: dict[Class, int] = {}  # the mix from which `tables` were made
        self.tables: Tables | None = None
        self.next_count_us = 0
        for node in nodes:
            self._lay(node)

    def _lay(self, node: Node) -> None:
        inside = node.inside
        self.gpus[node.index] = len(inside.gpu_types)
        for type_ in inside.gpu_types:
            self.supply[self.models[type_]] += 1
            self.model[node.index] = self.models[type_]
        for (name, _), units in inside.shares.items():
            alike = len(set(units)) == 1 and len(set(inside.gpu_types)) == 1
            self.units[name][node.index] = units[0] if alike else 0
        self.update(node)

    def update(self, node: Node) -> None:
        """Updates the free part of a node's GPUs."""
        whole = shares.whole_gpus(node)
        for (name, _), units in node.inside.shares.items():
            of = int(self.units[name][node.index])
            for gpu in range(len(units)) if of else ():
                free = shares.free_units(units, name, gpu, whole, node.gpu_shares)
                self.free[name][node.index, gpu] = milli_of(free, of)
        self.free[shares.GPU][node.index, : len(node.inside.gpu_types)] = shares.free_milli(node)
