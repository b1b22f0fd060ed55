"""A running step controlled by its srun: streams, input and output, signals, and its end. The step is over when every
node's stream has sent END, or when the controller reports its end and the streams had time to deliver the rest. srun
ends when the step has ended, whatever failed.

    Ctrl-C once     prints the states of the tasks; a second one within a second interrupts them and cancels the step; a
                    third kills it. With --disable-status the first interrupts the tasks, a second one kills the step.
    SIGTERM, SIGHUP end the step.
    SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM go to the tasks; so do SIGTSTP and SIGCONT, which also stop and continue srun.
    --pty           all keys go to the task. Output is acknowledged only when it is written: a reader that does not read
    eventually blocks the tasks, and all buffers are bounded.
"""

import signal
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from cli.steps.console import Console, Sink
from cli.steps.delivery import Delivery
from cli.steps.ending import EndingRules, StepEnding
from cli.steps.outcome import StepOutcome, ranks_text
from cli.steps.signals import SignalCatcher
from cli.steps.stdin import StdinPump
from cli.steps.streamclient import State, StepStream, StreamEndpoint, Ticket, number
from cli.steps.streamclient import values as packed
from cli.steps.trust import Trust
from cli.steps.watcher import Watcher, Watchers
from penstock.clusterfile import ClusterFile
from penstock.eventloop import WRITE, Loop, LoopTimer
from penstock.v1.steps_pb2 import AwaitStepReply, CreateStepReply
from penstock.values.exchange import BadExchange, Hub
from penstock.values.packing import pack_values
from penstock.values.states import ENDED
from penstock.values.stepframes import NO_TASK, FrameKind, StreamRole, frame

if TYPE_CHECKING:
    from cli.steps.terminal import Terminal

#: For a step that runs longer than this the controller is polled, too.
WATCH_AFTER_S = 1.0
#: Failures within this time are reported in one line.
GATHER_S = 0.05
#: After the controller has reported the end: the longest time without data before streams are abandoned.
DRAIN_S = 5.0
FORWARDED = (signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGTSTP, signal.SIGCONT)


class Session:
    """One step from its creation to its end."""

    def __init__(
        self,
        cluster: ClusterFile,
        created: CreateStepReply,
        console: Console,
        rules: EndingRules,
        *,
        name: str = "srun",
        role: StreamRole = StreamRole.OWNER,
        others: Sequence[CreateStepReply] = (),
    ) -> None:
        """`others`: the step's parts in other components of a heterogeneous job; their tasks are numbered
        consecutively."""
        self.loop = Loop()
        self.console = console
        self.created = created
        self._rules = rules
        self._name = name
        self._title = f"StepId={created.job_id}.{created.step_id}"
        self._parts = (created, *others)
        self.outcome = StepOutcome(
            self.say,
            tasks=sum(part.plan.ntasks for part in self._parts),
            title=self._title if rules.verbose else "",
            reports_once=rules.reports_once,
        )
        self._ranks: list[tuple[int, ...]] = []
        self._nodes: list[str] = []
        self.streams: list[StepStream] = []
        self._part_of: dict[StepStream, int] = {}
        self._first_rank: list[int] = []  # of each part
        trust = Trust(cluster)
        for part in self._parts:
            self._add(part, trust, role)
        self._hub: Hub | None = None  # created when a node sends something
        self._touched: dict[StepStream, None] = {}
        self._settled: dict[StepStream, None] = {}  # streams that send nothing more
        self._blocked: list[Sink] = []
        self._pumps: list[StdinPump] = []  # one, or one for each part with its own --input
        self._terminal: Terminal | None = None
        self._watcher = Watchers([self._watch(cluster, number) for number in range(len(self._parts))])
        self._report_timer: LoopTimer | None = None
        self._finals: dict[int, AwaitStepReply] = {}  # by part: its end
        self._drained = (-1, 0.0)
        self._pids: dict[int, list[int]] = {}  # by the number of the node
        self.ending = StepEnding(self.loop, self._watcher, rules, self.say, self._signal, self._when_handled)
        self._delivery: Delivery | None = None
        self._first_exit: float | None = None
        self._is_untrusted = False

    def _add(self, part: CreateStepReply, trust: Trust, role: StreamRole) -> None:
        first = sum(other.plan.ntasks for other in self._parts[: len(self._first_rank)])
        ticket = Ticket(part.job_id, part.attempt, part.step_id, part.io_key, role)
        index_of = {node: len(self._nodes) + index for index, node in enumerate(part.plan.nodes)}
        for at in part.streams:
            place = StreamEndpoint(at.node, at.host, at.port, at.tls, index_of.get(at.node, len(self._nodes)))
            stream = StepStream(self.loop, place, ticket, trust, self)
            self.streams.append(stream)
            self._part_of[stream] = len(self._first_rank)
        self._nodes += part.plan.nodes
        self._ranks += [tuple(first + rank for rank in ranks.rank) for ranks in part.plan.ranks]
        self._first_rank.append(first)

    def _watch(self, cluster: ClusterFile, number: int) -> Watcher:
        part = self._parts[number]
        ids = (part.job_id, part.step_id, part.attempt)
        return Watcher(self.loop, cluster, ids, lambda reply: self._on_controller_reply(number, reply))

    @property
    def _is_over(self) -> bool:
        """Whether the controller has reported the end of every part."""
        return len(self._finals) == len(self._parts)

    # ---- set up ----------------------------------------------------------------------------------------------------

    def feed(self, fd: int, task: int = NO_TASK, parts: Sequence[int] = ()) -> None:
        """Sends a descriptor's data as standard input: to all tasks of these parts (none: of all), or to one task."""
        targets = [s for s in self.streams if not parts or self._part_of[s] in parts]
        if task != NO_TASK:
            targets = [s for s in targets if task in self._ranks[s.place.node_index]]
            task -= self._first_rank[self._part_of[targets[0]]] if targets else 0
        if targets:
            self._pumps.append(StdinPump(self.loop, fd, targets, task))

    def use_terminal(self, terminal: "Terminal") -> None:
        """--pty: sends the keys of a terminal to the task, and the size of its window."""
        self._terminal = terminal

    # ---- the run ---------------------------------------------------------------------------------------------------

    def run(self) -> int:
        """Runs until the step has ended; returns its exit status."""
        catcher = SignalCatcher(self.loop, self._on_signal)
        try:
            if self._terminal is not None:
                self._terminal.make_raw()
            for stream in self.streams:
                if stream.place.port:
                    stream.open()
            if not all(stream.place.port for stream in self.streams) or not self.streams:
                self._watcher.start()
            self.loop.after(WATCH_AFTER_S, self._watcher.start)
            while len(self._settled) < len(self.streams) or (not self.streams and not self._is_over):
                self.loop.turn()
                self._settle()
            self._finish()
        finally:
            if self._terminal is not None:
                self._terminal.restore()
            self._watcher.stop()
            catcher.close()
            self.console.close()
        return self.outcome.code

    def _settle(self) -> None:
        """After each round: writes, acknowledges what is written, or pauses the nodes."""
        blocked = self.console.flush()
        if blocked != self._blocked:
            self._pause_input(blocked)
        for sink in self.console.newly_dead():
            if sink.error:
                self.say(f"error: write to {sink.name or 'standard output'}: {sink.error}")
                self.outcome.step_ended(1, 0)
            else:
                self._signal(signal.SIGPIPE)
        if not blocked and self._touched:
            touched = self._touched
            self._touched = {}
            for stream in touched:
                stream.acknowledge()

    def _pause_input(self, blocked: list[Sink]) -> None:
        for sink in self._blocked:
            self.loop.forget(sink.fd)
        for sink in blocked:
            self.loop.watch(sink.fd, _wake, WRITE)
        if bool(blocked) != bool(self._blocked):
            for stream in self.streams:
                stream.pause(bool(blocked))
        self._blocked = blocked

    def _finish(self) -> None:
        if self.outcome.lost or not self.outcome.all_ended:
            for final in self._finals.values():
                self.outcome.step_ended(final.exit.code, final.exit.signal)
        if self._is_untrusted:
            self.outcome.step_ended(1, 0)
        self.console.all_ended()
        self.outcome.report()
        for pump in self._pumps:
            pump.close()
        while blocked := self.console.flush():
            self._pause_input(blocked)
            self.loop.turn()

    # ---- words -----------------------------------------------------------------------------------------------------

    def say(self, text: str) -> None:
        """Prints a message of srun to stderr."""
        end = "\r" if self._terminal is not None and self._terminal.is_raw else ""
        self.console.say(f"{self._name}: {text}{end}")

    def verbose(self, text: str, least: int = 1) -> None:
        """Prints a message if -v was given."""
        if self._rules.verbose >= least:
            self.say(text)

    def _state(self) -> None:
        for line in self.outcome.state_lines(self._title):
            self.say(line)

    # ---- from the streams ------------------------------------------------------------------------------------------

    def on_welcome(self, stream: StepStream) -> None:
        """Handles a connection that is established."""
        if self._hub is not None:
            for part in self._hub.last:  # the answer may have been lost; duplicates are dropped
                stream.send(frame(FrameKind.EXCHANGE, part))
        for pump in self._pumps:
            pump.welcomed(stream)

    def on_frame(self, stream: StepStream, kind: int, channel: int, task: int, payload: bytes) -> None:
        """Handles a frame of a node."""
        self._touched[stream] = None
        if task != NO_TASK:
            task += self._first_rank[self._part_of[stream]]
        if kind == FrameKind.DATA:
            self.console.data(task, channel, payload)
        elif kind in _ON:
            _ON[FrameKind(kind)](self, stream, task, payload)

    def on_broken(self, stream: StepStream, reason: str) -> None:
        """Handles a connection that is lost or cannot be made: the controller has the state of the step."""
        self.verbose(f"{stream.place.node}: stream: {reason}", 2)
        if stream.failures > 2 or stream.welcomed:
            self._watcher.start()

    def on_untrusted_peer(self, stream: StepStream, reason: str) -> None:
        """Handles a peer that is not the node: nothing is sent there, and the step is ended."""
        self.say(f"error: {stream.place.node}: not believed to be this node: {reason}")
        self._is_untrusted = True
        self._gone(stream)
        self.terminate()

    def _started(self, stream: StepStream, task: int, payload: bytes) -> None:
        count = len(self._ranks[stream.place.node_index])
        self.verbose(f"Node {stream.place.node}, {count} tasks started")
        if self._rules.shows_tasks and stream.place.node_index not in self._pids:
            self._pids[stream.place.node_index] = [number(pid) for pid in packed(payload, 0)]
            if len(self._pids) == len(self.streams):
                self._show_tasks()

    def _show_tasks(self) -> None:
        tasks = [
            (rank, self._nodes[index], pid)
            for index, pids in self._pids.items()
            for rank, pid in zip(self._ranks[index], pids, strict=False)
        ]
        for rank, node, pid in sorted(tasks):
            self.say(f"task:{rank}, host:{node}, pid:{pid}")

    def _exited(self, stream: StepStream, task: int, payload: bytes) -> None:
        self.outcome.exited(stream.place.node, task, number(payload))
        if self._rules.kill_on_bad_exit and self.outcome.any_failed and not self.outcome.all_ended:
            self._give_up()
        if self.outcome.has_pending and self._report_timer is None:
            self._report_timer = self.loop.after(GATHER_S, self._report_exits)
        if self._first_exit is None:
            self._first_exit = time.monotonic()
            if self._rules.wait_s and not self.outcome.all_ended:
                self.loop.after(self._rules.wait_s, self._waited)

    def _report_exits(self) -> None:
        self._report_timer = None
        self.outcome.report()

    def _give_up(self) -> None:
        """--kill-on-bad-exit: ends the step when a task has failed and others run."""
        if not self.ending.has_begun:
            self.outcome.report()
            self.say(f"Terminating {self._title}")
            self.terminate()

    def _waited(self) -> None:
        if self.outcome.all_ended or self.ending.has_begun or self._first_exit is None:
            return
        self.say(f"error: First task exited {round(time.monotonic() - self._first_exit)}s ago")
        self._state()
        self.say(f"Terminating {self._title}")
        self.terminate()

    def _note(self, stream: StepStream, task: int, payload: bytes) -> None:
        if payload.find(b"CANCELLED AT") >= 0:
            self._report_abort()
            if self._rules.killed_note_node not in (None, stream.place.node_index):
                return
        raw = self._terminal is not None and self._terminal.is_raw
        if payload.startswith(b"***"):
            payload = b"slurmstepd: error: " + payload
        self.console.note(payload.replace(b"\n", b"\r\n") + b"\r\n" if raw else payload)

    def _lost(self, stream: StepStream, task: int, payload: bytes) -> None:
        self.say(f"error: {stream.place.node}: {number(payload)} bytes of output were lost without a client")

    def _taken(self, stream: StepStream, task: int, payload: bytes) -> None:
        for pump in self._pumps:
            pump.taken(stream, number(payload))

    def _gather(self, stream: StepStream, task: int, payload: bytes) -> None:
        if self._hub is None:
            self._hub = Hub(len(self.streams))
        try:
            for part in self._hub.receive(stream.place.node_index, payload):
                self._to_all(frame(FrameKind.EXCHANGE, part))
        except BadExchange as error:
            self.say(f"error: {stream.place.node}: exchange between nodes: {error}")
            self.terminate()
        if self._hub.aborted is not None and not self.ending.has_begun:
            node, code, text = self._hub.aborted
            self.say(f"error: {self._nodes[node]}: abort requested with code {code}: {text}".rstrip(": "))
            self.outcome.step_ended(code & 0xFF or 1, 0)
            self.say(f"Terminating {self._title}")
            self.terminate()

    def _failed(self, stream: StepStream, task: int, payload: bytes) -> None:
        self.say(f"error: {stream.place.node}: {_task_words(task)}{payload.decode('utf-8', 'replace')}")

    def _end(self, stream: StepStream, task: int, payload: bytes) -> None:
        ranks = self._ranks[stream.place.node_index]
        for rank in ranks:
            self.console.ended(rank)
        if payload:
            self.outcome.node_failed(stream.place.node, ranks, payload.decode("utf-8", "replace"))
        self._settle_end(stream)

    def _settle_end(self, stream: StepStream) -> None:
        self._settled[stream] = None
        self._handled(stream)
        for pump in self._pumps:
            pump.gone(stream)

    # ---- from the controller ---------------------------------------------------------------------------------------

    def _on_controller_reply(self, number_: int, reply: AwaitStepReply) -> None:
        if reply.note and not self.ending.has_begun:
            self._report_abort()
        if reply.state in ENDED:
            self._finals[number_] = reply
            if self._is_over:
                self._drain()

    def _drain(self) -> None:
        """After the step's end: reads the streams as long as data arrive."""
        counted = sum(stream.counted for stream in self.streams)
        now = time.monotonic()
        if counted != self._drained[0]:
            self._drained = (counted, now)
        elif now - self._drained[1] >= DRAIN_S and not self._blocked:
            for stream in self.streams:
                self._gone(stream)
            return
        self.loop.after(DRAIN_S / 5, self._drain)

    def _gone(self, stream: StepStream) -> None:
        """This node's stream sends nothing more."""
        if stream in self._settled:
            return
        stream.close()
        final = self._finals.get(self._part_of[stream])
        if final is not None:
            self._take_end(stream, final)
        self._settle_end(stream)

    def _take_end(self, stream: StepStream, final: AwaitStepReply) -> None:
        """Records the ends of a node's tasks as the controller has them."""
        ranks = self._ranks[stream.place.node_index]
        for node in final.nodes:
            if node.node != stream.place.node:
                continue
            if node.failure:
                self.outcome.node_failed(node.node, ranks, node.failure)
            else:
                status = node.exit.signal or node.exit.code << 8
                for rank in ranks:
                    self.outcome.exited(node.node, rank, status)
            return
        self.outcome.node_failed(stream.place.node, ranks, final.note.capitalize())

    # ---- ending it -------------------------------------------------------------------------------------------------

    def _to_all(self, data: bytes) -> None:
        for stream in self.streams:
            stream.send(data)

    def _signal(self, number_: int) -> None:
        self._to_all(frame(FrameKind.SIGNAL, b"%d" % number_))

    def _when_handled(self, action: Callable[[], None]) -> None:
        """Calls `action` when the nodes have handled what was sent to them."""
        self._delivery = Delivery(self.loop, self.streams, action)

    def _handled(self, stream: StepStream, task: int = NO_TASK, payload: bytes = b"") -> None:
        if self._delivery is not None:
            self._delivery.handled(stream)

    def terminate(self) -> None:
        """Ends the step: its tasks get SIGTERM now, and SIGKILL after KillWait."""
        connected = all(stream.state in (State.OPEN, State.ENDED) for stream in self.streams)
        self.ending.terminate(streams_connected=connected)

    def _report_abort(self) -> None:
        self.ending.report_abort()

    # ---- signals ---------------------------------------------------------------------------------------------------

    def _on_signal(self, caught: int) -> None:
        if caught == signal.SIGINT and self._terminal is not None and self._terminal.is_raw:
            self._signal(caught)  # it was sent by a process, not typed
        elif caught == signal.SIGINT:
            self.ending.interrupted(self._title, self._state)
        elif caught in (signal.SIGTERM, signal.SIGHUP):
            self.ending.quit()
        elif caught == signal.SIGWINCH:
            if self._terminal is not None:
                self._to_all(frame(FrameKind.WINDOW, pack_values(*self._terminal.size())))
        elif caught in FORWARDED:
            self._signal(caught)


def _task_words(task: int) -> str:
    return "" if task == NO_TASK else f"{ranks_text([task])}: "


def _wake(events: int) -> None:
    """The sink is writable: the next round writes."""


_ON: dict[FrameKind, Callable[[Session, StepStream, int, bytes], None]] = {
    FrameKind.STARTED: Session._started,
    FrameKind.EXITED: Session._exited,
    FrameKind.NOTE: Session._note,
    FrameKind.LOST: Session._lost,
    FrameKind.STDIN_TAKEN: Session._taken,
    FrameKind.GATHER: Session._gather,
    FrameKind.FAILED: Session._failed,
    FrameKind.END: Session._end,
    FrameKind.ANSWER: Session._handled,
}
