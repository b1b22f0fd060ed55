"""What comes in: requests are imperatives, facts are participles, time is `Tick`.

Everything is resolved by the adapter that makes the event: uids, names, hashes, parsed dates. `reply_to` is an opaque
number that comes back in the `Reply` effect; 0 = nobody waits.
"""

from enum import IntEnum
from typing import Any

import msgspec

from ctld.core.accounting_events import AccountAction as AccountAction
from ctld.core.accounting_events import ChangeAccounts as ChangeAccounts
from ctld.core.accounting_events import ChangeMany as ChangeMany
from ctld.core.accounting_events import ChangeQos as ChangeQos
from ctld.core.accounting_events import QosAction as QosAction
from ctld.core.event_base import Actor as Actor
from ctld.core.event_base import Event as Event
from ctld.core.event_base import Role as Role
from ctld.core.gpu_model import GpuAction, GpuFacts, GpuOpinion
from ctld.core.model import SpecRow
from ctld.core.step_model import StepRequest
from ctld.core.wanted_job import WantedJob as WantedJob
from penstock.values.amendment import Amendment
from penstock.values.config import Config


class RecordAct(Event, frozen=True):
    """What was done, or was denied, outside of the core: for the audit log. The reply leaves when it is written."""

    actor: Actor | None  # None = nobody who is known
    action: str
    objects: tuple[str, ...] = ()
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None
    asked: dict[str, Any] | None = None
    result: str = "done"
    more: dict[str, Any] | None = None  # other fields of the record
    reply_to: int = 0
    transaction: tuple[str, str] | None = None  # it is one of accounting, too: the action in sacctmgr's words, and what


class LoadConfig(Event, frozen=True):
    """A validated configuration takes force: at start or by `scontrol reconfigure`."""

    config: Config
    reply_to: int = 0
    amendments: tuple[Amendment, ...] = ()  # what it has beside the file, as far as that is new
    dropped: tuple[tuple[str, str], ...] = ()  # (kind, name) of those that count no longer
    act: RecordAct | None = None  # whose wish it is; None = the start's, or a signal's


class Tick(Event, frozen=True):
    """Time has passed: everything due at `now` happens."""


class JobFilter(msgspec.Struct, frozen=True, gc=False):
    """Which jobs. Empty fields do not filter. `ids` holds selectors as written; uids are resolved."""

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
    #: a user name was asked for that this host does not know: nothing matches
    unknown_user: bool = False
    # PrivateData: who asks sees only jobs of this uid, and of these accounts; -1 = all
    seen_uid: int = -1
    seen_accounts: tuple[str, ...] = ()


class SubmitJob(Event, frozen=True):
    """sbatch. `submit_key` is 32 hex digits of a UUID version 7; `key_at_us` its time part."""

    actor: Actor
    submit_key: str
    key_at_us: int
    job: WantedJob
    spec: SpecRow
    test_only: bool = False
    reply_to: int = 0
    components: tuple[WantedJob, ...] = ()  # of a heterogeneous job: those after `job`


class AwaitJob(Event, frozen=True):
    """Answer when the job (all tasks of an array) has ended."""

    actor: Actor
    job_id: int
    reply_to: int


class StopWaiting(Event, frozen=True):
    """The caller of an AwaitJob, AwaitAllocation, AwaitStep or CreateStep went away, or has waited for long enough."""

    reply_to: int


class AwaitAllocation(Event, frozen=True):
    """Answer when the job has its nodes, or has ended; `wait` False: as it is now."""

    actor: Actor
    job_id: int
    wait: bool
    reply_to: int


class EndAllocation(Event, frozen=True):
    """The owner of a job without a script needs it no more; the exit becomes the job's."""

    actor: Actor
    job_id: int
    exit_code: int = 0
    exit_signal: int = 0
    reply_to: int = 0


class CreateStep(Event, frozen=True):
    """srun: start a step in a job. `wait` False: what is in use by other steps is refused. `spec` has no script."""

    actor: Actor
    job_id: int
    step_key: str
    request: StepRequest
    spec: SpecRow
    wait: bool = True
    reply_to: int = 0


class AwaitStep(Event, frozen=True):
    """Answer when the step has ended; `wait` False: as it is now."""

    actor: Actor
    job_id: int
    attempt: int
    step_id: int
    wait: bool
    reply_to: int


class NotifyJob(Event, frozen=True):
    """scontrol notify: a line for a job's people to see."""

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
    cron: bool = False  # jobs of crontabs are meant, too


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


class ControlJobs(Event, frozen=True):
    """scontrol hold, release, requeue."""

    actor: Actor
    ids: tuple[str, ...]
    action: ControlAction
    reply_to: int = 0


class UpdateJobs(Event, frozen=True):
    """scontrol update jobid=.

    `changes`: canonical lower-case key -> value; dates, by key, as microseconds in `dates`.
    `which`: instead of `ids`, the jobs that have not ended of a name, of a user if it says one.
    """

    actor: Actor
    ids: tuple[str, ...]
    changes: dict[str, str]
    dates: dict[str, int] = msgspec.field(default_factory=dict)
    reply_to: int = 0
    which: JobFilter | None = None


class CronEntry(msgspec.Struct, frozen=True, gc=False):
    """One entry of a crontab: its job, when it is due, and its lines (the first of its options to its own), from 1."""

    job: WantedJob
    spec: SpecRow
    cron: str
    first_line: int
    last_line: int


class UpdateCrontab(Event, frozen=True):
    """scrontab: `text` with its entries takes the place of the owner's crontab; None = remove it."""

    actor: Actor
    owner: Actor
    text: str | None
    entries: tuple[CronEntry, ...] = ()
    reply_to: int = 0


class SetTrigger(Event, frozen=True):
    """strigger --set. `kinds`: ctld.core.periodic.TriggerKind; `nodes` are known names, () = all."""

    actor: Actor
    kinds: int
    program: str
    what: str = ""  # of what cannot happen here: Slurm's word
    nodes: tuple[str, ...] = ()
    job_id: int = 0
    offset_s: int = 0
    permanent: bool = False
    reply_to: int = 0


class ClearTriggers(Event, frozen=True):
    """strigger --clear: those for which all that is said holds. 0 and -1 = not said."""

    actor: Actor
    trigger_id: int = 0
    job_id: int = 0
    uid: int = -1
    reply_to: int = 0


class TriggerEnded(Event, frozen=True):
    """The program of a trigger has ended, one way or another."""

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


class WantedReservation(msgspec.Struct, frozen=True, gc=False):
    """What is said of a reservation; None = not said. Dates, uids and hostlists are resolved, cores are CPUs.

    Lists hold (sign, name): sign "" = this is the list, "+" = add, "-" = take away or (where there is no list) deny.
    """

    start_at_us: int | None = None
    float_us: int | None = None  # when the start was written as now+N
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


class CreateReservation(Event, frozen=True):
    """scontrol create reservation. `name` "" = the controller makes one."""

    actor: Actor
    name: str
    wanted: WantedReservation
    reply_to: int = 0


class UpdateReservation(Event, frozen=True):
    """scontrol update reservationname=."""

    actor: Actor
    name: str
    wanted: WantedReservation
    reply_to: int = 0


class DeleteReservation(Event, frozen=True):
    """scontrol delete reservationname=."""

    actor: Actor
    name: str
    reply_to: int = 0


class HeldStep(msgspec.Struct, frozen=True, gc=False):
    """A step that a node says it knows. `state`: ACCEPTED, RUNNING, EXITED or TOMBSTONE."""

    job_id: int
    attempt: int
    step_id: int
    state: str
    epoch: int
    suspended: bool = False
    lease_s: int = 0  # it stops itself after so long without contact; 0 = it never does
    lease_grace_s: int = 0


class NodeRegistered(Event, frozen=True):
    """A node daemon opened its stream (`link_id` names the stream) and said what it is and holds."""

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
    gpus: tuple[GpuFacts, ...] = ()  # those that are known by name, in the node's order
    gpu_opinions: tuple[GpuOpinion, ...] = ()
    gpus_at_us: int = 0  # the node's clock when it thought so
    gpu_driver: str = ""
    cuda_version: str = ""
    nvml_version: str = ""
    gpu_constraint: str = ""
    gpu_why: str = ""  # why NVML does not answer


class NodeDisconnected(Event, frozen=True):
    """The stream is gone or silent."""

    node: str
    link_id: int


class NodeNotice(Event, frozen=True):
    """A node has noticed something that is no step's business: a process that cannot be killed, a sick GPU, ..."""

    node: str
    spool_id: str
    sequence: int
    link_id: int
    at_us: int
    reason: str
    drain: bool = False  # no new jobs there until somebody has looked
    fail: bool = False  # the node is to be taken as FAIL
    clear: bool = False  # what was noticed with this reason is over
    job_id: int = 0  # the step that it came up with, if any
    attempt: int = 0
    step_id: int = 0


class GpuReported(Event, frozen=True):
    """Something has happened to GPUs of a node."""

    node: str
    spool_id: str
    sequence: int
    link_id: int
    at_us: int
    opinions: tuple[GpuOpinion, ...] = ()  # of those that have changed
    action: GpuAction = GpuAction.NONE  # what it means for the jobs that had them
    jobs: tuple[tuple[int, int], ...] = ()  # (job id, attempt)
    cause: str = ""
    gpus: tuple[GpuFacts, ...] | None = None  # when what there is has changed
    versions: tuple[str, str, str] = ("", "", "")  # with `gpus`: of driver, CUDA and NVML
    why: str = ""  # with `gpus`: why NVML does not answer


class GpuWorkDone(Event, frozen=True):
    """A node has done, or could not do, something to an idle GPU."""

    node: str
    spool_id: str
    sequence: int
    link_id: int
    work_id: str
    uuid: str
    ok: bool
    text: str = ""
    untried: bool = False  # nothing was done, and nothing found out
    gpus: tuple[GpuFacts, ...] | None = None  # what there is now, when that has changed


class GpuIdle(Event, frozen=True):
    """GPUs of a job do nothing, or something again (`over`)."""

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
    untried: bool = False  # nothing of it has run or will, through no fault of the job
    rebooted: bool = False  # the node went down under it
    lease_lapsed: bool = False  # it stopped itself, as its node was out of reach
    holder_stage: str = ""  # of the holder of a job: prolog or epilog, when that failed
    metrics: tuple[tuple[int, int, int, int, int, int], ...] = ()  # kind, total, max, its rank, min, its rank
    metric_tasks: int = 0  # that they were taken of


class ClockJumped(Event, frozen=True):
    """The wall clock has been set forward: the next event comes with a time that much later."""

    jump_us: int


class NodeFenced(Event, frozen=True):
    """The fencing program has ended. `off`: nothing runs on the node any more; else `text` says what went wrong."""

    node: str
    lost_link_id: int
    off: bool
    text: str = ""


class ScriptEnded(Event, frozen=True):
    """PrologSlurmctld has ended for an attempt of a job; `failure` "" = well."""

    job_id: int
    attempt: int
    failure: str = ""


class LaunchRefused(Event, frozen=True):
    """The node did not accept a launch (`why` is its text)."""

    node: str
    job_id: int
    attempt: int
    step_id: int
    why: str


class PlanReady(Event, frozen=True):
    """A full scheduling pass has returned: what planning.Answer holds.

    `starts`, highest rank first: (job id, partition index, seconds granted, ((node index, cpus, tasks, MB), ...)).
    """

    revision: int
    starts: tuple[Any, ...]
    reasons: tuple[tuple[int, int], ...]  # (job id, reason of _fastsched.contract)
    victims: tuple[tuple[int, int], ...] = ()  # (pending job id, running job id)
    forecast: Any = None  # planning.Forecast; the flight recorder leaves it out, since nothing is decided by it


AnyEvent = Any
