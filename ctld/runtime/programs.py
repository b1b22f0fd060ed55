"""Starts the controller's programs, beside the loop.

Every program of the controller is started by `start`. It runs in a session of its own, with exactly the given
environment, and may be killed when memory is short: the controller's exemption (OOMScoreAdjust of its unit) is not
inherited. One that runs as another user is started through become.py, which drops the exemption and switches to that
user completely before it executes the program. The site's own programs, which run as the controller's user, lose the
exemption directly after their start. Nor is the controller's raised limit of open files inherited: programs that use
select(2), or close every possible descriptor, work badly with it.

siteprograms.py runs them to their end, programslots.py limits how many run at a time.
"""

import asyncio
import contextlib
import errno
import os
import resource
import signal
import sys

# Any: passed on to asyncio, which checks the types
from typing import Any, Final, NamedTuple

from ctld.runtime import become
from penstock.oom import allow_oom_kill

#: PATH of these programs.
PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: Time limit between the start of a process and the execution of the program.
BEGIN_S: Final = 30.0
#: The limit of open files at the controller's start; rpc/gate/connections.py raises its own.
FILES: Final = resource.getrlimit(resource.RLIMIT_NOFILE)


class UserIdentity(NamedTuple):
    """The identity that a program takes on: user, group and all other groups."""

    uid: int
    gid: int
    groups: tuple[int, ...]


async def start(
    words: list[str], env: dict[str, str], identity: UserIdentity | None = None, **streams: Any
) -> asyncio.subprocess.Process:
    """Starts a program, as another user if `identity` says so. Raises OSError, also when it cannot become that user."""
    if identity is not None:
        return await _start_as(words, env, identity, streams)
    process = await asyncio.create_subprocess_exec(*words, env=env, cwd="/", start_new_session=True, **streams)
    allow_oom_kill(process.pid)
    limit_files(process.pid)
    return process


async def _start_as(
    words: list[str], env: dict[str, str], identity: UserIdentity, streams: dict[str, Any]
) -> asyncio.subprocess.Process:
    read_fd, write_fd = os.pipe2(os.O_CLOEXEC)
    numbers = (str(write_fd), str(identity.uid), str(identity.gid), ",".join(map(str, identity.groups)))
    command = [sys.executable, "-I", "-S", become.__file__, *numbers, *words]
    try:
        try:
            process = await asyncio.create_subprocess_exec(
                *command, env=env, cwd="/", start_new_session=True, pass_fds=(write_fd,), **streams
            )
        finally:
            os.close(write_fd)
        limit_files(process.pid)
        said = await _begun(process, read_fd)
    finally:
        os.close(read_fd)
    if said:
        await process.wait()
        raise OSError(int(said), os.strerror(int(said)))
    return process


async def _begun(process: asyncio.subprocess.Process, read_fd: int) -> bytes:
    """Reads the report of become.py; b"" = the program is executed. Raises OSError when there is none in time.

    The user can delay it: the program's file may be on a file system of theirs, and they may stop the process. So it
    takes no thread.
    """
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(read_fd, readable.set)
    try:
        async with asyncio.timeout(BEGIN_S):
            await readable.wait()
        return os.read(read_fd, 16)
    except (TimeoutError, asyncio.CancelledError) as error:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        if isinstance(error, asyncio.CancelledError):
            raise
        raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT)) from None
    finally:
        loop.remove_reader(read_fd)


def limit_files(pid: int) -> None:
    """Gives a started process the limit of open files that the controller was started with."""
    with contextlib.suppress(OSError):  # it has ended already
        resource.prlimit(pid, resource.RLIMIT_NOFILE, FILES)
