"""The judge of GPUs under any order of events: it flaps at most so often, forgets nothing over a restart, and lets go."""

from collections.abc import Callable
from typing import Any

import msgspec
from gpujudge import A, B, Judge
from hypothesis import given
from hypothesis import strategies as st

from nodedaemon.core import gpuhealth_messages as w
from nodedaemon.core.gpumessages import Answering, Hung, Process
from nodedaemon.core.gpupolicy import DAY_US, ROW, Ends
from nodedaemon.core.gpurecord import CLEARS_MAX
from penstock.values.gpustates import CLOSED_STATES

Step = Callable[[Judge], Any]

SIGNS: list[dict[str, Any]] = [
    {}, {"error": 15}, {"error": 16}, {"error": 999}, {"error": 4}, {"slow": "nvmlDeviceGetTemperature"},
    *({"recovery_action": n} for n in (1, 2, 3, 4, 7)), {"ecc_volatile": 1}, {"ecc_volatile": 3}, {"ecc_sram": 1},
    {"remap_pending": True}, {"remap_failure": True}, {"retired_pending": True}, {"retired_pages": 63},
    {"nvlink_errors": 4}, {"nvlinks_down": 1}, {"throttle": 0x8}, {"temperature_c": 95},
    {"pcie": (1, 4, 5, 16), "util_percent": 90}, {"memory_used_kb": 9_000_000},
    {"processes": (Process(77, 1000),)}, {"processes": None, "recovery_action": None, "remap_pending": None},
]  # fmt: skip


def _run(judge: Judge, number: int) -> None:
    judge.runs(number, *((A,), (B,), (A, B))[number % 3], uid=1000 + number % 4)


def _release(judge: Judge) -> None:
    for key in sorted(judge.machine.holdings)[:1]:
        judge.tell(w.Released(key))


steps: st.SearchStrategy[Step] = st.one_of(
    st.builds(lambda uuid, sign: lambda j: j.shows(uuid, **sign), st.sampled_from([A, B]), st.sampled_from(SIGNS)),
    st.builds(lambda times: lambda j: j.poll(times), st.integers(1, 8)),
    st.builds(lambda number, uuid: lambda j: j.xid(number, uuid), st.sampled_from([13, 79, 94, 109, 119, 63, 4000]),
              st.sampled_from([A, B])),
    st.builds(lambda number: lambda j: _run(j, number), st.integers(1, 9)),
    st.just(_release),
    st.builds(lambda gpu: lambda j: j.tell(Hung(j.now_us, "f", gpu)), st.sampled_from(["", A, B])),
    st.builds(lambda gpu: lambda j: j.tell(Answering(j.now_us, gpu)), st.sampled_from(["", A, B])),
    st.builds(lambda kind, ok: lambda j: j.tell(w.Worked(kind, A, ok, "no")),
              st.sampled_from([w.GpuWorkKind.CHECK, w.GpuWorkKind.RESET]), st.booleans()),
    st.just(lambda j: j.listed(j.devices[1])),
    st.just(lambda j: j.listed()),
    st.just(lambda j: j.tell(w.Listed((), j.boot, "no driver", 9))),
    st.just(lambda j: j.reboot()),
    st.builds(lambda minutes: lambda j: j.wait(minutes), st.integers(1, 600)),
)  # fmt: skip


def _closed(opinion: w.Opinion) -> int:
    """0 open, 1 closed to jobs with several GPUs, 2 closed."""
    return 0 if opinion.state not in CLOSED_STATES else 1 if opinion.many_only else 2


def _owners(judge: Judge) -> None:
    judge.owners[77] = w.GpuOwner(77, True, 1001, None, 3)


@given(st.lists(steps, max_size=60))
def test_a_gpu_opens_by_itself_at_most_three_times_a_day(plan: list[Step]) -> None:
    judge = Judge()
    _owners(judge)
    opened: list[int] = []
    before = 0
    for step in plan:
        step(judge)
        for opinion in (said for said in judge.take() if isinstance(said, w.Opinion) and said.uuid == A):
            now = _closed(opinion)
            if now < before:
                opened.append(judge.now_us)
            before = now
        assert len([at_us for at_us in opened if at_us > judge.now_us - DAY_US]) <= CLEARS_MAX


@given(st.lists(steps, max_size=40))
def test_what_should_end_does_in_the_end(plan: list[Step]) -> None:
    judge = Judge()
    _owners(judge)
    for step in plan:
        step(judge)
    judge.shows(A)
    judge.shows(B)
    judge.reboot()
    judge.tell(w.Worked(w.GpuWorkKind.CHECK, A, True))
    for _ in range(3):
        judge.poll(5)
        judge.wait(25 * 60)
    judge.poll(5)
    for uuid in (A, B):
        rows = judge.machine.memory.records[uuid].conditions
        assert all(ROW[row].ends is Ends.ADMIN for row in rows)
        judge.tell(w.Cleared(uuid))
        assert msgspec.structs.replace(judge.machine.opinion(uuid), xids=()) == w.Opinion(uuid)
    judge.poll()
    assert judge.machine.memory.drained == ""


@given(st.lists(steps, max_size=40), st.integers(0, 40))
def test_a_restart_changes_nothing_that_is_thought(plan: list[Step], at: int) -> None:
    judge = Judge()
    for step in plan[:at]:
        step(judge)
    judge.listed()
    memory = msgspec.json.decode(msgspec.json.encode(judge.machine.memory), type=w.Memory)
    again = Judge(memory=memory, before=judge)
    assert [again.machine.opinion(u) for u in (A, B)] == [judge.machine.opinion(u) for u in (A, B)]
    assert again.of(w.Opinion) == []  # nothing is told twice


@given(st.lists(steps, max_size=40))
def test_the_same_events_say_the_same(plan: list[Step]) -> None:
    said = []
    for _ in range(2):
        judge = Judge()
        for step in plan:
            step(judge)
        said.append(judge.take())
    assert said[0] == said[1]


@given(st.lists(steps, max_size=40))
def test_no_job_is_told_the_same_twice(plan: list[Step]) -> None:
    judge = Judge()
    for step in plan:
        step(judge)
        heard = [(key, action.action, action.cause) for action in judge.of(w.JobAction) for key in action.jobs]
        live = set(judge.machine.holdings)
        of_live = [entry for entry in heard if entry[0] in live]
        if len(of_live) != len(set(of_live)):
            ended = [key for key, *_ in of_live]
            raise AssertionError(f"told twice: {ended}")
        judge.said = [said for said in judge.said if not isinstance(said, w.JobAction) or live & set(said.jobs)]
