"""kill -9 of the controller while its storage is slow and deliveries wait: submissions, ends, mails, triggers, webhooks.

Storage stalls again and again: a disk by stalldisk.c, a PostgreSQL by a proxy that keeps its answers back. What was
acknowledged is there after all kills, each event has arrived, in the order of the commits, and none without its commit.
"""

import itertools
import json
import os
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

# Any: requests and replies of several methods, a controller's environment, JSON
from typing import Any

import pytest
from httpsink import HttpSink
from livecluster import CTLD, ENDED, LiveCluster, load_json
from patience import ANSWER_S, END_S
from postgres import Server
from stalldisk import StalledDisk
from tcpproxy import TcpProxy

from penstock.client import Client
from penstock.errors import PenstockError, Unreachable
from penstock.v1 import common_pb2, controller_pb2, periodic_pb2
from penstock.values.refusals import Code
from penstock.values.requestkey import new_request_key

SUBMITTERS = 3
#: Bounds of how long storage stalls, how long it goes on, and how long a controller lives.
STILL_S, GOES_ON_S, LIFE_S = (0.02, 0.5), (0.01, 0.2), (0.1, 2.5)
#: Of a job that the second webhook refuses.
REFUSED = "refused-"
FINI = 64
APPEND = '#!/bin/sh\necho "{words}" >>{path}\n'
MAIL = "$SLURM_JOB_ID $SLURM_JOB_MAIL_TYPE"
#: Refusals that pass.
PASSING = {Code.STORAGE_FULL, Code.STORAGE_AWAY, Code.STORAGE_WAITS, Code.BUSY, Code.RATE_LIMITED}


@contextmanager
def slow_disk(cluster: LiveCluster) -> Iterator[tuple[Any, Callable[[bool], None]]]:
    gate = cluster.home / "still"
    disk = StalledDisk(gate)

    def block(is_blocked: bool) -> None:
        gate.touch() if is_blocked else gate.unlink(missing_ok=True)

    yield disk.env(), block


@contextmanager
def slow_server(cluster: LiveCluster) -> Iterator[tuple[Any, Callable[[bool], None]]]:
    with Server() as server, TcpProxy(server.socket_path()) as proxy:
        url = server.new_database().partition("?")[0].replace("@/", f"@127.0.0.1:{proxy.port}/")
        with cluster.slurm_conf.open("a") as conf:
            conf.write(f"PenstockDatabaseUrl={url}\n")
        yield {}, lambda is_blocked: proxy.down.clear() if is_blocked else proxy.down.set()


class Load:
    """Calls from threads, each repeated with its key until it is answered."""

    def __init__(self, cluster: LiveCluster, seed: int) -> None:
        self.cluster = cluster
        self.named: dict[int, str] = {}  # acknowledged jobs
        self.triggers: dict[int, str] = {}  # those of which a trigger was acknowledged: job -> its program
        self.problems: list[BaseException] = []
        self.over = threading.Event()
        self._random = random.Random(seed)
        self._threads = [
            threading.Thread(target=self._run, args=(number, self._random.randrange(2**32)))
            for number in range(SUBMITTERS)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        self.over.set()
        for thread in self._threads:
            thread.join(END_S)
            assert not thread.is_alive()
        assert not self.problems, self.problems

    def _run(self, number: int, seed: int) -> None:
        rand = random.Random(seed)
        count = 0
        try:
            while not self.over.is_set():
                count += 1
                self._one(rand, f"{rand.choice(('', '', REFUSED))}{number}-{count}")
        except BaseException as error:  # told in the test's thread
            self.problems.append(error)

    def _one(self, rand: random.Random, name: str) -> None:
        kind = rand.choice(("ends", "fails", "cancelled", "requeued", "trigger"))
        job = common_pb2.JobRequest(
            name=name, work_dir=b"/tmp", std_out=b"/dev/null", hold=kind in ("cancelled", "trigger"), requeue=True,
            mail_types=rand.choice((["BEGIN", "END", "FAIL", "REQUEUE"], [])),
        )  # fmt: skip
        ending = {"fails": b"exit 3", "requeued": b"[ $SLURM_RESTART_COUNT ] || exec sleep 2"}.get(kind, b"true")
        request = controller_pb2.SubmitJobRequest(
            request_key=new_request_key(time.time_ns() // 1000, rand.randbytes(10)), job=job,
            spec=common_pb2.JobSpec(script=b"#!/bin/sh\n" + ending + b"\n", environment=[b"A=1"]),
        )  # fmt: skip
        job_id = self._persist("SubmitJob", request).job_id
        assert job_id not in self.named, f"{job_id} was {self.named[job_id]}, and is {name}"
        self.named[job_id] = name
        if kind == "trigger":
            program = str(self.cluster.work / "trigger")
            with suppress(Twice):
                self._persist("SetTrigger", periodic_pb2.SetTriggerRequest(kinds=FINI, job_id=job_id, program=program))
            self.triggers[job_id] = program
        if kind in ("cancelled", "trigger"):
            self._persist(
                "CancelJobs", controller_pb2.CancelJobsRequest(filter=controller_pb2.JobFilter(ids=[str(job_id)]))
            )
        if kind == "requeued":
            time.sleep(rand.uniform(0, 1))  # it waits, or runs, or has ended
            with suppress(Twice):
                self._persist(
                    "ControlJobs",
                    controller_pb2.ControlJobsRequest(
                        ids=[str(job_id)], action=controller_pb2.ControlJobsRequest.REQUEUE
                    ),
                )

    def _persist(self, method: str, request: Any) -> Any:
        deadline = time.monotonic() + END_S
        while True:
            try:
                with Client.open(ANSWER_S, cluster=self.cluster.file) as client:
                    return client.call(method, request)
            except PenstockError as error:
                if not isinstance(error, Unreachable) and error.code not in PASSING:
                    raise Twice(f"{method}: {error}") from error
                last = error
            assert time.monotonic() < deadline, last
            time.sleep(0.05)


class Twice(Exception):
    """A refusal, which an earlier attempt may have caused that was executed and not answered."""


class Sinks:
    """The receivers of a cluster: JobCompType, a webhook that takes all changes of jobs, and one that refuses some."""

    def __init__(self, stack: ExitStack, folder: Path, kind: str) -> None:
        self.folder, self.kind = folder, kind
        self.all, self.some, self.jobs = (stack.enter_context(HttpSink()) for _ in range(3))
        self.some.refused = REFUSED.encode()
        self.lines = folder / "jobcomp.log"

    def conf(self) -> tuple[str, ...]:
        hooks, secret = self.folder / "webhooks.yaml", self.folder / "secret"
        secret.write_text("s" * 20)
        secret.chmod(0o600)
        hooks.write_text("".join(
            f"- name: {name}\n  url: {sink.url}/\n  secret_file: {secret}\n  events: [{events}]\n"
            for name, sink, events in (("all", self.all, "job"), ("some", self.some, "job.failed, job.completed"))
        ))  # fmt: skip
        loc = {"filetxt": self.lines, "script": self._program("jobcomp", "$JOBID $JOBNAME $JOBSTATE"),
               "elasticsearch": f"{self.jobs.url}/_doc"}[self.kind]  # fmt: skip
        return (
            f"JobCompType=jobcomp/{self.kind}", f"JobCompLoc={loc}", f"PenstockWebhooks={hooks}",
            f"MailProg={self._program('mail', MAIL)}", "SlurmctldParameters=allow_user_triggers", "JobRequeue=1", "MinJobAge=86400",
        )  # fmt: skip

    def _program(self, name: str, words: str) -> Path:
        told, program = self.folder / f"{name}.told", self.folder / name
        told.touch()
        told.chmod(0o666)
        program.write_text(APPEND.format(words=words, path=told))
        program.chmod(0o755)
        return program

    def told(self, name: str) -> list[str]:
        return (self.folder / f"{name}.told").read_text().splitlines()

    def triggered(self) -> set[int]:
        """The jobs whose triggers' programs have run."""
        return {int(line) for line in self.told("trigger")}

    def completions(self) -> list[tuple[int, str, str]]:
        """Job, name and state of each completion, as they came."""
        if self.kind == "filetxt":
            found = re.findall(
                r"^JobId=(\d+) .* Name=(\S*) JobState=(\S+) .* StartTime=(\S+) ", self.lines.read_text(), re.M
            )
            return [(int(job_id), name, state) for job_id, name, state, _ in found]
        if self.kind == "script":
            return [(int(job_id), name, state) for job_id, name, state in map(str.split, self.told("jobcomp"))]
        bodies = [json.loads(one.body) for one in self.jobs.received]
        return [(body["jobid"], body["job_name"], body["state"]) for body in bodies]


CASES = [("disk", "filetxt"), ("server", "elasticsearch"), pytest.param("disk", "script", marks=pytest.mark.slow)]
KILLS = [pytest.param(2, id="a few kills"), pytest.param(60, marks=pytest.mark.slow, id="many kills")]


@pytest.mark.parametrize("kills", KILLS)
@pytest.mark.parametrize(("storage", "kind"), CASES)
def test_nothing_is_lost_or_made_up_while_a_controller_on_slow_storage_is_killed(
    storage: str, kind: str, kills: int
) -> None:
    seed = int(os.environ.get("PENSTOCK_SEED", "1"))
    with ExitStack() as stack:
        cluster = LiveCluster(1)
        stack.callback(cluster.close)
        sinks = Sinks(stack, cluster.work, kind)
        with cluster.slurm_conf.open("a") as conf:
            conf.write("\n".join((*sinks.conf(), "")))
        (cluster.work / "trigger.told").touch()
        cluster.script("trigger", APPEND.format(words="$1", path=cluster.work / "trigger.told"))
        env, block = stack.enter_context((slow_disk if storage == "disk" else slow_server)(cluster))
        cluster.start_controller(**env)
        cluster.start_node("n1")
        cluster.wait_nodes()
        load = Load(cluster, seed)
        load.start()
        rand = random.Random(seed)
        for _ in range(kills):
            dies_at = time.monotonic() + rand.uniform(*LIFE_S)
            while time.monotonic() < dies_at:
                for is_blocked, bounds in ((True, STILL_S), (False, GOES_ON_S)):
                    block(is_blocked)
                    time.sleep(min(rand.uniform(*bounds), max(0, dies_at - time.monotonic())))
            cluster.kill(CTLD)
            block(False)
            cluster.start_controller(**env)
        load.join()
        cluster.wait(lambda: not cluster.active(), "all jobs have ended", show=lambda: cluster.active()[:3])
        last = cluster.sbatch("-J", "last", "-o", "/dev/null", "--wrap", "true")
        cluster.wait(lambda: last in {one[0] for one in sinks.completions()}, "the last completion has arrived")
        for sink in (sinks.all, sinks.some):
            cluster.wait(
                lambda: any(ended(one, last) for one in events(sink)),
                "the last event has arrived",
                END_S,
                (),
                cluster.logs,
            )
        cluster.wait(lambda: load.triggers.keys() <= sinks.triggered(), "each trigger's program has run")
        letters = load_json(
            cluster.run("penstock", "db", "dead-letters", "--config", str(cluster.slurm_conf), "--json")
        )
        check(cluster, sinks, load, letters["dead_letters"], kills)
        cluster.close()  # before its storage is gone, for which its end would wait


def events(sink: HttpSink) -> list[dict[str, Any]]:
    return [json.loads(one.body) for one in sink.received]


def ended(event: dict[str, Any], job_id: int) -> bool:
    return event["job_id"] == job_id and event["state"] in ENDED


def check(cluster: LiveCluster, sinks: Sinks, load: Load, letters: list[dict[str, Any]], kills: int) -> None:
    jobs = {job.job_id: job for job in cluster.jobs()}
    assert load.named.items() <= {job_id: job.request.name for job_id, job in jobs.items()}.items()
    records = cluster.records()
    runs = Counter((record.job_id, record.request.name) for record in records)
    ends = {(record.job_id, record.state) for record in records if record.state != "REQUEUED"}

    completions = sinks.completions()
    found = Counter((job_id, name) for job_id, name, _ in completions)
    assert set(found) == set(runs) and not runs - found, runs - found
    if sinks.kind == "filetxt":
        assert found == runs, found - runs
    assert ends <= {(job_id, state) for job_id, _, state in completions}

    took: dict[str, set[int]] = {}
    for name, sink in (("all", sinks.all), ("some", sinks.some)):
        got = events(sink)
        sequence = [event["sequence"] for event in got]
        first = list(dict.fromkeys(sequence))
        assert first == sorted(first)
        assert sum(a >= b for a, b in itertools.pairwise(sequence)) <= kills
        assert all(jobs[event["job_id"]].request.name == event["name"] for event in got)
        took[name] = {event["job_id"] for event in got if event["state"] in ENDED}
    assert took["all"] == set(jobs)
    assert ends <= {(event["job_id"], event["state"]) for event in events(sinks.all)}
    as_ended = dict.fromkeys((e["job_id"], e["state"]) for e in events(sinks.all) if e["state"] in ENDED)
    assert list(as_ended) == list(dict.fromkeys((i, state) for i, _, state in completions if state in ENDED))
    of_refused = {
        job_id
        for job_id, job in jobs.items()
        if job.request.name.startswith(REFUSED) and job.state in ("FAILED", "COMPLETED")
    }
    assert {json.loads(letter["body"])["job_id"] for letter in letters} == of_refused
    assert took["some"] == {i for i, job in jobs.items() if job.state in ("FAILED", "COMPLETED")} - of_refused

    mails = Counter(sinks.told("mail"))
    assert not [
        mail for mail, count in mails.items() if count > 1 and "Requeued" not in mail and "Began" not in mail
    ], mails
    log = (cluster.home / "log" / "ctld.log").read_text()
    assert "Traceback" not in log, log[-4000:]
    print(f"{len(jobs)} jobs, {sum(runs.values())} ends, {sum(found.values())} completions, {len(sinks.all.received)} events, "
          f"{len(letters)} dead letters, {sum(mails.values())} mails, {len(sinks.told('trigger'))} triggers, {kills} kills")  # fmt: skip
