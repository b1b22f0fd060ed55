"""Run times predicted from ended jobs, and the order `aged` that is made with them."""

from dataclasses import replace

import pytest

from _fastsched import POLICIES
from ctld.core.queue.prediction import AGED_FACTOR, AGED_MAX_S
from ctld.core.records.events import ControlAction, ControlJobs, JobSubmission, LoadConfig, UpdateJobs
from ctld.core.state.histories import Histories
from tests.core.world import World, make_config

HOUR = 3600


def test_the_mean_of_the_last_two_ends() -> None:
    some = Histories()
    for run_s, mean_s in ((100, None), (51, 75), (9, 30)):
        some.learn(("ann",), run_s)
        assert some.mean_s(("ann",)) == mean_s
    assert some.mean_s(("bob",)) is None


def test_who_ended_no_job_for_longest_is_forgotten() -> None:
    some = Histories(room=2)
    for name in ("ann", "ann", "bob", "bob", "ann", "cyd"):
        some.learn((name,), 7)
    assert [some.mean_s((name,)) for name in ("ann", "bob", "cyd")] == [7, None, None]
    assert len(some) == 2


def aged(**extra: object) -> World:
    settings = {"penstock_backfill": "easy", "penstock_backfill_order": "aged", "def_mem_per_cpu_mb": 1}
    settings |= {"penstock_backfill_predictor": "history", "max_job_count": 1000}
    world = World(make_config(nodes=1, **(settings | extra)))  # type: ignore[arg-type]  # keywords of many types
    world.register("n1")
    return world


def submit(world: World, user: str = "ann", limit_s: int = 10 * HOUR, cpus: int = 4, **fields: object) -> int:
    wanted = JobSubmission(name="job", work_dir=b"/tmp", time_limit_s=limit_s, ntasks=cpus, **fields)  # type: ignore[arg-type]  # keywords of many types
    (line, *_) = world.submit(wanted, user)
    return int(line.split()[1].rstrip(";"))


def run(world: World, run_s: int, user: str = "ann", **asked: int) -> None:
    """A job from submission to end, on an idle node."""
    job_id = submit(world, user, **asked)
    world.started(job_id)
    world.advance(run_s)
    world.exited(job_id)


def expected(world: World, job_id: int) -> int:
    pending = world.core.state.pending
    return int(pending.expected_s[pending.rows_of(job_id)[0]])


def queue(world: World) -> list[int]:
    pending = world.core.state.pending
    return pending.table.job[pending.first(100)].tolist()


def fill(world: World) -> int:
    """Somebody's job that holds the node."""
    job_id = submit(world, "opa")
    world.started(job_id)
    return job_id


def test_a_prediction_is_from_similar_jobs_else_from_the_users_else_the_limit() -> None:
    world = aged()
    run(world, 50)
    run(world, 70)
    run(world, 1000, limit_s=HOUR)
    run(world, 2000, limit_s=HOUR)
    fill(world)
    assert expected(world, submit(world)) == 60
    assert expected(world, submit(world, limit_s=HOUR)) == 1500
    assert expected(world, submit(world, cpus=1)) == 1500  # of no such job: the user's last two
    assert expected(world, submit(world, limit_s=600)) == 600  # at most the limit
    assert expected(world, submit(world, "bob")) == 10 * HOUR


def test_without_a_predictor_it_is_the_limit_and_nothing_is_remembered() -> None:
    world = aged(penstock_backfill_predictor="none")
    run(world, 50)
    run(world, 50)
    fill(world)
    assert expected(world, submit(world)) == 10 * HOUR
    assert len(world.core.state.histories) == 0


def test_the_constants_are_those_of_the_replay() -> None:
    """Where they were tuned; the core's own are said where they are used."""
    learned = POLICIES["learned"]
    assert (learned.aged_factor, learned.aged_max_s) == (AGED_FACTOR, AGED_MAX_S)


def test_short_jobs_pass_long_ones_for_a_while_only() -> None:
    world = aged()
    fill(world)
    long = submit(world, limit_s=10 * HOUR)
    world.advance(HOUR)
    short = submit(world, limit_s=60)
    middle = submit(world, limit_s=9 * HOUR)
    assert queue(world) == [short, middle, long]
    world.advance(AGED_FACTOR * 10 * HOUR)
    assert queue(world) == [short, middle, long]  # who waits does not change places
    late = submit(world, limit_s=60)
    assert queue(world) == [short, middle, long, late]


def test_nobody_is_passed_by_who_comes_later_than_the_bound() -> None:
    world = aged()
    fill(world)
    first = submit(world, limit_s=30 * 24 * HOUR)
    world.advance(AGED_MAX_S - 60)
    second = submit(world, limit_s=1)
    assert queue(world) == [second, first]
    world.advance(60)
    assert queue(world) == [second, first]
    third = submit(world, limit_s=1)
    assert queue(world) == [second, first, third]


def test_candidates_are_tried_by_prediction_and_limits_hold_the_reservation() -> None:
    """Three of four CPUs run for 10 hours; the head wants four. Two candidates want the one that is left: the second is
    predicted to be shorter. A third, of five minutes by all predictions, may take 11 hours, and would delay the head."""
    world = aged()
    for _ in range(2):
        run(world, 300, "bob", limit_s=9 * HOUR, cpus=1)
        run(world, 300, "bob", limit_s=11 * HOUR, cpus=1)
    holder = submit(world, "opa", cpus=3)
    world.started(holder)
    other = submit(world, "opa", limit_s=HOUR, cpus=1)
    world.started(other)
    head = submit(world, limit_s=60)
    slow = submit(world, limit_s=HOUR, cpus=1)
    quick = submit(world, "bob", limit_s=9 * HOUR, cpus=1)
    too_long = submit(world, "bob", limit_s=11 * HOUR, cpus=1)
    assert queue(world)[0] == head
    world.exited(other)
    assert world.launches[-1][0] == quick
    world.exited(quick)
    assert world.launches[-1][0] == slow
    world.exited(slow)
    assert too_long in queue(world)
    assert world.core.state.jobs[quick].time_limit_s == 9 * HOUR


def test_nice_counts_in_seconds_and_priorities_set_by_hand_stay() -> None:
    world = aged()
    fill(world)
    first = submit(world, limit_s=60)
    second = submit(world, limit_s=60, nice=100)
    third = submit(world, limit_s=60 + 10)
    assert queue(world) == [first, third, second]
    for number, expected_queue in (("4294967000", [second, first, third]), ("9", [first, third, second])):
        world.do(UpdateJobs(world.actor("root"), (str(second),), {"priority": number}, {}, world.reply_to()))
        assert queue(world) == expected_queue


def test_multifactor_priorities_stay_as_they_are() -> None:
    world = aged(priority_type="priority/multifactor")
    fill(world)
    jobs = [submit(world, limit_s=limit_s) for limit_s in (10 * HOUR, 60)]
    assert queue(world) == jobs


def test_a_lost_node_teaches_nothing() -> None:
    world = aged()
    for _ in range(2):
        job_id = submit(world, requeue=False)
        world.started(job_id)
        world.advance(10)
        world.disconnect("n1")
        world.reboot("n1")
        world.register("n1")
        world.settle()
    assert len(world.core.state.histories) == 0


def test_time_in_suspension_is_no_run_time() -> None:
    world = aged()
    for _ in range(2):
        job_id = submit(world)
        world.started(job_id)
        for action, pause_s in ((ControlAction.SUSPEND, 500), (ControlAction.RESUME, 30)):
            world.do(ControlJobs(world.actor("root"), (str(job_id),), action, 0))
            world.advance(pause_s)
        world.exited(job_id)
    fill(world)
    assert expected(world, submit(world)) == 30


def test_a_restart_learns_from_the_jobs_that_are_loaded() -> None:
    world = aged()
    run(world, 50)
    run(world, 70)
    fill(world)
    before = submit(world)
    world.restart()
    world.register("n1")
    assert expected(world, before) == 60
    world.advance(world.config.min_job_age_s + 1)
    world.restart()
    assert expected(world, before) == 10 * HOUR  # they are history now


@pytest.mark.parametrize("order", ["priority", "aged"])
def test_a_reload_puts_the_queue_into_the_order_of_the_file(order: str) -> None:
    world = aged(penstock_backfill_order="priority" if order == "aged" else "aged")
    fill(world)
    jobs = [submit(world, limit_s=limit_s) for limit_s in (10 * HOUR, 60)]
    world.config = replace(world.config, penstock_backfill_order=order)
    world.do(LoadConfig(world.config, world.reply_to()))
    assert queue(world) == (jobs if order == "priority" else jobs[::-1])
