"""What steps did with their GPUs: each thing counted once, for the right one (nodedaemon/core/gpuusage.py)."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodedaemon.core.gpuidle import detect_idle
from nodedaemon.core.gpumessages import Lifetime, Process, Sample
from nodedaemon.core.gpuusage import (
    ENERGY_ESTIMATED_J,
    ENERGY_J,
    GAP_US_MAX,
    GPU_MEM_HELD_KB,
    GPU_MEM_KB,
    GPU_UTIL,
    StepUse,
    UsageLedger,
    UsageShare,
    metrics_of,
)
from nodedaemon.core.steps import StepKey
from penstock.values.jobid import BATCH_STEP, EXTERN_STEP

S = 1_000_000
G0, G1 = "GPU-0", "GPU-1"
BATCH, EXTERN, STEP0, STEP1 = (StepKey(1, 0, step) for step in (BATCH_STEP, EXTERN_STEP, 0, 1))
OTHER = StepKey(2, 0, BATCH_STEP)


def sample(uuid: str, at_s: int, util: int | None = None, mj: int | None = None, *pids: Any, **more: Any) -> Sample:
    """`pids`: (pid, memory, sm)."""
    processes = tuple(Process(*each) for each in pids)
    return Sample(uuid, at_s * S, util_percent=util, energy_mj=mj, processes=processes, **more)


def ledger(*steps: tuple[StepKey, list[UsageShare]], at_s: int = 0) -> UsageLedger:
    found = UsageLedger()
    for key, shares in steps:
        found.begin(key, at_s * S, shares)
    return found


def take(book: UsageLedger, samples: list[Sample] | tuple[Sample, ...], owners: dict[int, StepKey], **more: Any) -> Any:
    return book.take(max((one.at_us for one in samples), default=0), samples, owners, **more)


def told(ledger: UsageLedger, key: StepKey) -> dict[int, tuple[int, int, int]]:
    """Total, largest, smallest by kind."""
    return {m[0]: (m[1], m[2], m[4]) for m in metrics_of(ledger.uses[key])}


def test_one_step_one_gpu() -> None:
    book = ledger((BATCH, [UsageShare(G0, memory_kb=1000)]))
    take(book, [sample(G0, 0, 0, 5_000)], {})
    take(book, [sample(G0, 10, 80, 25_000, (7, 300, None))], {7: BATCH})
    take(book, [sample(G0, 20, 40, 35_400, (7, 700, None), (8, 100, None))], {7: BATCH, 8: BATCH})
    take(book, [sample(G0, 30, 0, 36_000)], {})
    assert told(book, BATCH) == {
        GPU_UTIL: (40, 80, 40), GPU_MEM_KB: (800, 800, 800), ENERGY_J: (31, 31, 31), GPU_MEM_HELD_KB: (1000, 1000, 1000),
    }  # fmt: skip
    assert not book.uses[BATCH].estimated


def test_what_cannot_be_told_is_unknown_and_not_nothing() -> None:
    book = ledger((BATCH, [UsageShare(G0)]))
    take(book, [Sample(G0, 0), sample(G0, 10, None, None, (7, None, None))], {7: BATCH})
    take(book, [Sample(G0, 20 * S, error=15, util_percent=3, energy_mj=1, processes=())], {})
    assert metrics_of(book.uses[BATCH]) == ()


def test_two_steps_on_two_gpus_and_the_script_above_them() -> None:
    """The script holds both; what the steps do is theirs, and what nobody does the script's."""
    book = ledger((BATCH, [UsageShare(G0), UsageShare(G1)]), (EXTERN, [UsageShare(G0), UsageShare(G1)]))
    take(book, [sample(G0, 0, 0, 0), sample(G1, 0, 0, 0)], {})
    take(book, [sample(G0, 10, 10, 1_000), sample(G1, 10, 20, 2_000)], {})
    book.begin(STEP0, 10 * S, [UsageShare(G0)])
    book.begin(STEP1, 10 * S, [UsageShare(G1)], rank=4)
    owners = {7: STEP0, 8: STEP1}
    take(book, [sample(G0, 20, 90, 5_000, (7, 10, 80)), sample(G1, 20, 50, 4_000, (8, 20, 50))], owners)
    assert told(book, STEP0) == {GPU_UTIL: (90, 90, 90), GPU_MEM_KB: (10, 10, 10), ENERGY_J: (4, 4, 4)}
    assert metrics_of(book.uses[STEP1])[0] == (GPU_UTIL, 50, 50, 4, 50, 4)
    assert told(book, BATCH) == {GPU_UTIL: (15, 20, 5), GPU_MEM_KB: (0, 0, 0), ENERGY_J: (3, 2, 1)}
    assert told(book, EXTERN) == {GPU_UTIL: (0, 0, 0), GPU_MEM_KB: (0, 0, 0)}


def test_steps_that_share_a_gpu_divide_it() -> None:
    book = ledger((STEP0, [UsageShare(G0)]), (STEP1, [UsageShare(G0)]))
    take(book, [sample(G0, 0, 0, 0)], {})
    owners = {7: STEP0, 8: STEP1}
    take(book, [sample(G0, 10, 80, 8_000, (7, 100, 30), (8, 300, 10))], owners)
    assert (told(book, STEP0)[GPU_UTIL][1], told(book, STEP1)[GPU_UTIL][1]) == (60, 20)
    assert (told(book, STEP0)[ENERGY_J][0], told(book, STEP1)[ENERGY_J][0]) == (6, 2)
    take(book, [sample(G0, 20, 80, 16_000, (7, 100, None), (8, 300, None))], owners)
    assert (told(book, STEP0)[ENERGY_J][0], told(book, STEP1)[ENERGY_J][0]) == (8, 8)
    take(book, [sample(G0, 30, 80, 24_000, (7, None, None), (8, None, None))], owners)
    assert (told(book, STEP0)[ENERGY_J][0], told(book, STEP1)[ENERGY_J][0]) == (12, 12)


def test_jobs_that_share_a_gpu_have_their_share_of_its_energy() -> None:
    book = ledger((BATCH, [UsageShare(G0, 1, 4)]), (OTHER, [UsageShare(G0, 2, 4)]))
    take(book, [sample(G0, 0, 0, 0)], {})
    take(book, [sample(G0, 10, 50, 8_000, (7, 100, 50))], {7: OTHER})
    assert (told(book, BATCH)[ENERGY_J][0], told(book, OTHER)[ENERGY_J][0]) == (2, 4)
    assert (told(book, BATCH)[ENERGY_ESTIMATED_J][0], told(book, OTHER)[ENERGY_ESTIMATED_J][0]) == (2, 4)
    assert book.uses[BATCH].estimated and book.uses[OTHER].estimated
    assert book.jobs_on(G0) == [1, 2]


def test_a_counter_that_falls() -> None:
    book = ledger((BATCH, [UsageShare(G0)]))
    take(book, [sample(G0, 0, 0, 1_000_000)], {})
    take(book, [sample(G0, 10, 0, 1_003_000)], {})
    take(book, [sample(G0, 20, 0, 2_000)], {})
    take(book, [sample(G0, 30, 0, 2_500)], {})
    assert book.uses[BATCH].gpus[G0].energy_mj == 5_500
    assert book.uses[BATCH].estimated
    assert told(book, BATCH)[ENERGY_ESTIMATED_J] == told(book, BATCH)[ENERGY_J]


def test_a_step_that_is_over_between_two_samples_has_what_was_used_meanwhile() -> None:
    book = ledger((BATCH, [UsageShare(G0)]))
    take(book, [sample(G0, 0, 0, 0)], {})
    book.begin(STEP0, 2 * S, [UsageShare(G0)])
    take(book, [sample(G0, 2, 0, 200)], {})
    take(book, [sample(G0, 5, 60, 3_200)], {}, ending=[STEP0])
    use = book.end(STEP0)
    assert use is not None and not use.estimated
    assert (use.gpus[G0].energy_mj, use.gpus[G0].util_max) == (3_000, 60)
    assert book.uses[BATCH].gpus[G0].energy_mj == 200


def test_the_rest_of_a_step_whose_processes_are_gone_was_like_its_last_sample() -> None:
    book = ledger((STEP0, [UsageShare(G0)]), (BATCH, [UsageShare(G0)]))
    take(book, [sample(G0, 0, 0, 0)], {})
    take(book, [sample(G0, 1, 90, 500, (7, 1, None))], {7: STEP0})
    take(book, [sample(G0, 9, 0, 4_500)], {}, ending=[STEP0])
    assert told(book, STEP0)[GPU_UTIL] == (90, 90, 90)
    assert told(book, BATCH)[GPU_UTIL] == (0, 0, 0)


def test_without_a_sample_at_its_beginning_a_step_has_its_part_of_the_first_difference() -> None:
    book = UsageLedger()
    take(book, [sample(G0, 0, 0, 0)], {})
    book.begin(BATCH, 6 * S, [UsageShare(G0)])
    take(book, [sample(G0, 10, 50, 10_000)], {})
    use = book.uses[BATCH]
    assert (use.gpus[G0].energy_mj, use.estimated) == (4_000, True)


def test_a_time_in_which_nobody_looked_weighs_no_more_than_the_limit() -> None:
    book = ledger((BATCH, [UsageShare(G0)]))
    take(book, [sample(G0, 0, 0, 0)], {})
    take(book, [sample(G0, 60, 100, 0)], {})
    take(book, [sample(G0, 3600, 0, 7_000)], {})
    assert book.uses[BATCH].gpus[G0].util_us == 2 * GAP_US_MAX
    assert told(book, BATCH)[GPU_UTIL] == (50, 100, 50) and told(book, BATCH)[ENERGY_J][0] == 7


def test_a_restarted_daemon_carries_on() -> None:
    whole, first = ledger((BATCH, [UsageShare(G0)])), ledger((BATCH, [UsageShare(G0)]))
    samples = [sample(G0, 10 * i, 10 * i, 1000 * i * i, (7, 100 * i, None)) for i in range(6)]
    for one in samples:
        take(whole, [one], {7: BATCH})
    for one in samples[:3]:
        take(first, [one], {7: BATCH})
    kept = msgspec.msgpack.encode(first.uses[BATCH])
    second = UsageLedger()
    second.restore([msgspec.msgpack.decode(kept, type=StepUse)], 25 * S)
    for one in samples[3:]:
        take(second, [one], {7: BATCH})
    assert second.uses == whole.uses


def test_instances_have_memory_only() -> None:
    book = ledger((BATCH, [UsageShare("MIG-1", memory_kb=500)]))
    take(book, [sample("MIG-1", 0, None, None, (7, 10, None))], {7: BATCH})
    take(book, [sample("MIG-1", 10, None, None, (7, 90, None))], {7: BATCH})
    assert told(book, BATCH) == {GPU_MEM_KB: (90, 90, 90), GPU_MEM_HELD_KB: (500, 500, 500)}


def test_memory_that_no_process_is_named_for_is_the_jobs_alone() -> None:
    book = ledger((BATCH, [UsageShare(G0)]), (EXTERN, [UsageShare(G0)]))
    take(book, [Sample(G0, 10 * S, memory_used_kb=77)], {})
    assert told(book, BATCH)[GPU_MEM_KB] == (77, 77, 77) and GPU_MEM_KB not in told(book, EXTERN)
    book.begin(OTHER, 10 * S, [UsageShare(G0, 1, 2)])
    take(book, [Sample(G0, 20 * S, memory_used_kb=99)], {})
    assert told(book, BATCH)[GPU_MEM_KB] == (77, 77, 77)


def test_a_process_of_a_step_without_gpus_is_its_jobs() -> None:
    book = ledger((BATCH, [UsageShare(G0)]))
    take(book, [sample(G0, 10, 10, None, (7, 5, None), (9, 50, None))], {7: StepKey(1, 0, 3), 9: OTHER})
    assert told(book, BATCH)[GPU_MEM_KB] == (5, 5, 5)


def test_nvml_s_own_accounting_knows_what_no_sample_met() -> None:
    book = ledger((STEP0, [UsageShare(G0), UsageShare(G1)]))
    take(book, [sample(G0, 10, 0, None, (7, 5, None)), sample(G1, 10, 30, None, (8, 6, None))], {7: STEP0, 8: STEP0})
    records = [
        Lifetime(G0, 7, 90, 10, 4000, 500, 0, False), Lifetime(G1, 8, 70, 10, 1000, 500, 0, True),
        Lifetime(G1, 99, 100, 1, 9999, 1, 0, False), Lifetime("GPU-9", 7, 1, 1, 1, 1, 0, False),
    ]  # fmt: skip
    book.add_lifetimes(STEP0, records)
    assert told(book, STEP0)[GPU_MEM_KB] == (5000, 4000, 1000)
    assert [on.util_max for on in book.uses[STEP0].gpus.values()] == [90, 30]
    book.add_lifetimes(OTHER, records)


def test_a_sample_that_was_broken_off_says_nothing() -> None:
    book = ledger((BATCH, [UsageShare(G0)]))
    take(book, [sample(G0, 0, 0, 1_000)], {})
    take(book, [Sample(G0, 10 * S, slow="nvmlDeviceGetPowerUsage")], {})
    take(book, [Sample(G0, 15 * S, util_percent=5)], {})  # this driver's counter was not to be had just then
    take(book, [sample(G0, 20, 50, 4_000)], {})
    assert told(book, BATCH)[ENERGY_J][0] == 3


# -- properties

KEYS = (BATCH, EXTERN, STEP0, STEP1)
moments = st.lists(
    st.tuples(
        st.integers(1, 30),  # seconds since the last
        st.integers(0, 100),
        st.integers(0, 50_000),
        st.lists(
            st.tuples(st.integers(0, 9), st.none() | st.integers(0, 99), st.none() | st.integers(0, 100)), max_size=4
        ),
    ),
    max_size=12,
)


@given(
    moments,
    st.dictionaries(st.integers(0, 9), st.sampled_from([*KEYS, OTHER])),
    st.sets(st.sampled_from(KEYS), min_size=1),
)
def test_nothing_is_counted_twice_or_lost(
    taken: list[tuple[int, int, int, list[Any]]], owners: dict[int, StepKey], steps: set[StepKey]
) -> None:
    """A whole GPU: its steps' energy and utilisation add up to the GPU's own, and a step never has more than 100 %."""
    book = ledger(*((key, [UsageShare(G0)]) for key in sorted(steps)))
    at_s = counter = busy = 0
    take(book, [sample(G0, 0, 0, 0)], {})
    for pause_s, util, mj, processes in taken:
        at_s, counter, busy = at_s + pause_s, counter + mj, busy + util * pause_s * S
        take(book, [sample(G0, at_s, util, counter, *processes)], owners)
    gpus = [use.gpus[G0] for use in book.uses.values()]
    slack = len(taken) * len(steps)  # each part is rounded
    assert abs(sum(on.energy_mj or 0 for on in gpus) - counter) <= slack
    assert abs(sum(on.util_percent_us for on in gpus) - busy) <= slack * 30 * S
    assert all((on.util_max or 0) <= 100 and on.util_us == at_s * S for on in gpus if taken)


# -- idle


def idle(
    book: UsageLedger, at_s: int, *samples: Sample, owners: dict[int, StepKey] | None = None, warn_s: int = 60
) -> Any:
    found = take(book, samples, owners or {}).get((1, 0), [])
    word = detect_idle(book.steps_of((1, 0)), found, at_s * S, 5, warn_s * S)
    return word and (word.uuids, word.since_us // S, word.over, word.unused)


def test_an_idle_job_is_told_once_and_once_that_it_is_over() -> None:
    book = ledger((BATCH, [UsageShare(G0), UsageShare(G1)]), (STEP0, [UsageShare(G1)]))
    assert idle(book, 10, sample(G0, 10, 4), sample(G1, 10, 60)) is None
    assert idle(book, 20, sample(G0, 20, 4), sample(G1, 20, 0)) is None
    assert idle(book, 60, sample(G0, 60, 0), sample(G1, 60, 0)) is None
    assert idle(book, 70, sample(G0, 70, 0)) is None  # only one of them was looked at
    assert idle(book, 80, sample(G0, 80, 0), sample(G1, 80, 0)) == ((G0, G1), 20, False, True)
    assert idle(book, 90, sample(G0, 90, 0), sample(G1, 90, 0)) is None
    assert idle(book, 99, sample(G0, 99, 0), sample(G1, 99, 5)) == ((G0, G1), 20, True, False)
    assert idle(book, 110, sample(G0, 110, 0), sample(G1, 110, 5)) is None


def test_an_idle_job_with_a_process_does_not_leave_its_gpu_unused() -> None:
    book = ledger((BATCH, [UsageShare(G0)]))
    owners = {7: BATCH}
    assert idle(book, 10, sample(G0, 10, 0, None, (7, 5, 0)), owners=owners) is None
    assert idle(book, 70, sample(G0, 70, 0, None, (7, 5, 0)), owners=owners) == ((G0,), 10, False, False)


@pytest.mark.parametrize("pids", [((7, 5, None),), ()])
def test_an_instance_is_idle_when_nobody_is_on_it(pids: Any) -> None:
    book = ledger((BATCH, [UsageShare("MIG-1")]))
    assert idle(book, 10, sample("MIG-1", 10, None, None, *pids), owners={7: BATCH}) is None
    word = idle(book, 90, sample("MIG-1", 90, None, None, *pids), owners={7: BATCH})
    assert word == (None if pids else (("MIG-1",), 10, False, True))


def test_nobody_is_warned_where_the_site_does_not_want_it() -> None:
    book = ledger((BATCH, [UsageShare(G0)]))
    assert idle(book, 10, sample(G0, 10, 0), warn_s=0) is None
    assert idle(book, 9999, sample(G0, 9999, 0), warn_s=0) is None
