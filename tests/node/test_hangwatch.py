"""What a stepd reports of tasks that hang: when it begins, changes and ends, and not while the step is suspended."""

import asyncio
import socket
from types import SimpleNamespace

# Any: stand-ins for the step and for the launcher
from typing import Any

from patience import ANSWER_S

from nodedaemon.base import orders
from nodedaemon.base.orders import LaunchOrder
from nodedaemon.core.steps import StepKey
from nodedaemon.daemon.supervisors import SUSPICIONS_MAX, Supervisors
from nodedaemon.stepd.hangwatch import HangWatch

EVERY_S = 15


class Watched:
    """A watch and its step; `sample` is one, each task by a letter: computes, waits, or is stopped (T)."""

    def __init__(self, **order: object) -> None:
        self.watch = HangWatch(LaunchOrder(**{"key": "1.0.0", "kind": "step", "hang_after_s": 60, **order}))
        self.reports: list[str] = []
        self.signals: list[tuple[int, int, str]] = []
        self.at_s = 0
        self._cpu_ms: dict[int, int] = {}
        self.is_frozen = False

    def sample(self, tasks: str, times: int = 1) -> None:
        """So many samples of tasks that do this."""
        step: Any = SimpleNamespace(
            ran_us=lambda: self.at_s * 1_000_000, is_frozen=self.is_frozen, folder_fd=-1,
            suspect=lambda kind, text: self.reports.append(f"{kind}: {text}"),
            signal_hanging=lambda signum, text: self.signals.append((signum, self.at_s, text)),
        )  # fmt: skip
        for _ in range(times):
            self.at_s += EVERY_S
            self.watch.begin()
            for rank, does in enumerate(tasks):
                self._cpu_ms[rank] = self._cpu_ms.get(rank, 0) + 1000 * EVERY_S * (does == "c")
                self.watch.see(rank, b"T" if does == "T" else b"S", 0, 0)
            self.watch.take(step, dict(self._cpu_ms), lambda: [])


def test_a_report_at_the_beginning_at_a_change_and_at_the_end() -> None:
    watched = Watched()
    watched.sample("ccc", 4)
    watched.sample("ccw", 10)
    assert watched.reports == ["behind: task 2: no CPU used for 60 s, while 2 of 3 tasks compute"]
    watched.sample("cTw", 5)
    assert watched.reports[1:] == ["stopped: task 1: stopped by a signal for 60 s"]
    watched.sample("ccc")
    assert watched.reports[2:] == [": "]
    answer = watched.watch.answer({})
    assert answer["after_s"] == 60 and [task[0] for task in answer["tasks"]] == [0, 1, 2]  # type: ignore[union-attr, index]  # a list of lists


def test_a_suspended_step_is_not_suspected_and_begins_anew() -> None:
    watched = Watched()
    watched.sample("cc", 2)
    watched.is_frozen = True
    watched.sample("ww", 100)
    watched.is_frozen = False
    watched.sample("ww", 3)
    assert watched.reports == []


def test_tasks_that_have_ended_are_not_behind() -> None:
    watched = Watched()
    watched.sample("ccc", 2)
    watched.sample("c", 10)
    assert watched.reports == []


def test_steps_that_are_not_watched() -> None:
    for order in ({"hang_after_s": 0}, {"pty_rows": 24}):
        watched = Watched(**order)
        watched.sample("cw", 20)
        assert watched.reports == [] and watched.watch.answer({})["after_s"] == 0


def test_the_sites_signal_is_sent_once_to_a_step_that_goes_on_to_hang() -> None:
    watched = Watched(hang_signal=15, hang_grace_s=30)
    watched.sample("ccw", 5)  # suspected after 60 s
    watched.sample("ccc", 1)  # in time
    assert len(watched.reports) == 2 and watched.signals == []
    watched.sample("ccw", 6)
    watched.sample("cTw", 20)  # in another way: it has hung without a break
    [(signum, at_s, text)] = watched.signals
    assert (signum, at_s, text.partition(":")[0]) == (15, (6 + 6) * EVERY_S, "task 2")
    watched.sample("ccc", 1)
    watched.sample("ccw", 10)
    assert len(watched.signals) == 2


def test_every_change_is_told_so_that_the_last_one_is_right() -> None:
    watched = Watched()
    for _ in range(50):
        watched.sample("cw", 5)
        watched.sample("cc")
    assert len(watched.reports) == 100 and watched.reports[-1] == ": "


def test_the_flight_recorder_is_known_from_the_environment() -> None:
    for environment, place in (
        ({}, b""),
        ({b"TORCH_NCCL_TRACE_BUFFER_SIZE": b"0"}, b""),
        ({b"TORCH_NCCL_TRACE_BUFFER_SIZE": b"2000"}, b"/tmp/nccl_trace_rank_"),
        ({b"TORCH_NCCL_DEBUG_INFO_TEMP_FILE": b"/x/"}, b"/x/"),
    ):
        assert Watched(environment=environment).watch.answer({})["recorder"] == place


def test_a_step_that_comes_and_goes_fills_no_journal_and_the_metric_follows() -> None:
    """noded's side: so many notices of one step, while the last state is always known."""
    over = asyncio.Event()
    notices: list[str] = []
    states: list[str] = []

    def suspected(key: StepKey, kind: str) -> None:
        states.append(kind)
        if key.job_id == 2:
            over.set()

    async def scenario() -> None:
        launcher: Any = SimpleNamespace()
        launcher.orders, order_end = socket.socketpair()
        launcher.packets, packets = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        nothing: Any = None
        post: Any = lambda event: notices.append(event.reason)  # noqa: E731 (a stand-in for a method)
        some = Supervisors(nothing, launcher, nothing, nothing, post, lambda: 1)
        some.on_suspected = suspected
        await some.open()
        with order_end, packets:
            for number in range(SUSPICIONS_MAX + 3):
                kind, text = ("", "") if number % 2 else ("idle", "nothing was done")
                packets.send(orders.suspected("1.0.0", kind, text))
            packets.send(orders.suspected("2.0.0", "idle", "another"))
            async with asyncio.timeout(ANSWER_S):
                await over.wait()
            some.close()

    asyncio.run(scenario())
    assert states == ["idle", ""] * (SUSPICIONS_MAX // 2 + 1) + ["idle", "idle"]
    assert len(notices) == SUSPICIONS_MAX + 1 and notices[:2] == ["step 0 may hang: nothing was done", "step 0 goes on"]
    assert notices[-2:] == ["step 0 goes on; further changes are not reported", "step 0 may hang: another"]
