"""Reports that are made from jobs, and the figures of the cluster, against sums that were done by hand.

The clock of each test is an hour H; the store has written what a controller would have.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import Connection, select

from accounting.jobreports import JobReportQuery, efficiency, reservations, sizes, waits, waste
from accounting.purge import Access, purge
from accounting.rolling import Roller
from accounting.rollup import HOUR_US, Calendar
from accounting.tables import CLUSTER_HOUR, JOB_SPAN
from accounting.usage import UsageQuery, cluster, usage
from ctld.core.records.job import JobRow, JobSpan
from ctld.core.records.node import NodeEvent
from ctld.core.records.request import JobRequest, NodeAlloc
from ctld.core.records.reservation import Reservation, ReservationDemand, ReservationSpan
from ctld.store.dialect import write_engine
from ctld.store.loader import load
from ctld.store.schema import JOB_HISTORY
from penstock.values.errors import BadValue
from penstock.values.reservations import ResvFlag
from penstock.values.states import JobState
from tests.store.making import NOW_US, leading, make_batch, make_job, make_step, submitted

H = NOW_US - NOW_US % HOUR_US
MIN = 60
FOUR = "cpu=4,mem=400M,node=1,billing=4"
TWO_GPUS = "cpu=8,mem=800M,node=1,billing=8,gres/gpu=2"
ONE_GPU = "cpu=8,mem=800M,node=1,billing=8,gres/gpu=1"
ONE = "cpu=1,mem=100M,node=1,billing=1"


def at(minutes: float) -> int:
    """So many minutes after H."""
    return H + round(minutes * 60_000_000)


def job(
    job_id: int, account: str, tres: str, start: float, end: float | None, wait: float = 0, user: str = "ann",
    node: str = "n1", **changes: Any,
) -> JobRow:  # fmt: skip
    """It became eligible `wait` minutes before its start; `end` None = it runs."""
    since_us = at(start - wait)
    request = JobRequest(
        name=changes.pop("name", "x"),
        account=account,
        partitions=("debug",),
        reservation=changes.pop("reservation", ""),
    )
    row = make_job(
        job_id, submit_at_us=since_us, eligible_at_us=since_us, start_at_us=at(start), request=request, tres_req=tres,
        tres_alloc=tres, alloc=(NodeAlloc(node, 1, 100, 1, ()),), batch_node=node, state=JobState.RUNNING,
        user_name=user, user_id={"ann": 1001, "bob": 1002}[user],
    )  # fmt: skip
    if end is not None:
        row = row._replace(end_at_us=at(end), state=JobState.COMPLETED)
    return row._replace(**changes)


@contextmanager
def reading(place: Any) -> Iterator[Connection]:
    engine = write_engine(str(place))
    with engine.connect() as connection:
        yield connection
    engine.dispose()


def ask(start: float = 0, end: float = 60, group_by: tuple[str, ...] = ("account",), **more: Any) -> JobReportQuery:
    base = {name: more.pop(name) for name in ("tres", "accounts", "users") if name in more}
    return JobReportQuery(UsageQuery(at(start), at(end), group_by, **base), default_account="root", **more)


def everybody(owner: Any) -> bool:
    return True


def with_pasts(place: Any) -> None:
    """Job 1 was suspended 10 minutes before the window and 10 in it; job 2 gave a GPU back after 15 minutes and runs;
    job 3 is suspended since minute 50; job 4 ended before the window; job 5 names no account."""
    store = leading(place)
    jobs = [
        job(1, "physics", FOUR, -30, 30, suspended_us=1200 * 1_000_000),
        job(2, "chem", ONE_GPU, 0, None, user="bob", node="n2"),
        job(3, "physics", ONE, 40, None, state=JobState.SUSPENDED, suspended_at_us=at(50)),
        job(4, "chem", FOUR, -50, -10),
        job(5, "", ONE, 20, 25),
    ]
    spans = [
        JobSpan(1, 0, at(-20), at(-10), ""), JobSpan(1, 0, at(10), at(20), ""), JobSpan(2, 0, 0, at(15), TWO_GPUS),
    ]  # fmt: skip
    steps = [
        make_step(jobs[0], state=JobState.COMPLETED, end_at_us=at(30), user_cpu_us=1_500 * 10**6,
                  system_cpu_us=100 * 10**6, max_rss_kb=100 * 1024),
    ]  # fmt: skip
    store.commit(submitted(1, jobs, job_spans=spans, steps=steps))
    store.close()


def test_sizes_count_what_ran_in_the_window(any_store: str) -> None:
    with_pasts(any_store)
    with reading(any_store) as connection:
        found = sizes(connection, ask(bounds=(2, 5), tres=("cpu", "gres/gpu")), everybody)
        assert [(row.keys, row.tres, row.values) for row in found] == [
            (("chem", "2"), "cpu", (8 * 60 * MIN, 1)),
            (("chem", "2"), "gres/gpu", (2 * 15 * MIN + 1 * 45 * MIN, 1)),
            (("physics", "0"), "cpu", (1 * 10 * MIN, 1)),  # not since it is suspended
            (("physics", "0"), "gres/gpu", (0, 1)),
            (("physics", "1"), "cpu", (4 * (30 - 10) * MIN, 1)),  # what was suspended before the window is no matter
            (("physics", "1"), "gres/gpu", (0, 1)),
            (("root", "0"), "cpu", (1 * 5 * MIN, 1)),
            (("root", "0"), "gres/gpu", (0, 1)),
        ]
        # The second half of the window alone: job 1 has ended, nothing of it is below zero.
        found = sizes(connection, ask(start=30, bounds=(2, 5)), everybody)
        assert [(row.keys, row.values) for row in found] == [
            (("chem", "2"), (8 * 30 * MIN, 1)),
            (("physics", "0"), (1 * 10 * MIN, 1)),
        ]
        # A window that goes on after now: what runs is counted until now.
        (row,) = sizes(connection, ask(end=600, accounts=("chem",), now_us=at(90)), everybody)
        assert row.values == (8 * 90 * MIN, 1)
        assert sizes(connection, ask(start=300, end=600, now_us=at(90)), everybody) == []  # one that has not begun
        found = sizes(connection, ask(nodes=frozenset({"n2"}), accounts=("chem", "physics")), everybody)
        assert [(row.keys[0], row.values) for row in found] == [("chem", (8 * 60 * MIN, 1))]
        found = sizes(connection, ask(job_ids=("1",)), everybody)
        assert [(row.keys[0], row.values) for row in found] == [("physics", (4 * 20 * MIN, 1))]
        found = sizes(connection, ask(bounds=(1,), sizes_in_nodes=True, users=("bob",)), everybody)
        assert [(row.keys, row.values) for row in found] == [(("chem", "1"), (8 * 60 * MIN, 1))]
        found = sizes(connection, ask(bounds=(2, 5)), lambda owner: getattr(owner, "user_id", 0) == 1002)
        assert [row.keys[0] for row in found] == ["chem"]


def test_efficiency_is_of_what_was_held_while_it_ran(any_store: str) -> None:
    with_pasts(any_store)
    with reading(any_store) as connection:
        found = {row.keys: row.values for row in efficiency(connection, ask(), everybody)}
        ran_s = (60 - 20) * MIN  # all of the job, also before the window
        assert found == {
            ("physics",): (1, 1_600, 4 * ran_s, 100 * ran_s, 400 * ran_s, 0, 0),
            ("root",): (1, 0, 5 * MIN, 0, 100 * 5 * MIN, 0, 0),
        }
        assert efficiency(connection, ask(nodes=frozenset({"n2"})), everybody) == []
        assert len(efficiency(connection, ask(nodes=frozenset({"n1"})), everybody)) == 2


def test_efficiency_of_gpus(tmp_path: Any) -> None:
    """Two GPUs for 15 minutes, then one for 45; tasks used half of a GPU all the time. Two steps count one after the other."""
    place = tmp_path / "penstock.db"
    store = leading(place)
    one = job(2, "chem", ONE_GPU, 0, 60)
    done = {"state": JobState.COMPLETED, "end_at_us": at(60)}
    steps = [
        make_step(one, usage='{"7":[50,50,1,"n1",0]}', user_cpu_us=30 * 10**6, max_rss_kb=10 * 1024, nodes=2, **done),
        make_step(one, step_id=0, name="a", user_cpu_us=30 * 10**6, max_rss_kb=50 * 1024, **done),
    ]
    spans = [JobSpan(2, 0, 0, at(15), TWO_GPUS)]
    store.commit(submitted(1, [one], job_spans=spans, steps=steps))
    store.close()
    with reading(place) as connection:
        (row,) = efficiency(connection, ask(end=61), everybody)
    hour = 60 * MIN
    gpu_s = 2 * 15 * MIN + 1 * 45 * MIN
    assert row.values == (1, 60, 8 * hour, 50 * hour, 800 * hour, hour // 2, gpu_s)


def test_waste_ranks_what_was_held_and_not_used(any_store: str) -> None:
    """Each had two GPUs. Who was not measured, or has ended before, is left out; equal waste: the later job is named."""
    store = leading(any_store)
    jobs = [
        job(number, account, TWO_GPUS, *times, user=user, name=name)
        for number, account, user, name, times in (
            (1, "chem", "ann", "train", (0, 60)),
            (2, "chem", "bob", "train", (0, 30)),
            (3, "bio", "bob", "look", (0, 50)),
            (4, "bio", "bob", "look", (10, 60)),
            (5, "bio", "bob", "not measured", (0, 60)),
            (6, "bio", "bob", "before", (-30, -1)),
            (7, "chem", "ann", "busy", (0, 60)),
        )
    ]
    usage = {1: 150, 2: 0, 3: 20, 4: 20, 6: 0, 7: 200}  # percent, over both GPUs
    steps = [
        make_step(one, state=JobState.COMPLETED, end_at_us=one.end_at_us,
                  usage=f'{{"7":[{usage[one.job_id]},99,"n1",0,1,"n1",0]}}' if one.job_id in usage else "")
        for one in jobs
    ]  # fmt: skip
    store.commit(submitted(1, jobs, steps=steps))
    store.close()
    with reading(any_store) as connection:

        def found(*by: str, sees: Any = everybody, **more: Any) -> list[Any]:
            return [(*row.keys, *row.values) for row in waste(connection, ask(end=61, group_by=by, **more), sees)]

        assert found("name") == [
            ("look", 2, 2 * 90 * MIN, 2 * 100 * MIN, 4, 90 * MIN),
            ("train", 2, (30 + 60) * MIN, (120 + 60) * MIN, 2, 60 * MIN),
            ("busy", 1, 0, 120 * MIN, 7, 0),
        ]
        assert [row[:2] for row in found("user")] == [("bob", 3), ("ann", 2)]
        assert found("account", accounts=("chem",)) == [("chem", 3, 90 * MIN, 300 * MIN, 2, 60 * MIN)]
        assert [row[0] for row in found("user", sees=lambda owner: owner.user_name == "ann")] == ["ann"]
        with pytest.raises(BadValue, match="group by day"):
            found("day")


def test_waits(any_store: str) -> None:
    """Twenty waited 1 to 20 minutes, one of another account 5; who started before or after the window does not count."""
    store = leading(any_store)
    jobs = [job(i, "physics", ONE, 10, 11 if i % 2 else None, wait=i) for i in range(1, 21)]
    jobs.append(job(30, "chem", ONE, 0, None, wait=5, node="n2"))
    jobs += [job(31, "chem", ONE, -1, 50, wait=50), job(32, "chem", ONE, 60, None, wait=50)]
    jobs.append(make_job(33, request=JobRequest(name="x", account="chem", partitions=("debug",))))  # still waits
    store.commit(submitted(1, jobs))
    store.close()
    with reading(any_store) as connection:
        found = [(row.keys, row.values) for row in waits(connection, ask(), everybody)]
        assert found == [
            (("chem",), (1, 5 * MIN, 5 * MIN, 5 * MIN, 5 * MIN)),
            # 95 % of 20 are 19: the 19th of them
            (("physics",), (20, sum(range(1, 21)) * MIN, 10 * MIN, 19 * MIN, 20 * MIN)),
        ]
        (row,) = waits(connection, ask(group_by=()), everybody)
        assert row.values[:2] == (21, (210 + 5) * MIN)
        mine = [(row.keys, row.values[0]) for row in waits(connection, ask(nodes=frozenset({"n2"})), everybody)]
        assert mine == [(("chem",), 1)]


def test_waits_by_what_a_job_was_given(any_store: str) -> None:
    """The types of its GPUs and the size class of their number are keys beside the owners; who may not be seen is in none."""
    given = (ONE, f"{ONE},gres/gpu=1", f"{ONE},gres/gpu=3,gres/gpu:h100=3", f"{ONE},gres/gpu=2,gres/gpu:h100=2",
             f"{ONE},gres/gpu=8,gres/gpu:a100=4,gres/gpu:h100=4")  # fmt: skip
    store = leading(any_store)
    jobs = [job(i, "physics", tres, 10, 11, wait=i) for i, tres in enumerate(given, start=1)]
    jobs.append(job(9, "physics", ONE, 10, None, wait=30, user="bob"))
    store.commit(submitted(1, jobs))
    store.close()
    with reading(any_store) as connection:

        def found(*by: str, sees: Any = everybody) -> list[Any]:
            return [(row.keys, row.values[0], row.values[4]) for row in waits(connection, ask(group_by=by), sees)]

        assert found("partition", "gpu_type") == [
            (("debug", ""), 2, 30 * MIN), (("debug", "a100,h100"), 1, 5 * MIN), (("debug", "gpu"), 1, 2 * MIN),
            (("debug", "h100"), 2, 4 * MIN),
        ]  # fmt: skip
        assert found("gpus") == [
            (("0",), 2, 30 * MIN),
            (("1",), 1, 2 * MIN),
            (("2",), 2, 4 * MIN),
            (("8",), 1, 5 * MIN),
        ]
        assert found("gpus", sees=lambda owner: owner.user_name == "bob") == [(("0",), 1, 30 * MIN)]
        with pytest.raises(BadValue, match="group by name"):
            found("name")


def test_reservations(any_store: str) -> None:
    """Eight CPUs from minute 0 to 60; a job of four ran in it for 40 minutes, ten of which suspended; one that only has
    the name in its own did not."""
    store = leading(any_store)
    jobs = [
        job(1, "physics", FOUR, 10, 50, reservation="work"),
        job(2, "work", FOUR, 10, 50),
        job(3, "physics", ONE, 50, None, reservation="work"),
    ]
    span = ReservationSpan(7, at(0), at(60), "work", 0, "n[1-2]", "cpu=8,mem=1000M,node=2", "ann")
    none = ReservationSpan(8, at(30), at(30), "never", 0, "n1", "cpu=4,node=1", "ann")
    store.commit(submitted(1, jobs, job_spans=[JobSpan(1, 0, at(20), at(30), "")], reservation_spans=[span, none]))
    store.close()
    with reading(any_store) as connection:
        rows = reservations(connection, ask(start=55, end=200, tres=("cpu", "node")), everybody)
        keys = ("work", "7", str(at(0) // 10**6), str(at(60) // 10**6), "n[1-2]", "", "ann")
        used_s = 4 * 30 * MIN + 1 * 10 * MIN
        assert [(row.keys, row.tres, row.values) for row in rows] == [
            (keys, "cpu", (used_s, 8 * 60 * MIN - used_s)),
            (keys, "node", (30 * MIN + 10 * MIN, 2 * 60 * MIN - 40 * MIN)),
        ]
        # At minute 30 it has lasted for half of its time.
        (row,) = reservations(connection, ask(end=200, tres=("cpu",), now_us=at(30)), everybody)
        assert row.values == (4 * 10 * MIN, 8 * 30 * MIN - 4 * 10 * MIN)
        assert reservations(connection, ask(nodes=frozenset({"n3"})), everybody) == []
        assert reservations(connection, ask(names=("never",)), everybody) == []


# ---- the cluster -----------------------------------------------------------------------------------------------------


def rolled(place: Any, until: float) -> None:
    engine = write_engine(str(place))

    @contextmanager
    def begin() -> Iterator[Connection]:
        with engine.begin() as connection:
            yield connection

    roller = Roller(begin, engine.connect, Calendar(()), "root")
    while roller.advance(at(until), at(until)):
        pass
    engine.dispose()


def of_cluster(place: Any, start: float, end: float, *group_by: str) -> list[tuple[tuple[str, ...], tuple[int, ...]]]:
    with reading(place) as connection:
        found = cluster(connection, Calendar(()), UsageQuery(at(start), at(end), group_by))
    return [(row.keys, row.values) for row in found]


def registered(start: float, tres: str, end: float | None = None) -> NodeEvent:
    return NodeEvent("", at(start), 0 if end is None else at(end), "", "Cluster Registered TRES", 0, tres)


def test_an_hour_of_the_cluster(any_store: str) -> None:
    """Ten CPUs, from minute 90 on twelve. n1 (4) is down for minutes 0-15 and, inside of a maintenance of 30-50, 40-55. The
    controller was away in minutes 110-120. Jobs hold 4 CPUs in 20-60; one waits for 100 CPUs from 59 on and runs at 61
    with one of them."""
    store = leading(any_store)
    wanted = job(2, "physics", ONE, 61, None, wait=2)._replace(tres_req="cpu=100,mem=1M,node=1")
    maint = ReservationSpan(1, at(30), at(50), "fix", int(ResvFlag.MAINT), "n1", "cpu=4,mem=1M,node=1", "root")
    plain = ReservationSpan(2, at(0), at(60), "work", 0, "n2", "cpu=4,mem=1M,node=1", "ann")
    events = [
        registered(-180, "cpu=10,mem=1M,node=3", 90), registered(90, "cpu=12,mem=1M,node=3"),
        NodeEvent("n1", at(0), at(15), "DOWN", "fan", 0, "cpu=4,mem=1M,node=1"),
        NodeEvent("n1", at(40), at(55), "DRAIN", "fan", 0, "cpu=4,mem=1M,node=1"),
        NodeEvent("", at(110), at(120), "DOWN", "slurmctld disconnect", 0, "cpu=12,mem=1M,node=3"),
    ]  # fmt: skip
    store.commit(
        submitted(1, [job(1, "chem", FOUR, 20, 60), wanted], node_events=events, reservation_spans=[maint, plain])
    )
    store.close()
    rolled(any_store, 125)
    total = 10 * 60 * MIN
    allocated, down, planned_down = 4 * 40 * MIN, 4 * 15 * MIN + 4 * 5 * MIN, 4 * 20 * MIN
    planned = 100 * 1 * MIN  # it waited for one minute, and there was more room than that
    first = (
        allocated, down, planned_down, total - allocated - down - planned_down - planned, planned, total, 0, 10,
    )  # fmt: skip
    total = 10 * 30 * MIN + 12 * 30 * MIN
    allocated, down, planned = 1 * 59 * MIN, 12 * 10 * MIN, 100 * 1 * MIN
    second = (allocated, down, 0, total - allocated - down - planned, planned, total, 0, 12)
    hours = [((str(at(0) // 10**6),), first), ((str(at(60) // 10**6),), second)]
    assert of_cluster(any_store, 0, 120, "hour") == hours
    both = tuple(a + b for a, b in zip(first[:7], second[:7], strict=True))
    assert of_cluster(any_store, 0, 120) == [((), (*both, 12))]


def test_more_wanted_than_there_was_is_over(tmp_path: Any) -> None:
    """Ten CPUs, of which four are given; 100 are waited for all the hour: six are planned, the rest is over."""
    place = tmp_path / "penstock.db"
    store = leading(place)
    waiting = job(2, "physics", ONE, 60, None, wait=60)._replace(tres_req="cpu=100,mem=1M,node=1")
    store.commit(
        submitted(1, [job(1, "chem", FOUR, -10, 70), waiting], node_events=[registered(-10, "cpu=10,mem=1M,node=3")])
    )
    store.close()
    rolled(place, 60)
    hour = 60 * MIN
    assert of_cluster(place, 0, 60) == [((), (4 * hour, 0, 0, 0, 6 * hour, 10 * hour, (100 - 6) * hour, 10))]


def test_jobs_on_drained_nodes_leave_less_down(tmp_path: Any) -> None:
    """All ten CPUs are drained, four work on until minute 30: allocated counts before down."""
    place = tmp_path / "penstock.db"
    store = leading(place)
    events = [
        registered(-10, "cpu=10,mem=1M,node=1"), NodeEvent("n1", at(-5), 0, "DRAIN", "x", 0, "cpu=10,mem=1M,node=1"),
    ]  # fmt: skip
    store.commit(submitted(1, [job(1, "chem", FOUR, -10, 30)], node_events=events))
    store.close()
    rolled(place, 60)
    used, total = 4 * 30 * MIN, 10 * 60 * MIN
    assert of_cluster(place, 0, 60) == [((), (used, total - used, 0, 0, 0, total, 0, 10))]


def test_no_time_is_down_or_planned_down_twice(tmp_path: Any) -> None:
    """The controller is away in minutes 0-30; maintenance of all ten CPUs in 20-40, entered twice: 40-60 is idle."""
    place = tmp_path / "penstock.db"
    store = leading(place)
    tres = "cpu=10,mem=1M,node=1"
    spans = [
        ReservationSpan(i, at(20), at(40), f"fix{i}", int(ResvFlag.MAINT), "n1", tres, "root") for i in (1, 2)
    ]  # fmt: skip
    events = [registered(-10, tres), NodeEvent("", at(0), at(30), "DOWN", "slurmctld disconnect", 0, tres)]
    store.commit(make_batch(1, node_events=events, reservation_spans=spans))
    store.close()
    rolled(place, 60)
    assert of_cluster(place, 0, 60) == [((), (0, 10 * 30 * MIN, 10 * 10 * MIN, 10 * 20 * MIN, 0, 10 * 60 * MIN, 0, 10))]
    with reading(place) as connection:
        assert {row.count for row in connection.execute(select(CLUSTER_HOUR.c.count))} == {10, 1}


def test_a_row_without_length_is_not_the_present_one(tmp_path: Any) -> None:
    """A reservation that was moved to an earlier time, has begun and was changed there: after a restart the last change is
    what goes on, and not the row of the time that was planned first."""
    place = tmp_path / "penstock.db"
    store = leading(place)
    rows = [
        ReservationSpan(1, at(50), at(50), "work", 0, "n1", "cpu=4,node=1", "ann"),
        ReservationSpan(1, at(0), at(10), "work", 0, "n1", "cpu=4,node=1", "ann"),
        ReservationSpan(1, at(10), at(60), "work", 0, "n2", "cpu=4,node=1", "ann"),
    ]
    present = Reservation(
        "work", 1, at(10), at(60), at(10), 0, -1, ResvFlag(0), 0, 0, ReservationDemand(), (), (), (), False, (), (), False, (),
        "", at(0),
    )  # fmt: skip
    store.commit(make_batch(1, reservation_spans=rows, reservations=[present]))
    store.close()
    with reading(place) as connection:
        assert load(connection, 0, 0).reservation_spans == [rows[2]]


@pytest.mark.parametrize("make", [sizes, waits, efficiency, waste])
def test_an_empty_past(tmp_path: Any, make: Any) -> None:
    leading(tmp_path / "penstock.db").close()
    with reading(tmp_path / "penstock.db") as connection:
        assert make(connection, ask(), everybody) == []


def test_a_purge_of_suspensions_makes_no_job_run_longer(any_store: str) -> None:
    """A job of 4 CPUs for an hour that was suspended in minutes 10-20 and 40-45, and gave nothing back; one of 2 GPUs that
    gave one back at minute 30. Whatever is purged of suspensions, they have used what they used, and so it is counted."""
    store = leading(any_store)
    first = job(1, "physics", FOUR, 0, 60, suspended_us=15 * 60_000_000)
    second = job(2, "physics", ONE_GPU, 0, 60)
    gone = [JobSpan(1, 0, at(10), at(20), ""), JobSpan(1, 0, at(40), at(45), ""), JobSpan(2, 0, 0, at(30), TWO_GPUS)]
    steps = [make_step(one, state=JobState.COMPLETED, end_at_us=one.end_at_us) for one in (first, second)]
    store.commit(submitted(1, [first, second], job_spans=gone, steps=steps))
    used = {"cpu": (4 * 45 + 8 * 60) * MIN, "gres/gpu": (2 * 30 + 1 * 30) * MIN}
    rolled(any_store, 120)
    engine = write_engine(any_store)
    for until, left in ((-5, 3), (30, 2), (60, 1), (15, 1)):
        access = Access(engine.begin, engine.connect, lambda: False, JOB_HISTORY, Calendar(()))
        purge(access, "suspend", at(until), None)
        with reading(any_store) as connection:
            assert len(connection.execute(select(JOB_SPAN)).all()) == left
            ask = JobReportQuery(UsageQuery(at(-60), at(120), ("account",), ("cpu", "gres/gpu")))
            assert {row.tres: row.values[0] for row in sizes_of(connection, ask)} == used
            ((_, _, (jobs, _, cpu_s, *_rest)),) = efficiency(connection, ask, lambda owner: True)
            assert (jobs, cpu_s) == (2, used["cpu"])
            of_all = UsageQuery(at(0), at(60), tres=("cpu", "gres/gpu"))
            assert {r.tres: r.values[0] for r in usage(connection, Calendar(()), of_all, lambda owner: True)} == used
    rolled(any_store, 240)  # nothing is counted again
    with reading(any_store) as connection:
        assert {r.tres: r.values[0] for r in usage(connection, Calendar(()), of_all, lambda owner: True)} == used
    engine.dispose()
    store.close()


def sizes_of(connection: Connection, ask: JobReportQuery) -> list[Any]:
    """Of all sizes together."""
    return sizes(connection, ask, lambda owner: True)


def test_the_efficiency_of_jobs_whose_steps_are_purged_is_not_none_but_unknown(any_store: str) -> None:
    """Two jobs of 4 CPUs for an hour: the first ended three days ago and loses its step, the second has none."""
    store = leading(any_store)
    first, second = job(1, "physics", FOUR, -72 * 60, -71 * 60), job(2, "physics", FOUR, 0, 60)
    step = make_step(first, state=JobState.COMPLETED, end_at_us=first.end_at_us)._replace(user_cpu_us=7_000_000)
    store.commit(submitted(1, [first, second], steps=[step]))
    rolled(any_store, 120)
    ask = JobReportQuery(UsageQuery(at(-73 * 60), at(120), ("account",)))
    engine = write_engine(any_store)
    with engine.connect() as connection:
        assert [row.values[:3] for row in efficiency(connection, ask, lambda owner: True)] == [(2, 7, 2 * 4 * 60 * MIN)]
    access = Access(engine.begin, engine.connect, lambda: False, JOB_HISTORY, Calendar(()))
    assert purge(access, "steps", at(-60), None) == 1
    with engine.connect() as connection:
        assert [row.values[:3] for row in efficiency(connection, ask, lambda owner: True)] == [(1, 0, 4 * 60 * MIN)]
    engine.dispose()
    store.close()
