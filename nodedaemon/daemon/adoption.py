"""noded's side of `penstock adopt`: a socket for root that puts a process into the extern step of a user's job.

One line in, "UID PID START", one line out. Only processes of the daemon's own user may ask, as the kernel reports it.
The user's newest job is used. Without control groups, or when the job has no extern step (PrologFlags=Contain), the
process cannot be moved: the login is allowed all the same, since the user has a job, and this is logged.
"""

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from nodedaemon.base import proctree
from nodedaemon.base.folders import ADOPT_SOCKET_NAME
from nodedaemon.cgroups.cgroup import Cgroups
from nodedaemon.core.steps import NodeStep, StepKey
from nodedaemon.spool.spool import Spool
from penstock.security.credentials import peer_credentials
from penstock.values.jobid import EXTERN_STEP

log = logging.getLogger("penstock.noded")

LINE_BYTES_MAX: Final = 128
LINE_S: Final = 5.0
INIT_PID: Final = 1


class Adoption:
    """Serves the socket. `steps` returns the live steps."""

    def __init__(
        self, spool_path: str, spool: Spool, cgroups: Cgroups, steps: Callable[[], Iterable[NodeStep]]
    ) -> None:
        self._path = Path(spool_path, ADOPT_SOCKET_NAME)
        self._spool = spool
        self._cgroups = cgroups
        self._steps = steps
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Starts listening; a path that cannot be used is only logged, since jobs do not need it."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)  # the spool is locked: the process that left it is gone
        try:
            self._server = await asyncio.start_unix_server(self._serve, self._path, limit=LINE_BYTES_MAX)
            os.chmod(self._path, 0o600)
        except OSError as error:
            log.warning("%s: %s; ssh sessions are not adopted", self._path, error.strerror or error)

    def close(self) -> None:
        """Stops listening."""
        if self._server is not None:
            self._server.close()
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            connection: socket.socket = writer.get_extra_info("socket")
            caller_uid = peer_credentials(connection).uid
            async with asyncio.timeout(LINE_S):
                words = (await reader.readline()).split()
            if caller_uid not in (0, os.geteuid()) or len(words) != 3 or not all(word.isdigit() for word in words):
                return
            writer.write(self.answer(*map(int, words)).encode() + b"\n")
            await writer.drain()
        except (OSError, TimeoutError, ValueError):
            return
        finally:
            writer.close()

    def answer(self, uid: int, pid: int, pid_start: int) -> str:
        """Finds the job and moves the process."""
        if pid in (0, INIT_PID, os.getpid()):  # 0 would be the writer of the group's file: ourselves
            return f"pid {pid} is no login"
        owned = [step for step in self._steps() if self._owner(step.key) == uid]
        if not owned:
            return f"uid {uid} has no job on this node"
        newest = max(owned, key=lambda step: (step.start_at_us, step.key.job_id)).key
        extern_step = next(
            (s.key for s in owned if (s.key.job_id, s.key.step_id) == (newest.job_id, EXTERN_STEP)), None
        )
        if extern_step is None:
            log.warning("uid %d logs in, but job %d has no extern step (PrologFlags=Contain)", uid, newest.job_id)
            return f"ok job {newest.job_id}, not adopted: it has no extern step"
        if proctree.start_time(pid) != pid_start or not self._cgroups.trees:
            return f"ok job {newest.job_id}, not adopted: there are no control groups"
        try:
            self._cgroups.adopt(str(extern_step), pid)
        except OSError as error:
            log.warning("uid %d logs in, but pid %d could not be put into job %d: %s", uid, pid, newest.job_id, error)
            return f"ok job {newest.job_id}, not adopted: {error.strerror}"
        log.info("uid %d: pid %d belongs to job %d", uid, pid, newest.job_id)
        return f"ok job {newest.job_id}"

    def _owner(self, key: StepKey) -> int:
        claim, _ = self._spool.read(key)
        return claim.user_id if claim is not None else -1
