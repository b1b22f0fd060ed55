"""Threads of the daemons, which run from the beginning.

A pool of concurrent.futures starts a thread when it has none free. With a full process table (a fork bomb on the
machine, the limit of a control group) that fails in the middle of the work. A daemon goes on then, as all of its
threads were started with it.
"""

import asyncio
import errno
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Thread, current_thread
from threading import enumerate as enumerate_threads
from typing import Final
from weakref import WeakSet

#: Calls in threads at a time (asyncio.to_thread): of names in a slow LDAP server, of files.
CALLS_MAX: Final = 8
#: The pools of this process: their idle threads end when they are told to, and not before.
_pools: WeakSet[ThreadPoolExecutor] = WeakSet()


def started_pool(threads: int, name: str) -> ThreadPoolExecutor:
    """Returns a pool whose threads all run. Raises OSError when one cannot be started."""
    pool = ThreadPoolExecutor(threads, name)
    together = Barrier(threads + 1)
    try:
        for _ in range(threads):  # none is free before the last has begun
            pool.submit(together.wait)
    except RuntimeError as error:
        together.abort()
        raise _not_started(name) from error
    together.wait()
    _pools.add(pool)
    return pool


def end_beside_hung_threads(status: int, limit_s: float = 1.0) -> None:
    """Ends the process if a thread still waits for a file system that hangs, as the interpreter would wait for it. To be
    called last: nothing else is cleaned up then."""
    for pool in tuple(_pools):
        pool.shutdown(wait=False)
    until = time.monotonic() + limit_s
    others = [thread for thread in enumerate_threads() if thread is not current_thread() and not thread.daemon]
    for thread in others:
        thread.join(max(0.0, until - time.monotonic()))
    if any(thread.is_alive() for thread in others):
        os._exit(status)


def start_thread(thread: Thread) -> Thread:
    """Starts a thread, and returns it. Raises OSError when it cannot be started."""
    try:
        thread.start()
    except RuntimeError as error:
        raise _not_started(thread.name) from error
    return thread


def _not_started(name: str) -> OSError:
    """The error of the system, for which Python has a RuntimeError without a number."""
    return OSError(errno.EAGAIN, os.strerror(errno.EAGAIN), f"thread {name}")


def prepare_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Lets the loop of a daemon call functions in threads, and start programs, without starting a thread for each.

    Raises OSError when a thread cannot be started.
    """
    loop.set_default_executor(started_pool(CALLS_MAX, "calls"))
    if sys.version_info < (3, 12):  # later ones wait for their children through a pidfd by themselves
        watcher = asyncio.PidfdChildWatcher()
        watcher.attach_loop(loop)
        asyncio.set_child_watcher(watcher)
