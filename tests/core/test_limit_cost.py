"""What limits cost, counted in books and jobs that are looked at: it grows neither with accounts nor with what waits."""

import pytest

from ctld.core.lifecycle import limit_wake
from ctld.core.lifecycle.ready import refresh
from ctld.core.records.events import JobSubmission, SubmitJob, Tick
from tests.core.limitscript import set_limits
from tests.core.world import SPEC, World, make_config

US = 1_000_000


def make_world(accounts: int, jobs: int) -> World:
    """`jobs` of one account that may have 8 CPUs, among many others. The core checks itself once, not at each step."""
    world = World(make_config(nodes=4, cpus=64, mem_mb=64_000, enforce=("associations", "limits")))
    for number in range(accounts):
        set_limits(world, {"account": f"a{number}"}, {"grptres": "cpu=8"})
        set_limits(world, {"account": f"a{number}", "user": "ann"}, {"maxjobs": "100"})
    world.do(Tick())
    for name in world.running:
        world.register(name)
    wanted = JobSubmission(name="job", work_dir=b"/tmp", account="a0", time_limit_s=600)
    for number in range(jobs):
        event = SubmitJob(world.actor("ann"), f"{number:032x}", world.now_us, wanted, SPEC)
        world.core.step(world.now_us, event)
    world.settle()
    return world


def cost_of_an_end(world: World, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """Books and jobs that are touched when one job ends and the next starts."""
    state = world.core.state
    assert state.limits.ledger is not None
    _node, (job_id, _) = next((node, key) for node, steps in world.running.items() for key in steps)
    looks: list[int] = []
    monkeypatch.setattr(
        limit_wake, "refresh", lambda state, job, now: (looks.append(job.job_id), refresh(state, job, now))
    )
    check = world.core.check
    monkeypatch.setattr(world.core, "check", lambda: None)
    world.core.check = lambda: None  # type: ignore[method-assign]  # of one core, and put back
    before = state.limits.ledger.touches
    world.exited(job_id)
    touches = state.limits.ledger.touches - before
    world.core.check = check  # type: ignore[method-assign]  # of one core, and put back
    world.core.check()
    assert sum(entry.runs for entry in state.limits.ledger.entries.values()) == 8, "the next one has started"
    return touches, len(looks)


def test_a_job_end_costs_what_it_wakes(monkeypatch: pytest.MonkeyPatch) -> None:
    touches, looks = cost_of_an_end(make_world(3, 40), monkeypatch)
    assert looks == 1
    more = cost_of_an_end(make_world(300, 400), monkeypatch)
    assert more == (touches, looks)


def test_a_thousand_jobs_under_eight_gpus_start_eight_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    world = make_world(1, 1000)
    state = world.core.state
    assert state.limits.ledger is not None
    assert sum(entry.runs for entry in state.limits.ledger.entries.values()) == 8
    assert len(state.limits.ledger.waiting) == 992
    assert cost_of_an_end(world, monkeypatch)[1] == 1
