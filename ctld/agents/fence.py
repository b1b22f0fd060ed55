"""The fencing program: cuts the power of a node that has gone silent, and says so by its exit status.

    PenstockFenceProgram NODE        exit 0: the node is off, and nothing runs there any more; anything else: not known

It runs on the controller's machine, as the controller's user, without a shell, with a fixed environment, in a process
group of its own that is killed at PenstockFenceTimeout. One at a time for each node; a node that comes back meanwhile is
believed instead (ctld/core/lease.py). What it prints is the reason that an administrator sees when it fails.

Deliberately absent: knowledge of any power switch; retries (the core asks again).
"""

import asyncio
import contextlib
import logging
import os
import signal
from typing import Final

from ctld.core.effects import FenceNode
from ctld.core.events import NodeFenced
from ctld.runtime.loop import Runtime

log = logging.getLogger("penstock.ctld")

#: Programs at a time: a failed switch takes many nodes with it, and each run is a process here.
AT_ONCE_MAX: Final = 16
OUTPUT_BYTES_MAX: Final = 4096
TEXT_MAX: Final = 200


class Fencer:
    """Takes the FenceNode effects of a runtime."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._running: dict[str, asyncio.Task[None]] = {}
        self._turn = asyncio.Semaphore(AT_ONCE_MAX)
        runtime.handlers[FenceNode] = self._fence

    def stop(self) -> None:
        """End all programs; what they may have done is not known."""
        for task in self._running.values():
            task.cancel()

    def _fence(self, effect: FenceNode) -> None:
        if effect.node in self._running:
            return
        task = asyncio.get_running_loop().create_task(self._run(effect))
        self._running[effect.node] = task
        task.add_done_callback(lambda done: self._running.pop(effect.node, None))

    async def _run(self, effect: FenceNode) -> None:
        async with self._turn:
            config = self._runtime.core.state.config
            log.warning("node %s: fencing it with %s", effect.node, config.fence_program)
            text = await run_program(config.fence_program, effect.node, config.cluster_name, config.fence_timeout_s)
        log.warning("node %s: %s", effect.node, f"fencing failed: {text}" if text else "is off")
        self._runtime.post(NodeFenced(effect.node, effect.lost_link_id, not text, text))


async def run_program(path: str, node: str, cluster: str, timeout_s: float) -> str:
    """Run it to its end; "" = exit 0, else what went wrong in a line."""
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PENSTOCK_NODE": node, "SLURM_CLUSTER_NAME": cluster}
    try:
        process = await asyncio.create_subprocess_exec(
            path, node, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT, env=environment, cwd="/", start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        return f"{path}: {error.strerror}"
    assert process.stdout is not None
    output = b""
    try:
        async with asyncio.timeout(timeout_s):
            while part := await process.stdout.read(OUTPUT_BYTES_MAX):
                output = (output + part)[-OUTPUT_BYTES_MAX:]
            status = await process.wait()
    except TimeoutError:
        return f"{path}: no answer within {timeout_s:.0f} s"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # what it left behind, too
    if status == 0:
        return ""
    lines = output.decode("utf-8", "replace").strip().splitlines()
    said = "".join(c for c in lines[-1] if c.isprintable())[:TEXT_MAX] if lines else "without a word"
    return f"exit {status}: {said}"
