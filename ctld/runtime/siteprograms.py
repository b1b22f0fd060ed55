"""Runs a program of the site, or of a user, to its end, and describes the end in uniform wording.

This is the only runner of programs in the controller. `Program` has the differences between them: the user, the input,
whether the output is kept, and whether remaining processes are killed. Callers decide when a program is due, and the
consequences of its end: scripts.py (PrologSlurmctld and its like), mail.py (MailProg), triggers.py (strigger),
agents/fence.py (PenstockFenceProgram).

Rules
    - No shell; exactly the given environment; a session of its own (programs.py).
    - At the deadline the whole process group is killed; so it is when the caller is cancelled.
    - The last OUTPUT_BYTES_MAX of its output are kept.
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
#: Time limit for the end of the output after the whole group was killed, as a process that left the group can keep it
#: open.
OUTPUT_END_S: Final = 1.0


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
    try:
        process = await start(
            program.words, program.env, program.identity,
            stdin=asyncio.subprocess.PIPE if program.text else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE if program.keeps_output else asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.STDOUT if program.keeps_output else asyncio.subprocess.DEVNULL,
        )  # fmt: skip
    except OSError as error:
        return Ending(f"{path}: {error.strerror}", is_started=False)
    output = asyncio.create_task(_tail(process.stdout))
    try:
        failure = await _ends(process, program)
        if program.ends_group:
            _kill(process)
        if program.ends_group or failure:
            await asyncio.wait((output,), timeout=OUTPUT_END_S)
    finally:
        output.cancel()  # remaining processes may keep the pipe open
    said = output.result().decode("utf-8", "replace").rstrip() if output.done() and not output.cancelled() else ""
    if said and program.who and not failure:
        log.info("%s printed: %s", program.who, said)
    return Ending(failure or _failure(path, process.returncode or 0), said)


async def _ends(process: asyncio.subprocess.Process, program: Program) -> str:
    """Waits for its end; "" = it has ended in time."""
    try:
        async with asyncio.timeout(program.timeout_s or None):
            if process.stdin is not None:
                await _write(process.stdin, program.text)
            await process.wait()
    except TimeoutError:
        _kill(process)
        await process.wait()
        return f"{program.words[0]}: killed, it did not end within {program.timeout_s:g} s"
    except asyncio.CancelledError:
        _kill(process)
        raise
    return ""


async def _write(stream: asyncio.StreamWriter, text: bytes) -> None:
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it need not read its input
        stream.write(text)
        await stream.drain()
        stream.close()
        await stream.wait_closed()


def _kill(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _failure(path: str, code: int) -> str:
    if code < 0:
        return f"{path}: ended by signal {-code}"
    return f"{path}: exit status {code}" if code else ""


async def _tail(stream: asyncio.StreamReader | None) -> bytearray:
    kept = bytearray()
    while stream is not None and (piece := await stream.read(65536)):
        kept += piece
        del kept[:-OUTPUT_BYTES_MAX]
    return kept
