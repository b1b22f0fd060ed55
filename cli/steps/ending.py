"""Ends a step from srun's side: Ctrl-C, SIGTERM, --kill-on-bad-exit and --wait.

    terminate   its tasks get SIGTERM through the streams, and SIGKILL after KillWait; the step's state follows from its
    tasks cancel      as scancel would: the controller ends the step, and it counts as cancelled
    quit        srun itself got SIGTERM: cancel. The end of a batch script signals its srun, too, and the tasks still
    have their KillWait. The streams signal them when the controller cannot; the second time is force force
    cancel, with SIGKILL at once

Each action is started once. A thread calls the controller, `signal_tasks` sends to the streams: the step ends also when
one of the two cannot be reached.
"""

import signal
import time
from collections.abc import Callable
from typing import NamedTuple

from cli.steps.watcher import Watchers
from penstock.eventloop import Loop

KILL_WAIT_S = 30.0
ABORT_TEXT = "Job step aborted: Waiting up to 32 seconds for job step to finish."
#: The controller has this long to answer before the streams signal the tasks.
CONTROLLER_WAIT_S = 5.0
#: Two Ctrl-C within this interrupt the step, a single one prints its state.
INTERRUPT_S = 1.0


class EndingRules(NamedTuple):
    """The rules by which the step is ended."""

    kill_on_bad_exit: bool = False
    wait_s: int = 0  # after the first task's end; 0 = without limit
    disable_status: bool = False  # a single Ctrl-C goes to the tasks, a second one kills them
    quit_on_interrupt: bool = False
    verbose: int = 0
    shows_tasks: bool = False  # --debugger-test: node and process id of each task, once all run
    reports_once: bool = False  # of successive ends of tasks with the same status, only the first is reported
    killed_note_node: int | None = None  # only the node with this number reports that the step was cancelled


class StepEnding:
    """The ending of one step."""

    def __init__(
        self,
        loop: Loop,
        watcher: Watchers,
        rules: EndingRules,
        say: Callable[[str], None],
        signal_tasks: Callable[[int], None],
        when_handled: Callable[[Callable[[], None]], None],
    ) -> None:
        """`when_handled`: calls an action when the nodes have handled the signals that were sent to them."""
        self.has_begun = False
        self._loop = loop
        self._watcher = watcher
        self._rules = rules
        self._say = say
        self._signal_tasks = signal_tasks
        self._when_handled = when_handled
        self._abort_reported = False
        self._last_interrupt = self._last_sent = float("-inf")

    def terminate(self, *, streams_connected: bool) -> None:
        """Ends its tasks; through the controller if a stream is missing."""
        if self.has_begun:
            return
        self._begin()
        self._signal_tasks(signal.SIGCONT)
        self._signal_tasks(signal.SIGTERM)
        if not streams_connected:
            self._watcher.cancel()

    def cancel(self) -> None:
        """Has the controller end it."""
        if not self.has_begun:
            self._begin()
            self.report_abort()
            self._watcher.cancel()

    def quit(self) -> None:
        """Handles SIGTERM or SIGHUP."""
        if self.has_begun:
            self.force()
            return
        self._say("forcing job termination")
        self.cancel()
        self._loop.after(CONTROLLER_WAIT_S, self._signal_after_wait)

    def _signal_after_wait(self) -> None:
        if not self._watcher.was_cancelled:
            self._signal_tasks(signal.SIGCONT)
            self._signal_tasks(signal.SIGTERM)

    def force(self) -> None:
        """Ends it at once, through the controller and the streams."""
        self._say("forcing job termination")
        self.cancel()
        self._signal_tasks(signal.SIGKILL)

    def report_abort(self) -> None:
        """Reports once that the step is being ended."""
        if not self._abort_reported:
            self._abort_reported = True
            self._say(ABORT_TEXT)

    def interrupted(self, title: str, report_state: Callable[[], None]) -> None:
        """Handles Ctrl-C, unless the terminal passes it to the task."""
        now = time.monotonic()
        if self._rules.quit_on_interrupt:
            self.force()
        elif self.has_begun:
            if now - self._last_sent < INTERRUPT_S:
                self.force()
            self._last_sent = now
        elif self._rules.disable_status and now - self._last_sent < INTERRUPT_S:
            self.force()
        elif self._rules.disable_status or now - self._last_interrupt <= INTERRUPT_S:
            self._say(f"sending Ctrl-C to {title}")
            self._signal_tasks(signal.SIGINT)
            self._last_sent = now
            if not self._rules.disable_status:
                self._begin()
                self.report_abort()
                # The controller's SIGTERM takes another way to the nodes, and must not be the first to arrive.
                self._when_handled(self._watcher.cancel)
        else:
            self._last_interrupt = now
            self._say("interrupt (one more within 1 sec to abort)")
            report_state()

    def _begin(self) -> None:
        self.has_begun = True
        self._watcher.start()
        self._loop.after(KILL_WAIT_S, lambda: self._signal_tasks(signal.SIGKILL))
