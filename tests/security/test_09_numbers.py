"""Item 9: one small number or text that means much work. What is counted is the work: rounds, calls, entries of a turn."""

import dataclasses
from typing import Any

import pytest

from ctld.core.lifecycle import depends, job_life
from ctld.core.queue.defaults import COUNT_MAX
from ctld.core.queue.shapes import run_starts
from ctld.core.records.events import CronEntry, JobSubmission, SubmitJob, UpdateCrontab
from ctld.core.requests import crontabs, het_submit, submit
from penstock.values import cron, hostlist
from penstock.values.allowance import ALLOWED
from penstock.values.dependency import format_dependency
from penstock.values.localtime import days_of_month, to_local_s
from tests.core.world import SPEC, World, make_config

NODES = 40


class Counted(int):
    """A bit map that counts what is done with it, and knows how long it became."""

    rounds = 0

    def __rshift__(self, by: int) -> "Counted":
        Counted.rounds += 1
        return Counted(int(self) >> by)

    def __and__(self, other: int) -> "Counted":
        return Counted(int(self) & other)

    __rand__ = __and__


@pytest.mark.parametrize("count", [1, 2, 3, 63, 64, 65, 9_999, 10_000, 10_001, COUNT_MAX])
def test_runs_of_adjacent_nodes_take_few_rounds(count: int) -> None:
    Counted.rounds = 0
    starts = run_starts(Counted((1 << 10_000) - 1), count, 0)
    assert int(starts).bit_count() == max(0, 10_000 - count + 1)
    assert Counted.rounds <= 14


@pytest.mark.parametrize("bits", [0, 1, 0b1011_0111, 0b1111_1111, 0b1000_0001])
def test_runs_are_those_of_the_definition(bits: int) -> None:
    for count in range(1, 10):
        for required in range(256):
            windows = [((1 << count) - 1) << start for start in range(9)]
            expected = [i for i, run in enumerate(windows) if run & bits == run and not required & ~run]
            found = run_starts(bits, count, required)
            assert [i for i in range(found.bit_length()) if found >> i & 1] == expected, (bits, count, required)


def made() -> World:
    world = World(make_config(nodes=NODES, scron_parameters=(("enable", ""),)))
    world.register("n1")
    return world


@pytest.mark.parametrize(
    "fields",
    [
        {"nodes_min": 1, "nodes_max": COUNT_MAX},
        {"nodes_min": COUNT_MAX - 1, "nodes_max": COUNT_MAX},
        {"ntasks": COUNT_MAX, "spread_job": True},
        {"ntasks": COUNT_MAX, "ntasks_per_node": 1},
    ],
    ids=str,
)
def test_a_contiguous_job_makes_no_set_that_is_longer_than_the_cluster(
    fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(
        "ctld.core.queue.shapes.run_starts",
        lambda bits, count, required: asked.append(count) or run_starts(Counted(bits), count, required),
    )
    Counted.rounds = 0
    world = made()
    world.submit(JobSubmission(name="j", work_dir=b"/", time_limit_s=600, contiguous=True, **fields))
    assert asked and Counted.rounds <= 8 * len(asked)
    assert max(map(int.bit_length, world.core.state.layout.masks.bits)) <= NODES


@pytest.mark.parametrize("text", ["0 0 29 2 *", "5 4 31 12 *", "0 0 * 2 mon", "59 23 30 */11 *"])
def test_the_next_time_is_found_by_months(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spec, steps = cron.parse_spec(text + " ")[0], []
    monkeypatch.setattr(cron, "days_of_month", lambda *of: steps.append(of) or days_of_month(*of))
    assert cron.next_us(spec, (), 1_800_000_000 * 1_000_000)
    assert len(steps) <= 9 * 12 + 1


def test_the_next_minute_of_every_hour_is_found_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    spec, steps = cron.parse_spec("0 * * * * ")[0], []
    monkeypatch.setattr(cron, "to_local_s", lambda *of: steps.append(of) or to_local_s(*of))
    assert cron.next_us(spec, (), 60 * 1_000_000) == 3600 * 1_000_000
    assert len(steps) <= 4


def crontab(world: World, texts: list[str], lines: tuple[int, int] | None = None) -> UpdateCrontab:
    entries = tuple(
        CronEntry(JobSubmission(name=f"c{i}", work_dir=b"/"), SPEC, text, *(lines or (i, i)))
        for i, text in enumerate(texts, 1)
    )
    who = world.actor("ann")
    return UpdateCrontab(who, who, "\n".join(f"{text} true" for text in texts), entries, world.reply_to())


def test_a_long_crontab_takes_many_short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    world, done, most = made(), [0], 0
    for module, name in ((submit, "check"), (submit, "new_job"), (job_life, "terminate")):
        one = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *of, one=one: done.append(1) or one(*of))
    for _ in range(2):  # the second time, it replaces the first
        world.core.begin(world.now_us, crontab(world, [f"{i % 60} 0 29 2 *" for i in range(crontabs.ENTRIES_MAX)]))
        while world.core.in_progress:
            most, done[:] = max(most, sum(done)), []
            world.core.resume()
        world.settle()
    assert 0 < most <= crontabs.SLICE_ENTRIES
    assert len(world.crontabs[1001].jobs) == crontabs.ENTRIES_MAX


def test_many_components_take_many_short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    world, done, most = made(), [0], 0
    check = submit.check
    monkeypatch.setattr(submit, "check", lambda *of: done.append(1) or check(*of))
    job = JobSubmission(name="h", work_dir=b"/", contiguous=True, nodes_min=1, nodes_max=NODES)
    event = SubmitJob(
        world.actor("ann"), "", world.now_us, job, SPEC, components=(job,) * 127, reply_to=world.reply_to()
    )
    world.core.begin(world.now_us, event)
    while world.core.in_progress:
        most, done[:] = max(most, sum(done)), []
        world.core.resume()
    world.settle()
    assert 0 < most <= het_submit.SLICE_COMPONENTS and len(world.core.state.jobs) == 128


def test_lists_in_a_crontab_are_paid_for() -> None:
    world = made()
    wide = ",".join(["1"] * (ALLOWED // crontabs.ITEM_COST // 100)) + " 1 1 1 *"
    assert "names more than" in world.do(crontab(world, [wide] * 101))[0]
    assert not world.core.state.jobs


def test_entries_share_no_lines() -> None:
    world = made()
    lines = world.do(crontab(world, ["0 0 1 1 *"] * 3, (1, crontabs.LINES_MAX // 2)))
    assert "lines together" in lines[0] and not world.core.state.jobs


def test_components_with_the_same_list_expand_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[str] = []
    monkeypatch.setattr(
        "ctld.core.queue.defaults.expand", lambda text, of: texts.append(text) or hostlist.expand(text, of)
    )
    world = made()
    job = JobSubmission(name="h", work_dir=b"/", nodes_excluded="n[2-40]")
    event = SubmitJob(world.actor("ann"), "", world.now_us, job, SPEC, components=(job,) * 9, reply_to=world.reply_to())
    world.do(event)
    assert len(world.core.state.jobs) == 10 and texts == ["n[2-40]"]


def test_terms_that_can_never_be_met_are_looked_up_in_a_set(monkeypatch: pytest.MonkeyPatch) -> None:
    failed: list[object] = []
    monkeypatch.setattr(
        depends, "format_dependency", lambda of, never: failed.append(never) or format_dependency(of, never)
    )
    world = made()
    world.submit(JobSubmission(name="a", work_dir=b"/", hold=True))
    world.submit(JobSubmission(name="b", work_dir=b"/", dependency="afterok:1"))
    assert failed and all(isinstance(never, frozenset) for never in failed)


@pytest.mark.parametrize("more", [{}, {"mem_per_gpu_mb": 1}, {"exclusive": True}, {"nodes_min": 2}], ids=str)
def test_tasks_of_a_gpu_where_there_is_none(more: dict[str, Any]) -> None:
    world = World(dataclasses.replace(make_config(nodes=NODES), gres_types=()))
    world.register("n1")
    lines = world.submit(JobSubmission(name="j", work_dir=b"/", ntasks=2, ntasks_per_gpu=1, **more))
    assert "Invalid generic resource (gres) specification" in lines[0] and not world.core.state.jobs
