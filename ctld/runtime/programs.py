"""What runs programs beside the loop have in common: so many at a time, and an end by a deadline.

Who runs which program, as whom and with which words, is with those who run them: scripts.py (PrologSlurmctld and its
like), mail.py (MailProg), triggers.py (strigger).
"""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from typing import Any


class Turns:
    """Work beside the loop: `at_once` of it goes on, the rest waits in the order in which it came."""

    def __init__(self, at_once: int) -> None:
        self._free = asyncio.Semaphore(at_once)
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        """What goes on and what waits."""
        return len(self._tasks)

    def start(self, work: Callable[[Any], Awaitable[None]], effect: Any) -> None:
        """`work(effect)`, as soon as it is its turn."""
        task = asyncio.create_task(self._in_turn(work, effect))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _in_turn(self, work: Callable[[Any], Awaitable[None]], effect: Any) -> None:
        async with self._free:
            await work(effect)

    def stop(self) -> None:
        """Wait for nobody."""
        for task in list(self._tasks):
            task.cancel()


async def ends_within(process: asyncio.subprocess.Process, end: Awaitable[Any], timeout_s: int, path: str) -> str:
    """Await `end`, which is the process's. "" = it came; else the whole process group was killed, and why.

    `timeout_s` 0 = none. Whoever is cancelled kills it, too.
    """
    try:
        async with asyncio.timeout(timeout_s or None):
            await end
    except TimeoutError:
        os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        return f"{path}: killed, it did not end within {timeout_s} s"
    except asyncio.CancelledError:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    return ""
