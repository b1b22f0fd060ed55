"""A running step as its owner sees it: streams, input and output, signals, and how it ends.

The step is over when every node's stream has said END, or when the controller says that it has ended and what the
streams may still bring has had its time. srun ends when the step has ended, whatever broke.

    Ctrl-C once     says what the tasks do; a second one within a second interrupts them and cancels the step; a third
                    kills it.
    SIGTERM, SIGHUP end the step. SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM go to the tasks; so do SIGTSTP and SIGCONT, which
                    also stop and continue srun.
    --pty           all keys go to the task.

What is handled is acknowledged only when it is written: a reader who does not read stops the tasks in the end, and
nothing is kept without bound.
"""

import signal
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from cli.steps.console import Console, Sink
from cli.steps.ending import Ending, Rules
from cli.steps.loop import Loop, Timer
from cli.steps.outcome import Outcome, ranks_text
from cli.steps.signals import SignalDesk, stop_ourselves
from cli.steps.stdin import StdinPump
from cli.steps.streamclient import Place, State, Stream, Ticket, number
from cli.steps.trust import Trust
from cli.steps.watcher import Watcher, Watchers
from penstock.cluster import ClusterFile
from penstock.v1.steps_pb2 import AwaitStepReply, CreateStepReply
from penstock.values.exchange import BadExchange, Hub
from penstock.values.packing import pack_values
from penstock.values.states import ENDED
from penstock.values.stepframes import NO_TASK, Kind, Role, frame

if TYPE_CHECKING:
    from cli.steps.terminal import Terminal

#: A step that runs longer than this is watched through the controller, too.
WATCH_AFTER_S = 1.0
#: Failures that belong together are told in one line.
GATHER_S = 0.05
#: When the controller says that the step has ended: how long streams may bring nothing before they are given up.
DRAIN_S = 5.0
FORWARDED = (signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM)


class Session:
    """One step from its creation to its end."""

    def __init__(
        self,
        cluster: ClusterFile,
        created: CreateStepReply,
        console: Console,
        rules: Rules,
        *,
        name: str = "srun",
        role: Role = Role.OWNER,
        others: Sequence[CreateStepReply] = (),
    ) -> None:
        """`others`: the step's parts in other components of a heterogeneous job; their tasks are counted on."""
        self.loop = Loop()
        self.console = console
        self.created = created
        self._rules = rules
        self._name = name
        self._title = f"StepId={created.job_id}.{created.step_id}"
        self._parts = (created, *others)
        self.outcome = Outcome(self.say, tasks=sum(part.plan.ntasks for part in self._parts))
        self._ranks: list[tuple[int, ...]] = []
        self._nodes: list[str] = []
        self.streams: list[Stream] = []
        self._part_of: dict[Stream, int] = {}
        self._first_rank: list[int] = []  # of each part
        trust = Trust(cluster)
        for part in self._parts:
            self._add(part, trust, role)
        self._hub: Hub | None = None  # made when a node brings something
        self._touched: dict[Stream, None] = {}
        self._settled: dict[Stream, None] = {}  # of which nothing more will come
        self._blocked: list[Sink] = []
        self._pump: StdinPump | None = None
        self._terminal: Terminal | None = None
        self._watcher = Watchers([self._watch(cluster, number) for number in range(len(self._parts))])
        self._telling: Timer | None = None
        self._finals: dict[int, AwaitStepReply] = {}  # by part: what became of it
        self._drained = (-1, 0.0)
        self.ending = Ending(self.loop, self._watcher, rules, self.say, self._signal)
        self._first_exit: float | None = None
        self._distrusted = False

    def _add(self, part: CreateStepReply, trust: Trust, role: Role) -> None:
        first = sum(other.plan.ntasks for other in self._parts[: len(self._first_rank)])
        ticket = Ticket(part.job_id, part.attempt, part.step_id, part.io_key, role)
        index_of = {node: len(self._nodes) + index for index, node in enumerate(part.plan.nodes)}
        for at in part.streams:
            place = Place(at.node, at.host, at.port, at.tls, index_of.get(at.node, len(self._nodes)))
            stream = Stream(self.loop, place, ticket, trust, self)
            self.streams.append(stream)
            self._part_of[stream] = len(self._first_rank)
        self._nodes += part.plan.nodes
        self._ranks += [tuple(first + rank for rank in ranks.rank) for ranks in part.plan.ranks]
        self._first_rank.append(first)

    def _watch(self, cluster: ClusterFile, number: int) -> Watcher:
        part = self._parts[number]
        ids = (part.job_id, part.step_id, part.attempt)
        return Watcher(self.loop, cluster, ids, lambda reply: self._controller_says(number, reply))

    @property
    def _is_over(self) -> bool:
        """True when the controller has told the end of every part."""
        return len(self._finals) == len(self._parts)

    # ---- set up ----------------------------------------------------------------------------------------------------

    def feed(self, fd: int, task: int = NO_TASK) -> None:
        """Send a descriptor's data as standard input: to all tasks, or to one."""
        targets = self.streams
        if task != NO_TASK:
            targets = [s for s in self.streams if task in self._ranks[s.place.node_index]]
            task -= self._first_rank[self._part_of[targets[0]]] if targets else 0
        if targets:
            self._pump = StdinPump(self.loop, fd, targets, task)

    def use_terminal(self, terminal: "Terminal") -> None:
        """--pty: the keys of a terminal are the task's, and so is the size of its window."""
        self._terminal = terminal

    # ---- the run ---------------------------------------------------------------------------------------------------

    def run(self) -> int:
        """Until the step has ended; its exit status."""
        desk = SignalDesk(self.loop, self._on_signal)
        try:
            if self._terminal is not None:
                self._terminal.make_raw()
            for stream in self.streams:
                if stream.place.port:
                    stream.open()
            if not all(stream.place.port for stream in self.streams) or not self.streams:
                self._watcher.start()
            self.loop.at(WATCH_AFTER_S, self._watcher.start)
            while len(self._settled) < len(self.streams) or (not self.streams and not self._is_over):
                self.loop.once()
                self._settle()
            self._finish()
        finally:
            if self._terminal is not None:
                self._terminal.restore()
            self._watcher.stop()
            desk.close()
        return self.outcome.code

    def _settle(self) -> None:
        """After each round: write, acknowledge what is written, or hold the nodes back."""
        blocked = self.console.flush()
        if blocked != self._blocked:
            self._hold(blocked)
        for sink in self.console.newly_dead():
            if sink.error:
                self.say(f"error: write to {sink.name or 'standard output'}: {sink.error}")
                self.outcome.step_ended(1, 0)
            else:
                self._signal(signal.SIGPIPE)
        if not blocked and self._touched:
            touched, self._touched = self._touched, {}
            for stream in touched:
                stream.acknowledge()

    def _hold(self, blocked: list[Sink]) -> None:
        for sink in self._blocked:
            self.loop.forget(sink.fd)
        for sink in blocked:
            self.loop.watch(sink.fd, write=_wake)
        if bool(blocked) != bool(self._blocked):
            for stream in self.streams:
                stream.pause(bool(blocked))
        self._blocked = blocked

    def _finish(self) -> None:
        if self.outcome.lost or not self.outcome.all_ended:
            for final in self._finals.values():
                self.outcome.step_ended(final.exit.code, final.exit.signal)
        if self._distrusted:
            self.outcome.step_ended(1, 0)
        self.console.all_ended()
        self.outcome.tell()
        if self._pump is not None:
            self._pump.close()
        while blocked := self.console.flush():
            self._hold(blocked)
            self.loop.once()

    # ---- words -----------------------------------------------------------------------------------------------------

    def say(self, text: str) -> None:
        """A line of ours on the error output."""
        end = "\r" if self._terminal is not None and self._terminal.is_raw else ""
        self.console.say(f"{self._name}: {text}{end}")

    def tell(self, text: str, least: int = 1) -> None:
        """The same for those who asked for it by -v."""
        if self._rules.verbose >= least:
            self.say(text)

    def _state(self) -> None:
        for line in self.outcome.state_lines(self._title):
            self.say(line)

    # ---- from the streams ------------------------------------------------------------------------------------------

    def on_welcome(self, stream: Stream) -> None:
        """A connection stands."""
        if self._hub is not None:
            for part in self._hub.last:  # it may have missed the answer; what comes twice is taken once
                stream.send(frame(Kind.EXCHANGE, part))
        if self._pump is not None:
            self._pump.welcomed(stream)

    def on_frame(self, stream: Stream, kind: int, channel: int, task: int, payload: bytes) -> None:
        """What a node says."""
        self._touched[stream] = None
        if task != NO_TASK:
            task += self._first_rank[self._part_of[stream]]
        if kind == Kind.DATA:
            self.console.data(task, channel, payload)
        elif kind in _ON:
            _ON[Kind(kind)](self, stream, task, payload)

    def on_broken(self, stream: Stream, reason: str) -> None:
        """A connection is gone, or was not to be had: the controller knows what became of the step."""
        self.tell(f"{stream.place.node}: stream: {reason}", 2)
        if stream.failures > 2 or stream.welcomed:
            self._watcher.start()

    def on_distrust(self, stream: Stream, reason: str) -> None:
        """Somebody else answered in the node's place: nothing is sent there, and the step is not left alone."""
        self.say(f"error: {stream.place.node}: not believed to be this node: {reason}")
        self._distrusted = True
        self._gone(stream)
        self.terminate()

    def _started(self, stream: Stream, task: int, payload: bytes) -> None:
        count = len(self._ranks[stream.place.node_index])
        self.tell(f"Node {stream.place.node}, {count} tasks started")

    def _exited(self, stream: Stream, task: int, payload: bytes) -> None:
        self.outcome.exited(stream.place.node, task, number(payload))
        if self._rules.kill_on_bad_exit and self.outcome.any_failed and not self.outcome.all_ended:
            self._give_up()
        if self.outcome.untold and self._telling is None:
            self._telling = self.loop.at(GATHER_S, self._tell_exits)
        if self._first_exit is None:
            self._first_exit = time.monotonic()
            if self._rules.wait_s and not self.outcome.all_ended:
                self.loop.at(self._rules.wait_s, self._waited)

    def _tell_exits(self) -> None:
        self._telling = None
        self.outcome.tell()

    def _give_up(self) -> None:
        """--kill-on-bad-exit: some task has failed, and others run."""
        if not self.ending.has_begun:
            self.outcome.tell()
            self.say(f"Terminating {self._title}")
            self.terminate()

    def _waited(self) -> None:
        if self.outcome.all_ended or self.ending.has_begun or self._first_exit is None:
            return
        self.say(f"error: First task exited {round(time.monotonic() - self._first_exit)}s ago")
        self._state()
        self.say(f"Terminating {self._title}")
        self.terminate()

    def _note(self, stream: Stream, task: int, payload: bytes) -> None:
        if payload.find(b"CANCELLED AT") >= 0:
            self._say_abort()
        raw = self._terminal is not None and self._terminal.is_raw
        if payload.startswith(b"***"):
            payload = b"slurmstepd: error: " + payload
        self.console.note(payload.replace(b"\n", b"\r\n") + b"\r\n" if raw else payload)

    def _lost(self, stream: Stream, task: int, payload: bytes) -> None:
        self.say(f"error: {stream.place.node}: {number(payload)} bytes of output were lost while nobody took them")

    def _taken(self, stream: Stream, task: int, payload: bytes) -> None:
        if self._pump is not None:
            self._pump.taken(stream, number(payload))

    def _gather(self, stream: Stream, task: int, payload: bytes) -> None:
        if self._hub is None:
            self._hub = Hub(len(self.streams))
        try:
            for part in self._hub.heard(stream.place.node_index, payload):
                self._to_all(frame(Kind.EXCHANGE, part))
        except BadExchange as error:
            self.say(f"error: {stream.place.node}: exchange between nodes: {error}")
            self.terminate()
        if self._hub.aborted is not None and not self.ending.has_begun:
            node, code, text = self._hub.aborted
            self.say(f"error: {self._nodes[node]}: abort requested with code {code}: {text}".rstrip(": "))
            self.outcome.step_ended(code & 0xFF or 1, 0)
            self.say(f"Terminating {self._title}")
            self.terminate()

    def _failed(self, stream: Stream, task: int, payload: bytes) -> None:
        self.say(f"error: {stream.place.node}: {_task_words(task)}{payload.decode('utf-8', 'replace')}")

    def _end(self, stream: Stream, task: int, payload: bytes) -> None:
        ranks = self._ranks[stream.place.node_index]
        for rank in ranks:
            self.console.ended(rank)
        if payload:
            self.outcome.node_failed(stream.place.node, ranks, payload.decode("utf-8", "replace"))
        self._settle_end(stream)

    def _settle_end(self, stream: Stream) -> None:
        self._settled[stream] = None
        if self._pump is not None:
            self._pump.gone(stream)

    # ---- from the controller ---------------------------------------------------------------------------------------

    def _controller_says(self, number_: int, reply: AwaitStepReply) -> None:
        if reply.note and not self.ending.has_begun:
            self._say_abort()
        if reply.state in ENDED:
            self._finals[number_] = reply
            if self._is_over:
                self._drain()

    def _drain(self) -> None:
        """The step has ended: whoever still has something to bring may, as long as something comes."""
        counted = sum(stream.counted for stream in self.streams)
        now = time.monotonic()
        if counted != self._drained[0]:
            self._drained = (counted, now)
        elif now - self._drained[1] >= DRAIN_S and not self._blocked:
            for stream in self.streams:
                self._gone(stream)
            return
        self.loop.at(DRAIN_S / 5, self._drain)

    def _gone(self, stream: Stream) -> None:
        """Nothing more will come of this node's stream."""
        if stream in self._settled:
            return
        stream.close()
        final = self._finals.get(self._part_of[stream])
        if final is not None:
            self._take_end(stream, final)
        self._settle_end(stream)

    def _take_end(self, stream: Stream, final: AwaitStepReply) -> None:
        """What became of a node's tasks, as the controller has it."""
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
        self._to_all(frame(Kind.SIGNAL, b"%d" % number_))

    def terminate(self) -> None:
        """End the step: its tasks now get SIGTERM, and after KillWait what nobody survives."""
        standing = all(stream.state in (State.OPEN, State.ENDED) for stream in self.streams)
        self.ending.terminate(streams_stand=standing)

    def _say_abort(self) -> None:
        self.ending.say_abort()

    # ---- signals ---------------------------------------------------------------------------------------------------

    def _on_signal(self, caught: int) -> None:
        if caught == signal.SIGINT and self._terminal is not None and self._terminal.is_raw:
            self._signal(caught)  # it was sent, not typed
        elif caught == signal.SIGINT:
            self.ending.interrupted(self._title, self._state)
        elif caught in (signal.SIGTERM, signal.SIGHUP):
            self.ending.quit()
        elif caught == signal.SIGWINCH:
            if self._terminal is not None:
                self._to_all(frame(Kind.WINDOW, pack_values(*self._terminal.size())))
        elif caught in (signal.SIGTSTP, signal.SIGCONT):
            self._signal(caught)
            if caught == signal.SIGTSTP:
                stop_ourselves()
        elif caught in FORWARDED:
            self._signal(caught)


def _task_words(task: int) -> str:
    return "" if task == NO_TASK else f"{ranks_text([task])}: "


def _wake() -> None:
    """The sink takes more: the next round writes it."""


_ON: dict[Kind, Callable[[Session, Stream, int, bytes], None]] = {
    Kind.STARTED: Session._started,
    Kind.EXITED: Session._exited,
    Kind.NOTE: Session._note,
    Kind.LOST: Session._lost,
    Kind.STDIN_TAKEN: Session._taken,
    Kind.GATHER: Session._gather,
    Kind.FAILED: Session._failed,
    Kind.END: Session._end,
}
