"""Scenarios of steps that hang, and of healthy ones: samples in, suspicions out."""

import pytest

from penstock.values.hangs import Suspicion, TaskActivity, TaskState, gpu_suspicion, task_suspicions
from penstock.values.timeline import Point

AFTER_S = 600
EVERY_S = 15


def played(*tasks: str, after_s: int = AFTER_S, is_script: bool = False) -> list[Suspicion]:
    """Each task as phases `WHAT:SECONDS`, of: compute, write (and compute), wait, read (and wait), stop."""
    states = []
    for rank, story in enumerate(tasks):
        activity, at_s, cpu_ms, read, written = TaskActivity(), 0, 0, 0, 0
        for phase in story.split():
            what, _, seconds = phase.partition(":")
            for _ in range(int(seconds) // EVERY_S):
                at_s += EVERY_S
                cpu_ms += EVERY_S * 900 if what in ("compute", "write") else EVERY_S * 5
                read += what == "read"
                written += what == "write"
                activity.add(at_s, cpu_ms, read, written, what == "stop")
        states.append(activity.state(rank))
    return task_suspicions(states, after_s, is_script)


@pytest.mark.parametrize(
    "tasks",
    [
        ["compute:3600"] * 4,
        ["write:3600", "compute:3600"],
        ["wait:585", "compute:585"],  # not yet for long enough
        ["compute:600 wait:585", "compute:1185"],
        ["wait:1200 compute:15", "compute:1215"],  # it goes on
        ["stop:1200 compute:15", "compute:1215"],
        ["stop:1200", "stop:1200"],  # scontrol suspend, or its like
        ["read:3600", "read:3600"],  # waits for its data
        ["write:60 compute:900"],  # has written too rarely to be one that writes
        ["write:300 compute:300 write:300 compute:2000"],  # such pauses are usual
        ["write:75 compute:585"],
        ["compute:1200 wait:600", "compute:1215 wait:585"],  # both wait for each other: the second is not computing
        ["compute:1215 wait:585", "compute:1200 wait:600", "compute:1200 wait:600"],
    ],
)  # fmt: skip
def test_healthy_steps(tasks: list[str]) -> None:
    assert played(*tasks) == []


@pytest.mark.parametrize(
    ("tasks", "kind", "ranks", "text"),
    [
        (["compute:1200", "compute:540 stop:660"], "stopped", (1,), "task 1: stopped by a signal for 660 s"),
        (["compute:1200", "compute:540 wait:660"], "behind", (1,), "task 1: no CPU used for 660 s, while 1 of 2 tasks compute"),
        (["compute:1200", "compute:540 wait:660", "compute:1200", "wait:1200"], "behind", (1, 3),
         "tasks 1,3: no CPU used for 660 s, while 2 of 4 tasks compute"),
        (["compute:900 wait:300", "compute:1200", "wait:1200"], "behind", (2,),
         "task 2: no CPU used for 1200 s, while 1 of 3 tasks compute"),
        (["wait:1200", "wait:1200", "compute:1200"], "alone", (2,),
         "task 2: alone computes; the other 2 tasks have used no CPU for 1200 s"),
        (["write:600 wait:600"] * 2, "idle", (), "no task has computed, read or written anything for 600 s"),
        (["write:600 compute:600"] * 2, "silent", (), "nothing was written for 600 s; before, never for more than 15 s"),
        (["write:90 compute:60 write:15 compute:750"], "silent", (),
         "nothing was written for 750 s; before, never for more than 75 s"),
    ],
)  # fmt: skip
def test_steps_that_hang(tasks: list[str], kind: str, ranks: tuple[int, ...], text: str) -> None:
    assert played(*tasks) == [Suspicion(kind, ranks, text)]


def test_a_stopped_task_explains_the_others() -> None:
    (found,) = played("compute:300 wait:900", "compute:300 stop:900", "compute:300 wait:900")
    assert (found.kind, found.ranks) == ("stopped", (1,))


def test_a_script_that_waits_for_its_steps_is_not_idle() -> None:
    assert played("wait:3600", is_script=True) == []
    assert played("wait:3600")[0].kind == "idle"


def test_sites_choose_the_time_or_none() -> None:
    assert played("compute:60 wait:60", "compute:120", after_s=60)[0].kind == "behind"
    assert played("compute:60 wait:9000", "compute:9060", after_s=0) == []


def test_many_tasks_are_counted() -> None:
    (found,) = played(*["compute:1200"] * 20, *["wait:1200"] * 20)
    assert found.text.startswith("tasks 20,21,22,23,24,25,26,27 and 12 more: no CPU")
    assert found.ranks == tuple(range(20, 40))


def test_time_on_orders_does_not_count() -> None:
    activity = TaskActivity()
    activity.add(15, 15_000, 0, 0, False)
    activity.add(30, 15_000, 0, 0, False)
    activity.rest(5000)
    activity.add(5015, 15_000, 0, 0, False)
    assert activity.state(0) == TaskState(0, 15, 15, 15, 0, 0, 0)


def test_counters_that_fall_are_activity() -> None:
    activity = TaskActivity()
    activity.add(15, 100, 1000, 1000, False)
    activity.add(900, 50, 900, 1000, False)
    assert activity.state(0)[1:4] == (900, 0, 885)


def line(*phases: tuple[int, int, int]) -> list[Point]:
    """A GPU's line of phases (seconds, permille busy, W)."""
    found: list[Point] = []
    for seconds, util, power_w in phases:
        for _ in range(seconds // EVERY_S):
            at_ds = (len(found) + 1) * EVERY_S * 10
            found.append(Point(at_ds, ((util, util), (1, 1), (power_w * 1000, power_w * 1000), (40, 40), (0, 0))))
    return found


def host(seconds: int, rate: int = 0) -> list[Point]:
    """The line of processes that read and write so much a second."""
    count = seconds // EVERY_S
    return [Point(i * EVERY_S * 10, ((1000, 1000), (1, 1), (rate, rate), (rate, rate))) for i in range(1, count + 1)]


TRAINED = (900, 980, 600)


def test_gpus_that_spin() -> None:
    spins = line(TRAINED, (900, 1000, 180))
    found = gpu_suspicion([spins, spins], host(1800), AFTER_S)
    text = "2 GPUs are busy at no more than 30 % of their highest power for 600 s, without I/O"
    assert found == Suspicion("spinning", (), text)


@pytest.mark.parametrize(
    ("gpus", "rate"),
    [
        ([line(TRAINED, TRAINED)], 0),
        ([line(TRAINED, (900, 1000, 180))], 10**6),  # it writes a checkpoint, or reads its data
        ([line(TRAINED, (900, 100, 180))], 0),  # idle: that is told elsewhere
        ([line(TRAINED, (900, 1000, 180)), line(TRAINED, TRAINED)], 0),  # one works
        ([line(TRAINED, (450, 1000, 180))], 0),
        ([line((900, 1000, 180), (900, 1000, 180))], 0),  # always so: perhaps the program is like that
        ([], 0),
    ],
)  # fmt: skip
def test_gpus_that_do_not(gpus: list[list[Point]], rate: int) -> None:
    assert gpu_suspicion(gpus, host(1800, rate), AFTER_S) is None


def test_what_is_not_known_is_not_suspected() -> None:
    unknown = [point._replace(values=(None,) * 5) for point in line(TRAINED, TRAINED)]
    assert gpu_suspicion([unknown], host(1800), AFTER_S) is None
    assert gpu_suspicion([line(TRAINED, (900, 1000, 180))], [], AFTER_S) is None
    assert task_suspicions([], AFTER_S) == []
