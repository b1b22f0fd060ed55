"""The command that runs inside an allocation on this machine, with a terminal's rights as a shell gives them.

With a terminal the command is a job of its own: its process group has the terminal while it runs, Ctrl-C and Ctrl-Z
reach it and not us, and when it stops we stop too, so that the shell around us sees one job. Without a terminal it is a
process group of its own as well, so that a signal for it never hits us; what we are sent is passed on to it.

It is started by posix_spawn: the calling process has threads of gRPC, and a fork that is not followed at once by exec
may hang. Any of these threads may be given our signals, so they are waited for by a pipe. The new group gets the
terminal from here; whoever was quicker and was stopped for it is continued.
"""

import os
import select
import signal
from collections.abc import Sequence

from cli.run import CommandError

#: Passed on to the command when they are sent to us; Ctrl-C of a terminal goes to the command without us.
FORWARDED = (
    signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2,
)  # fmt: skip
#: A process in the background is stopped by these when it touches the terminal.
TERMINAL_STOPS = (signal.SIGTTOU, signal.SIGTTIN, signal.SIGTSTP)
STDIN = 0


class Shell:
    """One command: started, waited for, signalled."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.pid = 0
        self.has_terminal = is_interactive()
        self._own_group = os.getpgrp()
        self._news, self._write = os.pipe()

    def start(self, argv: Sequence[str], environment: dict[bytes, bytes]) -> None:
        """Run it. Raises CommandError when it cannot run."""
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
        except OSError as error:
            raise CommandError(f'Unable to exec command "{argv[0]}": {error.strerror}') from error
        self._give_terminal()

    def wait(self) -> tuple[int, int]:
        """Until it ends: (exit code, signal), one of them 0."""
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
        """Wait until it has ended or stopped. Signals are waited for by a pipe: any thread may be the one that gets them."""
        while True:
            pid, status = os.waitpid(self.pid, os.WNOHANG | (os.WUNTRACED if self.has_terminal else 0))
            if pid:
                return status
            select.select([self._news], [], [])
            os.read(self._news, 4096)

    def kill(self, number: int) -> None:
        """Signal the command, and what it has in the foreground."""
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
        if terminal_group() == self._own_group:  # the shell around us has put us into its foreground (fg)
            self._give_terminal()
        else:
            _kill_group(self.pid, signal.SIGCONT)


def _noted(number: int, frame: object) -> None:
    """The number is in the pipe already."""


def is_interactive() -> bool:
    """Whether the standard input is a terminal that is ours to give."""
    return os.isatty(STDIN) and terminal_group() != 0


def terminal_group() -> int:
    """The process group in the terminal's foreground; 0 = there is none."""
    try:
        return os.tcgetpgrp(STDIN)
    except OSError:
        return 0


def come_to_foreground() -> None:
    """Stop until the shell around us puts us into the foreground, as any program that reads the terminal is."""
    while is_interactive() and terminal_group() != os.getpgrp():
        os.killpg(os.getpgrp(), signal.SIGTTIN)


def _kill_group(group: int, number: int) -> None:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return  # it has ended, or has become somebody else's
