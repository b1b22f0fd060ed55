"""The table of engines and what the replay makes of options."""

import pytest

from penstock.values.errors import BadValue
from sim.engines import ENGINES, replay
from sim.outcome import Options
from sim.policies import policy_of
from sim.workload import from_columns, user_numbers

WORKLOAD = from_columns(
    "w",
    job_id=[1, 2, 3],
    submit_s=[0, 1, 2],
    run_s=[10, 10, 5],
    requested_s=[10, 10, 20],
    procs=[3, 4, 1],
    user=[0, 0, 1],
    gpu_milli=[0, 500, 1000],
)


def starts(**options) -> list[int]:
    return replay(WORKLOAD, Options(4, **options)).start_s.tolist()


def test_policies_estimates_and_modes() -> None:
    assert starts() == [0, 10, 20]
    assert starts(estimate="clairvoyant") == [0, 10, 2]
    assert starts(policy="fcfs", mode="event") == [0, 10, 20]
    assert starts(policy="order=smallest,backfill=none") == [0, 10, 2]


def test_the_outcome_is_measured_with_all_tres() -> None:
    options = Options(4, capacity={"gres/gpu": 2})
    outcome = replay(WORKLOAD, options)
    schedule = outcome.schedule(WORKLOAD, options)
    assert outcome.end_s.tolist() == [10, 20, 25]
    assert {name: (amount.tolist(), total) for name, (amount, total) in schedule.tres.items()} == {
        "cpu": ([3, 4, 1], 4),
        "gres/gpu": ([0, 500, 1000], 2000),
    }


def test_a_policy_by_its_choices() -> None:
    assert policy_of("backfill=easy,candidates=shortest") == policy_of("easy-sjbf")
    assert policy_of("backfill=easy,candidates=shortest,predictor=last-two,ranker=last-two") == policy_of("easypp")
    assert policy_of("easy++") == policy_of("easypp")
    assert policy_of("order=aged,backfill=easy,candidates=shortest,ranker=similar,aged_factor=5") == policy_of(
        "learned"
    )


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ("best", "policy 'best': there are fcfs, sjf, easy, easy-sjbf, easypp, conservative, learned, or choices"),
        ("order=aged,aged_factor=x", "policy 'order=aged,aged_factor=x': aged_factor is a number from 0 to 1000"),
        ("color=red", "policy 'color=red': there are fcfs"),
        ("order=red", "policy 'order=red': order is one of arrival, shortest, smallest, smallest-area, aged"),
    ],
)
def test_bad_policies(policy: str, said: str) -> None:
    with pytest.raises(BadValue) as error:
        policy_of(policy)
    assert str(error.value).startswith(said)


def test_what_cannot_be_replayed_is_said() -> None:
    with pytest.raises(BadValue, match="policy easy: job number 1 does not fit into 3 processors"):
        replay(WORKLOAD, Options(3))


def test_nothing_is_learned_of_unknown_users() -> None:
    """The last two are believed to take 5 s if users 0 made the first two, and what they ask for if nobody knows who did."""
    columns = {"submit_s": [0, 0, 6, 7, 8], "run_s": [5, 5, 10, 10, 5], "requested_s": [90, 90, 10, 50, 90]}
    known = from_columns("w", job_id=range(5), procs=[1, 1, 2, 2, 2], user=[0, 0, 1, 1, 0], **columns)
    unknown = from_columns("w", job_id=range(5), procs=[1, 1, 2, 2, 2], user=[-1, -1, 1, 1, -1], **columns)
    options = Options(2, policy="order=shortest,ranker=last-two")
    assert ENGINES["replay"](known, options).start_s.tolist() == [0, 0, 6, 21, 16]
    assert ENGINES["replay"](unknown, options).start_s.tolist() == [0, 0, 6, 16, 26]
    assert user_numbers(unknown).tolist() == [2, 3, 1, 1, 4]
