"""Reports a daemon's start that waits for storage, and ends one that waits too long.

A file system may neither answer nor fail: it is frozen (fsfreeze), or its server (NFS, FUSE) is gone. The call that
waits blocks its thread in the kernel, and a start would hang without a word. So a thread of its own, which uses no files,
says after FIRST_S which path the start is at, repeats that every AGAIN_S, and after LIMIT_S ends the process with 75
(EX_TEMPFAIL), for which a supervisor starts it again.

Time counts while the process uses no CPU: a long migration or a large database is work. Processes that the kernel cannot
interrupt (state D) end when their storage answers.
"""

import os
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from penstock.threads import start_thread

FIRST_S: Final = 10.0
AGAIN_S: Final = 60.0
LIMIT_S: Final = 120.0
#: More CPU time than this in a second is work.
WORK_S: Final = 0.02
EX_TEMPFAIL: Final = 75


class StartWatch:
    """Watches one start, in a `with` block that ends when the daemon answers. `say` writes a line; it may block."""

    def __init__(
        self,
        say: Callable[[str], None],
        first_s: float = FIRST_S,
        limit_s: float = LIMIT_S,
        end: Callable[[int], object] = os._exit,
    ) -> None:
        self._say = say
        self._first_s = first_s
        self._limit_s = limit_s
        self._end = end
        self._path = ""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="start", daemon=True)

    def __enter__(self) -> Self:
        start_thread(self._thread)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.over()

    def over(self) -> None:
        """The start has ended, or waits for something other than files. Idempotent."""
        self._over.set()

    def at(self, path: str | os.PathLike[str]) -> None:
        """The start goes on with this file or folder."""
        self._path = os.fspath(path)

    def _watch(self) -> None:
        path = ""
        idle_s = said_s = 0.0
        turn_s = min(1.0, self._first_s / 4)
        used_s = time.process_time()
        while not self._over.wait(turn_s):
            before_s = used_s
            used_s = time.process_time()
            if self._path != path or used_s - before_s > WORK_S * turn_s:
                path = self._path
                idle_s = said_s = 0.0
                continue
            idle_s += turn_s
            if idle_s >= self._limit_s:
                self._say(f"error: {path}: its storage has not answered for {idle_s:.0f} s; another start may do")
                self._end(EX_TEMPFAIL)
                return
            if idle_s >= self._first_s and (not said_s or idle_s - said_s >= AGAIN_S):
                said_s = idle_s
                self._say(f"warning: the start has waited for {path} for {idle_s:.0f} s: its storage does not answer")
