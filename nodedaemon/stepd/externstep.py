"""A job's extern step (-4) on a node: it runs the prolog, keeps the job's groups and folders, and runs the epilog.

    claim -> private folders -> Prolog -> "began" -> waits -> order to end -> kill what is left -> Epilog -> record

Rules
    - "began" is reported when the prolog has succeeded; the controller launches the job's steps after that.
    - Ordered to end during the prolog: the prolog ends first (or reaches its deadline), then the epilog runs. So an
      epilog always runs after the whole prolog, even after a failed one.
    - All processes of the job on the node are killed before the epilog.
    - SIGKILL is an order to end like SIGTERM: only its own deadline ends an epilog early.
    - The exit code of the record is the stage that failed: 0 none, else a key of STAGES; a signal means that a program
      was killed at its deadline.
    - Processes that a prolog leaves outside the job's groups (without RunInJob) are the site's and are left alone.

Deliberately absent: tasks, streams, the consequences of a failure for job and node (the controller's core).
"""

import contextlib
import fcntl
import os
import select
import signal
import socket
import time

from nodedaemon.base import orders, scripts
from nodedaemon.spool.steprecord import STEPD, Claim, StepEnd, write_claim, write_end
from nodedaemon.stepd import namespace
from nodedaemon.stepd.control import CREDENTIALS, is_from_noded, without_token
from penstock.crash import crash_point

TYPE_CHECKING = False  # avoids importing `typing`, which every fork would pay for
if TYPE_CHECKING:
    from collections.abc import Iterator

    from nodedaemon.stepd.own import Own

STAGE_PROLOG = 1
STAGE_EPILOG = 2
STAGE_KILL = 3
#: Names of the stages, as reported to the controller.
STAGES = {STAGE_PROLOG: "prolog", STAGE_EPILOG: "epilog", STAGE_KILL: "kill"}
#: Time after SIGKILL; processes that are still there are left, and the node is drained.
CLEAR_S = 60.0
SERIAL_LOCK = "serial.lock"
_ORDER_BYTES_MAX = 4096
_NO_USAGE = (0, 0, 0, 0, 0)
#: Variables that an order to end may add to the epilog's environment, as NAME=VALUE in its note.
ENDING_NAMES = ("SLURM_JOB_EXIT_CODE", "SLURM_JOB_EXIT_CODE2", "SLURM_JOB_DERIVED_EC")


class ExternStep:
    """The extern step of one job on this node."""

    def __init__(self, own: "Own", order: orders.LaunchOrder, folder_fd: int) -> None:
        self._own = own
        self._context = own.context
        self._order = order
        self._folder_fd = folder_fd
        self._groups = own.context.cgroups.of(order)
        self._outside = -1  # the node's own mount namespace, once we have left it
        self._private = ""  # the job's private folders on disk
        self._stage = 0
        self._signal = 0
        self._failure = ""
        self._ending: dict[str, str] = {}
        self._start_at_us = 0

    def run(self) -> None:
        """Runs from the claim to the record; does nothing when another process has the claim."""
        own, order = self._own, self._order
        claim = Claim(
            STEPD, own.pid, own.pid_start, order.user_id, self._context.clock.now_us(), own.address, order.key
        )
        record_fd = write_claim(self._folder_fd, claim)
        if record_fd < 0:
            return
        crash_point("stepd.claimed")
        if self._open() and self._script("prolog", order.prolog, STAGE_PROLOG):
            self._began()
            self._await_end()
        self._clear()
        self._script("epilog", order.epilog, STAGE_EPILOG)
        self._close()
        crash_point("stepd.ended")
        end = StepEnd(
            self._start_at_us,
            max(self._context.clock.now_us(), self._start_at_us),
            self._stage,
            self._signal,
            self._failure,
            False,
            _NO_USAGE,
        )
        write_end(record_fd, end)
        crash_point("stepd.recorded")

    # -- before and after

    def _open(self) -> bool:
        """Makes the job's groups and private folders; False when that fails."""
        order, context = self._order, self._context
        try:
            self._groups.create()
            if order.private_tmp:
                self._private = namespace.folder_of(order.private_tmp, context.node_name, order.key)
                self._outside = namespace.make(
                    order.private_tmp, self._private, order.private_folders, order.user_id, order.group_id,
                    context.steps_path,
                )  # fmt: skip
        except namespace.NamespaceError as error:
            self._fail(STAGE_PROLOG, str(error))
        except OSError as error:
            self._fail(STAGE_PROLOG, f"cannot make the job's control groups: {error.strerror}")
        return not self._stage

    def _close(self) -> None:
        self._groups.remove()
        if self._outside >= 0:
            namespace.enter(self._outside)  # else our own mounts keep the folders busy
            try:
                namespace.remove(self._private)
            except OSError as error:
                self._log_output(f"cannot remove {self._private}: {error.strerror or error}")

    def _fail(self, stage: int, text: str, signum: int = 0) -> None:
        """Records a failure; the first one counts."""
        if not self._stage:
            self._stage = stage
            self._failure = text
            self._signal = signum

    # -- the site's programs

    def _script(self, what: str, patterns: list[str], stage: int) -> bool:
        """Runs prolog or epilog; False when it failed."""
        if not patterns:
            return True
        env = {**self._order.script_environment, "SLURM_SCRIPT_CONTEXT": f"{what}_slurmd", **self._ending}
        with self._turn():
            outcome = scripts.run_all(patterns, env, self._order.script_timeout_s, self._enter_groups)
        if outcome.output:
            self._log_output(f"{what} printed: {outcome.output.decode('utf-8', 'replace').rstrip()}")
        if outcome.failure:
            self._log_output(f"{what} failed: {outcome.failure}")
            self._fail(stage, outcome.failure, signal.SIGKILL if outcome.timed_out else 0)
        return not outcome.failure

    def _enter_groups(self) -> None:
        """Moves a program, before its exec: with RunInJob into the job's groups, else into the node's namespace."""
        if "RUNINJOB" in self._order.script_flags:
            self._groups.join()
        elif self._outside >= 0:
            namespace.enter(self._outside)

    @contextlib.contextmanager
    def _turn(self) -> "Iterator[None]":
        """PrologFlags=Serial: one program at a time on the node."""
        if "SERIAL" not in self._order.script_flags:
            yield
            return
        path = os.path.join(os.path.dirname(self._context.steps_path), SERIAL_LOCK)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    def _log_output(self, text: str) -> None:
        with contextlib.suppress(OSError):  # noded is not running: it is only for its log
            self._context.packets.send(orders.script_message(self._order.key, text), socket.MSG_DONTWAIT)

    # -- waiting

    def _began(self) -> None:
        self._start_at_us = self._context.clock.now_us()
        packet = orders.began(self._order.key, self._start_at_us, self._own.pid)
        with contextlib.suppress(OSError):  # noded is not running or far behind: it will ask for the record
            self._context.packets.send(packet, socket.MSG_DONTWAIT)
        crash_point("stepd.began")

    def _await_end(self) -> None:
        """Waits for the order to end. Processes that the prolog left are reaped."""
        own = self._own
        poll = select.poll()
        poll.register(own.wake_read, select.POLLIN)
        poll.register(own.control.fileno(), select.POLLIN)
        while True:
            ready = dict(poll.poll())
            if own.wake_read in ready:
                self._reap()
            if own.control.fileno() in ready and self._handle_order():
                return

    def _handle_order(self) -> bool:
        """Handles one order; True when it is to end."""
        try:
            data, ancillary, _, sender = self._own.control.recvmsg(
                _ORDER_BYTES_MAX, socket.CMSG_SPACE(CREDENTIALS.size)
            )
        except BlockingIOError:
            return False
        data = without_token(data, self._own.token)
        if not data or not is_from_noded(ancillary):
            return False
        if (move := orders.decode_move(data)) is not None:
            self._move(*move)
            return False
        key, signals, _, note = orders.decode_signals(data)
        if key != self._order.key:
            return False
        if not signals:  # a restarted noded asks for the state
            with contextlib.suppress(OSError):
                self._own.control.sendto(orders.began(key, self._start_at_us, self._own.pid), sender)
        if signal.SIGSTOP in signals:
            self._groups.freeze(True)
        elif signal.SIGTERM not in signals and signal.SIGCONT in signals:
            self._groups.freeze(False)
        if not {signal.SIGTERM, signal.SIGKILL}.intersection(signals):
            return False
        self._ending = ending_environment(note)
        return True

    def _move(self, key: str, cpus: list[int], job_cpus: list[int]) -> None:
        """Moves what was adopted into the step to other CPUs. What cannot be moved stays where it is."""
        from nodedaemon.stepd import moving  # loaded only where needed

        if key == self._order.key:
            with contextlib.suppress(OSError):  # there is no file of the job's to say it in
                moving.move(self._order, self._groups, cpus, job_cpus)

    def _reap(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._own.wake_read, 4096)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass

    def _clear(self) -> None:
        """Kills all of the job's processes that are left here, of any step."""
        end_s = time.monotonic() + CLEAR_S
        self._groups.freeze(False)  # frozen processes do not die
        while not self._context.cgroups.kill_job(self._order.key.rpartition(".")[0]):
            if time.monotonic() > end_s:
                self._fail(STAGE_KILL, "processes of the job are left that SIGKILL does not end")
                break
        self._reap()


def ending_environment(note: str) -> dict[str, str]:
    """The variables about the job's end in an order to end."""
    pairs = (word.partition("=") for word in note.split())
    return {name: value for name, equals, value in pairs if equals and name in ENDING_NAMES}
