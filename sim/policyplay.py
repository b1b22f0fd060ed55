"""What a change of policy would do to waiting times: the same jobs, twice through the controller's own core.

Reads one JSON document from stdin and writes one to stdout (`penstock policy plan` calls it; nobody else has to):

    {"conf": TEXT, "jobs": [JOB, ...], "present": [CHANGE, ...], "changes": [CHANGE, ...]}
    -> {"before": {ACCOUNT: FIGURES}, "after": {ACCOUNT: FIGURES}}

JOB: user, account, partition, qos, submit_s, run_s, limit_s, procs, nodes, gpus, mem_mb. CHANGE: see `_event`. FIGURES: jobs,
refused, waiting (not started at the end of the replay), mean_s, median_s, p95_s and longest_s of the waits of those that
started.

Both plays begin with an empty cluster on which nobody has used anything, with the accounts as they are (`present`); the
second makes the changes first. So what is compared is the policy, and not what happened before. A job runs as long as it
did; one that still runs, or waits, is taken to need its time limit. What is not played is as in sim/cluster.py.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import numpy as np

from ctld.core.events import AccountAction, Actor, ChangeAccounts, ChangeQos, QosAction, Role, WantedJob
from penstock.config import load
from penstock.values.config import Config
from penstock.values.errors import BadValue
from sim.cluster import SITE, Cluster, Play, scheduling, wanted_sizes
from sim.workload import Workload, from_columns

ADMINISTRATOR: Final = Actor(0, 0, "root", "root", (), Role.ADMINISTRATOR)
#: Replies to changes; those to jobs are their numbers.
_CHANGE_REPLIES: Final = 1 << 40

Json = dict[str, Any]


def main(argv: list[str]) -> int:
    """Answer one document."""
    try:
        answer = compare(json.load(sys.stdin))
    except BadValue as error:
        sys.stderr.write(f"penstock policy plan: error: the jobs cannot be replayed: {error}\n")
        return 1
    json.dump(answer, sys.stdout)
    return 0


def compare(document: Json) -> Json:
    """Both plays."""
    config = scheduling(_config(document["conf"]), SITE)
    present, changes, jobs = document["present"], document["changes"], in_order(document["jobs"])
    return {"before": _play(config, present, jobs), "after": _play(config, [*present, *changes], jobs)}


def _config(text: str) -> Config:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "slurm.conf"
        path.write_text(text, encoding="utf-8")
        return load(str(path)).config


def _event(change: Json, reply_to: int) -> ChangeAccounts | ChangeQos:
    """CHANGE is a ChangeAccountsRequest or ChangeQosRequest (it has no entity) by its fields."""
    if "entity" not in change:
        return ChangeQos(ADMINISTRATOR, QosAction(change["action"]), tuple(change["names"]), change["changes"],
                         reply_to=reply_to)  # fmt: skip
    lists: Json = {name: tuple(change[name]) for name in ("accounts", "partitions", "users") if change.get(name)}
    return ChangeAccounts(
        ADMINISTRATOR, AccountAction(change["action"]), change["entity"], tuple(change["names"]), change["changes"],
        reply_to=reply_to, **lists,
    )  # fmt: skip


def play_of(conf: str, changes: list[Json], jobs: list[Json]) -> "_PolicyPlay":
    """One play, over: for who wants more than the figures."""
    return _played(scheduling(_config(conf), SITE), changes, jobs)


def in_order(jobs: list[Json]) -> list[Json]:
    """By submit time, as a workload has its rows."""
    return sorted(jobs, key=lambda job: int(job["submit_s"]))


def _play(config: Config, changes: list[Json], jobs: list[Json]) -> Json:
    return _figures(jobs, _played(config, changes, jobs))


def _played(config: Config, changes: list[Json], jobs: list[Json]) -> "_PolicyPlay":
    cluster = Cluster(config)
    for number, change in enumerate(changes):
        cluster._step(_event(change, _CHANGE_REPLIES + number + 1))
    cluster.seal()
    for number, text in cluster.refused.items():
        raise BadValue(f"change {number - _CHANGE_REPLIES + 1} is refused: {text}")
    workload = _workload(jobs)
    play = _PolicyPlay(cluster, workload, [_wanted(config, job) for job in jobs], jobs)
    if jobs:
        play.run()
    return play


def _workload(jobs: list[Json]) -> Workload:
    columns = {name: [job[name] for job in jobs] for name in ("submit_s", "run_s", "procs")}
    return from_columns("jobs", job_id=list(range(len(jobs))), requested_s=[job["limit_s"] for job in jobs], **columns)


def _wanted(config: Config, job: Json) -> WantedJob:
    """What it asked for, with who it is. A partition that is not there any more is the default one."""
    fields = wanted_sizes(config, job["procs"], job["nodes"], 1000 * job["gpus"], job["mem_mb"])
    partitions = {partition.name for partition in config.partitions}
    names = tuple(name for name in job["partition"].split(",") if name in partitions)
    limit_s = job["limit_s"] if job["limit_s"] > 0 else None
    return WantedJob(
        name="job",
        work_dir=b"/",
        time_limit_s=limit_s,
        account=job["account"],
        qos=job["qos"],
        partitions=names,
        **fields,
    )


class _PolicyPlay(Play):
    """Jobs of named users; a refusal is a figure."""

    def __init__(self, cluster: Cluster, workload: Workload, wanted: list[WantedJob], jobs: list[Json]) -> None:
        super().__init__(cluster, workload, wanted, watch=True)
        self._jobs = jobs
        self._number_of: dict[int, int] = {}
        self._uids: dict[str, int] = {}
        self.refused_numbers: dict[int, str] = {}

    def submit(self, number: int) -> None:
        name = self._jobs[number]["user"]
        uid = self._uids.setdefault(name, 10_000 + len(self._uids))
        next_id = self.cluster.core.state.next_job_id
        self.cluster.submit(self.at, number, Actor(uid, uid, name, name), self.wanted[number])
        if self.cluster.core.state.next_job_id != next_id:
            self._number_of[next_id] = number
        self.at += 1

    def refused(self, texts: dict[int, str]) -> None:
        self.refused_numbers |= texts
        texts.clear()

    def number_of(self, job_id: int) -> int:
        return self._number_of[job_id]


def _figures(jobs: list[Json], play: _PolicyPlay) -> Json:
    waits: dict[str, list[int]] = {}
    counts: dict[str, list[int]] = {}
    for number, job in enumerate(jobs):
        account = job["account"]
        count = counts.setdefault(account, [0, 0, 0])
        count[0] += 1
        start_s = play.start_s[number]
        if number in play.refused_numbers:
            count[1] += 1
        elif start_s < 0:
            count[2] += 1
        else:
            waits.setdefault(account, []).append(start_s - play.offset_s - job["submit_s"])
    return {name: _figure(counts[name], waits.get(name, [])) for name in sorted(counts)}


def _figure(count: list[int], waits_s: list[int]) -> Json:
    found = {"jobs": count[0], "refused": count[1], "waiting": count[2]}
    if waits_s:
        column = np.array(waits_s)
        found |= {
            "mean_s": int(column.mean()),
            "median_s": int(np.median(column)),
            "p95_s": int(np.quantile(column, 0.95, method="higher")),
            "longest_s": int(column.max()),
        }
    return found
