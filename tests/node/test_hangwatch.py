"""What a stepd reports of tasks that hang: when it begins, changes and ends, and not while the step is suspended."""

# Any: a stand-in for the step
from types import SimpleNamespace
from typing import Any

from nodedaemon.base.orders import LaunchOrder
from nodedaemon.stepd.hangwatch import REPORTS_MAX, HangWatch

EVERY_S = 15


class Watched:
    """A watch and its step; `sample` is one, each task by a letter: computes, waits, or is stopped (T)."""

    def __init__(self, **order: object) -> None:
        self.watch = HangWatch(LaunchOrder(**{"key": "1.0.0", "kind": "step", "hang_after_s": 60, **order}))
        self.reports: list[str] = []
        self.at_s = 0
        self._cpu_ms: dict[int, int] = {}
        self.is_frozen = False

    def sample(self, tasks: str, times: int = 1) -> None:
        """So many samples of tasks that do this."""
        step: Any = SimpleNamespace(
            ran_us=lambda: self.at_s * 1_000_000, is_frozen=self.is_frozen, folder_fd=-1,
            suspect=lambda kind, text: self.reports.append(f"{kind}: {text}"),
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


def test_reports_are_bounded() -> None:
    watched = Watched()
    for _ in range(REPORTS_MAX):
        watched.sample("cw", 5)
        watched.sample("cc")
    assert len(watched.reports) == REPORTS_MAX


def test_the_flight_recorder_is_known_from_the_environment() -> None:
    for environment, place in (
        ({}, b""),
        ({b"TORCH_NCCL_TRACE_BUFFER_SIZE": b"0"}, b""),
        ({b"TORCH_NCCL_TRACE_BUFFER_SIZE": b"2000"}, b"/tmp/nccl_trace_rank_"),
        ({b"TORCH_NCCL_DEBUG_INFO_TEMP_FILE": b"/x/"}, b"/x/"),
    ):
        assert Watched(environment=environment).watch.answer({})["recorder"] == place
