"""No job waits longer than the stated multiple of its wait under EASY; the price of `learned` is in its table."""

from pathlib import Path

import numpy as np
import pytest

from penstock.values.errors import BadValue
from sim import __main__ as sim
from sim.bounded import FLOOR_S, over_easy
from sim.engines import ENGINES
from sim.outcome import Options
from sim.workload import Workload, from_columns


def crowd(seed: int, count: int = 400) -> Workload:
    """Long and short jobs of a few users, on a machine that is short of processors for days."""
    random = np.random.default_rng(seed)
    run_s = random.choice([60, 3600, 86_400, 4 * 86_400], count)
    return from_columns(
        "crowd",
        job_id=np.arange(count),
        submit_s=np.sort(random.integers(0, 20 * 86_400, count)),
        run_s=run_s,
        requested_s=run_s * random.integers(1, 5, count),
        procs=random.integers(1, 17, count),
        user=random.integers(0, 6, count),
    )


def waits(workload: Workload, policy: str, bound: int = 0) -> np.ndarray:
    return ENGINES["nodes"](workload, Options(32, policy, bound=bound)).start_s - workload.submit_s


@pytest.mark.parametrize("bound", [1, 2, 3])
@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_the_bound_holds_for_every_job(seed: int, bound: int) -> None:
    workload = crowd(seed)
    easy, free, bounded = waits(workload, "easy"), waits(workload, "learned"), waits(workload, "learned", bound)
    assert over_easy(bounded, easy) <= bound
    assert (bounded <= bound * np.maximum(easy, FLOOR_S)).all()
    if over_easy(free, easy) <= bound:
        assert bounded.tolist() == free.tolist()


def test_some_job_waits_longer_without_a_bound() -> None:
    found = [over_easy(waits(crowd(seed), "learned"), waits(crowd(seed), "easy")) for seed in (1, 2, 3, 4)]
    assert max(found) > 1


@pytest.mark.parametrize("policy", ["fcfs", "order=smallest,backfill=easy", "wfp3"])
def test_a_policy_that_urgent_jobs_do_not_turn_into_easy(policy: str) -> None:
    with pytest.raises(BadValue, match="--bound needs backfill easy and the orders"):
        waits(crowd(1), policy, 3)


def test_the_price_and_the_bound_are_said(tmp_path: Path, capsys) -> None:
    lines = [
        f"{k} {100 * k} 0 {run} 3 -1 -1 3 {run} -1 1 {k % 3} 1 -1 -1 -1 -1 -1" for k, run in enumerate([9, 90, 900] * 9)
    ]
    (tmp_path / "log.swf").write_text("; MaxProcs: 4\n" + "\n".join(lines) + "\n")
    words = ["run", "--trace", str(tmp_path / "log.swf"), "--policy", "learned"]
    assert sim.main(words) == 0
    notes = [line for line in capsys.readouterr().out.splitlines() if line.startswith("note: learned: against easy")]
    assert len(notes) == 1
    assert "area-weighted wait" in notes[0]
    assert "starved jobs 0 instead of 0, a job's wait up to" in notes[0]
    assert sim.main([*words, "--bound", "3"]) == 0
    text = capsys.readouterr().out
    assert "note: learned: bound 3: 0 of 27 jobs are urgent" in text
    assert "nodes, batch" in text
    assert sim.main([*words, "--bound", "3", "--engine", "replay"]) == 1
    assert "--bound is engine nodes', and policy learned would run on engine replay" in capsys.readouterr().err
