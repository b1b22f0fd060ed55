"""Measures the cost of limits in the core: 20,000 pending jobs of 2,000 users in 200 accounts, every one of which has
limits.

    python -m bench.limitsbench

The same jobs once without AccountingStorageEnforce and once with limits. CPU times of this process: of a submission, of the
passes that start what fits, and of a job's end with the start of the next. With limits 10 CPUs of an account hold most
jobs back; without them the nodes do.
"""

import dataclasses
import time
from typing import NamedTuple

from bench.incore import SPEC, US, CoreCluster, make_config
from ctld.core.records.events import AccountAction, Actor, ChangeAccounts, JobSubmission, Role, SubmitJob

ACCOUNTS = 200
USERS = 2_000
JOBS = 20_000
NODES = 50
CPUS = 64
ENDS = 500
ROOT = Actor(0, 0, "root", "root", (), Role.ADMINISTRATOR)
ROUNDS = 3


class Took(NamedTuple):
    """CPU seconds."""

    submissions: float
    passes: float
    ends: float
    running: int


def measure(enforce: tuple[str, ...]) -> Took:
    """One run."""
    config = dataclasses.replace(make_config(NODES, CPUS), enforce=enforce, max_job_count=100_000)
    cluster = CoreCluster(config)
    core, state = cluster.core, cluster.core.state
    for number in range(ACCOUNTS):
        limits = {"grptres": "cpu=10", "grptresrunmins": "cpu=100000"}
        core.step(cluster.now_us(), ChangeAccounts(ROOT, AccountAction.ADD, "account", (f"a{number}",), limits))
    for number in range(USERS):
        name, account = f"u{number}", f"a{number % ACCOUNTS}"
        limits = {"maxjobs": "20", "maxtresperjob": "cpu=4"}
        core.step(cluster.now_us(), ChangeAccounts(ROOT, AccountAction.ADD, "user", (name,), limits, (account,)))
    cluster.seal()
    began = time.process_time()
    for number in range(JOBS):
        user = number * 7919 % USERS
        name = f"u{user}"
        actor = Actor(2000 + user, 2000 + user, name, name)
        now_us = cluster.now_us()
        job = JobSubmission(
            work_dir=b"/", name="true", account=f"a{user % ACCOUNTS}", ntasks=number % 3 + 1, time_limit_s=3600
        )
        core.step(now_us, SubmitJob(actor, f"{now_us:016x}{number:016x}", now_us, job, SPEC))
    submitted = time.process_time()
    while cluster.seal() or cluster.plan is not None or state.scheduling.quick_pass_due:
        cluster.run_plan()
    passed = time.process_time()
    for _ in range(ENDS):
        cluster.end_some(1)
        cluster.seal()
    ended = time.process_time()
    core.check()
    running = sum(job.start_at_us > 0 and not job.end_at_us for job in state.jobs.values())
    return Took(submitted - began, passed - submitted, ended - passed, running)


def main() -> None:
    """Both, best of some rounds."""
    for enforce in ((), ("associations", "limits", "qos", "safe")):
        runs = [measure(enforce) for _ in range(ROUNDS)]
        best = Took(*(min(values) for values in zip(*runs, strict=True)))
        print(
            f"{'with limits' if enforce else 'without   '}: submission {best.submissions / JOBS * US:.0f} us, "
            f"first passes {best.passes * 1000:.0f} ms, end and next start {best.ends / ENDS * US:.0f} us, "
            f"{best.running:.0f} run"
        )


if __name__ == "__main__":
    main()
