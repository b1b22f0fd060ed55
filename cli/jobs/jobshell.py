"""Runs the command inside an allocation on this machine, with job control of the terminal as a shell does it.

With a terminal the command is a shell job of its own: its process group has the terminal while it runs, Ctrl-C and
Ctrl-Z reach it and not this process, and when it stops this process stops too, so that the parent shell sees one job.
Without a terminal it has its own process group as well, so that its signals never reach this process; signals to this
process are passed on to it.

It is started by posix_spawn: the calling process has threads of gRPC, and a fork that is not followed at once by exec
may hang. The kernel may deliver our signals to any of these threads, so a pipe wakes the main one. This process gives
the new group the terminal; a command that used it earlier and was stopped for that is continued.
"""

import os
import select
import signal
from collections.abc import Sequence

from cli.base.run import CommandError

#: Signals passed on to the command; Ctrl-C of a terminal reaches the command directly.
FORWARDED = (
    signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2,
)  # fmt: skip
#: Signals that stop a background process that uses the terminal.
TERMINAL_STOPS = (signal.SIGTTOU, signal.SIGTTIN, signal.SIGTSTP)
STDIN = 0


class Shell:
    """The command: started, waited for, signalled."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.pid = 0
        self.has_terminal = is_interactive()
        self._early: list[int] = []  # signals from before its pid is known: it runs already
        self._own_group = os.getpgrp()
        self._news, self._write = os.pipe()

    def start(self, argv: Sequence[str], environment: dict[bytes, bytes]) -> None:
        """Starts it. Raises CommandError when it cannot run."""
        for end in (self._news, self._write):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _noted)
        for number in FORWARDED:
            signal.signal(number, self._forward)
        if self.has_terminal:
            for number in TERMINAL_STOPS:
                signal.signal(number, signal.SIG_IGN)
        try:
            self.pid = os.posix_spawnp(
                argv[0], list(argv), environment, setpgroup=0, setsigdef=[*FORWARDED, *TERMINAL_STOPS]
            )
        except FileNotFoundError as error:
            raise CommandError(f'_fork_command: Unable to find command "{argv[0]}"') from error
        except OSError as error:
            raise CommandError(f'Unable to exec command "{argv[0]}": {error.strerror}') from error
        for early in self._early:
            _kill_group(self.pid, early)
        self._give_terminal()

    def wait(self) -> tuple[int, int]:
        """Waits for its end: (exit code, signal), one of them 0."""
        while True:
            status = self._changed()
            if os.WIFSTOPPED(status):
                self._stop_too()
                continue
            self.pid = 0
            self._take_terminal()
            if os.WIFSIGNALED(status):
                return 0, os.WTERMSIG(status)
            return os.WEXITSTATUS(status), 0

    def _changed(self) -> int:
        """Waits until it has ended or stopped. A pipe reports signals: any thread may receive them."""
        while True:
            pid, status = os.waitpid(self.pid, os.WNOHANG | (os.WUNTRACED if self.has_terminal else 0))
            if pid:
                return status
            select.select([self._news], [], [])
            os.read(self._news, 4096)

    def kill(self, number: int) -> None:
        """Signals the command, and its foreground processes."""
        pid = self.pid
        if not pid:
            return
        if self.has_terminal:
            foreground = terminal_group()
            if foreground not in (0, pid, self._own_group):
                _kill_group(foreground, number)
        _kill_group(pid, number)
        _kill_group(pid, signal.SIGCONT)

    def _forward(self, number: int, frame: object) -> None:
        if self.pid:
            _kill_group(self.pid, number)
        else:
            self._early.append(number)

    def _give_terminal(self) -> None:
        if self.has_terminal:
            os.tcsetpgrp(STDIN, self.pid)
            _kill_group(self.pid, signal.SIGCONT)

    def _take_terminal(self) -> None:
        if self.has_terminal:
            try:
                os.tcsetpgrp(STDIN, self._own_group)
            except OSError:
                self.has_terminal = False  # it hung up

    def _stop_too(self) -> None:
        self._take_terminal()
        os.killpg(self._own_group, signal.SIGSTOP)
        if terminal_group() == self._own_group:  # the parent shell has put this job into the foreground (fg)
            self._give_terminal()
        else:
            _kill_group(self.pid, signal.SIGCONT)


def _noted(number: int, frame: object) -> None:
    """Does nothing: the wakeup descriptor has the signal's number already."""


def is_interactive() -> bool:
    """Whether standard input is our controlling terminal."""
    return os.isatty(STDIN) and terminal_group() != 0


def terminal_group() -> int:
    """The process group in the terminal's foreground; 0 = there is none."""
    try:
        return os.tcgetpgrp(STDIN)
    except OSError:
        return 0


def await_foreground() -> None:
    """Stops until the parent shell puts this job into the foreground, as any program that reads the terminal."""
    while is_interactive() and terminal_group() != os.getpgrp():
        os.killpg(os.getpgrp(), signal.SIGTTIN)


def _kill_group(group: int, number: int) -> None:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return  # it has ended, or changed its user
