"""Events: the input of the core. Requests are imperatives, facts are participles, time is `Tick`.

The adapter that creates the event has resolved everything: uids, names, hashes, parsed dates. `reply_to` is an opaque
number that is returned in the `Reply` effect; 0 = no reply.
"""

from enum import IntEnum

# Any: JSON objects, and fields of rooms above, whose types may not be imported here
from typing import Any

import msgspec

from ctld.core.records.accounting_events import AccountAction as AccountAction
from ctld.core.records.accounting_events import ChangeAccounts as ChangeAccounts
from ctld.core.records.accounting_events import ChangeMany as ChangeMany
from ctld.core.records.accounting_events import ChangeQos as ChangeQos
from ctld.core.records.accounting_events import QosAction as QosAction
from ctld.core.records.event_base import Actor as Actor
from ctld.core.records.event_base import Event as Event
from ctld.core.records.event_base import Role as Role
from ctld.core.records.gpu import GpuAction, GpuFacts, GpuOpinion
from ctld.core.records.job import SpecRow
from ctld.core.records.job_submission import JobSubmission as JobSubmission
from ctld.core.records.step import StepRequest
from ctld.core.records.token_events import CreatePersonalToken as CreatePersonalToken
from ctld.core.records.token_events import PersonalTokenUsed as PersonalTokenUsed
from ctld.core.records.token_events import RevokePersonalToken as RevokePersonalToken
from ctld.core.records.token_events import RevokeTokens as RevokeTokens
from penstock.values.amendment import Amendment
from penstock.values.config import Config
from penstock.values.taskset import TaskSet


class RecordAct(Event, frozen=True):
    """An action, done or denied, outside of the core: for the audit log. The reply is sent when it is written."""

    actor: Actor | None  # None = unknown
    action: str
    objects: tuple[str, ...] = ()
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None
    asked: dict[str, Any] | None = None
    result: str = "done"
    more: dict[str, Any] | None = None  # other fields of the record
    reply_to: int = 0
    transaction: tuple[str, str] | None = None  # for a change of accounting: sacctmgr's action, and its object


class LoadConfig(Event, frozen=True):
    """A validated configuration is to be loaded: at start or by `scontrol reconfigure`."""

    config: Config
    reply_to: int = 0
    amendments: tuple[Amendment, ...] = ()  # its new amendments beside the file
    dropped: tuple[tuple[str, str], ...] = ()  # (kind, name) of removed amendments
    act: RecordAct | None = None  # the requesting user; None = the start, or a signal
    by_hand: bool = False  # a change to the configuration in force, not the file


class Tick(Event, frozen=True):
    """Time has passed: everything due at `now` is handled."""


class JobFilter(msgspec.Struct, frozen=True, gc=False):
    """A filter of jobs. Empty fields do not filter. `ids` holds selectors as written; uids are resolved."""

    ids: tuple[str, ...] = ()
    uids: tuple[int, ...] = ()
    partitions: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    states: tuple[int, ...] = ()
    nodes: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    qos: tuple[str, ...] = ()
    reservations: tuple[str, ...] = ()
    wckeys: tuple[str, ...] = ()
    #: a given user name is unknown on this host: nothing matches
    unknown_user: bool = False
    # PrivateData: the caller sees only jobs of this uid, and of these accounts; -1 = all
    seen_uid: int = -1
    seen_accounts: tuple[str, ...] = ()


class SubmitJob(Event, frozen=True):
    """sbatch. `submit_key` is 32 hex digits of a UUID version 7; `key_at_us` its time part."""

    actor: Actor
    submit_key: str
    key_at_us: int
    job: JobSubmission
    spec: SpecRow
    test_only: bool = False
    reply_to: int = 0
    components: tuple[JobSubmission, ...] = ()  # of a heterogeneous job: those after `job`


class AwaitJob(Event, frozen=True):
    """Answer when the job (all tasks of an array) has ended."""

    actor: Actor
    job_id: int
    reply_to: int


class StopWaiting(Event, frozen=True):
    """The caller of an AwaitJob, AwaitAllocation, AwaitStep or CreateStep has disconnected, or its wait has timed out."""

    reply_to: int


class AwaitAllocation(Event, frozen=True):
    """Answer when the job has its nodes, or has ended; `wait` False: answer now."""

    actor: Actor
    job_id: int
    wait: bool
    reply_to: int


class EndAllocation(Event, frozen=True):
    """The owner of a job without a script ends it; the exit code becomes the job's."""

    actor: Actor
    job_id: int
    exit_code: int = 0
    exit_signal: int = 0
    reply_to: int = 0


class CreateStep(Event, frozen=True):
    """srun: start a step in a job. `wait` False: refuse it when its resources are in use by other steps. `spec` has no
    script."""

    actor: Actor
    job_id: int
    step_key: str
    request: StepRequest
    spec: SpecRow
    wait: bool = True
    reply_to: int = 0


class AwaitStep(Event, frozen=True):
    """Answer when the step has ended; `wait` False: answer now."""

    actor: Actor
    job_id: int
    attempt: int
    step_id: int
    wait: bool
    reply_to: int


class NotifyJob(Event, frozen=True):
    """scontrol notify: a line for the error output of a job."""

    actor: Actor
    id: str
    text: str
    reply_to: int = 0


class CancelJobs(Event, frozen=True):
    """scancel. `signal_no` 0 = cancel, else send that signal to running jobs."""

    actor: Actor
    which: JobFilter
    signal_no: int = 0
    batch_only: bool = False
    full: bool = False
    reply_to: int = 0
    cron: bool = False  # includes jobs of crontabs
    chosen: tuple[int, ...] = ()  # a filter with very many matches is processed in parts: those of this part
    tasks: TaskSet | None = None  # of the array that the only id names, whose records are as many: those of this part


class ControlAction(IntEnum):
    """Numbers of the wire's ControlJobsRequest.Action."""

    HOLD = 1
    RELEASE = 2
    REQUEUE = 3
    USER_HOLD = 4
    REQUEUE_HOLD = 5
    SUSPEND = 6
    RESUME = 7
    TOP = 260
    REQUEUE_SPECIAL = 261  # held as SPECIAL_EXIT


class ControlJobs(Event, frozen=True):
    """scontrol hold, release, requeue."""

    actor: Actor
    ids: tuple[str, ...]
    action: ControlAction
    reply_to: int = 0
    tasks: TaskSet | None = None  # as in CancelJobs


class UpdateJobs(Event, frozen=True):
    """scontrol update jobid=, and sacctmgr modify job for jobs that are still in memory.

    `changes`: canonical lower-case key -> value; dates, by key, as microseconds in `dates`. `which`: instead of `ids`,
    the jobs of a name, and of a user if given, that have not ended.
    """

    actor: Actor
    ids: tuple[str, ...]
    changes: dict[str, str]
    dates: dict[str, int] = msgspec.field(default_factory=dict)
    reply_to: int = 0
    which: JobFilter | None = None
    chosen: tuple[int, ...] = ()  # as in CancelJobs; with `ids`, the only ones of what they select
    tasks: TaskSet | None = None
    of_records: bool = False  # of jobs that may have ended: sacctmgr modify job


class CronEntry(msgspec.Struct, frozen=True, gc=False):
    """One entry of a crontab: its job, its schedule, and its lines (from the first of its options to its own), from 1."""

    job: JobSubmission
    spec: SpecRow
    cron: str
    first_line: int
    last_line: int


class UpdateCrontab(Event, frozen=True):
    """scrontab: `text` with its entries replaces the owner's crontab; None = remove it."""

    actor: Actor
    owner: Actor
    text: str | None
    entries: tuple[CronEntry, ...] = ()
    reply_to: int = 0


class SetTrigger(Event, frozen=True):
    """strigger --set. `kinds`: ctld.core.records.periodic.TriggerKind; `nodes` are known names, () = all."""

    actor: Actor
    kinds: int
    program: str
    what: str = ""  # for events that cannot happen here: Slurm's name
    nodes: tuple[str, ...] = ()
    job_id: int = 0
    offset_s: int = 0
    permanent: bool = False
    reply_to: int = 0


class ClearTriggers(Event, frozen=True):
    """strigger --clear: the triggers that match all given conditions. 0 and -1 = not given."""

    actor: Actor
    trigger_id: int = 0
    job_id: int = 0
    uid: int = -1
    reply_to: int = 0


class TriggerEnded(Event, frozen=True):
    """The program of a trigger has ended, successfully or not."""

    trigger_id: int


class UpdateNodes(Event, frozen=True):
    """scontrol update nodename=."""

    actor: Actor
    names: tuple[str, ...]
    changes: dict[str, str]
    reply_to: int = 0


class UpdatePartition(Event, frozen=True):
    """scontrol update partitionname=."""

    actor: Actor
    name: str
    changes: dict[str, str]
    reply_to: int = 0


class ReservationSettings(msgspec.Struct, frozen=True, gc=False):
    """The settings of a reservation; None = not given. Dates, uids and hostlists are resolved, cores are CPUs.

    Lists hold (sign, name): sign "" = set the list, "+" = add, "-" = remove or (where there is no list) deny.
    """

    start_at_us: int | None = None
    float_us: int | None = None  # if the start was written as now+N
    end_at_us: int | None = None
    duration_s: int | None = None  # -1 = UNLIMITED
    duration_sign: str = ""
    nodes: tuple[tuple[str, str], ...] | None = None
    all_nodes: bool = False
    node_count: int | None = None
    node_count_sign: str = ""
    cores: tuple[int, ...] | None = None
    cpus: int | None = None
    gres: tuple[tuple[str, str, int], ...] | None = None
    gres_per_node: tuple[tuple[str, str, int], ...] | None = None
    partition: str | None = None
    features: str | None = None
    users: tuple[tuple[str, str, int], ...] | None = None  # (sign, name, uid)
    groups: tuple[tuple[str, str, tuple[int, ...]], ...] | None = None  # (sign, name, uids of its members)
    accounts: tuple[tuple[str, str], ...] | None = None
    licenses: tuple[tuple[str, int], ...] | None = None
    flags_on: int = 0
    flags_off: int = 0
    purge_comp_s: int = -1
    comment: str | None = None
    qos: tuple[tuple[str, str], ...] | None = None
    allowed_partitions: tuple[tuple[str, str], ...] | None = None


class CreateReservation(Event, frozen=True):
    """scontrol create reservation. `name` "" = the controller chooses one."""

    actor: Actor
    name: str
    wanted: ReservationSettings
    reply_to: int = 0


class UpdateReservation(Event, frozen=True):
    """scontrol update reservationname=."""

    actor: Actor
    name: str
    wanted: ReservationSettings
    reply_to: int = 0


class DeleteReservation(Event, frozen=True):
    """scontrol delete reservationname=."""

    actor: Actor
    name: str
    reply_to: int = 0


class HeldStep(msgspec.Struct, frozen=True, gc=False):
    """A step that a node reports. `state`: ACCEPTED, RUNNING, EXITED or TOMBSTONE."""

    job_id: int
    attempt: int
    step_id: int
    state: str
    epoch: int
    suspended: bool = False
    lease_s: int = 0  # it stops itself after so many seconds without contact; 0 = never
    lease_grace_s: int = 0
    start_at_us: int = 0  # 0 = it has not started, or unknown
    #: A controller has acknowledged its end: no report of it follows. `told` is its name in flight records.
    end_acknowledged: bool = msgspec.field(default=False, name="told")


class NodeRegistered(Event, frozen=True):
    """A node daemon opened its stream (`link_id` names the stream), with its inventory and its steps."""

    node: str
    link_id: int
    boot_id: str
    spool_id: str
    version: str
    cpus: int
    sockets: int
    cores_per_socket: int
    threads_per_core: int
    real_memory_mb: int
    tmp_disk_mb: int
    gres: tuple[tuple[str, str, int], ...]  # (name, type, count) as found
    held: tuple[HeldStep, ...]
    os: str = ""
    arch: str = ""
    boot_at_us: int = 0
    started_at_us: int = 0
    pretended: bool = False
    spool_lost: bool = False
    stream_port: int = 0
    stream_tls: bool = False
    gpus: tuple[GpuFacts, ...] = ()  # those with UUIDs, in the node's order
    gpu_opinions: tuple[GpuOpinion, ...] = ()
    gpus_at_us: int = 0  # the node's time of that judgement
    gpu_driver: str = ""
    cuda_version: str = ""
    nvml_version: str = ""
    gpu_constraint: str = ""
    gpu_why: str = ""  # why NVML does not answer
    epoch_seen: int = 0  # the highest epoch of its orders
    job_id_seen: int = 0  # the highest job id that it has a record of
    instance_id: str = ""  # of a machine in a cloud; "" = what was set stays
    instance_type: str = ""
    extra: str = ""


class NodeDisconnected(Event, frozen=True):
    """The stream was closed, or has timed out."""

    node: str
    link_id: int


class NodeClockSeen(Event, frozen=True):
    """The clock of a node's machine was compared with the controller's. Announced when that changes something."""

    node: str
    link_id: int
    off_us: int  # ahead of the controller's
    is_usable: bool  # False: too wrong for jobs


class NodeNotice(Event, frozen=True):
    """A node's report of a problem that belongs to no step: a process that cannot be killed, a sick GPU, ..."""

    node: str
    spool_id: str
    sequence: int
    link_id: int
    at_us: int
    reason: str
    drain: bool = False  # drain it until an administrator resumes it
    fail: bool = False  # set the node to FAIL
    clear: bool = False  # the problem with this reason is over
    job_id: int = 0  # the step that caused it, if any
    attempt: int = 0
    step_id: int = 0
    signal_no: int = 0  # that the step was sent for it, by the site's policy (PenstockHangAction)


class GpuReported(Event, frozen=True):
    """A node's report about its GPUs."""

    node: str
    spool_id: str
    sequence: int
    link_id: int
    at_us: int  # the node's time, which orders its reports
    opinions: tuple[GpuOpinion, ...] = ()  # of those that have changed
    action: GpuAction = GpuAction.NONE  # the consequence for the jobs that had them
    jobs: tuple[tuple[int, int], ...] = ()  # (job id, attempt)
    cause: str = ""
    gpus: tuple[GpuFacts, ...] | None = None  # when the inventory has changed
    versions: tuple[str, str, str] = ("", "", "")  # with `gpus`: of driver, CUDA and NVML
    why: str = ""  # with `gpus`: why NVML does not answer
    by_our_clock_us: int = 0  # `at_us` by the controller's clock; 0 = as `at_us`


class GpuWorkDone(Event, frozen=True):
    """The result of work on an idle GPU: done, or not possible."""

    node: str
    spool_id: str
    sequence: int
    link_id: int
    work_id: str
    uuid: str
    ok: bool
    text: str = ""
    untried: bool = False  # nothing was done, and nothing was detected
    gpus: tuple[GpuFacts, ...] | None = None  # the inventory, when that has changed


class GpuIdle(Event, frozen=True):
    """GPUs of a job are idle, or in use again (`over`)."""

    node: str
    spool_id: str
    sequence: int
    link_id: int
    job_id: int
    attempt: int
    uuids: tuple[str, ...]
    since_us: int
    over: bool = False
    unused: bool = False  # no process of the job has them open


class StepStarted(Event, frozen=True):
    """A task of the step runs."""

    node: str
    job_id: int
    attempt: int
    step_id: int
    at_us: int
    spool_id: str
    sequence: int
    link_id: int


class StepExited(Event, frozen=True):
    """A step has ended on its node, or could not be started (`start_at_us` 0, `failure` says why)."""

    node: str
    job_id: int
    attempt: int
    step_id: int
    spool_id: str
    sequence: int
    link_id: int
    start_at_us: int
    end_at_us: int
    exit_code: int
    exit_signal: int
    failure: str = ""
    out_of_memory: bool = False
    user_cpu_us: int = 0
    system_cpu_us: int = 0
    max_rss_kb: int = 0
    max_vmsize_kb: int = 0
    disk_read_bytes: int = 0
    disk_write_bytes: int = 0
    untried: bool = False  # nothing of it has run or will, and the job is not at fault
    rebooted: bool = False  # the node went down while it ran
    lease_lapsed: bool = False  # it stopped itself, as its node was unreachable
    holder_stage: str = ""  # of an extern step: prolog or epilog, when that failed
    metrics: tuple[tuple[int, int, int, int, int, int], ...] = ()  # kind, total, max, its rank, min, its rank
    metric_tasks: int = 0  # that they were taken of
    #: exit code, signal, ranks: of its tasks that did not end with 0; and the number of those in no group
    task_ends: tuple[tuple[int, int, str], ...] = ()
    task_ends_left_out: int = 0


class StepProfiled(Event, frozen=True):
    """A node has recorded time lines of a step that runs there, which is about to end. The content is not read here."""

    node: str
    job_id: int
    attempt: int
    step_id: int
    spool_id: str
    sequence: int
    link_id: int
    profile: bytes


class Quarantine(Event, frozen=True, tag="Distrust"):  # the name in flight records
    """Jobs and timers that made earlier processes fail: pending jobs are held, the timers are skipped. Comes first."""

    jobs: tuple[int, ...]
    timers: tuple[tuple[str, int | str], ...]  # (kind, key)


class ClockJumped(Event, frozen=True):
    """The wall clock has been set forward: the next event has a time that much later."""

    jump_us: int


class NodeFenced(Event, frozen=True):
    """The fencing program has ended. `off`: nothing runs on the node any more; else `text` describes the failure."""

    node: str
    lost_link_id: int
    off: bool
    text: str = ""


class ScriptEnded(Event, frozen=True):
    """PrologSlurmctld has ended for an attempt of a job; `failure` "" = success."""

    job_id: int
    attempt: int
    failure: str = ""


class LaunchRefused(Event, frozen=True):
    """The node did not accept a launch (`why` is its message). `never`: no node will, so the job fails."""

    node: str
    job_id: int
    attempt: int
    step_id: int
    why: str
    never: bool = False


class PlanReady(Event, frozen=True):
    """A full scheduling pass has returned: the contents of planning.Answer.

    `starts`, highest rank first: (job id, partition index, seconds granted, ((node index, cpus, tasks, MB), ...)).
    """

    revision: int
    starts: tuple[Any, ...]
    reasons: tuple[tuple[int, int], ...]  # (job id, reason of _fastsched.contract)
    victims: tuple[tuple[int, int], ...] = ()  # (pending job id, running job id)
    forecast: Any = None  # planning.Forecast; the flight recorder omits it, since no decision depends on it


def reply_to_of(event: Event) -> int:
    """The caller that waits for an answer; 0 where none does, or the event is no request."""
    return getattr(event, "reply_to", 0)
