"""The node's core: the table, the fence, de-duplication, tombstones, escalation, and the promise over any order of commands."""

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodedaemon.core import messages as m
from nodedaemon.core.journal_state import FORGOTTEN_MAX
from nodedaemon.core.machine import SCOPE_ALL, SCOPE_BATCH, START_REPORT_US, NodeMachine
from nodedaemon.core.steps import TRANSITIONS, IllegalStepMove, NodeStep, StepKey, StepState
from penstock.v1 import node_pb2

KEY = StepKey(7, 1, -5)
OTHER = StepKey(8, 1, -5)
SECOND_US = 1_000_000


def connected(epoch: int = 3) -> NodeMachine:
    machine = NodeMachine()
    machine.replay([m.SpoolCreated("spool"), m.BootSeen("boot")])
    machine.step(0, m.LinkUp(1, epoch, 60 * SECOND_US))
    machine.seal()
    return machine


class Feed:
    """Sends commands with rising sequence numbers and returns what came out."""

    def __init__(self, machine: NodeMachine, epoch: int = 3) -> None:
        self.machine, self.epoch, self.sequence = machine, epoch, 0

    def __call__(self, event: m.NodeCoreEvent, now_us: int = SECOND_US) -> list[Any]:
        self.machine.step(now_us, event)
        self.machine.check()
        batch = self.machine.seal()
        return list(batch.effects) if batch else []

    def head(self, epoch: int | None) -> tuple[int, int, int]:
        self.sequence += 1
        return 1, self.sequence, self.epoch if epoch is None else epoch

    def launch(self, key: StepKey = KEY, epoch: int | None = None, invalid: str = "") -> list[Any]:
        return self(m.Launch(*self.head(epoch), key, "order", invalid))

    def terminate(self, key: StepKey = KEY, grace_s: int = 30, now_us: int = SECOND_US, note: str = "") -> list[Any]:
        return self(m.Terminate(*self.head(None), key, grace_s * SECOND_US, note), now_us)

    def forget(self, key: StepKey = KEY) -> list[Any]:
        return self(m.Forget(*self.head(None), key))

    def signal(self, key: StepKey = KEY, signum: int = 10) -> list[Any]:
        return self(m.Signal(*self.head(None), key, signum, SCOPE_BATCH))

    def began(self, key: StepKey = KEY) -> list[Any]:
        return self(m.StepBegan(key, 5, 99))

    def ended(self, key: StepKey = KEY, code: int = 0) -> list[Any]:
        return self(m.StepEnded(key, 5, 9, exit_code=code))


def test_the_table_has_every_state_and_only_listed_moves():
    assert set(TRANSITIONS) == set(StepState)
    for origin in StepState:
        for target in StepState:
            step = NodeStep(KEY, 1)
            step.state = origin
            if target in TRANSITIONS[origin]:
                step.move(target)
                assert step.state is target
            else:
                with pytest.raises(IllegalStepMove):
                    step.move(target)
                assert step.state is origin


def test_state_numbers_are_those_of_the_wire():
    wire = node_pb2.HeldStep.State
    for state in (StepState.ACCEPTED, StepState.RUNNING, StepState.EXITED, StepState.TOMBSTONE):
        assert wire.Value(state.name) == int(state)


def test_a_step_from_launch_to_forget():
    feed = Feed(connected())
    assert feed.launch() == [m.StartStep(KEY, "order"), m.AckCommand(1, 1)]
    assert feed.began() == [m.SendReport(1, 1, m.Started(1, KEY, 5, 99))]
    assert feed.ended(code=3) == [m.SendReport(1, 2, m.Exited(2, m.StepEnded(KEY, 5, 9, exit_code=3)))]
    assert feed(m.ReportsAcked("spool", 2)) == []
    assert feed.machine.unacked == {}
    assert feed.forget() == [m.SweepStep(KEY), m.AckCommand(1, 2)]
    assert feed.machine.steps == {}


def of_srun(*, is_connected: bool = True) -> tuple[Feed, StepKey]:
    """A step of srun that has just been launched."""
    key = StepKey(7, 1, 0)
    feed = Feed(connected())
    feed.launch(key)
    if not is_connected:
        feed(m.LinkDown(1))
    return feed, key


def test_the_start_of_a_step_of_srun_is_reported_together_with_its_end():
    feed, key = of_srun()
    feed.machine.step(SECOND_US, m.StepBegan(key, 5, 99))
    batch = feed.machine.seal()
    assert (batch.records, batch.effects, batch.durable) == ((m.Started(1, key, 5, 99),), (), False)
    assert feed.signal(key) == [m.DeliverSignal(key, (10,), SCOPE_BATCH), m.AckCommand(1, 2)]
    start, end = feed.ended(key)
    assert start == m.SendReport(1, 1, m.Started(1, key, 5, 99))
    assert end == m.SendReport(1, 2, m.Exited(2, m.StepEnded(key, 5, 9)))
    assert feed.machine.next_deadline() is None


def test_the_start_of_a_longer_step_is_reported_soon_and_from_disk():
    feed, key = of_srun()
    assert feed.began(key) == []
    due_us = feed.machine.next_deadline()
    assert due_us == SECOND_US + START_REPORT_US
    assert feed(m.TimerDue(), due_us - 1) == []
    feed.machine.step(due_us, m.TimerDue())
    batch = feed.machine.seal()
    assert batch.durable and batch.effects == (m.SendReport(1, 1, m.Started(1, key, 5, 99)),)
    assert feed.machine.next_deadline() is None


@pytest.mark.parametrize("is_connected", [True, False])
def test_a_start_that_was_not_sent_is_sent_once_on_the_next_stream(is_connected):
    feed, key = of_srun(is_connected=is_connected)
    assert feed.began(key) == []
    feed(m.LinkDown(1))
    feed.machine.step(SECOND_US, m.LinkUp(2, 3, 60 * SECOND_US))
    batch = feed.machine.seal()
    assert batch.durable and batch.effects == (m.SendReport(2, 1, m.Started(1, key, 5, 99)),)
    assert feed(m.TimerDue(), SECOND_US + START_REPORT_US) == [] and feed.machine.next_deadline() is None


def test_effects_of_a_launch_wait_for_a_durable_fence_record():
    machine = connected()
    machine.step(1, m.Launch(1, 1, 3, KEY, "order"))
    machine.step(1, m.Launch(1, 2, 3, OTHER, "order", span=b"place in a trace"))
    batch = machine.seal()
    assert batch.durable
    of_other = m.SpooledStep(OTHER, 3, StepState.ACCEPTED, span=b"place in a trace")
    assert batch.records == (m.SpooledStep(KEY, 3, StepState.ACCEPTED), of_other)
    assert of_other in list(machine.snapshot())
    assert [type(e) for e in batch.effects] == [m.StartStep, m.AckCommand] * 2
    assert machine.seal() is None


@pytest.mark.parametrize("state", ["accepted", "running", "exited"])
def test_a_launch_that_comes_again_is_accepted_and_starts_nothing(state):
    feed = Feed(connected())
    feed.launch()
    if state != "accepted":
        feed.began()
    if state == "exited":
        feed.ended()
    assert feed.launch() == [m.AckCommand(1, 2)]


def test_a_launch_of_a_forgotten_step_is_refused():
    feed = Feed(connected())
    feed.launch()
    feed.ended()
    feed.forget()
    (ack,) = feed.launch()
    assert ack == m.AckCommand(1, 3, "step 7.1.-5 has ended here before")


def test_a_lower_epoch_is_refused_and_a_higher_one_written_down():
    feed = Feed(connected(epoch=3))
    (ack,) = feed.launch(epoch=2)
    assert ack.refused == "epoch 2 is lower than 3, which this node has seen"
    feed.machine.step(1, m.Launch(1, 9, 4, KEY, "order"))
    batch = feed.machine.seal()
    assert batch.records[0] == m.EpochSeen(4)
    replayed = NodeMachine()
    replayed.replay(batch.records)
    assert replayed.epoch == 4


def test_a_controller_with_a_lower_epoch_is_not_obeyed():
    machine = connected(epoch=5)
    machine.step(1, m.LinkUp(2, 4, 0))
    (effect,) = machine.seal().effects
    assert isinstance(effect, m.DropLink) and effect.link == 2
    assert machine.link == 1


def test_terminate_before_launch_buries_the_step():
    feed = Feed(connected())
    ack, report = feed.terminate()
    assert ack == m.AckCommand(1, 1)
    assert report.report.end == m.StepEnded(KEY, 0, SECOND_US, failure="ended before it was started")
    (refused,) = feed.launch()
    assert refused == m.AckCommand(1, 2, "step 7.1.-5 ended before it was started")
    assert feed.terminate() == [m.AckCommand(1, 3)]
    assert feed.machine.steps[KEY].state is StepState.TOMBSTONE


def test_only_one_attempt_of_a_step_lives_at_a_time():
    feed = Feed(connected())
    feed.launch()
    second = StepKey(7, 2, -5)
    (ack,) = feed.launch(second)
    assert ack.refused == "attempt 1 of step 7.-5 still runs here"
    feed.ended()
    assert feed.launch(second)[0] == m.StartStep(second, "order")


def unkillable(feed: Feed, key: StepKey) -> list[Any]:
    feed.launch(key)
    feed.began(key)
    feed.terminate(key, grace_s=0)
    feed(m.TimerDue(), SECOND_US)
    return feed(m.TimerDue(), 61 * SECOND_US)


@pytest.mark.parametrize("restarted", [False, True])
def test_the_end_of_the_last_unkillable_step_clears_the_notice(restarted):
    feed = Feed(connected())
    unkillable(feed, KEY)
    unkillable(feed, OTHER)
    if restarted:
        snapshot = list(feed.machine.snapshot())
        machine = NodeMachine()
        machine.replay(snapshot)
        machine.step(0, m.LinkUp(1, 3, 60 * SECOND_US))
        machine.seal()
        feed = Feed(machine)
    (end,) = feed.ended(KEY)
    assert isinstance(end.report, m.Exited)
    end, over = feed.ended(OTHER)
    assert isinstance(end.report, m.Exited)
    assert over.report.notice == m.Notice("Kill task failed", drain=True, clear=True, key=OTHER)


def test_a_notice_is_a_report_like_any_other():
    feed = Feed(connected())
    (sent,) = feed(m.Notice("spool full", drain=True))
    assert sent.report == m.Noticed(1, SECOND_US, m.Notice("spool full", drain=True))
    assert list(feed.machine.unacked) == [1]
    assert feed(m.LinkUp(2, 3, 0)) == [m.SendReport(2, 1, sent.report)]
    assert feed(m.ReportsAcked("spool", 1)) == []
    assert feed.machine.unacked == {}


def test_escalation_term_kill_unkillable():
    feed = Feed(connected())
    feed.launch()
    feed.began()
    _, term = feed.terminate(grace_s=30, now_us=SECOND_US, note="CANCELLED")
    assert term == m.DeliverSignal(KEY, (18, 15), SCOPE_ALL, "CANCELLED")
    assert feed.machine.next_deadline() == 31 * SECOND_US
    assert feed(m.TimerDue(), 30 * SECOND_US) == []
    assert feed(m.TimerDue(), 31 * SECOND_US) == [m.DeliverSignal(KEY, (9,), SCOPE_ALL)]
    assert feed.machine.next_deadline() == 91 * SECOND_US
    tell, report = feed(m.TimerDue(), 91 * SECOND_US)
    assert tell == m.ReportUnkillable(KEY, 31 * SECOND_US)
    assert report.report.notice == m.Notice("Kill task failed", drain=True, key=KEY)
    assert feed.machine.next_deadline() is None
    assert [type(e) for e in feed.ended()] == [m.SendReport, m.SendReport]


def test_a_second_terminate_can_only_hasten():
    feed = Feed(connected())
    feed.launch()
    feed.began()
    feed.terminate(grace_s=30, note="first")
    assert feed.terminate(grace_s=60, note="again") == [m.AckCommand(1, 3)]
    assert feed.machine.next_deadline() == 31 * SECOND_US
    assert feed.terminate(grace_s=1) == [m.AckCommand(1, 4)]
    assert feed.machine.next_deadline() == 2 * SECOND_US
    assert feed(m.TimerDue(), 2 * SECOND_US) == [m.DeliverSignal(KEY, (9,), SCOPE_ALL)]


def test_a_step_that_is_told_to_end_while_it_starts():
    feed = Feed(connected())
    feed.launch()
    assert feed.terminate(grace_s=1, note="bye") == [m.AckCommand(1, 2)]
    assert feed(m.TimerDue(), 2 * SECOND_US) == [m.DeliverSignal(KEY, (9,), SCOPE_ALL)]  # its files may hang
    _, term, kill = feed.began()
    assert term == m.DeliverSignal(KEY, (18, 15), SCOPE_ALL, "bye")
    assert kill == m.DeliverSignal(KEY, (9,), SCOPE_ALL)


def test_an_end_cancels_what_was_due():
    feed = Feed(connected())
    feed.launch()
    feed.began()
    feed.terminate(grace_s=30)
    feed.ended()
    assert feed.machine.next_deadline() is None
    assert feed(m.TimerDue(), 99 * SECOND_US) == []


def test_signals_go_once_and_only_to_running_steps():
    feed = Feed(connected())
    assert feed.signal()[0].refused == "step 7.1.-5 is not running"
    feed.launch()
    feed.began()
    assert feed.signal() == [m.DeliverSignal(KEY, (10,), SCOPE_BATCH), m.AckCommand(1, 3)]
    feed.sequence -= 1  # the same command again
    assert feed.signal() == [m.AckCommand(1, 3)]


def test_a_signal_for_a_step_that_is_being_started_waits_for_it():
    feed = Feed(connected())
    feed.launch()
    assert feed.signal(signum=18) == [m.AckCommand(1, 2)]
    assert feed.signal() == [m.AckCommand(1, 3)]
    feed.sequence -= 1  # the same command again
    assert feed.signal() == [m.AckCommand(1, 3)]
    assert feed.began()[1:] == [m.DeliverSignal(KEY, (18,), SCOPE_BATCH), m.DeliverSignal(KEY, (10,), SCOPE_BATCH)]
    feed.ended()
    assert feed.signal()[0].refused == "step 7.1.-5 is not running"


def test_forget_of_a_live_step_is_refused():
    feed = Feed(connected())
    feed.launch()
    assert feed.forget()[0].refused == "step 7.1.-5 has not ended"
    assert KEY in feed.machine.steps


def test_an_invalid_launch_is_refused_and_leaves_nothing():
    feed = Feed(connected())
    assert feed.launch(invalid="argument 0 contains a NUL byte") == [
        m.AckCommand(1, 1, "argument 0 contains a NUL byte")
    ]
    assert feed.machine.steps == {}


def test_reports_are_sent_again_on_a_new_stream_until_acked():
    feed = Feed(connected())
    feed.launch()
    feed.began()
    feed(m.LinkDown(1))
    assert feed.ended() == []  # nobody there
    sent = feed(m.LinkUp(2, 3, 0))
    assert [(e.link, e.sequence) for e in sent] == [(2, 1), (2, 2)]
    feed(m.ReportsAcked("another spool", 2))
    assert len(feed.machine.unacked) == 2
    feed(m.ReportsAcked("spool", 1))
    assert [e.sequence for e in feed(m.LinkUp(3, 3, 0))] == [2]


def test_a_lost_step_keeps_the_start_that_was_seen():
    feed = Feed(connected())
    feed.launch()
    feed.began()
    (report,) = feed(m.StepEnded(KEY, 0, 9, failure="supervisor lost"))
    assert report.report.end.start_at_us == 5


def test_what_is_remembered_of_forgotten_steps_is_bounded():
    machine = connected()
    machine.replay(m.Forgotten(StepKey(i, 1, -5)) for i in range(FORGOTTEN_MAX + 10))
    machine.check()
    assert len(machine.forgotten) == FORGOTTEN_MAX


KEYS = [StepKey(1, 1, -5), StepKey(1, 2, -5), StepKey(2, 1, 0)]
OPS = st.one_of(
    st.tuples(
        st.sampled_from(["launch", "terminate", "forget", "began", "ended", "lost", "suspend", "resume"]),
        st.sampled_from(KEYS),
    ),
    st.tuples(st.sampled_from(["seal", "crash", "reconnect", "hang_up", "timer", "ack"]), st.just(KEYS[0])),
)


class World:
    """A machine with its journal and the processes it has started; crashes lose what was not sealed."""

    def __init__(self) -> None:
        self.journal: list[m.AnyRecord] = [m.SpoolCreated("s"), m.BootSeen("b")]
        self.machine = NodeMachine()
        self.machine.replay(self.journal)
        self.now_us = 0
        self.sequence = 0
        self.link = 0
        self.started: list[StepKey] = []
        self.ended: set[StepKey] = set()
        self.accepted: set[StepKey] = set()
        self.launches: dict[tuple[int, int], StepKey] = {}

    def command(self, kind, key, *rest):
        self.sequence += 1
        if kind is m.Launch:
            self.launches[(self.link, self.sequence)] = key
        self.machine.step(self.now_us, kind(self.link, self.sequence, 1, key, *rest))

    def seal(self):
        batch = self.machine.seal()
        if batch is None:
            return
        self.journal.extend(batch.records)
        for effect in batch.effects:
            if isinstance(effect, m.StartStep):
                self.started.append(effect.key)
            if isinstance(effect, m.AckCommand) and not effect.refused:
                key = self.launches.get((effect.link, effect.sequence))
                if key is not None:
                    self.accepted.add(key)

    def alive(self, key):
        return key in self.started and key not in self.ended

    def end(self, key, failure=""):
        if self.alive(key):
            self.ended.add(key)
            self.machine.step(self.now_us, m.StepEnded(key, 1, 2, failure=failure))

    def crash(self):
        self.machine = NodeMachine()
        self.machine.replay(self.journal)
        for step in self.machine.live_steps():  # what adoption finds
            if step.key not in self.started:
                self.machine.step(self.now_us, m.StepEnded(step.key, 0, 2, failure="never started"))
            elif step.key in self.ended:
                self.machine.step(self.now_us, m.StepEnded(step.key, 1, 2))

    def do(self, what, key):
        self.now_us += 1
        if what == "launch":
            self.command(m.Launch, key, "order")
        elif what == "terminate":
            self.command(m.Terminate, key, 5, "")
        elif what in ("suspend", "resume"):
            self.command(m.SuspendSteps, key, what == "suspend", 2)
        elif what == "forget":
            self.command(m.Forget, key)
        elif what == "began" and self.alive(key):
            self.machine.step(self.now_us, m.StepBegan(key, 1, 1))
        elif what in ("ended", "lost"):
            self.end(key, "supervisor lost" if what == "lost" else "")
        elif what == "seal":
            self.seal()
        elif what == "crash":
            self.crash()
        elif what == "reconnect":
            self.link += 1
            self.machine.step(self.now_us, m.LinkUp(self.link, 1, 5))
        elif what == "hang_up":
            self.machine.step(self.now_us, m.LinkDown(self.link))
        elif what == "timer":
            self.machine.step(self.now_us, m.TimerDue())
        elif what == "ack":
            self.machine.step(self.now_us, m.ReportsAcked("s", max(self.machine.unacked, default=0)))
        self.machine.check()


@settings(max_examples=400, deadline=None)
@given(st.lists(OPS, max_size=40))
def test_any_order_starts_a_step_at_most_once_and_ends_what_was_accepted_exactly_once(ops):
    world = World()
    for what, key in ops:
        world.do(what, key)
    world.seal()
    for key in KEYS:
        world.end(key)
    world.seal()
    ends = [record.end.key for record in world.journal if isinstance(record, m.Exited)]
    assert len(world.started) == len(set(world.started))
    assert len(ends) == len(set(ends))
    assert world.accepted <= set(ends)
    assert not world.machine.live_steps()


def check_replay(world: World) -> None:
    """Whether the journal, and a snapshot, make a machine that does what the world's will do."""
    replayed, from_snapshot = NodeMachine(), NodeMachine()
    replayed.replay(world.journal)
    from_snapshot.replay(list(world.machine.snapshot()))
    for other in (replayed, from_snapshot):
        other.check()
        assert other.epoch == world.machine.epoch
        assert other.unacked == world.machine.unacked
        assert list(other.forgotten) == list(world.machine.forgotten)
        assert other.next_sequence == world.machine.next_sequence
        now = {k: (s.state, s.start_at_us, s.kill_at_us if s.is_live else 0) for k, s in other.steps.items()}
        then = {k: (s.state, s.start_at_us, s.kill_at_us if s.is_live else 0) for k, s in world.machine.steps.items()}
        assert {k: v[:2] for k, v in now.items()} == {k: v[:2] for k, v in then.items()}
        assert now.keys() == then.keys()
        pairs = [(step, world.machine.steps[step.key]) for step in other.live_steps()]
        assert all(step.suspended == same.suspended for step, same in pairs)
        assert all(step.kill_note == same.kill_note for step, same in pairs)
        assert not any(step.kill_at_us for step, _ in pairs) or other.next_deadline() is not None


@settings(max_examples=200, deadline=None)
@given(st.lists(OPS, max_size=40))
def test_replay_and_snapshot_say_the_same_as_the_machine(ops):
    world = World()
    for what, key in ops:
        world.do(what, key)
        world.seal()
    check_replay(world)


@pytest.mark.parametrize("first", ["began", "suspend", "resume", "terminate", "crash"])
def test_so_do_all_short_histories_of_a_step(first):
    for rest in itertools.product(["began", "suspend", "resume", "terminate", "crash"], repeat=3):
        world = World()
        for what in ("launch", first, *rest):
            world.do(what, KEYS[0])
            world.seal()
        check_replay(world)
