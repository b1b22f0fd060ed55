"""A site's script in a process beside the command, forked from it and of its user, for all calls of one command.

Whatever the script does (it hangs in its library's C code, it ends, it takes all memory) is an answer for the command or
the end of that process. The kernel ends a call that takes too long, also after the command itself was killed. The process
holds no file of the command but its standard streams.
"""

import json
import os
import resource
import signal
import socket
import struct
import sys
from collections.abc import Callable, Mapping
from typing import Final, NoReturn, Protocol

from cli.base.options import Command
from cli.base.run import CommandError
from cli.filters.plugin import FilterFault
from penstock.config.sitefile import SiteFileError, decoded, read_site_file
from penstock.sitefilters.base import FilterFailed, FilterRefusal

#: A call may ask a file system or the controller; who waits for it can end it with Ctrl-C.
CALL_S: Final = 30.0
FILE_BYTES_MAX: Final = 1024 * 1024
#: Address space of the process.
MEMORY_BYTES_MAX: Final = 4 * 1024**3
#: A table of options; beyond it something is wrong with the script.
ANSWER_BYTES_MAX: Final = 16 * 1024**2
TERMINATED: Final = "cli_filter plugin terminated with error"
_LENGTH: Final = struct.Struct("=I")


class OptionScript(Protocol):
    """A loaded script: LuaOptions, PythonOptions. All raise FilterFailed and FilterRefusal."""

    def setup_defaults(self, options: dict[str, str], early: bool, component: int) -> dict[str, str | None]:
        """Returns the changes of the defaults."""

    def pre_submit(self, options: dict[str, str], component: int) -> dict[str, str | None]:
        """Returns the changes of the options of a component."""

    def post_submit(self, component: int, job_id: int, step_id: int | None) -> None:
        """Tells of a job or step."""


class BesideProcess:
    """The process of one script; it starts with the first call."""

    def __init__(self, command: Command, language: str, path: str, owner_uid: int) -> None:
        """`owner_uid`: beside root and the user, who may own the file."""
        self._command = command
        self._language = language
        self._path = path
        self._owner_uid = owner_uid
        self.pid = 0
        self._wire: socket.socket | None = None

    def ask(self, function: str, **values: object) -> Mapping[str, str | None]:
        """Calls a function of the script and returns its changes. Raises FilterFault, CommandError: it has refused."""
        wire = self._wire or self._start()
        try:
            wire.sendall(_packed({"function": function, "values": values}))
            found = _received(wire)
        except OSError:
            found = None
        if found is None:
            raise self._broken(function)
        if "failed" in found:
            raise FilterFault(f"{found['failed']}\n{TERMINATED}")
        if "refused" in found:
            raise CommandError("\n".join((*str(found["refused"]).splitlines(), TERMINATED)))
        changes = found.get("changes")
        return changes if isinstance(changes, dict) else {}

    def close(self) -> None:
        """Ends the process, which has nothing left to do."""
        if self._wire is not None:
            self._wire.close()
            self._wire = None
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)

    def _start(self) -> socket.socket:
        try:
            data, _ = read_site_file(self._path, str(self._owner_uid), FILE_BYTES_MAX)
            text = decoded(data, self._path)
        except SiteFileError as error:
            raise FilterFault(f"the filter of options cannot be read: {error}\n{TERMINATED}") from error
        ours, theirs = socket.socketpair()
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            _serve(theirs, self._command, self._language, self._path, text)
        theirs.close()
        self._wire = ours
        return ours

    def _broken(self, function: str) -> FilterFault:
        """The error for a process that has ended, by itself or by its deadline."""
        if self._wire is not None:
            self._wire.close()
            self._wire = None
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        if code == -signal.SIGINT:
            raise KeyboardInterrupt
        if code == -signal.SIGALRM:
            return FilterFault(f"{self._path}: {function} took longer than {CALL_S:g} s\n{TERMINATED}")
        how = f"was ended by signal {-code}" if code < 0 else f"ended with status {code}"
        return FilterFault(f"{self._path}: its process {how} in {function}\n{TERMINATED}")


def _serve(wire: socket.socket, command: Command, language: str, path: str, text: str) -> NoReturn:
    """The process of the script: answers until the command closes its side."""
    try:
        own = wire.fileno()
        os.closerange(3, own)
        os.closerange(own + 1, os.sysconf("SC_OPEN_MAX"))
        for number in (signal.SIGINT, signal.SIGALRM, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        limit = MEMORY_BYTES_MAX if most == resource.RLIM_INFINITY else min(most, MEMORY_BYTES_MAX)
        resource.setrlimit(resource.RLIMIT_AS, (limit, most))
        script: OptionScript | None = None
        while (question := _received(wire)) is not None:
            signal.setitimer(signal.ITIMER_REAL, CALL_S)
            try:
                script = script or load(command, language, path, text)
                answer: dict[str, object] = {"changes": _called(script, question)}
            except FilterRefusal as refusal:
                answer = {"refused": str(refusal)}
            except FilterFailed as failure:
                answer = {"failed": str(failure)}
            sys.stdout.flush()
            signal.setitimer(signal.ITIMER_REAL, 0)
            wire.sendall(_packed(answer))
        os._exit(0)
    finally:  # whatever it was, the command reads of the end
        os._exit(70)


def load(command: Command, language: str, path: str, text: str) -> OptionScript:
    """Loads a script. Raises FilterFailed, FilterRefusal."""
    if language == "python":
        from cli.filters.pythonoptions import PythonOptions

        return PythonOptions(command, path, text)
    try:
        from cli.filters.luaoptions import LuaOptions
    except ImportError as error:
        raise FilterFailed(f"{path}: it needs lupa: pip install 'penstock[lua]' ({error})") from error
    return LuaOptions(command, path, text)


def _called(script: OptionScript, question: dict[str, object]) -> object:
    functions: dict[str, Callable[..., object]] = {
        "setup_defaults": script.setup_defaults, "pre_submit": script.pre_submit, "post_submit": script.post_submit,
    }  # fmt: skip
    values = question["values"]
    return functions[str(question["function"])](**values) if isinstance(values, dict) else {}


def _packed(value: dict[str, object]) -> bytes:
    data = json.dumps(value).encode()
    return _LENGTH.pack(len(data)) + data


def _received(wire: socket.socket) -> dict[str, object] | None:
    """Returns the next message; None: the other side has ended."""
    head = _bytes(wire, _LENGTH.size)
    if head is None:
        return None
    (size,) = _LENGTH.unpack(head)
    data = _bytes(wire, size) if size <= ANSWER_BYTES_MAX else None
    found = None if data is None else json.loads(data)
    return found if isinstance(found, dict) else None


def _bytes(wire: socket.socket, size: int) -> bytes | None:
    found = bytearray()
    while len(found) < size:
        more = wire.recv(size - len(found))
        if not more:
            return None
        found += more
    return bytes(found)
