"""The table of engines and what the replay makes of options."""

import numpy as np
import pytest

from penstock.values.errors import BadValue
from sim.engines import ENGINES, Options, policy_of, replay
from sim.workload import from_columns

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


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ("best", "policy 'best': there are fcfs, sjf, easy, easy-sjbf, easypp, conservative, or choices"),
        ("color=red", "policy 'color=red': there are fcfs"),
        ("order=red", "policy 'order=red': order is one of arrival, shortest, smallest, smallest-area"),
    ],
)
def test_bad_policies(policy: str, said: str) -> None:
    with pytest.raises(BadValue) as error:
        policy_of(policy)
    assert str(error.value).startswith(said)


def test_what_cannot_be_replayed_is_said() -> None:
    with pytest.raises(BadValue, match="policy easy: job number 1 does not fit into 3 processors"):
        replay(WORKLOAD, Options(3))


def test_unknown_users_are_one_user() -> None:
    nobody = from_columns("w", job_id=[1], submit_s=[0], run_s=[1], requested_s=[1], procs=[1])
    assert np.array_equal(ENGINES["replay"](nobody, Options(1)).start_s, [0])
