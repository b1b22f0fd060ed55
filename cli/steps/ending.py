"""How a step is ended from srun's side: what Ctrl-C, SIGTERM, --kill-on-bad-exit and --wait lead to.

    terminate   its tasks get SIGTERM through the streams, and SIGKILL after KillWait; the step's state is what its
                tasks make of it
    cancel      as scancel would: the controller ends the step, and it counts as cancelled
    quit        srun itself was told to end: cancel. A batch script that is ended has its srun told, too, and the tasks
                shall have their KillWait. The streams tell them when the controller cannot; a second time is force
    force       cancel, with SIGKILL at once

Whatever was begun is begun once. The controller is asked by a thread, the streams are told by `signal_tasks`: the step
ends also when one of the two cannot be reached.
"""

import signal
import time
from collections.abc import Callable
from typing import NamedTuple

from cli.steps.loop import Loop
from cli.steps.watcher import Watchers

KILL_WAIT_S = 30.0
ABORT_TEXT = "Job step aborted: Waiting up to 32 seconds for job step to finish."
#: So long the controller has to answer before the streams tell the tasks to end.
CONTROLLER_WAIT_S = 5.0
#: Two Ctrl-C within this are an order, one is a question.
INTERRUPT_S = 1.0


class Rules(NamedTuple):
    """How the step is to be dealt with."""

    kill_on_bad_exit: bool = False
    wait_s: int = 0  # after the first task's end; 0 = for ever
    disable_status: bool = False  # one Ctrl-C goes to the tasks
    quit_on_interrupt: bool = False
    verbose: int = 0


class Ending:
    """Of one step."""

    def __init__(
        self,
        loop: Loop,
        watcher: Watchers,
        rules: Rules,
        say: Callable[[str], None],
        signal_tasks: Callable[[int], None],
    ) -> None:
        self.has_begun = False
        self._loop = loop
        self._watcher = watcher
        self._rules = rules
        self._say = say
        self._signal_tasks = signal_tasks
        self._abort_said = False
        self._last_interrupt = self._last_sent = float("-inf")

    def terminate(self, *, streams_stand: bool) -> None:
        """End its tasks. Without all streams the controller must do it."""
        if self.has_begun:
            return
        self._begin()
        self._signal_tasks(signal.SIGCONT)
        self._signal_tasks(signal.SIGTERM)
        if not streams_stand:
            self._watcher.cancel()

    def cancel(self) -> None:
        """Let the controller end it."""
        if not self.has_begun:
            self._begin()
            self.say_abort()
            self._watcher.cancel()

    def quit(self) -> None:
        """SIGTERM or SIGHUP has come."""
        if self.has_begun:
            self.force()
            return
        self._say("forcing job termination")
        self.cancel()
        self._loop.at(CONTROLLER_WAIT_S, self._tell_tasks)

    def _tell_tasks(self) -> None:
        if not self._watcher.was_cancelled:
            self._signal_tasks(signal.SIGCONT)
            self._signal_tasks(signal.SIGTERM)

    def force(self) -> None:
        """Nobody is asked."""
        self._say("forcing job termination")
        self.cancel()
        self._signal_tasks(signal.SIGKILL)

    def say_abort(self) -> None:
        """Somebody ends the step: told once."""
        if not self._abort_said:
            self._abort_said = True
            self._say(ABORT_TEXT)

    def interrupted(self, title: str, tell_state: Callable[[], None]) -> None:
        """Ctrl-C, where it does not go to the task by itself."""
        now = time.monotonic()
        if self._rules.quit_on_interrupt:
            self.force()
        elif self.has_begun:
            if now - self._last_sent < INTERRUPT_S:
                self.force()
            self._last_sent = now
        elif self._rules.disable_status or now - self._last_interrupt <= INTERRUPT_S:
            self._say(f"sending Ctrl-C to {title}")
            self._signal_tasks(signal.SIGINT)
            self._last_sent = now
            if not self._rules.disable_status:
                self.cancel()
        else:
            self._last_interrupt = now
            self._say("interrupt (one more within 1 sec to abort)")
            tell_state()

    def _begin(self) -> None:
        self.has_begun = True
        self._watcher.start()
        self._loop.at(KILL_WAIT_S, lambda: self._signal_tasks(signal.SIGKILL))
