"""Compares the clocks of nodes with the controller's, and announces those that are wrong.

A clock that is off by more than WARN_US is a line in the log and the node's reason; by more than REFUSE_US, an event too:
the node takes no jobs until the clock is right, also after `scontrol update state=resume`. Nodes are compared at their
first heartbeat and then at each check of the registry.
"""

import logging
import time
from collections.abc import Callable, Mapping

from ctld.agents.link import NodeLink
from ctld.agents.nodetime import REFUSE_US, judged, own_error_us
from ctld.core.nodes.clocks import CLOCK_WRONG
from ctld.core.records.events import NodeClockSeen
from ctld.runtime.loop import Runtime
from penstock.values.states import NodeFlag

log = logging.getLogger("penstock.ctld")

_US = 1_000_000


def _wall_us() -> int:
    return time.time_ns() // 1000


class ClockWatch:
    """The comparison, for the links of admitted nodes. `wall_us` is the clock of this machine."""

    def __init__(
        self, runtime: Runtime, by_node: Mapping[str, NodeLink], wall_us: Callable[[], int] = _wall_us
    ) -> None:
        self._runtime = runtime
        self._by_node = by_node
        self._wall_us = wall_us
        self._own_error_us = 0

    def judge_all(self) -> None:
        """Compares all clocks, and finds out whether this machine's is the one that is wrong."""
        links = list(self._by_node.values())
        offs = [off for link in links if (off := link.time.off_us(self._wall_us())) is not None]
        error_us = own_error_us(offs)
        if bool(error_us) != bool(self._own_error_us):
            if error_us:
                log.error("most nodes' clocks are %s this machine's: set it, or theirs (time synchronisation)",
                          describe(error_us))  # fmt: skip
            else:
                log.info("the clocks of most nodes and of this machine agree again")
        self._own_error_us = error_us
        for link in links:
            self.judge(link)

    def judge(self, link: NodeLink) -> None:
        """Compares one node's clock."""
        off_us = link.time.off_us(self._wall_us())
        if off_us is None:
            return
        off_us -= self._own_error_us
        limit_us = judged(off_us, link.clock_limit_us)
        if limit_us != link.clock_limit_us:
            self._log_change(link.node, off_us, limit_us)
            link.clock_since_us = self._runtime.clock_us()
        link.clock_limit_us = limit_us
        link.clock_off_us = off_us
        node = self._runtime.core.state.nodes.get(link.node)
        if node is None:
            return
        is_usable = limit_us < REFUSE_US
        if CLOCK_WRONG in node.reason if is_usable else not node.flags & NodeFlag.DRAIN:
            self._runtime.post(NodeClockSeen(link.node, link.link_id, off_us, is_usable))

    def _log_change(self, node: str, off_us: int, limit_us: int) -> None:
        if not limit_us:
            log.info("node %s: its clock is right again", node)
            return
        effect = "it takes no jobs until it is set" if limit_us >= REFUSE_US else "set it"
        log.warning(
            "node %s: its clock is %s this machine's: %s (time synchronisation)", node, describe(off_us), effect
        )


def describe(off_us: int) -> str:
    """Formats by how much a clock is off: "86400.0 s ahead of"."""
    return f"{abs(off_us) / _US:.1f} s {'ahead of' if off_us > 0 else 'behind'}"
