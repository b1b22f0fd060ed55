"""A job's holder on a node: its extern step (-4). It surrounds what the job does there.

    claim -> private folders -> Prolog -> "began" -> holds -> told to end -> kill what is left -> Epilog -> record

Rules
    - "began" is said when the prolog has ended well; the controller launches the job's steps after that.
    - Told to end during the prolog: the prolog ends first (or meets its deadline), then the epilog runs. So an epilog
      always finds what its prolog has finished, and it runs after a failed prolog, too.
    - All of the job that is left on the node is killed before the epilog, which so finds none of its processes.
    - SIGKILL is an order to end as SIGTERM is: nothing cuts an epilog short but its own deadline.
    - The exit code of the record says at which stage something failed: 0 nowhere, else a key of STAGES; a signal says
      that a program was killed at its deadline.
    - What a prolog leaves running, outside the job's groups (without RunInJob), is the site's and is left alone.

Deliberately absent: tasks, streams, what a failure means for job and node (the controller's core).
"""

import contextlib
import fcntl
import os
import select
import signal
import socket
import time

from nodedaemon import namespace, orders, scripts
from nodedaemon.control import CREDENTIALS, is_own_word, without_token
from nodedaemon.crash import crash_point
from nodedaemon.steprecord import STEPD, Claim, End, now_us, place_claim, place_end

TYPE_CHECKING = False  # `typing` itself would be one more thing in every fork
if TYPE_CHECKING:
    from collections.abc import Iterator

    from nodedaemon.stepd import Own

STAGE_PROLOG, STAGE_EPILOG, STAGE_KILL = 1, 2, 3
#: Names of the stages, as the controller hears them.
STAGES = {STAGE_PROLOG: "prolog", STAGE_EPILOG: "epilog", STAGE_KILL: "kill"}
#: What SIGKILL has not ended after this long stays, and the node is looked at.
CLEAR_S = 60.0
SERIAL_LOCK = "serial.lock"
_ORDER_BYTES_MAX = 4096
_NO_USAGE = (0, 0, 0, 0, 0)
#: What an order to end may add to the epilog's environment, as NAME=VALUE words of its note.
ENDING_NAMES = ("SLURM_JOB_EXIT_CODE", "SLURM_JOB_EXIT_CODE2", "SLURM_JOB_DERIVED_EC")


class Holder:
    """One job on this node."""

    def __init__(self, own: "Own", order: orders.LaunchOrder, folder_fd: int) -> None:
        self._own = own
        self._context = own.context
        self._order = order
        self._folder_fd = folder_fd
        self._groups = own.context.cgroups.of(order)
        self._outside = -1  # the node's own mount namespace, when we have left it
        self._private = ""  # the job's private folders on disk
        self._stage = 0
        self._signal = 0
        self._failure = ""
        self._ending: dict[str, str] = {}
        self._start_at_us = 0

    def run(self) -> None:
        """From the claim to the record; nothing when the claim is another's."""
        own, order = self._own, self._order
        claim = Claim(STEPD, own.pid, own.pid_start, order.user_id, now_us(), own.address)
        record_fd = place_claim(self._folder_fd, claim)
        if record_fd < 0:
            return
        crash_point("stepd.claimed")
        if self._open() and self._script("prolog", order.prolog, STAGE_PROLOG):
            self._began()
            self._hold()
        self._clear()
        self._script("epilog", order.epilog, STAGE_EPILOG)
        self._close()
        crash_point("stepd.ended")
        end = End(
            self._start_at_us,
            max(now_us(), self._start_at_us),
            self._stage,
            self._signal,
            self._failure,
            False,
            _NO_USAGE,
        )
        place_end(record_fd, end)
        crash_point("stepd.recorded")

    # -- before and after

    def _open(self) -> bool:
        """The job's groups and private folders; False when there is no place for the job here."""
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
                self._say(f"cannot remove {self._private}: {error.strerror or error}")

    def _fail(self, stage: int, text: str, signum: int = 0) -> None:
        """The first failure is the one that counts."""
        if not self._stage:
            self._stage, self._failure, self._signal = stage, text, signum

    # -- the site's programs

    def _script(self, what: str, patterns: list[str], stage: int) -> bool:
        """Run prolog or epilog; False when it failed."""
        if not patterns:
            return True
        env = {**self._order.script_environment, "SLURM_SCRIPT_CONTEXT": f"{what}_slurmd", **self._ending}
        with self._turn():
            outcome = scripts.run_all(patterns, env, self._order.script_timeout_s, self._place)
        if outcome.output:
            self._say(f"{what} said: {outcome.output.decode('utf-8', 'replace').rstrip()}")
        if outcome.failure:
            self._say(f"{what} failed: {outcome.failure}")
            self._fail(stage, outcome.failure, signal.SIGKILL if outcome.timed_out else 0)
        return not outcome.failure

    def _place(self) -> None:
        """Where a program runs: with RunInJob where the job's processes are, else on the node."""
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

    def _say(self, text: str) -> None:
        with contextlib.suppress(OSError):  # noded is away: it is only for its log
            self._context.packets.send(orders.said(self._order.key, text), socket.MSG_DONTWAIT)

    # -- holding

    def _began(self) -> None:
        self._start_at_us = now_us()
        packet = orders.began(self._order.key, self._start_at_us, self._own.pid)
        with contextlib.suppress(OSError):  # noded is away or far behind: it will ask for the record
            self._context.packets.send(packet, socket.MSG_DONTWAIT)
        crash_point("stepd.began")

    def _hold(self) -> None:
        """Until told to end. What the prolog left is reaped."""
        own = self._own
        poll = select.poll()
        poll.register(own.wake_read, select.POLLIN)
        poll.register(own.control.fileno(), select.POLLIN)
        while True:
            ready = dict(poll.poll())
            if own.wake_read in ready:
                self._reap()
            if own.control.fileno() in ready and self._obey():
                return

    def _obey(self) -> bool:
        """One order; True when it says to end."""
        try:
            data, ancillary, _, asker = self._own.control.recvmsg(_ORDER_BYTES_MAX, socket.CMSG_SPACE(CREDENTIALS.size))
        except BlockingIOError:
            return False
        data = without_token(data, self._own.token)
        if not data or not is_own_word(ancillary):
            return False
        key, signals, _, note = orders.decode_signals(data)
        if key != self._order.key:
            return False
        if not signals:  # a noded that has come since asks how we are
            with contextlib.suppress(OSError):
                self._own.control.sendto(orders.began(key, self._start_at_us, self._own.pid), asker)
        if signal.SIGSTOP in signals:
            self._groups.freeze(True)
        elif signal.SIGTERM not in signals and signal.SIGCONT in signals:
            self._groups.freeze(False)
        if not {signal.SIGTERM, signal.SIGKILL}.intersection(signals):
            return False
        self._ending = ending_environment(note)
        return True

    def _reap(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._own.wake_read, 4096)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass

    def _clear(self) -> None:
        """Kill all of the job that is left here, whichever step it was of."""
        end_s = time.monotonic() + CLEAR_S
        self._groups.freeze(False)  # frozen processes do not die
        while not self._context.cgroups.kill_job(self._order.key.rpartition(".")[0]):
            if time.monotonic() > end_s:
                self._fail(STAGE_KILL, "processes of the job are left that SIGKILL does not end")
                break
        self._reap()


def ending_environment(note: str) -> dict[str, str]:
    """What an order to end says of the job's end."""
    pairs = (word.partition("=") for word in note.split())
    return {name: value for name, equals, value in pairs if equals and name in ENDING_NAMES}
