"""Runs a program of the site, or of a user, to its end, and describes the end in uniform wording.

This is the only runner of programs in the controller. `Program` has the differences between them: the user, the input,
whether the output is kept, and whether remaining processes are killed. Callers decide when a program is due, and the
consequences of its end: scripts.py (PrologSlurmctld and its like), mail.py (MailProg), triggers.py (strigger),
agents/fence.py (PenstockFenceProgram).

Rules
    - No shell; exactly the given environment; a session of its own (programs.py).
    - At the deadline the whole process group is killed; so it is when the caller is cancelled.
    - The last OUTPUT_BYTES_MAX of its output are kept.
    - It has ended when its own process has. What it leaves running, and its output, is the site's business: such processes
      keep the pipe open, so the output is read from a pipe of ours that is closed then (asyncio would wait for theirs).
"""

import asyncio
import contextlib
import logging
import os
import signal
from typing import Final, NamedTuple

from ctld.runtime.programs import UserIdentity, start

log = logging.getLogger("penstock.ctld")

OUTPUT_BYTES_MAX: Final = 4096
#: The capacity of a pipe: what a program has written last is read at once.
PIPE_BYTES: Final = 64 * 1024


class Program(NamedTuple):
    """A program to run, with its environment and limits."""

    words: list[str]  # the path first
    env: dict[str, str]
    timeout_s: float  # 0 = none
    who: str = ""  # its name in the log line with its output; "" = the output is not logged
    identity: UserIdentity | None = None  # the user of the child; None = the controller's
    text: bytes = b""  # its standard input
    keeps_output: bool = True
    ends_group: bool = False  # remaining processes are killed


class Ending(NamedTuple):
    """The end of a program."""

    failure: str  # "" = success, else the path and the failure
    output: str = ""  # the end of its output
    is_started: bool = True


async def run(program: Program) -> Ending:
    """Runs the program to its end."""
    path = program.words[0]
    with contextlib.ExitStack() as files:
        tail = files.enter_context(_Tail()) if program.keeps_output else None
        try:
            process = await start(
                program.words, program.env, program.identity,
                stdin=_input(program.text, files),
                stdout=tail.write_fd if tail is not None else asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.STDOUT if tail is not None else asyncio.subprocess.DEVNULL,
            )  # fmt: skip
        except OSError as error:
            return Ending(f"{path}: {error.strerror}", is_started=False)
        failure = await _ends(process, program)
        if program.ends_group:
            _kill(process)
        said = tail.text() if tail is not None else ""
    if said and program.who and not failure:
        log.info("%s printed: %s", program.who, said)
    return Ending(failure or _failure(path, process.returncode or 0), said)


def _input(text: bytes, files: contextlib.ExitStack) -> int:
    """Opens a program's standard input. It need not read it."""
    if not text:
        return asyncio.subprocess.DEVNULL
    fd = os.memfd_create("input", os.MFD_CLOEXEC)
    files.callback(os.close, fd)
    os.write(fd, text)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


async def _ends(process: asyncio.subprocess.Process, program: Program) -> str:
    """Waits for its end; "" = it has ended in time."""
    try:
        async with asyncio.timeout(program.timeout_s or None):
            await process.wait()
    except TimeoutError:
        _kill(process)
        await process.wait()
        return f"{program.words[0]}: killed, it did not end within {program.timeout_s:g} s"
    except asyncio.CancelledError:
        _kill(process)
        raise
    return ""


def _kill(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _failure(path: str, code: int) -> str:
    if code < 0:
        return f"{path}: ended by signal {-code}"
    return f"{path}: exit status {code}" if code else ""


class _Tail:
    """The end of a program's output, read while it runs, until the block ends."""

    def __init__(self) -> None:
        self._fd, self.write_fd = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._fd, False)
        self._kept = bytearray()
        self._loop = asyncio.get_running_loop()

    def __enter__(self) -> "_Tail":
        self._loop.add_reader(self._fd, self._read)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.remove_reader(self._fd)
        os.close(self._fd)
        os.close(self.write_fd)

    def text(self) -> str:
        """Returns what it has printed, now that it has ended."""
        self._read()
        return self._kept.decode("utf-8", "replace").rstrip()

    def _read(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._kept += os.read(self._fd, PIPE_BYTES)
            del self._kept[:-OUTPUT_BYTES_MAX]
