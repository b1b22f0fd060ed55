"""noded's side of `penstock adopt`: a socket for root that puts a process into the extern step of a user's job.

One line in, "UID PID START", one line out. Only who runs as this daemon does may ask, by the kernel's word. The newest
job of the user counts. Without control groups, or when the job has no extern step (PrologFlags=Contain), there is no
place to put it: the user comes in all the same, since he has a job, and the log says so.
"""

import asyncio
import contextlib
import logging
import os
import socket
import struct
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from nodedaemon import proctree
from nodedaemon.adopt import SOCKET_NAME
from nodedaemon.cgroup import Cgroups
from nodedaemon.core.steps import Step, StepKey
from nodedaemon.spool import Spool
from penstock.values.jobid import EXTERN_STEP

log = logging.getLogger("penstock.noded")

_PEERCRED: Final = struct.Struct("iII")
LINE_BYTES_MAX: Final = 128
LINE_S: Final = 5.0


class Adoption:
    """Serves the socket. `steps` gives the live ones."""

    def __init__(self, spool_path: str, spool: Spool, cgroups: Cgroups, steps: Callable[[], Iterable[Step]]) -> None:
        self._path = Path(spool_path, SOCKET_NAME)
        self._spool = spool
        self._cgroups = cgroups
        self._steps = steps
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen; a path that cannot be used is only logged: jobs do not need it."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)  # the spool is locked: whoever left it is gone
        try:
            self._server = await asyncio.start_unix_server(self._serve, self._path, limit=LINE_BYTES_MAX)
            os.chmod(self._path, 0o600)
        except OSError as error:
            log.warning("%s: %s; ssh sessions are not adopted", self._path, error.strerror or error)

    def close(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            connection: socket.socket = writer.get_extra_info("socket")
            peer = _PEERCRED.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEERCRED.size))
            async with asyncio.timeout(LINE_S):
                words = (await reader.readline()).split()
            if peer[1] not in (0, os.geteuid()) or len(words) != 3 or not all(word.isdigit() for word in words):
                return
            writer.write(self.answer(*map(int, words)).encode() + b"\n")
            await writer.drain()
        except (OSError, TimeoutError, ValueError):
            return
        finally:
            writer.close()

    def answer(self, uid: int, pid: int, pid_start: int) -> str:
        """Find the job, move the process."""
        owned = [step for step in self._steps() if self._owner(step.key) == uid]
        if not owned:
            return f"uid {uid} has no job on this node"
        newest = max(owned, key=lambda step: (step.start_at_us, step.key.job_id)).key
        holder = next((s.key for s in owned if (s.key.job_id, s.key.step_id) == (newest.job_id, EXTERN_STEP)), None)
        if holder is None:
            log.warning("uid %d logs in, but job %d has no extern step (PrologFlags=Contain)", uid, newest.job_id)
            return f"ok job {newest.job_id}, not adopted: it has no extern step"
        if proctree.start_time(pid) != pid_start or not self._cgroups.trees:
            return f"ok job {newest.job_id}, not adopted: there are no control groups"
        try:
            self._cgroups.adopt(str(holder), pid)
        except OSError as error:
            log.warning("uid %d logs in, but pid %d could not be put into job %d: %s", uid, pid, newest.job_id, error)
            return f"ok job {newest.job_id}, not adopted: {error.strerror}"
        log.info("uid %d: pid %d belongs to job %d", uid, pid, newest.job_id)
        return f"ok job {newest.job_id}"

    def _owner(self, key: StepKey) -> int:
        claim, _ = self._spool.read(key)
        return claim.user_id if claim is not None else -1
