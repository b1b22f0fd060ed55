"""Runs the server of a session in its job, as the job's user: `python -m nodedaemon.session --idle-s N -- COMMAND...`

The server listens on a Unix socket in a new folder of mode 0700; PENSTOCK_SESSION_SOCKET and `{socket}` in the command name
it, PENSTOCK_SESSION_BASE and `{base}` the path at which browsers have the session. Clients come as descriptors from stepd
(nodedaemon/stepd/session.py); each is connected to that socket, here, with the rights of the user and no others.

It ends with the server, or ends the server when for N seconds (0: never) there was no connection. Its exit status says
which (penstock/values/sessions.py), and its last line of error output says so in words.
"""

import argparse
import asyncio
import contextlib
import os
import shutil
import signal
import socket
import sys
import tempfile
import time

from penstock.values.sessions import (
    BASE_VARIABLE,
    EXIT_CANNOT_RUN,
    EXIT_IDLE,
    EXIT_NO_NODE_SUPPORT,
    EXIT_NOT_FOUND,
    EXIT_NOT_READY,
    FD_VARIABLE,
    IS_READY,
    PYTHON_VARIABLE,
    SESSION_VARIABLE,
    SOCKET_VARIABLE,
    base_path,
)

CHUNK_BYTES = 64 * 1024
#: A server that loads packages from a shared file system takes minutes.
START_S = 600.0
#: How often a server that starts is tried: nothing tells that another program listens.
LOOK_S = 0.2
#: Between SIGTERM and SIGKILL for a server that is to end.
END_S = 10.0
#: Descriptors that come with one word.
_FDS_MAX = 8
_WORD_BYTES_MAX = 64
_OWN_VARIABLES = tuple(os.fsdecode(name) for name in (SESSION_VARIABLE, FD_VARIABLE, PYTHON_VARIABLE))


class SessionServer:
    """The server and its connections."""

    def __init__(self, control: socket.socket, path: str, idle_s: int) -> None:
        self._control = control
        self._path = path
        self._idle_s = idle_s
        self._relays: set[asyncio.Task[None]] = set()
        self._used_s = time.monotonic()
        self._process: asyncio.subprocess.Process
        self.status = 0  # in place of the server's own; 0 = that one

    async def run(self, command: list[str], environment: dict[str, str]) -> int:
        """Runs the server until its end; returns the exit status of the session."""
        try:
            self._process = await asyncio.create_subprocess_exec(
                *command, env=environment, stdin=asyncio.subprocess.DEVNULL
            )
        except OSError as error:
            is_missing = isinstance(error, FileNotFoundError | NotADirectoryError)
            _say(f"{command[0]}: {'it is not installed on this node' if is_missing else error.strerror}")
            return EXIT_NOT_FOUND if is_missing else EXIT_CANNOT_RUN
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._end_soon)
        watching = [asyncio.create_task(self._serve())]
        status = await self._process.wait()
        for task in (*watching, *self._relays):
            task.cancel()
        await asyncio.gather(*watching, *self._relays, return_exceptions=True)
        if self.status == EXIT_IDLE:
            _say(f"the session has ended: nobody has used it for {self._idle_s / 60:g} minutes")
        elif not self.status:
            _say(f"the session has ended: its program has ended with status {status}")
        return self.status or (status if status >= 0 else 128 - status)

    async def _serve(self) -> None:
        """Waits until the server listens; then takes clients, and watches for idleness."""
        if not await self._listens():
            _say(f"the session has ended: its program did not listen within {START_S:g} s")
            await self._end(EXIT_NOT_READY)
            return
        with contextlib.suppress(OSError):  # stepd is gone, and so is what it is for
            self._control.send(IS_READY)
            asyncio.get_running_loop().add_reader(self._control.fileno(), self._take)
        self._used_s = time.monotonic()
        while self._idle_s:
            left_s = self._idle_s - (time.monotonic() - self._used_s)
            if self._relays:
                left_s = self._idle_s
            elif left_s <= 0:
                await self._end(EXIT_IDLE)
                return
            await asyncio.sleep(left_s)

    async def _listens(self) -> bool:
        end_s = time.monotonic() + START_S
        while time.monotonic() < end_s:
            try:
                _, writer = await asyncio.open_unix_connection(self._path)
            except OSError:
                await asyncio.sleep(LOOK_S)
            else:
                writer.close()
                return True
        return False

    async def _end(self, status: int) -> None:
        self.status = status
        self._end_soon()

    def _end_soon(self) -> None:
        """Asks the server to end; kills it if it does not."""
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()
        asyncio.get_running_loop().call_later(END_S, self._kill)

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    def _take(self) -> None:
        """Takes clients from stepd."""
        try:
            word, fds, _, _ = socket.recv_fds(self._control, _WORD_BYTES_MAX, _FDS_MAX)
        except BlockingIOError:
            return
        except OSError:
            word, fds = b"", []
        if not word:
            asyncio.get_running_loop().remove_reader(self._control.fileno())
        for fd in fds:
            client = socket.socket(fileno=fd)
            client.setblocking(False)
            task = asyncio.create_task(self._relay(client))
            self._relays.add(task)
            task.add_done_callback(self._lose)

    def _lose(self, task: asyncio.Task[None]) -> None:
        self._relays.discard(task)
        self._used_s = time.monotonic()
        if not task.cancelled() and (error := task.exception()) is not None:
            _say(f"a connection ended: {error}")

    async def _relay(self, client: socket.socket) -> None:
        """Carries bytes between a client and the server, until either ends."""
        reader, writer = await asyncio.open_connection(sock=client, limit=CHUNK_BYTES)
        try:
            try:
                server_reader, server_writer = await asyncio.open_unix_connection(self._path, limit=CHUNK_BYTES)
            except OSError:  # the client sees an end without an answer
                return
            try:
                ways = [
                    asyncio.create_task(_copy(reader, server_writer)),
                    asyncio.create_task(_copy(server_reader, writer)),
                ]
                try:
                    await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for way in ways:
                        way.cancel()
                    await asyncio.gather(*ways, return_exceptions=True)
            finally:
                server_writer.close()
        finally:
            writer.close()  # what is written already is sent


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(CHUNK_BYTES):
            writer.write(data)
            await writer.drain()


def main(argv: list[str]) -> int:
    """Runs a session; returns the exit status."""
    parser = argparse.ArgumentParser(prog="penstock session")
    parser.add_argument("--idle-s", type=int, default=0)
    parser.add_argument("command", nargs="+")
    options = parser.parse_args(argv)
    environment = dict(os.environ)
    fd_text = environment.get(os.fsdecode(FD_VARIABLE), "")
    job_id = environment.get("SLURM_JOB_ID", "")
    if not (fd_text.isascii() and fd_text.isdigit() and job_id.isascii() and job_id.isdigit()):
        _say("this job is no session, or the node's daemon is of an earlier version of Penstock")
        return EXIT_NO_NODE_SUPPORT
    for name in _OWN_VARIABLES:
        environment.pop(name, None)
    folder = tempfile.mkdtemp(prefix=f"penstock-session-{job_id}-")  # mode 0700
    try:
        control = socket.socket(fileno=int(fd_text))
        os.set_inheritable(control.fileno(), False)
        control.setblocking(False)
        places = {"socket": f"{folder}/socket", "base": base_path(int(job_id)), "python": sys.executable}
        environment |= {SOCKET_VARIABLE: places["socket"], BASE_VARIABLE: places["base"]}
        command = [_filled(word, places) for word in options.command]
        return asyncio.run(SessionServer(control, places["socket"], options.idle_s).run(command, environment))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _filled(word: str, places: dict[str, str]) -> str:
    """A word of the command with its places; braces that name none stay."""
    for name, text in places.items():
        word = word.replace("{" + name + "}", text)
    return word


def _say(text: str) -> None:
    print(f"penstock session: {text}", file=sys.stderr, flush=True)  # noqa: T201 (the job's output)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
