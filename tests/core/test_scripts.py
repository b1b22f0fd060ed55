"""Text scenarios: command, `----`, what came out. `PENSTOCK_BLESS=1 pytest tests/core/test_scripts.py` rewrites the
outputs.

Commands (one a block, arguments as key=value; see COMMANDS below):
    cluster nodes=2 cpus=4 mem=4000 gpus=0 KEY=VALUE   a fresh cluster, all nodes registered (KEY: field of Config;
                                                        partition.NAME=FIELD=VALUE;... : fields of PartitionConfig)
    site KEY=VALUE ...                                  a fresh cluster with switches, sockets, features: sites.py
    het 0.FIELD=VALUE 1.FIELD=VALUE ... / ready          a heterogeneous job / the queue of ready jobs
    submit user=ann FIELD=VALUE ...                     FIELD: field of JobSubmission; begin_in and deadline_in in seconds
    held 1 / licenses                                   what a job holds inside its nodes / what is free of each kind
    start 1 / exit 1 code=0 signal=0 ago=0              what the node reports, and how long ago it was
    gone 1 / late 1 code=0                              a step ends unseen / its node says so now
    busy / idle                                         a commit is in flight / is done
    clock -3600 / reload n1 n2                          the wall clock is set / scontrol reconfigure with these nodes
    cancel ids user= signal= batch= full= / hold / release / requeue / requeue_special / top / suspend / resume ids user=
    update ids user= key=value                          scontrol update; dates in seconds from now
    qos add|modify|delete NAME key=value / qos
    node n1 state=drain reason=x / partition debug state=down
    notice n1 drain|fail|clear reason=x job=1           what a node says of itself
    disconnect n1 / register n1 / reboot n1 / restart / advance 10
    fenced n1 off=true text=                            the fencing program's answer
    await 1 / jobs / nodes / story 1 / request 1
    named n1 0 1 / gpu n1 0 FAILED ... / gpus n1 / told 1 / ...    GPUs with names: gpuscript.py
    accounts add|modify|remove account|user NAME ... in=ACCOUNT user=root KEY=VALUE   sacctmgr
    priorities / shares                                 what sprio and sshare read
    reserve NAME key=value ... / rechange NAME key=value ... / unreserve NAME    keys of scontrol; user= is who asks
    crontab user=ann as=root 1=0_5_*_*_* 1.FIELD=VALUE 2=@hourly / crontab remove / crontabs / due 1      cronscript.py
    trigger KIND ... nodes=n1 job=1 offset=0 program=/x user=root permanent=true / untrigger id= job= user=
    triggered 1 / triggers                              a trigger's program has ended / all triggers
    limit / counts / obstacles                          limits of accounts and QOS: limitscript.py
    reservations                                        all, with seconds since the scenario began
    spans / reserved                                    what was written for accounting of suspensions, of reservations
Every command is followed by the core's own `check()`.
"""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ctld.core.lifecycle.suspend import run_us
from ctld.core.queue import priority
from ctld.core.records.decay import USAGE_ONE
from ctld.core.records.events import (
    AccountAction,
    AwaitJob,
    CancelJobs,
    ChangeAccounts,
    ChangeQos,
    ClockJumped,
    ControlAction,
    ControlJobs,
    CreateReservation,
    DeleteReservation,
    Event,
    JobFilter,
    JobSubmission,
    QosAction,
    ReservationSettings,
    UpdateJobs,
    UpdateNodes,
    UpdatePartition,
    UpdateReservation,
)
from ctld.core.records.request import JobRequest
from ctld.core.requests.update_keys import DATES
from ctld.core.state.fairshare import Assoc
from ctld.rpc.cluster.reservations import Names, reservation_info, wanted_reservation
from ctld.runtime.errors import BadRequest
from penstock.values.config import PartitionConfig
from penstock.values.licenses import parse_licenses
from penstock.values.limits import texts
from penstock.values.states import COMPACT_STATE, JobState
from penstock.values.taskset import TaskSet
from tests.core.cronscript import CronCommands
from tests.core.gpuscript import GpuCommands
from tests.core.hetscript import HetCommands
from tests.core.limitscript import LimitCommands
from tests.core.sites import make_site
from tests.core.stepscript import StepCommands
from tests.core.world import START_US, USERS, World, make_config

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.txt"))
BYTES_FIELDS = ("work_dir", "std_out", "std_err", "std_in", "submit_dir")
INT_FIELDS = frozenset(field.name for field in msgspec.structs.fields(JobSubmission) if field.type in (int, int | None))


def _split(words: list[str]) -> tuple[list[str], dict[str, str]]:
    plain = [w for w in words if "=" not in w]
    return plain, dict(w.split("=", 1) for w in words if "=" in w)


def _value(text: str) -> object:
    return int(text) if text.lstrip("-").isdigit() else {"true": True, "false": False}.get(text, text)


def _config_value(name: str, text: str) -> object:
    """A field of Config or PartitionConfig: `SUSPEND,GANG`, `youngest_first,suspend_grace_time=5`."""
    if name == "mpi_ports":
        return tuple(map(int, text.split("-")))
    if name in ("requeue_exit", "requeue_exit_hold"):
        return tuple(map(int, text.split(",")))
    if name == "preempt_mode":
        return tuple(text.split(","))
    if name in ("preempt_parameters", "scheduler_parameters", "scron_parameters", "slurmctld_parameters"):
        return tuple((word.partition("=")[0], word.partition("=")[2]) for word in text.split(","))
    if isinstance(text, str) and name == "enforce":
        return tuple(text.split(","))
    return _value(text) if isinstance(text, str) else text


class Script(StepCommands, HetCommands, GpuCommands, CronCommands, LimitCommands):
    """Runs the commands of one file against one world."""

    world: World

    def cluster(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """cluster nodes=2 cpus=4 mem=4000 gpus=0 KEY=VALUE: a fresh cluster whose nodes have registered."""
        shape = {k: int(keys.pop(k)) for k in ("nodes", "cpus", "gpus", "shards", "mps") if k in keys}
        mem = int(keys.pop("mem", 4000))
        partitions = _partitions(keys, shape.get("nodes", 2))
        more: dict[str, Any] = {k: _config_value(k, v) for k, v in keys.items()}
        if partitions:
            more["partitions"] = partitions
        if "licenses" in keys:
            more["licenses"] = parse_licenses(keys["licenses"])
        self.world = World(make_config(mem_mb=mem, **shape, **more))
        return [line for node in self.world.config.nodes for line in self.world.register(node.name)]

    def submit(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """submit user=ann key= FIELD=VALUE [test]: a batch job; `test`: as sbatch --test-only."""
        user, key = keys.pop("user", "ann"), keys.pop("key", "")
        fields: dict[str, Any] = {}
        for name, text in keys.items():
            if name in INT_FIELDS:
                fields[name] = int(text)
            elif name in BYTES_FIELDS:
                fields[name] = text.encode()
            elif name == "mail_types" or name == "partitions":
                fields[name] = tuple(text.split(","))
            elif name == "gres":
                entries = (one.split(":") for one in text.split(","))
                fields["gres_per_node"] = tuple((kind, type_, int(count)) for kind, type_, count in entries)
            elif name in ("begin_in", "deadline_in"):
                fields[name.replace("_in", "_at_us")] = self.world.now_us + int(text) * 1_000_000
            else:
                fields[name] = _value(text) if text in ("true", "false") else text
        wanted = JobSubmission(**{"name": "job", "work_dir": b"/tmp", **fields})
        return self.world.submit(wanted, user, key, "test" in plain)

    def start(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """start JOB...: the node reports the start of the script."""
        return [line for job_id in plain for line in self.world.started(int(job_id))]

    def exit(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """exit JOB... code=0 signal=0 failure= ago=0 [oom] [untried] [rebooted] [lease_lapsed]: the node reports its end."""
        code, signal = int(keys.get("code", 0)), int(keys.get("signal", 0))
        failure, oom = keys.get("failure", "").replace("~", " "), "oom" in plain
        more: dict[str, Any] = {word: True for word in plain if word in ("untried", "rebooted", "lease_lapsed")}
        more["ago_s"] = int(keys.get("ago", 0))
        ids = [int(word) for word in plain if word.isdigit()]
        return [line for job_id in ids for line in self.world.exited(job_id, code, signal, failure, oom, **more)]

    def again(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """An exit report that comes (again): again n1 JOB ATTEMPT."""
        return self.world.report_exit(plain[0], int(plain[1]), int(plain[2]), int(keys.get("code", 0)))

    def notice(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """notice n1 drain|fail|clear reason=x job=1: what a node says of itself."""
        flags = {word: True for word in plain[1:]}
        return self.world.notice(plain[0], keys["reason"], int(keys.get("job", 0)), **flags)

    def cancel(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """cancel IDS user=ann name= signal= batch= full= cron=: scancel."""
        actor = self.world.actor(keys.get("user", "ann"))
        which = JobFilter(ids=tuple(plain), names=tuple(n for n in [keys.get("name", "")] if n))
        signal_no, cron = int(keys.get("signal", 0)), keys.get("cron") == "true"
        batch, full = keys.get("batch") == "true", keys.get("full") == "true"
        reply_to = self.world.reply_to()
        return self.world.do(CancelJobs(actor, which, signal_no, batch, full, reply_to=reply_to, cron=cron))

    def _control(self, action: ControlAction, plain: list[str], keys: dict[str, str]) -> list[str]:
        actor = self.world.actor(keys.get("user", "ann"))
        return self.world.do(ControlJobs(actor, tuple(plain), action, self.world.reply_to()))

    def hold(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """hold IDS user=ann: scontrol hold."""
        return self._control(ControlAction.HOLD, plain, keys)

    def release(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """release IDS user=ann: scontrol release."""
        return self._control(ControlAction.RELEASE, plain, keys)

    def top(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """top IDS user=ann: scontrol top."""
        return self._control(ControlAction.TOP, plain, keys)

    def suspend(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """suspend IDS user=opa: scontrol suspend."""
        return self._control(ControlAction.SUSPEND, plain, {"user": "opa", **keys})

    def resume(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """resume IDS user=opa: scontrol resume."""
        return self._control(ControlAction.RESUME, plain, {"user": "opa", **keys})

    def requeue(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """requeue IDS user=ann: scontrol requeue."""
        return self._control(ControlAction.REQUEUE, plain, keys)

    def requeuehold(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """requeuehold IDS user=ann: scontrol requeuehold."""
        return self._control(ControlAction.REQUEUE_HOLD, plain, keys)

    def requeue_special(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """requeue_special IDS user=ann: scontrol requeuehold State=SpecialExit."""
        return self._control(ControlAction.REQUEUE_SPECIAL, plain, keys)

    def _dates(self, keys: dict[str, str]) -> dict[str, int]:
        return {name: self.world.now_us + int(keys[name]) * 1_000_000 for name in DATES if keys.get(name)}

    def update(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """update IDS user=ann KEY=VALUE: scontrol update; dates in seconds from now. records=1: sacctmgr modify job."""
        actor = self.world.actor(keys.pop("user", "ann"))
        of_records = bool(keys.pop("records", ""))
        dates = self._dates(keys)
        return self.world.do(UpdateJobs(actor, tuple(plain), keys, dates, self.world.reply_to(), of_records=of_records))

    def request(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """What a job asks for, where that is not the default."""
        request = self.world.core.state.jobs[int(plain[0])].request
        fields = sorted(msgspec.structs.asdict(request).items())
        return [" ".join(f"{k}={v!r}" for k, v in fields if v != getattr(JobRequest(), k) and k not in BYTES_FIELDS)]

    def qos(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """qos add|modify|delete NAME,... key=value; qos = show."""
        if not plain:
            shown = [
                (qos, " ".join(f"{k}={v}" for k, v in texts(qos.limits).items()))
                for qos in self.world.core.state.qos.values()
            ]
            return [" ".join([*map(str, qos[:9]), *([limits] if limits else [])]) for qos, limits in shown]
        actor = self.world.actor(keys.pop("user", "opa"))
        action = QosAction[plain[0].upper()]
        return self.world.do(ChangeQos(actor, action, tuple(plain[1].split(",")), keys, self.world.reply_to()))

    def node(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """node NAME user=root KEY=VALUE: scontrol update nodename=."""
        actor = self.world.actor(keys.pop("user", "root"))
        return self.world.do(UpdateNodes(actor, tuple(plain), keys, self.world.reply_to()))

    def stopped(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """The jobs that were sent SIGSTOP and no SIGCONT since."""
        return [str(job.job_id) for job in self.world.core.state.jobs.values() if job.stopped] or ["none"]

    def labels(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """The MCS label of each job, and whether it keeps others from its nodes."""
        jobs = [(job.job_id, job.request) for job in self.world.core.state.jobs.values()]
        return [f"{number} {r.mcs_label or '-'}{' apart' if r.apart_label else ''}" for number, r in jobs]

    def instances(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """The instance of each node in a cloud."""
        return [f"{n.name} {n.instance_id or '-'} {n.instance_type or '-'}" for n in self.world.core.state.node_list]

    def partition(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """partition NAME user=root KEY=VALUE: scontrol update partitionname=."""
        actor = self.world.actor(keys.pop("user", "root"))
        return self.world.do(UpdatePartition(actor, plain[0], keys, self.world.reply_to()))

    def disconnect(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """disconnect NODE: its stream ends."""
        return self.world.disconnect(plain[0])

    def register(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """register NODE KEY=VALUE: it connects and registers, with its running steps."""
        return self.world.register(plain[0], **{k: _value(v) for k, v in keys.items()})

    def reboot(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """reboot NODE: it loses its steps, and has another boot id when it registers."""
        self.world.reboot(plain[0])
        return []

    def fenced(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """fenced NODE off=true|false text=: the answer of the fencing program."""
        return self.world.fenced(plain[0], keys["off"] == "true", keys.get("text", ""))

    def restart(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """restart: a new core from the committed rows."""
        self.world.restart()
        return self.world.settle()

    def gone(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """The step ends on its node, which is out of reach and will say so later (late)."""
        for word in plain:
            node, attempt = self.world.where(int(word))
            del self.world.running[node][int(word), attempt]
            self.world.ended[node][int(word), attempt] = self.world.now_us
        return []

    def late(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """Now the node says it."""
        lines = []
        for node, job_id, attempt, at_us in self.world.take_ended(plain):
            ago_s = (self.world.now_us - at_us) // 1_000_000
            lines += self.world.report_exit(node, job_id, attempt, int(keys.get("code", 0)), ago_s=ago_s)
        return lines

    def busy(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """A commit is in flight: events are stepped, nothing is sealed until `idle`."""
        self.world.busy = True
        return []

    def idle(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """idle: the commit of `busy` is done."""
        self.world.busy = False
        return self.world.settle()

    def clock(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """The wall clock is set, by so many seconds; forward, the runtime says so before it is."""
        jump_us = int(plain[0]) * 1_000_000
        lines = self.world.do(ClockJumped(jump_us)) if jump_us > 0 else []
        self.world.now_us += jump_us
        return lines

    def reload(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """A configuration with these nodes only."""
        return self.world.reload(plain)

    def advance(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """advance SECONDS: time passes, and timers expire."""
        return self.world.advance(float(plain[0]))

    def await_(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """await JOB: a caller waits for its end, as sbatch --wait does."""
        return self.world.do(AwaitJob(self.world.actor("ann"), int(plain[0]), self.world.reply_to()))

    def jobs(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """jobs: all jobs with state, reason, dependency, exit status and attempt."""
        lines = []
        for job in sorted(self.world.core.state.jobs.values(), key=lambda j: j.job_id):
            array = ""
            if job.array_job_id:
                tasks = job.array_tasks.format() if job.array_tasks is not None else job.array_task_id
                array = f" {job.array_job_id}_[{tasks}]"
            detail = f" ({job.reason_detail})" if job.reason_detail else ""
            dependency = f" dep={job.dependency}" if job.dependency else ""
            exit_ = f" {job.exit_code}:{job.exit_signal}" if job.end_at_us else ""
            if job.state is JobState.SUSPENDED:
                detail += f" by {job.suspended_by.name}"
            attempt = f" attempt {job.attempt}" if job.attempt else ""
            lines.append(
                f"{job.job_id}{array} {COMPACT_STATE[job.state]} {job.reason}{detail}{dependency}{exit_}{attempt}"
            )
        return lines

    def accounts(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """sacctmgr: accounts add account physics fairshare=3."""
        actor, accounts = self.world.actor(keys.pop("user", "root")), tuple(filter(None, [keys.pop("in", "")]))
        action, entity, *names = plain
        event = ChangeAccounts(
            actor, AccountAction[action.upper()], entity, tuple(names), keys, accounts, reply_to=self.world.reply_to()
        )
        return self.world.do(event)

    def priorities(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """What sprio shows: the sum, and its parts."""
        state, lines = self.world.core.state, []
        for job in sorted(state.jobs.values(), key=lambda j: j.job_id):
            if job.state is not JobState.PENDING:
                continue
            for name in job.request.partitions:
                found = priority.explain(state, job, state.partitions[name])
                number = priority.in_partition(state, job, state.partitions[name])
                if found is None:
                    lines.append(f"{job.job_id} {name} {number}")
                    continue
                age, assoc, fair, rest = found
                parts = f"age={age} assoc={assoc} fair={fair} size={rest.size} part={rest.partition} nice={rest.nice}"
                lines.append(f"{job.job_id} {name} {number}: {parts}")
        return lines

    def shares(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """What sshare shows."""

        def show(assoc: Assoc, depth: int) -> list[str]:
            rank = f" {assoc.factor[0]}/{assoc.factor[1]}" if assoc.user_name else ""
            line = f"{' ' * depth}{assoc.user_name or assoc.account} shares={assoc.shares}"
            lines = [f"{line} usage={assoc.total // USAGE_ONE}{rank}"]
            for child in assoc.children.values():
                lines += show(child, depth + 1)
            return lines

        return show(self.world.core.state.shares.root, 0)

    def story(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """story JOB: the lines of its history."""
        lines = (row for row in self.world.history if row.job_id == int(plain[0]))
        return [f"{row.attempt} {row.event} {row.detail}".rstrip() for row in lines]

    def ran(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """How many seconds each job has run."""
        jobs = [self.world.core.state.jobs[int(word)] for word in plain]
        return [f"{job.job_id} ran {run_us(job, self.world.now_us) // 1_000_000} s" for job in jobs]

    def nodes(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """nodes: all nodes with flags, CPUs and memory in use, and reason."""
        return [
            f"{n.name} {n.flags.name if n.flags else 'up'} {n.cpus_alloc}/{n.cpus} cpus {n.mem_alloc_mb}MB"
            + (f" ({n.reason})" if n.reason else "")
            for n in self.world.core.state.node_list
        ]  # fmt: skip

    def _wish(self, keys: dict[str, str]) -> ReservationSettings:
        users = {name.lstrip("+-"): 0 for name in keys.get("users", "").split(",") if name}
        names = Names({name: USERS.get(name, 4242) for name in users}, {"ann": (USERS["ann"],)})
        return wanted_reservation(keys, names, self.world.now_us)

    def _reservation(self, make: Callable[..., Event], plain: list[str], keys: dict[str, str]) -> list[str]:
        actor = self.world.actor(keys.pop("user", "root"))
        try:
            wish = self._wish(keys)
        except BadRequest as error:
            return [f"refused: {error.text}"]
        return self.world.do(make(actor, plain[0] if plain else "", wish, self.world.reply_to()))

    def reserve(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """reserve NAME user=root KEY=VALUE: scontrol create reservation."""
        return self._reservation(CreateReservation, plain, keys)

    def rechange(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """rechange NAME user=root KEY=VALUE: scontrol update reservation."""
        return self._reservation(UpdateReservation, plain, keys)

    def unreserve(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """unreserve NAME user=root: scontrol delete reservation."""
        actor = self.world.actor(keys.pop("user", "root"))
        return self.world.do(DeleteReservation(actor, plain[0], self.world.reply_to()))

    def reservations(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """reservations: all of them, with seconds since the scenario began."""
        state, now_us = self.world.core.state, self.world.now_us
        lines = []
        for r in state.reservations.values():
            info = reservation_info(state, r, now_us)
            start_s, end_s = ((at - START_US) // 1_000_000 for at in (info.start_at_us, info.end_at_us))
            active = "active" if info.is_active else "inactive"
            lines.append(
                f"{r.name} {start_s}-{end_s} {active} {info.flags} nodes={info.node_list} {info.tres}"
                f" users={','.join(info.users)} accounts={','.join(info.accounts)}"
            )
        return lines or ["none"]

    def spans(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """What accounting receives about suspensions and sizes of jobs: suspended from - to, or what was held until then."""
        return [
            f"{row.job_id}.{row.attempt} "
            + (f"held {row.tres} until {_s(row.end_at_us)}" if row.tres else _length("suspended", row))
            for row in self.world.job_spans
        ] or ["none"]

    def reserved(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """What accounting receives about reservations."""
        rows = [self.world.reservation_spans[key] for key in sorted(self.world.reservation_spans)]
        return [_length(f"{row.resv_id} {row.name}", row) + f" {row.nodes} {row.tres} {row.who}" for row in rows] or [
            "none"
        ]

    def site(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """site KEY=VALUE: a fresh cluster with switches, sockets or features (sites.py)."""
        partitions = _partitions(keys, int(keys.get("nodes", 2)))
        config = make_site(plain, keys, _value)
        self.world = World(replace(config, partitions=partitions or config.partitions))
        for node in self.world.config.nodes:
            self.world.register(node.name)
        return [f"{len(self.world.config.nodes)} nodes"]

    def held(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """The numbers of what a job holds, node by node."""
        lines = []
        for word in plain:
            job = self.world.core.state.jobs[int(word)]
            for part in job.alloc:
                gres = "".join(f" {name} {_bits(mask)}" for name, _, mask in part.gres)
                lines.append(f"{word} {part.node} cpus {_bits(part.cpu_ids)}{gres} limit {job.time_limit_s}")
        return lines

    def licenses(self, plain: list[str], keys: dict[str, str]) -> list[str]:
        """licenses: what is free of each kind."""
        state = self.world.core.state
        return [
            f"{name} {free} free" for name, free in zip(state.layout.license_kinds, state.free_licenses, strict=True)
        ]


def _partitions(keys: dict[str, str], nodes: int) -> tuple[PartitionConfig, ...]:
    """Takes partition.NAME=KEY=VALUE;... from the keys."""
    lines = {name.partition(".")[2]: keys.pop(name) for name in list(keys) if name.startswith("partition.")}
    names = tuple(f"n{i}" for i in range(1, nodes + 1))
    keys_of = {name: _split(line.split(";"))[1] for name, line in lines.items()}
    return tuple(
        PartitionConfig(name, names, **{k: _config_value(k, v) for k, v in fields.items()})  # type: ignore[arg-type]  # keywords of many types
        for name, fields in keys_of.items()
    )


def _s(at_us: int) -> int:
    return (at_us - START_US) // 1_000_000


def _length(what: str, row: Any) -> str:
    return f"{what} {_s(row.start_at_us)}-{_s(row.end_at_us)}"


def _bits(mask: int) -> str:
    return TaskSet.of(i for i in range(mask.bit_length()) if mask >> i & 1).format() if mask else "none"


def run_script(text: str) -> str:
    """Run a file's blocks and return the file as it should be."""
    script, blocks = Script(), []
    for block in text.strip().split("\n\n"):
        head = block.split("\n----", 1)[0]
        commands = [line for line in head.split("\n") if line and not line.startswith("#")]
        if not commands:
            blocks.append(block)
            continue
        lines: list[str] = []
        for command in commands:
            word, *rest = command.split()
            method: Callable[[list[str], dict[str, str]], list[str]] = getattr(
                script, {"await": "await_"}.get(word, word)
            )
            lines += method(*_split(rest))
        blocks.append("\n".join([head, "----", *lines]))
    return "\n\n".join(blocks) + "\n"


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda p: p.stem)
def test_script(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(World, "is_checked_before_passes", True)
    text = path.read_text()
    got = run_script(text)
    if os.environ.get("PENSTOCK_BLESS"):
        path.write_text(got)
        text = got
    assert got == text


def test_there_are_scripts() -> None:
    assert len(SCRIPTS) >= 10
