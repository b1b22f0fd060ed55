"""Computes the effect of a change of policy on waiting times: runs the same jobs twice through the controller's own
core.

Reads one JSON document from stdin and writes one to stdout (for `penstock policy plan`):

    {"conf": TEXT, "jobs": [JOB, ...], "present": [CHANGE, ...], "changes": [CHANGE, ...]}
    -> {"before": {ACCOUNT: FIGURES}, "after": {ACCOUNT: FIGURES}}

JOB: user, account, partition, qos, submit_s, run_s, limit_s, procs, nodes, gpus, mem_mb. CHANGE: see `_event`. FIGURES: jobs,
refused, waiting (not started at the end of the replay), mean_s, median_s, p95_s and longest_s of the waits of those that
started.

Both runs begin with an empty cluster without past usage, with the current accounts (`present`); the second makes the
changes first. So only the policies differ, not the history. A job runs as long as it did; one that still runs, or is
pending, is assumed to need its time limit. sim/cluster.py lists what is not simulated.
"""

import json
import sys
import tempfile
from pathlib import Path

# Any: members of a document of JSON
from typing import Any

import click
import numpy as np

from ctld.core.records.events import AccountAction, Actor, ChangeAccounts, ChangeQos, JobSubmission, QosAction
from penstock.commandline import CommandLine
from penstock.config import load
from penstock.values.config import Config
from penstock.values.errors import BadValue
from penstock.values.fields import made_of
from sim.associations import ADMINISTRATOR
from sim.cluster import CHANGE_REPLIES, SITE, Play, SimCluster, scheduling, wanted_sizes
from sim.workload import Workload, from_columns

_Json = dict[str, Any]
#: What compare() takes, read from JSON.
ReplayDocument = _Json
_SHOWN = ("mean_s", "median_s", "p95_s", "refused", "waiting")


@click.command(
    "policy",
    cls=CommandLine,
    help="Run jobs under two policies: one JSON document on standard input, one on standard output.",
    examples=(("penstock policy plan site.yaml", "what calls it"),),
)
@click.option("--json", is_flag=True, expose_value=False, help="Accepted: the answer is JSON anyway.")
def command() -> int:
    """Reads one document and writes the answer."""
    try:
        answer = compare(json.load(sys.stdin))
    except json.JSONDecodeError as error:
        raise click.ClickException(f"standard input is not JSON: {error}") from error
    except BadValue as error:
        sys.stderr.write(f"penstock policy plan: error: the jobs cannot be replayed: {error}\n")
        return 1
    json.dump(answer, sys.stdout)
    return 0


def compare(document: _Json) -> _Json:
    """Runs both policies."""
    return compare_under(site_config(document["conf"]), document)


def site_config(conf: str) -> Config:
    """The configuration for both runs; a file is written and read for it. Raises BadValue."""
    return scheduling(_config(conf), SITE)


def compare_under(config: Config, document: _Json) -> _Json:
    """As compare(); opens no file."""
    present = document["present"]
    changes = document["changes"]
    jobs = in_order(document["jobs"])
    return {"before": _play(config, present, jobs), "after": _play(config, [*present, *changes], jobs)}


def _config(text: str) -> Config:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "slurm.conf"
        path.write_text(text, encoding="utf-8")
        return load(str(path)).config


def by_account(answer: _Json) -> list[_Json]:
    """The answer as rows, in the order of accounts: each figure before and after; null = no job started."""
    before, after = answer["before"], answer["after"]
    return [
        {"account": name, "jobs": before[name]["jobs"]}
        | {f"{figure}_before": before[name].get(figure) for figure in _SHOWN}
        | {f"{figure}_after": after[name].get(figure) for figure in _SHOWN}
        for name in sorted(before)
    ]


def _event(change: _Json, reply_to: int) -> ChangeAccounts | ChangeQos:
    """CHANGE is a ChangeAccountsRequest or ChangeQosRequest (it has no entity) by its fields."""
    if "entity" not in change:
        return ChangeQos(ADMINISTRATOR, QosAction(change["action"]), tuple(change["names"]), change["changes"],
                         reply_to=reply_to)  # fmt: skip
    lists: _Json = {name: tuple(change[name]) for name in ("accounts", "partitions", "users") if change.get(name)}
    return ChangeAccounts(
        ADMINISTRATOR, AccountAction(change["action"]), change["entity"], tuple(change["names"]), change["changes"],
        reply_to=reply_to, **lists,
    )  # fmt: skip


def play_of(conf: str, changes: list[_Json], jobs: list[_Json]) -> "_PolicyPlay":
    """One finished run, for callers that need more than the figures."""
    return _played(site_config(conf), changes, jobs)


def in_order(jobs: list[_Json]) -> list[_Json]:
    """Sorts by submit time, the order of a workload's rows."""
    return sorted(jobs, key=lambda job: int(job["submit_s"]))


def _play(config: Config, changes: list[_Json], jobs: list[_Json]) -> _Json:
    return _figures(jobs, _played(config, changes, jobs))


def _played(config: Config, changes: list[_Json], jobs: list[_Json]) -> "_PolicyPlay":
    cluster = SimCluster(config)
    cluster.change(_event(change, CHANGE_REPLIES + number + 1) for number, change in enumerate(changes))
    workload = _workload(jobs)
    gpus_max = config.gpus_of_largest() if config is not None else 0
    play = _PolicyPlay(cluster, workload, [_wanted(config, gpus_max, job) for job in jobs], jobs)
    if jobs:
        play.run()
    return play


def _workload(jobs: list[_Json]) -> Workload:
    columns = {name: [job[name] for job in jobs] for name in ("submit_s", "run_s", "procs")}
    return from_columns("jobs", job_id=list(range(len(jobs))), requested_s=[job["limit_s"] for job in jobs], **columns)


def _wanted(config: Config, gpus_max: int, job: _Json) -> JobSubmission:
    """A job's request, with its user. A partition that no longer exists becomes the default one."""
    fields = wanted_sizes(config, gpus_max, job["procs"], job["nodes"], 1000 * job["gpus"], job["mem_mb"])
    partitions = {partition.name for partition in config.partitions}
    names = tuple(name for name in job["partition"].split(",") if name in partitions)
    limit_s = job["limit_s"] if job["limit_s"] > 0 else None
    fields |= {"account": job["account"], "qos": job["qos"], "partitions": names}
    return made_of(JobSubmission, {"name": "job", "work_dir": b"/", "time_limit_s": limit_s, **fields})


class _PolicyPlay(Play):
    """A run with jobs of named users; refusals are counted."""

    def __init__(self, cluster: SimCluster, workload: Workload, wanted: list[JobSubmission], jobs: list[_Json]) -> None:
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


def _figures(jobs: list[_Json], play: _PolicyPlay) -> _Json:
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


def _figure(count: list[int], waits_s: list[int]) -> _Json:
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
