"""The fencing program: cuts the power of a node that has gone silent, and reports the result by its exit status.

    PenstockFenceProgram NODE        exit 0: the node is off, and nothing runs there any more; anything else: unknown

It runs on the controller's machine, as the controller's user, without a shell, with a fixed environment, in a process
group of its own that is killed at PenstockFenceTimeout. One at a time for each node; if the node returns meanwhile, its
own report counts (ctld/core/lifecycle/lease.py). When the program fails, its output is the reason that an administrator
sees.

Deliberately absent: knowledge of any power switch; retries (the core requests the next one).
"""

import logging
from typing import Final

from ctld.core.records.effects import FenceNode
from ctld.core.records.events import NodeFenced
from ctld.runtime.loop import Runtime
from ctld.runtime.programslots import ProgramSlots
from ctld.runtime.siteprograms import Program, run

log = logging.getLogger("penstock.ctld")

#: Maximum number of concurrent programs: a failed switch affects many nodes, and each run is a process here.
AT_ONCE_MAX: Final = 16
TEXT_MAX: Final = 200


class Fencer:
    """Takes the FenceNode effects of a runtime."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._nodes: set[str] = set()  # nodes whose program runs, or is queued
        self._turns = ProgramSlots(AT_ONCE_MAX)
        runtime.handlers[FenceNode] = self._fence

    def stop(self) -> None:
        """Ends all programs; their effect is unknown."""
        self._turns.stop()

    def _fence(self, effect: FenceNode) -> None:
        if effect.node not in self._nodes:
            self._nodes.add(effect.node)
            self._turns.start(self._run, effect)

    async def _run(self, effect: FenceNode) -> None:
        config = self._runtime.core.state.config
        log.warning("node %s: fencing it with %s", effect.node, config.fence_program)
        try:
            text = await fence(config.fence_program, effect.node, config.cluster_name, config.fence_timeout_s)
        finally:
            self._nodes.discard(effect.node)
        log.warning("node %s: %s", effect.node, f"fencing failed: {text}" if text else "is off")
        self._runtime.post(NodeFenced(effect.node, effect.lost_link_id, not text, text))


async def fence(path: str, node: str, cluster: str, timeout_s: float) -> str:
    """Runs the program to its end; "" = exit 0, else a line on the failure, with the last line of its output."""
    env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PENSTOCK_NODE": node, "SLURM_CLUSTER_NAME": cluster}
    ending = await run(Program([path, node], env, timeout_s, ends_group=True))
    lines = ending.output.strip().splitlines()
    if not ending.failure or not lines:
        return ending.failure
    return f"{ending.failure}: {''.join(c for c in lines[-1] if c.isprintable())[:TEXT_MAX]}"
