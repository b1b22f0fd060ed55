"""Measures queries of a database with a long history: python -m bench.historydb PLACE [--jobs N] [--months M].

PLACE is a path or a URL; a database that has jobs already is not filled, and with --ask only queried, also while a
controller leads on it. --page N counts N attempts in a transaction, 100 by default as in the controller: more is
faster, and holds the write lock for longer.

The jobs are spread evenly over the months until now, and over 400 users of 40 accounts; half of them request GPUs; each
has a batch step. They are written without a controller, a million a minute or so, and counted by the roll-up; then each
query runs three times and the best time is printed; those about usage cover the last whole month that is
counted. 10 million jobs take 5 GB before they are counted.
"""

import argparse
import random
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, func, insert, select, update

from accounting.database import read_engine
from accounting.filter import RecordFilter
from accounting.records import Records
from accounting.rolling import PAGE_ATTEMPTS, Roller, read_marks
from accounting.rollup import HOUR_US, Calendar
from accounting.schema import ACCOUNT, ACCOUNT_USER, ASSOC, JOB, JOB_REQUEST, STEP
from accounting.usage import UsageQuery, cluster, usage
from ctld.store.committer import Store
from ctld.store.dialect import write_engine
from ctld.store.schema import META
from ctld.store.sidewriter import SideWriter
from penstock.values.states import JobState

US = 1_000_000
DAY_US = 24 * HOUR_US
USERS = 400
ACCOUNTS = 40
NODES = 500
REQUESTS = 1000
CHUNK = 20_000
REPEAT = 3
_SHAPES = (
    ("cpu=1,mem=4G,node=1,billing=1", 1, "[]"),
    ("cpu=16,mem=64G,node=1,billing=16,gres/gpu=1,gres/gpu:h200=1", 16, '[["n1",16,65536,1,[["gpu","h200","1"]]]]'),
    ("cpu=64,mem=256G,node=1,billing=64,gres/gpu=4,gres/gpu:h200=4", 64, '[["n1",64,262144,4,[["gpu","h200","f"]]]]'),
    ("cpu=4,mem=8G,node=1,billing=4", 4, '[["n1",4,8192,1,[]]]'),
)


def jobs_until(now_us: int, number: int, months: int) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Rows of `job` and `step`, in the order of submission."""
    rng, length_us = random.Random(1), months * 30 * DAY_US
    for job_id in range(1, number + 1):
        submit_us = now_us - length_us + length_us * job_id // (number + 1)
        start_us = submit_us + rng.randint(1, 3600) * US
        end_us = min(start_us + int(rng.expovariate(1 / 2400)) * US + rng.randint(1, US), now_us - 1)
        start_us = min(start_us, end_us)
        user = min(int(rng.paretovariate(1.2)), USERS) - 1
        tres, cpus, alloc = _SHAPES[rng.randrange(4)]
        node = f"n{rng.randint(1, NODES)}"
        job = {
            "job_id": job_id, "attempt": 0, "array_job_id": 0, "request_id": 1 + job_id % REQUESTS, "spec_hash": b"x" * 32,
            "user_id": 10_000 + user, "group_id": 100, "user_name": f"user{user}", "group_name": "users",
            "submit_at_us": submit_us, "name": f"job{job_id % 977}", "account": f"acc{user % ACCOUNTS}", "qos": "normal",
            "nodes_req": 1, "cpus_req": cpus, "tres_req": tres, "array_throttle": 0, "partition": "gpu",
            "state": int(JobState.COMPLETED if job_id % 20 else JobState.FAILED), "reason": "None", "reason_detail": "",
            "hold": 0, "priority": 1, "dependency": "", "eligible_at_us": submit_us, "start_at_us": start_us,
            "end_at_us": end_us, "time_limit_s": 86400, "alloc": alloc, "batch_node": node, "exit_code": 0,
            "exit_signal": 0, "derived_code": 0, "derived_signal": 0, "cancelled_by_uid": -1, "failed_node": "",
            "admin_comment": "", "tres_alloc": tres, "nodes_alloc": 1, "cpus_alloc": cpus, "node_list": node,
            "assoc_id": user + 2,
        }  # fmt: skip
        step = {
            "job_id": job_id, "attempt": 0, "step_id": -5, "name": "batch", "state": job["state"], "node": node,
            "epoch": 1, "tasks": 1, "start_at_us": start_us, "end_at_us": end_us, "exit_code": 0, "exit_signal": 0,
            "user_cpu_us": (end_us - start_us) // 2, "system_cpu_us": 0, "max_rss_kb": 1_000_000, "max_vmsize_kb": 0,
            "disk_read_bytes": 0, "disk_write_bytes": 0,
        }  # fmt: skip
        yield job, step


def fill(engine: Engine, now_us: int, number: int, months: int) -> None:
    """Write them, a chunk a transaction."""
    with engine.begin() as connection:
        requests = [
            {"request_id": i, "job_id": i, "submit_key": "", "submitted_at_us": 0, "request": b'{"name":"x"}'}
            for i in range(1, REQUESTS + 1)
        ]
        connection.execute(insert(JOB_REQUEST), requests)
    rows = jobs_until(now_us, number, months)
    while chunk := list(islice(rows, CHUNK)):
        with engine.begin() as connection:
            connection.execute(insert(JOB), [job for job, _ in chunk])
            connection.execute(insert(STEP), [step for _, step in chunk])


def settle(engine: Engine) -> None:
    """The accounts and users of these jobs, and the counters behind the jobs, so that a controller can continue from there."""
    with engine.begin() as connection:
        last = connection.execute(select(func.max(JOB.c.job_id))).scalar() or 0
        if connection.execute(select(META.c.next_job_id)).scalar_one() > last:
            return
        connection.execute(update(META).values(next_job_id=last + 1, next_request_id=REQUESTS + 1))
        accounts = [f"acc{number}" for number in range(ACCOUNTS)]
        common = {"shares": 1, "priority": 0, "made_by_itself": 0, "deleted": 0}
        connection.execute(
            insert(ASSOC),
            [{"assoc_id": user + 2, "account": accounts[user % ACCOUNTS], "user_name": f"user{user}",
              "parent": accounts[user % ACCOUNTS], **common} for user in range(USERS)]
            + [{"assoc_id": USERS + 2 + number, "account": name, "user_name": "", "parent": "root", **common}
               for number, name in enumerate(accounts)],
        )  # fmt: skip
        connection.execute(
            insert(ACCOUNT), [{"name": name, "description": "", "organization": ""} for name in accounts]
        )
        users = [{"name": f"user{user}", "default_account": accounts[user % ACCOUNTS]} for user in range(USERS)]
        connection.execute(insert(ACCOUNT_USER), users)


def best(what: str, ask: Callable[[], int]) -> None:
    """Print the best time of some."""
    times = []
    for _ in range(REPEAT):
        begun = time.perf_counter()
        found = ask()
        times.append(time.perf_counter() - begun)
    print(f"{what:55} {found:8} rows {min(times):8.3f} s", flush=True)


def main() -> None:
    """See the module text."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("place")
    parser.add_argument("--jobs", type=int, default=2_000_000)
    parser.add_argument("--months", type=int, default=12)
    parser.add_argument("--page", type=int, default=PAGE_ATTEMPTS)
    parser.add_argument("--ask", action="store_true")
    asked = parser.parse_args()
    if asked.ask:
        return ask(asked.place, time.time_ns() // 1000)
    store = Store.open(asked.place, "bench")
    now_us = time.time_ns() // 1000
    epoch = store.acquire_lease(now_us)
    store.close()
    engine = write_engine(asked.place)
    with engine.connect() as connection:
        there = connection.execute(select(func.max(JOB.c.job_id))).scalar()
    if not there:
        begun = time.perf_counter()
        fill(engine, now_us, asked.jobs, asked.months)
        print(f"{asked.jobs} jobs written in {time.perf_counter() - begun:.0f} s", flush=True)
    settle(engine)
    engine.dispose()
    count(asked.place, epoch, now_us, asked.page)
    ask(asked.place, now_us)


def count(place: str, epoch: int, now_us: int, page: int) -> None:
    """Roll it up, and say what that costs and how long one transaction is at most."""
    writer = SideWriter(place, lambda found: found == epoch)
    roller = Roller(writer.begin, writer.read, Calendar(()), "root", page)
    begun = time.perf_counter()
    longest = 0.0
    pages = 0
    while True:
        at = time.perf_counter()
        if not roller.advance(now_us - 120 * US, now_us):
            break
        pages, longest = pages + 1, max(longest, time.perf_counter() - at)
    print(f"rolled up in {time.perf_counter() - begun:.0f} s, {pages} pages, the longest took {longest * 1000:.0f} ms")
    writer.close()


def ask(place: str, now_us: int) -> None:
    """The questions."""
    with Records(place) as records:
        week = now_us - 7 * DAY_US
        for user in (0, 20, USERS - 1):
            one = RecordFilter(uids=(10_000 + user,), start_at_us=week)
            best(f"sacct -u user{user} -S now-7days", partial(_count, records, one))
        one = RecordFilter(uids=(10_020,), start_at_us=week, no_steps=True)
        best("sacct -X -u user20 -S now-7days", partial(_count, records, one))
    engine = read_engine(Path(place) if "://" not in place else place)
    with engine.connect() as connection:
        marks = read_marks(connection)
        month_us = Calendar(()).month_of(max(marks.cursor_us, marks.ended_us) - 32 * DAY_US)
        window = UsageQuery(*month_us, ("account", "user"), ("cpu", "gres/gpu"))
        calendar = Calendar(())
        best("sreport of a month by account and user", lambda: len(usage(connection, calendar, window, _all)))
        days = window._replace(start_at_us=month_us[0] + DAY_US + HOUR_US, end_at_us=month_us[1] + 7 * HOUR_US)
        best("  with edges in days and hours", lambda: len(usage(connection, calendar, days, _all)))
        best("sreport cluster of a month", lambda: len(cluster(connection, calendar, window._replace(group_by=()))))
    engine.dispose()


def _count(records: Records, asked: RecordFilter) -> int:
    return sum(1 for _ in records.list(asked))


def _all(owner: Any) -> bool:
    return True


if __name__ == "__main__":
    main()
